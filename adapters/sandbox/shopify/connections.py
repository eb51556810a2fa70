"""Connections: a page at a time, by cursors that hold the sort value and the id of where they stand."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from graphql import GraphQLError

from adapters.sandbox.shopify.bodies import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.sandbox.world import JSON, Body

Sort: TypeAlias = "Callable[[Body], str | int]"
Place: TypeAlias = "tuple[str | int, int]"

WHOLE = sys.maxsize
"""The ceiling of a list that is shown from its beginning to its end, whatever page is asked for."""

MOST = 250
"""The most objects of one page."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was asked of a connection; raises what Shopify says where that makes no sense."""

    count: int
    forward: bool
    cursor: str | None

    @classmethod
    def asked(cls, args: Mapping[str, JSON]) -> Page:
        """Return the page that *args* ask for."""
        first, last = args.get("first"), args.get("last")
        if (first is None) is (last is None):
            said = "you must provide one of first or last" if first is None else "providing both first and last"
            raise refused(said)
        name = "last" if first is None else "first"
        count = int(args[name])
        if count > MOST:
            raise refused(f"{name} cannot exceed {MOST}")
        if count < 0:
            raise refused(f"{name} cannot be negative")
        return cls(count, first is not None, args.get("before" if first is None else "after"))


def connection(found: Sequence[Body], args: Mapping[str, JSON], *, sort: Sort, ceiling: int) -> Body:
    """
    Return a page of *found*, in the order of *sort*.

    Like Shopify, it ends the list without a word once *ceiling* objects have been paged through.
    """
    page = Page(WHOLE, True, None) if ceiling == WHOLE else Page.asked(args)  # noqa: FBT003 - forward
    standing = sorted(((_place(body, sort), body) for body in found), key=_where, reverse=bool(args.get("reverse")))
    standing = standing[:ceiling]
    places = [place for place, _ in standing]
    start, end = _bounds(places, page, back=bool(args.get("reverse")))
    return _shown(standing[start:end], before=start > 0, after=end < len(standing))


def in_order(found: Sequence[Body]) -> Sort:
    """Return what keeps *found* in its own order."""
    turns = {id(body): turn for turn, body in enumerate(found)}
    return lambda body: turns[id(body)]


def refused(message: str) -> GraphQLError:
    """Return the error of a field that was asked for what it does not have."""
    return GraphQLError(message, extensions={"code": "BAD_REQUEST"})


def _bounds(places: list[Place], page: Page, *, back: bool) -> tuple[int, int]:
    if page.cursor is None:
        stands = None
    else:
        stands = _placed(page.cursor)
        if places and type(stands[0]) is not type(places[0][0]):
            raise refused("Invalid cursor for current pagination sort.")
    if page.forward:
        start = 0 if stands is None else sum(not _past(place, stands, back=back) for place in places)
        return start, min(len(places), start + page.count)
    end = len(places) if stands is None else sum(_past(stands, place, back=back) for place in places)
    return max(0, end - page.count), end


def _past(place: Place, other: Place, *, back: bool) -> bool:
    return place < other if back else place > other


def _place(body: Body, sort: Sort) -> Place:
    return sort(body), _number(body)


def _number(body: Body) -> int:
    return place_of(body.get("id") or "")


def _where(standing: tuple[Place, Body]) -> Place:
    return standing[0]


def _shown(standing: list[tuple[Place, Body]], *, before: bool, after: bool) -> Body:
    cursors = [_cursor(place) for place, _ in standing]
    nodes = [body for _, body in standing]
    return {
        "edges": [{"cursor": cursor, "node": node} for cursor, node in zip(cursors, nodes, strict=True)],
        "nodes": nodes,
        "pageInfo": {
            "hasNextPage": after,
            "hasPreviousPage": before,
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        },
    }


def _cursor(place: Place) -> str:
    value, number = place
    return base64.b64encode(json.dumps({"last_id": number, "last_value": value}).encode()).decode()


def _placed(cursor: str) -> Place:
    try:
        held = json.loads(base64.b64decode(cursor, validate=True))
        return held["last_value"], int(held["last_id"])
    except (binascii.Error, ValueError, TypeError, KeyError):
        raise refused("Invalid cursor for current pagination sort.") from None
