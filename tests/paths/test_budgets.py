"""Budgets as callers meet them: several processes, threads in two lanes, real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from reconciler.adapter import Allotment, Limit, per_second
from reconciler.budgets import Budgets, Lane, Standing
from reconciler.errors import DatabaseUnavailable, SourceBusy, SourceUnavailable
from reconciler.store import buckets
from reconciler.store.database import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from reconciler.store.database import Database

_ROOT = Path(__file__).parents[2]
CALL = "GET /v1/customers/{id}"
OTHER = "GET /v1/prices/{id}"
_SLOW = {"shop": [Limit("calls", 0.01, 2)]}


class Counted:
    """Remember what was counted."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str, str]] = []

    def called(self, source: str, operation: str, status: str) -> None:
        """Remember one answer."""
        self.answers.append((source, operation, status))


def budgets(
    database: Database, limits: Mapping[str, Sequence[Limit]], counted: Counted | None = None, stop: Event | None = None
) -> Budgets:
    """Return budgets as a process of its own would have them."""
    return Budgets(database, limits, counted or Counted(), stop=stop)


def call_for(url: str, schema: str, seconds: float, lane: Lane) -> list[tuple[float, float]]:
    """Make all the calls that are granted in so many seconds; return the database's clock before and after each."""
    database = connect(url, schema=schema, connections=2)
    mine = budgets(database, {"shop": [Limit("calls", 40, 8), Limit("operation", 30, 8, "*")]})
    idle, calls, end = Event(), [], time.monotonic() + seconds
    with buckets.at_once(database) as connection, mine.calling(lane):
        while time.monotonic() < end:
            before = clock(connection)
            if wait := mine.take("shop", CALL):
                idle.wait(wait)
                continue
            calls.append((before, clock(connection)))
            mine.of("shop").spend(CALL)
    database.close()
    return calls


def clock(connection: Connection) -> float:
    """Return the database's time."""
    return float(connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())::float8").scalar_one())


@contextmanager
def spawned(database: Database, seconds: float, lane: Lane) -> Iterator[subprocess.Popen[str]]:
    """Yield a process of this file's own that calls for so many seconds and prints its calls."""
    command = [sys.executable, __file__, database.url, database.schema, str(seconds), lane]
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def refusal(mine: Budgets, operation: str = CALL) -> SourceUnavailable | None:
    """Spend one call; return why that could not be done."""
    try:
        mine.of("shop").spend(operation)
    except SourceUnavailable as refused:
        return refused
    return None


@contextmanager
def threads(count: int, stop: Event) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that are told to stop at the end, however it comes."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        finally:
            stop.set()


def hammering(mine: Budgets, lane: Lane, stop: Event, operation: str = CALL) -> Callable[[], int]:
    """Return what spends in *lane* until *stop* is set, and then says how much."""

    def hammer() -> int:
        with mine.calling(lane) as calls:
            while not stop.is_set():
                refusal(mine, operation)
            return calls.count

    return hammer


def test_processes_share_one_limit(database: Database) -> None:
    """Several processes in both lanes together never get more than rate and burst, in any window, and get the rate."""
    lanes = [Lane.LIVE, Lane.SWEEP, Lane.LIVE]
    with ExitStack() as stack:
        running = [stack.enter_context(spawned(database, 4, lane)) for lane in lanes]

        calls = [call for each in running for call in json.loads(each.communicate(timeout=60)[0])]

    ends = sorted(after for _, after in calls)
    for before, _ in calls:
        for end in ends:
            # A call was granted between its two readings: those between both ends were so for certain.
            inside = sum(1 for first, last in calls if before <= first and last <= end)
            assert inside <= 8 + 30 * max(0.0, end - before) + 1e-6
    assert len(calls) >= 0.5 * 30 * 4


def test_sweeps_move_under_full_live_load(database: Database) -> None:
    """While live work takes all it can get, sweeps keep their tenth, and no more."""
    stop, began = Event(), time.monotonic()
    mine = budgets(database, {"shop": [Limit("calls", 100, 10)]}, stop=stop)
    with threads(4, stop) as pool:
        by_live = [pool.submit(hammering(mine, Lane.LIVE, stop)) for _ in range(3)]
        by_sweep = pool.submit(hammering(mine, Lane.SWEEP, stop))
        stop.wait(3)
        stop.set()
    took = time.monotonic() - began

    swept, lived = by_sweep.result(), sum(each.result() for each in by_live)
    assert 15 <= swept <= 10 * took + 10
    assert lived >= 0.5 * 270


def test_live_work_passes_hammering_sweeps(database: Database) -> None:
    """Live work below its rate is not kept waiting by sweeps that take whatever they get."""
    stop = Event()
    mine, theirs = (budgets(database, {"shop": [Limit("calls", 10, 10)]}, stop=stop) for _ in range(2))
    waits = []
    with threads(3, stop) as pool:
        sweeping = [pool.submit(hammering(each, Lane.SWEEP, stop)) for each in (mine, mine, theirs)]
        for _ in range(12):
            stop.wait(0.2)
            began = time.monotonic()
            mine.of("shop").spend(CALL)
            waits.append(time.monotonic() - began)
        stop.set()

    assert sorted(waits)[6] < 0.05
    assert sum(each.result() for each in sweeping) >= 12


def test_a_hold_is_seen_by_other_processes(database: Database) -> None:
    """What the provider told one process, all obey: at once, in both lanes, for as long as it said."""
    here, there = (budgets(database, {"shop": per_second(1000, 1000)}) for _ in range(2))
    there.of("shop").spend(CALL)

    here.of("shop").hold(0.4)
    held = [there.take("shop", CALL), there.take("shop", OTHER)]
    with there.calling(Lane.SWEEP):
        held.append(there.take("shop", CALL))
    began = time.monotonic()
    there.of("shop").spend(CALL)

    assert all(0.2 < wait <= 0.4 for wait in held)
    assert 0.2 < time.monotonic() - began < 2


@pytest.mark.parametrize("limits", [per_second(1000, 1000), per_second(1000), [Limit("some", 9, 9, "POST *")], []])
def test_a_hold_on_one_operation_leaves_others_alone(database: Database, limits: Sequence[Limit]) -> None:
    """Whatever a source's limits, one operation can be held, or all of them."""
    here, there = (budgets(database, {"shop": limits}) for _ in range(2))

    here.of("shop").hold(60, operation=CALL)
    one, other = there.take("shop", CALL), there.take("shop", OTHER)
    here.of("shop").hold(60)
    both = [there.take("shop", CALL), there.take("shop", OTHER)]

    assert one == pytest.approx(60, abs=5)
    assert other == 0
    assert both == pytest.approx([60, 60], abs=5)


@pytest.mark.parametrize("seconds", [0, -5, float("nan")])
def test_a_hold_for_no_time_is_none(database: Database, seconds: float) -> None:
    """A provider that says to wait for nothing stops nobody."""
    mine = budgets(database, {"shop": per_second(10)})

    mine.of("shop").hold(seconds)

    assert mine.take("shop", CALL) == 0


def test_an_operation_has_its_own_limit(database: Database) -> None:
    """One operation that ran out leaves the others their calls; a pattern concerns only what fits it."""
    mine = budgets(database, {"shop": [Limit("calls", 1, 50), Limit("some", 0.01, 2, "GET /v1/c*")]})
    first = (mine.take("shop", CALL), mine.take("shop", "GET /v1/charges/{id}"))

    again = mine.take("shop", CALL)
    others = [mine.take("shop", OTHER) for _ in range(20)]

    assert first == (0, 0)
    assert again > 60
    assert set(others) == {0}


def test_an_operation_that_counts_apart(database: Database) -> None:
    """What has a limit of its own takes nothing from that of all others, and goes on when that is used up."""
    mine = budgets(database, {"shop": [Limit("hour", 0.01, 20, but=OTHER), Limit("apart", 0.01, 20, OTHER)]})
    apart = [mine.take("shop", OTHER) for _ in range(12)]

    others = [mine.take("shop", CALL) for _ in range(12)]
    used_up = [mine.take("shop", CALL) for _ in range(8)]

    assert set(apart) == set(others) == {0}
    assert used_up[-1] > 60
    assert mine.take("shop", OTHER) == 0


def test_a_call_past_the_deadline_is_busy(database: Database) -> None:
    """A call that could not be made in time fails at once, says when it can be, and takes nothing."""
    mine = budgets(database, _SLOW)
    began = time.monotonic()
    with mine.calling(Lane.LIVE, deadline=30) as calls:
        mine.of("shop").spend(CALL)

        with pytest.raises(SourceBusy, match=r"shop: no call left for GET /v1/customers/\{id\} within 1") as busy:
            mine.of("shop").spend(CALL)

    assert time.monotonic() - began < 5
    assert busy.value.retry_after == pytest.approx(100, abs=12)
    assert calls.count == 1


def test_a_call_after_the_deadline_is_not_made(database: Database) -> None:
    """A read of many calls ends with its deadline, even if each could be made at once; nobody was busy."""
    mine = budgets(database, {"shop": per_second(1000)})
    with (
        mine.calling(Lane.LIVE, deadline=-1) as calls,
        pytest.raises(SourceUnavailable, match="takes too long") as late,
    ):
        mine.of("shop").spend(CALL)

    assert not isinstance(late.value, SourceBusy)
    assert calls.count == 0


def test_a_call_within_the_deadline_waits(database: Database) -> None:
    """A call that can be made in time waits for its turn instead of failing."""
    mine = budgets(database, {"shop": [Limit("calls", 5, 2)]})
    with mine.calling(Lane.LIVE, deadline=30) as calls:
        began = time.monotonic()
        for _ in range(3):
            mine.of("shop").spend(CALL)
        took = time.monotonic() - began

    assert calls.count == 3
    assert 0.35 < took < 3


def test_a_read_that_goes_on_gives_signs_of_life(database: Database) -> None:
    """Each call and each answer is a sign, so that a long read is not taken for a loop that hangs; outside is none."""
    beats: list[float] = []
    mine = budgets(database, {"shop": [Limit("calls", 5, 2)]})
    with mine.calling(Lane.LIVE, beat=lambda: beats.append(time.monotonic())):
        for _ in range(3):
            mine.of("shop").spend(CALL)
            mine.of("shop").answered(CALL, "200")
    inside = len(beats)
    mine.of("shop").answered(CALL, "200")

    assert len(beats) == inside >= 6


def test_one_waiting_call_does_not_hold_up_a_shorter_deadline(database: Database) -> None:
    """Behind a call that waits for long, one with a deadline still gives up in time."""
    stop = Event()
    mine = budgets(database, {"shop": [Limit("calls", 0.5, 2)]}, stop=stop)
    mine.of("shop").spend(CALL)
    with threads(1, stop) as pool:
        waiting = pool.submit(hammering(mine, Lane.LIVE, stop))
        began = time.monotonic()
        with mine.calling(Lane.LIVE, deadline=3):
            refused = [refusal(mine) for _ in range(5)]
        took = time.monotonic() - began
        stop.set()

        assert waiting.result(timeout=10) <= 3
    assert any(refused)
    assert took < 4


def test_stopping_wakes_every_waiting_call(database: Database) -> None:
    """Calls that wait give up as soon as the program stops, those in the queue too."""
    stop = Event()
    mine = budgets(database, _SLOW, stop=stop)
    mine.of("shop").spend(CALL)
    with threads(3, stop) as pool:
        waiting = [pool.submit(mine.of("shop").spend, CALL) for _ in range(3)]
        stop.wait(0.2)
        assert not any(each.done() for each in waiting)
        began = time.monotonic()
        stop.set()

        errors = [each.exception(timeout=10) for each in waiting]

    assert all(isinstance(error, SourceBusy) for error in errors)
    assert time.monotonic() - began < 2


def test_a_call_taken_before_is_paid(database: Database) -> None:
    """The next call of this operation in this thread costs nothing more; the one after does."""
    mine = budgets(database, {"shop": [Limit("calls", 0.01, 3)]})
    with mine.calling(Lane.LIVE, deadline=9) as calls:
        assert mine.take("shop", CALL) == 0
        assert mine.take("shop", CALL) == 0
        assert mine.take("shop", CALL) > 0
        mine.of("shop").spend(CALL)
        mine.of("shop").spend(CALL)

        with pytest.raises(SourceBusy):
            mine.of("shop").spend(CALL)

    assert calls.count == 2


def test_a_call_taken_is_its_threads_alone(database: Database) -> None:
    """What one thread paid for, neither another thread nor another operation uses up."""
    mine = budgets(database, _SLOW)
    mine.take("shop", CALL)

    def elsewhere() -> SourceUnavailable | None:
        with mine.calling(Lane.LIVE, deadline=9):
            return refusal(mine)

    with ThreadPoolExecutor(1) as pool:
        other_thread = pool.submit(elsewhere).result()
    with mine.calling(Lane.LIVE, deadline=9):
        other_operation, same = refusal(mine, OTHER), refusal(mine)

    assert other_thread
    assert other_operation
    assert same is None


def test_a_call_taken_and_not_made_is_given_back(database: Database) -> None:
    """Returned once, it can be taken again; there is nothing more to return, and nothing is paid any longer."""
    mine = budgets(database, {"shop": [Limit("calls", 0.01, 3)]})
    mine.take("shop", CALL)
    mine.take("shop", CALL)
    mine.give_back("shop", CALL)
    mine.give_back("shop", CALL)
    mine.give_back("shop", CALL)

    taken = [mine.take("shop", CALL) == 0 for _ in range(3)]

    assert taken == [True, True, False]


def test_a_call_taken_long_ago_counts_as_made(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call paid for in advance cannot be kept for another day: the provider counts by the second."""
    monkeypatch.setattr("reconciler.budgets._LAPSE", 0.0)
    mine = budgets(database, _SLOW)
    mine.take("shop", CALL)

    with mine.calling(Lane.LIVE, deadline=9), pytest.raises(SourceBusy):
        mine.of("shop").spend(CALL)


def test_lanes_nest(database: Database) -> None:
    """A block inside another has a lane and a count of its own; the outer one's come back after it."""
    mine = budgets(database, {"shop": [Limit("calls", 0.01, 3)], "hub": []})
    with mine.calling(Lane.LIVE, deadline=9) as outer:
        mine.of("shop").spend(CALL)
        mine.of("shop").spend(CALL)
        with mine.calling(Lane.SWEEP, deadline=9) as inner:
            nested = refusal(mine)
        after = refusal(mine)
        mine.of("hub").spend(CALL)

    assert nested is None
    assert after
    assert (outer.count, inner.count) == (3, 1)


def test_a_call_of_a_sweep_goes_back_to_sweeps(database: Database) -> None:
    """What a sweep took of its reserve and did not use is no gift to live work."""
    mine = budgets(database, _SLOW)
    with mine.calling(Lane.SWEEP):
        while not mine.take("shop", CALL):
            pass
        mine.give_back("shop", CALL)
    live = mine.take("shop", CALL)
    with mine.calling(Lane.SWEEP):
        swept = mine.take("shop", CALL)

    assert live > 0
    assert swept == 0


def test_standing_says_what_is_left(database: Database) -> None:
    """Each limit shows what may be called at the moment, an operation once it was called, and a held one nothing."""
    mine = budgets(database, {"shop": [Limit("calls", 0.01, 50), Limit("operation", 0.01, 5, "*")], "hub": []})
    with database.transaction() as connection:
        before = mine.standing(connection)
    for _ in range(3):
        mine.of("shop").spend(CALL)
    mine.of("shop").spend(OTHER)
    mine.of("hub").spend(OTHER)
    mine.of("shop").hold(60, operation=OTHER)

    with database.transaction() as connection:
        after = mine.standing(connection)

    assert before == [Standing("shop", "calls", 50, 50)]
    assert after == [
        Standing("shop", "calls", 46, 50),
        Standing("shop", f"operation: {CALL}", 2, 5),
        Standing("shop", f"operation: {OTHER}", 0, 5),
    ]


def test_standing_refills_by_the_clock_it_is_told(database: Database) -> None:
    """What is left grows with the rate and never beyond the limit, and a clock behind takes nothing away."""
    mine = budgets(database, {"shop": [Limit("calls", 0.001, 10)]})
    for _ in range(8):
        mine.of("shop").spend(CALL)
    left = []
    with database.transaction() as connection:
        now = connection.exec_driver_sql("SELECT clock_timestamp() AS now").scalar_one()
        for seconds in (-9999, 0, 3500, 86_400):
            later = connection.exec_driver_sql(
                "SELECT %(now)s::timestamptz + make_interval(secs => %(by)s)", {"now": now, "by": seconds}
            ).scalar_one()
            left += [each.left for each in mine.standing(connection, later)]

    assert left == [2, 2, 5, 10]


def test_sources_of_one_credential_share_one_budget(database: Database) -> None:
    """What one of them calls, in any process, the other has no more; a hold on one holds both, and nobody else."""
    limits = {name: [Limit("calls", 0.001, 5)] for name in ("shop", "blog", "alone")}
    shared = dict.fromkeys(("shop", "blog"), "github:digest")
    here, there = (Budgets(database, limits, Counted(), shared=shared) for _ in range(2))
    for _ in range(2):
        here.of("shop").spend(CALL)
    there.of("blog").spend(CALL)

    with database.transaction() as connection:
        left = {each.source: each.left for each in there.standing(connection)}
    here.of("shop").hold(60)
    waits = {name: there.take(name, CALL) > 50 for name in limits}

    assert left == {"shop": 2, "blog": 2, "alone": 5}
    assert waits == {"shop": True, "blog": True, "alone": False}


READS = Allotment(
    name="reads",
    operations="GET *",
    days=30,
    least=4,
    each=3,
    kind="charge",
    holding={"paid": True},
    created="created",
)


def test_reads_are_counted_against_their_allotment(database: Database) -> None:
    """Reads of any process count for thirty days, writes and what was given back do not; nothing is held up by it."""
    mine, other = (
        Budgets(database, {"shop": [Limit("calls", 1000, 50)]}, Counted(), allotments={"shop": [READS]})
        for _ in range(2)
    )

    def left(days: int = 0) -> Standing:
        with database.transaction() as connection:
            later = connection.exec_driver_sql(f"SELECT clock_timestamp() + interval '{days} days'").scalar_one()
            return mine.standing(connection, later)[-1]

    before = left()
    mine.of("shop").spend(CALL)
    mine.of("shop").spend("POST /v1/webhook_endpoints")
    other.take("shop", OTHER)
    other.of("shop").spend(OTHER)
    other.take("shop", OTHER)
    other.give_back("shop", OTHER)
    used, later = left(29), left(31)
    for _ in range(3):
        mine.of("shop").spend(CALL)

    assert before == later == Standing("shop", "reads", 4, 4)
    assert used == Standing("shop", "reads", 2, 4)
    assert left() == Standing("shop", "reads", 0, 4)


def test_an_allotment_grows_with_what_is_paid(database: Database) -> None:
    """It is the least, or so many for each living object of thirty days that counts; old counts are forgotten."""
    mine = Budgets(database, {"shop": [Limit("calls", 1000, 50)]}, Counted(), allotments={"shop": [READS]})
    now, old = int(time.time()), int(time.time()) - 31 * 86_400
    bodies = [{"paid": True, "created": now}] * 3 + [{"paid": False, "created": now}, {"paid": True, "created": old}]
    with database.transaction() as connection:
        for number, body in enumerate([*bodies, {"paid": True, "created": "soon"}]):
            connection.exec_driver_sql(
                "INSERT INTO objects (source, scope, kind, id, body) VALUES ('shop', '', 'charge', %s, %s)",
                (str(number), json.dumps(body)),
            )
        connection.exec_driver_sql("INSERT INTO counted_calls VALUES ('shop', 'reads', current_date - 40, 7)")

    mine.allot("shop")
    with database.transaction() as connection:
        [*_, standing] = mine.standing(connection)
        kept = connection.exec_driver_sql("SELECT count(*) FROM counted_calls").scalar_one()

    assert standing == Standing("shop", "reads", 9, 9)
    assert kept == 0


def test_answers_are_counted(database: Database) -> None:
    """Every answer is counted under its source, operation and status."""
    counted = Counted()
    mine = budgets(database, {"shop": per_second(10)}, counted)

    mine.of("shop").answered(CALL, "429")

    assert counted.answers == [("shop", CALL, "429")]


def test_a_database_that_is_not_there_is_no_busy_source(server: str) -> None:
    """Without the database nothing is spent, and the error is about the database."""
    gone = connect(server.replace("/postgres?", "/nowhere?"), schema="reconciler", connections=1)
    mine = budgets(gone, {"shop": per_second(10)})

    with pytest.raises(DatabaseUnavailable):
        mine.of("shop").spend(CALL)


def test_per_second_keeps_to_what_is_allowed() -> None:
    """In any second, rate and burst together are no more than was said."""
    calls, operation = per_second(100, 25)

    assert calls.rate + calls.burst == pytest.approx(100)
    assert operation.rate + operation.burst == pytest.approx(25)
    assert (calls.operations, operation.operations) == (None, "*")
    assert per_second(0.5) == (Limit("calls", 0.45, 2),)


@pytest.mark.parametrize(
    ("name", "rate", "burst"),
    [("calls", 0, 5), ("calls", -1, 5), ("calls", float("inf"), 5), ("calls", 5, 1), ("", 5, 5), ("a: b", 5, 5)],
)
def test_limits_that_are_none_are_refused(name: str, rate: float, burst: float) -> None:
    """A limit without a rate, or with no room for one call in either lane, cannot be made."""
    with pytest.raises(ValueError, match="not a limit"):
        Limit(name, rate, burst)


def test_limits_have_names_of_their_own(database: Database) -> None:
    """Two limits of one name would share a bucket."""
    with pytest.raises(ValueError, match="two limits of one name"):
        budgets(database, {"shop": [Limit("calls", 1, 2), Limit("calls", 2, 4)]})


if __name__ == "__main__":
    sys.stdout.write(json.dumps(call_for(sys.argv[1], sys.argv[2], float(sys.argv[3]), Lane(sys.argv[4]))))
