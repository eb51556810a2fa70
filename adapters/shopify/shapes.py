"""The forms of what answers hold: pages, places in lists, times in searches."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from adapters.shopify import webhooks
from reconciler import content
from reconciler.errors import SourceUnavailable

if TYPE_CHECKING:
    from datetime import datetime

    from adapters.shopify.rows import Part, Row
    from reconciler.model import JSON, Body, Snapshot


def id_of(row: Row, body: JSON) -> str | None:
    """Return the id of the object that *body* shows, as refs have it; None where it shows none of this kind."""
    if row.pair:
        types = {"item": "InventoryItem", "location": "Location"}
        numbers = [webhooks.number_of(content.find(body, f"/{name}/id"), {type_}) for name, type_ in types.items()]
        return ":".join(each or "" for each in numbers) if all(numbers) else None
    gid = content.find(body, "/id")
    return webhooks.number_of(gid, row.types) if isinstance(gid, str) else None


def cut(row: Row, body: Body) -> list[Part]:
    """Return the lists of *body* that go on elsewhere."""
    return [part for part in row.parts if after(body.get(part.field)) is not None]


def shown(row: Row, head: Snapshot) -> Snapshot:
    """Return *head* without the places in its lists, which are no part of the object."""
    body = dict(head.body or {})
    for part in row.parts:
        body[part.field] = {"nodes": nodes(body.get(part.field))}
    return replace(head, body=body)


def nodes(connection: JSON) -> list[Body]:
    """Return the objects of a page."""
    found = content.find(connection, "/nodes")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise SourceUnavailable("the answer holds no list where one was asked for")
    return found


def after(connection: JSON) -> str | None:
    """Return the cursor at which *connection* goes on; None: it is at its end."""
    more, cursor = (content.find(connection, f"/pageInfo/{name}") for name in ("hasNextPage", "endCursor"))
    if not isinstance(more, bool) or (more and not isinstance(cursor, str)):
        raise SourceUnavailable("a list does not say whether and where it goes on")
    return cursor if more else None


def onward(operation: str, before: str | None, connection: JSON) -> str | None:
    """Return where *connection* goes on, which must not be where it was."""
    following = after(connection)
    if following is not None and following == before:
        raise SourceUnavailable(f"{operation}: the list does not move on after {before!r}")
    return following


def number_in(body: Body, name: str) -> int:
    """Return a number that Shopify writes as a number or, where it may be large, as a text."""
    value = body.get(name)
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if not isinstance(value, int):
        raise SourceUnavailable(f"the answer holds no number {name}")
    return value


def floor(moment: datetime) -> datetime:
    """Return *moment* in UTC and whole seconds, as Shopify counts."""
    return moment.astimezone(UTC).replace(microsecond=0)


def written(moment: datetime) -> str:
    """Write *moment* as a search takes it, whatever its zone: UTC, whole seconds, `Z`."""
    return f"{floor(moment):%Y-%m-%dT%H:%M:%SZ}"


def updated_since(moment: datetime) -> str:
    """Return the search for what was updated at *moment* or later."""
    return f"updated_at:>='{written(moment)}'"
