"""What each source may still ask of its provider: one budget for all processes, live work first, sweeps a tenth."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from threading import TIMEOUT_MAX, Event, Lock, local
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from reconciler.adapter import BETWEEN, Limit
from reconciler.errors import SourceBusy, SourceUnavailable
from reconciler.store import buckets
from reconciler.store.buckets import Bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Allotment, Budget
    from reconciler.store.buckets import Level
    from reconciler.store.database import Database

_LAPSE: Final = 10.0  # seconds after which a call paid for in advance counts as made
_NAP: Final = 5.0  # seconds after which a waiting call looks again, whatever it was told


class Lane(StrEnum):
    """Whose calls they are: live work goes first, sweeps keep a tenth."""

    LIVE = "live"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class Standing:
    """How many calls one budget or allotment of a source has left now, of how many at most; 0 while it is held."""

    source: str
    name: str
    left: int
    limit: int


@dataclass(slots=True)
class Calls:
    """
    The calls made in one block.

    Attributes:
        count: How many were spent so far.
        until: When waiting is given up (monotonic); None: never.
        beat: Called at each call, answer and while waiting: a long read is no loop that hangs.
    """

    lane: Lane
    until: float | None
    count: int = 0
    beat: Callable[[], None] = lambda: None


class Counter(Protocol):
    """Where answers are counted."""

    def called(self, source: str, operation: str, status: str) -> None:
        """Count one answer of a provider."""


# A hold has to be seen by calls that no limit concerns, too.
_ANY: Final = Limit("any", 1e9, 1e9)
_EACH: Final = Limit("each", 1e9, 1e9, operations="*")


class Budgets:
    """
    The budgets of every source; any number of threads may use them, each through its own lane.

    A call that nothing else says about is live and waits as long as it takes.
    """

    def __init__(
        self,
        database: Database,
        limits: Mapping[str, Sequence[Limit]],
        metrics: Counter,
        *,
        stop: Event | None = None,
        shared: Mapping[str, str] | None = None,
        allotments: Mapping[str, Sequence[Allotment]] | None = None,
    ) -> None:
        """
        Raise ValueError where a source has two limits of one name. Whoever waits gives up once *stop* is set.

        *shared* has what a source's budget is kept under where that is not its name: sources that have that in common
        share one budget.
        """
        self._thread = _Thread()
        self._database = database
        stop = Event() if stop is None else stop
        self._sources = {
            source: _SourceBudget(
                source,
                (shared or {}).get(source, source),
                _complete(source, given),
                tuple((allotments or {}).get(source, ())),
                database,
                metrics,
                self._thread,
                stop,
            )
            for source, given in limits.items()
        }

    def of(self, source: str) -> Budget:
        """Return the budget to hand to this source's adapter; raises KeyError for a source without limits."""
        return self._sources[source]

    @contextmanager
    def calling(
        self, lane: Lane, deadline: float | None = None, *, beat: Callable[[], None] = lambda: None
    ) -> Iterator[Calls]:
        """
        Let the calls that this thread makes in the block go through *lane*, count them, and *beat* while they go on.

        A call that would have to wait for longer than *deadline* seconds from now raises `SourceBusy` instead, and one
        that begins later `SourceUnavailable`.
        """
        calls = Calls(lane, None if deadline is None else monotonic() + deadline, beat=beat)
        before, self._thread.calls = self._thread.calls, calls
        try:
            yield calls
        finally:
            self._thread.calls = before

    def take(self, source: str, operation: str) -> float:
        """
        Pay for the next call of *operation* that this thread makes, and return 0.0.

        Where that cannot be done now nothing is taken, and the seconds until it can are returned.
        """
        return self._sources[source].take(operation)

    def give_back(self, source: str, operation: str) -> None:
        """Return a call that was taken and not made; does nothing where there is none."""
        self._sources[source].give_back(operation)

    def allot(self, source: str, now: datetime | None = None) -> None:
        """Find out how many calls are allotted to *source* by what it mirrors."""
        budget = self._sources[source]
        for each in budget.allotments:

            def note(connection: Connection, each: Allotment = each) -> None:
                found = buckets.objects_since(
                    connection,
                    source,
                    each.kind,
                    holding=each.holding,
                    created=each.created,
                    days=each.days,
                    now=now,
                )
                calls = max(each.least, each.each * found)
                buckets.allot(connection, budget.key, each.name, calls=calls, days=each.days, now=now)

            self._database.commit(note)

    def standing(self, connection: Connection, now: datetime | None = None) -> list[Standing]:
        """Return what is left of every limit and allotment, by source; of operations, those that were called before."""
        levels = {(level.source, level.name): level for level in buckets.levels(connection, now=now)}
        held = [
            _standing(source, name, limit=limit, level=levels.get((budget.key, name)))
            for source, budget in self._sources.items()
            for limit in budget.limits
            if limit not in {_ANY, _EACH}
            for name in _names(limit, [name for of, name in levels if of == budget.key])
        ]
        counted = [(source, budget.key, each) for source, budget in self._sources.items() for each in budget.allotments]
        known = buckets.allotted(connection, [(key, each.name, each.days) for _, key, each in counted], now=now)
        return held + [_allotted(source, each, *known[key, each.name]) for source, key, each in counted]


@dataclass(frozen=True, slots=True)
class _SourceBudget:
    """The budget of one source, as its adapter sees it, and how to pay in advance."""

    source: str
    key: str
    limits: Sequence[Limit]
    allotments: Sequence[Allotment]
    database: Database
    metrics: Counter
    thread: _Thread
    stop: Event
    queues: dict[tuple[Lane, str], Lock] = field(default_factory=dict)

    def spend(self, operation: str) -> None:
        self.thread.calls.beat()
        until = self.thread.calls.until
        if until is not None and monotonic() > until:
            raise SourceUnavailable(f"{self.source}: it takes too long; no time is left for {operation}")
        if self._paid(operation) is None and (wait := self._ask(operation)):
            self._queue(operation, wait)
        self.thread.calls.count += 1

    def answered(self, operation: str, status: str) -> None:
        self.thread.calls.beat()
        self.metrics.called(self.source, operation, status)

    def hold(self, seconds: float, *, operation: str | None = None) -> None:
        limits = [limit for limit in self.limits if (limit.operations is None) == (operation is None)]
        if seconds > 0:
            with buckets.at_once(self.database) as connection:
                buckets.hold(connection, self.key, buckets=_concerned(limits, operation or ""), seconds=seconds)

    def take(self, operation: str) -> float:
        wait = self._ask(operation)
        if not wait:
            paid = _Paid(self.thread.calls.lane, monotonic() + _LAPSE)
            self.thread.paid.setdefault((self.source, operation), []).append(paid)
        return wait

    def give_back(self, operation: str) -> None:
        paid = self._paid(operation)
        if paid is not None:
            concerned = _concerned(self.limits, operation)
            with buckets.at_once(self.database) as connection:
                buckets.give_back(
                    connection,
                    self.key,
                    buckets=concerned,
                    sweep=paid.lane is Lane.SWEEP,
                    counted=self._counted(operation),
                )

    def _ask(self, operation: str) -> float:
        concerned, sweep = _concerned(self.limits, operation), self.thread.calls.lane is Lane.SWEEP
        with buckets.at_once(self.database) as connection:
            return buckets.take(connection, self.key, buckets=concerned, sweep=sweep, counted=self._counted(operation))

    def _counted(self, operation: str) -> list[str]:
        return [each.name for each in self.allotments if fnmatchcase(operation, each.operations)]

    def _queue(self, operation: str, wait: float) -> None:
        """Wait for a call behind the other threads that wait for one: only the first of them asks the database."""
        turn = self.queues.setdefault((self.thread.calls.lane, operation), Lock())
        while not turn.acquire(timeout=min(_NAP, self._patience(operation, wait))):
            self.thread.calls.beat()
        try:
            while wait := self._ask(operation):
                self.thread.calls.beat()
                if self.stop.wait(min(wait, _NAP, self._patience(operation, wait))):
                    raise self._busy(operation, wait)
        finally:
            turn.release()

    def _patience(self, operation: str, wait: float) -> float:
        """Return how long this thread may go on waiting; raises `SourceBusy` if that is not long enough."""
        until = self.thread.calls.until
        left = TIMEOUT_MAX if until is None else until - monotonic()
        if wait > left:
            raise self._busy(operation, wait)
        return left

    def _busy(self, operation: str, wait: float) -> SourceBusy:
        return SourceBusy(f"{self.source}: no call left for {operation} within {wait:.3g} s", retry_after=wait)

    def _paid(self, operation: str) -> _Paid | None:
        """Return a call that this thread paid for in advance, and forget it; one left lying too long counts as made."""
        paid = self.thread.paid.pop((self.source, operation), [])
        valid = [each for each in paid if each.until > monotonic()]
        if valid[1:]:
            self.thread.paid[self.source, operation] = valid[1:]
        return valid[0] if valid else None


@dataclass(frozen=True, slots=True)
class _Paid:
    """A call paid for in advance."""

    lane: Lane
    until: float


class _Thread(local):
    """What a thread has under way."""

    def __init__(self) -> None:
        self.calls = Calls(Lane.LIVE, None)
        self.paid: dict[tuple[str, str], list[_Paid]] = {}


def _complete(source: str, given: Sequence[Limit]) -> tuple[Limit, ...]:
    if len({limit.name for limit in given}) < len(given):
        raise ValueError(f"sources[{source}]: two limits of one name")
    everywhere = [] if any(limit.operations is None for limit in given) else [_ANY]
    each = [] if any(limit.operations == "*" for limit in given) else [_EACH]
    return (*given, *everywhere, *each)


def _concerned(limits: Sequence[Limit], operation: str) -> list[Bucket]:
    return [
        Bucket(limit.name if limit.operations is None else f"{limit.name}{BETWEEN}{operation}", limit.rate, limit.burst)
        for limit in limits
        if (operation != limit.but if limit.operations is None else fnmatchcase(operation, limit.operations))
    ]


def _names(limit: Limit, known: Sequence[str]) -> list[str]:
    if limit.operations is None:
        return [limit.name]
    return [name for name in known if name.startswith(f"{limit.name}{BETWEEN}")]


def _standing(source: str, name: str, *, limit: Limit, level: Level | None) -> Standing:
    if level is None:
        left = limit.burst
    elif level.held:
        left = 0.0
    else:
        left = min(limit.burst, level.tokens + limit.rate * level.elapsed)
    return Standing(source, name, max(0, int(left)), int(limit.burst))


def _allotted(source: str, allotment: Allotment, calls: int, allowed: int | None) -> Standing:
    limit = allotment.least if allowed is None else allowed
    return Standing(source, allotment.name, max(0, limit - calls), limit)
