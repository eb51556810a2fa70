"""Pauses: how long, for whom, and what ends them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from reconciler.store import pauses

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reconciler.store.database import Database
    from reconciler.store.pauses import Pause

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=10)


def at(seconds: float) -> datetime:
    """Return a moment so long after the first of a test."""
    return datetime(2026, 11, 30, 3, 10, tzinfo=UTC) + timedelta(seconds=seconds)


def paused(database: Database, seconds: float, *, scope: str = "", what: str = "unavailable") -> float | None:
    """Pause at this moment and return for how many seconds; None: it was paused already."""

    def pause(connection: Connection) -> datetime | None:
        return pauses.pause(
            connection, "shop", scope, what=what, because="503", first=FIRST, longest=LONGEST, now=at(seconds)
        )

    until = database.commit(pause)
    return None if until is None else (until - at(seconds)).total_seconds()


def standing(database: Database) -> list[Pause]:
    """Return what stands."""
    with database.transaction() as connection:
        return pauses.standing(connection)


def test_each_pause_in_a_row_is_longer(database: Database) -> None:
    """A source that still answers nobody is left alone twice as long each time, up to the longest."""
    now, lasted = 0.0, []
    for _ in range(9):
        lasted.append(paused(database, now))
        now += lasted[-1] or 0

    assert lasted == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    [pause] = standing(database)
    assert (pause.since, pause.until) == (at(0), at(now))


def test_workers_that_fail_together_pause_once(database: Database) -> None:
    """Whoever finds a source paused for the same reason makes the pause no longer."""
    lasted = [paused(database, 0), paused(database, 1), paused(database, 4.9), paused(database, 5)]

    assert lasted == [5, None, None, 10]


def test_another_reason_is_told(database: Database) -> None:
    """A source that is found to be lost while it was only away is so from then on."""
    paused(database, 0)

    lasted = paused(database, 1, what="access_lost")

    assert lasted == 10
    [pause] = standing(database)
    assert (pause.what, pause.since) == ("access_lost", at(0))


def test_a_read_ends_the_pauses_it_knows_of(database: Database) -> None:
    """An answer ends the pause of its source and of its scope, not that of another scope."""
    for scope in ("", "acct_1", "acct_2"):
        paused(database, 0, scope=scope)

    ended = database.commit(lambda connection: pauses.unpause(connection, "shop", "acct_1", began_at=at(10)))

    assert ended
    assert [pause.scope for pause in standing(database)] == ["acct_2"]


def test_a_read_ends_no_later_pause(database: Database) -> None:
    """A read that began before the pause did says nothing about it."""
    paused(database, 10)

    ended = database.commit(lambda connection: pauses.unpause(connection, "shop", "", began_at=at(9)))

    assert not ended
    assert len(standing(database)) == 1


def test_after_a_success_pauses_begin_anew(database: Database) -> None:
    """How often a source was paused before it answered does not count later."""
    paused(database, 0)
    paused(database, 5)
    database.commit(lambda connection: pauses.unpause(connection, "shop", "", began_at=at(20)))

    assert paused(database, 30) == 5


def test_k56_a_pause_until_next_year(database: Database) -> None:
    """A pause that no rule could have set is ended, and only such."""
    paused(database, 0)
    paused(database, 31_000_000, scope="acct_1")

    freed = database.commit(lambda connection: pauses.unfreeze(connection, longest=LONGEST, now=at(1)))

    assert freed == 1
    assert {pause.scope: pause.until for pause in standing(database)} == {"": at(5), "acct_1": at(1)}
