"""Stripe's lists: newest first, a page at a time, with each kind's filters and its own defaults."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.stripe.kind import Listed
from adapters.sandbox.stripe.query import Denied, Range, paging, span, text, texts, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adapters.sandbox.stripe.kind import Kind
    from adapters.sandbox.stripe.query import Paging, Parameters
    from adapters.sandbox.world import Body, Place, Shelf, Timeline

Keep: TypeAlias = "Callable[[Body], bool]"
Standing: TypeAlias = "tuple[Place, Timeline, Body]"

PAGING = frozenset({"limit", "starting_after", "ending_before", "expand"})
MAX_TYPES = 20
_BOOLEANS = frozenset({"active", "inclusive", "shippable"})
_ENDED = frozenset({"canceled", "incomplete_expired"})
_SUBSCRIPTION_STATUSES = _ENDED | {"active", "incomplete", "past_due", "paused", "trialing", "unpaid"}


def known(name: str, kind: Kind) -> frozenset[str]:
    """Return the parameters that the list of *kind* takes."""
    dated = {"created"} if kind.listed is Listed.DATED else set()
    return PAGING | dated | kind.equal.keys() | _OWN_FILTERS.get(name, {}).keys()


def filters(name: str, kind: Kind, read: Parameters) -> Keep:
    """Return which objects of *kind* a list call asks for."""
    equal = [_equal(read, name=param, path=path) for param, path in kind.equal.items() if param in read]
    own = [make(read) for make in _OWN_FILTERS.get(name, {}).values()]
    tests = [kind.keeps, *equal, *own]
    return lambda body: all(test(body) for test in tests)


def event_filter(read: Parameters, undelivered: Callable[[str], int]) -> Keep:
    """Return which events a list call asks for."""
    pattern, wanted = text(read, "type"), frozenset(given := texts(read, "types"))
    if pattern is not None and wanted:
        raise Denied(400, "You may pass only one of type and types.", param="types")
    if len(given) > MAX_TYPES:
        raise Denied(400, f"You may pass up to {MAX_TYPES} types, not {len(given)}.", param="types")
    success = truth(read, "delivery_success")

    def keep(body: Body) -> bool:
        type_ = body["type"]
        if pattern is not None and not fnmatchcase(type_, pattern):
            return False
        if wanted and type_ not in wanted:
            return False
        return success is None or success == (undelivered(body["id"]) == 0)

    return keep


def page(
    shelf: Shelf,
    read: Parameters,
    *,
    at: float | None,
    keep: Keep,
    least: int | None = None,
) -> tuple[list[Body], bool]:
    """
    Return one page as it was at *at* (None: is now), and whether more follows in the direction asked for.

    *least* bounds `created` from below, besides what the call says.
    """
    wanted = paging(read)
    created = span(read, "created")
    bounds = Range(max((each for each in (created.least, least) if each is not None), default=None), created.most)
    if wanted.before is not None:
        above = _cursor(shelf, wanted.before, param="ending_before")
        found = _few(_kept(shelf.oldest(at, above=above), bounds, keep), wanted)
        return found[: wanted.limit][::-1], len(found) > wanted.limit
    below = _below(shelf, wanted.after, bounds)
    standing = takewhile(lambda each: bounds.least is None or each[0][0] >= bounds.least, shelf.newest(at, below=below))
    found = _few(_kept(standing, bounds, keep), wanted)
    return found[: wanted.limit], len(found) > wanted.limit


def part(parts: Sequence[Body], read: Parameters, *, kind: str) -> tuple[list[Body], bool]:
    """Return one page of an object's own list, in its order, and whether more follows."""
    wanted = paging(read)
    ids = [each["id"] for each in parts]
    for param, cursor in (("starting_after", wanted.after), ("ending_before", wanted.before)):
        if cursor is not None and cursor not in ids:
            raise _vanished(kind, cursor, param=param)
    if wanted.before is not None:
        end = ids.index(wanted.before)
        start = max(0, end - wanted.limit)
        return list(parts[start:end]), start > 0
    start = ids.index(wanted.after) + 1 if wanted.after is not None else 0
    return list(parts[start : start + wanted.limit]), len(parts) > start + wanted.limit


def _few(found: Iterator[Body], wanted: Paging) -> list[Body]:
    return list(islice(found, wanted.limit + 1))


def _kept(standing: Iterator[Standing], bounds: Range, keep: Keep) -> Iterator[Body]:
    return (body for place, _, body in standing if place[0] in bounds and keep(body))


def _below(shelf: Shelf, after: str | None, bounds: Range) -> Place | None:
    limits = [(bounds.most + 1, 0)] if bounds.most is not None else []
    if after is not None:
        limits.append(_cursor(shelf, after, param="starting_after"))
    return min(limits, default=None)


def _cursor(shelf: Shelf, id_: str, *, param: str) -> Place:
    """Return where *id_* stands now, however stale the list is."""
    timeline = shelf.by_id.get(id_)
    if timeline is None or timeline.latest.body is None:
        raise _vanished(timeline.kind if timeline is not None else "object", id_, param=param)
    return timeline.latest.place


def _vanished(kind: str, id_: str, *, param: str) -> Denied:
    return Denied(400, f"No such {kind}: '{id_}'", code="resource_missing", param=param)


def _equal(read: Parameters, *, name: str, path: str) -> Keep:
    wanted = truth(read, name) if name in _BOOLEANS else text(read, name)
    return lambda body: body.get(path) == wanted


def _price_active(read: Parameters) -> Keep:
    """Hide what is not active, unless asked for it."""
    return (lambda _: True) if "active" in read else (lambda body: bool(body["active"]))


def _subscription_status(read: Parameters) -> Keep:
    """Hide what is canceled, unless asked for it."""
    status = text(read, "status")
    if status is None:
        return lambda body: body["status"] != "canceled"
    if status == "all":
        return lambda _: True
    if status == "ended":
        return lambda body: body["status"] in _ENDED
    if status not in _SUBSCRIPTION_STATUSES:
        choices = ", ".join(["all", "ended", *sorted(_SUBSCRIPTION_STATUSES)])
        raise Denied(400, f"Invalid status: must be one of {choices}", param="status")
    return lambda body: body["status"] == status


def _subscription_price(read: Parameters) -> Keep:
    price = text(read, "price")
    return lambda body: price is None or any(item["price"]["id"] == price for item in body["items"]["data"])


def _among(param: str, path: str) -> Callable[[Parameters], Keep]:
    def make(read: Parameters) -> Keep:
        wanted = texts(read, param)
        return lambda body: not wanted or body.get(path) in wanted

    return make


_OWN_FILTERS: dict[str, dict[str, Callable[[Parameters], Keep]]] = {
    "product": {"ids": _among("ids", "id")},
    "price": {"active": _price_active, "lookup_keys": _among("lookup_keys", "lookup_key")},
    "subscription": {"status": _subscription_status, "price": _subscription_price},
}
