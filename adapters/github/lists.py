"""Lists by page: followed to their end, marked so that unchanged pages are free, looked at again where they move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from adapters.github.calls import PAGE, instant
from reconciler.errors import SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from adapters.github.calls import Calls, Listed
    from reconciler.model import Body

_WALKS: Final = 3  # how often a list that moves is begun before it is left for later
_SHOWN: Final = 1000  # results of a search, however many there are


@dataclass(frozen=True, slots=True)
class Shelf:
    """
    One list of GitHub's.

    Attributes:
        operation: Its name in budgets.
        target: Where it begins.
        parameters: Of its first page; links hold those of the next ones.
    """

    operation: str
    target: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Marked:
    """
    One page, and the mark by which it is known when it is listed again.

    Attributes:
        at: Its address.
        mark: Its ETag, where the next page is, and what else the walk must know of a page that it does not see.
    """

    at: str
    listed: Listed
    mark: Body


class Lists:
    """Walks over the lists of one source."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def since(self, shelf: Shelf, since: datetime | None, stamp: Callable[[Body], datetime | None]) -> Iterator[Listed]:
        """
        Yield a list that is sorted by change and can begin at a stamp, each page from the last stamp on.

        So no page number can shift; only where a page holds one stamp alone is its link followed, and the page before
        looked at again after each: what slid there meanwhile is on neither else. Repeats itself.
        """
        target, parameters, passed = shelf.target, first(shelf, since), set[str]()
        behind: Marked | None = None
        while True:
            at, listed = _address(target, parameters), self._calls.page(shelf.operation, target, parameters)
            yield listed
            if behind is not None:
                yield self._calls.page(shelf.operation, behind.at, etag=behind.listed.etag)
            if not listed.further:
                return
            reached = _reached(listed, stamp)
            if reached is not None and (since is None or reached > since):
                since, passed, behind = reached, set(), None
                target, parameters = shelf.target, first(shelf, since)
            else:
                behind = Marked(at, listed, {})
                target, parameters = listed.further, {}
                _move_on(shelf, target, passed)

    def latest(
        self, shelf: Shelf, since: datetime, stamp: Callable[[Body], datetime | None], known: Mapping[str, Body]
    ) -> Iterator[Marked]:
        """
        Yield a list that is sorted by change, latest first, until a page shows something older than *since*.

        What changes meanwhile moves to pages that were shown: it is in the next window. A mark counts for windows that
        begin no earlier than the one it was made in, which showed nothing older.
        """
        for page in self.marked(shelf, counting(known, since)):
            if not page.listed.unchanged:
                stamps = [found for body in page.listed.objects if (found := stamp(body)) is not None]
                page.mark.update(since=iso(since), oldest=iso(min(stamps)) if stamps else None)
            shown = [body for body in page.listed.objects if (found := stamp(body)) is None or found >= since]
            yield replace(page, listed=replace(page.listed, objects=shown))
            oldest = instant(page.mark.get("oldest"))
            if oldest is not None and oldest < since:
                return

    def marked(self, shelf: Shelf, known: Mapping[str, Body]) -> Iterator[Marked]:
        """Yield each page of a list; one that still is as its mark says shows nothing."""
        target, parameters, passed = shelf.target, first(shelf), set[str]()
        while target:
            at = _address(target, parameters)
            mark = dict(known.get(at, {}))
            listed = self._calls.page(shelf.operation, target, parameters, etag=mark.get("etag", ""))
            if not listed.unchanged:
                mark = {"etag": listed.etag, "further": listed.further}
            yield Marked(at, listed, mark)
            target, parameters = mark.get("further", ""), {}
            _move_on(shelf, target, passed)

    def settled(self, shelf: Shelf) -> Iterator[Listed]:
        """Yield every page of a list by page number; again from the start where they moved, and raise in the end."""
        for _ in range(_WALKS):
            pages: list[Marked] = []
            for page in self.marked(shelf, {}):
                pages.append(page)
                yield page.listed
            if all(self._stands(shelf, page) for page in pages[:-1]):
                return
        raise SourceUnavailable(f"{shelf.operation}: the pages moved each time")

    def created(self, shelf: Shelf, since: datetime, until: datetime) -> Iterator[Listed]:
        """
        Yield a search for what was made in a time; one that has more results than are shown is cut in two.

        Raises where a single second has more than that.
        """
        spans = [(since, until)]
        while spans:
            begins, ends = spans.pop()
            span = {"created": f"{iso(begins)}..{iso(ends)}"}
            pages = self.settled(replace(shelf, parameters={**shelf.parameters, **span}))
            first_page = next(pages)
            if (first_page.total or 0) <= _SHOWN:
                yield first_page
                yield from pages
            elif ends - begins < timedelta(seconds=1):
                raise SourceUnavailable(f"{shelf.operation}: more than {_SHOWN} of one second, {iso(begins)}")
            else:
                middle = begins + (ends - begins) / 2
                spans += [(begins, middle), (middle, ends)]

    def _stands(self, shelf: Shelf, before: Marked) -> bool:
        """Say whether a page still shows the same objects."""
        now = self._calls.page(shelf.operation, before.at, etag=before.listed.etag)
        return now.unchanged or _ids(now) == _ids(before.listed)


def first(shelf: Shelf, since: datetime | None = None) -> dict[str, str]:
    """Return the parameters of a first page."""
    return {**shelf.parameters, "per_page": str(PAGE)} | ({} if since is None else {"since": iso(since)})


def iso(instant: datetime) -> str:
    """Return a time as GitHub writes it."""
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def counting(known: Mapping[str, Body], since: datetime) -> dict[str, Body]:
    """Return the marks that were made in windows beginning no later than *since*: nothing was left out there."""
    began = {at: instant(mark.get("since")) for at, mark in known.items()}
    return {at: known[at] for at, then in began.items() if then is not None and then <= since}


def _reached(listed: Listed, stamp: Callable[[Body], datetime | None]) -> datetime | None:
    """Return up to when a page has shown everything; None where its order does not tell."""
    stamps = [found for body in listed.objects if (found := stamp(body)) is not None]
    return stamps[-1] if stamps and stamps == sorted(stamps) else None


def _ids(listed: Listed) -> list[object]:
    return [each.get("id") for each in listed.objects]


def _move_on(shelf: Shelf, target: str, passed: set[str]) -> None:
    """Remember that *target* is next; raises where it was before, for the list would never end."""
    if target in passed:
        raise SourceUnavailable(f"{shelf.operation}: the list does not move on")
    passed.add(target)


def _address(target: str, parameters: Mapping[str, str]) -> str:
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"{target}?{query}" if query else target
