"""One row for each kind: how its objects are made, changed, deleted, listed and announced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.faults import Refused
from adapters.sandbox.stripe import bodies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.stripe.bodies import Draft
    from adapters.sandbox.world import Body

Edit: TypeAlias = "Callable[[Body, int], Body]"
"""Given a body and the provider's time, returns the fields to set."""

Announce: TypeAlias = "Callable[[Body | None, Body | None], list[str]]"
"""Given the object before and after a change (None: it does not exist), returns the types of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One sort of object.

    Attributes:
        plural: As in the API's paths.
        permission: What a restricted key needs to read it.
        prefix: Of its ids.
        make: Returns a new body.
        edit: What a change does to it that says nothing else.
        follow: What else a change of its fields brings with it, given the body after the change.
        remove: What deleting does; returns None where the object goes.
        stub: A GET of a deleted one answers 200 with `deleted: true`.
        stamped: It has `updated`.
        events: Which events a change makes.
        equal: List parameters that must equal a field, with the field.
        parts: The field that holds its own list, if there is one.
        references: Fields that hold the id of another kind's object and can be expanded.
    """

    plural: str
    permission: str
    prefix: str
    id_length: int = 24
    make: Callable[[Draft], Body]
    edit: Edit
    follow: Edit = lambda _body, _now: {}
    remove: Callable[[Body, int], Body | None]
    stub: bool = False
    stamped: bool = False
    events: Announce
    equal: Mapping[str, str] = field(default_factory=dict)
    parts: str | None = None
    references: Mapping[str, str] = field(default_factory=dict)


def _plain(family: str) -> Announce:
    def events(before: Body | None, after: Body | None) -> list[str]:
        return [f"{family}.{'created' if before is None else 'deleted' if after is None else 'updated'}"]

    return events


def _subscription_events(before: Body | None, after: Body | None) -> list[str]:
    family = "customer.subscription"
    if before is None or after is None:
        return _plain(family)(before, after)
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
        return _plain("invoice")(before, after)
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


def _count(body: Body) -> int:
    return int(body["metadata"]["version"]) + 1


def _described(body: Body, _now: int) -> Body:
    return {"description": f"Change {_count(body)}"}


def _renamed(body: Body, _now: int) -> Body:
    return {"name": f"{body['name'].split(',')[0]}, change {_count(body)}"}


def _nicknamed(body: Body, _now: int) -> Body:
    return {"nickname": f"Change {_count(body)}"}


def _tagged(body: Body, _now: int) -> Body:
    return {"metadata": {"note": f"Change {_count(body)}"}}


def _more_of_it(body: Body, now: int) -> Body:
    items = body["items"]
    if not items["data"]:
        return _described(body, now)
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
    return {"status": following} if following else _described(body, now)


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


def _goes(_body: Body, _now: int) -> Body | None:
    return None


def _deactivates(_body: Body, _now: int) -> Body | None:
    return {"active": False}


def _cancels(*final: str) -> Callable[[Body, int], Body | None]:
    def remove(body: Body, _now: int) -> Body | None:
        if body["status"] in final:
            raise Refused(f"a {body['object']} that is {body['status']} cannot be canceled")
        return {"status": "canceled"}

    return remove


def _invoice_goes(body: Body, _now: int) -> Body | None:
    """Delete a draft; one that was sent can only be voided."""
    if body["status"] in {"paid", "void"}:
        raise Refused(f"an invoice that is {body['status']} can be neither deleted nor voided")
    return None if body["status"] == "draft" else {"status": "void"}


def _stays(_body: Body, _now: int) -> Body | None:
    raise Refused("a charge is never deleted")


KINDS: Mapping[str, Kind] = {
    "customer": Kind(
        plural="customers",
        permission="rak_customer_read",
        prefix="cus_",
        id_length=14,
        make=bodies.customer,
        edit=_renamed,
        remove=_goes,
        stub=True,
        events=_plain("customer"),
        equal={"email": "email", "test_clock": "test_clock"},
    ),
    "product": Kind(
        plural="products",
        permission="rak_product_read",
        prefix="prod_",
        id_length=14,
        make=bodies.product,
        edit=_described,
        remove=_goes,
        stub=True,
        stamped=True,
        events=_plain("product"),
        equal={"active": "active", "shippable": "shippable", "type": "type", "url": "url"},
        references={"default_price": "price"},
    ),
    "price": Kind(
        plural="prices",
        permission="rak_plan_read",
        prefix="price_",
        make=bodies.price,
        edit=_nicknamed,
        remove=_deactivates,
        events=_plain("price"),
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
        remove=_cancels("canceled", "incomplete_expired"),
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
        edit=_described,
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
        remove=_cancels("canceled", "succeeded"),
        events=_payment_intent_events,
        equal={"customer": "customer"},
        references={"customer": "customer", "latest_charge": "charge"},
    ),
    "charge": Kind(
        plural="charges",
        permission="rak_charge_read",
        prefix="ch_",
        make=bodies.charge,
        edit=_described,
        remove=_stays,
        events=_charge_events,
        equal={"customer": "customer", "payment_intent": "payment_intent", "transfer_group": "transfer_group"},
        references={"customer": "customer", "payment_intent": "payment_intent"},
    ),
    "refund": Kind(
        plural="refunds",
        permission="rak_charge_read",
        prefix="re_",
        make=bodies.refund,
        edit=_tagged,
        remove=_cancels("canceled", "succeeded", "failed"),
        events=_refund_events,
        equal={"charge": "charge", "payment_intent": "payment_intent"},
        references={"charge": "charge", "payment_intent": "payment_intent"},
    ),
}
