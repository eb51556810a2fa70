"""How money is asked for, comes, goes back and is disputed."""

from __future__ import annotations

from typing import Final

from adapters.stripe.kinds.rows import row, topics
from reconciler.adapter import Listing

_WAITING = "requires_payment_method requires_confirmation requires_action processing"
_DISPUTED = "needs_response under_review"

ROWS: Final = (
    row(
        "payment_intent",
        "/v1/payment_intents",
        core=True,
        worth="between two events it may have moved on, been edited or expired",
        topics=topics(
            "payment_intent",
            "created processing requires_action succeeded canceled payment_failed partially_funded "
            "amount_capturable_updated",
        ),
        recent=True,
        permission="PaymentIntents",
        columns="""
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
        """,
        open_while=("/status", f"{_WAITING} requires_capture"),
        blind="edits (metadata, description) of a finished one: there is no payment_intent.updated",
    ),
    row(
        "charge",
        "/v1/charges",
        core=True,
        worth="refunds and disputes change it by events of their own",
        topics=topics("charge", "succeeded pending failed captured updated refunded expired")
        | topics("charge.dispute", "created updated closed funds_withdrawn funds_reinstated", "/charge"),
        permission="Charges and Refunds",
        volatile=("/receipt_url",),
        columns="""
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
        """,
        open_while=("/status", "pending"),
    ),
    row(
        "refund",
        "/v1/refunds",
        core=True,
        worth="a refund that seemed done may fail days later",
        topics=topics("refund", "created updated failed") | topics("charge.refund", "updated"),
        permission="Charges and Refunds",
        columns="""
            charge text
            payment_intent text
            status text
            currency text
            amount bigint
            reason text
            failure_reason text
            created epoch
        """,
        open_while=("/status", "pending requires_action"),
    ),
    row(
        "dispute",
        "/v1/disputes",
        worth="a deadline missed is money lost, and time alone moves it",
        topics=topics("charge.dispute", "created updated closed funds_withdrawn funds_reinstated"),
        permission="Disputes",
        columns="""
            charge text
            payment_intent text
            status text
            reason text
            currency text
            amount bigint
            evidence_due_by epoch /evidence_details/due_by
            is_charge_refundable boolean
            created epoch
        """,
        open_while=(
            "/status",
            f"{_DISPUTED} warning_needs_response warning_under_review appeal_needs_response appeal_under_review",
        ),
    ),
    row(
        "setup_intent",
        "/v1/setup_intents",
        worth="whether a card can be charged later is decided by its last step",
        topics=topics("setup_intent", "created requires_action succeeded setup_failed canceled"),
        recent=True,
        permission="SetupIntents",
        columns="""
            customer text
            status text
            payment_method text
            mandate text
            usage text
            cancellation_reason text
            created epoch
        """,
        open_while=("/status", _WAITING),
        blind="edits (metadata, description) of a finished one: there is no setup_intent.updated",
    ),
    row(
        "mandate",
        "/v1/mandates",
        worth="a bank may take it back at any time",
        # Nothing tells of a new one but the setup that made it.
        topics=topics("mandate", "updated")
        | topics("setup_intent", "succeeded requires_action setup_failed", "/mandate /single_use_mandate"),
        passes=(),
        list=Listing.NONE,
        permission="Mandates",
        cost="1 call; no call lists them",
        columns="""
            payment_method text
            status text
            type text
            method text /payment_method_details/type
            accepted_at epoch /customer_acceptance/accepted_at
        """,
        open_while=("/status", "pending"),
        blind="those that no event of the last 30 days names: no call lists them",
    ),
    row(
        "checkout_session",
        "/v1/checkout/sessions",
        worth="nothing tells of its creation or of edits, and it expires by the clock",
        topics=topics("checkout.session", "completed expired async_payment_succeeded async_payment_failed"),
        recent=True,
        permission="Checkout Sessions",
        volatile=("/url",),
        columns="""
            customer text
            mode text
            status text
            payment_status text
            currency text
            amount_total bigint
            payment_intent text
            subscription text
            invoice text
            payment_link text
            client_reference_id text
            expires_at epoch
            created epoch
        """,
        open_while=("/status", "open"),
        blind="edits of a finished one: there is no checkout.session.updated",
    ),
)
