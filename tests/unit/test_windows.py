"""From when on a kind is listed: the whole of the rule, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.adapter import Kind, Listing
from reconciler.store.shares import Place
from reconciler.sweep.asked import Asked
from reconciler.sweep.windows import DAY, Window, is_due, nights, put_off, window
from reconciler.times import Last

NOW = datetime(2026, 11, 30, 3, 10, tzinfo=UTC)
OVERLAP = timedelta(hours=2)
HISTORY = timedelta(days=30)


def kind(listing: Listing = Listing.WHOLE, history: timedelta | None = HISTORY) -> Kind:
    """Return a kind of which only its listing matters."""
    return Kind(
        name="customer",
        list=listing,
        feed="",
        fetch="",
        deletion="",
        permission="",
        cost="",
        feed_history=history,
    )


def chosen(swept: datetime | None, of: Kind | None = None, **asked: Any) -> Window:
    """Return the window of a run that asks so."""
    given: dict[str, Any] = {"trigger": "cli", "since": Last.LAST} | asked
    return window(Asked(**given), of or kind(), swept=swept, now=NOW, overlap=OVERLAP)


@pytest.mark.parametrize(
    ("swept", "asked", "since", "crawl"),
    [
        (None, {}, None, True),
        (NOW - timedelta(hours=1), {}, NOW - DAY, False),
        (NOW - timedelta(hours=40), {}, NOW - timedelta(hours=42), False),
        (NOW - timedelta(hours=1), {"light": True}, NOW - timedelta(hours=3), False),
        (NOW - timedelta(hours=1), {"since": NOW - timedelta(minutes=5)}, NOW - timedelta(minutes=5), False),
        (None, {"since": NOW - timedelta(minutes=5)}, NOW - timedelta(minutes=5), False),
        (NOW - timedelta(hours=1), {"full": True}, None, True),
        (NOW - timedelta(hours=1), {"full": True, "since": NOW - DAY}, NOW - DAY, True),
        (None, {"full": True}, None, True),
    ],
)
def test_where_a_window_begins(
    swept: datetime | None, asked: dict[str, Any], since: datetime | None, *, crawl: bool
) -> None:
    """At the watermark less the overlap and a day back at least, where it is told, or everywhere."""
    found = chosen(swept, **asked)

    assert (found.since, found.crawl) == (since, crawl)


@pytest.mark.parametrize("asked", [{"since": NOW - timedelta(days=60)}, {}])
def test_a_feed_that_does_not_reach_back(asked: dict[str, Any]) -> None:
    """Where the feed's history is too short it is used as far as it goes, and everything is listed besides."""
    found = chosen(NOW - timedelta(days=45), **asked)

    assert found.crawl
    assert found.since is not None
    assert timedelta(0) < found.since - (NOW - HISTORY) < timedelta(hours=1)
    assert "30 days only" in (found.note or "")


def test_a_feed_without_an_end_needs_no_crawl() -> None:
    """A feed that keeps everything is used however far back a window begins."""
    found = chosen(NOW, kind(history=None), since=NOW - timedelta(days=900))

    assert (found.since, found.crawl) == (NOW - timedelta(days=900), False)


@pytest.mark.parametrize("asked", [{}, {"full": True}])
@pytest.mark.parametrize(("history", "back"), [(HISTORY, HISTORY - timedelta(minutes=5)), (None, DAY)])
def test_a_kind_that_no_call_lists(history: timedelta | None, back: timedelta, asked: dict[str, Any]) -> None:
    """Its feed is followed as far as it reaches, and what we have is read again: then all is seen that can be."""
    found = chosen(None, kind(Listing.NONE, history), **asked)

    assert (found.since, found.crawl, found.reread) == (NOW - back, False, True)
    assert found.closes_at(None)


def test_an_outrun_feed_of_what_no_call_lists() -> None:
    """Longer away than its feed remembers: what we have is read again, and the watermark is not stuck for ever."""
    swept = NOW - timedelta(days=45)

    found = chosen(swept, kind(Listing.NONE))

    assert (found.outrun, found.reread, found.crawl) == (True, True, False)
    assert found.closes_at(swept)


@pytest.mark.parametrize("within", [1, 2, 7, 30])
def test_everything_has_its_turn(within: int) -> None:
    """All places are compared once in so many nights, each night has its share, and missed nights are made up for."""
    since = dict.fromkeys(range(60), NOW)
    shares = []
    for step in range(1, 2 * within + 1):
        tonight = NOW + timedelta(days=step)
        turn = [each for each in since if is_due(since[each], tonight, place=each, nights=within)]
        shares.append(len(turn))
        since |= dict.fromkeys(turn, tonight)
        assert not any(is_due(since[each], tonight, place=each, nights=within) for each in since)

    assert sum(shares) == 2 * 60
    assert max(shares) - min(shares) <= 1
    late = NOW + timedelta(days=3 * within)
    assert all(is_due(since[each], late, place=each, nights=within) for each in since)


@pytest.mark.parametrize(("hours", "expected"), [(7 * 24, 7), (24, 1), (1, 1), (40, 2)])
def test_nights(hours: int, expected: int) -> None:
    """A week has seven nights, and less than a day is every night."""
    assert nights(timedelta(hours=hours)) == expected


@pytest.mark.parametrize(
    ("made", "swept", "closes"),
    [
        (Window(NOW - DAY, crawl=False), NOW - timedelta(hours=1), True),
        (Window(NOW - DAY, crawl=False), NOW - DAY, True),
        (Window(NOW - DAY, crawl=False), NOW - DAY - timedelta(seconds=1), False),
        (Window(NOW - DAY, crawl=False), None, False),
        (Window(None, crawl=True), None, True),
    ],
)
def test_when_a_watermark_may_move(made: Window, swept: datetime | None, *, closes: bool) -> None:
    """Only where nothing before the window is left out: it began by the watermark, or everything was listed."""
    assert made.closes_at(swept) is closes


@pytest.mark.parametrize(
    ("due", "among", "nights", "waiting"),
    [(0, 7, 7, 0), (2, 7, 7, 0), (7, 7, 7, 5), (4200, 4200, 7, 3000), (1200, 4200, 7, 0), (10, 10, 1, 0)],
)
def test_how_many_missed_turns_wait(due: int, among: int, nights: int, waiting: int) -> None:
    """Twice a night's share has its turn at most, those whose turn was longest ago; the rest waits."""
    places = {Place("s", str(number), "issue"): NOW + timedelta(seconds=number) for number in range(due)}

    assert put_off(places, among=among, nights=nights) == set(list(places)[due - waiting :])
