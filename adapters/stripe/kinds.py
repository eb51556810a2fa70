"""The kinds of Stripe that can be mirrored: one row describes one kind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from reconciler.adapter import Column, Kind, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

FEED_HISTORY: Final = timedelta(days=30)
"""How far back `GET /v1/events` reaches (SDK, _event_service.py)."""

_FEED_LAG = timedelta(minutes=5)  # events are made after the change, by a process nobody promises a time for
_ITSELF = "/id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    A kind, and how Stripe is asked about it.

    Attributes:
        path: Of its list call; `/{id}` after it fetches one.
        topics: Each event type that concerns it, and where the event's object holds its id.
        passes: The parameters of each list call that together show all of them: the defaults hide finished ones.
        recent: Its changes are announced so incompletely that what was created lately is listed too.
    """

    kind: Kind
    path: str
    topics: Mapping[str, str]
    passes: tuple[Mapping[str, str], ...] = ({},)
    recent: bool = False


NAMELESS: Final[Mapping[str, str]] = {
    "invoice.upcoming": "it shows a preview, which has no id that can be fetched",
}
"""Event types of these kinds' objects that name nothing, and why."""


def _topics(prefix: str, endings: str, pointer: str = _ITSELF) -> dict[str, str]:
    return {f"{prefix}.{ending}": pointer for ending in endings.split()}


def _columns(text: str) -> tuple[Column, ...]:
    """Read columns from lines of name, type and pointers (by default the field of that name)."""
    words = (line.split() for line in text.strip().splitlines())
    return tuple(Column(name, tuple(pointers) or (f"/{name}",), type_) for name, type_, *pointers in words)


_CUSTOMER = _topics("customer", "created updated deleted") | (
    _topics("customer.discount", "created updated deleted", "/customer")
    | _topics("customer.source", "created updated deleted expiring", "/customer")
    | _topics("customer.tax_id", "created updated deleted", "/customer")
)
_PRODUCT = _topics("product", "created updated deleted")
_PRICE = _topics("price", "created updated deleted")
_SUBSCRIPTION = _topics(
    "customer.subscription",
    "created updated deleted paused resumed trial_will_end pending_update_applied pending_update_expired",
) | _topics("customer.discount", "created updated deleted", "/subscription")
_INVOICE = (
    _topics(
        "invoice",
        "created updated deleted finalized finalization_failed sent paid payment_succeeded payment_failed "
        "payment_action_required payment_attempt_required marked_uncollectible voided overdue overpaid will_be_due",
    )
    | _topics("invoice_payment", "paid", "/invoice")
    | _topics("invoiceitem", "created deleted", "/invoice")
)
_PAYMENT_INTENT = _topics(
    "payment_intent",
    "created processing requires_action succeeded canceled payment_failed partially_funded amount_capturable_updated",
)
_CHARGE = _topics("charge", "succeeded pending failed captured updated refunded expired") | _topics(
    "charge.dispute", "created updated closed funds_withdrawn funds_reinstated", "/charge"
)
_REFUND = _topics("refund", "created updated failed") | _topics("charge.refund", "updated")

_ROWS = (
    Row(
        path="/v1/customers",
        topics=_CUSTOMER,
        kind=Kind(
            name="customer",
            topics=tuple(_CUSTOMER),
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/customers/{id}",
            deletion="200 with deleted: true",
            permission="Customers: read, Events: read",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                email text
                name text
                phone text
                currency text
                balance bigint
                delinquent boolean
                default_source text
                default_payment_method text /invoice_settings/default_payment_method
                created epoch
            """),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
            blind="customers on a test clock: the list leaves them out",
        ),
    ),
    Row(
        path="/v1/products",
        topics=_PRODUCT,
        kind=Kind(
            name="product",
            topics=tuple(_PRODUCT),
            stamp="/updated",
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/products/{id}",
            deletion="404 resource_missing; an id of one's own choice may be used again",
            permission="Products: read, Events: read",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                name text
                active boolean
                description text
                default_price text
                type text
                tax_code text
                created epoch
                updated epoch
            """),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
        ),
    ),
    Row(
        path="/v1/prices",
        topics=_PRICE,
        # "Returns a list of your active prices ... For the list of inactive prices, set active to false" (SDK).
        passes=({"active": "true"}, {"active": "false"}),
        kind=Kind(
            name="price",
            topics=tuple(_PRICE),
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/prices/{id}",
            deletion="404 resource_missing; normally a price is only made inactive",
            permission="Prices: read, Events: read",
            cost="1 call; 2 lists, 1 per 100 listed",
            columns=_columns("""
                product text
                active boolean
                type text
                currency text
                unit_amount bigint
                unit_amount_decimal numeric
                billing_scheme text
                recurring_interval text /recurring/interval
                recurring_interval_count bigint /recurring/interval_count
                lookup_key text
                nickname text
                created epoch
            """),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
            blind="inline prices (made with price_data): no list shows them",
        ),
    ),
    Row(
        path="/v1/subscriptions",
        topics=_SUBSCRIPTION,
        passes=({"status": "all"},),
        kind=Kind(
            name="subscription",
            topics=tuple(_SUBSCRIPTION),
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/subscriptions/{id}",
            deletion="never: a canceled one stays readable; 404 resource_missing if it does not",
            permission="Subscriptions: read, Events: read",
            cost="1 call, with more than 10 items 1 per 100 and 1; 1 per 100 listed",
            # Since 2025-03-31.basil the period is each item's own; before, the subscription's.
            columns=_columns("""
                customer text
                status text
                current_period_start epoch /items/data/0/current_period_start /current_period_start
                current_period_end epoch /items/data/0/current_period_end /current_period_end
                price text /items/data/0/price/id /plan/id
                quantity bigint /items/data/0/quantity /quantity
                cancel_at_period_end boolean
                cancel_at epoch
                canceled_at epoch
                ended_at epoch
                trial_end epoch
                start_date epoch
                collection_method text
                default_payment_method text
                latest_invoice text
                created epoch
            """),
            open_while=("/status", frozenset({"incomplete", "past_due", "unpaid"})),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
            blind="subscriptions on a test clock: the list leaves them out",
        ),
    ),
    Row(
        path="/v1/invoices",
        topics=_INVOICE,
        kind=Kind(
            name="invoice",
            topics=tuple(_INVOICE),
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/invoices/{id}",
            deletion="404 resource_missing: only drafts can be deleted",
            permission="Invoices: read, Events: read",
            cost="1 call, with more than 10 lines 1 per 100 and 1; 1 per 100 listed",
            volatile=("/hosted_invoice_url", "/invoice_pdf"),
            # Since 2025-03-31.basil: parent, payments and total_taxes instead of subscription, payment_intent and tax.
            columns=_columns("""
                customer text
                subscription text /parent/subscription_details/subscription /subscription
                number text
                status text
                currency text
                total bigint
                subtotal bigint
                amount_due bigint
                amount_paid bigint
                amount_remaining bigint
                payment_intent text /payments/data/0/payment/payment_intent /payment_intent
                collection_method text
                billing_reason text
                due_date epoch
                paid_at epoch /status_transitions/paid_at
                created epoch
            """),
            open_while=("/status", frozenset({"draft", "open"})),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
        ),
    ),
    Row(
        path="/v1/payment_intents",
        topics=_PAYMENT_INTENT,
        recent=True,
        kind=Kind(
            name="payment_intent",
            topics=tuple(_PAYMENT_INTENT),
            list=Listing.WHOLE,
            feed="GET /v1/events by type, and GET /v1/payment_intents by created",
            fetch="GET /v1/payment_intents/{id}",
            deletion="never; 404 resource_missing would be believed",
            permission="PaymentIntents: read, Events: read",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                customer text
                status text
                currency text
                amount bigint
                amount_received bigint
                amount_capturable bigint
                latest_charge text /latest_charge /charges/data/0/id
                payment_method text
                capture_method text
                cancellation_reason text
                canceled_at epoch
                created epoch
            """),
            open_while=(
                "/status",
                frozenset(
                    {
                        "requires_payment_method",
                        "requires_confirmation",
                        "requires_action",
                        "requires_capture",
                        "processing",
                    }
                ),
            ),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
            blind="edits (metadata, description) of a finished one: there is no payment_intent.updated",
        ),
    ),
    Row(
        path="/v1/charges",
        topics=_CHARGE,
        kind=Kind(
            name="charge",
            topics=tuple(_CHARGE),
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/charges/{id}",
            deletion="never; 404 resource_missing would be believed",
            permission="Charges and Refunds: read, Events: read",
            cost="1 call; 1 per 100 listed",
            volatile=("/receipt_url",),
            columns=_columns("""
                customer text
                payment_intent text
                invoice text
                status text
                currency text
                amount bigint
                amount_captured bigint
                amount_refunded bigint
                paid boolean
                captured boolean
                refunded boolean
                disputed boolean
                failure_code text
                balance_transaction text
                created epoch
            """),
            open_while=("/status", frozenset({"pending"})),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
        ),
    ),
    Row(
        path="/v1/refunds",
        topics=_REFUND,
        kind=Kind(
            name="refund",
            topics=tuple(_REFUND),
            list=Listing.WHOLE,
            feed="GET /v1/events by type",
            fetch="GET /v1/refunds/{id}",
            deletion="never; 404 resource_missing would be believed",
            permission="Charges and Refunds: read, Events: read",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                charge text
                payment_intent text
                status text
                currency text
                amount bigint
                reason text
                failure_reason text
                created epoch
            """),
            open_while=("/status", frozenset({"pending", "requires_action"})),
            feed_history=FEED_HISTORY,
            feed_lag=_FEED_LAG,
        ),
    ),
)

KINDS: Final[Mapping[str, Row]] = {row.kind.name: row for row in _ROWS}
"""Every kind, by name."""
