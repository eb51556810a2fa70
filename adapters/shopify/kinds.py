"""The kinds of Shopify that can be mirrored: one row describes one kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from reconciler.adapter import Column, Kind, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_ORDERS: Final = "read_all_orders"
"""The scope without which orders older than 60 days read as null."""

_FEED_LAG = timedelta(minutes=10)  # how late a search may show a change is not published
_ITSELF = "/id"


@dataclass(frozen=True, slots=True)
class Part:
    """
    A list of its own that an object has.

    Attributes:
        field: Where it stands in the object.
        fragment: What is asked of each part.
        page: Parts a call, such that it costs less than the 1,000 points that a query may.
    """

    field: str
    fragment: str
    page: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    A kind, and how Shopify is asked about it.

    Attributes:
        type: In its gid.
        root: The field that reads one.
        list: The field that lists it, or what it stands in.
        inside: The field of what `list` shows that holds the objects; empty: it shows them themselves.
        by_stamp: That list can be sorted by its stamp.
        page: Objects a page, such that it costs less than the 1,000 points that a query may.
        listed: How many of its parts a list shows; an object that has more is a hint there.
        fetched: How many of its parts the first call of a fetch shows.
        topics: Each topic that concerns it, and where (`*`: any element) the body holds the id of one.
        parts: Its own lists.
        destroyed: What the shop's history calls it; empty: history does not tell of its end.
        created: What a search calls the time it was made; empty: it cannot be searched by that.
        aged: It is hidden 60 days after its order was made, without the scope for all orders.
    """

    kind: Kind
    type: str
    root: str
    list: str
    inside: str = ""
    by_stamp: bool = True
    page: int
    listed: int = 5
    fetched: int = 10
    topics: Mapping[str, str]
    parts: tuple[Part, ...] = ()
    destroyed: str = ""
    created: str = ""
    aged: bool = False


def _topics(prefix: str, endings: str, pointer: str = _ITSELF) -> dict[str, str]:
    return {f"{prefix}/{ending}": pointer for ending in endings.split()}


def _columns(text: str) -> tuple[Column, ...]:
    """Read columns from lines of name, type and pointers."""
    words = (line.split() for line in text.strip().splitlines())
    return tuple(Column(name, tuple(pointers), type_) for name, type_, *pointers in words)


_ORDER = _topics("orders", "create updated paid partially_fulfilled fulfilled cancelled delete") | {
    "orders/edited": "/order_edit/order_id",
    "order_transactions/create": "/order_id",
    "refunds/create": "/order_id",
    "fulfillments/create": "/order_id",
    "fulfillments/update": "/order_id",
}
_REFUND = _topics("refunds", "create") | _topics(
    "orders", "create updated paid partially_fulfilled fulfilled cancelled", "/refunds/*/id"
)
_PRODUCT = _topics("products", "create update delete") | _topics("variants", "in_stock out_of_stock", "/product_id")
_VARIANT = _topics("variants", "in_stock out_of_stock") | _topics("products", "create update", "/variants/*/id")
_CUSTOMER = _topics("customers", "create update delete enable disable") | {
    "customers/merge": "/admin_graphql_api_customer_kept_id",
    "customers_marketing_consent/update": _ITSELF,
    "customers_email_marketing_consent/update": "/customer_id",
    "customer.tags_added": "/customerId",
    "customer.tags_removed": "/customerId",
}

_ROWS = (
    Row(
        type="Order",
        root="order",
        list="orders",
        page=8,
        topics=_ORDER,
        parts=(Part("lineItems", "orderLine"), Part("shippingLines", "orderShipping")),
        destroyed="ORDER",
        created="created_at",
        aged=True,
        kind=Kind(
            name="order",
            topics=tuple(_ORDER),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="orders by updated_at, and events of action destroy",
            fetch="order(id)",
            deletion="null, believed with read_all_orders, or where orders/delete or history said so",
            permission="read_orders, read_customers; read_all_orders beyond 60 days",
            cost="1 call, with more than 10 lines 1 per 50 and 1; 1 per 8 listed",
            unordered=("/tags",),
            columns=_columns("""
                name text /name
                customer text /customer/id
                email text /email
                currency text /currencyCode
                total_price numeric /totalPriceSet/shopMoney/amount
                current_total_price numeric /currentTotalPriceSet/shopMoney/amount
                total_refunded numeric /totalRefundedSet/shopMoney/amount
                financial_status text /displayFinancialStatus
                fulfillment_status text /displayFulfillmentStatus
                closed boolean /closed
                cancelled_at timestamptz /cancelledAt
                processed_at timestamptz /processedAt
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=_FEED_LAG,
            blind="without read_all_orders: orders older than 60 days",
        ),
    ),
    Row(
        type="Product",
        root="product",
        list="products",
        page=25,
        listed=25,
        fetched=100,
        topics=_PRODUCT,
        parts=(Part("variants", "productVariantId", page=250),),
        destroyed="PRODUCT",
        created="created_at",
        kind=Kind(
            name="product",
            topics=tuple(_PRODUCT),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="products by updated_at, and events of action destroy",
            fetch="product(id)",
            deletion="null",
            permission="read_products",
            cost="1 call, with more than 100 variants 1 per 250 and 1; 1 per 25 listed",
            unordered=("/tags",),
            columns=_columns("""
                title text /title
                handle text /handle
                status text /status
                vendor text /vendor
                product_type text /productType
                published_at timestamptz /publishedAt
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=_FEED_LAG,
        ),
    ),
    Row(
        type="ProductVariant",
        root="productVariant",
        list="productVariants",
        by_stamp=False,
        page=100,
        topics=_VARIANT,
        destroyed="PRODUCT_VARIANT",
        kind=Kind(
            name="product_variant",
            topics=tuple(_VARIANT),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="productVariants by updated_at, and events of action destroy",
            fetch="productVariant(id)",
            deletion="null",
            permission="read_products",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                product text /product/id
                title text /title
                sku text /sku
                barcode text /barcode
                price numeric /price
                compare_at_price numeric /compareAtPrice
                inventory_quantity bigint /inventoryQuantity
                position bigint /position
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=_FEED_LAG,
            blind="stock that moves without updatedAt; a variant's deletion, where history does not tell of it",
        ),
    ),
    Row(
        type="Customer",
        root="customer",
        list="customers",
        page=40,
        topics=_CUSTOMER,
        parts=(Part("addressesV2", "address"),),
        destroyed="CUSTOMER",
        created="customer_date",
        kind=Kind(
            name="customer",
            topics=tuple(_CUSTOMER),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="customers by updated_at, and events of action destroy",
            fetch="customer(id)",
            deletion="null",
            permission="read_customers",
            cost="1 call, with more than 10 addresses 1 per 50 and 1; 1 per 40 listed",
            unordered=("/tags",),
            columns=_columns("""
                display_name text /displayName
                email text /defaultEmailAddress/emailAddress
                phone text /defaultPhoneNumber/phoneNumber
                state text /state
                number_of_orders bigint /numberOfOrders
                amount_spent numeric /amountSpent/amount
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=_FEED_LAG,
        ),
    ),
    Row(
        type="Refund",
        root="refund",
        list="orders",
        inside="refunds",
        page=8,
        topics=_REFUND,
        parts=(
            Part("refundLineItems", "refundLine"),
            Part("refundShippingLines", "refundShipping"),
            Part("orderAdjustments", "refundAdjustment"),
            Part("transactions", "refundTransaction"),
        ),
        aged=True,
        kind=Kind(
            name="refund",
            topics=tuple(_REFUND),
            list=Listing.WHOLE,
            feed="refunds of orders by updated_at",
            fetch="refund(id)",
            deletion="null, with its order; believed with read_all_orders",
            permission="read_orders; read_all_orders beyond 60 days",
            cost="1 call, with more than 10 lines 1 per 50 and 1; 1 per 8 orders listed",
            columns=_columns("""
                order_id text /order/id
                total_refunded numeric /totalRefundedSet/shopMoney/amount
                currency text /totalRefundedSet/shopMoney/currencyCode
                note text /note
                processed_at timestamptz /processedAt
                created_at timestamptz /createdAt
            """),
            feed_lag=_FEED_LAG,
            blind="the end of one whose order was deleted; without read_all_orders: those of orders older than 60 days",
        ),
    ),
)

KINDS: Final[Mapping[str, Row]] = {row.kind.name: row for row in _ROWS}
"""Every kind, by name."""
