"""What Shopify's objects look like when they are new: as the Admin API shows them, other objects by their gid."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.sandbox.world import JSON, Body

CURRENCY = "EUR"
LOCALE = "de"
GIDS = "gid://shopify/"
LEVEL = "inventory_item_id="
QUANTITIES = (
    "available",
    "committed",
    "damaged",
    "incoming",
    "on_hand",
    "quality_control",
    "reserved",
    "safety_stock",
)
"""What the pieces of an item at a location may be."""


@dataclass(frozen=True, slots=True)
class Draft:
    """
    What a new object is made from.

    Attributes:
        number: Of its gid.
        at: When, as the API writes it.
        turn: The how-many-th of its kind it is; makes objects differ.
        parts: How many line items, refunded lines or addresses it has; None: as it comes.
        related: Returns the gid of an object of a kind, if there is one.
        new_gid: Makes a gid of a type.
    """

    number: str
    at: str
    turn: int
    parts: int | None
    related: Callable[[str], str | None]
    new_gid: Callable[[str], str]

    @property
    def lines(self) -> int:
        """How many line items or refunded lines it has."""
        return 1 if self.parts is None else self.parts

    @property
    def price(self) -> str:
        """A price."""
        return f"{5 + self.turn % 97}.90"


def gid(type_: str, number: object) -> str:
    """Return the global id of an object."""
    return f"{GIDS}{type_}/{number}"


def number_of(gid_: str) -> str:
    """Return the number at the end of a global id; a level's is `ITEM:LOCATION`."""
    number, _, thing = gid_.rpartition("/")[2].partition("?")
    return f"{thing.removeprefix(LEVEL)}:{number}" if thing.startswith(LEVEL) else number


def place_of(gid_: str) -> int:
    """Return where an object stands among others by its id; 0 for what has no number."""
    number = number_of(gid_).replace(":", "")
    return int(number) if number.isdecimal() else 0


def money(amount: str | Decimal) -> Body:
    """Return an amount of the shop's currency."""
    return {"amount": str(amount), "currencyCode": CURRENCY}


def bag(amount: str | Decimal) -> Body:
    """Return an amount in the shop's currency and in the customer's, which are the same here."""
    return {"shopMoney": money(amount), "presentmentMoney": money(amount)}


def amount(bag_: Body) -> Decimal:
    """Return the amount in the shop's currency."""
    return Decimal(bag_["shopMoney"]["amount"])


def order(draft: Draft) -> Body:
    """Return a new order, paid and not yet shipped."""
    lines = [line_item(draft) for _ in range(draft.lines)]
    shipping = shipping_line(draft)
    return {
        "id": gid("Order", draft.number),
        "cancelReason": None,
        "cancelledAt": None,
        "capturable": False,
        "closed": False,
        "closedAt": None,
        "confirmed": True,
        "createdAt": draft.at,
        "currencyCode": CURRENCY,
        "customAttributes": [],
        "customer": None,
        "customerLocale": LOCALE,
        "discountCodes": [],
        "displayFinancialStatus": "PAID",
        "displayFulfillmentStatus": "UNFULFILLED",
        "email": f"buyer{draft.turn}@example.com",
        "fulfillable": True,
        "fullyPaid": True,
        "lineItems": lines,
        "merchantEditable": True,
        "metafields": [],
        "name": f"#{1000 + draft.turn}",
        "note": None,
        "number": 1000 + draft.turn,
        "paymentGatewayNames": ["standin"],
        "phone": None,
        "poNumber": None,
        "presentmentCurrencyCode": CURRENCY,
        "processedAt": draft.at,
        "refundable": True,
        "restockable": True,
        "requiresShipping": True,
        "returnStatus": "NO_RETURN",
        "shippingLine": shipping,
        "shippingLines": [shipping],
        "sourceName": "web",
        "tags": [],
        "taxesIncluded": True,
        "test": False,
        "totalRefundedSet": bag("0.0"),
        "transactions": [sale(draft, total(lines))],
        "unpaid": False,
        "updatedAt": draft.at,
        **totals(lines),
    }


def totals(lines: Sequence[Body]) -> Body:
    """Return what an order of these lines costs."""
    whole, count = bag(total(lines)), sum(line["quantity"] for line in lines)
    return {
        "currentSubtotalLineItemsQuantity": count,
        "currentSubtotalPriceSet": whole,
        "currentTotalPriceSet": whole,
        "netPaymentSet": whole,
        "originalTotalPriceSet": whole,
        "subtotalLineItemsQuantity": count,
        "subtotalPriceSet": whole,
        "totalPriceSet": whole,
        "totalReceivedSet": whole,
    }


def total(lines: Sequence[Body]) -> Decimal:
    """Return what *lines* cost together."""
    return sum((amount(line["originalTotalSet"]) for line in lines), Decimal("0.0"))


def line_item(draft: Draft) -> Body:
    """Return a line of the order that *draft* is for."""
    price = bag(draft.price)
    return {
        "id": draft.new_gid("LineItem"),
        "currentQuantity": 1,
        "customAttributes": [],
        "discountAllocations": [],
        "discountedTotalSet": price,
        "discountedUnitPriceAfterAllDiscountsSet": price,
        "discountedUnitPriceSet": price,
        "merchantEditable": True,
        "name": "One thing",
        "originalTotalSet": price,
        "originalUnitPriceSet": price,
        "product": draft.related("product"),
        "quantity": 1,
        "refundableQuantity": 1,
        "requiresShipping": True,
        "restockable": True,
        "sku": None,
        "taxLines": [],
        "taxable": True,
        "title": "One thing",
        "unfulfilledDiscountedTotalSet": price,
        "unfulfilledOriginalTotalSet": price,
        "unfulfilledQuantity": 1,
        "variant": draft.related("product_variant"),
        "variantTitle": None,
        "vendor": "Stand-in",
    }


def shipping_line(draft: Draft) -> Body:
    """Return free shipping."""
    return {"id": draft.new_gid("ShippingLine"), "code": "standard", "source": "shopify", "title": "Standard"}


def sale(draft: Draft, paid: Decimal) -> Body:
    """Return the payment of an order."""
    return {
        "id": draft.new_gid("OrderTransaction"),
        "amountSet": bag(paid),
        "createdAt": draft.at,
        "formattedGateway": "Stand-in",
        "gateway": "standin",
        "kind": "SALE",
        "processedAt": draft.at,
        "receiptJson": {},
        "status": "SUCCESS",
    }


def refund(draft: Draft, of: Body) -> Body:
    """Return a new refund of the first lines of the order *of*, or of its first line again and again."""
    lines = of["lineItems"]
    refunded = [refunded_line(draft, lines[turn % len(lines)]) for turn in range(draft.lines if lines else 0)]
    paid = sum((amount(line["subtotalSet"]) for line in refunded), Decimal("0.0"))
    return {
        "id": gid("Refund", draft.number),
        "createdAt": draft.at,
        "note": "Refund",
        "order": of["id"],
        "orderAdjustments": [],
        "processedAt": draft.at,
        "refundLineItems": refunded,
        "refundShippingLines": [],
        "totalRefundedSet": bag(paid),
        "transactions": [{**sale(draft, paid), "kind": "REFUND"}],
        "updatedAt": draft.at,
    }


def refunded_line(draft: Draft, line: Body) -> Body:
    """Return a refund of the line item *line*."""
    return {
        "id": draft.new_gid("RefundLineItem"),
        "lineItem": line,
        "priceSet": line["originalUnitPriceSet"],
        "quantity": 1,
        "restockType": "NO_RESTOCK",
        "restocked": False,
        "subtotalSet": line["originalUnitPriceSet"],
        "totalTaxSet": bag("0.0"),
    }


def product(draft: Draft) -> Body:
    """Return a new product; its variants are objects of their own."""
    return {
        "id": gid("Product", draft.number),
        "createdAt": draft.at,
        "defaultCursor": draft.number,
        "description": "",
        "descriptionHtml": "",
        "handle": f"product-{draft.turn}",
        "isGiftCard": False,
        "metafields": [],
        "onlineStoreUrl": None,
        "options": [
            {
                "id": draft.new_gid("ProductOption"),
                "name": "Title",
                "optionValues": [option_value(draft)],
                "position": 1,
                "values": ["Default Title"],
            },
        ],
        "productType": "",
        "publishedAt": draft.at,
        "seo": {"description": None, "title": None},
        "status": "ACTIVE",
        "tags": [],
        "templateSuffix": None,
        "title": f"Product {draft.turn}",
        "tracksInventory": True,
        "updatedAt": draft.at,
        "vendor": "Stand-in",
    }


def option_value(draft: Draft) -> Body:
    """Return the only value of the only option of a simple product."""
    return {"id": draft.new_gid("ProductOptionValue"), "hasVariants": True, "name": "Default Title"}


def variant(draft: Draft, of: str, *, position: int) -> Body:
    """Return a new variant of the product whose gid is *of*."""
    title = "Default Title" if position == 1 else f"Variant {position}"
    return {
        "id": gid("ProductVariant", draft.number),
        "availableForSale": True,
        "barcode": None,
        "compareAtPrice": None,
        "createdAt": draft.at,
        "defaultCursor": draft.number,
        "displayName": title,
        "inventoryItem": {
            "id": draft.new_gid("InventoryItem"),
            "createdAt": draft.at,
            "measurement": {"id": draft.new_gid("InventoryItemMeasurement"), "weight": None},
            "requiresShipping": True,
            "sku": None,
            "tracked": True,
            "unitCost": None,
            "updatedAt": draft.at,
        },
        "inventoryPolicy": "DENY",
        "inventoryQuantity": 10,
        "metafields": [],
        "position": position,
        "price": draft.price,
        "product": of,
        "selectedOptions": [{"name": "Title", "value": title, "optionValue": option_value(draft)}],
        "sellableOnlineQuantity": 10,
        "sku": f"SKU-{draft.turn}",
        "taxable": True,
        "title": title,
        "updatedAt": draft.at,
    }


def customer(draft: Draft) -> Body:
    """Return a new customer without orders."""
    email = f"customer{draft.turn}@example.com"
    return {
        "id": gid("Customer", draft.number),
        "addressesV2": [address(draft) for _ in range(draft.parts or 0)],
        "amountSpent": money("0.0"),
        "createdAt": draft.at,
        "defaultAddress": None,
        "defaultEmailAddress": {
            "emailAddress": email,
            "marketingState": "NOT_SUBSCRIBED",
            "marketingUnsubscribeUrl": "https://example.com/unsubscribe",
            "openTrackingLevel": "UNKNOWN",
            "openTrackingUrl": "https://example.com/track",
            "validFormat": True,
        },
        "defaultPhoneNumber": None,
        "displayName": f"Customer {draft.turn}",
        "email": email,
        "firstName": "Customer",
        "lastName": str(draft.turn),
        "lifetimeDuration": "a few seconds",
        "locale": LOCALE,
        "metafields": [],
        "note": None,
        "numberOfOrders": "0",
        "phone": None,
        "productSubscriberStatus": "NEVER_SUBSCRIBED",
        "state": "DISABLED",
        "tags": [],
        "taxExempt": False,
        "taxExemptions": [],
        "updatedAt": draft.at,
        "verifiedEmail": True,
    }


def address(draft: Draft) -> Body:
    """Return an address of the customer that *draft* is for."""
    return {
        "id": draft.new_gid("MailingAddress"),
        "address1": f"Street {draft.turn}",
        "city": "Berlin",
        "country": "Germany",
        "countryCodeV2": "DE",
        "formatted": [f"Street {draft.turn}", "10115 Berlin", "Germany"],
        "zip": "10115",
    }


def collection(draft: Draft) -> Body:
    """Return a new collection, whose products nobody has chosen yet."""
    return {
        "id": gid("Collection", draft.number),
        "descriptionHtml": "",
        "handle": f"collection-{draft.turn}",
        "image": None,
        "metafields": [],
        "productsCount": {"count": 0, "precision": "EXACT"},
        "ruleSet": None,
        "seo": {"description": None, "title": None},
        "sortOrder": "BEST_SELLING",
        "templateSuffix": None,
        "title": f"Collection {draft.turn}",
        "updatedAt": draft.at,
    }


def discount(draft: Draft) -> Body:
    """Return a new discount: by turns for a code, and for everybody."""
    code = bool(draft.turn % 2)
    shown: Body = {
        "__typename": "DiscountCodeBasic" if code else "DiscountAutomaticBasic",
        "asyncUsageCount": 0,
        "combinesWith": {"orderDiscounts": False, "productDiscounts": False, "shippingDiscounts": True},
        "createdAt": draft.at,
        "discountClasses": ["ORDER"],
        "endsAt": None,
        "startsAt": draft.at,
        "status": "ACTIVE",
        "summary": "10% off",
        "tags": [],
        "title": f"Discount {draft.turn}",
        "updatedAt": draft.at,
    }
    codes = [{"id": draft.new_gid("DiscountRedeemCode"), "code": f"SAVE{draft.turn}"}]
    more = {
        "appliesOncePerCustomer": False,
        "codes": codes,
        "codesCount": {"count": 1, "precision": "EXACT"},
        "usageLimit": None,
    }
    return {"id": gid("DiscountNode", draft.number), "discount": shown | (more if code else {}), "metafields": []}


def draft_order(draft: Draft) -> Body:
    """Return a new draft of an order."""
    lines = [draft_line(draft) for _ in range(draft.lines)]
    return {
        "id": gid("DraftOrder", draft.number),
        "appliedDiscount": None,
        "billingAddress": None,
        "completedAt": None,
        "createdAt": draft.at,
        "currencyCode": CURRENCY,
        "customAttributes": [],
        "customer": None,
        "discountCodes": [],
        "email": f"buyer{draft.turn}@example.com",
        "lineItems": lines,
        "metafields": [],
        "name": f"#D{draft.turn}",
        "note2": None,
        "order": None,
        "presentmentCurrencyCode": CURRENCY,
        "ready": True,
        "shippingAddress": None,
        "shippingLine": None,
        "status": "OPEN",
        "tags": [],
        "taxExempt": False,
        "taxLines": [],
        "taxesIncluded": True,
        "updatedAt": draft.at,
        "visibleToCustomer": False,
        **draft_totals(lines),
    }


def draft_totals(lines: Sequence[Body]) -> Body:
    """Return what a draft order of these lines costs."""
    whole = bag(total(lines))
    return {"subtotalPriceSet": whole, "totalPriceSet": whole}


def draft_line(draft: Draft) -> Body:
    """Return a line of the draft order that *draft* is for."""
    price = bag(draft.price)
    return {
        "id": draft.new_gid("DraftOrderLineItem"),
        "appliedDiscount": None,
        "custom": False,
        "customAttributes": [],
        "discountedTotalSet": price,
        "isGiftCard": False,
        "name": "One thing",
        "originalTotalSet": price,
        "product": draft.related("product"),
        "quantity": 1,
        "requiresShipping": True,
        "sku": None,
        "taxable": True,
        "title": "One thing",
        "uuid": f"00000000-0000-4000-8000-{draft.number:0>12.12}",
        "variant": draft.related("product_variant"),
        "variantTitle": None,
        "vendor": "Stand-in",
    }


def fulfillment(draft: Draft, of: Body) -> Body:
    """Return a parcel of the first lines of the order *of*, or of its first line again and again."""
    lines = of["lineItems"]
    sent = [fulfilled_line(draft, lines[turn % len(lines)]) for turn in range(draft.lines if lines else 0)]
    return {
        "id": gid("Fulfillment", draft.number),
        "createdAt": draft.at,
        "deliveredAt": None,
        "displayStatus": "FULFILLED",
        "estimatedDeliveryAt": None,
        "fulfillmentLineItems": sent,
        "inTransitAt": None,
        "location": draft.related("location"),
        "name": f"{of['name']}-F{draft.turn}",
        "order": of["id"],
        "requiresShipping": True,
        "service": {
            "id": draft.new_gid("FulfillmentService"),
            "handle": "manual",
            "serviceName": "Manual",
            "type": "MANUAL",
        },
        "status": "SUCCESS",
        "totalQuantity": len(sent),
        "trackingInfo": [],
        "updatedAt": draft.at,
    }


def fulfilled_line(draft: Draft, line: Body) -> Body:
    """Return a line of a parcel."""
    price = line["originalUnitPriceSet"]
    id_ = draft.new_gid("FulfillmentLineItem")
    return {"id": id_, "discountedTotalSet": price, "lineItem": line, "originalTotalSet": price, "quantity": 1}


def fulfillment_order(draft: Draft, of: Body) -> Body:
    """Return what is to be sent of the order *of*."""
    lines = of["lineItems"]
    asked = [fulfillment_order_line(draft, lines[turn % len(lines)]) for turn in range(draft.lines if lines else 0)]
    return {
        "id": gid("FulfillmentOrder", draft.number),
        "assignedLocation": {"countryCode": "DE", "location": draft.related("location"), "name": "Warehouse"},
        "createdAt": draft.at,
        "deliveryMethod": {"id": draft.new_gid("DeliveryMethod"), "methodType": "SHIPPING"},
        "destination": None,
        "fulfillAt": draft.at,
        "fulfillBy": None,
        "fulfillmentHolds": [],
        "lineItems": asked,
        "order": of["id"],
        "orderId": of["id"],
        "orderName": of["name"],
        "orderProcessedAt": of["processedAt"],
        "requestStatus": "UNSUBMITTED",
        "status": "OPEN",
        "updatedAt": draft.at,
    }


def fulfillment_order_line(draft: Draft, line: Body) -> Body:
    """Return a line of what is to be sent."""
    return {
        "id": draft.new_gid("FulfillmentOrderLineItem"),
        "inventoryItemId": None,
        "lineItem": line,
        "productTitle": line["title"],
        "remainingQuantity": 1,
        "requiresShipping": True,
        "sku": line["sku"],
        "totalQuantity": 1,
        "variant": line["variant"],
        "variantTitle": None,
    }


def inventory_item(draft: Draft) -> Body:
    """Return a new thing to count."""
    return {
        "id": gid("InventoryItem", draft.number),
        "countryCodeOfOrigin": None,
        "createdAt": draft.at,
        "harmonizedSystemCode": None,
        "measurement": {
            "id": draft.new_gid("InventoryItemMeasurement"),
            "weight": {"unit": "KILOGRAMS", "value": Decimal("0.5")},
        },
        "provinceCodeOfOrigin": None,
        "requiresShipping": True,
        "sku": f"ITEM-{draft.turn}",
        "tracked": True,
        "unitCost": money("1.5"),
        "updatedAt": draft.at,
    }


def inventory_level(draft: Draft, thing: str, location: str) -> Body:
    """Return ten pieces of the item at the location, by their gids."""
    return {
        "id": f"{gid('InventoryLevel', number_of(location))}?{LEVEL}{number_of(thing)}",
        "createdAt": draft.at,
        "isActive": True,
        "item": thing,
        "location": location,
        "quantities": [quantity(name, draft) for name in QUANTITIES],
        "updatedAt": draft.at,
    }


def quantity(name: str, draft: Draft) -> Body:
    """Return how many pieces are *name*: ten, if they are there at all."""
    pieces = 10 if name in {"available", "on_hand"} else 0
    return {"id": draft.new_gid("InventoryQuantity"), "name": name, "quantity": pieces, "updatedAt": draft.at}


def location(draft: Draft) -> Body:
    """Return a new place."""
    return {
        "id": gid("Location", draft.number),
        "address": {"city": "Berlin", "country": "Germany", "countryCode": "DE", "formatted": [], "zip": "10115"},
        "createdAt": draft.at,
        "deactivatedAt": None,
        "fulfillmentService": None,
        "fulfillsOnlineOrders": True,
        "isActive": True,
        "isFulfillmentService": False,
        "metafields": [],
        "name": f"Place {draft.turn}",
        "shipsInventory": True,
        "updatedAt": draft.at,
    }


def shop(number: str, domain: str, *, at: str, timezone: str) -> Body:
    """Return the shop."""
    return {
        "id": gid("Shop", number),
        "contactEmail": "owner@example.com",
        "createdAt": at,
        "currencyCode": CURRENCY,
        "description": None,
        "email": "owner@example.com",
        "enabledPresentmentCurrencies": [CURRENCY],
        "ianaTimezone": timezone,
        "metafields": [],
        "myshopifyDomain": domain,
        "name": "Stand-in",
        "orderNumberFormatPrefix": "#",
        "orderNumberFormatSuffix": "",
        "plan": {"partnerDevelopment": True, "publicDisplayName": "Development", "shopifyPlus": False},
        "primaryDomain": {"id": gid("Domain", 1), "host": domain, "sslEnabled": True, "url": f"https://{domain}"},
        "shipsToCountries": ["DE"],
        "shopAddress": {"id": gid("ShopAddress", number), "city": "Berlin", "country": "Germany", "formatted": []},
        "shopOwnerName": "Owner",
        "taxesIncluded": True,
        "unitSystem": "METRIC_SYSTEM",
        "updatedAt": at,
        "url": f"https://{domain}",
        "weightUnit": "KILOGRAMS",
    }


def event(gid_: str, action: str, subject: str, *, at: str) -> Body:
    """Return a line of the shop's history: *action* happened to the object whose gid is *subject*."""
    return {
        "id": gid_,
        "action": action,
        "createdAt": at,
        "message": f"{subject} {action}",
        "subjectId": subject,
        "subjectType": SUBJECTS[subject.removeprefix(GIDS).partition("/")[0]],
    }


SUBJECTS = {
    "Collection": "COLLECTION",
    "Customer": "CUSTOMER",
    "DiscountNode": "DISCOUNT_NODE",
    "DraftOrder": "DRAFT_ORDER",
    "Order": "ORDER",
    "Product": "PRODUCT",
    "ProductVariant": "PRODUCT_VARIANT",
}
"""What history calls each type."""

NOTHING: dict[str, JSON] = {
    "Boolean": False,
    "HTML": "",
    "Int": 0,
    "MoneyBag": bag("0.0"),
    "String": "",
    "UnsignedInt64": "0",
}
"""What a field that must have a value shows where an object has none of its own."""
