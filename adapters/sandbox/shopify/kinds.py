"""One row for each kind: its type in the Admin API, how its objects change, and which topics tell of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.faults import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.world import Body

Topics: TypeAlias = "Callable[[Body | None, Body | None], list[str]]"
"""Given the object before and after a change (None: it does not exist), returns the topics that tell of it."""

Edit: TypeAlias = "Callable[[Body, int], Body]"
"""Given a body and the number of its next version, returns the fields to set."""

SUBSCRIBABLE = (
    "app/uninstalled",
    "customers/create",
    "customers/delete",
    "customers/disable",
    "customers/enable",
    "customers/update",
    "orders/cancelled",
    "orders/create",
    "orders/delete",
    "orders/fulfilled",
    "orders/paid",
    "orders/partially_fulfilled",
    "orders/updated",
    "products/create",
    "products/delete",
    "products/update",
    "refunds/create",
    "shop/update",
)
"""Every topic that the stand-in sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One sort of object.

    Attributes:
        type: Its type in the Admin API, as in its gid.
        scope: What a token needs to see it; empty: any token does.
        edit: What a change does to it that says nothing else.
        mark: Writes the version's number into the body, where a checker can read it.
        follow: What else a change of its fields brings with it.
        topics: Which topics tell of a change, with a body of its own.
        parent: The kind it belongs to, and the field with the parent's gid.
        parts: The field that holds its own list.
        final: Why it is never deleted; empty: it may be.
        history: The shop's history tells when one comes and goes.
    """

    type: str
    scope: str = ""
    edit: Edit
    mark: Edit
    follow: Callable[[Body, str], Body] = lambda _body, _at: {}
    topics: Topics = lambda _before, _after: []
    parent: tuple[str, str] | None = None
    parts: str | None = None
    final: str = ""
    history: bool = False


def _plain(family: str, *, changed: str = "update") -> Topics:
    def topics(before: Body | None, after: Body | None) -> list[str]:
        return [f"{family}/{'create' if before is None else 'delete' if after is None else changed}"]

    return topics


def _order_topics(before: Body | None, after: Body | None) -> list[str]:
    named = _plain("orders", changed="updated")(before, after)
    if before is None or after is None:
        return named
    moved = [topic for field, value, topic in _ORDER_MOVES if before[field] != after[field] == value]
    cancelled = ["orders/cancelled"] if before["cancelledAt"] is None and after["cancelledAt"] is not None else []
    return named + moved + cancelled


_ORDER_MOVES = (
    ("displayFinancialStatus", "PAID", "orders/paid"),
    ("displayFulfillmentStatus", "FULFILLED", "orders/fulfilled"),
    ("displayFulfillmentStatus", "PARTIALLY_FULFILLED", "orders/partially_fulfilled"),
)


def _customer_topics(before: Body | None, after: Body | None) -> list[str]:
    named = _plain("customers")(before, after)
    if before is None or after is None or before["state"] == after["state"]:
        return named
    return named + _CUSTOMER_MOVES.get(after["state"], [])


_CUSTOMER_MOVES = {"DISABLED": ["customers/disable"], "ENABLED": ["customers/enable"]}


def _tagged(body: Body, number: int) -> Body:
    others = [tag for tag in body["tags"] if not re.fullmatch(r"v\d+", tag)]
    return {"tags": sorted([*others, f"v{number}"])}


def _suffixed(field: str) -> Edit:
    def mark(body: Body, number: int) -> Body:
        return {field: f"{re.sub(r'-v[0-9]+$', '', body[field] or field)}-v{number}"}

    return mark


def _noted(_: Body, number: int) -> Body:
    return {"note": f"Change {number}"}


def _retitled(body: Body, number: int) -> Body:
    return {"title": f"{body['title'].split(',')[0]}, change {number}"}


def _repriced(body: Body, number: int) -> Body:
    return {"price": f"{body['price'].partition('.')[0]}.{number % 100:02}"}


def _described(_: Body, number: int) -> Body:
    return {"description": f"Change {number}"}


def _same(_body: Body, _number: int) -> Body:
    return {}


def _order_follows(body: Body, at: str) -> Body:
    if body["cancelReason"] is not None and body["cancelledAt"] is None:
        return {"cancelledAt": at}
    if body["closed"] and body["closedAt"] is None:
        return {"closedAt": at}
    return {}


KINDS: Mapping[str, Kind] = {
    "order": Kind(
        type="Order",
        scope="read_orders",
        edit=_noted,
        mark=_tagged,
        follow=_order_follows,
        topics=_order_topics,
        parent=("customer", "customer"),
        parts="lineItems",
        history=True,
    ),
    "product": Kind(
        type="Product",
        scope="read_products",
        edit=_retitled,
        mark=_tagged,
        topics=_plain("products"),
        parts="variants",
        history=True,
    ),
    "product_variant": Kind(
        type="ProductVariant",
        scope="read_products",
        edit=_repriced,
        mark=_suffixed("sku"),
        parent=("product", "product"),
        history=True,
    ),
    "customer": Kind(
        type="Customer",
        scope="read_customers",
        edit=_noted,
        mark=_tagged,
        topics=_customer_topics,
        parts="addressesV2",
        history=True,
    ),
    "refund": Kind(
        type="Refund",
        scope="read_orders",
        edit=_same,
        mark=_suffixed("note"),
        topics=lambda before, _: ["refunds/create"] if before is None else [],
        parent=("order", "order"),
        parts="refundLineItems",
        final="a refund stays as long as its order",
    ),
    "shop": Kind(
        type="Shop",
        edit=_described,
        mark=_same,
        topics=lambda before, _: ["shop/update"] if before is not None else [],
        final="there is always one shop",
    ),
}

KIND_OF_TYPE: Mapping[str, str] = {kind.type: name for name, kind in KINDS.items()}
"""Which kind a gid is of."""


def kind_named(name: str) -> Kind:
    """Return the row of *name*; raises `Refused` if there is none."""
    if name not in KINDS:
        raise Refused(f"unknown kind {name}; there are {', '.join(KINDS)}")
    return KINDS[name]
