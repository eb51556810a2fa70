"""What a shop sells and sends: orders, and all that comes of them."""

from __future__ import annotations

from typing import Final

from adapters.shopify.rows import ANYWHERE, FEED_LAG, Part, Row, columns, topics
from reconciler.adapter import Kind, Listing

_ORDER_MOVES = "create updated paid partially_fulfilled fulfilled cancelled"
_ORDER = topics("orders", f"{_ORDER_MOVES} delete") | {
    "orders/edited": "/order_edit/order_id",
    "order_transactions/create": "/order_id",
    "refunds/create": "/order_id",
    "fulfillments/create": "/order_id",
    "fulfillments/update": "/order_id",
}
_REFUND = topics("refunds", "create") | topics("orders", _ORDER_MOVES, "/refunds/*/id")
_FULFILLMENT = (
    topics("fulfillments", "create update")
    | topics("fulfillment_events", "create delete", "/fulfillment_id")
    | topics("orders", _ORDER_MOVES, "/fulfillments/*/id")
)
_FULFILLMENT_ORDER = topics("fulfillment_holds", "added released", ANYWHERE) | topics(
    "fulfillment_orders",
    """
    cancellation_request_accepted cancellation_request_rejected cancellation_request_submitted cancelled
    fulfillment_request_accepted fulfillment_request_rejected fulfillment_request_submitted
    fulfillment_service_failed_to_complete hold_released line_items_prepared_for_local_delivery
    line_items_prepared_for_pickup manually_reported_progress_stopped merged moved order_routing_complete
    placed_on_hold progress_reported rescheduled scheduled_fulfillment_order_ready split
    """,
    ANYWHERE,
)
_DRAFT_ORDER = topics("draft_orders", "create update delete")
_DISCOUNT = topics("discounts", "create update delete redeemcode_added redeemcode_removed", "/admin_graphql_api_id")

ROWS: Final = (
    Row(
        type="Order",
        root="order",
        list="orders",
        topics=_ORDER,
        parts=(Part("lineItems", "orderLine"), Part("shippingLines", "orderShipping")),
        destroyed=("ORDER",),
        created="created_at",
        aged=True,
        count="ordersCount",
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
            worth="what is paid, refunded, cancelled or shipped decides what leaves the house",
            page=8,
            test="/test",
            unordered=("/tags",),
            columns=columns("""
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
            feed_lag=FEED_LAG,
            blind="without read_all_orders: orders older than 60 days",
        ),
    ),
    Row(
        type="Refund",
        root="refund",
        list="orders",
        inside="refunds",
        holder="Order",
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
            worth="its transactions settle after its webhook",
            page=8,
            columns=columns("""
                order_id text /order/id
                total_refunded numeric /totalRefundedSet/shopMoney/amount
                currency text /totalRefundedSet/shopMoney/currencyCode
                note text /note
                processed_at timestamptz /processedAt
                created_at timestamptz /createdAt
            """),
            feed_lag=FEED_LAG,
            blind="the end of one whose order was deleted; without read_all_orders: those of orders older than 60 days",
        ),
    ),
    Row(
        type="Fulfillment",
        root="fulfillment",
        list="orders",
        inside="fulfillments",
        holder="Order",
        topics=_FULFILLMENT,
        parts=(Part("fulfillmentLineItems", "fulfillmentLine"),),
        aged=True,
        kind=Kind(
            name="fulfillment",
            core=False,
            topics=tuple(_FULFILLMENT),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="fulfillments of orders by updated_at",
            fetch="fulfillment(id)",
            deletion="null, with its order; believed with read_all_orders; a cancelled one stays, as CANCELLED",
            permission="read_orders, read_locations; read_all_orders beyond 60 days",
            cost="1 call, with more than 10 lines 1 per 50 and 1; 1 per 20 orders listed",
            worth="the carrier moves it long after it was made",
            page=20,
            columns=columns("""
                order_id text /order/id
                name text /name
                status text /status
                display_status text /displayStatus
                location text /location/id
                total_quantity bigint /totalQuantity
                tracking_company text /trackingInfo/0/company
                tracking_number text /trackingInfo/0/number
                in_transit_at timestamptz /inTransitAt
                estimated_delivery_at timestamptz /estimatedDeliveryAt
                delivered_at timestamptz /deliveredAt
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="one that moves while its order's updatedAt stays; those of orders older than 60 days without "
            "read_all_orders",
        ),
    ),
    Row(
        type="FulfillmentOrder",
        root="fulfillmentOrder",
        list="fulfillmentOrders",
        given="includeClosed: true",
        topics=_FULFILLMENT_ORDER,
        parts=(Part("lineItems", "fulfillmentOrderLine"),),
        aged=True,
        kind=Kind(
            name="fulfillment_order",
            core=False,
            topics=tuple(_FULFILLMENT_ORDER),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="fulfillmentOrders by updated_at, closed ones too",
            fetch="fulfillmentOrder(id)",
            deletion="null, with its order; believed with read_all_orders; a merged one stays, as CLOSED",
            permission="read_merchant_managed_fulfillment_orders, read_assigned_fulfillment_orders or "
            "read_third_party_fulfillment_orders, each for its own; read_locations",
            cost="1 call, with more than 10 lines 1 per 50 and 1; 1 per 20 listed",
            worth="its webhooks tell its status and no more; what is to be packed, where and by when is in it",
            page=20,
            columns=columns("""
                order_id text /orderId
                order_name text /orderName
                status text /status
                request_status text /requestStatus
                location text /assignedLocation/location/id
                fulfill_at timestamptz /fulfillAt
                fulfill_by timestamptz /fulfillBy
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="those that the granted scopes do not show",
        ),
    ),
    Row(
        type="DraftOrder",
        root="draftOrder",
        list="draftOrders",
        topics=_DRAFT_ORDER,
        parts=(Part("lineItems", "draftOrderLine"),),
        destroyed=("DRAFT_ORDER",),
        created="created_at",
        count="draftOrdersCount",
        kind=Kind(
            name="draft_order",
            core=False,
            topics=tuple(_DRAFT_ORDER),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="draftOrders by updated_at, and events of action destroy",
            fetch="draftOrder(id)",
            deletion="null",
            permission="read_draft_orders, read_customers",
            cost="1 call, with more than 10 lines 1 per 50 and 1; 1 per 10 listed",
            worth="prices and stock are counted again whenever one is opened",
            page=10,
            unordered=("/tags",),
            columns=columns("""
                name text /name
                status text /status
                customer text /customer/id
                order_id text /order/id
                email text /email
                currency text /currencyCode
                total_price numeric /totalPriceSet/shopMoney/amount
                invoice_sent_at timestamptz /invoiceSentAt
                completed_at timestamptz /completedAt
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
        ),
    ),
    Row(
        type="DiscountNode",
        aliases=("DiscountAutomaticNode", "DiscountCodeNode"),
        root="discountNode",
        list="discountNodes",
        topics=_DISCOUNT,
        destroyed=("DISCOUNT_NODE", "DISCOUNT_AUTOMATIC_NODE", "DISCOUNT_CODE_NODE"),
        created="created_at",
        count="discountNodesCount",
        kind=Kind(
            name="discount",
            core=False,
            topics=tuple(_DISCOUNT),
            stamp="/discount/updatedAt",
            list=Listing.WHOLE,
            feed="discountNodes by updated_at, and events of action destroy",
            fetch="discountNode(id)",
            deletion="null",
            permission="read_discounts",
            cost="1 call; 1 per 50 listed",
            worth="its webhooks tell title and status and no more",
            page=50,
            unordered=("/discount/tags", "/discount/discountClasses"),
            volatile=("/discount/asyncUsageCount",),
            columns=columns("""
                type text /discount/__typename
                title text /discount/title
                status text /discount/status
                code text /discount/codes/nodes/0/code
                usage_limit bigint /discount/usageLimit
                usage_count bigint /discount/asyncUsageCount
                starts_at timestamptz /discount/startsAt
                ends_at timestamptz /discount/endsAt
                created_at timestamptz /discount/createdAt
                updated_at timestamptz /discount/updatedAt
            """),
            feed_lag=FEED_LAG,
            blind="how often it was used; codes beyond the first: codesCount tells how many there are",
        ),
    ),
)
"""Orders and what comes of them, each kind a row."""
