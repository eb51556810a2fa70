"""From when on a kind is to be listed, and whether all of it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reconciler.adapter import Listing

if TYPE_CHECKING:
    from reconciler.adapter import Kind
    from reconciler.sweep.asked import Asked

DAY = timedelta(hours=24)
_EDGE = timedelta(minutes=5)  # how far inside its history a feed is asked, for clocks that differ


@dataclass(frozen=True, slots=True)
class Window:
    """
    How one kind is to be listed.

    Attributes:
        since: Its feed from here on; None: not the feed.
        crawl: Every object.
        note: What the reader of the report should know.
    """

    since: datetime | None
    crawl: bool
    note: str | None = None

    def closes_at(self, swept: datetime | None) -> bool:
        """Say whether nothing before this window is left out, so that the watermark may move."""
        return self.crawl or (swept is not None and self.since is not None and self.since <= swept)


def window(asked: Asked, kind: Kind, *, swept: datetime | None, now: datetime, overlap: timedelta) -> Window:
    """
    Return how *kind*, whose watermark is *swept*, is to be listed.

    From the watermark less the overlap, at least a day back (a light pass: the overlap only); whole when it was never
    swept, or as `full` asks. A feed that does not reach back that far is used as far as it does, and everything is
    listed besides.
    """
    given = asked.since if isinstance(asked.since, datetime) else None
    listable = kind.list is not Listing.NONE
    if asked.full:
        return Window(_within(kind, given, now) if listable else given or now - DAY, crawl=listable)
    if given is None and swept is None:
        return Window(None if listable else now - DAY, crawl=listable, note="never swept: listed whole")
    note = "never fully swept" if swept is None else None
    since = given if given is not None or swept is None else _from(swept - overlap, now, light=asked.light)
    if since is not None and kind.feed_history is not None and since < now - kind.feed_history:
        note = f"the feed reaches back {kind.feed_history.days} days only: everything is listed"
        return Window(_within(kind, since, now), crawl=listable, note=note)
    return Window(since, crawl=False, note=note)


def _from(since: datetime, now: datetime, *, light: bool) -> datetime:
    return since if light else min(since, now - DAY)


def _within(kind: Kind, since: datetime | None, now: datetime) -> datetime | None:
    if since is None or kind.feed_history is None:
        return since
    return max(since, now - kind.feed_history + _EDGE)
