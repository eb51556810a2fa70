"""
The drain: lease a refetch, fetch the live object, apply it, and settle who asked, in one transaction.

No transaction is held across the network. A read that may be too early is applied and read again; an absence that is
only inferred is read twice; a provider that answers nobody is paused, and nobody's attempts are counted meanwhile.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import structlog

from reconciler.budgets import Lane
from reconciler.errors import (
    AccessLost,
    DatabaseUnavailable,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from reconciler.model import Change, Origin, Proof, Reading, Reason, Verdict, Via
from reconciler.store import events, guard, pauses, refetches, runs, statements
from reconciler.store.refetches import Absent, Again, Want
from reconciler.telling import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.config import DrainSettings
    from reconciler.metrics import Metrics
    from reconciler.model import ObjectRef, Snapshot
    from reconciler.store.database import Database
    from reconciler.store.events import Closed, OpenEvent
    from reconciler.store.guard import Outcome
    from reconciler.store.mirror import Mirror
    from reconciler.store.refetches import Leased, Seen

BEHIND = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 5, 10, 30))
"""When an object older than its notification is read again, time after time."""

FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=10)
_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(seconds=1), timedelta(minutes=10)
_FETCH_PART_OF_LEASE = 0.8
_HOUSEKEEPING = timedelta(seconds=30)

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
class _Early:
    """A read that may be too early: when to look again (None: no more), and the events that promised more."""

    wait: timedelta | None
    seen: Seen
    ahead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Concluded:
    outcome: Outcome
    origin: Origin
    closed: list[Closed]
    drift: list[runs.Drift]
    now: datetime


class Drain:
    """Works off the dirty set of every source of this process."""

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
        listen_url: str,
        beat: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._adapters = adapters
        self._mirror = mirror
        self._budgets = budgets
        self._settings = settings
        self._in_flight = in_flight
        self._metrics = metrics
        self._listen_url = listen_url
        self._beat = beat
        self._log = structlog.get_logger()
        self._wake = threading.Condition()
        self._woken = 0
        self._random = random.Random()  # noqa: S311 - jitter, not a secret
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._paused: set[str] = set()

    # --- the loops ---

    def start(self, stop: threading.Event) -> None:
        """Start the workers, the listener and the housekeeper; they end after *stop* is set, see `join`."""
        for number in range(self._settings.workers):
            self._spawn(f"drain-{number}", self._work, stop, number)
        self._spawn("drain-listen", self._listen, stop)
        self._spawn("drain-keep", self._keep, stop)

    def join(self, timeout: float) -> bool:
        """Wait for every thread to end; return whether all did. Call `wake` after setting the stop event."""
        self.wake()
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def failure(self) -> BaseException | None:
        """What ended a thread that should have gone on; None: nothing did."""
        return self._failure

    def wake(self) -> None:
        """Let idle workers look for work now."""
        with self._wake:
            self._woken += 1
            self._wake.notify_all()

    def _spawn(self, name: str, loop: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                loop(*arguments)
            except BaseException as failure:  # noqa: BLE001 - the daemon decides what a dead loop means
                self._failure = failure
                self._log.exception("drain.failed", loop=name)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, stop: threading.Event, number: int) -> None:
        # A tenth of the workers look at the sweeps' lane first, so that live work never starves it.
        sweep_first = number < max(1, self._settings.workers // 10) and self._settings.workers > 1
        while not stop.is_set():
            self._beat(f"drain-{number}")
            seen = self._woken
            try:
                busy = self.turn(sweep_first=sweep_first)
            except DatabaseUnavailable as error:
                self._log.warning("drain.database_away", because=str(error))
                stop.wait(1 + self._random.random())
                continue
            if not busy:
                self._idle(stop, seen)

    def _idle(self, stop: threading.Event, seen: int) -> None:
        with self._wake:
            if not stop.is_set() and self._woken == seen:
                self._wake.wait(self._settings.poll.total_seconds())

    def _listen(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with psycopg.connect(self._listen_url, autocommit=True, connect_timeout=5) as connection:
                    connection.execute("LISTEN reconciler_wanted")
                    while not stop.is_set():
                        self._beat("drain-listen")
                        for _ in connection.notifies(timeout=1, stop_after=1):
                            self.wake()
            except psycopg.Error:
                stop.wait(2)  # polling goes on meanwhile

    def _keep(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._beat("drain-keep")
            try:
                freed = self._database.commit(lambda c: refetches.unfreeze(c, lease=self._settings.lease))
                self._paused = {each.source for each in self._database.commit(pauses.standing)}
                if freed:
                    self._log.warning("refetch.unfrozen", refetches=freed, because="times far ahead of the clock")
            except DatabaseUnavailable:
                pass  # the workers say so
            for _ in range(int(_HOUSEKEEPING.total_seconds())):
                if stop.wait(1):
                    return
                self._beat("drain-keep")

    # --- one piece of work ---

    def turn(self, *, sweep_first: bool = False) -> bool:
        """Work on one refetch of any source, if one is due and its provider may be asked; return whether one was."""
        names = list(self._adapters)
        self._random.shuffle(names)
        for sweep in (sweep_first, not sweep_first):
            for source in names:
                if self._turn_of(source, sweep=sweep):
                    return True
        return False

    def turn_in_run(self, run_id: int, source: str, kind: str) -> Looked | None:
        """Work on one due refetch of *kind* that the run waits for; None: none is due, or the budget is out."""
        return self._paid(
            source,
            kind,
            Lane.SWEEP,
            lambda connection, n, lease: runs.lease(connection, run_id, source, kind, n=n, lease=lease),
        )

    def look_at(self, ref: ObjectRef) -> Looked | None:
        """Work on the refetch of *ref* if it is due and free; None: it is not, or the budget is out."""
        return self._paid(
            ref.source,
            ref.kind,
            Lane.LIVE,
            lambda connection, n, lease: refetches.lease_one(connection, ref, n=n, lease=lease),
        )

    def want(self, ref: ObjectRef, *, reason: Reason = Reason.TRIGGER) -> int:
        """Make *ref* due at once; return its number."""
        wanted = self._database.commit(lambda connection: refetches.want(connection, [Want(ref, reason)]))
        self.wake()
        return wanted[ref]

    def _turn_of(self, source: str, *, sweep: bool) -> bool:
        kinds = list(self._adapters[source].kinds)
        with self._database.transaction() as connection:
            kind = refetches.due_kind(connection, source, kinds, sweep=sweep)
        if kind is None:
            return False
        lane = Lane.SWEEP if sweep else Lane.LIVE
        looked = self._paid(
            source,
            kind,
            lane,
            lambda connection, n, lease: refetches.lease(connection, source, kind, n=n, sweep=sweep, lease=lease),
        )
        return looked is not None

    def _paid(
        self,
        source: str,
        kind: str,
        lane: Lane,
        lease: Callable[[Connection, int, timedelta], Leased | None],
    ) -> Looked | None:
        """Take the budget first, then the lease, then look: what cannot be paid is left to whoever can."""
        mirrored = self._mirror.of(source, kind)
        operation = mirrored.kind.fetch
        deadline = self._settings.lease.total_seconds() * _FETCH_PART_OF_LEASE
        with self._budgets.calling(lane, deadline=deadline) as calls:
            if self._budgets.take(source, operation) > 0:
                return None
            leased = self._database.commit(lambda c: lease(c, mirrored.n, self._settings.lease))
            if leased is None:
                self._budgets.give_back(source, operation)
                return None
            looked = self._look(leased)
            return replace(looked, calls=calls.count)

    def _look(self, leased: Leased) -> Looked:
        adapter = self._adapters[leased.ref.source]
        try:
            snapshot = adapter.fetch(leased.ref, locator=leased.locator)
            if snapshot.proof is Proof.NOT_FOUND and not self._is_tombstone(leased.ref):
                adapter.identity(leased.ref.scope)  # the parent must be readable, or nothing is proved
                if not self._proved(leased):
                    return self._note_absence(leased, snapshot)
            return self._conclude(leased, snapshot)
        except SourceError as error:
            return self._put_aside(leased, error)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            self._log.exception("refetch.failed", ref=str(leased.ref))
            return self._put_aside(leased, SourceUnavailable(f"unexpected: {type(error).__name__}: {error}"))

    # --- what was read ---

    def _conclude(self, leased: Leased, snapshot: Snapshot) -> Looked:
        concluded = self._database.commit(lambda connection: self._apply(connection, leased, snapshot))
        outcome = concluded.outcome
        ref = leased.ref
        self._metrics.fetched(ref.source, ref.kind, "absent" if snapshot.body is None else "present")
        tell([outcome], origin=concluded.origin, metrics=self._metrics)
        for each in concluded.closed:
            self._metrics.fresh(ref.source, (concluded.now - each.received_at).total_seconds())
        for drift in concluded.drift:
            self._metrics.drifted(ref.source, ref.kind, drift.cause)
            self._log.warning("drift.repaired", ref=str(ref), what=drift.what, cause=drift.cause)
        if leased.attempts or ref.source in self._paused:
            self._resume(ref)
        if outcome.wanted is not None:
            self.wake()
        return Looked(ref, outcome.verdict, outcome.because)

    def _apply(self, connection: Connection, leased: Leased, snapshot: Snapshot) -> _Concluded:
        """Apply what was read and settle who asked: events, refetch and runs, in the one transaction."""
        asked = events.lock(connection, leased)
        waiting = runs.asking(connection, leased)
        origin = Origin(
            _VIA[leased.reason],
            event_id=max(asked, key=lambda event: event.occurred_at or event.received_at).event_id if asked else None,
            run_id=waiting[0].run_id if waiting else None,
        )
        loading = runs.loading(connection, [each.run_id for each in waiting]) if waiting else frozenset()
        reading = Reading(snapshot, leased.read_from, None, leased.began_at)
        [outcome] = guard.apply(connection, [reading], origin=origin, mirror=self._mirror, loading=loading)
        now = statements.one(connection, "clock", {"now": None}).now
        early = self._early(connection, leased, outcome, asked)
        wanted = self._again(connection, leased, outcome, early, now)
        drift: list[runs.Drift] = []
        closed: list[Closed] = []
        if refetches.settle(connection, leased, verdict=outcome.verdict):
            ids = [event.event_id for event in asked]
            if wanted is not None:
                events.defer(connection, leased.ref, ids, wanted=wanted)
            closed = events.close(connection, leased.ref.source, ids, now=now, ahead=early.ahead)
            if wanted is not None and not outcome.ladder:
                runs.defer(connection, leased, later=wanted)
            else:
                runs.answer(connection, leased, verdict=self._answer(outcome, waiting, asked))
            drift = self._drift(connection, leased, outcome, asked, waiting)
        return _Concluded(outcome, origin, closed, drift, now)

    def _again(
        self, connection: Connection, leased: Leased, outcome: Outcome, early: _Early, now: datetime
    ) -> int | None:
        """Queue the reread that a read which may be too early needs; return the number to wait for, if any."""
        if early.wait is None:
            if early.seen != outcome.seen:
                keep = Again(leased.ref, (), Reason.REREAD, early.seen, wants=False, began_at=leased.began_at)
                refetches.read_again(connection, [keep], now=now)
            return outcome.wanted
        again = Again(leased.ref, (now + early.wait,), Reason.REREAD, early.seen, wants=True, began_at=leased.began_at)
        return refetches.read_again(connection, [again], now=now)[leased.ref]

    def _early(self, connection: Connection, leased: Leased, outcome: Outcome, asked: Sequence[OpenEvent]) -> _Early:
        """Judge whether this read may show less than the events it answers promised."""
        if outcome.verdict not in {Verdict.APPLIED, Verdict.UNCHANGED} or not asked:
            return _Early(None, outcome.seen)
        stamped = self._mirror.of(leased.ref.source, leased.ref.kind).kind.stamp is not None
        if stamped and outcome.reading.snapshot.body is not None:
            return _behind(outcome, asked)
        return self._unconfirmed(connection, leased, outcome, asked)

    def _unconfirmed(
        self, connection: Connection, leased: Leased, outcome: Outcome, asked: Sequence[OpenEvent]
    ) -> _Early:
        """Without a stamp to compare, a read soon after its newest event is confirmed once, unless a payload shows it."""
        told = [event for event in asked if event.occurred_at is not None]
        newest = max((event.occurred_at for event in told if event.occurred_at is not None), default=None)
        lag = self._mirror.rules.read_lag
        if newest is None or outcome.seen.confirmed == newest:
            return _Early(None, outcome.seen)
        wait = newest + lag - outcome.reading.snapshot.observed_at
        if wait <= timedelta(0):
            return _Early(None, replace(outcome.seen, confirmed=None))
        newest_ids = [event.event_id for event in told if event.occurred_at == newest]
        if self._shown(connection, leased, outcome, newest_ids):
            return _Early(None, replace(outcome.seen, confirmed=None))
        # An event dated in the future must not postpone its own confirmation for long.
        return _Early(min(wait, 2 * lag), replace(outcome.seen, confirmed=newest))

    def _shown(self, connection: Connection, leased: Leased, outcome: Outcome, event_ids: Sequence[str]) -> bool:
        if outcome.digest is None:
            return False
        adapter = self._adapters[leased.ref.source]
        form = self._mirror.of(leased.ref.source, leased.ref.kind).form
        for payload in events.payloads(connection, leased.ref.source, event_ids).values():
            body = adapter.shown(payload, leased.ref)
            if body is not None and form.digest(form.stored(body)) == outcome.digest:
                return True
        return False

    def _answer(self, outcome: Outcome, waiting: Sequence[runs.Asking], asked: Sequence[OpenEvent]) -> str:
        if outcome.verdict is Verdict.APPLIED and self._is_in_flight(outcome, waiting, asked):
            return "in_flight"
        if outcome.verdict is Verdict.APPLIED and outcome.change is Change.DELETED:
            return "tombstone"
        return str(outcome.verdict)

    def _is_in_flight(self, outcome: Outcome, waiting: Sequence[runs.Asking], asked: Sequence[OpenEvent]) -> bool:
        """Whether the object changed so lately, by the provider's own times, that its notification may be on its way."""
        told = [each.changed_at for each in waiting] + [event.occurred_at for event in asked]
        told.append(outcome.reading.snapshot.stamp)
        changed = max((time for time in told if time is not None), default=None)
        return changed is not None and outcome.reading.snapshot.observed_at - changed < self._in_flight

    def _drift(
        self,
        connection: Connection,
        leased: Leased,
        outcome: Outcome,
        asked: Sequence[OpenEvent],
        waiting: Sequence[runs.Asking],
    ) -> list[runs.Drift]:
        """Put on record that a run, or the read after a hand edit, had to correct the row."""
        edited = leased.reason is Reason.HAND_EDIT
        what = what_drifted(outcome)
        if what is None or not (edited or waiting):
            return []
        if edited and what == "differs" and not outcome.diff:
            return []  # edited and edited back
        if not edited and self._is_in_flight(outcome, waiting, asked):
            return []
        cause = "hand_edit" if edited else "notification_pending" if asked else "other"
        found = [runs.Drift(leased.ref, what, cause, outcome.diff)]
        run_id = waiting[0].run_id if waiting else None
        runs.drifted(connection, found, run_id=run_id, repaired=True)
        return found

    # --- what was not read ---

    def _is_tombstone(self, ref: ObjectRef) -> bool:
        with self._database.transaction() as connection:
            row = statements.row(connection, "object", refetches.key(ref))
        return row is not None and row.deleted_at is not None

    def _proved(self, leased: Leased) -> bool:
        first = leased.seen.absent
        return (
            first is not None
            and leased.read_from > first.until
            and leased.began_at >= first.ended_at + self._mirror.rules.absence_recheck
        )

    def _note_absence(self, leased: Leased, snapshot: Snapshot) -> Looked:
        """Keep a first 404 in mind and look again: one alone proves nothing."""

        def note(connection: Connection) -> None:
            drawn = statements.one(connection, "draw_position", {"now": None})
            first = leased.seen.absent
            if first is None or first.ended_at > drawn.now:
                first = Absent(drawn.position, drawn.now)
            due_at = max(drawn.now, first.ended_at + self._mirror.rules.absence_recheck)
            seen = replace(leased.seen, absent=first)
            again = Again(leased.ref, (due_at,), Reason.REREAD, seen, wants=False, began_at=leased.began_at)
            refetches.read_again(connection, [again], now=drawn.now)
            refetches.postpone(connection, leased, due_at=due_at, because=snapshot.because, counts=False)

        self._database.commit(note)
        self._metrics.fetched(leased.ref.source, leased.ref.kind, "not_found")
        self._log.info("refetch.not_found", ref=str(leased.ref), because=snapshot.because)
        return Looked(leased.ref, None, f"{snapshot.because}; looked at again before it is believed")

    def _put_aside(self, leased: Leased, error: SourceError) -> Looked:
        """Postpone the refetch while trying again may help; otherwise bury it with the reason."""
        ref = leased.ref
        self._metrics.fetched(ref.source, ref.kind, type(error).__name__)
        if isinstance(error, SourceBusy):
            return self._postpone(leased, error, counts=False)
        if isinstance(error, SourceRefused):
            return self._bury(leased, error)
        lost = self._is_source_away(ref, error)
        if lost:
            return self._postpone(leased, error, counts=False)
        if leased.attempts + 1 >= self._settings.attempts and not _is_on_ladder(leased.seen):
            return self._bury(leased, error)
        return self._postpone(leased, error, counts=True)

    def _is_source_away(self, ref: ObjectRef, error: SourceError) -> bool:
        """Ask who we are: if not even that is answered, pause the source (or the scope) and blame no object."""
        adapter = self._adapters[ref.source]
        try:
            adapter.identity(ref.scope)
        except SourceBusy:
            return True
        except AccessLost as lost:
            self._pause(ref.source, ref.scope, "access_lost", str(lost))
            return True
        except SourceError as away:
            self._pause(ref.source, "", "unavailable", str(away))
            return True
        return False

    def _pause(self, source: str, scope: str, what: str, because: str) -> None:
        paused = self._database.commit(
            lambda c: pauses.pause(
                c, source, scope, what=what, because=because, first=FIRST_PAUSE, longest=LONGEST_PAUSE
            )
        )
        self._paused.add(source)
        self._log.error("source.paused", source=source, scope=scope, what=what, because=because, until=paused)

    def _resume(self, ref: ObjectRef) -> None:
        if self._database.commit(lambda c: pauses.unpause(c, ref.source, ref.scope)):
            self._log.info("source.resumed", source=ref.source, scope=ref.scope)
        self._paused.discard(ref.source)

    def _postpone(self, leased: Leased, error: SourceError, *, counts: bool) -> Looked:
        retry_after = error.retry_after if isinstance(error, SourceUnavailable) else None
        wait = self.back_off(leased.attempts) if retry_after is None else timedelta(seconds=retry_after)

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
            asked = events.lock(connection, leased)
            now = statements.one(connection, "clock", {"now": None}).now
            dead = refetches.bury(connection, leased, because=str(error))
            if dead:
                ids = [event.event_id for event in asked]
                events.kill(connection, leased.ref.source, ids, because=str(error), now=now)
                runs.answer(connection, leased, verdict="dead")
            return dead

        if self._database.commit(give_up):
            self._log.error("refetch.dead", ref=str(leased.ref), attempts=leased.attempts + 1, because=str(error))
        return Looked(leased.ref, None, str(error))

    def back_off(self, attempts: int) -> timedelta:
        """Return how long to wait after so many failures: doubling, between half and the whole of it, at most 10 min."""
        longest = min(_SHORTEST_WAIT * 2 ** min(attempts, 16), _LONGEST_WAIT)
        return longest * self._random.uniform(0.5, 1)


def what_drifted(outcome: Outcome) -> str | None:
    """Return what was wrong with the row that this outcome corrected: missing, differs, extra; None: nothing was."""
    if outcome.verdict is not Verdict.APPLIED or outcome.change in {None, Change.LOADED, Change.RESHAPED}:
        return None
    if outcome.change is Change.DELETED:
        return "extra" if outcome.had_row else None
    return "differs" if outcome.had_row and not outcome.was_deleted else "missing"


def _behind(outcome: Outcome, asked: Iterable[OpenEvent]) -> _Early:
    """A stamped object older than its notification is read again; after the ladder its event was *ahead*."""
    stamp = outcome.reading.snapshot.stamp
    ahead = tuple(
        event.event_id for event in asked if event.stamp is not None and (stamp is None or stamp < event.stamp)
    )
    seen = outcome.seen
    if not ahead:
        return _Early(None, replace(seen, behind=0))
    if seen.behind < len(BEHIND):
        return _Early(BEHIND[seen.behind], replace(seen, behind=seen.behind + 1))
    return _Early(None, replace(seen, behind=0), ahead)


def _is_on_ladder(seen: Seen) -> bool:
    return seen.alive is not None or seen.older is not None or seen.absent is not None or seen.behind > 0
