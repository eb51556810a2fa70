"""Bodies of webhooks: the older shape, with numbers for ids, snake case, and the shop's offset in each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.shopify.bodies import number_of
from adapters.sandbox.shopify.stamps import local

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from zoneinfo import ZoneInfo

    from adapters.sandbox.world import Body

SHOWN_VARIANTS = 100
"""A product's body holds so many of its variants; of the others it names the gid only."""

_FINANCIAL = "displayFinancialStatus"
_SHIPPED = {"FULFILLED": "fulfilled", "PARTIALLY_FULFILLED": "partial"}


def gone(gid: str) -> Body:
    """Return all that is said of an object that was deleted: a level's item and location, a discount's gid."""
    if "/InventoryLevel/" in gid:
        thing, location = number_of(gid).split(":")
        return {"inventory_item_id": int(thing), "location_id": int(location)}
    if "/DiscountNode/" in gid:
        return {"admin_graphql_api_id": gid.replace("DiscountNode", "DiscountCodeNode"), "deleted_at": None}
    return {"id": int(number_of(gid))}


def order(body: Body, zone: ZoneInfo, *, refunds: Sequence[Body], customer: Body | None) -> Body:
    """Return an order with its lines, its refunds and its customer."""
    return {
        **_named(body),
        "cancel_reason": (body["cancelReason"] or "").lower() or None,
        "cancelled_at": local(body["cancelledAt"], zone),
        "closed_at": local(body["closedAt"], zone),
        "confirmed": body["confirmed"],
        "created_at": local(body["createdAt"], zone),
        "currency": body["currencyCode"],
        "customer": None if customer is None else _customer(customer, zone),
        "email": body["email"],
        "financial_status": (body[_FINANCIAL] or "").lower() or None,
        "fulfillment_status": _SHIPPED.get(body["displayFulfillmentStatus"]),
        "line_items": [_line(line) for line in body["lineItems"]],
        "name": body["name"],
        "note": body["note"],
        "number": body["number"],
        "order_number": body["number"],
        "phone": body["phone"],
        "processed_at": local(body["processedAt"], zone),
        "refunds": [refund(each, zone) for each in refunds],
        "source_name": body["sourceName"],
        "tags": ", ".join(body["tags"]),
        "taxes_included": body["taxesIncluded"],
        "test": body["test"],
        "total_price": _price(body["totalPriceSet"]["shopMoney"]["amount"]),
        "updated_at": local(body["updatedAt"], zone),
    }


def refund(body: Body, zone: ZoneInfo) -> Body:
    """Return a refund, which has no time of its last change here."""
    return {
        **_named(body),
        "created_at": local(body["createdAt"], zone),
        "note": body["note"],
        "order_id": int(number_of(body["order"])),
        "processed_at": local(body["processedAt"], zone),
        "refund_line_items": [_refunded(line) for line in body["refundLineItems"]],
        "restock": False,
    }


def product(body: Body, zone: ZoneInfo, *, variants: Sequence[Body]) -> Body:
    """Return a product with the first of its variants, and the gids of all of them."""
    return {
        **_named(body),
        "body_html": body["descriptionHtml"],
        "created_at": local(body["createdAt"], zone),
        "handle": body["handle"],
        "product_type": body["productType"],
        "published_at": local(body["publishedAt"], zone),
        "status": body["status"].lower(),
        "tags": ", ".join(body["tags"]),
        "template_suffix": body["templateSuffix"],
        "title": body["title"],
        "updated_at": local(body["updatedAt"], zone),
        "variant_gids": [
            {"admin_graphql_api_id": each["id"], "updated_at": local(each["updatedAt"], zone)} for each in variants
        ],
        "variants": [_variant(each, zone) for each in variants[:SHOWN_VARIANTS]],
        "vendor": body["vendor"],
    }


def customer(body: Body, zone: ZoneInfo) -> Body:
    """Return a customer."""
    return _customer(body, zone)


def shop(body: Body, zone: ZoneInfo) -> Body:
    """Return the shop."""
    return {
        "id": int(number_of(body["id"])),
        "created_at": local(body["createdAt"], zone),
        "currency": body["currencyCode"],
        "domain": body["myshopifyDomain"],
        "email": body["email"],
        "iana_timezone": body["ianaTimezone"],
        "myshopify_domain": body["myshopifyDomain"],
        "name": body["name"],
        "updated_at": local(body["updatedAt"], zone),
    }


def collection(body: Body, zone: ZoneInfo) -> Body:
    """Return a collection."""
    return {
        **_named(body),
        "body_html": body["descriptionHtml"],
        "handle": body["handle"],
        "published_scope": "web",
        "sort_order": body["sortOrder"].lower().replace("_", "-"),
        "title": body["title"],
        "updated_at": local(body["updatedAt"], zone),
    }


def discount(body: Body, zone: ZoneInfo) -> Body:
    """Return all that is told of a discount, under the name of an older type."""
    shown = body["discount"]
    node = "DiscountCodeNode" if shown["__typename"].startswith("DiscountCode") else "DiscountAutomaticNode"
    return {
        "admin_graphql_api_id": body["id"].replace("DiscountNode", node),
        "created_at": local(shown["createdAt"], zone),
        "status": shown["status"],
        "title": shown["title"],
        "updated_at": local(shown["updatedAt"], zone),
    }


def draft_order(body: Body, zone: ZoneInfo) -> Body:
    """Return a draft order."""
    return {
        **_named(body),
        "created_at": local(body["createdAt"], zone),
        "currency": body["currencyCode"],
        "email": body["email"],
        "name": body["name"],
        "note": body["note2"],
        "status": body["status"].lower(),
        "tags": ", ".join(body["tags"]),
        "total_price": _price(body["totalPriceSet"]["shopMoney"]["amount"]),
        "updated_at": local(body["updatedAt"], zone),
    }


def fulfillment(body: Body, zone: ZoneInfo) -> Body:
    """Return a parcel."""
    return {
        **_named(body),
        "created_at": local(body["createdAt"], zone),
        "location_id": _number(body["location"]),
        "name": body["name"],
        "order_id": int(number_of(body["order"])),
        "status": body["status"].lower(),
        "updated_at": local(body["updatedAt"], zone),
    }


def fulfillment_order(body: Body, _: ZoneInfo) -> Body:
    """Return all that is told of a fulfillment order: which, and its status."""
    return {"fulfillment_order": {"id": body["id"], "status": body["status"].lower()}}


def inventory_item(body: Body, zone: ZoneInfo) -> Body:
    """Return a thing to count."""
    return {
        **_named(body),
        "cost": (body["unitCost"] or {}).get("amount"),
        "created_at": local(body["createdAt"], zone),
        "requires_shipping": body["requiresShipping"],
        "sku": body["sku"],
        "tracked": body["tracked"],
        "updated_at": local(body["updatedAt"], zone),
    }


def inventory_level(body: Body, zone: ZoneInfo) -> Body:
    """Return how many pieces are to be had somewhere."""
    thing, location = number_of(body["id"]).split(":")
    return {
        "admin_graphql_api_id": body["id"],
        "available": next(each["quantity"] for each in body["quantities"] if each["name"] == "available"),
        "inventory_item_id": int(thing),
        "location_id": int(location),
        "updated_at": local(body["updatedAt"], zone),
    }


def location(body: Body, zone: ZoneInfo) -> Body:
    """Return a place."""
    return {
        **_named(body),
        "active": body["isActive"],
        "city": body["address"].get("city"),
        "country_code": body["address"].get("countryCode"),
        "created_at": local(body["createdAt"], zone),
        "legacy": False,
        "name": body["name"],
        "updated_at": local(body["updatedAt"], zone),
    }


def _customer(body: Body, zone: ZoneInfo) -> Body:
    return {
        **_named(body),
        "created_at": local(body["createdAt"], zone),
        "email": body["email"],
        "first_name": body["firstName"],
        "last_name": body["lastName"],
        "note": body["note"],
        "phone": body["phone"],
        "state": body["state"].lower(),
        "tags": ", ".join(body["tags"]),
        "tax_exempt": body["taxExempt"],
        "updated_at": local(body["updatedAt"], zone),
        "verified_email": body["verifiedEmail"],
    }


def _variant(body: Body, zone: ZoneInfo) -> Body:
    return {
        **_named(body),
        "barcode": body["barcode"],
        "compare_at_price": body["compareAtPrice"],
        "created_at": local(body["createdAt"], zone),
        "inventory_item_id": int(number_of(body["inventoryItem"]["id"])),
        "inventory_policy": body["inventoryPolicy"].lower(),
        "inventory_quantity": body["inventoryQuantity"],
        "position": body["position"],
        "price": body["price"],
        "product_id": int(number_of(body["product"])),
        "sku": body["sku"],
        "taxable": body["taxable"],
        "title": body["title"],
        "updated_at": local(body["updatedAt"], zone),
    }


def _line(body: Body) -> Body:
    return {
        **_named(body),
        "name": body["name"],
        "price": _price(body["originalUnitPriceSet"]["shopMoney"]["amount"]),
        "product_id": _number(body["product"]),
        "quantity": body["quantity"],
        "sku": body["sku"],
        "title": body["title"],
        "variant_id": _number(body["variant"]),
    }


def _refunded(body: Body) -> Body:
    return {
        "id": int(number_of(body["id"])),
        "line_item_id": int(number_of(body["lineItem"]["id"])),
        "quantity": body["quantity"],
        "restock_type": body["restockType"].lower(),
    }


def _named(body: Body) -> Body:
    return {"id": int(number_of(body["id"])), "admin_graphql_api_id": body["id"]}


def _number(gid: str | None) -> int | None:
    return None if gid is None else int(number_of(gid))


def _price(amount: str) -> str:
    """Write an amount with the two digits that webhooks always have."""
    whole, _, part = amount.partition(".")
    return f"{whole}.{part:0<2}"


TOLD: Mapping[str, Callable[[Body, ZoneInfo], Body]] = {
    "collection": collection,
    "customer": customer,
    "discount": discount,
    "draft_order": draft_order,
    "fulfillment": fulfillment,
    "fulfillment_order": fulfillment_order,
    "inventory_item": inventory_item,
    "inventory_level": inventory_level,
    "location": location,
    "refund": refund,
    "shop": shop,
}
"""What a webhook shows of an object, for each kind whose webhooks show only itself."""
