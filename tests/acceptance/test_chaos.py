"""A few rounds of chaos, and that its checker notices each law that is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.chaos.checking import WATCH, Seen, broken, version
from tests.chaos.course import draw
from tests.chaos.rounds import play

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.store.database import Database

_ROW = """\
INSERT INTO reconciler.objects (source, scope, kind, id, observed_at, applied_at, read_from, read_until, shape, body)
VALUES ('stripe-demo', '', %s, 'x_1', now(), now(), 1, 2, '1:x', %s)
"""
_NEXT = "UPDATE reconciler.objects SET body = %s, deleted_at = CASE WHEN %s THEN now() END"
_EVENT = """\
INSERT INTO reconciler.webhook_events (source, event_id, event_type, payload, headers, received_at, outcome)
VALUES ('stripe-demo', 'evt_1', 'customer.updated', '{}', '{}', now(), %s)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_laws_hold(seed: int) -> None:
    """Whatever fails around the daemon, every law holds in the end."""
    assert play(draw(seed)) == []


def test_course_is_drawn_from_its_seed() -> None:
    """The same seed draws the same course, another seed another."""
    assert draw(7) == draw(7)
    assert draw(7).acts != draw(8).acts


def test_every_version_is_read() -> None:
    """Each stand-in writes its version where the checker looks."""
    stripe = {"metadata": {"version": "12"}}
    shopify = {"tags": ["new", "v3"], "note": None}
    github = {"title": "Issue", "body": "Text v104"}
    assert [version(each) for each in (stripe, shopify, github, {"name": "x"})] == [12, 3, 104, None]


@pytest.fixture
def watched(database: Database, tmp_path: Path) -> Seen:
    """Return what the checker sees of a source about which there is nothing to say."""
    with psycopg.connect(database.url) as connection:
        connection.execute(WATCH)
    sent = {"last": [{"event_id": "evt_1", "answer": "200"}]}
    log = tmp_path / "daemon.log"
    log.write_text("")
    source = "stripe-demo"
    return Seen(database.url, (log,), {source: "stripe"}, {source: sent}, {source: {"total": 1}}, {source: 1})


def _write(seen: Seen, *bodies: tuple[int, bool], kind: str = "customer", outcome: str | None = "done") -> None:
    """Let a row have these versions, deleted or not, one after another, and its event this outcome."""
    first, *later = [(json.dumps({"metadata": {"version": str(number)}}), gone) for number, gone in bodies]
    with psycopg.connect(seen.url) as connection:
        connection.execute("SET LOCAL reconciler.guard = 'on'")
        connection.execute(_ROW, (kind, first[0]))
        for each in later:
            connection.execute(_NEXT, each)
        connection.execute(_EVENT, (outcome,))


def test_nothing_to_say(watched: Seen) -> None:
    """Rows that move forward, die and come back as something newer break no law."""
    _write(watched, (1, False), (4, False), (4, True), (6, False))
    assert broken(watched) == []


@pytest.mark.parametrize("bodies", [[(3, False), (2, False)], [(3, False), (3, True), (4, False)]])
def test_going_back_is_noticed(watched: Seen, bodies: list[tuple[int, bool]]) -> None:
    """A row that goes back, and one that comes back to life by what was before its death, are told."""
    _write(watched, *bodies)
    [told] = broken(watched)
    assert told.startswith("stripe-demo//customer/x_1 went from version 3")


def test_stale_reads_excuse_unstamped_kinds_only(watched: Seen) -> None:
    """Where a provider shows what was, a row of an unstamped kind may go back; one of a stamped kind may not."""
    _write(watched, (3, False), (2, False))
    excused = replace(watched, excused=frozenset({("stripe", "customer")}))
    assert broken(excused) == []
    assert len(broken(replace(excused, excused=frozenset({("github", "customer")})))) == 1


@pytest.mark.parametrize("outcome", [None, "dead"])
def test_open_events_are_noticed(watched: Seen, outcome: str | None) -> None:
    """An event that has no outcome in the end, or a dead one, is told."""
    _write(watched, (1, False), outcome=outcome)
    assert broken(watched) == [f"stripe-demo: event evt_1 is {outcome or 'open'} in the end"]


def test_lost_events_are_noticed(watched: Seen) -> None:
    """An event that was answered 200 and is nowhere is told."""
    assert broken(watched) == ["stripe-demo: event evt_1 was answered 200 and is not in the inbox"]


def test_declined_writes_off_record_are_noticed(watched: Seen) -> None:
    """A declined write that was logged and stands in no table is told."""
    _write(watched, (1, False))
    told = {"event": "write.declined", "ref": "a/b/c", "incoming_read_from": 1, "stored_read_from": 2}
    watched.logs[0].write_text(json.dumps(told, separators=(",", ":")) + "\n")
    assert broken(watched) == ["a/b/c: 1 more in the log than in declined_writes"]


def test_too_many_calls_are_noticed(watched: Seen) -> None:
    """Calls out of proportion to what happened are told."""
    _write(watched, (1, False))
    [told] = broken(replace(watched, calls={"stripe-demo": {"total": 10_000}}))
    assert told.startswith("stripe-demo: 10000 calls for 1 operations")
