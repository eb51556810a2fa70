"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import times
from reconciler.errors import ConfigError

NOW = datetime(2026, 11, 30, 3, 10, tzinfo=UTC)
AWARE = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.timezones())  # noqa: DTZ001 - zones are drawn beside


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("24h", 86400),
        ("7d", 604800),
        ("2w", 1209600),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("0s", 0),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    """A duration is numbers with units, largest first."""
    assert times.duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "5M", "-5m", "30m1h", "5m5m", "1h 30m", "\u0665m", "999999999w"])
def test_duration_refused(text: str) -> None:
    """What is no duration is refused with an example of one."""
    with pytest.raises(ValueError, match="write"):
        times.duration(text)


@given(st.integers(min_value=0, max_value=10**12).map(lambda count: timedelta(milliseconds=count)))
def test_spell(span: timedelta) -> None:
    """A duration that is spelled reads as itself."""
    assert times.duration(times.spell(span)) == span


@given(AWARE)
def test_iso(moment: datetime) -> None:
    """A time in our JSON is 27 characters in UTC, and reads as the same instant."""
    written = times.iso(moment)

    assert len(written) == 27
    assert written.endswith("Z")
    # In UTC: a time of day that a zone skips equals no instant of another zone.
    assert times.instant(written) == moment.astimezone(UTC)


def test_iso_to_the_letter() -> None:
    """Microseconds are always there."""
    assert times.iso(NOW) == "2026-11-30T03:10:00.000000Z"


def test_iso_without_zone() -> None:
    """A time without a zone is refused, never taken for local time."""
    with pytest.raises(ValueError, match="names no zone"):
        times.iso(datetime(2026, 11, 30))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("last", times.Last.LAST),
        ("24h", NOW - timedelta(days=1)),
        ("2026-11-29T00:00:00Z", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29T01:00:00+01:00", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29 00:00Z", datetime(2026, 11, 29, tzinfo=UTC)),
    ],
)
def test_since(text: str, expected: datetime | times.Last) -> None:
    """`--since` takes `last`, a duration and an instant with a zone."""
    assert times.parse_since(text, NOW) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2026-11-29T00:00:00", "names no zone"),
        ("2026-11-29", "names no zone"),
        ("yesterday", r"is no duration; write one like .*, or an instant like 2026-11-30T03:10:00Z"),
        ("2026-13-01T00:00:00Z", "is no ISO 8601 instant"),
        ("2026-11-30T03:10:01Z", "lies in the future"),
        ("999999d", "reaches back before the year 1"),
        ("0001-01-01T00:00:00+10:00", "outside the years"),
    ],
)
def test_since_refused(text: str, sentence: str) -> None:
    """A `--since` that cannot be meant is refused, with what is wrong."""
    with pytest.raises(ConfigError, match=sentence):
        times.parse_since(text, NOW)


@given(st.text())
def test_since_of_anything(text: str) -> None:
    """Whatever is written there, the answer is a time in UTC, `last`, or a sentence."""
    try:
        since = times.parse_since(text, NOW)
    except ConfigError:
        return

    assert since is times.Last.LAST or since.tzinfo is UTC
