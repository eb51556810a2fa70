"""Races between real connections: whoever comes first, nothing is lost, nothing goes back, nothing escapes."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from reconciler.model import Change, Named, Origin, Reason, Via
from reconciler.store import events, guard, refetches
from reconciler.store.refetches import Again, Want
from tests.store.stage import (
    APPLIED,
    DECLINED,
    FIRST_DRAWN,
    GONE,
    LEASE,
    PATIENCE,
    SOURCE,
    STAMPED,
    TIED,
    UNSTAMPED,
    alive,
    at,
    in_the_way,
    together,
    wait_for_a_lock,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from reconciler.model import ObjectRef, Reading
    from reconciler.store.events import Receipt
    from reconciler.store.refetches import Leased
    from tests.store.stage import Shown, Stage


@pytest.fixture
def told(ids: Iterator[int]) -> Iterator[str]:
    """Return event ids that no other test of this file has."""
    return (f"evt_{number}" for number in ids)


def settle(stage: Stage, leased: Leased) -> bool:
    """Settle *leased*."""
    return stage.run(lambda c: refetches.settle(c, leased, verdict=APPLIED))


def test_batches_in_opposite_order(stage: Stage) -> None:
    """K49: two writers of the same objects, each in its own order, hundreds of times: none is refused or lost."""
    refs = [stage.ref(UNSTAMPED) for _ in range(4)]
    rounds = 150

    def write(order: Sequence[ObjectRef], name: str) -> list[object]:
        verdicts: list[object] = []
        for number in range(rounds):
            spans = [stage.position()] * len(order)
            readings = [
                stage.reading(ref, alive(f"{name}{number}"), (span, None))
                for ref, span in zip(order, spans, strict=True)
            ]
            verdicts += [outcome.verdict for outcome in stage.apply(*readings)]
        return verdicts

    verdicts = [each for found in together(lambda: write(refs, "x"), lambda: write(refs[::-1], "y")) for each in found]
    stage.work_off({ref: alive("end") for ref in refs})
    [(recorded,)] = stage.query("SELECT count(*) FROM declined_writes WHERE id = ANY(:ids)", ids=[r.id for r in refs])
    [(written,)] = stage.query("SELECT count(*) FROM object_history WHERE id = ANY(:ids)", ids=[r.id for r in refs])

    assert len(verdicts) == 2 * rounds * len(refs)
    assert written >= verdicts.count(APPLIED)
    assert recorded >= verdicts.count(TIED) + verdicts.count(DECLINED)
    assert set(verdicts) <= {APPLIED, TIED, DECLINED}


def test_new_rows_in_opposite_order(stage: Stage) -> None:
    """Two writers that create the same objects in opposite order end with one row each and a verdict for every one."""
    for _ in range(60):
        refs = [stage.ref() for _ in range(6)]

        found = together(
            partial(stage.apply, *(stage.reading(ref, alive("x", 1), (10, 20)) for ref in refs)),
            partial(stage.apply, *(stage.reading(ref, alive("y", 2), (30, 40)) for ref in refs[::-1])),
        )

        assert sum(len(each) for each in found) == 12
        stage.work_off({ref: alive("y", 2) for ref in refs})
        assert all(stage.stands(ref, alive("y", 2)) for ref in refs)


def overtaken(stage: Stage, ref: ObjectRef, *, earlier: Shown, later: Shown) -> tuple[guard.Outcome, guard.Outcome]:
    """Apply *later* while *earlier*, which has drawn its position, waits for the row; return what came of both."""

    def write() -> list[guard.Outcome]:
        return stage.apply(stage.reading(ref, earlier, (30, 40)))

    with ThreadPoolExecutor(1) as pool:
        with stage.database.transaction() as connection:
            connection.execute(text("SELECT FROM objects FOR UPDATE"))
            waiting = pool.submit(write)
            wait_for_a_lock(stage)
            readings = [stage.reading(ref, later, (stage.position(), None))]
            [first] = guard.apply(connection, readings, origin=Origin(Via.SWEEP), mirror=stage.mirror, now=stage.clock)
        [second] = waiting.result(PATIENCE)
    return second, first


def test_row_written_while_we_waited_for_it(lone_stage: Stage) -> None:
    """A row that a later transaction wrote while we waited for its lock is no row from before a failover."""
    ref = lone_stage.ref()
    lone_stage.apply(lone_stage.reading(ref, alive("a", 1), (10, 20)))

    outcome, later = overtaken(lone_stage, ref, earlier=alive("b", 2), later=alive("c", 3))

    assert later.verdict is APPLIED
    assert outcome.verdict is DECLINED
    assert outcome.because == "its stamp is older, and it was read before"
    assert lone_stage.position() < FIRST_DRAWN + 100


def test_ladder_climbed_while_we_waited_for_its_row(lone_stage: Stage) -> None:
    """A ladder that a later transaction climbed while we waited for the row's lock is none from before a failover."""
    ref = lone_stage.ref()
    lone_stage.apply(lone_stage.reading(ref, GONE, (10, 20)))

    outcome, later = overtaken(lone_stage, ref, earlier=alive("b", 2), later=alive("c", 3))

    assert [outcome.verdict, later.verdict] == [TIED, TIED]
    assert outcome.seen == later.seen
    assert outcome.seen.until == later.positions[1]
    assert lone_stage.position() < FIRST_DRAWN + 100


def test_row_deleted_by_hand_between_the_two_statements(lone_stage: Stage) -> None:
    """A row that vanishes while we wait for the lock of another is written anew."""
    stage = lone_stage
    refs = sorted((stage.ref(), stage.ref(), stage.ref()))
    held, ref, new = refs
    for each in (held, ref):
        stage.apply(stage.reading(each, alive("a", 1), (10, 20)))
    readings = [stage.reading(each, alive("b", 2), (stage.position(), None)) for each in refs]

    with ThreadPoolExecutor(1) as pool:
        with stage.database.transaction() as connection:
            connection.execute(text("SELECT FROM objects WHERE id = :id FOR UPDATE"), {"id": held.id})
            waiting = pool.submit(stage.apply, *readings)
            wait_for_a_lock(stage)
            connection.execute(text("DELETE FROM objects WHERE id = :id"), {"id": ref.id})
        found = waiting.result(PATIENCE)

    assert [(outcome.verdict, outcome.change) for outcome in found] == [
        (APPLIED, Change.UPDATED),
        (APPLIED, Change.CREATED),
        (APPLIED, Change.CREATED),
    ]
    assert all(stage.stands(each, alive("b", 2)) for each in refs)
    assert [past.what for past in stage.of("object_history", ref)] == ["created", "created"]
    assert [past.what for past in stage.of("object_history", new)] == ["created"]
    refetch = stage.refetch(ref)
    assert refetch is not None
    assert refetch.reason == "hand_edit"


def test_two_workers_close_one_event(stage: Stage, told: Iterator[str]) -> None:
    """An event that names two objects is closed by whichever worker comes last, however close they come."""
    for _ in range(60):
        one, other, event = stage.ref(), stage.ref(UNSTAMPED), next(told)
        stage.record(event, Named(one), Named(other))
        leases = stage.leased(one), stage.leased(other)

        together(*(partial(stage.conclude, leased, alive()) for leased in leases))

        assert stage.event(event).outcome == "done"


def test_second_worker_waits_for_the_first(lone_stage: Stage) -> None:
    """A worker that settles while another holds the event sees what that one did, and closes the event."""
    stage = lone_stage
    one, other = stage.ref(), stage.ref()
    stage.record("evt", Named(one), Named(other))
    first, second = stage.leased(one), stage.leased(other)

    def conclude_first(connection: Connection) -> None:
        events.lock(connection, first)
        refetches.settle(connection, first, verdict=APPLIED)
        assert events.close(connection, SOURCE, ["evt"], now=stage.clock) == []

    in_the_way(stage, conclude_first, lambda: stage.conclude(second, alive()))

    assert stage.event("evt").outcome == "done"


def test_wants_out_of_commit_order(lone_stage: Stage) -> None:
    """Of two receivers of one object the later to commit has the later number, so no read settles the other's."""
    stage = lone_stage
    ref = stage.ref()
    numbers = []

    def first(connection: Connection) -> None:
        numbers.append(refetches.want(connection, [Want(ref, Reason.WEBHOOK)], now=stage.clock)[ref])
        assert stage.lease(ref) is None, "what is not committed is not leased"

    for _ in range(2):  # a row that is new, and one that is there
        numbers.append(in_the_way(stage, first, lambda: stage.want(ref)))
        stage.execute("UPDATE refetches SET leased_until = NULL")

    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 4
    assert stage.leased(ref).wanted == numbers[-1]


def test_want_while_a_worker_settles(stage: Stage) -> None:
    """Wanting and settling at once never loses the want."""
    for _ in range(60):
        ref = stage.ref()
        stage.want(ref)
        leased = stage.leased(ref)

        _, number = together(
            partial(settle, stage, leased),
            partial(stage.want, ref),
        )

        refetch = stage.refetch(ref)
        assert refetch is not None
        assert refetch.wanted == number
        assert refetch.done == leased.wanted
        assert stage.lease(ref) is not None


def test_one_worker_leases(stage: Stage) -> None:
    """However many workers ask, one gets the refetch."""
    for _ in range(20):
        ref = stage.ref()
        stage.want(ref)

        leases = together(*([partial(stage.lease, ref)] * 8))

        assert sum(each is not None for each in leases) == 1


def test_workers_share_a_lane(lone_stage: Stage) -> None:
    """Workers that ask at once get different refetches, and none has to wait."""
    stage = lone_stage
    for _ in range(40):
        stage.want(stage.ref())

    def lease_some() -> list[ObjectRef]:
        found = []
        while leased := stage.run(
            lambda c: refetches.lease(c, SOURCE, STAMPED, n=1, sweep=False, lease=LEASE, now=stage.clock)
        ):
            found.append(leased.ref)
        return found

    taken = [ref for found in together(*[lease_some] * 4) for ref in found]

    assert len(taken) == len(set(taken)) == 40


def test_twenty_copies_of_one_event(stage: Stage, told: Iterator[str]) -> None:
    """K13: the same event on twenty connections is one event, one want each at most, and twenty answers."""
    for _ in range(5):
        ref, event = stage.ref(), next(told)

        receipts: list[Receipt] = together(*[partial(stage.record, event, Named(ref))] * 20)

        assert sorted(receipt.duplicate for receipt in receipts) == [False] + [True] * 19
        assert stage.event(event).duplicates == 19
        [(waits,)] = stage.query("SELECT wanted FROM event_objects WHERE event_id = :id", id=event)
        refetch = stage.refetch(ref)
        assert refetch is not None
        assert waits == refetch.wanted
        stage.work_off({ref: alive()})
        assert stage.event(event).outcome == "done"
        assert len(stage.of("object_history", ref)) == 1


def test_copies_racing_the_worker(stage: Stage, told: Iterator[str]) -> None:
    """A copy that comes while the event's read is concluded is a repeat of an open event or of a done one."""
    for _ in range(40):
        ref, event = stage.ref(), next(told)
        stage.record(event, Named(ref))
        leased = stage.leased(ref)

        together(
            partial(stage.conclude, leased, alive()),
            partial(stage.record, event, Named(ref)),
        )
        reads = stage.work_off({ref: alive()})

        assert stage.event(event).outcome == "done"
        assert stage.event(event).duplicates == 1
        assert reads in {0, 1}


def test_repeat_while_a_worker_holds_the_event(lone_stage: Stage) -> None:
    """A repeat that finds its event about to be closed waits, and is the repeat of a done event."""
    stage = lone_stage
    ref = stage.ref()
    number = stage.want(ref)
    stage.record("evt", Named(ref))
    leased = stage.leased(ref)

    def conclude(connection: Connection) -> None:
        events.lock(connection, leased)
        refetches.settle(connection, leased, verdict=APPLIED)
        events.close(connection, SOURCE, ["evt"], now=stage.clock)

    in_the_way(stage, conclude, lambda: stage.record("evt", Named(ref)))

    refetch = stage.refetch(ref)
    assert refetch is not None
    assert stage.event("evt").outcome == "done"
    assert stage.event("evt").duplicates == 1
    assert refetch.wanted == refetch.done == leased.wanted > number


def test_repeat_that_was_told_from_a_new_event_before_a_worker_came(lone_stage: Stage) -> None:
    """How a repeated event stands is looked at under its lock."""
    stage = lone_stage
    ref = stage.ref()
    stage.record("evt", Named(ref))
    leased = stage.leased(ref)
    key, arrival = (SOURCE, "evt"), stage.arrival("evt", Named(ref))

    def conclude(connection: Connection) -> None:
        events.lock(connection, leased)
        refetches.settle(connection, leased, verdict=APPLIED)
        events.close(connection, SOURCE, ["evt"], now=stage.clock)

    with stage.database.transaction() as repeat:
        new = events._insert(repeat, [arrival])
        stood = in_the_way(stage, conclude, lambda: events._count(repeat, {key: arrival}, Counter({key: 1})))

    assert new == set()
    assert stood == {key: "done"}
    assert stage.event("evt").outcome == "done"


def test_repeat_while_a_worker_waits_for_the_event(lone_stage: Stage) -> None:
    """A repeat that got the event first is not closed by the read from before it."""
    stage = lone_stage
    ref = stage.ref()
    stage.record("evt", Named(ref))
    leased = stage.leased(ref)
    arrival = stage.arrival("evt", Named(ref))

    in_the_way(
        stage,
        lambda c: events.receive(c, [arrival], now=stage.clock),
        lambda: stage.conclude(leased, alive()),
    )
    between = stage.event("evt").outcome
    stage.work_off({ref: alive()})

    assert between is None
    assert stage.event("evt").outcome == "done"


def test_late_worker_applies_and_settles_nothing(stage: Stage) -> None:
    """A worker that outlived its lease writes by the guard like any other, and leaves the refetch to its holder."""
    ref = stage.ref(UNSTAMPED)
    stage.want(ref)
    late = stage.leased(ref)
    stage.tick(LEASE.total_seconds())
    holder = stage.leased(ref)
    stage.conclude(holder, alive("new"))
    settled = stage.refetch(ref)

    outcome = stage.conclude(late, alive("old"))

    refetch = stage.refetch(ref)
    assert settled is not None
    assert refetch is not None
    assert outcome.verdict is TIED
    assert stage.stands(ref, alive("new"))
    assert refetch.done == settled.done
    assert refetch.wanted == outcome.wanted
    stage.work_off({ref: alive("new")})
    assert stage.stands(ref, alive("new"))


def test_delayed_reread_and_an_earlier_want(stage: Stage) -> None:
    """A want before a reread's time is read at once, and the reread still comes in its time."""
    ref = stage.ref()
    stage.apply(stage.reading(ref, GONE, (10, 20)))
    stage.want(ref)
    first = stage.reread(ref, alive("back"))
    stage.tick(3)
    stage.want(ref)

    early = stage.reread(ref, alive("back"))
    due = stage.due_at(ref)
    reads = stage.work_off({ref: alive("back")})

    assert first is not None
    assert early is not None
    assert (first.verdict, early.verdict) == (TIED, TIED)
    assert due == at(10)
    assert reads == 1
    assert stage.stands(ref, alive("back"))


@pytest.mark.parametrize("drawn", ["before", "after"])
def test_page_read_ahead(stage: Stage, drawn: str) -> None:
    """A page whose position was drawn before it was asked for wins over nothing that was read since."""
    ref = stage.ref()
    page = stage.reading(ref, alive("old", 5), (stage.position(), stage.position()), listed=True)
    stage.want(ref)
    fetched = stage.reread(ref, alive("new", 5))
    if drawn == "after":  # the fault this forbids: the page would count as read after the fetch
        page = stage.reading(ref, alive("old", 5), (stage.position(), None), listed=True)

    [outcome] = stage.apply(page)

    assert fetched is not None
    assert outcome.verdict is (DECLINED if drawn == "before" else APPLIED)
    assert stage.stands(ref, alive("new" if drawn == "before" else "old", 5))


# --- failover ---


def rows_beyond(stage: Stage, refs: Sequence[ObjectRef]) -> None:
    """Let rows be written at positions that the sequence then forgets."""
    stage.execute("SELECT setval('positions', 50000)")
    for ref in refs:
        stage.apply(stage.reading(ref, alive("a", 5), (stage.position(), None)))
    stage.execute("SELECT setval('positions', 2000)")


def test_row_from_before_a_failover(lone_stage: Stage) -> None:
    """A read that meets a row from beyond the sequence is tied whatever it shows, and the sequence moves on."""
    stage = lone_stage
    same, differs, gone = (stage.ref() for _ in range(3))
    rows_beyond(stage, [same, differs, gone])
    shown = {same: alive("a", 5), differs: alive("b", 6), gone: GONE}

    outcomes = stage.apply(*(stage.reading(ref, shown[ref], (stage.position(), None)) for ref in shown))

    assert [outcome.verdict for outcome in outcomes] == [TIED] * 3
    assert {outcome.because for outcome in outcomes} == {"positions from before a failover or restore"}
    assert [stage.due_at(ref) for ref in shown] == [stage.clock] * 3
    assert stage.position() > 150000
    assert stage.work_off(shown) == 3
    assert all(stage.stands(ref, shown[ref]) for ref in shown)


@pytest.mark.parametrize("kind", [STAMPED, UNSTAMPED])
@pytest.mark.parametrize("has_row", [True, False])
@pytest.mark.parametrize("span", [(50000, None), (50000, 50001), (1500, 50000)])
def test_read_from_before_a_failover(
    lone_stage: Stage, kind: str, span: tuple[int, int | None], *, has_row: bool
) -> None:
    """A read with positions that the sequence has not reached is dropped, wanted again, and writes no row."""
    stage = lone_stage
    ref = stage.ref(kind)
    if has_row:
        stage.apply(stage.reading(ref, alive("a", 5), (10, 20)))
    stage.execute("SELECT setval('positions', 2000)")
    before = stage.row(ref)

    [outcome] = stage.apply(stage.reading(ref, alive("ghost", 9), span))

    assert outcome.verdict is TIED
    assert stage.row(ref) == before
    assert [record.verdict for record in stage.of("declined_writes", ref)] == ["tied"]
    assert stage.due_at(ref) == stage.clock
    assert stage.position() > 50000
    stage.work_off({ref: alive("b", 6)})
    assert stage.stands(ref, alive("b", 6))


@pytest.mark.parametrize(
    ("span", "verdict"),
    [((2000, 2001), APPLIED), ((2001, None), TIED), ((2000, None), APPLIED), ((1999, 2002), TIED)],
)
def test_read_at_the_edge_of_the_sequence(lone_stage: Stage, span: tuple[int, int | None], verdict: object) -> None:
    """A read counts if it began below the applying transaction's position and ended no later than at it."""
    stage = lone_stage
    ref = stage.ref()
    stage.execute("SELECT setval('positions', 2000)")  # the transaction draws 2001

    [outcome] = stage.apply(stage.reading(ref, alive(), span))

    assert outcome.verdict is verdict


def test_row_at_the_edge_of_the_sequence(lone_stage: Stage) -> None:
    """A row at the very number that is drawn under its lock is from another time line."""
    stage = lone_stage
    for edge, verdict in ((2002, TIED), (2001, APPLIED)):
        ref = stage.ref()
        stage.apply(stage.reading(ref, alive("a", 1), (10, 20)))
        marked = "WITH marked AS MATERIALIZED (SELECT set_config('reconciler.guard', 'on', true) AS guard) "
        stage.execute(
            f"{marked} UPDATE objects SET read_until = :edge FROM marked WHERE id = :id AND guard = 'on'",
            edge=edge,
            id=ref.id,
        )
        stage.execute("SELECT setval('positions', 2000)")  # the transaction draws 2001, and under the lock 2002

        [outcome] = stage.apply(stage.reading(ref, alive("b", 2), (1990, 1995)))

        assert (outcome.verdict is TIED, outcome.because.startswith("positions")) == (True, verdict is TIED)


def test_second_mover_of_the_sequence_waits(lone_stage: Stage) -> None:
    """Whoever finds the sequence behind looks again once the other has moved it, and moves it no more."""
    stage = lone_stage

    in_the_way(stage, lambda c: refetches.outrun(c, 6000), lambda: stage.run(lambda c: refetches.outrun(c, 5000)))

    assert stage.position() == 106_001


def test_movers_of_the_sequence(lone_stage: Stage) -> None:
    """However many find the sequence behind at once, it never moves back under anybody's feet."""
    stage = lone_stage
    drawn: list[int] = []

    def move(beyond: int) -> None:
        stage.run(lambda c: refetches.outrun(c, beyond))
        drawn.extend(stage.position() for _ in range(20))

    together(*[partial(move, 5000 + number) for number in range(6)])

    assert len(set(drawn)) == len(drawn) == 120
    assert min(drawn) > 5005


# --- batches that one snapshot spoils ---


def broken(stage: Stage, ref: ObjectRef) -> Reading:
    """Return a reading that cannot even be compared."""
    deep: object = 1
    for _ in range(3):
        deep = {"deeper": float("nan"), "more": deep}
    return stage.reading(ref, alive(name="x", deep=deep), (10, 20), listed=True)


def test_batch_that_one_snapshot_spoils(stage: Stage) -> None:
    """The one that cannot be stored becomes a dead letter with the reason; the others are applied, in their order."""
    refs = [stage.ref() for _ in range(7)]
    bad = refs[4]
    told: list[tuple[ObjectRef, int]] = []
    readings = [
        broken(stage, ref) if ref == bad else stage.reading(ref, alive("fine"), (10, 20), listed=True) for ref in refs
    ]

    outcomes = guard.apply_apart(
        stage.database,
        readings,
        origin=Origin(Via.SWEEP, run_id=4),
        mirror=stage.mirror,
        loading=iter([(SOURCE, STAMPED)]),
        buried=lambda _, ref, number: told.append((ref, number)),
        now=stage.clock,
    )

    refetch = stage.refetch(bad)
    assert refetch is not None
    assert [outcome.ref for outcome in outcomes] == [ref for ref in refs if ref != bad]
    assert {(outcome.verdict, outcome.change) for outcome in outcomes} == {(APPLIED, "loaded")}
    assert stage.row(bad) is None
    assert refetch.dead_at == stage.clock
    assert refetch.last_error.startswith("cannot be stored: ")
    assert told == [(bad, refetch.wanted)]
    assert stage.of("object_history", refs[0])[0].run_id == 4


def test_batch_apart_of_nothing(stage: Stage) -> None:
    """No readings, no outcomes."""
    assert guard.apply_apart(stage.database, [], origin=Origin(Via.SWEEP), mirror=stage.mirror) == []


@pytest.mark.parametrize(
    ("sqlstate", "spoils"), [("22P02", True), ("23514", True), ("54000", True), ("42501", False), ("55P03", False)]
)
def test_what_spoils_a_batch(lone_stage: Stage, sqlstate: str, *, spoils: bool) -> None:
    """Only a refusal of the values themselves makes a dead letter, and quotes none; other errors are the caller's."""
    stage = lone_stage
    good, bad = stage.ref(), stage.ref()
    stage.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'refused: \"%\"', NEW.body ->> 'name' "
        f"USING ERRCODE = '{sqlstate}', DETAIL = NEW.body::text; END $$"
    )
    stage.execute(
        f"CREATE TRIGGER refuse BEFORE INSERT ON objects FOR EACH ROW WHEN (NEW.id = '{bad.id}') "
        "EXECUTE FUNCTION refuse()"
    )
    readings = [stage.reading(ref, alive(name="planted"), (10, 20), listed=True) for ref in (good, bad)]

    def apply() -> object:
        return guard.apply_apart(stage.database, readings, origin=Origin(Via.SWEEP), mirror=stage.mirror)

    if spoils:
        apply()
    else:
        with pytest.raises(DBAPIError):
            apply()

    refetch = stage.refetch(bad)
    assert (refetch is not None) is spoils
    assert (stage.row(good) is not None) is spoils
    if refetch is not None:
        assert refetch.last_error.startswith("cannot be stored: ")
        assert "refused" in refetch.last_error
        assert "planted" not in refetch.last_error


# --- lock order ---


def crosswise(
    stage: Stage,
    work: Callable[[Connection, Sequence[int]], object],
    *,
    begin: Callable[[Stage], AbstractContextManager[Connection]] | None = None,
) -> None:
    """
    Let one transaction take the first of two things, another both in the wrong order, then the first the second.

    Only if the other takes them in the right order after all does it wait without holding what the first still needs.
    Nobody tries a deadlock again here.
    """
    begin = begin or plainly

    def other() -> None:
        with begin(stage) as connection:
            work(connection, (1, 0))

    with ThreadPoolExecutor(1) as pool:
        with begin(stage) as connection:
            work(connection, (0,))
            waiting = pool.submit(other)
            wait_for_a_lock(stage)
            work(connection, (1,))
        waiting.result(PATIENCE)


@contextmanager
def plainly(stage: Stage) -> Iterator[Connection]:
    """Yield a connection whose plans do not hide the order in which keys are given."""
    with stage.database.transaction() as connection:
        for way in ("hashjoin", "mergejoin", "seqscan", "bitmapscan"):
            connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
        yield connection


def pair(stage: Stage) -> list[ObjectRef]:
    """Return two objects in the order of their keys."""
    return sorted((stage.ref(), stage.ref()))


@pytest.mark.parametrize("known", [False, True])
def test_lock_order_of_writers(lone_stage: Stage, *, known: bool) -> None:
    """Rows are made and locked in the order of their keys."""
    stage = lone_stage
    refs = pair(stage)
    if known:
        stage.apply(*(stage.reading(ref, alive("a", 1), (10, 20)) for ref in refs))

    def write(connection: Connection, order: Sequence[int]) -> None:
        if known and len(order) == 1:  # a row that is only locked does not stop the other at its insert
            connection.execute(text("SELECT FROM objects WHERE id = :id FOR UPDATE"), {"id": refs[order[0]].id})
            return
        # Of one object's reads the earliest goes first, which is found by going backwards.
        readings = [stage.reading(refs[each], alive("b", 2), (30, 40)) for each in reversed(order)]
        guard.apply(connection, readings, origin=Origin(Via.SWEEP), mirror=stage.mirror, now=stage.clock)

    crosswise(stage, write)

    assert all(stage.stands(ref, alive("b", 2)) for ref in refs)


@pytest.mark.parametrize("known", [False, True])
def test_lock_order_of_wants(lone_stage: Stage, *, known: bool) -> None:
    """Refetches are made and locked in the order of their keys."""
    stage = lone_stage
    refs = pair(stage)
    for ref in refs if known else ():
        stage.want(ref)

    def want(connection: Connection, order: Sequence[int]) -> None:
        refetches.want(connection, [Want(refs[each], Reason.WEBHOOK) for each in order], now=stage.clock)

    crosswise(stage, want)

    assert all(stage.due_at(ref) == stage.clock for ref in refs)


def test_lock_order_of_ladders(lone_stage: Stage) -> None:
    """What ladders have seen is locked in the order of keys."""
    stage = lone_stage
    refs = pair(stage)
    for ref in refs:
        stage.want(ref)

    crosswise(stage, lambda connection, order: refetches.lock_seen(connection, [refs[each] for each in order]))


def test_lock_order_of_new_rereads(lone_stage: Stage) -> None:
    """Rereads of objects that nobody wanted yet are queued in the order of their keys."""
    stage = lone_stage
    refs = pair(stage)

    def queue(connection: Connection, order: Sequence[int]) -> None:
        again = [Again(refs[each], (at(5),), Reason.TIE, None, wants=True, began_at=None) for each in order]
        refetches.read_again(connection, again, now=stage.clock)

    crosswise(stage, queue)

    assert all(stage.due_at(ref) == at(5) for ref in refs)


@pytest.mark.parametrize("known", [False, True])
def test_lock_order_of_receivers(lone_stage: Stage, *, known: bool) -> None:
    """Events are stored, and told from their repeats, in the order of their keys."""
    stage = lone_stage
    arrivals = [stage.arrival(name) for name in ("evt_1", "evt_2")]
    for name in ("evt_1", "evt_2") if known else ():
        stage.record(name)

    def receive(connection: Connection, order: Sequence[int]) -> None:
        # Of copies the first counts, which is found by going backwards: the last to come is the first to be stored.
        events.receive(connection, [arrivals[each] for each in reversed(order)], now=stage.clock)

    crosswise(stage, receive)

    assert {stage.event(name).duplicates for name in ("evt_1", "evt_2")} == {2 if known else 1}


def test_lock_order_of_repeats(lone_stage: Stage) -> None:
    """Receivers that were both told of repeats before either locked one lock them in the order of their keys."""
    stage = lone_stage
    arrivals = {(SOURCE, name): stage.arrival(name) for name in ("evt_1", "evt_2")}
    for _, name in arrivals:
        stage.record(name)

    def count(connection: Connection, order: Sequence[int]) -> None:
        keys = [list(arrivals)[each] for each in order]
        events._count(connection, {key: arrivals[key] for key in keys}, Counter(keys))

    crosswise(stage, count)

    assert {stage.event(name).duplicates for _, name in arrivals} == {2}


def test_lock_order_of_workers(lone_stage: Stage) -> None:
    """The events that a read may close are locked in the order of their keys, not of their coming."""
    stage = lone_stage
    one, other, both = stage.ref(), stage.ref(), stage.ref()
    stage.record("evt_2", Named(other), Named(both))
    stage.record("evt_1", Named(one), Named(both))
    leases = {(0,): stage.leased(one), (1,): stage.leased(other), (1, 0): stage.leased(both)}
    stage.execute("ALTER TABLE event_objects DROP CONSTRAINT event_objects_pkey")  # it would sort them by itself

    crosswise(stage, lambda connection, order: events.lock(connection, leases[tuple(order)]))


def test_lock_order_of_replays(lone_stage: Stage) -> None:
    """Events are opened again in the order of their keys."""
    stage = lone_stage
    names = ("evt_1", "evt_2")
    for name in reversed(names):
        stage.record(name)

    crosswise(
        stage,
        lambda connection, order: events.replay(connection, event_ids=[names[each] for each in order]),
        begin=lambda stage: stage.database.transaction(),  # a scan finds them as they came
    )
