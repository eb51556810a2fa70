"""The kinds of Shopify that can be mirrored: one row describes one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.shopify import goods, sales
from adapters.shopify.rows import FEED_LAG, ITSELF, Part, Row, Walk, columns, topics
from reconciler.adapter import Kind, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALL_ORDERS", "KINDS", "Part", "Row", "Walk"]

ALL_ORDERS: Final = "read_all_orders"
"""The scope without which orders older than 60 days read as null."""

_CUSTOMER = topics("customers", "create update delete enable disable") | {
    "customers/merge": "/admin_graphql_api_customer_kept_id",
    "customers/purchasing_summary": "/customerId",
    "customers_marketing_consent/update": ITSELF,
    "customers_email_marketing_consent/update": "/customer_id",
    "customers_whats_app_marketing_consent/update": "/customer_id",
    "customer.tags_added": "/customerId",
    "customer.tags_removed": "/customerId",
}
_SHOP = topics("shop", "update") | topics("app", "uninstalled")

_ROWS = (
    Row(
        type="Customer",
        root="customer",
        list="customers",
        topics=_CUSTOMER,
        parts=(Part("addressesV2", "address"),),
        destroyed=("CUSTOMER",),
        created="customer_date",
        count="customersCount",
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
            worth="consent that was withdrawn must not be mailed",
            page=40,
            unordered=("/tags",),
            columns=columns("""
                display_name text /displayName
                email text /defaultEmailAddress/emailAddress
                phone text /defaultPhoneNumber/phoneNumber
                state text /state
                number_of_orders bigint /numberOfOrders
                amount_spent numeric /amountSpent/amount
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
            feed_lag=FEED_LAG,
        ),
    ),
    Row(
        type="Shop",
        root="shop",
        walk=Walk.ALONE,
        topics=_SHOP,
        kind=Kind(
            name="shop",
            core=False,
            topics=tuple(_SHOP),
            stamp="/updatedAt",
            list=Listing.WHOLE,
            feed="itself",
            fetch="shop",
            deletion="never: a shop that is closed, or that took the app off, is lost access",
            permission="none",
            cost="1 call",
            worth="one call: and it notices at once that the app was taken off",
            page=1,
            columns=columns("""
                name text /name
                domain text /myshopifyDomain
                email text /email
                currency text /currencyCode
                timezone text /ianaTimezone
                plan text /plan/publicDisplayName
                created_at timestamptz /createdAt
                updated_at timestamptz /updatedAt
            """),
        ),
    ),
)

_EVERY = (*sales.ROWS, *goods.ROWS, *_ROWS)

KINDS: Final[Mapping[str, Row]] = {
    row.kind.name: row for core in (True, False) for row in _EVERY if row.kind.core is core
}
"""Every kind, by name, the core ones first."""
