"""The objects of one Stripe account and the events that tell of them."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.sandbox.deliveries import Parcel
from adapters.sandbox.faults import Refused
from adapters.sandbox.operations import Deed, Operation, Stamp
from adapters.sandbox.spelling import indented
from adapters.sandbox.stripe import bodies
from adapters.sandbox.stripe.kinds import KINDS
from adapters.sandbox.stripe.shapes import as_shown
from adapters.sandbox.world import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.deliveries import Endpoint
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.stripe.kind import Kind
    from adapters.sandbox.world import Body

EVENT = "event"
ACCOUNT = "account"
FOUNDED = 1_600_000_000
"""When the accounts were created."""

CONNECTED = "connected"
"""The scope of an endpoint that hears of all connected accounts, and of those only."""

BACKWARDS = 3600
"""Seconds by which a stamp that goes back goes back."""


class Ledger:
    """Carries out what happens at Stripe: each change is a new version and, mostly, an event that is sent."""

    def __init__(self, machinery: Machinery, *, account: str, api_version: str) -> None:
        self._machinery = machinery
        self._own = account
        self._world = machinery.world
        self._api_version = api_version
        self.scopes: set[str] = {""}

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id`, `version`, `events`, and what else it changed as `also`."""
        kind = KINDS.get(operation.kind)
        if kind is None:
            raise Refused(f"unknown kind {operation.kind}; there are {', '.join(KINDS)}")
        if operation.scope and not operation.scope.startswith("acct_"):
            raise Refused(f"scope is empty or a connected account (acct_...), not {operation.scope!r}")
        deeds: Mapping[Deed, Callable[[Kind, Operation], Body]] = {
            Deed.CREATE: self._create,
            Deed.CHANGE: self._change,
            Deed.DELETE: self._delete,
            Deed.RECREATE: self._recreate,
        }
        _check(operation.body, kind.parts)
        with self._world.lock:
            if operation.kind == ACCOUNT:
                return self._operate_account(kind, operation, deeds[operation.deed])
            self.scopes.add(operation.scope)
            return deeds[operation.deed](kind, operation)

    def account(self, id_: str) -> Body:
        """Return the account *id_* as it is now; one that nobody has changed yet is as all accounts begin."""
        timeline = self._world.find(self._scope_of(id_), ACCOUNT, id_)
        body = None if timeline is None else timeline.latest.body
        return bodies.account(id_, created=FOUNDED) if body is None else body

    def _untouched(self, scope: str | None) -> list[Body]:
        """Return each account that is as all accounts begin: those exist although nobody made them."""
        ids = [(each, each or self._own) for each in sorted(self.scopes) if scope in {None, each}]
        return [
            {"kind": ACCOUNT, "id": id_, "scope": each, "version": 1, "deleted": False, "body": self.account(id_)}
            for each, id_ in ids
            if self._world.find(each, ACCOUNT, id_) is None
        ]

    def _scope_of(self, account: str) -> str:
        return "" if account == self._own else account

    def _operate_account(self, kind: Kind, operation: Operation, act: Callable[[Kind, Operation], Body]) -> Body:
        """Let an account be connected, changed or taken away: it is the scope that it lives in."""
        id_ = operation.id or self._world.new_id(kind.prefix, length=kind.id_length)
        scope = self._scope_of(id_)
        operation = replace(operation, id=id_, scope=scope)
        if operation.deed is not Deed.CREATE and self._world.find(scope, ACCOUNT, id_) is None:
            if scope not in self.scopes:
                raise Refused(f"there is no account {id_!r}")
            self._create(kind, replace(operation, body={}, at=FOUNDED, announce=False))
        if operation.deed is Deed.DELETE and not scope:
            raise Refused("the account itself cannot be taken away; lost_access does that")
        done = act(kind, operation)
        if operation.deed is Deed.DELETE:
            self.scopes.discard(scope)
        else:
            self.scopes.add(scope)
        return done

    def truth(self, *, kind: str | None, scope: str | None) -> list[Body]:
        """Return each object that ever was, whole and as it is now."""
        with self._world.lock:
            wanted = [
                each
                for each in self._world.everything()
                if each.kind != EVENT and kind in {None, each.kind} and scope in {None, each.scope}
            ]
            untouched = [] if kind not in {None, ACCOUNT} else self._untouched(scope)
            return [*untouched, *(self._true(each) for each in wanted)]

    def resend(self, event_id: str) -> int:
        """Send an event again to each endpoint that wants it, and return how many those are."""
        with self._world.lock:
            for scope in self.scopes:
                timeline = self._world.find(scope, EVENT, event_id)
                if timeline is not None and timeline.latest.body is not None:
                    return self._send(scope, timeline.latest.body)
        raise Refused(f"there is no event {event_id!r}")

    def shift(self, scope: str, kind: str, last_id: str) -> None:
        """Change something that moves the pages of a list whose page just ended with *last_id*."""
        if kind in KINDS and self._machinery.mischief.pick("shift", 2):
            try:
                self.operate(Operation(deed=Deed.DELETE, kind=kind, id=last_id, scope=scope))
            except Refused:
                pass
            else:
                return
        made = kind if kind in KINDS else "customer"
        self.operate(Operation(deed=Deed.CREATE, kind=made, scope=scope))

    def grow(self, scope: str, kind: str, id_: str) -> None:
        """Add one to the lines or items of an object whose own list is being paged."""
        timeline = self._world.find(scope, kind, id_)
        parts = KINDS[kind].parts
        if timeline is not None and timeline.latest.body is not None and parts is not None:
            count = len(timeline.latest.body[parts]["data"])
            self.operate(Operation(deed=Deed.CHANGE, kind=kind, id=id_, scope=scope, parts=count + 1))

    def _true(self, timeline: Timeline) -> Body:
        latest = timeline.latest
        shown = None if latest.body is None else as_shown(latest.body, version=self._api_version, whole=True)
        return {
            "kind": timeline.kind,
            "id": timeline.id,
            "scope": timeline.scope,
            "version": latest.number,
            "deleted": latest.body is None,
            "body": shown,
        }

    def _create(self, kind: Kind, operation: Operation) -> Body:
        id_ = operation.id or self._world.new_id(kind.prefix, length=kind.id_length)
        if self._world.find(operation.scope, operation.kind, id_) is not None:
            raise Refused(f"{operation.kind} {id_} has been created before")
        return self._begin(kind, operation, Timeline(operation.scope, operation.kind, id_))

    def _recreate(self, kind: Kind, operation: Operation) -> Body:
        timeline = self._found(operation)
        if timeline.latest.body is not None:
            raise Refused(f"{operation.kind} {operation.id} is still there; only what was deleted comes back")
        return self._begin(kind, operation, timeline)

    def _begin(self, kind: Kind, operation: Operation, timeline: Timeline) -> Body:
        moment = self._moment(operation)
        draft = self._draft(operation, timeline.id, kind=kind, created=moment)
        body = _merged(kind.make(draft), operation.body)
        also = self._write(kind, operation, timeline, body, created=body.get("created", moment))
        if operation.kind == "refund":
            also["also"] = self._refunded(operation, body)
        return also

    def _draft(self, operation: Operation, id_: str, *, kind: Kind, created: int) -> bodies.Draft:
        def related(other: str) -> str:
            newest = next(self._world.shelf(operation.scope, other).newest(None), None)
            return newest[1].id if newest else self._world.new_id(KINDS[other].prefix)

        parts = operation.parts if operation.parts is not None else 1
        turn = self._world.turn(f"draft {kind.plural}")
        return bodies.Draft(id_, created, turn, parts, related, self._world.new_id)

    def _change(self, kind: Kind, operation: Operation) -> Body:
        timeline = self._found(operation)
        before = timeline.latest.body
        if before is None:
            raise Refused(f"{operation.kind} {operation.id} is deleted; recreate it first")
        moment = self._moment(operation)
        said = operation.body or operation.parts is not None
        after = _merged(before, operation.body if said else kind.edit(before, moment))
        if operation.parts is not None:
            after = self._resized(kind, operation, after, parts=operation.parts)
        return self._write(kind, operation, timeline, self._stamped(kind, operation, after))

    def _resized(self, kind: Kind, operation: Operation, body: Body, *, parts: int) -> Body:
        if kind.parts is None:
            raise Refused(f"a {operation.kind} has no lines or items")
        draft = self._draft(operation, operation.id, kind=kind, created=body.get("created", 0))
        fresh = kind.make(draft)[kind.parts]
        kept = body[kind.parts]["data"][:parts]
        return {**body, kind.parts: {**fresh, "data": [*kept, *fresh["data"][len(kept) :]]}}

    def _delete(self, kind: Kind, operation: Operation) -> Body:
        timeline = self._found(operation)
        before = timeline.latest.body
        if before is None:
            raise Refused(f"{operation.kind} {operation.id} is deleted already")
        moment = self._moment(operation)
        removed = kind.remove(before, moment)
        if removed is not None:
            after = _merged(_merged(before, removed), operation.body)
            return self._write(kind, operation, timeline, self._stamped(kind, operation, after))
        also = self._canceled(operation) if operation.kind == "customer" else []
        return {**self._write(kind, operation, timeline, None), "also": also}

    def _write(
        self,
        kind: Kind,
        operation: Operation,
        timeline: Timeline,
        body: Body | None,
        *,
        created: int | None = None,
    ) -> Body:
        """Make *body* the object's next version and announce it."""
        before = timeline.latest.body if timeline.versions else None
        number = timeline.latest.number + 1 if timeline.versions else 1
        moment = self._moment(operation)
        if body is not None:
            if "metadata" in body:
                body = _merged(body, {"metadata": {"version": str(number)}})
            body = _merged(body, kind.follow(body, moment))
            if kind.parts is not None:
                whole = body[kind.parts]
                body[kind.parts] = bodies.whole_list(whole["data"], url=whole["url"])
        self._world.put(timeline, body, at=self._machinery.clock.ticks(), created=created)
        events = self._announce(kind, operation, before, body) if operation.announce else []
        return {
            "kind": timeline.kind,
            "id": timeline.id,
            "scope": timeline.scope,
            "version": number,
            "deleted": body is None,
            "events": events,
        }

    def _refunded(self, operation: Operation, refund: Body) -> list[Body]:
        """Let the charge of a new refund show it."""
        charge = self._world.find(operation.scope, "charge", refund["charge"] or "")
        if charge is None or charge.latest.body is None:
            return []
        total = charge.latest.body["amount_refunded"] + refund["amount"]
        body = {"amount_refunded": total, "refunded": total >= charge.latest.body["amount"]}
        return [self._brought(operation, "charge", charge.id, body)]

    def _canceled(self, operation: Operation) -> list[Body]:
        """End what a deleted customer subscribed to, as Stripe does."""
        subscriptions = self._world.shelf(operation.scope, "subscription")
        ending = [
            timeline.id
            for _, timeline, body in subscriptions.newest(None)
            if body["customer"] == operation.id and body["status"] not in {"canceled", "incomplete_expired"}
        ]
        return [self._brought(operation, "subscription", id_, {"status": "canceled"}) for id_ in ending]

    def _brought(self, operation: Operation, kind: str, id_: str, body: Body) -> Body:
        brought = Operation(
            deed=Deed.CHANGE,
            kind=kind,
            id=id_,
            scope=operation.scope,
            body=body,
            at=operation.at,
            announce=operation.announce,
            deliver=operation.deliver,
        )
        return self._change(KINDS[kind], brought)

    def _found(self, operation: Operation) -> Timeline:
        timeline = self._world.find(operation.scope, operation.kind, operation.id)
        if timeline is None:
            raise Refused(f"there is no {operation.kind} {operation.id!r}")
        return timeline

    def _moment(self, operation: Operation) -> int:
        return operation.at if operation.at is not None else int(self._machinery.clock.now())

    def _stamped(self, kind: Kind, operation: Operation, body: Body) -> Body:
        if not kind.stamped or "updated" in operation.body or operation.stamp is Stamp.KEEP:
            return body
        back = operation.stamp is Stamp.BACK
        return {**body, "updated": body["updated"] - BACKWARDS if back else self._moment(operation)}

    def _announce(self, kind: Kind, operation: Operation, before: Body | None, after: Body | None) -> list[str]:
        """Add the events of one change to the feed and send them, and return their ids."""
        events = [self._event(type_, operation, before=before, after=after) for type_ in kind.events(before, after)]
        for event in events:
            timeline = Timeline(operation.scope, EVENT, event["id"])
            self._world.put(timeline, event, at=self._machinery.clock.ticks(), created=event["created"])
            if operation.deliver:
                self._send(operation.scope, event)
        return [event["id"] for event in events]

    def _event(self, type_: str, operation: Operation, *, before: Body | None, after: Body | None) -> Body:
        subject: Body = {"object": as_shown(after or before or {}, version=self._api_version)}
        if type_.startswith("account.application."):
            subject = {"object": {"id": "ca_standin", "object": "application", "name": "Stand-in"}}
        if type_.endswith(".updated") and before is not None and after is not None:
            earlier = as_shown(before, version=self._api_version)
            subject["previous_attributes"] = _previous(earlier, subject["object"])
        return {
            "id": self._world.new_id("evt_"),
            "object": "event",
            **({"account": operation.scope} if operation.scope else {}),
            "api_version": self._api_version,
            "created": self._moment(operation),
            "data": subject,
            "livemode": False,
            "pending_webhooks": 0,
            "request": {"id": self._world.new_id("req_", length=14), "idempotency_key": None},
            "type": type_,
        }

    def _send(self, scope: str, event: Body) -> int:
        deliveries = self._machinery.deliveries
        wanting = [each for each in deliveries.endpoints if _wants(each, scope, event["type"])]
        if wanting:
            # Stripe's own bodies are indented too: whoever parses before checking the signature fails.
            raw = indented({**event, "pending_webhooks": len(wanting)})
            for endpoint in wanting:
                deliveries.send(self._parcel(event["id"], endpoint, raw))
        return len(wanting)

    def _parcel(self, event_id: str, endpoint: Endpoint, raw: bytes) -> Parcel:
        def headers() -> dict[str, str]:
            return {
                "Content-Type": "application/json; charset=utf-8",
                "Stripe-Signature": signature(raw, endpoint.secrets, at=int(self._machinery.clock.now())),
                "User-Agent": "Stripe/1.0 (stand-in)",
            }

        turn = self._world.turn("parcel")
        return Parcel(name=f"{turn}", event_id=event_id, endpoint=endpoint, body=raw, headers=headers)


def signature(raw: bytes, secrets: tuple[str, ...], *, at: int) -> str:
    """Return the `Stripe-Signature` of *raw*: one `v1` for each secret that is active."""
    signed = f"{at}.".encode() + raw
    marks = [f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}" for secret in secrets]
    return ",".join([f"t={at}", *marks])


def _check(body: Body, parts: str | None) -> None:
    """Raise `Refused` for fields that would make an object no object of its kind."""
    shapes: dict[str, type] = {"created": int, "metadata": dict} | ({parts: dict} if parts else {})
    wrong = [name for name, shape in shapes.items() if name in body and not isinstance(body[name], shape)]
    fixed = sorted(body.keys() & {"id", "object"})
    if wrong or fixed:
        raise Refused(f"body cannot set {', '.join([*fixed, *wrong])} so")


def _wants(endpoint: Endpoint, scope: str, type_: str) -> bool:
    listens = endpoint.scope is None or endpoint.scope == scope or (endpoint.scope == CONNECTED and bool(scope))
    return endpoint.enabled and listens and ("*" in endpoint.events or type_ in endpoint.events)


def _merged(body: Body, changes: Body) -> Body:
    """Return *body* with *changes* set, objects merged; as in the API, an empty metadata value removes its key."""
    result = dict(body)
    for name, value in changes.items():
        old = result.get(name)
        result[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    if isinstance(changes.get("metadata"), dict) and isinstance(result.get("metadata"), dict):
        result["metadata"] = {name: value for name, value in result["metadata"].items() if value not in {None, ""}}
    return result


def _previous(before: Body, after: Body) -> Body:
    """Return the earlier values of what differs; null for what was not there."""
    previous: Body = {}
    for name in [*before, *(name for name in after if name not in before)]:
        was, now = before.get(name), after.get(name)
        if was != now:
            previous[name] = _previous(was, now) if isinstance(was, dict) and isinstance(now, dict) else was
    return previous
