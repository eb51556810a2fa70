"""From when on a kind is to be listed, and whether all of it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from reconciler.adapter import Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.adapter import Kind
    from reconciler.store.shares import Place
    from reconciler.sweep.asked import Asked

DAY = timedelta(hours=24)
_EDGE = timedelta(minutes=5)  # how far inside its history a feed is asked, for clocks that differ


@dataclass(frozen=True, slots=True)
class Window:
    """
    How one kind is to be listed.

    Attributes:
        since: Its feed from here on; None: not the feed.
        crawl: Every object that its source has; what of ours is not among them is read.
        note: What the reader of the report should know.
        reread: Every object that we have, where no call lists them.
        outrun: The feed does not reach back to where the kind was swept.
    """

    since: datetime | None
    crawl: bool
    note: str | None = None
    reread: bool = False
    outrun: bool = False

    def closes_at(self, swept: datetime | None) -> bool:
        """Say whether nothing before this window is left out, so that the watermark may move."""
        return self.whole or (swept is not None and self.since is not None and self.since <= swept)

    @property
    def whole(self) -> bool:
        """Whether everything is compared that any call can show."""
        return self.crawl or self.reread


def window(
    asked: Asked, kind: Kind, *, swept: datetime | None, now: datetime, overlap: timedelta, turn: bool = False
) -> Window:
    """
    Return how *kind*, whose watermark is *swept*, is to be listed.

    From the watermark less the overlap, at least a day back (a light pass: the overlap only); whole when it was never
    swept, or as `full` or its *turn* asks. A feed that does not reach back that far is used as far as it does, and
    everything is compared besides.
    """
    given = asked.since if isinstance(asked.since, datetime) else None
    listable = kind.list is not Listing.NONE
    if asked.full:
        since = _within(kind, given, now) if listable else given or _furthest(kind, now)
        return Window(since, crawl=listable, reread=not listable)
    if given is None and swept is None:
        if listable:
            return Window(None, crawl=True, note="never swept: listed whole")
        furthest = _furthest(kind, now)
        days = round((now - furthest) / DAY)
        return Window(furthest, crawl=False, note=f"never swept, not listable: followed {days} days back", reread=True)
    note = "never fully swept" if swept is None else None
    since = given if given is not None or swept is None else _from(swept - overlap, now, light=asked.light)
    if since is not None and kind.feed_history is not None and since < now - kind.feed_history:
        note = f"the feed reaches back {kind.feed_history.days} days only: everything is compared"
        outrun = given is None
        return Window(_within(kind, since, now), crawl=listable, note=note, reread=not listable, outrun=outrun)
    return Window(since, crawl=turn and listable, note=note)


def nights(every: timedelta) -> int:
    """Return in how many nights everything has its turn."""
    return max(1, round(every / DAY))


def is_due(since: datetime, now: datetime, *, place: int, nights: int) -> bool:
    """Say whether the night of the *place*th of all that take turns has come since it was compared last."""
    today = now.toordinal()
    latest = today - (today - place) % nights
    return latest > since.toordinal()


def put_off(due: Mapping[Place, datetime], *, among: int, nights: int) -> set[Place]:
    """
    Return which of the places that are due wait for the next nights, given when each of them last had its turn.

    Of *among* so many twice a night's share have their turn, those first that had it longest ago: what was missed while
    nobody swept does not come all in one night.
    """
    most = 2 * -(-among // nights)
    return set(sorted(due, key=lambda place: (due[place], place.key["scope"], place.key["kind"]))[most:])


def _from(since: datetime, now: datetime, *, light: bool) -> datetime:
    return since if light else min(since, now - DAY)


def _within(kind: Kind, since: datetime | None, now: datetime) -> datetime | None:
    if since is None or kind.feed_history is None:
        return since
    return max(since, now - kind.feed_history + _EDGE)


def _furthest(kind: Kind, now: datetime) -> datetime:
    """Return how far back to follow what no call lists: as far as the feed reaches, a day where that has no end."""
    return now - DAY if kind.feed_history is None else now - kind.feed_history + _EDGE
