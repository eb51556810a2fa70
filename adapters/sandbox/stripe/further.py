"""The kinds beyond the core: one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.faults import Refused
from adapters.sandbox.stripe import bodies, goods, money
from adapters.sandbox.stripe.kind import (
    Kind,
    Listed,
    cancels,
    deactivates,
    described,
    goes,
    moves,
    nicknamed,
    plain,
    renamed,
    silent,
    stays,
    tagged,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.sandbox.stripe.kind import Announce
    from adapters.sandbox.world import Body


def _some(family: str, *endings: str) -> Announce:
    """Return what announces only those of creations, changes and deletions that *endings* name."""
    every = plain(family)

    def events(before: Body | None, after: Body | None) -> list[str]:
        return [type_ for type_ in every(before, after) if type_.rpartition(".")[2] in endings]

    return events


def _payment_method_events(before: Body | None, after: Body | None) -> list[str]:
    if before is None or after is None:
        return ["payment_method.attached"] if before is None and after and after["customer"] else []
    return ["payment_method.detached" if before["customer"] and not after["customer"] else "payment_method.updated"]


def _application_fee_events(before: Body | None, after: Body | None) -> list[str]:
    if before is None:
        return ["application_fee.created"]
    refunded = after is not None and before["amount_refunded"] != after["amount_refunded"]
    return ["application_fee.refunded"] if refunded else []


def _transfer_events(before: Body | None, after: Body | None) -> list[str]:
    if before is None or after is None:
        return ["transfer.created"] if before is None else []
    return ["transfer.reversed" if before["amount_reversed"] != after["amount_reversed"] else "transfer.updated"]


def _account_events(before: Body | None, after: Body | None) -> list[str]:
    if before is None:
        return ["account.application.authorized"]
    return ["account.application.deauthorized" if after is None else "account.updated"]


def _verified(_body: Body, _now: int) -> Body:
    return {"verification": {"status": "verified"}}


def _available(_body: Body, _now: int) -> Body:
    return {"status": "available"}


def _answered(_body: Body, _now: int) -> Body:
    return {"status": "under_review"}


def _given_back(body: Body, _now: int) -> Body:
    return {"amount_refunded": body["amount_refunded"] + 1}


def _turned(body: Body, _now: int) -> Body:
    return {"status": "inactive" if body["status"] == "active" else "active"}


def _detaches(body: Body, _now: int) -> Body | None:
    if body["customer"] is None:
        raise Refused("a payment method that no customer has cannot be detached")
    return {"customer": None}


def _voids(body: Body, now: int) -> Body | None:
    if body["status"] == "void":
        raise Refused("a credit note that is void cannot be voided again")
    return {"status": "void", "voided_at": now}


def _expires(body: Body, _now: int) -> Body | None:
    if body["status"] != "open":
        raise Refused(f"a session that is {body['status']} cannot expire")
    return {"status": "expired", "url": None}


def _is_own(body: Body) -> bool:
    return bool(body["owner"]["type"] == "self")


_CUSTOMERS = {"customer": "customer"}

FURTHER: Mapping[str, Kind] = {
    "payment_method": Kind(
        plural="payment_methods",
        permission="rak_payment_method_read",
        prefix="pm_",
        make=money.payment_method,
        edit=tagged,
        remove=_detaches,
        events=_payment_method_events,
        equal={**_CUSTOMERS, "type": "type"},
        references=_CUSTOMERS,
        listed=Listed.UNDATED,
    ),
    "tax_id": Kind(
        plural="tax_ids",
        permission="rak_customer_read",
        prefix="txi_",
        make=goods.tax_id,
        edit=_verified,
        remove=goes,
        events=plain("customer.tax_id"),
        listed=Listed.UNDATED,
        keeps=_is_own,
    ),
    "account": Kind(
        plural="accounts",
        permission="rak_accounts_kyc_basic_read",
        prefix="acct_",
        id_length=16,
        make=lambda draft: bodies.account(draft.id, created=draft.created),
        edit=tagged,
        remove=goes,
        events=_account_events,
        listed=Listed.NOWHERE,
    ),
    "plan": Kind(
        plural="plans",
        permission="rak_plan_read",
        prefix="plan_",
        make=goods.plan,
        edit=nicknamed,
        remove=goes,
        events=plain("plan"),
        equal={"active": "active", "product": "product"},
        references={"product": "product"},
    ),
    "coupon": Kind(
        plural="coupons",
        permission="rak_coupon_read",
        prefix="",
        id_length=8,
        make=goods.coupon,
        edit=renamed,
        remove=goes,
        events=plain("coupon"),
    ),
    "promotion_code": Kind(
        plural="promotion_codes",
        permission="rak_promotion_code_read",
        prefix="promo_",
        make=goods.promotion_code,
        edit=tagged,
        remove=deactivates,
        events=plain("promotion_code"),
        equal={**_CUSTOMERS, "active": "active", "code": "code"},
    ),
    "tax_rate": Kind(
        plural="tax_rates",
        permission="rak_tax_rate_read",
        prefix="txr_",
        make=goods.tax_rate,
        edit=described,
        remove=deactivates,
        events=plain("tax_rate"),
        equal={"active": "active", "inclusive": "inclusive"},
    ),
    "payment_link": Kind(
        plural="payment_links",
        permission="rak_payment_links_read",
        prefix="plink_",
        make=goods.payment_link,
        edit=tagged,
        remove=deactivates,
        events=plain("payment_link"),
        equal={"active": "active"},
        listed=Listed.UNDATED,
    ),
    "subscription_schedule": Kind(
        plural="subscription_schedules",
        permission="rak_subscription_read",
        prefix="sub_sched_",
        make=goods.subscription_schedule,
        edit=tagged,
        remove=cancels("canceled", "completed", "released"),
        events=moves(
            "subscription_schedule", {"canceled": "canceled", "completed": "completed", "released": "released"}
        ),
        equal=_CUSTOMERS,
        references=_CUSTOMERS,
    ),
    "quote": Kind(
        plural="quotes",
        permission="rak_quote_read",
        prefix="qt_",
        make=goods.quote,
        edit=described,
        remove=cancels("canceled", "accepted"),
        events=moves("quote", {"open": "finalized", "accepted": "accepted", "canceled": "canceled"}, edited=""),
        equal={**_CUSTOMERS, "status": "status"},
        references=_CUSTOMERS,
        listed=Listed.UNDATED,
    ),
    "invoiceitem": Kind(
        plural="invoiceitems",
        permission="rak_invoice_read",
        prefix="ii_",
        make=goods.invoiceitem,
        edit=described,
        remove=goes,
        events=_some("invoiceitem", "created", "deleted"),
        equal={**_CUSTOMERS, "invoice": "invoice"},
        references=_CUSTOMERS,
    ),
    "credit_note": Kind(
        plural="credit_notes",
        permission="rak_credit_note_read",
        prefix="cn_",
        make=goods.credit_note,
        edit=tagged,
        remove=_voids,
        events=moves("credit_note", {"void": "voided"}),
        equal={**_CUSTOMERS, "invoice": "invoice"},
        parts="lines",
        references={**_CUSTOMERS, "invoice": "invoice"},
    ),
    "dispute": Kind(
        plural="disputes",
        permission="rak_dispute_read",
        prefix="du_",
        make=money.dispute,
        edit=_answered,
        remove=stays,
        events=moves("charge.dispute", {"won": "closed", "lost": "closed", "warning_closed": "closed"}),
        equal={"charge": "charge", "payment_intent": "payment_intent"},
        references={"charge": "charge"},
    ),
    "setup_intent": Kind(
        plural="setup_intents",
        permission="rak_setup_intent_read",
        prefix="seti_",
        make=money.setup_intent,
        edit=described,
        remove=cancels("canceled", "succeeded"),
        events=moves(
            "setup_intent",
            {"requires_action": "requires_action", "succeeded": "succeeded", "canceled": "canceled"},
            edited="",
        ),
        equal={**_CUSTOMERS, "payment_method": "payment_method"},
        references=_CUSTOMERS,
    ),
    "mandate": Kind(
        plural="mandates",
        permission="rak_payment_method_read",
        prefix="mandate_",
        make=money.mandate,
        edit=_turned,
        remove=stays,
        events=_some("mandate", "updated"),
        references={"payment_method": "payment_method"},
        listed=Listed.NOWHERE,
    ),
    "checkout_session": Kind(
        plural="checkout/sessions",
        permission="rak_checkout_session_read",
        prefix="cs_test_",
        make=money.checkout_session,
        edit=tagged,
        remove=_expires,
        events=moves("checkout.session", {"complete": "completed", "expired": "expired"}, born="", edited=""),
        equal={**_CUSTOMERS, "payment_intent": "payment_intent", "status": "status", "subscription": "subscription"},
        references=_CUSTOMERS,
    ),
    "balance_transaction": Kind(
        plural="balance_transactions",
        permission="rak_balance_transaction_source_read",
        prefix="txn_",
        make=money.balance_transaction,
        edit=_available,
        remove=stays,
        events=silent,
        equal={"currency": "currency", "source": "source", "type": "type"},
    ),
    "payout": Kind(
        plural="payouts",
        permission="rak_payout_read",
        prefix="po_",
        make=money.payout,
        edit=described,
        remove=cancels("canceled", "paid", "failed"),
        events=moves("payout", {"paid": "paid", "failed": "failed", "canceled": "canceled"}),
        equal={"destination": "destination", "status": "status"},
    ),
    "transfer": Kind(
        plural="transfers",
        permission="rak_transfer_read",
        prefix="tr_",
        make=money.transfer,
        edit=described,
        remove=stays,
        events=_transfer_events,
        equal={"destination": "destination", "transfer_group": "transfer_group"},
        parts="reversals",
    ),
    "topup": Kind(
        plural="topups",
        permission="rak_topup_read",
        prefix="tu_",
        make=money.topup,
        edit=described,
        remove=cancels("canceled", "succeeded", "failed", "reversed"),
        events=moves(
            "topup",
            {"canceled": "canceled", "failed": "failed", "reversed": "reversed", "succeeded": "succeeded"},
            edited="",
        ),
        equal={"status": "status"},
    ),
    "application_fee": Kind(
        plural="application_fees",
        permission="rak_application_fee_read",
        prefix="fee_",
        make=money.application_fee,
        edit=_given_back,
        remove=stays,
        events=_application_fee_events,
        equal={"charge": "charge"},
        parts="refunds",
    ),
    "file": Kind(
        plural="files",
        permission="rak_file_read",
        prefix="file_",
        make=money.file,
        edit=lambda body, _now: {"title": f"Change {body['size']}"},
        remove=goes,
        events=_some("file", "created"),
        equal={"purpose": "purpose"},
    ),
}
"""Each kind beyond the core, by name."""
