"""The statements that run all the time use the indexes made for them, however long the queue."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.store import refetches
from reconciler.store.statements import statements
from tests.store.stage import LEASE, SOURCE, STAMPED, UNSTAMPED, at, stage_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.store.database import Database
    from tests.store.stage import Stage

_QUEUE = 100_000
_FILL = f"""
INSERT INTO refetches (source, scope, kind, id, wanted, done, reason, due_at)
SELECT '{SOURCE}', '', CASE WHEN mod(n, 2) = 0 THEN '{STAMPED}' ELSE '{UNSTAMPED}' END, n::text, n, 0, 'sweep',
       timestamptz '{at(0).isoformat()}' + n * interval '1 millisecond'
FROM generate_series(1, {_QUEUE}) AS n;
INSERT INTO refetches (source, scope, kind, id, wanted, done, reason, due_at)
SELECT '{SOURCE}', '', '{STAMPED}', 'done' || n, n, n, 'webhook', timestamptz '{at(0).isoformat()}'
FROM generate_series(1, {_QUEUE}) AS n;
INSERT INTO objects (source, scope, kind, id, body)
SELECT '{SOURCE}', '', '{STAMPED}', n::text, '{{}}' FROM generate_series(1, 20000) AS n;
INSERT INTO webhook_events (source, event_id, event_type, payload, headers, received_at, outcome)
SELECT '{SOURCE}', 'evt' || n, 'changed', '{{}}', '{{}}', now(), CASE WHEN n < 40000 THEN 'done' END
FROM generate_series(1, 40010) AS n;
INSERT INTO event_objects (source, event_id, scope, kind, id, wanted)
SELECT '{SOURCE}', 'evt' || n, '', '{STAMPED}', CASE WHEN n > 36000 THEN '2' ELSE n::text END, n
FROM generate_series(3, 40010) AS n;
UPDATE refetches SET done = 39999, wanted = 40011 WHERE id = '2';
"""
_OF_OBJECTS = {"objects_pkey", "objects_by_id"}
# Each with its parameters, the indexes that it may not do without, and those that it may use as well.
_STATEMENTS: dict[str, tuple[dict[str, Any], set[str], set[str]]] = {
    "due_kinds": (
        {
            "source": [SOURCE, SOURCE],
            "kind": [STAMPED, UNSTAMPED],
            "n": [1, 1],
            "sweep": False,
            "now": at(10**6),
        },
        {"refetches_due"},
        set(),
    ),
    "lease": (
        {"source": SOURCE, "kind": STAMPED, "n": 1, "sweep": True, "lease": LEASE, "now": at(10**6)},
        {"refetches_due", "refetches_pkey"},
        set(),
    ),
    "lease_one": (
        {"source": SOURCE, "scope": "", "kind": STAMPED, "id": "4", "n": 1, "lease": LEASE, "now": at(10**6)},
        {"refetches_pkey"},
        set(),
    ),
    "lock_objects": (
        {"source": [SOURCE], "scope": [""], "kind": [STAMPED], "id": ["4"], "digest": ["x"]},
        set(),
        _OF_OBJECTS,
    ),
    "lock_refetches": ({"source": [SOURCE], "scope": [""], "kind": [STAMPED], "id": ["4"]}, {"refetches_pkey"}, set()),
    "lock_events": (
        {"source": SOURCE, "scope": "", "kind": STAMPED, "id": "2", "wanted": 40011},
        {"event_objects_by_object", "webhook_events_pkey", "refetches_pkey"},
        set(),
    ),
}


@pytest.fixture(scope="module")
def filled(shared: Database, ids: Iterator[int]) -> Stage:
    """Return a stage with a long queue, a long history and many rows."""
    stage = stage_on(shared, ids=ids)
    for statement in _FILL.split(";\n"):
        if statement.strip():
            # The guard's mark keeps the trigger out of it.
            with stage.database.transaction() as connection:
                connection.exec_driver_sql("SELECT set_config('reconciler.guard', 'on', true)")
                connection.exec_driver_sql(statement)
    return stage


def plan(stage: Stage, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what PostgreSQL did for a statement, which is then taken back."""
    with stage.database.engine.connect() as connection:
        [(found,)] = connection.exec_driver_sql(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statements()[name]}", dict(parameters)
        ).all()
        connection.rollback()
    told = json.loads(found) if isinstance(found, str) else found
    top: dict[str, Any] = told[0]["Plan"]
    return top


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every node of a plan."""
    yield node
    for below in node.get("Plans", []):
        yield from nodes(below)


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("name", _STATEMENTS)
def test_plan(filled: Stage, name: str, *, analyzed: bool) -> None:
    """Each finds its rows by the indexes meant for them, reads few pages and passes over few rows."""
    if analyzed:
        with filled.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE refetches, objects, webhook_events, event_objects")
    parameters, needed, useful = _STATEMENTS[name]

    found = plan(filled, name, parameters)

    used = {node["Index Name"] for node in nodes(found) if "Index Name" in node}
    passed_over = sum(node.get("Rows Removed by Filter", 0) for node in nodes(found))
    whole = [node["Relation Name"] for node in nodes(found) if node["Node Type"] == "Seq Scan"]
    assert used >= needed
    assert used <= needed | useful | {"pauses_pkey", "refused_kinds_pkey", "shapes_pkey"}
    assert set(whole) <= {"pauses", "refused_kinds", "shapes"}, whole
    assert passed_over < 50
    assert found["Shared Hit Blocks"] + found["Shared Read Blocks"] < 400


def test_what_went_is_counted_by_its_index(filled: Stage) -> None:
    """Whether more may go is seen without looking through a long history or a long queue."""
    filled.execute(
        "INSERT INTO object_history (source, scope, kind, id, what, observed_at, changed, via, at, counted)"
        " SELECT :source, '', :kind, n::text, 'deleted', :at, '[]', 'webhook', :at, n < 20"
        " FROM generate_series(1, 20000) AS n",
        source=SOURCE,
        kind=STAMPED,
        at=at(0),
    )
    asked = {"source": SOURCE, "scope": "", "kind": STAMPED, "now": at(1), "within": timedelta(hours=1)}

    found = list(nodes(plan(filled, "stands_still", asked)))

    used = {node["Index Name"] for node in found if "Index Name" in node}
    whole = {node["Relation Name"] for node in found if node["Node Type"] == "Seq Scan"}
    assert used >= {"refetches_held", "object_history_counted"}
    assert not whole & {"refetches", "object_history"}


def test_long_queue_is_leased_in_milliseconds(filled: Stage) -> None:
    """With a hundred thousand due, a lease costs what it costs with ten, in either lane."""
    live = filled.ref()
    filled.clock = at(10**6)
    filled.want(live)
    took = []
    kinds = {(SOURCE, STAMPED): None, (SOURCE, UNSTAMPED): None}
    for _ in range(20):
        began = time.perf_counter()
        [(_, kind), *_] = filled.run(lambda c: refetches.due_kinds(c, kinds, sweep=True, now=filled.clock))
        leased = filled.run(
            lambda c, kind=kind: refetches.lease(  # type: ignore[misc]
                c, SOURCE, kind, n=1, sweep=True, lease=LEASE, now=filled.clock
            )
        )
        took.append(time.perf_counter() - began)
        assert leased is not None

    found = filled.run(lambda c: refetches.lease(c, SOURCE, STAMPED, n=1, sweep=False, lease=LEASE, now=filled.clock))

    assert sorted(took)[10] < 0.05
    assert found is not None
    assert found.ref == live
