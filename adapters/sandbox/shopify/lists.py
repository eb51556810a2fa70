"""What each list can be searched by and sorted by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.sandbox.shopify.bodies import place_of
from adapters.sandbox.shopify.search import Field, flag, number, when, word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.shopify.connections import Sort
    from adapters.sandbox.world import Body


@dataclass(frozen=True, slots=True)
class List:
    """
    One list.

    Attributes:
        fields: What it can be searched by.
        sorts: Its sort keys, as far as they are told apart here.
    """

    fields: Mapping[str, Field]
    sorts: Mapping[str, Sort]

    def sort(self, key: str | None) -> Sort:
        """Return the order that *key* asks for; what the stand-in does not tell apart goes by id."""
        return self.sorts.get(key or "ID", by_id)


def by_id(body: Body) -> int:
    """Return the number of an object."""
    return place_of(body["id"])


def _by(name: str) -> Callable[[Body], str]:
    return lambda body: str(body[name])


def _status(body: Body) -> list[str]:
    """Return the words by which an order is found: closed and cancelled ones are not hidden here."""
    if body["cancelledAt"]:
        return ["cancelled", "any"]
    return ["closed", "any"] if body["closed"] else ["open", "not_closed", "any"]


_TIMES = {"created_at": when("createdAt"), "updated_at": when("updatedAt"), "id": number()}
_SORTS: dict[str, Sort] = {"CREATED_AT": _by("createdAt"), "UPDATED_AT": _by("updatedAt")}

LISTS: Mapping[str, List] = {
    "order": List(
        {
            **_TIMES,
            "customer_id": number("customer"),
            "email": word("email"),
            "financial_status": word("displayFinancialStatus"),
            "fulfillment_status": word("displayFulfillmentStatus"),
            "name": word("name"),
            "processed_at": when("processedAt"),
            "source_name": word("sourceName"),
            "status": Field(_status, str.lower),
            "tag": word("tags"),
            "test": flag("test"),
        },
        {**_SORTS, "ORDER_NUMBER": lambda body: int(body["number"]), "PROCESSED_AT": _by("processedAt")},
    ),
    "product": List(
        {
            **_TIMES,
            "handle": word("handle"),
            "product_type": word("productType"),
            "published_at": when("publishedAt"),
            "status": word("status"),
            "tag": word("tags"),
            "title": word("title"),
            "vendor": word("vendor"),
        },
        {**_SORTS, "PRODUCT_TYPE": _by("productType"), "TITLE": _by("title"), "VENDOR": _by("vendor")},
    ),
    "product_variant": List(
        {
            "barcode": word("barcode"),
            "id": number(),
            "product_id": number("product"),
            "sku": word("sku"),
            "title": word("title"),
            "updated_at": when("updatedAt"),
        },
        {
            "POSITION": lambda body: int(body["position"]),
            "SKU": _by("sku"),
            "TITLE": _by("title"),
        },
    ),
    "customer": List(
        {
            "customer_date": when("createdAt"),
            "email": word("email"),
            "first_name": word("firstName"),
            "id": number(),
            "last_name": word("lastName"),
            "orders_count": number("numberOfOrders"),
            "state": word("state"),
            "tag": word("tags"),
            "updated_at": when("updatedAt"),
        },
        {**_SORTS, "NAME": _by("displayName")},
    ),
    "collection": List(
        {"handle": word("handle"), "id": number(), "title": word("title"), "updated_at": when("updatedAt")},
        {"TITLE": _by("title"), "UPDATED_AT": _by("updatedAt")},
    ),
    "discount": List(
        {
            "created_at": when("createdAt", inside="discount"),
            "id": number(),
            "status": word("status", inside="discount"),
            "title": word("title", inside="discount"),
            "updated_at": when("updatedAt", inside="discount"),
        },
        {
            "CREATED_AT": lambda body: str(body["discount"]["createdAt"]),
            "UPDATED_AT": lambda body: str(body["discount"]["updatedAt"]),
        },
    ),
    "draft_order": List(
        {**_TIMES, "customer_id": number("customer"), "status": word("status"), "tag": word("tags")},
        {"STATUS": _by("status"), "UPDATED_AT": _by("updatedAt")},
    ),
    "fulfillment_order": List(
        {"id": number(), "status": word("status"), "updated_at": when("updatedAt")}, {"UPDATED_AT": _by("updatedAt")}
    ),
    "inventory_item": List({**_TIMES, "sku": word("sku")}, {}),
    "inventory_level": List({**_TIMES, "inventory_item_id": number("item")}, {}),
    "location": List(
        {"active": flag("isActive"), "created_at": when("createdAt"), "id": number(), "name": word("name")},
        {"NAME": _by("name")},
    ),
    "event": List(
        {
            "action": word("action"),
            "created_at": when("createdAt"),
            "id": number(),
            "subject_type": word("subjectType"),
        },
        {"CREATED_AT": _by("createdAt")},
    ),
}
