"""Event types about nothing that is mirrored, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMELESS: Final[Mapping[str, str]] = {
    "invoice.upcoming": "it shows a preview, which has no id that can be fetched",
}
"""Event types of our kinds' objects that name nothing, and why."""

IGNORED: Final[Mapping[str, str]] = {
    "apps.install.*": "about an app on the dashboard, which holds nothing one sells or is paid for",
    "balance.available": "about the account's one balance, which is a sum: balance_transaction is what it sums",
    "balance_settings.*": "about settings of the account, which no kind holds",
    "billing.alert.*": "about a threshold that was crossed, which is over when it is told",
    "billing.credit_*": "about prepaid credit, which no kind holds in this version",
    "billing.meter.*": "about usage, which no kind holds in this version",
    "billing_portal.*": "about a page for customers, and its sessions, which end by themselves",
    "cash_balance.*": "about a customer's cash, which is a sum",
    "climate.*": "about carbon removal, which no kind holds",
    "customer_cash_balance_transaction.*": "about a customer's cash, which no kind holds in this version",
    "entitlements.*": "about a summary of what a customer may use, which has no id that can be fetched",
    "financial_connections.*": "about bank accounts of others, which must not be copied without their leave",
    "identity.*": "about identity papers, which must not be copied",
    "issuing_*": "about cards one issues, which no kind holds in this version",
    "radar.*": "about a suspicion, which shows in the charge once it is acted on",
    "reporting.*": "about reports, which are made from what is mirrored",
    "reserve.*": "about what Stripe holds back, which no kind holds in this version",
    "review.*": "about a review by hand: its list shows open ones only, and the charge shows how it ended",
    "sigma.*": "about a query, not about what it found",
    "source.*": "about a way to pay that Stripe has retired in favour of payment_method",
    "tax.settings.*": "about settings of the account, which no kind holds",
    "terminal.*": "about a device, and what it is doing right now",
    "test_helpers.*": "about clocks of tests: what they move is announced by events of its own",
    "three_d_secure.*": "about a step of a payment, which shows in the payment_intent",
    "treasury.*": "about accounts one keeps for others, which no kind holds in this version",
    "v2.*": "about objects of the second API, which no kind holds in this version",
}
"""Patterns of event types about objects of no kind of ours, and why."""
