"""The shared buckets by the clock they are told: refill, lanes, holds."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.store import buckets
from reconciler.store.buckets import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from reconciler.store.buckets import Level
    from reconciler.store.database import Database

_ANY_BUCKET = st.builds(Bucket, st.just("calls"), st.floats(0.01, 5_000), st.floats(2, 500))
_GAPS = st.lists(st.integers(0, 3_000_000), min_size=1, max_size=25)
_many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def at(seconds: float) -> datetime:
    """Return a time, *seconds* after a fixed one."""
    return datetime(2026, 5, 1, tzinfo=UTC) + timedelta(microseconds=round(seconds * 1e6))


@contextmanager
def undone(database: Database) -> Iterator[Connection]:
    """Yield a connection whose work leaves no trace."""
    with database.engine.connect() as connection:
        yield connection


def live(connection: Connection, seconds: float, *concerned: Bucket) -> float:
    """Let live work ask for a call at that time."""
    return buckets.take(connection, "shop", buckets=concerned, sweep=False, now=at(seconds))


def sweep(connection: Connection, seconds: float, *concerned: Bucket) -> float:
    """Let a sweep ask for a call at that time."""
    return buckets.take(connection, "shop", buckets=concerned, sweep=True, now=at(seconds))


def emptied(connection: Connection, seconds: float, bucket: Bucket) -> None:
    """Leave nothing at that time, in either lane."""
    live(connection, seconds, bucket)
    connection.exec_driver_sql("UPDATE budgets SET tokens = 0, reserve = 0")


def level(connection: Connection, seconds: float) -> Level:
    """Return what is in the only bucket."""
    [found] = buckets.levels(connection, now=at(seconds))
    return found


@_many
@given(_ANY_BUCKET, st.lists(st.tuples(st.integers(0, 400_000), st.booleans()), min_size=5, max_size=60))
def test_no_window_holds_more_than_rate_and_burst(
    database: Database, bucket: Bucket, asked: list[tuple[int, bool]]
) -> None:
    """Whoever asks when, in both lanes together, any stretch of time gets at most its rate and one burst."""
    granted, now = [], 0.0
    with undone(database) as connection:
        for gap, by_sweep in asked:
            now += gap / 1e6
            ask = sweep if by_sweep else live
            granted += [now for _ in range(3) if not ask(connection, now, bucket)]

    for first in range(len(granted)):
        for last in range(first, len(granted)):
            assert last - first + 1 <= bucket.burst + bucket.rate * (granted[last] - granted[first]) + 1e-6


@_many
@given(_ANY_BUCKET, _GAPS)
@example(Bucket("calls", 1, 20), [1, 999_999, 3_000_000, 7, 3_000_000])
def test_refill_in_pieces_is_refill_at_once(database: Database, bucket: Bucket, gaps: list[int]) -> None:
    """How often a bucket is looked at changes nothing about what is in it."""
    seen = []
    for steps in (gaps, [sum(gaps)]):
        with undone(database) as connection:
            emptied(connection, 0, bucket)
            for now in accumulate(steps):
                buckets.hold(connection, "shop", buckets=[bucket], seconds=0, now=at(now / 1e6))
            seen.append(connection.exec_driver_sql("SELECT tokens, reserve FROM budgets").one())

    assert tuple(seen[0]) == pytest.approx(tuple(seen[1]), abs=1e-5)


@_many
@given(_ANY_BUCKET, st.integers(0, 2_000_000), st.booleans())
def test_wait_is_exact(database: Database, bucket: Bucket, later: int, by_sweep: bool) -> None:  # noqa: FBT001 - drawn
    """A refused call is granted after the time it was told, and not before."""
    ask = sweep if by_sweep else live
    with undone(database) as connection:
        emptied(connection, 0, bucket)
        now = later / 1e6
        while not (wait := ask(connection, now, bucket)):
            pass

        early = ask(connection, now + wait * 0.999 - 1e-6, bucket)
        then = ask(connection, now + wait + 1e-6, bucket)

    assert early > 0
    assert then == 0


@_many
@given(_ANY_BUCKET, st.lists(st.tuples(st.integers(-10_000_000, 10_000_000), st.booleans()), max_size=30))
def test_a_jumping_clock_freezes_nothing(database: Database, bucket: Bucket, jumps: list[tuple[int, bool]]) -> None:
    """However the clock jumps, the bucket keeps its bounds and a call is at most a reserve's refill away."""
    now = 0.0
    with undone(database) as connection:
        emptied(connection, 0, bucket)
        for jump, by_sweep in jumps:
            now += jump / 1e6
            wait = (sweep if by_sweep else live)(connection, now, bucket)
            row = connection.exec_driver_sql("SELECT tokens, reserve, at FROM budgets").one()

            assert wait <= 2 / (bucket.rate * 0.9) + (1 / (bucket.rate * 0.1) if by_sweep else 0)
            assert -1e-6 <= row.reserve <= bucket.spare
            assert row.reserve - 1e-6 <= row.tokens <= bucket.burst
            assert row.at == at(now)


def test_sweeps_keep_a_tenth_of_a_busy_bucket(database: Database) -> None:
    """While live work takes whatever it can get, sweeps get a tenth of the rate and live work all the rest."""
    bucket = Bucket("calls", 50, 10)
    with undone(database) as connection:
        emptied(connection, 0, bucket)
        by_live, by_sweeps = 0, 0
        for step in range(1, 2_001):
            by_live += not live(connection, step / 100, bucket)
            by_sweeps += not sweep(connection, step / 100, bucket)

    assert by_sweeps == pytest.approx(100, abs=1)
    assert by_live == pytest.approx(900, abs=1)


def test_live_work_alone_has_the_whole_rate(database: Database) -> None:
    """Where no sweep asks, its full reserve costs live work nothing."""
    bucket = Bucket("calls", 50, 10)
    with undone(database) as connection:
        by_live = sum(not live(connection, step / 100, bucket) for step in range(1, 1_001))

    assert by_live == pytest.approx(500 + 9, abs=1)


def test_sweeps_alone_have_the_whole_rate(database: Database) -> None:
    """Where no live work asks, sweeps are not kept to their tenth."""
    bucket = Bucket("calls", 50, 10)
    with undone(database) as connection:
        by_sweeps = sum(not sweep(connection, step / 100, bucket) for step in range(1, 1_001))

    assert by_sweeps == pytest.approx(500 + 5, abs=2)


@pytest.mark.parametrize("burst", [2, 2.5, 3, 10, 100])
def test_sweeps_leave_half_to_live_work(database: Database, burst: float) -> None:
    """After sweeps took all they get, live work still has half its part at once, give or take a call."""
    bucket = Bucket("calls", 10, burst)
    with undone(database) as connection:
        while not sweep(connection, 0, bucket):
            pass
        left = 0
        while not live(connection, 0, bucket):
            left += 1

    room = burst - bucket.spare
    assert left == pytest.approx(min(room - 1, room / 2), abs=1)


@pytest.mark.parametrize("burst", [2, 2.5, 3, 10])
def test_live_work_waits_for_at_most_one_call(database: Database, burst: float) -> None:
    """However sweeps hammer, live work below its rate waits no longer than one call takes to come back."""
    bucket = Bucket("calls", 10, burst)
    waits = []
    with undone(database) as connection:
        for step in range(2_000):
            if step % 20 == 19:
                waits.append(live(connection, step / 100, bucket))
            while not sweep(connection, step / 100, bucket):
                pass

    assert max(waits) <= 1 / (10 * 0.9)


def test_reserve_is_closed_to_live_work(database: Database) -> None:
    """Live work that takes all it can leaves sweeps their tenth of a full bucket."""
    bucket = Bucket("calls", 1, 40)
    with undone(database) as connection:
        by_live = sum(not live(connection, 0, bucket) for _ in range(50))
        by_sweeps = sum(not sweep(connection, 0, bucket) for _ in range(50))

    assert (by_live, by_sweeps) == (36, 4)


def test_a_call_takes_from_all_its_buckets_or_from_none(database: Database) -> None:
    """One empty bucket refuses the call, and the others keep what they have."""
    every, one = Bucket("calls", 1, 10), Bucket("operation: a", 1, 2)
    with undone(database) as connection:
        first = live(connection, 0, every, one)
        waits = [live(connection, 0, every, one) for _ in range(20)]
        tokens = {each.name: each.tokens for each in buckets.levels(connection, now=at(0))}

    assert first == 0
    assert waits == pytest.approx([1] * 20)
    assert tokens == {"calls": 9, "operation: a": 1}


def test_the_emptiest_bucket_says_how_long(database: Database) -> None:
    """A call that several buckets refuse waits for the slowest."""
    fast, slow = Bucket("calls", 10, 2), Bucket("operation: a", 0.5, 2)
    with undone(database) as connection:
        live(connection, 0, fast, slow)

        wait = live(connection, 0, fast, slow)

    assert wait == pytest.approx(2)


def test_a_call_given_back_can_be_taken_again(database: Database) -> None:
    """What was not used is there for the next one, in the lane it came from, and never more than fits."""
    bucket = Bucket("calls", 0.001, 4)
    with undone(database) as connection:
        emptied(connection, 0, bucket)
        buckets.give_back(connection, "shop", buckets=[bucket], sweep=True, now=at(0))
        refused = live(connection, 0, bucket)
        taken = sweep(connection, 0, bucket)
        buckets.give_back(connection, "shop", buckets=[bucket], sweep=False, now=at(0))
        again = live(connection, 0, bucket)
        for _ in range(9):
            buckets.give_back(connection, "shop", buckets=[bucket], sweep=False, now=at(0))

        full = level(connection, 0)

    assert refused > 0
    assert (taken, again) == (0, 0)
    assert full.tokens == 4


def test_a_hold_stops_both_lanes_until_it_ends(database: Database) -> None:
    """Nobody gets a call while a bucket is held, however full, and all may be had after."""
    bucket = Bucket("calls", 10, 10)
    with undone(database) as connection:
        buckets.hold(connection, "shop", buckets=[bucket], seconds=30, now=at(0))

        waits = [live(connection, 0, bucket), live(connection, 12, bucket), sweep(connection, 29, bucket)]
        held = level(connection, 29)
        after = live(connection, 30, bucket)

    assert waits == pytest.approx([30, 18, 1])
    assert held.held == pytest.approx(1)
    assert after == 0


def test_a_level_shows_how_long_it_is_held(database: Database) -> None:
    """What is left of a hold goes down by the clock, and a clock that went back makes it no longer than it was."""
    bucket = Bucket("calls", 10, 10)
    with undone(database) as connection:
        buckets.hold(connection, "shop", buckets=[bucket], seconds=30, now=at(0))

        held = [level(connection, seconds).held for seconds in (0, 20, 31, -500)]

    assert held == pytest.approx([30, 10, 0, 30])


def test_a_shorter_hold_does_not_end_a_longer_one(database: Database) -> None:
    """Of two holds the one that ends later counts, whichever came first."""
    bucket = Bucket("calls", 10, 10)
    with undone(database) as connection:
        for seconds in (5, 60, 5):
            buckets.hold(connection, "shop", buckets=[bucket], seconds=seconds, now=at(0))

        wait = live(connection, 10, bucket)

    assert wait == pytest.approx(50)


def test_a_hold_lasts_an_hour_at_most(database: Database) -> None:
    """A provider that asks for a day is asked again after an hour."""
    bucket = Bucket("calls", 10, 10)
    with undone(database) as connection:
        buckets.hold(connection, "shop", buckets=[bucket], seconds=86_400, now=at(0))

        waits = [live(connection, 0, bucket), live(connection, 3_599, bucket), live(connection, 3_600, bucket)]

    assert waits == pytest.approx([3_600, 1, 0])


def test_a_hold_outlives_no_clock(database: Database) -> None:
    """A clock that goes back an age leaves a hold the time it had, not an age more."""
    bucket = Bucket("calls", 10, 10)
    with undone(database) as connection:
        buckets.hold(connection, "shop", buckets=[bucket], seconds=20, now=at(5_000))

        waits = [live(connection, seconds, bucket) for seconds in (5_004, 1_000, 1_010, 1_017)]

    assert waits == pytest.approx([16, 16, 6, 0])


def test_a_hold_that_ends_too_late_is_ignored(database: Database) -> None:
    """An end further ahead than any hold lasts was set by a wrong clock, and is forgotten."""
    bucket = Bucket("calls", 10, 10)
    with undone(database) as connection:
        live(connection, 0, bucket)
        connection.exec_driver_sql("UPDATE budgets SET held_until = at + interval '3601 seconds'")
        shown = level(connection, 0)

        wait = live(connection, 0, bucket)
        forgotten = connection.exec_driver_sql("SELECT held_until IS NULL FROM budgets").scalar_one()

    assert shown.held == 0
    assert wait == 0
    assert forgotten


def test_a_smaller_limit_counts_at_once(database: Database) -> None:
    """A bucket filled under a generous limit gives no more than the new one allows."""
    with undone(database) as connection:
        live(connection, 0, Bucket("calls", 100, 100))

        granted = sum(not live(connection, 0, Bucket("calls", 1, 5)) for _ in range(100))

    assert granted == 4


def test_sources_do_not_share_buckets(database: Database) -> None:
    """A bucket of the same name is another one for another source."""
    bucket = Bucket("calls", 1, 2)
    with undone(database) as connection:
        emptied(connection, 0, bucket)

        wait = buckets.take(connection, "other", buckets=[bucket], sweep=False, now=at(0))

    assert wait == 0


def test_rows_that_vanish_are_made_anew(database: Database) -> None:
    """Who deletes the rows by hand refills the buckets, and breaks nothing."""
    bucket = Bucket("calls", 1, 2)
    with undone(database) as connection:
        emptied(connection, 0, bucket)
        connection.exec_driver_sql("DELETE FROM budgets")

        assert live(connection, 0, bucket) == 0


def test_a_take_waits_for_no_disk(database: Database) -> None:
    """A take is one transaction of its own that does not wait until it is on disk, and changes that for no other."""
    bucket = Bucket("calls", 1, 10)
    with buckets.at_once(database) as connection:
        connection.exec_driver_sql("SET synchronous_commit = on")
        live(connection, 0, bucket)
        after = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()

    with undone(database) as connection:
        live(connection, 0, bucket)
        inside = connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()
        seen = level(connection, 0)

    assert after == "on"
    assert inside == "off"
    assert seen.tokens == 8
