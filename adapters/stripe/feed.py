"""What the feed of events tells, read once for all kinds of a scope that are asked for together."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from adapters.stripe import events
from adapters.stripe.kinds import FEED_HISTORY
from reconciler.errors import SourceError, SourceRefused
from reconciler.model import Hint, Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.stripe.calls import Calls
    from adapters.stripe.kinds import Row
    from adapters.stripe.listing import Lists
    from reconciler.model import Body

_TYPES_A_CALL: Final = 20

_Told: TypeAlias = "Mapping[str, Sequence[Hint]]"
"""What one page of the feed tells, by kind."""


class Feed:
    """
    The change feeds of the *rows* that one pass is about.

    The feed of a scope is read as far as somebody asks, and kept: a kind that asks later costs no call. So it is good
    for that pass only, and for one thread at a time.
    """

    def __init__(self, calls: Calls, lists: Lists, rows: Mapping[str, Row], source: str) -> None:
        self._calls, self._lists, self._rows, self._source = calls, lists, rows, source
        self._read: dict[str, _Read] = {}

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        """
        Yield hints from the events since *since*, inclusive, and where events tell too little, what was created since.

        Raises `SourceRefused` where *since* is further back than events go: Stripe would silently show less.
        """
        row, least = self._rows[kind], int(since.timestamp() // 1)
        if row.topics:
            if since < self._calls.now() - FEED_HISTORY:
                raise SourceRefused(
                    f"{self._source}: events go {FEED_HISTORY.days} days back, not to {since:%Y-%m-%d}: crawl"
                )
            yield from self._told(kind, scope, least)
        if row.recent:
            yield from self._lists.recent(row, scope, least=least)

    def _told(self, kind: str, scope: str, least: int) -> Iterator[Page]:
        try:
            read = self._reading(scope, least)
            for told in read.pages():
                hints = told.get(kind, ())
                yield Page(hints=tuple(each for each in hints if read.least == least or _is_since(each, least)))
        except SourceError:
            # What broke off cannot be gone on with; whoever asks next begins anew.
            self._read.pop(scope, None)
            raise

    def _reading(self, scope: str, least: int) -> _Read:
        read = self._read.get(scope)
        if read is None:
            read = self._read[scope] = _Read(least, self._pages(scope, {"gte": least}))
        elif least < read.least:
            read.reach_back(least, self._pages(scope, {"gte": least, "lt": read.least}))
        return read

    def _pages(self, scope: str, created: Mapping[str, int]) -> Iterator[_Told]:
        types = list(dict.fromkeys(topic for row in self._rows.values() for topic in row.topics))
        # One list of everything costs less than several of some types each, and no event is on two of its pages.
        only = {"types": types} if len(types) <= _TYPES_A_CALL else {}
        for page, _ in self._calls.pages("/v1/events", {"created": created, **only}, account=scope):
            yield self._hints(page, scope)

    def _hints(self, page: Sequence[Body], scope: str) -> _Told:
        told: dict[str, list[Hint]] = {}
        for event in page:
            changed_at = events.instant(event.get("created"))
            for named in events.named(event, self._rows, self._source, scope=scope):
                hint = Hint(named.ref, events.id_of(event), events.type_of(event), changed_at, named.stamp)
                told.setdefault(named.ref.kind, []).append(hint)
        return told


class _Read:
    """
    As much of the feed of one scope as has been read.

    Attributes:
        least: The second from which on it is read.
    """

    def __init__(self, least: int, rest: Iterator[_Told]) -> None:
        self.least = least
        self._pages: list[_Told] = []
        self._rest = rest

    def reach_back(self, least: int, older: Iterator[_Told]) -> None:
        """Let *older* events follow what there is."""
        self.least, self._rest = least, chain(self._rest, older)

    def pages(self) -> Iterator[_Told]:
        """Yield every page, the first ones from memory."""
        at = 0
        while at < len(self._pages) or self._has_more():
            yield self._pages[at]
            at += 1

    def _has_more(self) -> bool:
        page = next(self._rest, None)
        if page is None:
            return False
        self._pages.append(page)
        return True


def _is_since(hint: Hint, least: int) -> bool:
    return hint.changed_at is None or hint.changed_at.timestamp() >= least
