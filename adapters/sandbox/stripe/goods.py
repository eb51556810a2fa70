"""What is sold and agreed, as Stripe shows it when it is new: the kinds beyond the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.stripe.bodies import MONTH, whole_list

if TYPE_CHECKING:
    from adapters.sandbox.stripe.bodies import Draft
    from adapters.sandbox.world import Body

_NO_TAX = {"disabled_reason": None, "enabled": False, "liability": None, "provider": None, "status": None}


def plan(draft: Draft) -> Body:
    """Return a new monthly plan."""
    return _of(draft, "plan") | {
        "active": True,
        "amount": draft.amount,
        "amount_decimal": str(draft.amount),
        "billing_scheme": "per_unit",
        "currency": "eur",
        "interval": "month",
        "interval_count": 1,
        "meter": None,
        "nickname": None,
        "product": draft.related("product"),
        "tiers_mode": None,
        "transform_usage": None,
        "trial_period_days": None,
        "usage_type": "licensed",
    }


def coupon(draft: Draft) -> Body:
    """Return a new coupon."""
    return _of(draft, "coupon") | {
        "amount_off": None,
        "currency": None,
        "duration": "once",
        "duration_in_months": None,
        "max_redemptions": None,
        "name": f"Coupon {draft.turn}",
        "percent_off": 10,
        "redeem_by": None,
        "times_redeemed": 0,
        "valid": True,
    }


def promotion_code(draft: Draft) -> Body:
    """Return a new promotion code."""
    return _of(draft, "promotion_code") | {
        "active": True,
        "code": f"CODE{draft.turn}",
        "customer": None,
        "expires_at": None,
        "max_redemptions": None,
        "promotion": {"coupon": draft.related("coupon"), "type": "coupon"},
        "restrictions": {
            "first_time_transaction": False,
            "minimum_amount": None,
            "minimum_amount_currency": None,
        },
        "times_redeemed": 0,
    }


def tax_rate(draft: Draft) -> Body:
    """Return a new tax rate."""
    return _of(draft, "tax_rate") | {
        "active": True,
        "country": "DE",
        "description": None,
        "display_name": "VAT",
        "effective_percentage": 19,
        "flat_amount": None,
        "inclusive": True,
        "jurisdiction": "DE",
        "jurisdiction_level": "country",
        "percentage": 19,
        "rate_type": "percentage",
        "state": None,
        "tax_type": "vat",
    }


def payment_link(draft: Draft) -> Body:
    """Return a new payment link; those do not say when they were created."""
    return _of(draft, "payment_link", "created") | {
        "active": True,
        "after_completion": {"hosted_confirmation": {"custom_message": None}, "type": "hosted_confirmation"},
        "allow_promotion_codes": False,
        "application_fee_amount": None,
        "automatic_tax": {"enabled": False, "liability": None},
        "billing_address_collection": "auto",
        "currency": "eur",
        "custom_fields": [],
        "custom_text": {
            "after_submit": None,
            "shipping_address": None,
            "submit": None,
            "terms_of_service_acceptance": None,
        },
        "customer_creation": "if_required",
        "payment_method_collection": "always",
        "phone_number_collection": {"enabled": False},
        "shipping_options": [],
        "submit_type": "auto",
        "tax_id_collection": {"enabled": False, "required": "never"},
        "url": f"https://buy.stripe.com/test_{draft.turn}",
    }


def subscription_schedule(draft: Draft) -> Body:
    """Return a new schedule in its first phase."""
    phase, price = {"start_date": draft.created, "end_date": draft.created + MONTH}, draft.related("price")
    begun = phase | {
        "add_invoice_items": [],
        "currency": "eur",
        "discounts": [],
        "items": [{"discounts": [], "plan": price, "price": price, "quantity": 1}],
        "proration_behavior": "create_prorations",
    }
    return _of(draft, "subscription_schedule") | {
        "billing_mode": {"flexible": None, "type": "classic"},
        "canceled_at": None,
        "completed_at": None,
        "current_phase": phase,
        "customer": draft.related("customer"),
        "default_settings": {
            "billing_cycle_anchor": "automatic",
            "collection_method": "charge_automatically",
            "invoice_settings": {"account_tax_ids": None, "days_until_due": None, "issuer": {"type": "self"}},
        },
        "end_behavior": "release",
        "pause_schedules": [],
        "phases": [begun],
        "released_at": None,
        "released_subscription": None,
        "status": "active",
        "subscription": draft.related("subscription"),
    }


def quote(draft: Draft) -> Body:
    """Return a new draft of a quote."""
    none_given = {"amount_discount": 0, "amount_shipping": None, "amount_tax": 0}
    upfront = {"amount_subtotal": draft.amount, "amount_total": draft.amount, "total_details": none_given}
    return _of(draft, "quote") | {
        "amount_subtotal": draft.amount,
        "amount_total": draft.amount,
        "automatic_tax": _NO_TAX,
        "collection_method": "charge_automatically",
        "computed": {"recurring": None, "upfront": upfront},
        "currency": "eur",
        "customer": draft.related("customer"),
        "description": None,
        "discounts": [],
        "expires_at": draft.created + MONTH,
        "invoice": None,
        "invoice_settings": {"days_until_due": None, "issuer": {"type": "self"}},
        "number": None,
        "status": "draft",
        "status_transitions": {"accepted_at": None, "canceled_at": None, "finalized_at": None},
        "subscription": None,
        "subscription_data": {
            "billing_mode": {"flexible": None, "type": "classic"},
            "description": None,
            "effective_date": None,
            "trial_period_days": None,
        },
        "total_details": none_given,
    }


def invoiceitem(draft: Draft) -> Body:
    """Return a new item for the next invoice; it has a date instead of a time of creation."""
    return _of(draft, "invoiceitem", "created") | {
        "amount": draft.amount,
        "currency": "eur",
        "customer": draft.related("customer"),
        "date": draft.created,
        "description": None,
        "discountable": True,
        "discounts": [],
        "invoice": None,
        "parent": None,
        "period": {"end": draft.created, "start": draft.created},
        "pricing": {
            "price_details": {"price": draft.related("price"), "product": draft.related("product")},
            "type": "price_details",
            "unit_amount_decimal": str(draft.amount),
        },
        "proration": False,
        "quantity": 1,
        "quantity_decimal": "1",
        "tax_rates": [],
        "test_clock": None,
    }


def credit_note(draft: Draft) -> Body:
    """Return a new credit note."""
    lines = [_credited(draft) for _ in range(draft.parts)]
    total = draft.amount * draft.parts
    return _of(draft, "credit_note") | {
        "amount": total,
        "amount_shipping": 0,
        "currency": "eur",
        "customer": draft.related("customer"),
        "discount_amount": 0,
        "discount_amounts": [],
        "invoice": draft.related("invoice"),
        "lines": whole_list(lines, url=f"/v1/credit_notes/{draft.id}/lines"),
        "memo": None,
        "number": f"CN-{draft.turn}",
        "pdf": f"https://pay.stripe.com/credit_notes/test_{draft.turn}/pdf",
        "post_payment_amount": 0,
        "pre_payment_amount": total,
        "pretax_credit_amounts": [],
        "reason": "order_change",
        "refunds": [],
        "status": "issued",
        "subtotal": total,
        "total": total,
        "type": "pre_payment",
        "voided_at": None,
    }


def tax_id(draft: Draft) -> Body:
    """Return a new tax id of a customer."""
    customer = draft.related("customer")
    return _of(draft, "tax_id", "metadata") | {
        "country": "DE",
        "customer": customer,
        "owner": {"customer": customer, "type": "customer"},
        "type": "eu_vat",
        "value": f"DE{draft.turn:09}",
        "verification": {"status": "pending", "verified_address": None, "verified_name": None},
    }


def _credited(draft: Draft) -> Body:
    return {
        "id": draft.new_id("cnli_"),
        "object": "credit_note_line_item",
        "amount": draft.amount,
        "description": "One line",
        "discount_amount": 0,
        "discount_amounts": [],
        "livemode": False,
        "pretax_credit_amounts": [],
        "quantity": 1,
        "tax_rates": [],
        "type": "custom_line_item",
    }


def _of(draft: Draft, name: str, *without: str) -> Body:
    body = {"id": draft.id, "object": name, "created": draft.created, "livemode": False, "metadata": {}}
    return {field: value for field, value in body.items() if field not in without}
