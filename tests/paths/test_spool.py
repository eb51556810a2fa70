"""While the database is away deliveries go to disk; they come into it in order, none lost and none twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from reconciler import content
from reconciler.errors import DatabaseUnavailable, DeliveryMalformed
from reconciler.model import Named, Notification, ObjectRef
from reconciler.spool import Spool
from reconciler.store import spooled
from reconciler.store.events import Arrival
from tests.conftest import at
from tests.paths.listening import SOURCE, Plain, eventually, receiving, rows
from tests.paths.test_receive import plain, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconciler.store.database import Database
    from tests.paths.listening import Heard

MOST = 10_000_000


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """Yield a spool of this test alone."""
    made = Spool(tmp_path / "state" / "spool.sqlite", most=MOST)
    yield made
    made.close()


@contextmanager
def away(server: str, database: Database) -> Iterator[None]:
    """Let nobody reach the database for the length of the block."""
    name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(at(server, "postgres"), autocommit=True) as admin:
        admin.execute(allow.format(sql.Identifier(str(name)), sql.SQL("false")))
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        yield
        admin.execute(allow.format(sql.Identifier(str(name)), sql.SQL("true")))


def arrival(event_id: str, **told: Any) -> Arrival:
    """Return one arrival that names an object of its own."""
    named = (Named(ObjectRef("plain", "", "order", event_id)),)
    notification = Notification("plain", event_id, "order.updated", None, {"id": event_id}, named=named)
    return Arrival(replace(notification, **told), {"host": "here"}, datetime(2026, 12, 1, tzinfo=UTC))


def inbox(database: Database) -> list[Any]:
    """Return every stored event with its repeats, in the order in which their objects were wanted."""
    return rows(
        database,
        "SELECT event_id, duplicates FROM webhook_events JOIN event_objects USING (source, event_id) ORDER BY wanted",
    )


def test_a_database_that_is_away(server: str, database: Database, spool: Spool) -> None:
    """What comes meanwhile is answered, repeats as repeats, and is in the database in order soon after that is back."""
    with receiving(database, spool=spool) as heard:
        heard.receiver.receive(SOURCE, signed(1))
        with away(server, database):
            receipts = [heard.receiver.receive(SOURCE, signed(number)) for number in (3, 2, 2)]
            hindrance = heard.receiver.hindrance()
        eventually(lambda: not spool.waiting)
        heard.receiver.receive(SOURCE, signed(4))

    assert [each.duplicate for each in receipts] == [False, False, True]
    assert hindrance is None
    assert sorted(inbox(database)) == [("evt_1", 0), ("evt_2", 1), ("evt_3", 0), ("evt_4", 0)]
    assert len(heard.told("spool.needed")) == 1
    assert sum(line["deliveries"] for line in heard.told("spool.moved")) == 3


def test_what_comes_later_stays_behind(database: Database, spool: Spool) -> None:
    """While something waits in the spool, nothing overtakes it."""
    spool.keep([arrival("first")])
    heard: Heard
    with receiving(database, {"plain": Plain()}, spool=spool) as heard:
        heard.receiver.receive("plain", plain({"event_id": "second", "named": {"2": None}}))
        eventually(lambda: not spool.waiting)

    assert [event_id for event_id, _ in inbox(database)] == ["first", "second"]


def test_without_a_spool(server: str, database: Database) -> None:
    """Nobody said that the disk is durable: a delivery is refused for now."""
    with receiving(database) as heard, away(server, database), pytest.raises(DatabaseUnavailable):
        heard.receiver.receive(SOURCE, signed())


def test_moved_and_not_forgotten(database: Database, spool: Spool) -> None:
    """Killed after the database had them and before the file let them go: they are not stored again."""
    spool.keep([arrival("a"), arrival("b")])
    part = spool.first(10)
    database.commit(lambda c: spooled.move(c, spool.name, part.numbers, part.arrivals))
    spool.keep([arrival("c")])

    with receiving(database, {"plain": Plain()}, spool=spool):
        eventually(lambda: not spool.waiting)

    assert inbox(database) == [("a", 0), ("b", 0), ("c", 0)]


def test_two_that_move(database: Database, spool: Spool) -> None:
    """Two processes that move one file store each delivery once."""
    spool.keep([arrival("a"), arrival("b")])
    part = spool.first(10)
    first, _ = database.commit(lambda c: spooled.move(c, spool.name, part.numbers, part.arrivals))
    second, _ = database.commit(lambda c: spooled.move(c, spool.name, part.numbers, part.arrivals))

    assert ([each.notification.event_id for each in first], second) == (["a", "b"], [])


_KEEPS_AND_DIES = """\
import os, signal, sys
from pathlib import Path
from reconciler.spool import Spool
from tests.paths.test_spool import MOST, arrival
Spool(Path(sys.argv[1]), most=MOST).keep([arrival("kept")])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_once_it_has_answered(tmp_path: Path) -> None:
    """What was kept outlives the process that kept it."""
    place = tmp_path / "spool.sqlite"
    ended = subprocess.run([sys.executable, "-c", _KEEPS_AND_DIES, place], env=dict(os.environ), check=False)

    spool = Spool(place, most=MOST)
    assert ended.returncode == -signal.SIGKILL
    assert [each.notification.event_id for each in spool.first(10).arrivals] == ["kept"]
    assert spool.waiting == 1
    spool.close()


def test_more_than_may_be_kept(tmp_path: Path) -> None:
    """Beyond its bound the spool refuses, and says which key sets it; what it holds stays."""
    spool = Spool(tmp_path / "spool.sqlite", most=1000)
    spool.keep([arrival("a")])

    with pytest.raises(DatabaseUnavailable, match=r"is full.*web\.spool_max"):
        spool.keep([arrival("b", payload={"note": "x" * 1000})])

    assert [each.notification.event_id for each in spool.first(10).arrivals] == ["a"]
    spool.close()


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """A file that is no spool is a sentence."""
    place = tmp_path / "spool.sqlite"
    place.write_text("not a database, whatever it is called, and longer than a header")

    with pytest.raises(DatabaseUnavailable, match="cannot be used: file is not a database"):
        Spool(place, most=MOST)


def test_what_the_database_will_not_hold(database: Database, spool: Spool) -> None:
    """One that spoils its transaction stays in the file with the reason, and holds up nobody."""
    spool.keep([arrival("a"), arrival("b", event_type="no\x00t"), arrival("c")])

    with receiving(database, {"plain": Plain()}, spool=spool) as heard:
        eventually(lambda: not spool.waiting)

    assert inbox(database) == [("a", 0), ("c", 0)]
    [refused] = heard.told("spool.refused")
    assert refused["event_id"] == "b"
    assert spool.first(10).numbers == ()


def test_what_cannot_be_read_is_still_refused(server: str, database: Database, spool: Spool) -> None:
    """The spool holds only what somebody vouches for."""
    with receiving(database, {"plain": Plain()}, spool=spool) as heard, away(server, database):
        with pytest.raises(DeliveryMalformed):
            heard.receiver.receive("plain", replace(plain(), body=b"{"))
        assert not spool.waiting


_moments = st.datetimes(timezones=st.just(UTC))
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    payload=st.dictionaries(st.text(), _json, max_size=4),
    raw=st.none() | st.binary(max_size=40),
    occurred_at=st.none() | _moments,
    stamp=st.none() | _moments,
    skipped=st.text(max_size=5),
    headers=st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3),
)
def test_nothing_is_lost_on_the_way(spool: Spool, **told: Any) -> None:
    """Whatever a delivery says comes out of the file as it went in."""
    headers, stamp = told.pop("headers"), told.pop("stamp")
    payload = content.clean(told.pop("payload"))[0]
    named = (Named(ObjectRef("plain", "s", "order", "1"), stamp, {"name": "x"}),)
    kept = replace(arrival("e", payload=payload, named=named, **told), headers=content.clean(headers)[0])

    spool.keep([kept])
    part = spool.first(10)
    spool.drop(part.numbers)

    assert part.arrivals == (kept,)
    assert spool.waiting == 0
