"""The life of sources: paused by a person, renamed, erased, and what their credential may not read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from reconciler.model import ObjectRef, Reason
from reconciler.store import pauses, refetches, runs, sources, story
from reconciler.store.refetches import Want
from reconciler.store.sources import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reconciler.store.database import Database

_EVENT = "(source, event_id, event_type, payload, headers, received_at)"
_LEASE = timedelta(minutes=5)


def _kinds(*named: str) -> str:
    return json.dumps({"kinds": [{"source": source, "kind": "order"} for source in named]})


def fill(database: Database, source: str, *, event_id: str = "evt_1") -> None:
    """Give *source* rows in many tables."""
    with database.transaction() as connection:
        for statement in (
            f"INSERT INTO webhook_events {_EVENT} VALUES ('{source}', '{event_id}', 'changed', '{{}}', '{{}}', now())",
            f"INSERT INTO event_objects VALUES ('{source}', '{event_id}', '', 'order', '1', nextval('positions'))",
            f"INSERT INTO objects (source, kind, id, body) VALUES ('{source}', 'order', '1', '{{}}')",
            f"INSERT INTO watermarks VALUES ('{source}', '', 'order', now())",
            f"INSERT INTO subscription_secrets VALUES ('{source}', 'we_1', 'whsec_standin', now())",
            f"INSERT INTO runs (trigger, state, tallies) VALUES ('nightly', 'complete', '{_kinds(source, 'other')}')",
        ):
            connection.exec_driver_sql("SELECT set_config('reconciler.guard', 'off', true)")
            connection.exec_driver_sql(statement)


def told(database: Database, query: str) -> list[object]:
    """Return the first column of *query*."""
    with database.transaction() as connection:
        return [row[0] for row in connection.exec_driver_sql(query).all()]


def held(database: Database, source: str) -> dict[str, int]:
    """Return how many rows of *source* each table has."""
    return database.commit(partial(sources.rows, source=source))


def test_every_table_of_sources(database: Database) -> None:
    """Every table that has a source is renamed and erased, whatever migration made it."""
    found = told(
        database,
        "SELECT table_name FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'reconciler' AND column_name = 'source' AND table_type = 'BASE TABLE'",
    )

    listed = told(database, "SELECT tables_of_sources()")

    assert {*found} - {"sources"} == {*listed}
    assert listed[:4] == ["webhook_events", "event_objects", "objects", "refetches"]


def test_rename(database: Database) -> None:
    """Every row has the new name, nothing is taken for a hand edit, and other sources keep theirs."""
    fill(database, "old")
    fill(database, "other", event_id="evt_2")
    wanted = told(database, "SELECT wanted FROM refetches WHERE source = 'old'")

    moved = database.commit(partial(sources.rename, source="old", renamed_to="new"))

    assert held(database, "old") == {}
    assert held(database, "new") == {
        "webhook_events": 1, "event_objects": 1, "objects": 1, "refetches": 1, "watermarks": 1
    }  # fmt: skip
    assert (moved, sum(held(database, "other").values())) == (5, 5)
    assert told(database, "SELECT wanted FROM refetches WHERE source = 'new'") == wanted
    assert told(database, "SELECT name FROM subscription_secrets ORDER BY 1") == ["new", "other"]
    last = database.commit(lambda connection: story.last_runs(connection, ["old", "new", "other"]))
    assert sorted(last) == ["new", "other"]


def test_deliveries_between_rename_and_reload(database: Database) -> None:
    """What is received under the old name until the reload is the new one's: each event once, each object wanted."""
    fill(database, "old")
    database.commit(partial(sources.rename, source="old", renamed_to="new"))
    done = told(database, "UPDATE refetches SET done = wanted RETURNING done")
    for event_id in ("evt_1", "evt_3"):
        with database.transaction() as connection:
            connection.exec_driver_sql(
                "INSERT INTO webhook_events (source, event_id, event_type, payload, headers, received_at) "
                f"VALUES ('old', '{event_id}', 'changed', '{{}}', '{{}}', now())"
            )
    ref = ObjectRef("old", "", "order", "1")
    database.commit(lambda connection: refetches.want(connection, [Want(ref, Reason.WEBHOOK)]))

    early = database.commit(lambda connection: sources.follow(connection, ["old", "new"]))
    database.commit(lambda connection: sources.follow(connection, ["new"]))
    again = database.commit(lambda connection: sources.follow(connection, ["new"]))

    assert (early, again) == (0, 0)
    assert held(database, "old") == {}
    assert told(database, "SELECT event_id FROM webhook_events WHERE source = 'new' ORDER BY 1") == ["evt_1", "evt_3"]
    [wanted] = told(database, "SELECT wanted FROM refetches WHERE source = 'new' AND wanted > done")
    assert isinstance(wanted, int)
    assert wanted > max(map(int, map(str, done)))


def test_erase(database: Database) -> None:
    """Nothing of the source is left, in no table and no run; of the others everything."""
    fill(database, "old")
    fill(database, "other", event_id="evt_2")

    gone = database.commit(partial(sources.erase, source="old"))
    again = database.commit(partial(sources.erase, source="old"))

    assert (gone, again) == (5, 0)
    assert (held(database, "old"), sum(held(database, "other").values())) == ({}, 5)
    assert told(database, "SELECT count(*) FROM runs WHERE tallies::text ~ 'old'") == [0]
    assert told(database, "SELECT name FROM subscription_secrets") == ["other"]


def test_a_persons_pause(database: Database) -> None:
    """No read ends it, no failure changes it, no worker and no person reads during it; it ends when it was to."""
    ref = ObjectRef("shop", "", "order", "1")
    database.commit(lambda connection: refetches.want(connection, [Want(ref, Reason.TRIGGER)]))
    database.commit(partial(sources.pause, source="shop", until=None, because="moving"))

    def try_all() -> tuple[object, ...]:
        with database.transaction() as connection:
            return (
                pauses.unpause(connection, "shop", "", began_at=datetime.now(UTC) + timedelta(hours=1)),
                pauses.unfreeze(connection, longest=timedelta(hours=24)),
                pauses.pause(connection, "shop", "", what="access_lost", because="401", first=_LEASE, longest=_LEASE),
                refetches.due_kinds(connection, {("shop", "order"): 1}, sweep=False),
                refetches.lease(connection, "shop", "order", n=1, sweep=False, lease=_LEASE),
                refetches.lease_one(connection, ref, n=1, lease=_LEASE),
            )

    during = try_all()
    paused = database.commit(sources.held)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE pauses SET until = clock_timestamp() - interval '1 second'")
    over = database.commit(sources.held)
    after = try_all()

    assert during == (False, 0, None, [], None, None)
    assert str(paused["shop"]) == "shop is paused: moving; `reconcile source resume shop` ends it"
    assert over == {}
    assert after[0] is True
    assert after[2] is not None


def test_states_of_sources(database: Database) -> None:
    """A source that is served is live, one no longer configured left out; what a person said outlasts both."""
    database.commit(lambda connection: sources.serve(connection, {"a": "stripe", "b": "stripe", "c": "shopify"}))
    database.commit(partial(sources.mark, source="c", state=State.REMOVED))

    database.commit(lambda connection: sources.serve(connection, {"a": "stripe", "c": "shopify"}))
    fewer = {name: str(each.state) for name, each in database.commit(sources.known).items()}
    database.commit(lambda connection: sources.serve(connection, {"a": "stripe", "b": "stripe"}))
    again = {name: str(each.state) for name, each in database.commit(sources.known).items()}

    assert fewer == {"a": "live", "b": "left_out", "c": "removed"}
    assert again == {"a": "live", "b": "live", "c": "removed"}
    assert list(database.commit(sources.shut)) == ["c"]


def _night(database: Database, *kinds: str) -> int:
    """Put an incomplete night on record that could not read these kinds, and return its number."""

    def put(connection: Connection) -> int:
        begun = runs.begin(
            connection,
            [],
            trigger="nightly",
            since=None,
            until=None,
            dry_run=False,
            asked={},
        )
        left = [{"source": "shop", "scope": "", "kind": kind, "state": "incomplete"} for kind in kinds]
        runs.finish(connection, begun.run_id, state="incomplete", tallies={"kinds": left}, because="403")
        return begun.run_id

    return database.commit(put)


@pytest.mark.parametrize("reason", ["kind", "suspended", "paused"])
def test_one_alarm_for_one_reason(database: Database, reason: str) -> None:
    """A kind that may not be read, and a source that is suspended or paused, is one alarm each, and no other stands."""
    run_id = _night(database, "order")
    if reason == "kind":
        database.commit(partial(sources.refuse, source="shop", scope="", kind="order", because="403"))
    elif reason == "paused":
        database.commit(partial(sources.pause, source="shop", until=None, because="moving"))
    else:
        with database.transaction() as connection:
            pauses.pause(connection, "shop", "", what=reason, because="402", first=_LEASE, longest=_LEASE)
            connection.exec_driver_sql("UPDATE pauses SET until = clock_timestamp()")

    with database.transaction() as connection:
        found = [alarm.what for alarm in story.alarms(connection, {"shop": ["order"]})]
        excused = sources.excused(connection, run_id, "shop")
    more = _night(database, "order", "product")

    assert found == [{"kind": "permission_missing"}.get(reason, reason)]
    assert excused
    with database.transaction() as connection:
        assert sources.excused(connection, more, "shop") is (reason != "kind")


def test_a_kind_that_may_be_read_again(database: Database) -> None:
    """A refusal is noted once, and forgotten with the first read or list that began after it and was answered."""
    noted = [database.commit(partial(sources.refuse, source="s", scope="", kind="k", because="403")) for _ in range(2)]
    before, after = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))

    permitted = [
        database.commit(partial(sources.permit, source="s", scope="", kind="k", began_at=began_at))
        for began_at in (before, after, after)
    ]

    assert (noted, permitted) == ([True, False], [False, True, False])
    assert database.commit(sources.refused) == []


def test_a_kind_that_may_not_be_read_waits(database: Database) -> None:
    """No worker reads it, each time in a row for twice as long, ten minutes at most; other kinds and a person do."""
    ref = ObjectRef("shop", "", "order", "1")
    database.commit(lambda connection: refetches.want(connection, [Want(ref, Reason.TRIGGER)]))
    waits = []
    for _ in range(12):
        database.commit(partial(sources.refuse, source="shop", scope="", kind="order", because="403"))
        with database.transaction() as connection:
            [(left,)] = connection.exec_driver_sql(
                "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM refused_kinds"
            ).all()
            waits.append(round(left))
            during = refetches.due_kinds(connection, {("shop", "order"): 1}, sweep=False)
            taken = refetches.lease(connection, "shop", "order", n=1, sweep=False, lease=_LEASE)
            connection.exec_driver_sql("UPDATE refused_kinds SET until = clock_timestamp()")
        assert (during, taken) == ([], None)

    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE refused_kinds SET until = '9999-01-01'")  # by a clock that stood wrong
    after = database.commit(lambda c: refetches.lease(c, "shop", "order", n=1, sweep=False, lease=_LEASE))

    assert waits == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600]
    assert after is not None
    assert after.refused
