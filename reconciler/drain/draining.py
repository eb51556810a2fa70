"""The loops that work off the dirty set: workers, the listener that wakes them, and what tidies up behind them."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

import psycopg
import structlog

from reconciler.budgets import Lane
from reconciler.config.settings import CALL_TIMEOUT
from reconciler.drain.erasing import Erasing
from reconciler.drain.looking import Looked, Looking
from reconciler.errors import DatabaseUnavailable, Forgotten
from reconciler.model import Reason
from reconciler.store import forgetting, refetches, runs
from reconciler.store.refetches import Want

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from uuid import UUID

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.config import DrainSettings
    from reconciler.metrics import Metrics
    from reconciler.model import ObjectRef
    from reconciler.store.database import Database
    from reconciler.store.mirror import Mirror
    from reconciler.store.refetches import Leased

Lease: TypeAlias = "Callable[[Connection, int, timedelta], Leased | None]"
"""Leases one refetch, given the number of this process's shape and how long it may take."""

_HOUSEKEEPING = 30  # seconds
_SWEEPS_TURN = 10  # one worker or one turn in so many looks for sweeps' work first
_SHORTEST_IDLE = 0.01
_LISTENS_FOR = 0.25  # seconds until the listener looks whether it is to stop


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
        self._listen_url = listen_url
        self._beat = beat
        self._looking = Looking(
            database,
            adapters,
            mirror=mirror,
            budgets=budgets,
            settings=settings,
            in_flight=in_flight,
            metrics=metrics,
        )
        self._erasing = Erasing(database, adapters)
        self._leases = _Leases(database)
        self._kinds = {
            (source, kind): mirror.of(source, kind).n for source, adapter in adapters.items() for kind in adapter.kinds
        }
        self._log = structlog.get_logger()
        self._wake = threading.Condition()
        self._woken = 0
        self._quiet = (-1, 0.0)
        self._away = False
        self._random = random.Random()  # noqa: S311 - a fair order, not a secret
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    # --- the loops ---

    def start(self, stop: threading.Event) -> None:
        """Start the workers, the listener and the housekeeper; they end after *stop* is set, see `join`."""
        for number in range(self._settings.workers):
            self._spawn(f"drain-{number}", self._work, stop, number)
        self._spawn("drain-listen", self._listen, stop)
        self._spawn("drain-keep", self._keep, stop)

    def join(self, timeout: float) -> bool:
        """
        Wait for every thread to end, then give back the leases of those that did not; return whether all did.

        Call it after setting the stop event.
        """
        self.wake()
        until = monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
        with suppress(DatabaseUnavailable):  # they end by themselves
            self._leases.give_back_all()
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
        turns = 0
        while not stop.is_set():
            self._beat(f"drain-{number}")
            seen = self._woken
            if rest := self._rest(seen):
                self._idle(stop, seen, rest)
                continue
            turns += 1
            try:
                self._leases.give_back_lost()
                beat = partial(self._beat, f"drain-{number}")
                wait = self._turn(sweep_first=self._sweeps_first(number, turns), beat=beat)
            except DatabaseUnavailable as error:
                self._note_away(error)
                stop.wait(1 + self._random.random())
                continue
            self._note_back()
            if wait:
                self._be_quiet(seen, wait)
                self._idle(stop, seen, wait)

    def _sweeps_first(self, number: int, turns: int) -> bool:
        """Say whether live work waits behind sweeps' in this turn: of several workers for a tenth, of one at times."""
        if self._settings.workers == 1:
            return turns % _SWEEPS_TURN == 0
        return number < max(1, self._settings.workers // _SWEEPS_TURN)

    def _rest(self, seen: int) -> float:
        """
        Return for how many seconds this worker need not look; 0: it is the one that looks for all.

        One look at a time is enough while nothing is due; whoever finds something has the next one look, too.
        """
        with self._wake:
            looked, until = self._quiet
            left = until - monotonic()
            if looked == seen and left > 0:
                return left
            self._quiet = (seen, monotonic() + self._settings.poll.total_seconds())
            return 0.0

    def _be_quiet(self, seen: int, wait: float) -> None:
        """Let nobody look for so long unless something is announced: there is nothing that could be read now."""
        with self._wake:
            if self._quiet[0] == seen:
                self._quiet = (seen, monotonic() + wait)

    def _stir(self) -> None:
        """Have another worker look: where one thing is due, more may be."""
        with self._wake:
            self._quiet = (-1, 0.0)
            self._wake.notify()

    def _idle(self, stop: threading.Event, seen: int, wait: float) -> None:
        with self._wake:
            if not stop.is_set() and self._woken == seen == self._quiet[0]:
                self._wake.wait(max(wait, _SHORTEST_IDLE))

    def _note_away(self, error: DatabaseUnavailable) -> None:
        if not self._away:
            self._away = True
            self._log.warning("drain.database_away", because=str(error))

    def _note_back(self) -> None:
        if self._away:
            self._away = False
            self._log.info("drain.database_back")

    def _listen(self, stop: threading.Event) -> None:
        deaf = False
        while not stop.is_set():
            self._beat("drain-listen")
            try:
                with psycopg.connect(self._listen_url, autocommit=True, connect_timeout=5) as connection:
                    connection.execute("LISTEN reconciler_wanted")
                    deaf = False
                    self._hear(connection, stop)
            except psycopg.Error as error:
                if not deaf:
                    self._log.warning("drain.deaf", because=" ".join(str(error).split()), poll=self._settings.poll)
                deaf = True
                stop.wait(2)

    def _hear(self, connection: psycopg.Connection, stop: threading.Event) -> None:
        self.wake()  # for what was announced while nobody listened
        while not stop.is_set():
            self._beat("drain-listen")
            for _ in connection.notifies(timeout=_LISTENS_FOR, stop_after=1):
                self.wake()

    def _keep(self, stop: threading.Event) -> None:
        heard = self._woken
        while not stop.is_set():
            with suppress(DatabaseUnavailable):  # the workers say so
                self._tidy()
                self.look_at_access()
            for _ in range(_HOUSEKEEPING):
                self._beat("drain-keep")
                if heard != self._woken:
                    heard = self._woken
                    with suppress(DatabaseUnavailable):
                        self.look_at_access()
                if stop.wait(1):
                    return

    def _tidy(self) -> None:
        freed = self._database.commit(lambda connection: refetches.unfreeze(connection, lease=self._settings.lease))
        if freed:
            self._log.warning("refetch.unfrozen", refetches=freed, because="times far ahead of the clock")
            self.wake()
        self._looking.pausing.refresh()
        self._erasing.turn()

    # --- one piece of work ---

    def turn(self, *, sweep_first: bool = False) -> bool:
        """Work on one refetch of any source, if one is due and its provider may be asked; return whether one was."""
        return not self._turn(sweep_first=sweep_first)

    def turn_in_run(self, run_id: int, source: str, kind: str) -> Looked | None:
        """Work on one due refetch of *kind* that the run waits for; None: none is due, or the budget is out."""
        return _looked(
            self._paid(
                source,
                kind,
                Lane.SWEEP,
                lambda connection, n, lease: runs.lease(connection, run_id, source, kind, n=n, lease=lease),
            )
        )

    def look_at_access(self) -> None:
        """Look at our access to every source and scope where a provider said that it has changed."""
        while self._looking.pausing.look(beat=partial(self._beat, "drain-keep")):
            pass

    def look_at(self, ref: ObjectRef) -> Looked | None:
        """Work on the refetch of *ref* if it is due and free, paused or not; None: it is not, or the budget is out."""
        return _looked(
            self._paid(
                ref.source,
                ref.kind,
                Lane.LIVE,
                lambda connection, n, lease: refetches.lease_one(connection, ref, n=n, lease=lease),
            )
        )

    def want(self, ref: ObjectRef, *, reason: Reason = Reason.TRIGGER) -> int:
        """Make *ref* due at once; return its number. Raises `Forgotten` for what is."""

        def work(connection: Connection) -> dict[ObjectRef, int]:
            if forgetting.among(connection, [ref]).refs:
                raise Forgotten(f"{ref} was forgotten, and is not read again")
            return refetches.want(connection, [Want(ref, reason)])

        wanted = self._database.commit(work)
        self.wake()
        return wanted[ref]

    def lost(self, ref: ObjectRef) -> str | None:
        """Return the scope, or '' for the source, that turns out to answer nobody, now paused; raises `SourceBusy`."""
        return self._looking.pausing.lost(ref)

    def back_off(self, attempts: int) -> timedelta:
        """Return how long to wait after so many failures: half to all of 1 s doubled each time, at most of 10 min."""
        return self._looking.back_off(attempts)

    def _turn(self, *, sweep_first: bool, beat: Callable[[], None] = lambda: None) -> float:
        """Work on one refetch and return 0; or return after how many seconds it makes sense to look again."""
        waits = [self._settings.poll.total_seconds()]
        for sweep in (sweep_first, not sweep_first):
            wait = self._turn_in(sweep=sweep, beat=beat)
            if not wait:
                return 0.0
            waits.append(wait)
        return min(waits)

    def _turn_in(self, *, sweep: bool, beat: Callable[[], None]) -> float:
        """Work on what has been due longest in any source; on the next where it cannot be paid, or is taken by now."""
        lane = Lane.SWEEP if sweep else Lane.LIVE
        soonest = self._settings.poll.total_seconds()
        for source, kind in self._due(sweep=sweep):
            looked = self._paid(source, kind, lane, _leasing(source, kind, sweep=sweep), beat=beat)
            if isinstance(looked, Looked):
                return 0.0
            soonest = min(soonest, looked)
        return soonest

    def _due(self, *, sweep: bool) -> list[tuple[str, str]]:
        """Return the (source, kind) pairs of which something is due: no source before others for what waits in it."""
        with self._database.transaction() as connection:
            due = refetches.due_kinds(connection, self._kinds, sweep=sweep)
        places = {source: self._random.random() for source, _ in due}
        return sorted(due, key=lambda pair: places[pair[0]])

    def _paid(
        self,
        source: str,
        kind: str,
        lane: Lane,
        lease: Lease,
        *,
        beat: Callable[[], None] = lambda: None,
    ) -> Looked | float:
        """
        Take the budget first, then the lease, then look: what cannot be paid is left to whoever can.

        Returns the seconds until it makes sense to try again where nothing was looked at.
        """
        mirrored = self._mirror.of(source, kind)
        operation = mirrored.kind.fetch
        with self._budgets.calling(lane, deadline=_patience(self._settings.lease), beat=beat) as calls:
            wait = self._budgets.take(source, operation)
            if wait > 0:
                return wait
            leased = self._database.commit(lambda connection: lease(connection, mirrored.n, self._settings.lease))
            if leased is None:
                self._budgets.give_back(source, operation)
                return self._settings.poll.total_seconds()
            self._stir()
            with self._leases.held(leased.token):
                looked = self._looking.look(leased)
            return replace(looked, calls=looked.calls + calls.count)


class _Leases:
    """The leases this process holds, so that what it can no longer work on is free at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._held: set[UUID] = set()
        self._lost: set[UUID] = set()

    @contextmanager
    def held(self, token: UUID) -> Iterator[None]:
        """Know that this process works on *token* while the block runs, and that it lost it where the block fails."""
        with self._lock:
            self._held.add(token)
        try:
            yield
        except BaseException:
            with self._lock:
                self._lost.add(token)
            raise
        finally:
            with self._lock:
                self._held.discard(token)

    def give_back_lost(self) -> None:
        """Give back what was being worked on when the database went away."""
        if self._lost:
            with self._lock:
                tokens = set(self._lost)
            self._give_back(tokens)

    def give_back_all(self) -> None:
        """Give back everything: this process is stopping."""
        with self._lock:
            tokens = self._held | self._lost
        if tokens:
            self._give_back(tokens)

    def _give_back(self, tokens: set[UUID]) -> None:
        self._database.commit(lambda connection: refetches.free(connection, list(tokens)))
        with self._lock:
            self._lost -= tokens


def _patience(lease: timedelta) -> float:
    """Return the seconds after which a fetch begins no further call: the last one must end within the lease."""
    room = lease - CALL_TIMEOUT
    return (room if room > timedelta(0) else lease / 2).total_seconds()


def _leasing(source: str, kind: str, *, sweep: bool) -> Lease:
    return lambda connection, n, lease: refetches.lease(connection, source, kind, n=n, sweep=sweep, lease=lease)


def _looked(looked: Looked | float) -> Looked | None:
    return looked if isinstance(looked, Looked) else None
