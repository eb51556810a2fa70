"""Topics that name nothing, on purpose: each with the reason."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_MIRRORED = "about what no kind mirrors"
_ITS_OWN = "what it moves in a mirrored object has a topic of its own"
_LISTED = "about what is shown where, which no kind holds"

IGNORED: Final[Mapping[str, str]] = {
    "APP_PURCHASES_*": "about what merchants pay for the app",
    "APP_SCOPES_UPDATE": "about the app: kinds that wait for a permission are tried at once",
    "APP_SUBSCRIPTIONS_*": "about what merchants pay for the app",
    "AUDIT_EVENTS_*": "about who called the API",
    "BULK_OPERATIONS_FINISH": "whoever began a bulk operation asks how it goes",
    "CARTS_*": "carts have no Admin API to read them from",
    "CHANNELS_*": _NOT_MIRRORED,
    "CHECKOUTS_*": "checkouts have no Admin API that shows one that is not abandoned",
    "COLLECTION_LISTINGS_*": _LISTED,
    "COLLECTION_PUBLICATIONS_*": _LISTED,
    "COMPAN*": _NOT_MIRRORED,
    "CUSTOMER_ACCOUNT_SETTINGS_*": _NOT_MIRRORED,
    "CUSTOMER_GROUPS_*": _NOT_MIRRORED,
    "CUSTOMER_JOINED_SEGMENT": "segments are searches, and no part of a customer",
    "CUSTOMER_LEFT_SEGMENT": "segments are searches, and no part of a customer",
    "CUSTOMER_PAYMENT_METHODS_*": _NOT_MIRRORED,
    "DELIVERY_PROMISE_SETTINGS_*": _NOT_MIRRORED,
    "DISPUTES_*": _NOT_MIRRORED,
    "DOMAINS_*": _ITS_OWN,
    "FINANCE_*": _NOT_MIRRORED,
    "INVENTORY_SHIPMENTS_*": _ITS_OWN,
    "INVENTORY_TRANSFERS_*": _ITS_OWN,
    "LOCALES_*": _NOT_MIRRORED,
    "MARKETS_*": _NOT_MIRRORED,
    "METAFIELD_DEFINITIONS_*": "about what metafields may be called, not what they hold",
    "METAOBJECTS_*": _NOT_MIRRORED,
    "ORDERS_LINK_REQUESTED": "somebody asked to see the order, which does not change it",
    "ORDERS_RISK_ASSESSMENT_CHANGED": "an order's risk is no field that is asked for",
    "ORDERS_SHOPIFY_PROTECT_ELIGIBILITY_CHANGED": "an order's protection is no field that is asked for",
    "PAYMENT_SCHEDULES_*": _NOT_MIRRORED,
    "PAYMENT_TERMS_*": _NOT_MIRRORED,
    "PRODUCT_FEEDS_*": _LISTED,
    "PRODUCT_LISTINGS_*": _LISTED,
    "PRODUCT_PUBLICATIONS_*": _LISTED,
    "PROFILES_*": "about delivery profiles, which no kind mirrors",
    "RETURNS_*": _ITS_OWN,
    "REVERSE_*": _NOT_MIRRORED,
    "SCHEDULED_PRODUCT_LISTINGS_*": _LISTED,
    "SEGMENTS_*": _NOT_MIRRORED,
    "SELLING_PLAN_GROUPS_*": _NOT_MIRRORED,
    "SHIPPING_ADDRESSES_*": _ITS_OWN,
    "SUBSCRIPTION_*": _NOT_MIRRORED,
    "TAX_SERVICES_*": _NOT_MIRRORED,
    "TENDER_TRANSACTIONS_*": _ITS_OWN,
    "THEMES_*": _NOT_MIRRORED,
}
"""By topic, as the enum WebhookSubscriptionTopic of the Admin API spells it; `*` stands for anything."""


def spelled(topic: str) -> str:
    """Return *topic* as the enum spells it."""
    return re.sub(r"[/.]", "_", topic).upper()


def why_ignored(topic: str) -> str:
    """Return why *topic* names nothing; empty where it may name something."""
    return next((reason for pattern, reason in IGNORED.items() if fnmatchcase(spelled(topic), pattern)), "")
