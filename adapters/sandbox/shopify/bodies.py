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
    """Return the number at the end of a global id."""
    return gid_.rpartition("/")[2].partition("?")[0]


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


SUBJECTS = {"Customer": "CUSTOMER", "Order": "ORDER", "Product": "PRODUCT", "ProductVariant": "PRODUCT_VARIANT"}
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
