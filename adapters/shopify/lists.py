"""How the objects of each kind are listed: what changed, all there are, what history says is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from adapters.shopify import documents, webhooks
from adapters.shopify.calls import TooDear
from adapters.shopify.rows import Walk
from adapters.shopify.shapes import after as place_of
from adapters.shopify.shapes import cut, floor, id_of, nodes, onward, shown, updated_since, written
from reconciler import content
from reconciler.adapter import patiently
from reconciler.errors import SourceUnavailable
from reconciler.model import Hint, ObjectRef, Page, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.shopify.bulk import Bulk
    from adapters.shopify.calls import Answered, Calls
    from adapters.shopify.documents import Documents
    from adapters.shopify.rows import Row
    from reconciler.model import Body

_CONNECTION: Final = 20_000  # objects after which a list is begun anew: Shopify ends it at 25,000
_SMALL_PAGE: Final = 100
_PARTS_PAGE: Final = 50
_SECOND: Final = timedelta(seconds=1)
_ORDER: Final = "Order"

Listed: TypeAlias = "Iterator[tuple[list[Body], datetime]]"
"""Pages of what a list shows, each with the provider's time of it."""


class Lists:
    """The lists of one shop."""

    def __init__(self, calls: Calls, asked: Documents, bulk: Bulk, *, source: str) -> None:
        self._calls, self._documents, self._bulk, self._source = calls, asked, bulk, source
        self._changes: Mapping[Walk, Callable[[Row, datetime], Listed]] = {
            Walk.STAMP: self._by_stamp,
            Walk.ID: lambda row, since: self.by_id(row, updated_since(since)),
            Walk.WHOLE: lambda row, _: self.by_id(row, ""),
            Walk.LEVELS: self._at_locations,
            Walk.ALONE: lambda row, _: self._alone(row),
        }
        self._all: Mapping[Walk, Callable[[Row, str], Listed]] = {
            Walk.STAMP: self.by_id,
            Walk.ID: self.by_id,
            Walk.WHOLE: self.by_id,
            Walk.LEVELS: lambda row, _: self._at_items(row),
            Walk.ALONE: lambda row, _: self._alone(row),
        }

    def changed(self, row: Row, since: datetime) -> Iterator[Page]:
        """Yield what was updated since *since*, inclusive, and hints of what the shop's history says was deleted."""
        for found, observed_at in self._changes[row.walk](row, since):
            if row.walk in _SEARCHED and any((_moved(row, node) or since) < floor(since) for node in found):
                raise SourceUnavailable(f"{self._source}: {row.list} shows what did not change since then")
            yield self.page(row, found, observed_at)
        if row.destroyed:
            yield from self._destroyed(row, since)

    def every(self, row: Row, begins: datetime | None) -> Iterator[Page]:
        """Yield all there are; of what has an age, those made since *begins*. Of very many, a bulk operation tells."""
        begins = begins if row.walk in _AGED else None
        search = "" if begins is None or not row.created else f"{row.created}:>='{written(begins)}'"
        pages = self._all[row.walk](row, search)
        for found, observed_at in pages:
            yield self.page(row, found, observed_at, begins=begins)
            in_bulk = self._bulk.every(row, search) if len(found) >= row.kind.page else None
            if in_bulk is not None:
                yield from self._others(row, found, in_bulk, observed_at, begins=begins)
                return
            break
        for found, observed_at in pages:
            yield self.page(row, found, observed_at, begins=begins)

    def _others(
        self,
        row: Row,
        listed: Sequence[Body],
        in_bulk: Iterator[list[Body]],
        observed_at: datetime,
        *,
        begins: datetime | None,
    ) -> Iterator[Page]:
        """Yield what a bulk operation shows besides what was *listed* before it began."""
        seen = {node.get("id") for node in listed}
        for found in in_bulk:
            others = [body for body in found if body.get("id") not in seen]
            yield replace(self.page(row, others, observed_at, begins=begins), since_begun=True)

    def price(self, row: Row, objects: int) -> int | None:
        """Return how many calls it takes to list so many *objects*; None: as many as there are pages."""
        return self._bulk.price(row, objects)

    def by_id(self, row: Row, search: str) -> Listed:
        """Yield the pages of what *search* finds, by id: each asks for what is beyond the last."""
        beyond = 0
        pages = _Pages(self._calls, row.list, self._documents.many(row, sort="ID"), size=row.kind.page, more=_more(row))
        while True:
            answered = pages.ask(" AND ".join(part for part in (search, f"id:>{beyond}") if part), None)
            found, after = pages.read(answered, None)
            yield found, answered.observed_at
            if after is None:
                return
            numbers = [int(webhooks.number_of(node.get("id"), row.holders) or 0) for node in found]
            if numbers != sorted(numbers) or max(numbers, default=0) <= beyond:
                raise SourceUnavailable(f"{self._source}: {row.list} does not move on after {beyond}")
            beyond = max(numbers)

    def page(self, row: Row, found: Sequence[Body], observed_at: datetime, *, begins: datetime | None = None) -> Page:
        """Return what a page of the list shows: whole objects, and hints of those whose own lists go on."""
        snapshots: list[Snapshot] = []
        hints: list[Hint] = []
        for body, locator in _listed(row, found):
            id_ = id_of(row, body)
            if id_ is None:
                raise SourceUnavailable(f"{self._source}: {row.list} shows something else")
            if begins is not None and (_made(body) or begins) < begins:
                continue
            ref, stamp = ObjectRef(self._source, "", row.kind.name, id_), webhooks.stamp_of(row, body)
            if cut(row, body):
                hints.append(Hint(ref, stamp=stamp, locator=locator))
            else:
                snapshots.append(shown(row, Snapshot(ref, body, stamp, observed_at, locator=locator)))
        return Page(tuple(snapshots), tuple(hints))

    def _by_stamp(self, row: Row, since: datetime) -> Listed:
        """Yield the pages of what was updated since *since*, oldest change first."""
        begins, after, listed = floor(since), None, 0
        last = begins
        document = self._documents.many(row, sort="UPDATED_AT")
        pages = _Pages(self._calls, row.list, document, size=row.kind.page, more=_more(row))
        while True:
            answered = pages.ask(updated_since(begins), after)
            found, after = pages.read(answered, after)
            yield found, answered.observed_at
            if after is None:
                return
            listed += len(found)
            last = max([last, *(stamp for node in found if (stamp := _moved(row, node)))])
            if listed < _CONNECTION:
                continue
            if last == begins:
                yield from self.by_id(row, f"{updated_since(begins)} AND updated_at:<'{written(begins + _SECOND)}'")
                last += _SECOND
            begins, after, listed = last, None, 0

    def _alone(self, row: Row) -> Listed:
        answered = patiently(lambda: self._calls.ask(row.kind.fetch, self._documents.one(row)))
        found = answered.data.get(row.root)
        if not isinstance(found, dict):
            raise SourceUnavailable(f"{self._source}: the answer shows no {row.root}")
        yield [found], answered.observed_at

    def _at_items(self, row: Row) -> Listed:
        """Yield the levels of each item: no item can be passed over, however many there are."""
        document = self._documents.levels(row, of="inventoryItem")
        for things, observed_at in self.by_id(row, ""):
            levels: list[Body] = []
            for thing in things:
                levels += nodes(thing.get(row.inside))
                pages = _Pages(self._calls, "inventoryItem.inventoryLevels", document, size=_PARTS_PAGE, of=thing["id"])
                for rest, _ in pages.on(None, place_of(thing.get(row.inside))):
                    levels += rest
            yield levels, observed_at

    def _at_locations(self, row: Row, since: datetime) -> Listed:
        """Yield the levels that moved at each location; all there are, where one has more than a list may show."""
        document = self._documents.levels(row, of="location")
        for location in self._locations():
            listed = 0
            pages = _Pages(self._calls, "location.inventoryLevels", document, size=_SMALL_PAGE, of=location)
            for found, observed_at in pages.on(updated_since(since), ""):
                yield found, observed_at
                listed += len(found)
                if listed >= _CONNECTION:
                    # They have no order in which the list could be gone on with.
                    yield from self._at_items(row)
                    return

    def _locations(self) -> Iterator[str]:
        pages = _Pages(self._calls, "locations", documents.LOCATIONS, size=_SMALL_PAGE)
        for found, _ in pages.on(None, ""):
            yield from (str(each["id"]) for each in found)

    def _destroyed(self, row: Row, since: datetime) -> Iterator[Page]:
        """Yield hints of the objects that the shop's history says were deleted since *since*."""
        subjects = " OR ".join(f"subject_type:{each}" for each in row.destroyed)
        subjects = f"({subjects})" if len(row.destroyed) > 1 else subjects
        begins: datetime | None = since
        while begins is not None:
            search = f"action:destroy AND {subjects} AND created_at:>='{written(begins)}'"
            last, listed, begins = floor(begins), 0, None
            for told, _ in _Pages(self._calls, "events", documents.DESTROYED, size=_SMALL_PAGE).on(search, ""):
                yield Page(hints=tuple(self._told(row, told)))
                listed += len(told)
                newest = max((at for each in told if (at := webhooks.instant(each.get("createdAt")))), default=last)
                if listed >= _CONNECTION:
                    begins = self._later(newest, last)
                    break

    def _later(self, newest: datetime, last: datetime) -> datetime:
        """Return where history is begun anew; raises where that would lead nowhere."""
        if newest <= last:
            raise SourceUnavailable(f"{self._source}: history tells of more in one second than a list may show")
        return newest

    def _told(self, row: Row, history: Sequence[Body]) -> Iterator[Hint]:
        for event in history:
            number = webhooks.number_of(event.get("subjectId"), row.types)
            if number is not None and event.get("action") == "destroy":
                ref = ObjectRef(self._source, "", row.kind.name, number)
                locator = {webhooks.DELETED: str(event.get("id"))}
                yield Hint(ref, changed_at=webhooks.instant(event.get("createdAt")), locator=locator)


_SEARCHED: Final = frozenset({Walk.STAMP, Walk.ID, Walk.LEVELS})  # by when they changed
_AGED: Final = frozenset({Walk.STAMP, Walk.ID})  # what stands still is not history


class _Pages:
    """
    Pages of one list, in the answers to *document*.

    Attributes:
        of: The gid of what the list is one's own of; None: it stands by itself.
    """

    def __init__(
        self,
        calls: Calls,
        operation: str,
        document: str,
        *,
        size: int,
        more: Mapping[str, object] | None = None,
        of: str | None = None,
    ) -> None:
        self._calls, self._operation, self._document = calls, operation, document
        self._size, self._more = size, dict(more or {}) | ({} if of is None else {"id": of})

    def on(self, search: str | None, after: str | None) -> Listed:
        """Yield the pages from *after* on: from the first, where that is empty, and none, where it is None."""
        while after is not None:
            answered = self.ask(search, after or None)
            if content.find(answered.data, f"/{self._operation.partition('.')[0]}") is None:
                return  # what the list was one's own of is gone, and so is the list
            found, after = self.read(answered, after)
            yield found, answered.observed_at

    def ask(self, search: str | None, after: str | None) -> Answered:
        """Return a page, of half the size from now on where one would be too dear."""
        while True:
            variables = {**({} if search is None else {"query": search}), "first": self._size, "after": after}
            try:
                return patiently(lambda: self._calls.ask(self._operation, self._document, variables | self._more))  # noqa: B023 - called at once
            except TooDear:
                if self._size == 1:
                    raise
                self._size //= 2

    def read(self, answered: Answered, after: str | None) -> tuple[list[Body], str | None]:
        """Return the objects of a page, and where the next begins; None: nowhere."""
        found = content.find(answered.data, f"/{self._operation.replace('.', '/')}")
        return nodes(found), onward(self._operation, after, found)


def _more(row: Row) -> dict[str, object]:
    """Return the variable that only kinds with lists of their own use."""
    return {"parts": row.listed} if row.parts or row.walk is Walk.LEVELS else {}


def _moved(row: Row, node: Body) -> datetime | None:
    """Return when what a list shows changed last: the order that holds a refund, else the object."""
    return webhooks.instant(node.get("updatedAt")) if row.holder == _ORDER else webhooks.stamp_of(row, node)


def _made(body: Body) -> datetime | None:
    return webhooks.instant(body.get("createdAt") or content.find(body, "/discount/createdAt"))


def _listed(row: Row, found: Sequence[Body]) -> Iterator[tuple[Body, Body | None]]:
    """Yield each object that a list shows, with its locator."""
    for node in found:
        if row.holder != _ORDER:
            yield node, None
            continue
        inner = node.get(row.inside)
        if not isinstance(inner, list) or not all(isinstance(each, dict) for each in inner):
            raise SourceUnavailable(f"{row.list}: an object shows no {row.inside}")
        order = webhooks.number_of(node.get("id"), row.holders)
        yield from ((each, {webhooks.ORDER: order}) for each in inner)
