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
    "collections/create",
    "collections/delete",
    "collections/update",
    "customers/create",
    "customers/delete",
    "customers/disable",
    "customers/enable",
    "customers/update",
    "discounts/create",
    "discounts/delete",
    "discounts/update",
    "draft_orders/create",
    "draft_orders/delete",
    "draft_orders/update",
    "fulfillment_orders/hold_released",
    "fulfillment_orders/order_routing_complete",
    "fulfillment_orders/placed_on_hold",
    "fulfillments/create",
    "fulfillments/update",
    "inventory_items/create",
    "inventory_items/delete",
    "inventory_items/update",
    "inventory_levels/connect",
    "inventory_levels/disconnect",
    "inventory_levels/update",
    "locations/activate",
    "locations/create",
    "locations/deactivate",
    "locations/delete",
    "locations/update",
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
        inside: The field that holds the times of the object; empty: it holds them itself.
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
    inside: str = ""


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


def _level_topics(before: Body | None, after: Body | None) -> list[str]:
    return [f"inventory_levels/{'connect' if before is None else 'disconnect' if after is None else 'update'}"]


def _location_topics(before: Body | None, after: Body | None) -> list[str]:
    named = _plain("locations")(before, after)
    if before is None or after is None or before["isActive"] is after["isActive"]:
        return named
    return [*named, f"locations/{'activate' if after['isActive'] else 'deactivate'}"]


def _fulfillment_order_topics(before: Body | None, after: Body | None) -> list[str]:
    if before is None:
        return ["fulfillment_orders/order_routing_complete"]
    if after is None or (before["status"] == "ON_HOLD") is (after["status"] == "ON_HOLD"):
        return []
    return [f"fulfillment_orders/{'placed_on_hold' if after['status'] == 'ON_HOLD' else 'hold_released'}"]


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


def _held(body: Body, _: int) -> Body:
    return {"status": "OPEN" if body["status"] == "ON_HOLD" else "ON_HOLD"}


def _weighed(_: Body, number: int) -> Body:
    return {"unitCost": {"amount": f"{number}.5", "currencyCode": "EUR"}}


def _counted(body: Body, number: int) -> Body:
    """Count a piece more, and keep the version where nobody looks: on its way here."""
    others = {each["name"]: each for each in body["quantities"]}
    counted = {"available": 10 + number, "on_hand": 10 + number, "incoming": number}
    return {"quantities": [{**each, "quantity": counted.get(name, each["quantity"])} for name, each in others.items()]}


def _moved_on(_: Body, number: int) -> Body:
    return {"trackingInfo": [{"company": "Stand-in", "number": f"T{number}", "url": None}]}


def _in_discount(body: Body, number: int) -> Body:
    title = re.sub(r"-v[0-9]+$", "", body["discount"]["title"])
    return {"discount": {**body["discount"], "title": f"{title}-v{number}"}}


def _hold(number: int) -> Body:
    return {
        "id": f"gid://shopify/FulfillmentHold/{number}",
        "displayReason": "Other",
        "reason": "OTHER",
        "reasonNotes": f"v{number}",
    }


def _sold(_: Body, number: int) -> Body:
    return {"shopOwnerName": f"Owner {number}"}


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
    "collection": Kind(
        type="Collection",
        scope="read_products",
        edit=_retitled,
        mark=_suffixed("handle"),
        topics=_plain("collections"),
        history=True,
    ),
    "discount": Kind(
        type="DiscountNode",
        scope="read_discounts",
        edit=_same,
        mark=_in_discount,
        topics=_plain("discounts"),
        history=True,
        inside="discount",
    ),
    "draft_order": Kind(
        type="DraftOrder",
        scope="read_draft_orders",
        edit=lambda _, number: {"note2": f"Change {number}"},
        mark=_tagged,
        topics=_plain("draft_orders"),
        parts="lineItems",
        history=True,
    ),
    "fulfillment": Kind(
        type="Fulfillment",
        scope="read_orders",
        edit=_moved_on,
        mark=_suffixed("name"),
        topics=lambda before, _: [f"fulfillments/{'create' if before is None else 'update'}"],
        parent=("order", "order"),
        parts="fulfillmentLineItems",
        final="a fulfillment stays as long as its order",
    ),
    "fulfillment_order": Kind(
        type="FulfillmentOrder",
        scope="read_merchant_managed_fulfillment_orders",
        edit=_held,
        mark=lambda _, number: {"fulfillmentHolds": [] if number == 1 else [_hold(number)]},
        topics=_fulfillment_order_topics,
        parent=("order", "order"),
        parts="lineItems",
        final="a fulfillment order stays as long as its order",
    ),
    "inventory_item": Kind(
        type="InventoryItem",
        scope="read_products",
        edit=_weighed,
        mark=_suffixed("sku"),
        topics=_plain("inventory_items"),
    ),
    "inventory_level": Kind(
        type="InventoryLevel",
        scope="read_inventory",
        edit=_counted,
        mark=_counted,
        topics=_level_topics,
        parent=("inventory_item", "item"),
    ),
    "location": Kind(
        type="Location",
        scope="read_locations",
        edit=lambda _, number: {"address": {"city": f"Town {number}"}},
        mark=_suffixed("name"),
        topics=_location_topics,
    ),
    "shop": Kind(
        type="Shop",
        edit=_sold,
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
