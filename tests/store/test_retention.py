"""What is settled goes when it has been kept long enough; what is not settled stays, and a repeat stays a repeat."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import Named
from reconciler.store import events, retention
from tests.store.stage import SOURCE, alive, at, stage_on, together

if TYPE_CHECKING:
    from reconciler.store.database import Database
    from tests.store.stage import Stage

DAYS = timedelta(days=1)
KEPT = 45 * DAYS
NOW = at(0)
TABLES = ("webhook_events", "object_history", "declined_writes", "drift", "runs")
OUTCOMES = ("done", "ahead", "ignored", "skipped", "dead", None)
SETTLED = frozenset({"done", "ahead", "ignored", "skipped"})

_EVENT = """
    INSERT INTO webhook_events (source, event_id, event_type, payload, headers, received_at, processed_at, outcome,
                                duplicates, last_repeat_at)
    VALUES (:source, :event_id, 'changed', '{}', '{}', :received_at, :processed_at, :outcome, 0, :repeated_at)
"""
_NAMED = "INSERT INTO event_objects (source, event_id, kind, id, wanted) VALUES (:source, :event_id, 'order', :id, 1)"
_HISTORY = """
    INSERT INTO object_history (source, scope, kind, id, what, observed_at, changed, via, at)
    VALUES ('shop', '', 'order', :id, :what, :at, '[]', 'webhook', :at)
"""
_DECLINED = """
    INSERT INTO declined_writes (source, scope, kind, id, verdict, stored_read_from, stored_read_until, via, at)
    VALUES ('shop', '', 'order', :id, 'declined', 1, 1, 'webhook', :at)
"""
_DRIFT = """
    INSERT INTO drift (run_id, found_at, source, scope, kind, id, what, cause, diff)
    VALUES (:run_id, :at, 'shop', '', 'order', :id, 'differs', 'other', '[]')
"""
_RUN = """
    INSERT INTO runs (trigger, started_at, finished_at, state) VALUES ('nightly', :at, :finished_at, :state)
    RETURNING id
"""


def event(
    stage: Stage,
    event_id: str,
    outcome: str | None,
    *,
    age: timedelta,
    source: str = SOURCE,
    processed: timedelta | None = None,
    repeated: timedelta | None = None,
) -> None:
    """Store an event that names an object and was received, processed and repeated so long ago."""
    done = None if outcome is None else NOW - (age if processed is None else processed)
    stage.execute(
        _EVENT,
        source=source,
        event_id=event_id,
        received_at=NOW - age,
        processed_at=done,
        outcome=outcome,
        repeated_at=None if repeated is None else NOW - repeated,
    )
    stage.execute(_NAMED, source=source, event_id=event_id, id=event_id)


def prune(stage: Stage, *tables: str, batch: int = 3) -> dict[str, int]:
    """Drop what has been kept long enough, now."""
    return retention.prune(stage.database, dict.fromkeys(tables or TABLES, KEPT), batch=batch, now=NOW)


def left(stage: Stage) -> set[str]:
    """Return the events that are left; what they name must be left with them, and nothing else."""
    found = {row.event_id for row in stage.query("SELECT event_id FROM webhook_events")}
    assert {row.event_id for row in stage.query("SELECT event_id FROM event_objects")} == found
    return found


AGES = st.integers(0, 90)


@given(
    st.lists(
        st.tuples(
            st.sampled_from((SOURCE, "other")), st.sampled_from(OUTCOMES), AGES, AGES, st.one_of(st.none(), AGES)
        ),
        max_size=12,
    )
)
def test_only_what_is_settled_and_old_goes(
    shared: Database, chosen: list[tuple[str, str | None, int, int, int | None]]
) -> None:
    """An event goes once it is settled and nobody has sent it, or worked on it, for as long as it is kept."""
    stage = stage_on(shared, ids=count(1))
    stage.execute("TRUNCATE webhook_events, event_objects")
    expected = set()
    for number, (source, outcome, age, processed, repeated) in enumerate(chosen):
        times = [age, min(processed, age), *([] if repeated is None else [min(repeated, age)])]
        event(
            stage,
            f"evt_{number}",
            outcome,
            age=age * DAYS,
            source=source,
            processed=times[1] * DAYS,
            repeated=None if repeated is None else times[2] * DAYS,
        )
        if outcome not in SETTLED or min(times) * DAYS <= KEPT:
            expected.add(f"evt_{number}")

    gone = prune(stage, "webhook_events")

    assert left(stage) == expected
    assert gone == {"webhook_events": len(chosen) - len(expected)}


def test_a_repeat_after_pruning(lone_stage: Stage) -> None:
    """Dedupe survives: what its provider may still send is known as a repeat, counted from its last delivery."""
    stage = lone_stage
    ref = stage.ref()
    stage.clock = NOW - 40 * DAYS
    stage.record("evt_young", Named(ref))
    stage.clock = NOW - 60 * DAYS
    stage.record("evt_sent_again", Named(ref))
    stage.clock = NOW - 10 * DAYS
    stage.record("evt_sent_again", Named(ref))
    stage.reread(ref, alive())
    prune(stage)

    stage.clock = NOW
    receipts = [stage.record("evt_young", Named(ref)), stage.record("evt_sent_again", Named(ref))]

    assert [receipt.duplicate for receipt in receipts] == [True, True]
    assert stage.event("evt_sent_again").duplicates == 2


def test_dead_letters_stay_until_they_are_read(lone_stage: Stage) -> None:
    """A dead letter of long ago can still be replayed, and goes when it has been kept from then on."""
    stage = lone_stage
    ref = stage.ref()
    stage.clock = NOW - 100 * DAYS
    stage.record("evt_dead", Named(ref))
    stage.execute("UPDATE webhook_events SET outcome = 'dead'")
    stage.execute("UPDATE refetches SET dead_at = :at", at=stage.clock)
    prune(stage)
    before = left(stage)

    stage.clock = NOW - 1 * DAYS
    wanted = stage.run(lambda c: events.replay(c, state="dead", now=stage.clock)).wanted
    stage.reread(ref, alive())
    prune(stage)

    assert (before, wanted, stage.event("evt_dead").outcome) == ({"evt_dead"}, 1, "done")
    assert retention.prune(stage.database, {"webhook_events": KEPT}, now=NOW + KEPT) == {"webhook_events": 1}


def test_a_repeat_meets_pruning(lone_stage: Stage) -> None:
    """Neither waits for the other: an event that somebody is sending again is left, and counted as a repeat."""
    stage = lone_stage
    ref = stage.ref()
    stage.clock = NOW - 60 * DAYS
    stage.record("evt_1", Named(ref))
    stage.reread(ref, alive())
    stage.clock = NOW
    arrival = stage.arrival("evt_1", Named(ref))

    with stage.database.transaction() as connection:
        [receipt] = events.receive(connection, [arrival], now=stage.clock)
        gone = prune(stage)

    assert receipt.duplicate
    assert gone["webhook_events"] == 0
    assert prune(stage)["webhook_events"] == 0


def test_whoever_prunes_at_once(lone_stage: Stage) -> None:
    """Several may prune at the same time: each row goes once."""
    stage = lone_stage
    for number in range(40):
        event(stage, f"evt_{number}", "done", age=50 * DAYS)

    gone = together(*[lambda: prune(stage)["webhook_events"]] * 4)

    assert sum(gone) == 40
    assert left(stage) == set()


def test_records_go_by_their_time(lone_stage: Stage) -> None:
    """History, declined writes, drift and runs go from before the horizon, to the last one, and no other."""
    stage = lone_stage
    ages = [90, 60, 46, 44, 50, 1, 0]  # numbers are drawn before times are known: nearly in order, not quite
    for age in ages:
        when = NOW - age * DAYS
        for statement in (_HISTORY, _DECLINED):
            stage.execute(statement, id=str(age), at=when, **({"what": "updated"} if statement is _HISTORY else {}))
        [(run_id,)] = stage.query(_RUN, at=when, finished_at=when, state="complete")
        stage.execute(_DRIFT, run_id=run_id, at=when, id=str(age))
        stage.execute(
            "INSERT INTO run_objects (run_id, source, scope, kind, id, wanted) VALUES (:run, 'shop', '', 'o', '1', 1)",
            run=run_id,
        )

    gone = prune(stage)

    young = ["44", "1", "0"]
    assert gone == {"webhook_events": 0} | dict.fromkeys(TABLES[1:], 4)
    for table in ("object_history", "declined_writes", "drift"):
        assert [row.id for row in stage.query(f"SELECT id FROM {table} ORDER BY seq")] == young, table
    assert [
        row.n for row in stage.query("SELECT count(*) AS n FROM runs UNION ALL SELECT count(*) FROM run_objects")
    ] == [
        3,
        3,
    ]


def test_what_a_run_at_work_has_found_stays(lone_stage: Stage) -> None:
    """A run that has not ended, however old, keeps itself and its drift: it has yet to say why that came about."""
    stage = lone_stage
    [(run_id,)] = stage.query(_RUN, at=NOW - 90 * DAYS, finished_at=None, state="running")
    stage.execute(_DRIFT, run_id=run_id, at=NOW - 90 * DAYS, id="1")

    running = prune(stage)
    stage.execute("UPDATE runs SET state = 'complete', finished_at = :at", at=NOW - 80 * DAYS)
    ended = prune(stage)

    assert (running["drift"], running["runs"]) == (0, 0)
    assert (ended["drift"], ended["runs"]) == (1, 1)


def test_for_ever(lone_stage: Stage) -> None:
    """A table that keeps for ever loses nothing."""
    event(lone_stage, "evt_1", "done", age=4000 * DAYS)

    assert retention.prune(lone_stage.database, {"webhook_events": None}, now=NOW) == {"webhook_events": 0}
    assert left(lone_stage) == {"evt_1"}


def test_it_ends_when_it_is_to(lone_stage: Stage) -> None:
    """Whoever is not to go on has dropped whole batches, and the next one does the rest."""
    stage = lone_stage
    for number in range(10):
        event(stage, f"evt_{number}", "done", age=50 * DAYS)
    asked = iter([True, False])

    first = retention.prune(stage.database, {"webhook_events": KEPT}, goes_on=lambda _: next(asked), batch=4, now=NOW)

    assert first == {"webhook_events": 4}
    assert len(left(stage)) == 6
    assert prune(stage)["webhook_events"] == 6


def test_killed_in_a_batch(lone_stage: Stage) -> None:
    """A batch whose transaction does not commit has dropped nothing."""
    stage = lone_stage
    event(stage, "evt_1", "done", age=50 * DAYS)

    def dies(_: object) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retention.prune(stage.database, {"webhook_events": KEPT}, goes_on=dies, now=NOW)

    assert left(stage) == {"evt_1"}


def test_growth(lone_stage: Stage) -> None:
    """What came within a day, without a first load, is what every day to the horizon is taken for."""
    stage = lone_stage
    for number in range(20):
        event(stage, f"evt_{number}", "done", age=0 * DAYS if number < 5 else 3 * DAYS)
    for what, when in (("loaded", NOW), ("created", NOW), ("updated", NOW), ("updated", NOW - 2 * DAYS)):
        stage.execute(_HISTORY, id="1", what=what, at=when)
    for table in TABLES:
        stage.execute(f"ANALYZE {table}")

    found = stage.run(lambda c: retention.growth(c, [SOURCE], dict.fromkeys(TABLES, KEPT), now=NOW))

    told = {each.table: each for each in found}
    assert list(told) == ["objects", *TABLES]
    assert {name: each.rows_a_day for name, each in told.items()} == {
        "objects": 1,
        "webhook_events": 5,
        "object_history": 2,
        "declined_writes": 0,
        "drift": 0,
        "runs": 0,
    }
    inbox, objects = told["webhook_events"], told["objects"]
    assert inbox.rows == 20
    assert inbox.bytes_a_day == 5 * inbox.bytes // 20
    assert inbox.bytes_at_horizon == inbox.bytes_a_day * 45
    assert objects.bytes_at_horizon == objects.bytes + objects.bytes_a_day * 365
    assert (inbox.horizon, objects.horizon) == (KEPT, timedelta(days=365))
