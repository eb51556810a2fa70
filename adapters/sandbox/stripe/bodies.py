"""What Stripe's objects look like when they are new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sandbox.world import Body

MONTH = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Draft:
    """
    What a new object is made from.

    Attributes:
        turn: The how-many-th of its kind it is; makes objects differ.
        parts: How many lines or items it has.
        related: Returns an id for a reference to an object of a kind: one that exists, if there is one.
        new_id: Makes an id with a prefix.
    """

    id: str
    created: int
    turn: int
    parts: int
    related: Callable[[str], str]
    new_id: Callable[[str], str]

    @property
    def amount(self) -> int:
        """An amount in minor units."""
        return 500 + 100 * (self.turn % 97)


def customer(draft: Draft) -> Body:
    """Return a new customer."""
    return {
        "id": draft.id,
        "object": "customer",
        "address": None,
        "balance": 0,
        "created": draft.created,
        "currency": None,
        "default_source": None,
        "delinquent": False,
        "description": None,
        "discount": None,
        "email": f"customer{draft.turn}@example.com",
        "invoice_prefix": f"{draft.turn:08X}",
        "invoice_settings": {
            "custom_fields": None,
            "default_payment_method": None,
            "footer": None,
            "rendering_options": None,
        },
        "livemode": False,
        "metadata": {},
        "name": f"Customer {draft.turn}",
        "next_invoice_sequence": 1,
        "phone": None,
        "preferred_locales": [],
        "shipping": None,
        "tax_exempt": "none",
        "test_clock": None,
    }


def product(draft: Draft) -> Body:
    """Return a new product."""
    return {
        "id": draft.id,
        "object": "product",
        "active": True,
        "created": draft.created,
        "default_price": None,
        "description": None,
        "images": [],
        "livemode": False,
        "marketing_features": [],
        "metadata": {},
        "name": f"Product {draft.turn}",
        "package_dimensions": None,
        "shippable": None,
        "statement_descriptor": None,
        "tax_code": None,
        "type": "service",
        "unit_label": None,
        "updated": draft.created,
        "url": None,
    }


def price(draft: Draft) -> Body:
    """Return a new monthly price."""
    return {
        "id": draft.id,
        "object": "price",
        "active": True,
        "billing_scheme": "per_unit",
        "created": draft.created,
        "currency": "eur",
        "custom_unit_amount": None,
        "livemode": False,
        "lookup_key": None,
        "metadata": {},
        "nickname": None,
        "product": draft.related("product"),
        "recurring": {
            "interval": "month",
            "interval_count": 1,
            "meter": None,
            "trial_period_days": None,
            "usage_type": "licensed",
        },
        "tax_behavior": "unspecified",
        "tiers_mode": None,
        "transform_quantity": None,
        "type": "recurring",
        "unit_amount": draft.amount,
        "unit_amount_decimal": str(draft.amount),
    }


def subscription(draft: Draft) -> Body:
    """Return a new active subscription."""
    return {
        "id": draft.id,
        "object": "subscription",
        "application": None,
        "application_fee_percent": None,
        "automatic_tax": {"disabled_reason": None, "enabled": False, "liability": None},
        "billing_cycle_anchor": draft.created,
        "billing_cycle_anchor_config": None,
        "billing_mode": {"flexible": None, "type": "classic"},
        "billing_schedules": [],
        "billing_thresholds": None,
        "cancel_at": None,
        "cancel_at_period_end": False,
        "canceled_at": None,
        "cancellation_details": {"comment": None, "feedback": None, "reason": None},
        "collection_method": "charge_automatically",
        "created": draft.created,
        "currency": "eur",
        "customer": draft.related("customer"),
        "days_until_due": None,
        "default_payment_method": None,
        "default_source": None,
        "default_tax_rates": [],
        "description": None,
        "discounts": [],
        "ended_at": None,
        "invoice_settings": {"account_tax_ids": None, "issuer": {"type": "self"}},
        "items": whole_list(
            [subscription_item(draft) for _ in range(draft.parts)],
            url=f"/v1/subscription_items?subscription={draft.id}",
        ),
        "latest_invoice": None,
        "livemode": False,
        "metadata": {},
        "next_pending_invoice_item_invoice": None,
        "on_behalf_of": None,
        "pause_collection": None,
        "payment_settings": {
            "payment_method_options": None,
            "payment_method_types": None,
            "save_default_payment_method": "off",
        },
        "pending_invoice_item_interval": None,
        "pending_setup_intent": None,
        "pending_update": None,
        "schedule": None,
        "start_date": draft.created,
        "status": "active",
        "test_clock": None,
        "transfer_data": None,
        "trial_end": None,
        "trial_settings": {"end_behavior": {"missing_payment_method": "create_invoice"}},
        "trial_start": None,
    }


def subscription_item(draft: Draft) -> Body:
    """Return a new item of the subscription that *draft* is for."""
    priced = {**price(draft), "id": draft.related("price")}
    return {
        "id": draft.new_id("si_"),
        "object": "subscription_item",
        "billing_thresholds": None,
        "created": draft.created,
        "current_period_end": draft.created + MONTH,
        "current_period_start": draft.created,
        "discounts": [],
        "metadata": {},
        "plan": _plan_of(priced),
        "price": priced,
        "quantity": 1,
        "subscription": draft.id,
        "tax_rates": [],
    }


def _plan_of(priced: Body) -> Body:
    """Return the older form of a price, which its items still show beside it."""
    alike = ("id", "active", "billing_scheme", "created", "currency", "livemode", "metadata", "nickname", "product")
    recurring = ("interval", "interval_count", "meter", "trial_period_days", "usage_type")
    return {
        **{name: priced[name] for name in alike},
        **{name: priced["recurring"][name] for name in recurring},
        "object": "plan",
        "amount": priced["unit_amount"],
        "amount_decimal": priced["unit_amount_decimal"],
        "tiers_mode": None,
        "transform_usage": None,
    }


def invoice(draft: Draft) -> Body:
    """Return a new draft invoice."""
    lines = [invoice_line(draft) for _ in range(draft.parts)]
    total = sum(line["amount"] for line in lines)
    return {
        "id": draft.id,
        "object": "invoice",
        "account_country": "DE",
        "account_name": "Stand-in",
        "account_tax_ids": None,
        "amount_due": total,
        "amount_overpaid": 0,
        "amount_paid": 0,
        "amount_remaining": total,
        "amount_shipping": 0,
        "application": None,
        "attempt_count": 0,
        "attempted": False,
        "auto_advance": False,
        "automatic_tax": {
            "disabled_reason": None,
            "enabled": False,
            "liability": None,
            "provider": None,
            "status": None,
        },
        "automatically_finalizes_at": None,
        "billing_reason": "manual",
        "collection_method": "charge_automatically",
        "created": draft.created,
        "currency": "eur",
        "custom_fields": None,
        "customer": draft.related("customer"),
        "customer_address": None,
        "customer_email": None,
        "customer_name": None,
        "customer_phone": None,
        "customer_shipping": None,
        "customer_tax_exempt": "none",
        "customer_tax_ids": [],
        "default_payment_method": None,
        "default_source": None,
        "default_tax_rates": [],
        "description": None,
        "discounts": [],
        "due_date": None,
        "effective_at": None,
        "ending_balance": None,
        "footer": None,
        "from_invoice": None,
        "hosted_invoice_url": None,
        "invoice_pdf": None,
        "issuer": {"type": "self"},
        "last_finalization_error": None,
        "latest_revision": None,
        "lines": whole_list(lines, url=f"/v1/invoices/{draft.id}/lines"),
        "livemode": False,
        "metadata": {},
        "next_payment_attempt": None,
        "number": None,
        "on_behalf_of": None,
        "parent": None,
        "payment_settings": {
            "default_mandate": None,
            "payment_method_options": None,
            "payment_method_types": None,
        },
        "period_end": draft.created,
        "period_start": draft.created,
        "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0,
        "receipt_number": None,
        "rendering": None,
        "shipping_cost": None,
        "shipping_details": None,
        "starting_balance": 0,
        "statement_descriptor": None,
        "status": "draft",
        "status_transitions": {
            "finalized_at": None,
            "marked_uncollectible_at": None,
            "paid_at": None,
            "voided_at": None,
        },
        "subtotal": total,
        "subtotal_excluding_tax": total,
        "test_clock": None,
        "total": total,
        "total_discount_amounts": [],
        "total_excluding_tax": total,
        "total_pretax_credit_amounts": [],
        "total_taxes": [],
        "webhooks_delivered_at": None,
    }


def invoice_line(draft: Draft) -> Body:
    """Return a new line of the invoice that *draft* is for."""
    return {
        "id": draft.new_id("il_"),
        "object": "line_item",
        "amount": draft.amount,
        "currency": "eur",
        "description": "One line",
        "discount_amounts": [],
        "discountable": True,
        "discounts": [],
        "invoice": draft.id,
        "livemode": False,
        "metadata": {},
        "parent": None,
        "period": {"end": draft.created, "start": draft.created},
        "pretax_credit_amounts": [],
        "pricing": {
            "price_details": {"price": draft.related("price"), "product": draft.related("product")},
            "type": "price_details",
            "unit_amount_decimal": str(draft.amount),
        },
        "quantity": 1,
        "quantity_decimal": "1",
        "subtotal": draft.amount,
        "taxes": [],
    }


def payment_intent(draft: Draft) -> Body:
    """Return a new payment intent that nobody has paid yet."""
    return {
        "id": draft.id,
        "object": "payment_intent",
        "amount": draft.amount,
        "amount_capturable": 0,
        "amount_details": {"tip": {}},
        "amount_received": 0,
        "application": None,
        "application_fee_amount": None,
        "automatic_payment_methods": {"allow_redirects": "always", "enabled": True},
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": "automatic_async",
        "client_secret": f"{draft.id}_secret_standin",
        "confirmation_method": "automatic",
        "created": draft.created,
        "currency": "eur",
        "customer": draft.related("customer"),
        "description": None,
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": {},
        "next_action": None,
        "on_behalf_of": None,
        "payment_method": None,
        "payment_method_configuration_details": None,
        "payment_method_options": {},
        "payment_method_types": ["card"],
        "processing": None,
        "receipt_email": None,
        "review": None,
        "setup_future_usage": None,
        "shipping": None,
        "source": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "requires_payment_method",
        "transfer_data": None,
        "transfer_group": None,
    }


def charge(draft: Draft) -> Body:
    """Return a new charge that succeeded."""
    return {
        "id": draft.id,
        "object": "charge",
        "amount": draft.amount,
        "amount_captured": draft.amount,
        "amount_refunded": 0,
        "application": None,
        "application_fee": None,
        "application_fee_amount": None,
        "balance_transaction": draft.new_id("txn_"),
        "billing_details": {
            "address": {
                "city": None,
                "country": None,
                "line1": None,
                "line2": None,
                "postal_code": None,
                "state": None,
            },
            "email": None,
            "name": None,
            "phone": None,
            "tax_id": None,
        },
        "calculated_statement_descriptor": "STANDIN",
        "captured": True,
        "created": draft.created,
        "currency": "eur",
        "customer": draft.related("customer"),
        "description": None,
        "disputed": False,
        "failure_balance_transaction": None,
        "failure_code": None,
        "failure_message": None,
        "fraud_details": {},
        "livemode": False,
        "metadata": {},
        "on_behalf_of": None,
        "outcome": {
            "advice_code": None,
            "network_advice_code": None,
            "network_decline_code": None,
            "network_status": "approved_by_network",
            "reason": None,
            "risk_level": "normal",
            "seller_message": "Payment complete.",
            "type": "authorized",
        },
        "paid": True,
        "payment_intent": None,
        "payment_method": draft.new_id("pm_"),
        "payment_method_details": {
            "card": {"brand": "visa", "exp_month": 12, "exp_year": 2040, "last4": "4242"},
            "type": "card",
        },
        "radar_options": {},
        "receipt_email": None,
        "receipt_number": None,
        "receipt_url": None,
        "refunded": False,
        "review": None,
        "shipping": None,
        "source": None,
        "source_transfer": None,
        "statement_descriptor": None,
        "statement_descriptor_suffix": None,
        "status": "succeeded",
        "transfer_data": None,
        "transfer_group": None,
    }


def refund(draft: Draft) -> Body:
    """Return a new refund of a small part of a charge."""
    return {
        "id": draft.id,
        "object": "refund",
        "amount": 1,
        "balance_transaction": draft.new_id("txn_"),
        "charge": draft.related("charge"),
        "created": draft.created,
        "currency": "eur",
        "destination_details": {"card": {"type": "refund"}, "type": "card"},
        "metadata": {},
        "payment_intent": None,
        "reason": "requested_by_customer",
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": "succeeded",
        "transfer_reversal": None,
    }


def account(id_: str, *, created: int) -> Body:
    """Return an account."""
    return {
        "id": id_,
        "object": "account",
        "business_profile": {"mcc": None, "name": "Stand-in", "url": None},
        "business_type": "company",
        "capabilities": {"card_payments": "active", "transfers": "active"},
        "charges_enabled": True,
        "country": "DE",
        "created": created,
        "default_currency": "eur",
        "details_submitted": True,
        "email": "owner@example.com",
        "metadata": {},
        "payouts_enabled": True,
        "settings": {
            "branding": {"icon": None, "logo": None, "primary_color": None, "secondary_color": None},
            "card_payments": {"decline_on": None, "statement_descriptor_prefix": None},
            "dashboard": {"display_name": "Stand-in", "timezone": "Europe/Berlin"},
            "payments": {"statement_descriptor": None},
        },
        "type": "standard",
    }


def whole_list(parts: list[Body], *, url: str) -> Body:
    """Return the list object that holds all of *parts*."""
    return {"object": "list", "data": parts, "has_more": False, "total_count": len(parts), "url": url}
