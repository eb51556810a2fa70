"""One look at one object: what was read is applied and settled, what was not is postponed or buried."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from reconciler.drain.drifting import drift_of, is_in_flight
from reconciler.drain.early import EarlyReads
from reconciler.drain.pausing import Pausing, asked_to_wait
from reconciler.errors import (
    AccessLost,
    DatabaseUnavailable,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from reconciler.model import Change, Origin, Proof, Reading, Reason, Verdict, Via
from reconciler.store import events, guard, refetches, runs, shares, statements
from reconciler.store.database import without_values
from reconciler.store.refetches import Absent, Again
from reconciler.telling import tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.config import DrainSettings
    from reconciler.drain.early import Early
    from reconciler.metrics import Metrics
    from reconciler.model import ObjectRef, Snapshot
    from reconciler.store.database import Database
    from reconciler.store.events import Closed, OpenEvent
    from reconciler.store.guard import Outcome
    from reconciler.store.mirror import Mirror
    from reconciler.store.refetches import Leased, Seen

_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(seconds=1), timedelta(minutes=10)

_VIA: Mapping[Reason, Via] = {
    Reason.WEBHOOK: Via.WEBHOOK,
    Reason.SWEEP: Via.SWEEP,
    Reason.TRIGGER: Via.TRIGGER,
    Reason.REPLAY: Via.REPLAY,
    Reason.TIE: Via.REREAD,
    Reason.REREAD: Via.REREAD,
    Reason.HAND_EDIT: Via.HAND_EDIT,
}


@dataclass(frozen=True, slots=True)
class Looked:
    """
    What looking at one object came to.

    Attributes:
        verdict: None: it got none (postponed, buried, or a first 404).
        error: Why not, in words.
        calls: Provider calls spent.
    """

    ref: ObjectRef
    verdict: Verdict | None
    error: str = ""
    calls: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who a read answers: events, locked by this transaction, and runs."""

    events: Sequence[OpenEvent]
    runs: Sequence[runs.Asking]

    @property
    def event_ids(self) -> list[str]:
        return [event.event_id for event in self.events]

    def origin(self, reason: Reason) -> Origin:
        newest = max(self.events, key=lambda event: event.occurred_at or event.received_at, default=None)
        return Origin(
            _VIA[reason],
            event_id=None if newest is None else newest.event_id,
            run_id=self.runs[0].run_id if self.runs else None,
        )


@dataclass(frozen=True, slots=True)
class _Concluded:
    outcome: Outcome
    origin: Origin
    closed: Sequence[Closed]
    drift: Sequence[runs.Drift]
    now: datetime


class Looking:
    """Looks at leased refetches; every way out of `look` but an exception settles, postpones or buries."""

    def __init__(
        self,
        database: Database,
        adapters: Mapping[str, Adapter],
        *,
        mirror: Mirror,
        budgets: Budgets,
        settings: DrainSettings,
        in_flight: timedelta,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._adapters = adapters
        self._mirror = mirror
        self._settings = settings
        self._in_flight = in_flight
        self._metrics = metrics
        self._early = EarlyReads(adapters, mirror)
        self.pausing = Pausing(database, adapters, budgets)
        self._random = random.Random()  # noqa: S311 - jitter, not a secret
        self._log = structlog.get_logger()

    def look(self, leased: Leased) -> Looked:
        """Fetch the object and conclude; raises `DatabaseUnavailable`, which leaves the lease to be given back."""
        try:
            return self._attempt(leased)
        except DatabaseUnavailable:
            raise
        except DBAPIError as error:
            return self._fail(leased, SourceUnavailable(without_values(error)))
        except Exception as error:  # noqa: BLE001 - a fault in one adapter costs its objects attempts, not all others
            self._log.exception("refetch.failed", ref=str(leased.ref))
            return self._fail(leased, SourceUnavailable(f"unexpected: {type(error).__name__}"))

    def back_off(self, attempts: int) -> timedelta:
        """Return how long to wait after so many failures: half to all of 1 s doubled each time, at most of 10 min."""
        longest = min(_SHORTEST_WAIT * 2 ** min(attempts, 16), _LONGEST_WAIT)
        return timedelta(seconds=longest.total_seconds() * self._random.uniform(0.5, 1))

    def _attempt(self, leased: Leased) -> Looked:
        adapter = self._adapters[leased.ref.source]
        try:
            snapshot = adapter.fetch(leased.ref, locator=leased.locator)
            if snapshot.proof is Proof.NOT_FOUND and not self._is_tombstone(leased.ref):
                adapter.identity(leased.ref.scope)  # the parent must be readable, or nothing is proved
                if not self._is_proved(leased):
                    return self._note_absence(leased, snapshot)
            if snapshot.body is None and self._leave_to_run(leased, snapshot):
                return Looked(leased.ref, None, f"{snapshot.because}; its run says whether it may go")
        except SourceError as error:
            return self._put_aside(leased, error)
        return self._conclude(leased, snapshot)

    # --- what was read ---

    def _conclude(self, leased: Leased, snapshot: Snapshot) -> Looked:
        try:
            concluded = self._database.commit(lambda connection: self._apply(connection, leased, snapshot))
        except (DataError, IntegrityError, ValueError) as error:
            return self._bury(leased, SourceRefused(f"cannot be stored: {without_values(error)}"))
        ref, outcome = leased.ref, concluded.outcome
        self._metrics.fetched(ref.source, ref.kind, "absent" if snapshot.body is None else "present")
        self._tell(concluded)
        self.pausing.seen(leased)
        return Looked(ref, outcome.verdict, outcome.because)

    def _tell(self, concluded: _Concluded) -> None:
        ref = concluded.outcome.ref
        tell([concluded.outcome], origin=concluded.origin, metrics=self._metrics)
        for each in concluded.closed:
            self._metrics.fresh(ref.source, (concluded.now - each.received_at).total_seconds())
        run_id = concluded.origin.run_id
        for drift in concluded.drift:
            # Why it drifted is known, and counted, at the end of the run that found it.
            known = {"run_id": run_id} if run_id is not None else {"cause": drift.cause}
            self._log.warning("drift.repaired", ref=str(ref), what=drift.what, **known)
            if run_id is None:
                self._metrics.drifted(ref.source, ref.kind, drift.cause)

    def _apply(self, connection: Connection, leased: Leased, snapshot: Snapshot) -> _Concluded:
        """Apply what was read and settle who asked: events, refetch and runs, in the one transaction."""
        asked = _Asked(events.lock(connection, leased), runs.asking(connection, leased))
        origin = asked.origin(leased.reason)
        loading = runs.loading(connection, [each.run_id for each in asked.runs]) if asked.runs else frozenset()
        reading = Reading(snapshot, leased.read_from, None, leased.began_at)
        [outcome] = guard.apply(connection, [reading], origin=origin, mirror=self._mirror, loading=loading)
        now = statements.one(connection, "clock", {"now": None}).now
        if outcome.forgotten:
            refetches.settle(connection, leased, verdict=outcome.verdict)
            runs.answer(connection, leased, verdict=str(outcome.verdict))
            return _Concluded(
                outcome, origin, events.close(connection, leased.ref.source, asked.event_ids, now=now), (), now
            )
        early = self._early.judge(connection, leased, outcome=outcome, asked=asked.events, now=now)
        later = self._look_again(connection, leased, outcome, early, now)
        if outcome.held:
            shares.hold(connection, leased, because=outcome.because)
            runs.answer(connection, leased, verdict="held")
            return _Concluded(outcome, origin, (), (), now)
        if not refetches.settle(connection, leased, verdict=outcome.verdict):
            return _Concluded(outcome, origin, (), (), now)
        waiting = asked.event_ids if outcome.wanted is not None else early.waiting
        if later is not None:
            events.defer(connection, leased.ref, waiting, wanted=later)
        closed = events.close(connection, leased.ref.source, asked.event_ids, now=now, ahead=early.ahead)
        drift = self._answer_runs(connection, leased, outcome, asked)
        return _Concluded(outcome, origin, closed, drift, now)

    def _look_again(
        self, connection: Connection, leased: Leased, outcome: Outcome, early: Early, now: datetime
    ) -> int | None:
        """Queue the reread that a read which may be too early needs; return the number to wait for, if any."""
        if early.wait is None and early.seen == outcome.seen:
            return outcome.wanted
        times = () if early.wait is None else (now + early.wait,)
        again = Again(leased.ref, times, Reason.REREAD, early.seen, wants=bool(times), began_at=leased.began_at)
        return refetches.read_again(connection, [again], now=now).get(leased.ref, outcome.wanted)

    def _answer_runs(
        self, connection: Connection, leased: Leased, outcome: Outcome, asked: _Asked
    ) -> Sequence[runs.Drift]:
        """Tell the runs that wait what the read came to, and put on record what it had to correct."""
        told = [each.changed_at for each in asked.runs] + [event.occurred_at for event in asked.events]
        in_flight = is_in_flight(outcome.reading.snapshot, told, within=self._in_flight)
        if outcome.wanted is not None and not outcome.ladder:
            runs.defer(connection, leased, later=outcome.wanted)
        else:
            runs.answer(connection, leased, verdict=_answer(outcome, in_flight=in_flight))
        found = drift_of(leased, outcome, asked=asked.events, waiting=asked.runs, in_flight=in_flight)
        runs.drifted(connection, found, run_id=asked.runs[0].run_id if asked.runs else None, repaired=True)
        return found

    # --- what was not there ---

    def _is_tombstone(self, ref: ObjectRef) -> bool:
        with self._database.transaction() as connection:
            row = statements.row(connection, "object", refetches.key(ref))
        return row is not None and row.deleted_at is not None

    def _is_proved(self, leased: Leased) -> bool:
        first = leased.seen.absent
        return (
            first is not None
            and leased.read_from > first.until
            and leased.began_at >= first.ended_at + self._mirror.rules.absence_recheck
        )

    def _note_absence(self, leased: Leased, snapshot: Snapshot) -> Looked:
        """Keep a first 404 in mind and look again: one alone proves nothing."""

        def note(connection: Connection) -> bool:
            drawn = statements.one(connection, "draw_position", {"now": None})
            first = leased.seen.absent
            # A note from ahead of the clock or of the number line is of before a failover.
            if first is None or first.ended_at > drawn.now or first.until >= drawn.position:
                first = Absent(drawn.position, drawn.now)
            due_at = max(drawn.now, first.ended_at + self._mirror.rules.absence_recheck)
            # Whose lease has run out may have read before a live read that has been applied since.
            if not refetches.postpone(connection, leased, due_at=due_at, because=snapshot.because, counts=False):
                return False
            seen = replace(leased.seen, absent=first)
            again = Again(leased.ref, (due_at,), Reason.REREAD, seen, wants=False, began_at=leased.began_at)
            refetches.read_again(connection, [again], now=drawn.now)
            return True

        if self._database.commit(note):
            self._log.info("refetch.not_found", ref=str(leased.ref), because=snapshot.because)
        self._metrics.fetched(leased.ref.source, leased.ref.kind, "not_found")
        self.pausing.seen(leased)
        return Looked(leased.ref, None, f"{snapshot.because}; looked at again before it is believed")

    def _leave_to_run(self, leased: Leased, snapshot: Snapshot) -> bool:
        """
        Put a proven absence aside if only a run asked for the read that has yet to say how much may go.

        So a run lets go of all that it meets of a kind, or of nothing: it knows how much that is when all is read.
        """

        def leave(connection: Connection) -> bool:
            if not shares.decides(connection, leased.ref) or events.lock(connection, leased):
                return False
            row = statements.row(connection, "object", refetches.key(leased.ref))
            if row is None or row.deleted_at is not None:
                return False
            due_at = statements.one(connection, "clock", {"now": None}).now + shares.DECIDED_WITHIN
            if refetches.postpone(connection, leased, due_at=due_at, because=snapshot.because, counts=False):
                runs.answer(connection, leased, verdict="absent")
            return True

        if not self._database.commit(leave):
            return False
        self._metrics.fetched(leased.ref.source, leased.ref.kind, "absent")
        self.pausing.seen(leased)
        return True

    # --- what was not read ---

    def _put_aside(self, leased: Leased, error: SourceError) -> Looked:
        """
        Postpone the refetch while trying again may help and somebody is answered; otherwise bury it.

        One whose kind may not be read waits for the permission with all others of it.
        """
        self._metrics.fetched(leased.ref.source, leased.ref.kind, type(error).__name__)
        if isinstance(error, SourceBusy):
            return self._postpone(leased, error, counts=False)
        if isinstance(error, SourceRefused):
            self.pausing.answered(leased)
            return self._bury(leased, error)
        probe = self.pausing.probe(leased.ref)
        if probe.away:
            return replace(self._postpone(leased, error, counts=False), calls=probe.calls)
        self.pausing.answered(leased)
        if isinstance(error, AccessLost) and self.pausing.refuse(leased, error):
            return replace(self._postpone(leased, error, counts=False), calls=probe.calls)
        return replace(self._fail(leased, error), calls=probe.calls)

    def _fail(self, leased: Leased, error: SourceError) -> Looked:
        """Count an attempt, and give up after the last one; ladders never do."""
        if leased.attempts + 1 >= self._settings.attempts and not _is_on_ladder(leased.seen):
            return self._bury(leased, error)
        return self._postpone(leased, error, counts=True)

    def _postpone(self, leased: Leased, error: SourceError, *, counts: bool) -> Looked:
        asked = asked_to_wait(error)
        wait = self.back_off(leased.attempts) if asked is None else asked

        def later(connection: Connection) -> datetime:
            due_at: datetime = statements.one(connection, "clock", {"now": None}).now + wait
            refetches.postpone(connection, leased, due_at=due_at, because=str(error), counts=counts)
            return due_at

        due_at = self._database.commit(later)
        self._log.warning(
            "refetch.postponed",
            ref=str(leased.ref),
            attempts=leased.attempts + counts,
            due_at=due_at,
            because=str(error),
        )
        return Looked(leased.ref, None, str(error))

    def _bury(self, leased: Leased, error: SourceError) -> Looked:
        def give_up(connection: Connection) -> bool:
            asked = [event.event_id for event in events.lock(connection, leased)]
            now = statements.one(connection, "clock", {"now": None}).now
            dead = refetches.bury(connection, leased, because=str(error))
            if dead:
                events.kill(connection, leased.ref.source, asked, because=str(error), now=now)
                runs.answer(connection, leased, verdict="dead")
            return dead

        if self._database.commit(give_up):
            self._log.error("refetch.dead", ref=str(leased.ref), attempts=leased.attempts + 1, because=str(error))
        return Looked(leased.ref, None, str(error))


def _answer(outcome: Outcome, *, in_flight: bool) -> str:
    if outcome.verdict is not Verdict.APPLIED:
        return str(outcome.verdict)
    if in_flight:
        return "in_flight"
    return "tombstone" if outcome.change is Change.DELETED else str(outcome.verdict)


def _is_on_ladder(seen: Seen) -> bool:
    return seen.alive is not None or seen.older is not None or seen.absent is not None or seen.behind > 0
