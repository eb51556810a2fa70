"""Claims and roles: one taker at a time, free again when their holder is gone."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.store import slots
from reconciler.store.slots import Claim, Job, Slot, State

if TYPE_CHECKING:
    from reconciler.store.database import Database

NOW = datetime(2026, 12, 1, 3, 10, tzinfo=UTC)
HOLD = timedelta(minutes=2)
NIGHT = Slot("stripe-eu", Job.NIGHTLY, "2026-12-01")


def claim(database: Database, *, now: datetime = NOW, slot: Slot = NIGHT) -> Claim | None:
    """Try to take the slot at *now*."""
    return database.commit(lambda connection: slots.claim(connection, slot, hold=HOLD, now=now))


def taken(database: Database, *, now: datetime = NOW) -> Claim:
    """Take the slot at *now*, which must work."""
    mine = claim(database, now=now)
    assert mine is not None
    return mine


def stands(database: Database, slot: Slot = NIGHT) -> tuple[State, int]:
    """Return the state and the tries of the slot."""
    with database.transaction() as connection:
        standing = slots.standing(connection, slot.source)[slot]
    return standing.state, standing.tries


def test_claim_race(database: Database) -> None:
    """K54: of many that reach for one slot at the same time, one gets it."""
    won: list[Claim | None] = []
    ready = threading.Barrier(6)

    def reach() -> None:
        ready.wait()
        won.append(claim(database))

    threads = [threading.Thread(target=reach) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [each for each in won if each] == [Claim(NIGHT, 1)]
    assert len(won) == 6


def test_claim_expires(database: Database) -> None:
    """K55: a claim whose process died is free when its time is over, and the dead one's word no longer counts."""
    lost = taken(database)

    before, after = claim(database, now=NOW + HOLD / 2), claim(database, now=NOW + HOLD)
    database.commit(lambda connection: slots.use(connection, lost, now=NOW + HOLD))
    kept = database.commit(lambda connection: slots.keep(connection, lost, hold=HOLD, now=NOW + HOLD))

    assert before is None
    assert after == Claim(NIGHT, 2)
    assert not kept
    assert stands(database) == (State.CLAIMED, 2)


def test_claim_kept(database: Database) -> None:
    """A claim that is renewed stays its holder's."""
    mine = taken(database)

    kept = database.commit(lambda connection: slots.keep(connection, mine, hold=HOLD, now=NOW + HOLD / 2))

    assert kept
    assert claim(database, now=NOW + HOLD) is None
    assert claim(database, now=NOW + HOLD * 1.5) == Claim(NIGHT, 2)


def test_used_slot(database: Database) -> None:
    """A slot that had its run is never taken again."""
    mine = taken(database)

    database.commit(lambda connection: slots.use(connection, mine, now=NOW))

    assert claim(database, now=NOW + timedelta(days=1)) is None
    assert stands(database) == (State.USED, 1)


def test_failed_slot(database: Database) -> None:
    """A failed slot rests, and may then be taken by anybody."""
    mine = taken(database)

    database.commit(lambda connection: slots.fail(connection, mine, rest=HOLD * 5, now=NOW))

    assert claim(database, now=NOW + HOLD * 4) is None
    assert claim(database, now=NOW + HOLD * 5) == Claim(NIGHT, 2)


def test_given_back_slot(database: Database) -> None:
    """A slot that is given back was no try."""
    mine = taken(database)

    database.commit(lambda connection: slots.give_back(connection, mine, rest=timedelta(0), now=NOW))

    assert stands(database) == (State.FAILED, 0)
    assert claim(database) == Claim(NIGHT, 1)


@pytest.mark.parametrize(("state", "expected"), [("complete", State.USED), ("failed", State.CLAIMED)])
def test_lost_claim_of_a_run(database: Database, state: str, expected: State) -> None:
    """A slot whose run completed is used even if its process died before it could say so."""
    mine = taken(database)
    with database.transaction() as connection:
        run_id = connection.exec_driver_sql(
            "INSERT INTO runs (trigger, state) VALUES ('nightly', %(state)s) RETURNING id", {"state": state}
        ).scalar_one()
        slots.keep(connection, mine, hold=HOLD, run_id=run_id, now=NOW)

    assert stands(database) == (expected, 1)
    assert (claim(database, now=NOW + HOLD) is None) == (expected is State.USED)


def test_forgotten_slots(database: Database) -> None:
    """Old slots go, the newest stay."""
    light = Slot("stripe-eu", Job.LIGHT, "2026-12-01T00:00:00.000000Z")
    claim(database)
    claim(database, slot=light)

    database.commit(lambda connection: slots.forget(connection, "stripe-eu", now=NOW + timedelta(days=3)))

    with database.transaction() as connection:
        assert set(slots.standing(connection, "stripe-eu")) == {NIGHT}


def test_role_is_held_by_one(database: Database) -> None:
    """A role has one holder, who keeps it by renewing; it is free when it is let go or not renewed."""

    def hold(holder: str, now: datetime) -> bool:
        return database.commit(lambda connection: slots.hold(connection, "schedule", holder=holder, hold=HOLD, now=now))

    taken_by = [hold("a", NOW), hold("b", NOW), hold("a", NOW + HOLD / 2), hold("b", NOW + HOLD)]
    after_silence = hold("b", NOW + HOLD * 1.5), hold("a", NOW + HOLD * 1.5)
    database.commit(lambda connection: slots.release(connection, "schedule", holder="a"))
    not_its_own = hold("a", NOW + HOLD * 1.5)
    database.commit(lambda connection: slots.release(connection, "schedule", holder="b"))
    after_release = hold("a", NOW + HOLD * 1.5)

    assert taken_by == [True, False, True, False]
    assert after_silence == (True, False)
    assert (not_its_own, after_release) == (False, True)
