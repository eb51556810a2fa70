"""One source with a stamped and an unstamped kind over a real database, driven by positions and a clock of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import text

from reconciler.adapter import Kind, Listing
from reconciler.model import Notification, ObjectRef, Origin, Proof, Reading, Reason, Snapshot, Verdict, Via
from reconciler.store import events, guard, mirror, refetches, statements
from reconciler.store.events import Arrival
from reconciler.store.mirror import Mirror, MirroredKind, Rules
from reconciler.store.refetches import Want
from reconciler.store.shares import ShareStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row

    from reconciler.model import Body, Named
    from reconciler.store.database import Database
    from reconciler.store.events import Receipt
    from reconciler.store.guard import Outcome
    from reconciler.store.refetches import Leased

T = TypeVar("T")

SOURCE = "shop"
STAMPED, UNSTAMPED = "order", "customer"
FIRST_DRAWN = 1000
"""Tests choose positions below it; what the database draws lies at it and beyond."""

PATIENCE = 60
LEASE = timedelta(minutes=5)
READ_LAG = timedelta(seconds=10)
REWOUND_AFTER = timedelta(minutes=10)
ABSENCE_RECHECK = timedelta(seconds=5)
NO_STOP = ShareStop(share=1.0, above=10**9)
_RULES = Rules(read_lag=READ_LAG, rewound_after=REWOUND_AFTER, absence_recheck=ABSENCE_RECHECK, share_stop=NO_STOP)
_KEY = "(source, scope, kind, id) = (:source, :scope, :kind, :id)"


def at(seconds: float) -> datetime:
    """Return a moment so long after the stage's first."""
    return datetime(2026, 11, 30, 3, 10, tzinfo=UTC) + timedelta(seconds=seconds)


def kind(name: str, **declared: Any) -> Kind:
    """Return a kind as an adapter declares it: only what the guard looks at."""
    stamp = "/updated_at" if name == STAMPED else None
    listing = Listing.WHOLE
    return Kind(
        name=name, stamp=stamp, list=listing, feed="", fetch="", deletion="", permission="", cost="", **declared
    )


KINDS = tuple(kind(name, volatile=("/version",)) for name in (STAMPED, UNSTAMPED))


@dataclass(frozen=True, slots=True)
class Shown:
    """What a provider shows of an object: a body with its stamp, or none."""

    body: Body | None
    stamp: datetime | None = None
    proof: Proof = Proof.STATED


@dataclass(slots=True)
class Stage:
    """
    The guard's surroundings.

    Attributes:
        clock: What every statement takes for now; nothing waits for real time.
        ids: Where the ids of new objects come from.
    """

    database: Database
    mirror: Mirror
    clock: datetime = field(default_factory=lambda: at(0))
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def ref(self, kind_name: str = STAMPED, *, scope: str = "") -> ObjectRef:
        """Return an object nobody has seen yet."""
        return ObjectRef(SOURCE, scope, kind_name, str(next(self.ids)))

    def tick(self, seconds: float) -> None:
        """Let time go by."""
        self.clock += timedelta(seconds=seconds)

    def snapshot(self, ref: ObjectRef, shown: Shown) -> Snapshot:
        """Return *shown* as the snapshot an adapter makes of it."""
        proof = None if shown.body is not None else shown.proof
        stamp = shown.stamp if ref.kind == STAMPED else None
        return Snapshot(ref, shown.body, stamp, self.clock, proof=proof)

    def reading(self, ref: ObjectRef, shown: Shown, span: tuple[int, int | None], *, listed: bool = False) -> Reading:
        """Return a reading of *shown* with the interval *span*, begun now."""
        return Reading(self.snapshot(ref, shown), span[0], span[1], self.clock, listed=listed)

    def apply(self, *readings: Reading, origin: Origin | None = None, **options: Any) -> list[Outcome]:
        """Apply in a transaction of its own."""
        chosen = origin or Origin(Via.WEBHOOK)
        given: dict[str, Any] = {"mirror": self.mirror, "now": self.clock, **options}
        return self.database.commit(lambda c: guard.apply(c, readings, origin=chosen, **given))

    def row(self, ref: ObjectRef) -> Row[Any] | None:
        """Return our row."""
        return self.run(lambda c: statements.row(c, "object", refetches.key(ref)))

    def refetch(self, ref: ObjectRef) -> Row[Any] | None:
        """Return the refetch of *ref*."""
        return self.run(lambda c: statements.row(c, "refetch", refetches.key(ref)))

    def of(self, table: str, ref: ObjectRef) -> Sequence[Row[Any]]:
        """Return all of *table* about *ref*, oldest first."""
        return self.query(f"SELECT * FROM {table} WHERE {_KEY} ORDER BY seq", **refetches.key(ref))

    def query(self, statement: str, **parameters: Any) -> Sequence[Row[Any]]:
        """Return what *statement* finds."""
        return self.run(lambda c: c.execute(text(statement), parameters).all())

    def execute(self, statement: str, **parameters: Any) -> None:
        """Run *statement* for its effect, as somebody would who knows nothing of the guard."""
        self.run(lambda c: c.execute(text(statement), parameters))

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a transaction of its own."""
        return self.database.commit(work)

    def want(self, ref: ObjectRef, reason: Reason = Reason.WEBHOOK, **options: Any) -> int:
        """Want *ref* now; return its number."""
        wants = [Want(ref, reason, **options)]
        return self.run(lambda c: refetches.want(c, wants, now=self.clock))[ref]

    def lease(self, ref: ObjectRef, **options: Any) -> Leased | None:
        """Lease the refetch of *ref*, if it is due."""
        given: dict[str, Any] = {"n": 1, "lease": LEASE, "now": self.clock, **options}
        return self.run(lambda c: refetches.lease_one(c, ref, **given))

    def leased(self, ref: ObjectRef, **options: Any) -> Leased:
        """Lease the refetch of *ref*, which is due."""
        leased = self.lease(ref, **options)
        assert leased is not None
        return leased

    def conclude(self, leased: Leased, shown: Shown, **options: Any) -> Outcome:
        """Apply what a leased read showed, and settle it and its events, as the drain does."""
        return self.run(lambda connection: self.conclude_in(connection, leased, shown, **options))

    def conclude_in(self, connection: Connection, leased: Leased, shown: Shown, **options: Any) -> Outcome:
        """Do that in a transaction which is open; what is held back is left to the caller."""
        reading = Reading(self.snapshot(leased.ref, shown), leased.read_from, None, leased.began_at)
        given: dict[str, Any] = {"mirror": self.mirror, "now": self.clock, **options}
        asked = events.lock(connection, leased)
        [outcome] = guard.apply(connection, [reading], origin=Origin(Via.REREAD), **given)
        ids = [event.event_id for event in asked]
        if not outcome.held and refetches.settle(connection, leased, verdict=outcome.verdict):
            if outcome.wanted is not None:
                events.defer(connection, leased.ref, ids, wanted=outcome.wanted)
            events.close(connection, leased.ref.source, ids, now=self.clock)
        return outcome

    def reread(self, ref: ObjectRef, shown: Shown) -> Outcome | None:
        """Carry out the refetch of *ref*, if it is due, finding *shown*."""
        leased = self.lease(ref)
        return None if leased is None else self.conclude(leased, shown)

    def due_at(self, ref: ObjectRef) -> datetime | None:
        """Return when *ref* is to be read; None: nothing is queued."""
        refetch = self.refetch(ref)
        if refetch is None or refetch.dead_at is not None:
            return None
        times = [refetch.due_at if refetch.wanted > refetch.done else None, refetch.again_at]
        return min((time for time in times if time is not None), default=None)

    def work_off(self, shows: Mapping[ObjectRef, Shown], *, horizon: timedelta = timedelta(days=3)) -> int:
        """Carry out every reread that is queued, each when it is due; return how many that took."""
        end = self.clock + horizon
        reads = 0
        while due := {ref: time for ref in shows if (time := self.due_at(ref)) is not None}:
            ref = min(due, key=lambda each: due[each])
            self.clock = max(self.clock, due[ref])
            assert self.clock < end, f"{ref} is read again and again"
            assert self.reread(ref, shows[ref]) is not None
            reads += 1
        return reads

    def record(self, event_id: str, *named: Named, **told: Any) -> Receipt:
        """Store one delivery of an event."""
        [receipt] = self.run(lambda c: events.receive(c, [self.arrival(event_id, *named, **told)], now=self.clock))
        return receipt

    def arrival(self, event_id: str, *named: Named, **told: Any) -> Arrival:
        """Return one delivery of an event."""
        given: dict[str, Any] = {"payload": {"id": event_id}, "occurred_at": self.clock, **told}
        return Arrival(Notification(SOURCE, event_id, "changed", named=named, **given), {"host": "here"}, self.clock)

    def event(self, event_id: str) -> Row[Any]:
        """Return a stored event."""
        [found] = self.query("SELECT * FROM webhook_events WHERE event_id = :id", id=event_id)
        return found

    def position(self) -> int:
        """Draw a position."""
        return int(self.run(lambda c: statements.one(c, "draw_position", {"now": None})).position)

    def stands(self, ref: ObjectRef, shown: Shown) -> bool:
        """Whether our row shows what the provider shows: the same content alive, or a tombstone."""
        row = self.row(ref)
        if row is None:
            return False
        if shown.body is None:
            return row.deleted_at is not None
        mirrored = self.mirror.of(ref.source, ref.kind)
        return row.deleted_at is None and row.digest == mirrored.form.digest(mirrored.form.stored(shown.body))


def mirrored(*ns: int, kinds: Sequence[Kind] = KINDS, omit: tuple[str, ...] = ()) -> Mirror:
    """Return a mirror of both kinds, in the shape of these numbers (1 where none is given)."""
    shapes = ns or (1,) * len(kinds)
    found = {
        (SOURCE, each.name): MirroredKind(SOURCE, each, mirror.form_of(each, omit), n, f"{n}:standin")
        for each, n in zip(kinds, shapes, strict=True)
    }
    return Mirror(found, _RULES)


def stage_on(database: Database, *, ids: Iterator[int]) -> Stage:
    """Return a stage over *database*, whose positions below FIRST_DRAWN are the test's to give."""
    stage = Stage(database, mirrored(), ids=ids)
    stage.execute("SELECT setval('positions', :first) FROM positions WHERE last_value < :first", first=FIRST_DRAWN)
    return stage


def alive(name: str = "a", stamp: float = 0, **more: Any) -> Shown:
    """Return a living object, of one of whose kinds the stamp is told in seconds."""
    return Shown({"name": name, **more}, at(stamp))


GONE = Shown(None)
NOT_FOUND = Shown(None, proof=Proof.NOT_FOUND)
APPLIED, UNCHANGED, DECLINED, TIED = Verdict.APPLIED, Verdict.UNCHANGED, Verdict.DECLINED, Verdict.TIED


def together(*works: Callable[[], Any]) -> list[Any]:
    """Run *works* at once, each in a thread of its own; return what they returned, or raise what they raised."""
    gate = threading.Barrier(len(works))

    def started(work: Callable[[], Any]) -> Any:
        gate.wait(PATIENCE)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(started, work) for work in works]]


def in_the_way(stage: Stage, first: Callable[[Connection], object], second: Callable[[], Any]) -> Any:
    """Run *second* while a transaction that did *first* is open; commit that once *second* waits for it."""
    with ThreadPoolExecutor(1) as pool:
        with stage.database.transaction() as connection:
            first(connection)
            waiting = pool.submit(second)
            wait_for_a_lock(stage)
        return waiting.result(PATIENCE)


def wait_for_a_lock(stage: Stage) -> None:
    """Return when some statement of this database waits for a lock."""
    for _ in range(6000):
        [(waiting,)] = stage.query(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        if waiting:
            return
        threading.Event().wait(0.01)
    message = "nothing waits"
    raise AssertionError(message)
