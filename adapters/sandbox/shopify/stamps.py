"""Times as Shopify writes them: in UTC and whole seconds in the Admin API, with the shop's offset in webhooks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def stamp(moment: float) -> str:
    """Write *moment* (seconds since 1970) as the Admin API does."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """Return the instant that *text* names."""
    return datetime.fromisoformat(text)


def local(text: str | None, zone: ZoneInfo) -> str | None:
    """Write the Admin API's *text* as bodies of webhooks do."""
    return None if text is None else moment(text).astimezone(zone).isoformat()


def precise(at: float) -> str:
    """Write *at* (seconds since 1970) as the headers of webhooks do."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
