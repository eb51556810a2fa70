"""What a read found wrong with our row, and whether anybody is to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.model import Change, Reason, Verdict
from reconciler.store.runs import Drift

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

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


def is_in_flight(outcome: Outcome, *, asked: Sequence[OpenEvent], waiting: Sequence[Asking], within: timedelta) -> bool:
    """Say whether the object changed so lately, by its provider's times, that a notification may be on its way."""
    told = [each.changed_at for each in waiting] + [event.occurred_at for event in asked]
    told.append(outcome.reading.snapshot.stamp)
    changed = max((time for time in told if time is not None), default=None)
    return changed is not None and outcome.reading.snapshot.observed_at - changed < within
