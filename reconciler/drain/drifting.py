"""What a read found wrong with our row, and whether anybody is to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.model import Change, Reason, Verdict
from reconciler.store.runs import Drift

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from reconciler.model import Snapshot
    from reconciler.store.events import OpenEvent
    from reconciler.store.guard import Outcome
    from reconciler.store.refetches import Leased
    from reconciler.store.runs import Asking


def what_drifted(outcome: Outcome) -> str | None:
    """Return what was wrong with the row that this outcome corrected: missing, differs, extra; None: nothing was."""
    if outcome.verdict is not Verdict.APPLIED or outcome.change in {None, Change.LOADED, Change.RESHAPED}:
        return None
    if outcome.change is Change.DELETED:
        return "extra" if outcome.had_row else None
    return "differs" if outcome.had_row and not outcome.was_deleted else "missing"


def drift_of(
    leased: Leased, outcome: Outcome, *, asked: Sequence[OpenEvent], waiting: Sequence[Asking], in_flight: bool
) -> list[Drift]:
    """Return the drift that a run, or the read after a hand edit, has corrected."""
    edited = leased.reason is Reason.HAND_EDIT
    what = what_drifted(outcome)
    if what is None or not (edited or (waiting and not in_flight)):
        return []
    if edited and what == "differs" and not outcome.diff:
        return []  # edited and edited back
    cause = "hand_edit" if edited else "notification_pending" if asked else "other"
    return [Drift(leased.ref, what, cause, outcome.diff)]


def is_in_flight(snapshot: Snapshot, told: Iterable[datetime | None], *, within: timedelta) -> bool:
    """
    Say whether the object changed so lately that a notification may be on its way.

    That is by its provider's times: its stamp, and what events and feeds have *told*. One that is further ahead than
    *within* says nothing, or drift of an object with a poisoned stamp would never be called so.
    """
    times = (snapshot.stamp, *told)
    return any(time is not None and abs(snapshot.observed_at - time) < within for time in times)
