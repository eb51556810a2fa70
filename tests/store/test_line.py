"""Positions after a failover: a server that is another than the one they were drawn from goes on far beyond."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from reconciler.model import Reason
from reconciler.store import refetches
from reconciler.store.database import connect
from reconciler.store.refetches import Again, Alive, Older
from reconciler.store.refetches import Seen as SeenSoFar
from tests.conftest import SCHEMA
from tests.store.stage import DECLINED, GONE, STAMPED, TIED, alive, together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.store.database import Database
    from tests.store.stage import Stage

LOST = 500
"""So many positions were drawn in the last moments of a primary that its standby never heard of."""


def fail_over(stage: Stage, *, back: int = LOST) -> None:
    """Let the database be what a standby had of it: its sequence is behind, and it was written by another server."""
    stage.execute("UPDATE number_line SET server = 'another:00000001'")
    stage.execute("SELECT setval('positions', GREATEST(last_value - :back, 1)) FROM positions", back=back)
    stage.database.engine.dispose()


def test_positions_go_on_beyond_what_was_lost(lone_stage: Stage) -> None:
    """Whoever draws first on the new primary draws beyond all that the old one can have drawn; the next just after."""
    drawn = [lone_stage.position() for _ in range(LOST)][-1]
    fail_over(lone_stage)

    first = lone_stage.position()
    lone_stage.database.engine.dispose()
    second = lone_stage.position()

    assert first > drawn + 10**8
    assert first < second < first + 1000


def test_a_read_under_way_is_older(lone_stage: Stage) -> None:
    """What was being read when the primary went is older than what is read after, though its number was lost."""
    ref = lone_stage.ref(STAMPED)
    lone_stage.apply(lone_stage.reading(ref, alive("first"), (1, 2)))
    under_way = [lone_stage.position() for _ in range(LOST)][-1]
    fail_over(lone_stage)
    lone_stage.want(ref)
    lone_stage.conclude(lone_stage.leased(ref), alive("after"))
    for _ in range(LOST):
        lone_stage.position()

    [late] = lone_stage.apply(lone_stage.reading(ref, alive("before"), (under_way, under_way)))

    row = lone_stage.row(ref)
    assert row is not None
    assert (late.verdict, row.body) == (DECLINED, '{"name": "after"}')


def test_connections_that_come_together(lone_stage: Stage) -> None:
    """Of many connections to a new primary one moves positions on, and none draws before."""
    drawn = [lone_stage.position() for _ in range(LOST)][-1]
    fail_over(lone_stage)

    found = together(*([lone_stage.position] * 6))

    assert min(found) > drawn + 10**8
    assert max(found) - min(found) < 1000


def test_a_server_that_does_not_say(lone_stage: Stage) -> None:
    """Where the server does not tell who it is, positions stay as they are and connections work."""
    lone_stage.execute("CREATE OR REPLACE FUNCTION line_of_server() RETURNS text LANGUAGE sql AS 'SELECT NULL::text'")
    drawn = lone_stage.position()
    lone_stage.execute("UPDATE number_line SET server = 'another:00000001'")
    lone_stage.database.engine.dispose()

    assert drawn < lone_stage.position() < drawn + 1000


@pytest.fixture
def serializable(database: Database) -> Iterator[Database]:
    """Yield a database whose administrator has set another isolation level for everybody."""
    name = database.engine.url.database
    with database.transaction() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    other = connect(database.url, schema=SCHEMA, connections=2)
    yield other
    other.close()


def test_what_is_committed_is_read(serializable: Database) -> None:
    """Transactions are READ COMMITTED whatever the server's default is: the guard counts on it."""
    with serializable.transaction() as connection:
        level = connection.exec_driver_sql("SHOW transaction_isolation").scalar()

    assert level == "read committed"


@pytest.mark.parametrize("ladder", ["alive", "older"])
def test_ladders_of_before_do_not_hold(lone_stage: Stage, ladder: str) -> None:
    """A ladder that was climbed to a position which was never drawn here begins anew, instead of waiting for it."""
    stage = lone_stage
    ref = stage.ref(STAMPED)
    ahead = stage.position() + 10**6
    row, seen, verdict = {
        "alive": (GONE, SeenSoFar(alive=Alive(ahead, stage.clock)), TIED),
        "older": (alive("new", 100), SeenSoFar(older=Older(1, stage.clock, ahead, None)), DECLINED),
    }[ladder]
    stage.apply(stage.reading(ref, row, (1, 2)))
    again = Again(ref, (stage.clock,), Reason.REREAD, seen, wants=True, began_at=None)
    stage.run(partial(refetches.read_again, rereads=[again], now=stage.clock))
    stage.tick(1)

    first = stage.reread(ref, alive("old", 50))
    reached = stage.run(partial(refetches.seen, ref=ref)).until
    stage.work_off({ref: alive("old", 50)})

    assert first is not None
    assert first.verdict is verdict
    assert 0 < reached < ahead
    assert stage.stands(ref, alive("old", 50))
