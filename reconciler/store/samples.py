"""A few objects of a kind, for whoever wants to see what such objects are like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler import content
from reconciler.model import ObjectRef
from reconciler.store import statements

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reconciler.model import Body


@dataclass(frozen=True, slots=True)
class Sample:
    """One object, and what a fetch of it has to know besides the id."""

    ref: ObjectRef
    locator: Body | None


def newest(connection: Connection, source: str, kind: str, *, limit: int) -> list[Sample]:
    """Return the objects of *kind* whose rows were written last."""
    asked = {"source": source, "kind": kind, "limit": limit}
    return [
        Sample(ObjectRef(source, row.scope, kind, row.id), None if row.locator is None else content.parse(row.locator))
        for row in statements.rows(connection, "newest_rows", asked)
    ]
