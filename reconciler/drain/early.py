"""Reads that may be too early: a provider told of a change, and may not show it yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.model import Verdict
from reconciler.store import events, refetches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter
    from reconciler.store.events import OpenEvent
    from reconciler.store.guard import Outcome
    from reconciler.store.mirror import Mirror
    from reconciler.store.refetches import Leased, Seen

BEHIND = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 5, 10, 30))
"""When an object older than its notification is read again, time after time."""


@dataclass(frozen=True, slots=True)
class Early:
    """
    What a read leaves to be read again.

    Attributes:
        wait: When to look again, from now; None: the read is good enough.
        seen: What the object's ladders have seen, after this read.
        waiting: The events that wait for the next read.
        ahead: The events that promised a state which never showed.
    """

    wait: timedelta | None
    seen: Seen
    waiting: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()


class EarlyReads:
    """
    Judges whether a read may show less than the events it answers promised.

    A read that was wanted before the time of a reread climbs no ladder and confirms nothing: that time stands.
    """

    def __init__(self, adapters: Mapping[str, Adapter], mirror: Mirror, behind: Sequence[timedelta] = BEHIND) -> None:
        self._adapters = adapters
        self._mirror = mirror
        self._steps = tuple(behind)

    def judge(
        self, connection: Connection, leased: Leased, *, outcome: Outcome, asked: Sequence[OpenEvent], now: datetime
    ) -> Early:
        """Return what to do about *outcome*, whose refetch this transaction has locked."""
        if outcome.verdict not in {Verdict.APPLIED, Verdict.UNCHANGED} or not asked:
            return Early(None, outcome.seen)
        stamped = self._mirror.of(leased.ref.source, leased.ref.kind).kind.stamp is not None
        if stamped and outcome.reading.snapshot.body is not None:
            return self._behind(connection, leased, outcome=outcome, asked=asked, now=now)
        return self._unconfirmed(connection, leased, outcome=outcome, asked=asked, now=now)

    def _behind(
        self, connection: Connection, leased: Leased, *, outcome: Outcome, asked: Sequence[OpenEvent], now: datetime
    ) -> Early:
        """Compare the stamps of object and notifications; after the last step the events are *ahead*."""
        seen, stamp = outcome.seen, outcome.reading.snapshot.stamp
        newer = [event for event in asked if event.stamp is not None and (stamp is None or stamp < event.stamp)]
        late = tuple(event.event_id for event in newer)
        if not late:
            level = replace(outcome, seen=replace(seen, behind=0))
            return self._level(connection, leased, outcome=level, asked=asked, now=now)
        last = self._steps[min(seen.behind, len(self._steps)) - 1]
        if seen.behind and (left := _left(connection, leased, now, within=last)):
            return Early(left, seen, waiting=late)
        if seen.behind < len(self._steps):
            return Early(self._steps[seen.behind], replace(seen, behind=seen.behind + 1), waiting=late)
        return Early(None, replace(seen, behind=0), ahead=late)

    def _level(
        self, connection: Connection, leased: Leased, *, outcome: Outcome, asked: Sequence[OpenEvent], now: datetime
    ) -> Early:
        """Confirm a read whose stamp tells of more than one change: stamps of whole seconds do not order those."""
        stamp = outcome.reading.snapshot.stamp
        same = [event for event in asked if stamp is not None and event.stamp == stamp]
        if len(same) > 1 or (same and outcome.stored_stamp == stamp):
            return self._unconfirmed(connection, leased, outcome=outcome, asked=same, now=now)
        return Early(None, outcome.seen)

    def _unconfirmed(
        self, connection: Connection, leased: Leased, *, outcome: Outcome, asked: Sequence[OpenEvent], now: datetime
    ) -> Early:
        """Where no stamp orders, confirm a read soon after its newest event once, unless the payloads show it."""
        lag, read_at = self._mirror.rules.read_lag, outcome.reading.snapshot.observed_at
        told = {event.event_id: event.occurred_at for event in asked if event.occurred_at is not None}
        newest = max(told.values(), default=None)
        if newest is None or read_at - newest >= lag:
            return Early(None, replace(outcome.seen, confirmed=None))
        waiting = tuple(event_id for event_id, occurred_at in told.items() if read_at - occurred_at < lag)
        if outcome.seen.confirmed == newest:
            left = _left(connection, leased, now, within=2 * lag)
            return Early(left, outcome.seen, waiting=waiting)
        if self._shown(connection, leased, outcome, [each for each in waiting if told[each] == newest]):
            return Early(None, replace(outcome.seen, confirmed=None))
        # An event dated in the future must not postpone its own confirmation for long.
        wait = min(lag - (read_at - newest), 2 * lag)
        return Early(wait, replace(outcome.seen, confirmed=newest), waiting=waiting)

    def _shown(self, connection: Connection, leased: Leased, outcome: Outcome, event_ids: Sequence[str]) -> bool:
        """Say whether each of these events shows what was read; two of one second that differ prove neither state."""
        adapter, ref = self._adapters[leased.ref.source], leased.ref
        form = self._mirror.of(ref.source, ref.kind).form
        shown = [adapter.shown(each, ref) for each in events.payloads(connection, ref.source, event_ids).values()]
        return outcome.digest is not None and all(
            body is not None and form.digest(form.stored(body)) == outcome.digest for body in shown
        )


def _left(connection: Connection, leased: Leased, now: datetime, *, within: timedelta) -> timedelta | None:
    """Return how far away the reread is that an earlier read has queued; None: this one began at its time or after."""
    standing = refetches.lock_seen(connection, [leased.ref])[leased.ref].again
    left = [time - now for time in standing if leased.began_at < time <= now + within]
    return max(min(left), timedelta(0)) if left else None
