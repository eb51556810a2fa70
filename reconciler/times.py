"""Durations and instants as people write them, and as our JSON shows them; aware UTC inside, always."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum

from reconciler.errors import ConfigError

_UNITS = {"w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>\d{{1,9}}(?:\.\d{{1,6}})?){unit})?" for unit in _UNITS), re.ASCII)

_SPELLED = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


class Last(Enum):
    """From each kind's own watermark, instead of from one time."""

    LAST = "last"


def duration(text: str) -> timedelta:
    """Return the span that *text* (`90m`, `1h30m`, `500ms`) spells; raises `ValueError` with the way out."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is no duration; write one like 10s, 90m, 24h, 7d or 1h30m")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for unit, number in found.groupdict("0").items()))
    except OverflowError:
        raise ValueError(f"{text!r} is longer than time can be counted; write a shorter duration") from None


def spell(span: timedelta) -> str:
    """Return *span* as `duration` reads it; what is less than a millisecond is lost."""
    left = span // timedelta(milliseconds=1)
    words = []
    for unit, milliseconds in _SPELLED.items():
        count, left = divmod(left, milliseconds)
        words += [f"{count}{unit}"] if count else []
    return "".join(words) or "0s"


def instant(text: str) -> datetime:
    """Return the instant that *text* (ISO 8601 with a zone) names, in UTC; raises `ValueError` with the way out."""
    try:
        named = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no ISO 8601 instant; write one like 2026-11-30T03:10:00Z") from None
    return in_utc(named)


def in_utc(named: datetime) -> datetime:
    """Return *named* in UTC; raises `ValueError` with the way out where it says no zone."""
    if named.utcoffset() is None:
        raise ValueError(f"'{named.isoformat()}' names no zone; end it with Z for UTC, or with an offset like +01:00")
    try:
        return named.astimezone(UTC)
    except OverflowError:
        raise ValueError(
            f"'{named.isoformat()}' is outside the years 1 to 9999 in UTC; write another instant"
        ) from None


def iso(moment: datetime) -> str:
    """Return *moment* as our JSON writes times, `2026-11-30T03:10:00.000000Z`; raises `ValueError` without a zone."""
    return in_utc(moment).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def parse_time(text: str, now: datetime) -> datetime:
    """Return the instant that a command-line time means: so long before *now*, or ISO 8601; raises `ConfigError`."""
    spans = _looks_like_a_duration(text)
    try:
        return now - duration(text) if spans else instant(text)
    except OverflowError:
        raise ConfigError(f"{text!r} reaches back before the year 1; write a shorter duration") from None
    except ValueError as error:
        raise ConfigError(f"{error}, or an instant like 2026-11-30T03:10:00Z" if spans else str(error)) from None


def parse_since(text: str, now: datetime) -> datetime | Last:
    """Return what `--since` means: `last`, a duration before *now* or an instant; raises `ConfigError`."""
    if text.strip() == Last.LAST.value:
        return Last.LAST
    since = parse_time(text, now)
    if since > now:
        raise ConfigError(f"{text!r} lies in the future (it is {iso(now)}); name a time that has passed")
    return since


def _looks_like_a_duration(text: str) -> bool:
    return re.search(r"[-:T+]", text) is None
