"""What people are told: lists, the story of one object, runs, and how sources stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from reconciler import content
from reconciler.model import ObjectRef
from reconciler.store import story
from reconciler.store.story import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.store.database import Database

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
REF = ObjectRef("shop", "", "order", "9007199254740993")
KEY = {"source": REF.source, "scope": REF.scope, "kind": REF.kind, "id": REF.id}


def at(minutes: float) -> datetime:
    """Return the time so many minutes after noon."""
    return NOW + timedelta(minutes=minutes)


def put(database: Database, table: str, **columns: object) -> None:
    """Write one row as if the program had."""
    names = ", ".join(columns)
    values = ", ".join(f"%({name})s" for name in columns)
    with database.transaction() as connection:
        connection.exec_driver_sql("SELECT set_config('reconciler.guard', 'on', true)")
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({values})", columns)


def put_event(database: Database, event_id: str, *, ref: ObjectRef = REF, **columns: object) -> None:
    """Write an event that names one object."""
    event = {
        "source": ref.source,
        "event_id": event_id,
        "event_type": "orders/updated",
        "payload": '{"total": 0.10}',
        "headers": "{}",
        "received_at": at(0),
    }
    put(database, "webhook_events", **event | columns)
    put(database, "event_objects", **_key(ref), event_id=event_id, wanted=1)


def put_run(database: Database, **columns: object) -> int:
    """Write a run over the source and return its number."""
    swept = content.dumps({"kinds": [{"source": REF.source, "kind": REF.kind, "state": "complete"}]})
    run = {"trigger": "nightly", "state": "complete", "started_at": at(0), "tallies": swept}
    put(database, "runs", **run | columns)
    with database.transaction() as connection:
        return int(connection.exec_driver_sql("SELECT max(id) FROM runs").scalar_one())


def _key(ref: ObjectRef) -> dict[str, str]:
    return {"source": ref.source, "scope": ref.scope, "kind": ref.kind, "id": ref.id}


def put_row(database: Database, **columns: object) -> None:
    """Write a row of the object."""
    row = {"body": '{"total": 0.10, "big": 9007199254740993}', "observed_at": at(3), "applied_at": at(3)}
    put(database, "objects", **KEY | row | columns)


def put_declined(database: Database, **columns: object) -> None:
    """Write a declined write of the object."""
    positions = {"stored_read_from": 7, "stored_read_until": 9, "incoming_read_from": 1, "incoming_read_until": 2}
    put(
        database,
        "declined_writes",
        **KEY | positions | {"verdict": "declined", "via": "webhook", "at": at(4)} | columns,
    )


def put_drift(database: Database, **columns: object) -> None:
    """Write drift of the object."""
    drift = {
        "found_at": at(5),
        "what": "differs",
        "cause": "missed_notification",
        "diff": '[{"path": "/total", "ours": 0.10, "theirs": 0.20}]',
        "repaired_at": at(5),
    }
    put(database, "drift", **KEY | drift | columns)


def put_refetch(database: Database, **columns: object) -> None:
    """Write the refetch of the object."""
    refetch = {"wanted": 5, "done": 5, "reason": "webhook", "due_at": at(0)}
    put(database, "refetches", **KEY | refetch | columns)


def test_explain_tells_everything(database: Database) -> None:
    """The story of an object has every chapter, oldest first, each with a sentence."""
    put_event(database, "e1", occurred_at=at(0), outcome="done", processed_at=at(1), duplicates=2, last_repeat_at=at(2))
    put(
        database,
        "object_history",
        **KEY,
        what="updated",
        observed_at=at(3),
        changed='["/total"]',
        via="webhook",
        event_id="e1",
        at=at(3),
    )
    put_row(database)
    put_declined(database, because="it was read before")
    put_declined(database, verdict="tied", because="the two reads overlap", at=at(4.5))
    put_drift(database)
    put_drift(database, cause="hand_edit", found_at=at(6), repaired_at=None)
    put_refetch(database, dead_at=at(7), last_error="404 from the shop", attempts=12)

    with database.transaction() as connection:
        told = story.explain(connection, REF)

    assert [each["what"] for each in told["story"]] == [
        "delivery",
        "duplicate",
        "applied",
        "declined",
        "tied",
        "drift",
        "hand_edit",
        "dead_letter",
    ]
    assert told["ref"] == "shop/order/9007199254740993"
    assert all(each["text"] and each.keys() >= {"at", "what", "event_id", "run_id", "text"} for each in told["story"])
    assert "60.0 s later" in told["story"][0]["text"]
    assert "again twice" in told["story"][1]["text"]
    assert "it was read before" in told["story"][3]["text"]
    assert "404 from the shop" in told["story"][-1]["text"]


def test_explain_of_an_unknown_object(database: Database) -> None:
    """What was never heard of has no row and no story."""
    with database.transaction() as connection:
        told = story.explain(connection, REF)

    assert told == {"ref": str(REF), "row": None, "story": []}


def test_pending_hand_edit(database: Database) -> None:
    """An edit that is not read yet is part of the story."""
    put_row(database)
    put_refetch(database, wanted=6, reason="hand_edit", due_at=at(1))

    with database.transaction() as connection:
        [told] = story.explain(connection, REF)["story"]

    assert (told["what"], told["at"]) == ("hand_edit", "2026-12-01T12:01:00.000000Z")


def test_numbers_and_times(database: Database) -> None:
    """K51: numbers come back as they were written, ids are text, times are UTC with six places."""
    put_row(database, source_updated_at=datetime(2026, 12, 1, 14, 0, tzinfo=UTC))

    with database.transaction() as connection:
        row = story.our_row(connection, REF)

    assert row is not None
    assert row["body"] == {"total": Decimal("0.10"), "big": 9007199254740993}
    assert content.dumps(row["body"]) in {
        '{"big":9007199254740993,"total":0.10}',
        '{"total":0.10,"big":9007199254740993}',
    }
    assert (row["id"], row["source_updated_at"]) == ("9007199254740993", "2026-12-01T14:00:00.000000Z")


COLUMNS = {
    "events": "source event_id event_type payload headers raw occurred_at received_at processed_at outcome duplicates "
    "last_repeat_at last_error",
    "declined": "seq source scope kind id verdict incoming_source_updated_at stored_source_updated_at "
    "incoming_read_from incoming_read_until stored_read_from stored_read_until via event_id run_id at",
    "drift": "run_id found_at source scope kind id what cause diff repaired_at",
    "runs": "id trigger since until started_at finished_at state dry_run tallies because",
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("by_id", [False, True])
def test_list_columns(database: Database, name: str, *, by_id: bool) -> None:
    """A list has the columns of its table, however it was asked for."""
    put_row(database)
    put_event(database, "e1")
    put_declined(database)
    run_id = put_run(database)
    put_drift(database, run_id=run_id)
    identity = {"runs": str(run_id)}.get(name, REF.id) if by_id else None

    with database.transaction() as connection:
        [told] = getattr(story, name)(connection, Filters(id=identity, limit=9))

    assert set(COLUMNS[name].split()) <= set(told)


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ["e3", "e2", "e1"]),
        ({"state": "open"}, ["e3", "e1"]),
        ({"state": "dead"}, ["e2"]),
        ({"since": at(1.5)}, ["e3", "e2"]),
        ({"limit": 1}, ["e3"]),
        ({"source": "shop"}, ["e3", "e2", "e1"]),
        ({"source": "other"}, []),
        ({"kind": "order"}, ["e3", "e2", "e1"]),
        ({"kind": "product"}, []),
    ],
)
def test_event_filters(database: Database, chosen: Mapping[str, Any], expected: list[str], *, by_id: bool) -> None:
    """Each filter leaves what it says, newest first, with an id and without."""
    put_row(database)
    put_event(database, "e1", received_at=at(1))
    put_event(database, "e2", received_at=at(2), outcome="dead", processed_at=at(3))
    put_event(database, "e3", received_at=at(3))
    filters = Filters(**{"limit": 9, "id": REF.id if by_id else None, **chosen})

    with database.transaction() as connection:
        found = story.events(connection, filters)

    assert [told["event_id"] for told in found] == expected


def test_events_of_several_sources(database: Database) -> None:
    """Without a source the newest of all sources come, and an event is found by its own id."""
    for number, source in enumerate(["a", "b", "c", "b", "a"]):
        put_event(database, f"e{number}", ref=ObjectRef(source, "", "order", "1"), received_at=at(number))

    with database.transaction() as connection:
        newest = story.events(connection, Filters(limit=4))
        by_id = story.events(connection, Filters(id="e2", limit=4))

    assert [told["event_id"] for told in newest] == ["e4", "e3", "e2", "e1"]
    assert [(told["source"], told["event_id"]) for told in by_id] == [("c", "e2")]


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(
    ("state", "expected"), [("open", 1), ("repaired", 1), ("differs", 2), ("hand_edit", 1), ("missing", 0)]
)
def test_drift_states(database: Database, state: str, expected: int, *, by_id: bool) -> None:
    """Drift is chosen by what was found, why, or whether it is repaired."""
    put_row(database)
    put_drift(database)
    put_drift(database, cause="hand_edit", repaired_at=None)

    with database.transaction() as connection:
        found = story.drift(connection, Filters(id=REF.id if by_id else None, state=state, limit=9))

    assert len(found) == expected


def test_runs_of_a_source(database: Database) -> None:
    """Runs are found by what they swept."""
    put_run(database)

    with database.transaction() as connection:
        mine = story.runs(connection, Filters(source="shop", kind="order", limit=9))
        others = story.runs(connection, Filters(source="other", limit=9))

    assert len(mine) == 1
    assert others == []


def test_run_report(database: Database) -> None:
    """A run's report has the contract's keys and the drift it found; an unknown run has none."""
    run_id = put_run(database, since=at(-60), state="incomplete", because="a page was not seen")
    put_drift(database, run_id=run_id)
    put_drift(database)

    with database.transaction() as connection:
        report, unknown = story.run_report(connection, run_id), story.run_report(connection, run_id + 1)

    assert report is not None
    assert list(report) == ["id", "trigger", "state", "since", "until", "dry_run", "because", "kinds", "drift"]
    assert (report["id"], report["since"]) == (run_id, "2026-12-01T11:00:00.000000Z")
    assert [drift["diff"][0]["theirs"] for drift in report["drift"]] == [Decimal("0.20")]
    assert unknown is None


def test_refs_of_an_id(database: Database) -> None:
    """An id is found wherever it lives, with a row or only wanted."""
    put_row(database)
    put(
        database, "refetches", source="hub", scope="17", kind="issue", id=REF.id, wanted=1, reason="webhook", due_at=NOW
    )

    with database.transaction() as connection:
        everywhere = story.refs(connection, REF.id)
        at_hub = story.refs(connection, REF.id, source="hub", kind="issue")

    assert everywhere == [ObjectRef("hub", "17", "issue", REF.id), REF]
    assert at_hub == [ObjectRef("hub", "17", "issue", REF.id)]


def test_queues(database: Database) -> None:
    """What waits is counted by source: open, due, leased and dead, and since when the oldest waits."""
    states: list[dict[str, object]] = [
        {"wanted": 6, "due_at": at(-10)},
        {"wanted": 6, "due_at": at(-5), "leased_until": at(1)},
        {"wanted": 6, "due_at": at(30)},
        {"again_at": at(-1)},
        {"again_at": at(90)},
        {"wanted": 6, "dead_at": at(-1)},
        {},
    ]
    for number, state in enumerate(states):
        put(
            database,
            "refetches",
            **KEY | {"id": str(number), "wanted": 5, "done": 5, "reason": "webhook", "due_at": NOW} | state,
        )
    put_event(database, "e1", received_at=at(-20))

    with database.transaction() as connection:
        queues = story.queues(connection, now=NOW)

    assert queues == {"shop": story.Queue(open=3, due=2, leased=1, dead=1, oldest=at(-20))}


def test_freshness(database: Database) -> None:
    """Freshness is of the last hour, of the last day where nothing came since, and of done events only."""
    for number in range(100):
        put_event(
            database,
            f"e{number}",
            received_at=at(-number / 10),
            processed_at=at(-number / 10) + timedelta(seconds=number),
            outcome="done" if number else "ignored",
        )
    yesterday = ObjectRef("slow", "", "order", "1")
    put_event(database, "old", ref=yesterday, received_at=at(-600), processed_at=at(-599), outcome="done")

    with database.transaction() as connection:
        fresh = story.freshness(connection, ["shop", "slow", "silent"], now=NOW)

    assert fresh == {"shop": {"p50": 50.0, "p99": 98.02}, "slow": {"p50": 60.0, "p99": 60.0}}


def test_alarms(database: Database) -> None:
    """Everything that needs a person is an alarm of its source, once, and nothing else is."""
    put(database, "refetches", **KEY, wanted=5, reason="webhook", due_at=NOW, dead_at=at(-7))
    for number, (scope, what) in enumerate([("", "unavailable"), ("17", "access_lost"), ("18", "access_lost")]):
        put(
            database,
            "pauses",
            source="shop",
            scope=scope,
            what=what,
            because="503",
            since=at(number),
            until=at(5) if number < 2 else at(-1),
        )
    put_run(database, state="incomplete", started_at=at(-60))
    put_run(database, state="failed", started_at=at(-30), trigger="cli")
    put(database, "watermarks", source="shop", kind="order", swept_until=at(-27 * 60))
    put(database, "watermarks", source="calm", kind="order", swept_until=at(-25 * 60))
    put(database, "refetches", **KEY | {"source": "gone"}, wanted=5, reason="webhook", due_at=NOW, dead_at=NOW)

    with database.transaction() as connection:
        found = story.alarms(connection, {"shop": ["order", "product"], "calm": ["order"]}, now=NOW)

    assert [(alarm.source, alarm.what, alarm.since) for alarm in found] == [
        ("shop", "access_lost", at(1)),
        ("shop", "dead_letters", at(-7)),
        ("shop", "never_swept", None),
        ("shop", "nightly_incomplete", at(-60)),
        ("shop", "source_unavailable", at(0)),
        ("shop", "watermark_old", at(-27 * 60)),
    ]


def test_alarm_of_a_night_ends(database: Database) -> None:
    """An incomplete night is an alarm until a later one is complete; dry runs do not count."""
    put_run(database, state="incomplete", started_at=at(-60))
    put_run(database, state="complete", started_at=at(-30), dry_run=True)
    put(database, "watermarks", source="shop", kind="order", swept_until=NOW)

    with database.transaction() as connection:
        before = story.alarms(connection, {"shop": ["order"]}, now=NOW)
    put_run(database, state="complete", started_at=at(-10), trigger="catch_up")
    with database.transaction() as connection:
        after = story.alarms(connection, {"shop": ["order"]}, now=NOW)

    assert [alarm.what for alarm in before] == ["nightly_incomplete"]
    assert after == []


def test_last_runs(database: Database) -> None:
    """The newest run of a source is told, whatever brought it."""
    put_run(database, started_at=at(-60))
    newest = put_run(database, started_at=at(-5), trigger="http", state="running")

    with database.transaction() as connection:
        last = story.last_runs(connection, ["shop", "other"])

    assert last == {
        "shop": {
            "id": newest,
            "trigger": "http",
            "state": "running",
            "started_at": "2026-12-01T11:55:00.000000Z",
            "finished_at": None,
        }
    }
