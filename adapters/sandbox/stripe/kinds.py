"""One row for each kind: how its objects are made, changed, deleted, listed and announced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.faults import Refused
from adapters.sandbox.stripe import bodies
from adapters.sandbox.stripe.further import FURTHER
from adapters.sandbox.stripe.kind import (
    Kind,
    cancels,
    deactivates,
    described,
    goes,
    nicknamed,
    plain,
    renamed,
    stays,
    tagged,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.sandbox.world import Body


def _subscription_events(before: Body | None, after: Body | None) -> list[str]:
    family = "customer.subscription"
    if before is None or after is None:
        return plain(family)(before, after)
    was, now = before["status"], after["status"]
    if was != now and now == "canceled":
        return [f"{family}.deleted"]
    if was != now and "paused" in {was, now}:
        return [f"{family}.updated", f"{family}.{'paused' if now == 'paused' else 'resumed'}"]
    return [f"{family}.updated"]


_INVOICE_MOVES = {
    "open": ("invoice.finalized",),
    "paid": ("invoice.paid", "invoice.payment_succeeded"),
    "uncollectible": ("invoice.marked_uncollectible",),
    "void": ("invoice.voided",),
}


def _invoice_events(before: Body | None, after: Body | None) -> list[str]:
    if before is None or after is None or before["status"] == after["status"]:
        return plain("invoice")(before, after)
    return ["invoice.updated", *_INVOICE_MOVES.get(after["status"], ())]


_PAYMENT_INTENT_MOVES = {
    "canceled": "payment_intent.canceled",
    "processing": "payment_intent.processing",
    "requires_action": "payment_intent.requires_action",
    "requires_capture": "payment_intent.amount_capturable_updated",
    "requires_payment_method": "payment_intent.payment_failed",
    "succeeded": "payment_intent.succeeded",
}


def _payment_intent_events(before: Body | None, after: Body | None) -> list[str]:
    """Return nothing for plain edits: Stripe has no `payment_intent.updated`."""
    if before is None:
        return ["payment_intent.created"]
    if after is None or before["status"] == after["status"]:
        return []
    move = _PAYMENT_INTENT_MOVES.get(after["status"])
    return [move] if move else []


def _charge_events(before: Body | None, after: Body | None) -> list[str]:
    if after is None:
        return []
    if before is None or before["status"] != after["status"]:
        return [f"charge.{after['status']}"]
    if before["amount_refunded"] != after["amount_refunded"]:
        return ["charge.refunded"]
    return ["charge.captured" if before["captured"] != after["captured"] else "charge.updated"]


def _refund_events(before: Body | None, after: Body | None) -> list[str]:
    if before is None:
        return ["refund.created"]
    if after is None:
        return []
    failed = before["status"] != after["status"] == "failed"
    return ["refund.failed" if failed else "refund.updated", "charge.refund.updated"]


def _more_of_it(body: Body, now: int) -> Body:
    items = body["items"]
    if not items["data"]:
        return described(body, now)
    first, *others = items["data"]
    return {"items": {**items, "data": [{**first, "quantity": first["quantity"] + 1}, *others]}}


_PAYMENT_STEPS = {
    "requires_payment_method": "requires_confirmation",
    "requires_confirmation": "requires_action",
    "requires_action": "processing",
    "processing": "succeeded",
}


def _payment_step(body: Body, now: int) -> Body:
    """Go on to the next status; a finished one gets an edit that no event tells of."""
    following = _PAYMENT_STEPS.get(body["status"])
    return {"status": following} if following else described(body, now)


def _subscription_follows(body: Body, now: int) -> Body:
    ended = body["status"] in {"canceled", "incomplete_expired"}
    return {"canceled_at": now, "ended_at": now} if ended and body["ended_at"] is None else {}


def _invoice_follows(body: Body, now: int) -> Body:
    moments = {
        "open": "finalized_at",
        "paid": "paid_at",
        "uncollectible": "marked_uncollectible_at",
        "void": "voided_at",
    }
    moment = moments.get(body["status"])
    if moment is None or body["status_transitions"][moment] is not None:
        return {}
    follows: Body = {"status_transitions": {moment: now}}
    if body["status"] == "paid":
        follows |= {"amount_paid": body["amount_due"], "amount_remaining": 0}
    return follows


def _payment_follows(body: Body, now: int) -> Body:
    if body["status"] == "canceled" and body["canceled_at"] is None:
        return {"canceled_at": now}
    return {"amount_received": body["amount"]} if body["status"] == "succeeded" else {}


def _invoice_goes(body: Body, _now: int) -> Body | None:
    """Delete a draft; one that was sent can only be voided."""
    if body["status"] in {"paid", "void"}:
        raise Refused(f"an invoice that is {body['status']} can be neither deleted nor voided")
    return None if body["status"] == "draft" else {"status": "void"}


KINDS: Mapping[str, Kind] = {
    "customer": Kind(
        plural="customers",
        permission="rak_customer_read",
        prefix="cus_",
        id_length=14,
        make=bodies.customer,
        edit=renamed,
        remove=goes,
        stub=True,
        events=plain("customer"),
        equal={"email": "email", "test_clock": "test_clock"},
    ),
    "product": Kind(
        plural="products",
        permission="rak_product_read",
        prefix="prod_",
        id_length=14,
        make=bodies.product,
        edit=described,
        remove=goes,
        stub=True,
        stamped=True,
        events=plain("product"),
        equal={"active": "active", "shippable": "shippable", "type": "type", "url": "url"},
        references={"default_price": "price"},
    ),
    "price": Kind(
        plural="prices",
        permission="rak_plan_read",
        prefix="price_",
        make=bodies.price,
        edit=nicknamed,
        remove=deactivates,
        events=plain("price"),
        equal={"active": "active", "currency": "currency", "product": "product", "type": "type"},
        references={"product": "product"},
    ),
    "subscription": Kind(
        plural="subscriptions",
        permission="rak_subscription_read",
        prefix="sub_",
        make=bodies.subscription,
        edit=_more_of_it,
        follow=_subscription_follows,
        remove=cancels("canceled", "incomplete_expired"),
        events=_subscription_events,
        equal={"collection_method": "collection_method", "customer": "customer", "test_clock": "test_clock"},
        parts="items",
        references={"customer": "customer", "latest_invoice": "invoice"},
    ),
    "invoice": Kind(
        plural="invoices",
        permission="rak_invoice_read",
        prefix="in_",
        make=bodies.invoice,
        edit=described,
        follow=_invoice_follows,
        remove=_invoice_goes,
        events=_invoice_events,
        equal={"collection_method": "collection_method", "customer": "customer", "status": "status"},
        parts="lines",
        references={"customer": "customer"},
    ),
    "payment_intent": Kind(
        plural="payment_intents",
        permission="rak_payment_intent_read",
        prefix="pi_",
        make=bodies.payment_intent,
        edit=_payment_step,
        follow=_payment_follows,
        remove=cancels("canceled", "succeeded"),
        events=_payment_intent_events,
        equal={"customer": "customer"},
        references={"customer": "customer", "latest_charge": "charge"},
    ),
    "charge": Kind(
        plural="charges",
        permission="rak_charge_read",
        prefix="ch_",
        make=bodies.charge,
        edit=described,
        remove=stays,
        events=_charge_events,
        equal={"customer": "customer", "payment_intent": "payment_intent", "transfer_group": "transfer_group"},
        references={"customer": "customer", "payment_intent": "payment_intent"},
    ),
    "refund": Kind(
        plural="refunds",
        permission="rak_charge_read",
        prefix="re_",
        make=bodies.refund,
        edit=tagged,
        remove=cancels("canceled", "succeeded", "failed"),
        events=_refund_events,
        equal={"charge": "charge", "payment_intent": "payment_intent"},
        references={"charge": "charge", "payment_intent": "payment_intent"},
    ),
    **FURTHER,
}
