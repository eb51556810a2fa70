"""
Marks: what tells a page of a listing that did not change since (ETags), kept with the watermark.

They are handed out only inside `handed_out`: where rows are to be compared, every page has to be seen.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler import content
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy import Connection

    from reconciler.model import Body
    from reconciler.store.database import Database


class Marks:
    """The marks of one source, as its adapter asks for them."""

    def __init__(self, database: Database, source: str, *, shape: Callable[[str], str]) -> None:
        """Ask nothing yet; *shape* returns what a kind's rows are of now: marks of another shape count for nothing."""
        self._database = database
        self._source = source
        self._shape = shape
        self._thread = threading.local()

    def __call__(self, kind: str, scope: str) -> Mapping[str, Body]:
        """Return the marks of every page of the last complete listing, by address; empty: none counts."""
        if not getattr(self._thread, "handing", False):
            return {}
        asked = {"source": self._source, "scope": scope, "kind": kind, "shape": self._shape(kind)}
        with self._database.transaction() as connection:
            found = statements.rows(connection, "marks", asked)
        return {row.address: content.parse(row.mark) for row in found}

    @contextmanager
    def handed_out(self) -> Iterator[None]:
        """Let the calls that this thread makes in the block leave out pages that did not change."""
        self._thread.handing = True
        try:
            yield
        finally:
            self._thread.handing = False


def keep(connection: Connection, source: str, scope: str, kind: str, *, shape: str, marks: Mapping[str, Body]) -> None:
    """Keep the marks of a complete listing instead of those of the one before, with the watermark it moves."""
    key = {"source": source, "scope": scope, "kind": kind}
    statements.run(connection, "forget_marks", key)
    if marks:
        told = {"address": list(marks), "mark": [content.dumps(mark) for mark in marks.values()], "shape": shape}
        statements.run(connection, "keep_marks", key | told)
