"""How money comes and goes, as Stripe shows it when it is new: the kinds beyond the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.stripe.bodies import whole_list

if TYPE_CHECKING:
    from adapters.sandbox.stripe.bodies import Draft
    from adapters.sandbox.world import Body

DAY = 24 * 3600

_NO_ADDRESS = {"city": None, "country": None, "line1": None, "line2": None, "postal_code": None, "state": None}


def payment_method(draft: Draft) -> Body:
    """Return a new card of a customer."""
    return _of(draft, "payment_method") | {
        "allow_redisplay": "unspecified",
        "billing_details": {"address": _NO_ADDRESS, "email": None, "name": None, "phone": None, "tax_id": None},
        "card": {
            "brand": "visa",
            "exp_month": 12,
            "exp_year": 2040,
            "fingerprint": "standin",
            "funding": "credit",
            "last4": "4242",
        },
        "customer": draft.related("customer"),
        "type": "card",
    }


def setup_intent(draft: Draft) -> Body:
    """Return a new setup intent."""
    return _of(draft, "setup_intent") | {
        "application": None,
        "cancellation_reason": None,
        "client_secret": f"{draft.id}_secret_standin",
        "customer": draft.related("customer"),
        "description": None,
        "last_setup_error": None,
        "latest_attempt": None,
        "mandate": None,
        "next_action": None,
        "payment_method": None,
        "payment_method_types": ["card"],
        "single_use_mandate": None,
        "status": "requires_payment_method",
        "usage": "off_session",
    }


def mandate(draft: Draft) -> Body:
    """Return a new mandate; those do not say when they were created."""
    return _of(draft, "mandate", "created", "metadata") | {
        "customer_acceptance": {"accepted_at": draft.created, "offline": {}, "type": "offline"},
        "multi_use": {},
        "payment_method": draft.related("payment_method"),
        "payment_method_details": {
            "sepa_debit": {"reference": f"REF{draft.turn}", "url": f"https://hooks.stripe.com/mandates/{draft.turn}"},
            "type": "sepa_debit",
        },
        "status": "active",
        "type": "multi_use",
    }


def checkout_session(draft: Draft) -> Body:
    """Return a new open session."""
    return _of(draft, "checkout.session") | {
        "amount_subtotal": draft.amount,
        "amount_total": draft.amount,
        "automatic_tax": {"enabled": False, "liability": None, "provider": None, "status": None},
        "client_reference_id": None,
        "currency": "eur",
        "custom_fields": [],
        "custom_text": {
            "after_submit": None,
            "shipping_address": None,
            "submit": None,
            "terms_of_service_acceptance": None,
        },
        "customer": draft.related("customer"),
        "expires_at": draft.created + DAY,
        "invoice": None,
        "mode": "payment",
        "payment_intent": None,
        "payment_link": None,
        "payment_method_types": ["card"],
        "payment_status": "unpaid",
        "shipping_options": [],
        "status": "open",
        "subscription": None,
        "url": f"https://checkout.stripe.com/c/pay/{draft.id}",
    }


def dispute(draft: Draft) -> Body:
    """Return a new dispute that needs a response."""
    return _of(draft, "dispute") | {
        "amount": draft.amount,
        "balance_transactions": [],
        "charge": draft.related("charge"),
        "currency": "eur",
        "enhanced_eligibility_types": [],
        "evidence": {"enhanced_evidence": {}, "uncategorized_text": None},
        "evidence_details": {
            "due_by": draft.created + 7 * DAY,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
            "submission_method": "not_submitted",
        },
        "is_charge_refundable": False,
        "payment_intent": None,
        "reason": "general",
        "status": "needs_response",
    }


def balance_transaction(draft: Draft) -> Body:
    """Return a new movement of the balance that is not available yet."""
    return _of(draft, "balance_transaction", "livemode", "metadata") | {
        "amount": draft.amount,
        "available_on": draft.created + 2 * DAY,
        "balance_type": "payments",
        "currency": "eur",
        "description": None,
        "exchange_rate": None,
        "fee": 30,
        "fee_details": [
            {"amount": 30, "application": None, "currency": "eur", "description": None, "type": "stripe_fee"}
        ],
        "net": draft.amount - 30,
        "reporting_category": "charge",
        "source": draft.related("charge"),
        "status": "pending",
        "type": "charge",
    }


def payout(draft: Draft) -> Body:
    """Return a new payout that is on its way."""
    return _of(draft, "payout") | {
        "amount": draft.amount,
        "arrival_date": draft.created + 2 * DAY,
        "automatic": True,
        "balance_transaction": draft.new_id("txn_"),
        "currency": "eur",
        "description": None,
        "destination": draft.new_id("ba_"),
        "failure_code": None,
        "method": "standard",
        "reconciliation_status": "in_progress",
        "source_type": "card",
        "status": "in_transit",
        "trace_id": None,
        "type": "bank_account",
    }


def transfer(draft: Draft) -> Body:
    """Return a new transfer, and what of it was taken back."""
    return _of(draft, "transfer") | {
        "amount": draft.amount,
        "amount_reversed": draft.parts,
        "balance_transaction": draft.new_id("txn_"),
        "currency": "eur",
        "description": None,
        "destination": "acct_standin_destination",
        "destination_payment": draft.new_id("py_"),
        "reversals": whole_list(
            [_reversal(draft) for _ in range(draft.parts)], url=f"/v1/transfers/{draft.id}/reversals"
        ),
        "reversed": False,
        "source_transaction": None,
        "source_type": "card",
        "transfer_group": None,
    }


def topup(draft: Draft) -> Body:
    """Return a new top-up that has not come yet."""
    return _of(draft, "topup") | {
        "amount": draft.amount,
        "balance_transaction": None,
        "currency": "eur",
        "description": None,
        "expected_availability_date": draft.created + 2 * DAY,
        "failure_code": None,
        "failure_message": None,
        "source": None,
        "statement_descriptor": None,
        "status": "pending",
        "transfer_group": None,
    }


def application_fee(draft: Draft) -> Body:
    """Return a new fee of a platform, and what of it was given back."""
    return _of(draft, "application_fee", "metadata") | {
        "account": "acct_standin_seller",
        "amount": draft.amount,
        "amount_refunded": draft.parts,
        "application": "ca_standin",
        "balance_transaction": draft.new_id("txn_"),
        "charge": draft.related("charge"),
        "currency": "eur",
        "refunded": False,
        "refunds": whole_list(
            [_given_back(draft) for _ in range(draft.parts)], url=f"/v1/application_fees/{draft.id}/refunds"
        ),
    }


def file(draft: Draft) -> Body:
    """Return a new file."""
    return _of(draft, "file", "livemode", "metadata") | {
        "expires_at": None,
        "filename": f"evidence{draft.turn}.pdf",
        "links": whole_list([], url=f"/v1/file_links?file={draft.id}"),
        "purpose": "dispute_evidence",
        "size": 1000 + draft.turn,
        "title": None,
        "type": "pdf",
        "url": f"https://files.stripe.com/v1/files/{draft.id}/contents",
    }


def _reversal(draft: Draft) -> Body:
    return _part(draft, "trr_", "transfer_reversal") | {"amount": 1, "currency": "eur", "transfer": draft.id}


def _given_back(draft: Draft) -> Body:
    return _part(draft, "fr_", "fee_refund") | {"amount": 1, "currency": "eur", "fee": draft.id}


def _part(draft: Draft, prefix: str, name: str) -> Body:
    return {"id": draft.new_id(prefix), "object": name, "created": draft.created}


def _of(draft: Draft, name: str, *without: str) -> Body:
    body = {"id": draft.id, "object": name, "created": draft.created, "livemode": False, "metadata": {}}
    return {field: value for field, value in body.items() if field not in without}
