"""
Every object of a kind in one file: a bulk operation, which Shopify carries out by itself.

A shortcut, and no more: where an operation cannot be begun, does not end well or shows too little, nothing of it is
believed, and the kind is paged through. What it shows was read at some time between its beginning and its end.
"""

from __future__ import annotations

import time
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, TYPE_CHECKING, Final

import httpx

from adapters.shopify import documents
from adapters.shopify.counting import counted
from adapters.shopify.rows import Walk
from adapters.shopify.shapes import number_in
from reconciler import content
from reconciler.adapter import patiently
from reconciler.errors import SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adapters.shopify.calls import Calls
    from adapters.shopify.documents import Documents
    from adapters.shopify.rows import Row
    from reconciler.model import JSON, Body

ABOVE: Final = 5_000
"""Kinds with more objects are asked for in bulk: fewer are there sooner page by page."""

_CALLS: Final = 6  # a page, two counts, the beginning, a look and the result
_A_LOOK: Final = 2_500  # objects that an operation may have gone on by until it is looked at again [U]
_PAGE: Final = 250
_FETCH: Final = "GET bulk operation's result"
_WITHIN: Final = 4 * 3600.0  # seconds for an operation to end
_FETCHED_WITHIN: Final = 3600.0  # seconds for its result to come
_PATIENCE: Final = 20.0  # seconds until the next bytes of it
_PARENT: Final = b'"__parentId"'  # as a key; inside a text its quotes are escaped
_GOING_ON: Final = frozenset({"CREATED", "RUNNING"})
_WALKS: Final = frozenset({Walk.STAMP, Walk.ID})


class _NoResult(Exception):
    """The operation shows nothing that can be relied on."""


class Bulk:
    """The bulk operations of one shop; at most one at a time for each listing."""

    def __init__(
        self,
        calls: Calls,
        asked: Documents,
        *,
        source: str,
        above: int,
        pause: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Look every *pause* seconds how an operation stands; *above* is what `ABOVE` says."""
        self._calls, self._documents, self._source = calls, asked, source
        self._above, self._pause, self._sleep = above, pause, sleep

    def every(self, row: Row, search: str) -> Iterator[list[Body]] | None:
        """
        Return all objects that *search* finds (empty: all there are), once an operation has come to its end.

        An object whose own lists may be cut short says that they go on. None where paging through the list is better,
        or all that is left; raises a `SourceError` where the shop does not answer.
        """
        query = self._query(row, search)
        if query is None or (there := self._there(row)) <= self._above:
            return None
        try:
            ended = self._ended(self._begun(query))
            if not search and number_in(ended, "rootObjectCount") < min(there, self._there(row)):
                return None
            return self._read(row, ended, self._fetched(ended))
        except _NoResult:
            return None

    def price(self, row: Row, objects: int) -> int | None:
        """Return about how many calls so many *objects* of a kind take; None: page by page is how they are listed."""
        if objects <= self._above or self._query(row, "") is None:
            return None
        return _CALLS + objects // _A_LOOK

    def _query(self, row: Row, search: str) -> str | None:
        is_listed = row.walk in _WALKS and not row.inside and row.count
        return self._documents.bulk(row, search) if is_listed else None

    def _there(self, row: Row) -> int:
        count = patiently(lambda: counted(self._calls, row, begins=None))
        return 0 if count is None else count.objects

    def _begun(self, query: str) -> str:
        try:
            told = self._calls.ask("bulkOperationRunQuery", documents.RUN, {"query": query}).data
        except SourceRefused as error:
            raise _NoResult(str(error)) from None
        id_ = content.find(told, "/bulkOperationRunQuery/bulkOperation/id")
        if not isinstance(id_, str):
            raise _NoResult(content.dumps(content.find(told, "/bulkOperationRunQuery/userErrors")))
        return id_

    def _ended(self, id_: str) -> Body:
        """Return the operation once it is complete; one that takes too long is canceled."""
        until = monotonic() + _WITHIN
        while True:
            told = patiently(lambda: self._calls.ask("bulkOperation", documents.OPERATION, {"id": id_}))
            operation = told.data.get("bulkOperation")
            if not isinstance(operation, dict):
                raise _NoResult("there is no such operation")
            if operation["status"] == "COMPLETED":
                return operation
            if operation["status"] not in _GOING_ON:
                raise _NoResult(f"{operation['status']}: {operation['errorCode']}")
            if monotonic() > until:
                self._calls.ask("bulkOperationCancel", documents.CANCEL, {"id": id_})
                raise _NoResult("it took too long")
            self._sleep(self._pause)

    def _fetched(self, operation: Body) -> IO[bytes]:
        """Return the result, every byte of it, in a file that is gone once it is closed."""
        file = TemporaryFile()  # noqa: SIM115 - whoever reads it closes it
        try:
            if operation["url"] is not None:  # else it found nothing
                patiently(lambda: self._fetch(str(operation["url"]), file))
        except SourceUnavailable as error:
            file.close()
            raise _NoResult(str(error)) from None
        file.seek(0)
        return file

    def _fetch(self, url: str, file: IO[bytes]) -> None:
        """Write what is at *url* to *file*; it is not the shop's own address, and gets no token."""
        until = monotonic() + _FETCHED_WITHIN
        file.seek(0)
        file.truncate()
        try:
            with (
                self._calls.paid(_FETCH) as answered,
                httpx.stream("GET", url, timeout=_PATIENCE, trust_env=False, follow_redirects=False) as answer,
            ):
                answered(str(answer.status_code))
                if answer.status_code != 200:
                    raise SourceUnavailable(f"{_FETCH}: {answer.status_code}")
                for piece in answer.iter_bytes():
                    file.write(piece)
                    if monotonic() > until:
                        raise SourceUnavailable(f"{_FETCH}: it takes too long")
        except httpx.HTTPError as error:
            raise SourceUnavailable(f"{_FETCH}: {type(error).__name__}") from None

    def _read(self, row: Row, operation: Body, file: IO[bytes]) -> Iterator[list[Body]]:
        """Return the objects in *file*; raises `_NoResult` where some are missing."""
        lines = roots = 0
        for line in file:
            lines += 1
            roots += _PARENT not in line
        file.seek(0)
        if roots < number_in(operation, "rootObjectCount"):
            file.close()
            raise _NoResult("the result is cut short")
        # Of a list that was cut nothing says whose it was: whatever has lists is then read singly.
        return self._pages(row, file, whole=lines >= number_in(operation, "objectCount"))

    def _pages(self, row: Row, file: IO[bytes], *, whole: bool) -> Iterator[list[Body]]:
        page: list[Body] = []
        with file:
            for body in self._objects(row, file, whole=whole):
                page.append(body)
                if len(page) == _PAGE:
                    yield page
                    page = []
        yield page

    def _objects(self, row: Row, file: IO[bytes], *, whole: bool) -> Iterator[Body]:
        fields = {self._documents.type_of(part): part.field for part in row.parts}
        head: Body | None = None
        for line in file:
            shown = _parsed(line)
            parent = shown.pop("__parentId", None)
            if parent is None:
                if head is not None:
                    yield head
                head = shown | {field: _list(whole=whole) for field in fields.values()}
            elif head is None or head.get("id") != parent:
                raise SourceUnavailable(f"{self._source}: a bulk operation shows a part of what it does not show")
            else:
                head[_field(fields, shown)]["nodes"].append(shown)
        if head is not None:
            yield head


def _list(*, whole: bool) -> Body:
    return {"nodes": [], "pageInfo": {"hasNextPage": not whole, "endCursor": None if whole else "unknown"}}


def _field(fields: dict[str, str], part: Body) -> str:
    """Return which of an object's own lists holds *part*: its gid tells, where there are several."""
    if len(fields) == 1:
        return next(iter(fields.values()))
    type_ = str(part.get("id")).removeprefix("gid://shopify/").partition("/")[0]
    if type_ not in fields:
        raise SourceUnavailable(f"a bulk operation shows a {type_} where none was asked for")
    return fields[type_]


def _parsed(line: bytes) -> Body:
    try:
        shown: JSON = content.parse(line)
    except ValueError:
        shown = None
    if not isinstance(shown, dict):
        raise SourceUnavailable("a line of a bulk operation's result is no JSON object")
    return shown
