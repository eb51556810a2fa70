"""The objects of one shop, and the webhooks that tell of them."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.sandbox.faults import Refused
from adapters.sandbox.operations import Deed, Operation, Stamp
from adapters.sandbox.shopify import bodies, rest
from adapters.sandbox.shopify.bodies import Draft, gid, number_of
from adapters.sandbox.shopify.kinds import KIND_OF_TYPE, KINDS, kind_named
from adapters.sandbox.shopify.schema import field_names
from adapters.sandbox.shopify.stamps import moment, stamp
from adapters.sandbox.world import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from zoneinfo import ZoneInfo

    from graphql import GraphQLSchema

    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.shopify.kinds import Kind
    from adapters.sandbox.shopify.sending import Sending
    from adapters.sandbox.world import Body

EVENT = "event"
BACKWARDS = 3600
"""Seconds by which a stamp that goes back goes back."""

_BELONGING = {
    "order": ("refund", "fulfillment", "fulfillment_order"),
    "product": ("product_variant",),
    "inventory_item": ("inventory_level",),
}
"""What goes with an object of a kind."""

_ALOOF = {"order", "inventory_level"}
"""Kinds whose changes do not move the stamp of what they belong to."""

FIRST_NUMBER = 7_000_000_000_000
"""Numbers of gids go on from here: too long for 32 bits, as Shopify's are."""


class Ledger:
    """
    Carries out what happens in a shop: each change is a new version and, mostly, a webhook.

    What belongs to something goes with it and moves its stamp: a product's variants, an order's refunds.
    """

    def __init__(
        self, machinery: Machinery, sending: Sending, *, schema: GraphQLSchema, shop: tuple[str, ZoneInfo]
    ) -> None:
        self._machinery = machinery
        self._world = machinery.world
        self._sending = sending
        self._schema = schema
        domain, self._zone = shop
        self._action = ""
        self._children: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        founded = stamp(machinery.clock.now() - 365 * 24 * 3600)
        body = bodies.shop(self._new_number(), domain, at=founded, timezone=self._zone.key)
        self.shop_gid: str = body["id"]
        self._put("shop", number_of(self.shop_gid), body, created=0)

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id`, `version`, `events`, and what else it changed as `also`."""
        kind = kind_named(operation.kind)
        if operation.scope:
            raise Refused(f"a shop has no scopes, so none is named {operation.scope!r}")
        deeds: Mapping[Deed, Callable[[Kind, Operation], Body]] = {
            Deed.CREATE: self._create,
            Deed.CHANGE: self._change,
            Deed.DELETE: self._delete,
            Deed.RECREATE: self._recreate,
        }
        asked = replace(operation, body=_with_gids(kind, operation.body))
        self._check(kind, asked)
        with self._world.lock, self._acting():
            return deeds[asked.deed](kind, asked)

    def truth(self, *, kind: str | None, scope: str | None) -> list[Body]:
        """Return each object that ever was, whole and as it is now."""
        with self._world.lock:
            wanted = [each for each in self._world.everything() if each.kind != EVENT and kind in {None, each.kind}]
            return [_true(each) for each in wanted] if scope in {None, ""} else []

    def find(self, kind: str, number: str, at: float | None) -> Body | None:
        """Return an object as it was at *at* (None: is now), or None."""
        timeline = self._world.find("", kind, number)
        version = None if timeline is None else timeline.seen(at)
        return None if version is None else version.body

    def every(self, kind: str, at: float | None) -> Iterator[Body]:
        """Yield each object of *kind* that there was at *at*, in no order that matters."""
        for timeline in list(self._world.shelf("", kind).by_id.values()):
            version = timeline.seen(at)
            if version is not None and version.body is not None:
                yield version.body

    def children(self, kind: str, parent: str, at: float | None) -> list[Body]:
        """Return the objects of *kind* that belong to the object whose gid is *parent*, oldest first."""
        found = (self.find(kind, number, at) for number in list(self._children[kind, parent]))
        _, field = KINDS[kind].parent or ("", "")
        return [body for body in found if body is not None and body[field] == parent]

    def shift(self, kind: str, last: str) -> None:
        """Change something that moves the pages of a list whose page just ended with the gid *last*."""
        deed = (Deed.DELETE, Deed.CHANGE, Deed.CREATE)[self._machinery.mischief.pick("shift", 3)]
        listed = kind if kind in KINDS else "product"
        try:
            self.operate(Operation(deed=deed, kind=listed, id=number_of(last) if deed is not Deed.CREATE else ""))
        except Refused:
            self.operate(Operation(deed=Deed.CREATE, kind=listed))

    def uninstall(self) -> None:
        """Tell that the app was taken off the shop."""
        with self._world.lock:
            shop = self.find("shop", number_of(self.shop_gid), None)
            if shop is not None:
                self._sending.send("app/uninstalled", rest.shop(shop, self._zone))

    def _create(self, kind: Kind, operation: Operation) -> Body:
        number = operation.id or self._new_number()
        if not number.replace(":", "").isdecimal():
            raise Refused(f"an id is the number of a gid, not {number!r}")
        if operation.kind == "inventory_level" and not operation.id:
            return self._begin(operation, number)
        if kind.type == "Shop" or self._world.find("", operation.kind, number) is not None:
            raise Refused(f"{operation.kind} {number} has been created before")
        return self._begin(operation, number)

    def _recreate(self, _: Kind, operation: Operation) -> Body:
        if self._found(operation).latest.body is not None:
            raise Refused(f"{operation.kind} {operation.id} is still there; only what was deleted comes back")
        return self._begin(operation, operation.id)

    def _begin(self, operation: Operation, number: str) -> Body:
        makers: Mapping[str, Callable[[Operation, Draft], Body]] = {
            "order": self._begin_order,
            "product": self._begin_product,
            "product_variant": self._begin_variant,
            "customer": lambda operation, draft: self._first(operation, bodies.customer(draft)),
            "refund": self._begin_refund,
            "collection": lambda operation, draft: self._first(operation, bodies.collection(draft)),
            "discount": lambda operation, draft: self._first(operation, bodies.discount(draft)),
            "draft_order": lambda operation, draft: self._first(operation, bodies.draft_order(draft)),
            "fulfillment": lambda operation, draft: self._begin_of_order(operation, draft, bodies.fulfillment),
            "fulfillment_order": lambda operation, draft: self._begin_of_order(
                operation, draft, bodies.fulfillment_order
            ),
            "inventory_item": lambda operation, draft: self._first(operation, bodies.inventory_item(draft)),
            "inventory_level": self._begin_level,
            "location": lambda operation, draft: self._first(operation, bodies.location(draft)),
        }
        return makers[operation.kind](operation, self._draft(operation, number))

    def _begin_order(self, operation: Operation, draft: Draft) -> Body:
        customer = self._parent(operation, "customer")
        done = self._first(operation, bodies.order(draft))
        if customer is not None:
            count = {"numberOfOrders": str(int(customer["numberOfOrders"]) + 1)}
            done["also"] = [self._brought(operation, "customer", customer["id"], count)]
        return done

    def _begin_product(self, operation: Operation, draft: Draft, *, variant: Operation | None = None) -> Body:
        """Write the variants before the product: its webhook shows them."""
        product = bodies.product(draft)
        count = 1 if operation.parts is None else operation.parts
        variants = [
            self._begin_quietly(variant or _implied(operation, "product_variant"), product["id"], position)
            for position in range(1, count + 1)
        ]
        done = self._first(operation, product)
        return {**done, "also": variants}

    def _begin_quietly(self, operation: Operation, product: str, position: int) -> Body:
        draft = self._draft(operation, operation.id or self._new_number())
        return self._first(operation, bodies.variant(draft, product, position=position), announce=False)

    def _begin_variant(self, operation: Operation, draft: Draft) -> Body:
        """Add to the product that the body names, or make one around the new variant."""
        product = self._parent(operation, "product")
        if product is None:
            around = _implied(operation, "product")
            made = Operation(
                deed=Deed.CREATE, kind=operation.kind, id=draft.number, body=operation.body, at=operation.at
            )
            done = self._begin_product(around, self._draft(around, self._new_number()), variant=made)
            [variant] = done.pop("also")
            return {**variant, "events": done["events"], "also": [done]}
        position = 1 + len(self.children("product_variant", product["id"], None))
        done = self._first(operation, bodies.variant(draft, product["id"], position=position))
        return {**done, "also": [self._brought(operation, "product", product["id"], {})]}

    def _begin_refund(self, operation: Operation, draft: Draft) -> Body:
        """Refund the order that the body names, or the newest one that was not refunded yet."""
        order = self._parent(operation, "order") or self._unrefunded()
        made = [] if order is not None else [self.operate(_implied(operation, "order"))]
        if order is None:
            order = self.find("order", made[0]["id"], None) or {}
        refund = bodies.refund(draft, order)
        done = self._first(operation, refund)
        paid = bodies.amount(order["totalRefundedSet"]) + bodies.amount(refund["totalRefundedSet"])
        whole = paid >= bodies.amount(order["totalPriceSet"])
        told = {
            "totalRefundedSet": bodies.bag(paid),
            "displayFinancialStatus": "REFUNDED" if whole else "PARTIALLY_REFUNDED",
        }
        return {**done, "also": [*made, self._brought(operation, "order", order["id"], told)]}

    def _begin_of_order(self, operation: Operation, draft: Draft, make: Callable[[Draft, Body], Body]) -> Body:
        """Add to the order that the body names, or to a new one."""
        order = self._parent(operation, "order")
        made = [] if order is not None else [self.operate(_implied(operation, "order"))]
        if order is None:
            order = self.find("order", made[0]["id"], None) or {}
        done = self._first(operation, make(draft, order))
        return {**done, "also": [*made, self._brought(operation, "order", order["id"], {})]}

    def _begin_level(self, operation: Operation, draft: Draft) -> Body:
        """Stock the item at the location that the body or the id names: else a new item, at the newest location."""
        thing, location = self._parent(operation, "inventory_item", field="item"), self._parent(operation, "location")
        if operation.id:
            thing, location = (
                self.find(kind, number, None)
                for kind, number in zip(("inventory_item", "location"), operation.id.split(":"), strict=True)
            )
        quietly, also = replace(operation, announce=False), []
        if thing is None and not operation.id:
            also.append(self.operate(_implied(quietly, "inventory_item")))
            thing = self.find("inventory_item", also[-1]["id"], None)
        location = location or (None if operation.id else self._newest("location"))
        if location is None and not operation.id:
            also.append(self.operate(_implied(quietly, "location")))
            location = self.find("location", also[-1]["id"], None)
        if thing is None or location is None:
            raise Refused(f"inventory_level {operation.id} stands between what there is not")
        body = bodies.inventory_level(draft, thing["id"], location["id"])
        if self.find("inventory_level", number_of(body["id"]), None) is not None:
            raise Refused(f"inventory_level {number_of(body['id'])} is there already")
        said = {name: value for name, value in operation.body.items() if name not in {"item", "location"}}
        return {**self._first(replace(operation, body=said), body), "also": also}

    def _newest(self, kind: str) -> Body | None:
        return next((each[2] for each in self._world.shelf("", kind).newest(None)), None)

    def _unrefunded(self) -> Body | None:
        newest = next(self._world.shelf("", "order").newest(None), None)
        if newest is None or self.children("refund", newest[2]["id"], None):
            return None
        return newest[2]

    def _change(self, kind: Kind, operation: Operation) -> Body:
        timeline = self._found(operation)
        before = timeline.latest.body
        if before is None:
            raise Refused(f"{operation.kind} {operation.id} is deleted; recreate it first")
        said = operation.body or operation.parts is not None
        number = timeline.latest.number + 1
        after = _merged(before, operation.body if said else kind.edit(before, number))
        also: list[Body] = []
        if operation.parts is not None:
            after, also = self._resized(kind, operation, after, parts=operation.parts)
        done = self._write(operation, self._stamped(operation, after), before=before)
        return {**done, "also": [*also, *self._moved(kind, operation, after)]}

    def _moved(self, kind: Kind, operation: Operation, body: Body) -> list[Body]:
        """Move the stamp of what the object belongs to, for that is what the webhook tells of."""
        if kind.parent is None or operation.kind in _ALOOF:
            return []
        name, field = kind.parent
        return [self._brought(operation, name, body[field], {})]

    def _resized(self, kind: Kind, operation: Operation, body: Body, *, parts: int) -> tuple[Body, list[Body]]:
        if kind.parts is None:
            raise Refused(f"a {operation.kind} has no list of its own")
        if operation.kind == "product":
            return body, self._with_variants(operation, body, count=parts)
        draft = self._draft(operation, operation.id)
        kept = body[kind.parts][:parts]
        added = parts - len(kept)
        if operation.kind == "refund":
            fresh = [bodies.refunded_line(draft, kept[0]["lineItem"]) for _ in range(added if kept else 0)]
            return {**body, kind.parts: [*kept, *fresh]}, []
        if operation.kind in {"fulfillment", "fulfillment_order"}:
            make = bodies.fulfilled_line if operation.kind == "fulfillment" else bodies.fulfillment_order_line
            fresh = [make(draft, kept[0]["lineItem"]) for _ in range(added if kept else 0)]
            return {**body, kind.parts: [*kept, *fresh]}, []
        if operation.kind == "draft_order":
            drafted = [*kept, *(bodies.draft_line(draft) for _ in range(added))]
            return {**body, kind.parts: drafted, **bodies.draft_totals(drafted)}, []
        if operation.kind == "customer":
            return {**body, kind.parts: [*kept, *(bodies.address(draft) for _ in range(added))]}, []
        lines = [*kept, *(bodies.line_item(draft) for _ in range(added))]
        return {**body, kind.parts: lines, **bodies.totals(lines)}, []

    def _with_variants(self, operation: Operation, body: Body, *, count: int) -> list[Body]:
        have = self.children("product_variant", body["id"], None)
        made = _implied(operation, "product_variant")
        also = [self._begin_quietly(made, body["id"], position) for position in range(len(have) + 1, count + 1)]
        return also + [self._gone("product_variant", each["id"]) for each in have[count:]]

    def _delete(self, kind: Kind, operation: Operation) -> Body:
        body = self._found(operation).latest.body
        if body is None:
            raise Refused(f"{operation.kind} {operation.id} is deleted already")
        if kind.final:
            raise Refused(kind.final)
        if operation.kind == "customer" and self.children("order", body["id"], None):
            raise Refused(f"customer {operation.id} has orders and cannot be deleted")
        done = self._write(operation, None, before=body)
        also = [
            self._gone(belonging, each["id"])
            for belonging in _BELONGING.get(operation.kind, ())
            for each in self.children(belonging, body["id"], None)
        ]
        if operation.kind == "location":
            levels = [each for each in self.every("inventory_level", None) if each["location"] == body["id"]]
            also += [self._gone("inventory_level", each["id"]) for each in levels]
        return {**done, "also": [*also, *self._moved(kind, operation, body)]}

    def _gone(self, kind: str, gid_: str) -> Body:
        """Let an object go with what it belongs to, without a webhook of its own."""
        return self._written(kind, number_of(gid_), None, events=[])

    def _first(self, operation: Operation, body: Body, *, announce: bool = True) -> Body:
        """Write an object that is new, with what the operation says of it."""
        quiet = replace(operation, announce=announce and operation.announce)
        return self._write(quiet, _merged(body, operation.body), before=None)

    def _write(self, operation: Operation, body: Body | None, *, before: Body | None) -> Body:
        """Make *body* the object's next version and tell of it."""
        kind = KINDS[operation.kind]
        gid_ = (body or before or {})["id"]
        if body is not None:
            timeline = self._world.find("", operation.kind, number_of(gid_))
            number = timeline.latest.number + 1 if timeline is not None else 1
            body = {**body, **kind.mark(body, number)}
            body = {**body, **kind.follow(body, self._now(operation))}
        created = self._created(kind, operation, body) if body is not None and before is None else None
        self._put(operation.kind, number_of(gid_), body, created=created)
        if kind.history and (before is None or body is None):
            self._remember(operation, "create" if before is None else "destroy", gid_)
        told = operation.announce and operation.deliver
        events = self._tell(kind, operation, before=before, after=body) if told else []
        return self._result(operation.kind, number_of(gid_), events=events)

    def _created(self, kind: Kind, operation: Operation, body: Body) -> int:
        told = (body[kind.inside] if kind.inside else body).get("createdAt") or self._now(operation)
        return int(moment(told).timestamp())

    def _written(self, kind: str, number: str, body: Body | None, *, events: list[str]) -> Body:
        self._put(kind, number, body)
        return self._result(kind, number, events=events)

    def _result(self, kind: str, number: str, *, events: list[str]) -> Body:
        timeline = self._world.find("", kind, number)
        latest = timeline.latest if timeline is not None else None
        return {
            "kind": kind,
            "id": number,
            "scope": "",
            "version": latest.number if latest else 0,
            "deleted": latest is None or latest.body is None,
            "events": events,
        }

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """Let all webhooks of one thing that the merchant did share one id."""
        outer = self._action
        self._action = outer or self._sending.new_event_id()
        try:
            yield
        finally:
            self._action = outer

    def _check(self, kind: Kind, operation: Operation) -> None:
        """Raise `Refused` for fields that would make an object no object of its kind."""
        shapes: dict[str, type] = {"createdAt": str, "updatedAt": str, "tags": list, "lineItems": list}
        body = operation.body
        wrong = [name for name, shape in shapes.items() if name in body and not isinstance(body[name], shape)]
        fixed = sorted(body.keys() & {"id", "legacyResourceId", "variants", "refunds"})
        _, above = kind.parent or ("", "")
        unknown = sorted(body.keys() - field_names(self._schema, kind.type) - {above})
        if wrong or fixed or unknown:
            raise Refused(f"body cannot set {', '.join([*fixed, *unknown, *wrong])} so")

    def _put(self, kind: str, number: str, body: Body | None, *, created: int | None = None) -> None:
        timeline = self._world.find("", kind, number) or Timeline("", kind, number)
        self._world.put(timeline, body, at=self._machinery.clock.ticks(), created=created)
        row = KINDS.get(kind)
        if body is not None and row is not None and row.parent is not None and body[row.parent[1]] is not None:
            self._children[kind, body[row.parent[1]]].setdefault(number)

    def _remember(self, operation: Operation, action: str, subject: str) -> None:
        at = operation.at if operation.at is not None else int(self._machinery.clock.now())
        event = bodies.event(self._new_gid("BasicEvent"), action, subject, at=stamp(at))
        self._put(EVENT, number_of(event["id"]), event, created=at)

    def _tell(self, kind: Kind, operation: Operation, *, before: Body | None, after: Body | None) -> list[str]:
        """Send each topic of one change under one id of what the merchant did, and return that id."""
        topics = kind.topics(before, after)
        if not topics:
            return []
        event_id = self._action
        for topic in topics:
            body = rest.gone((before or {})["id"]) if after is None else self._told(operation.kind, after)
            self._sending.send(topic, body, event_id=event_id, at=operation.at)
        return [event_id]

    def _told(self, kind: str, body: Body) -> Body:
        """Return what a webhook shows of an object."""
        if kind == "order":
            customer = body["customer"] and self.find("customer", number_of(body["customer"]), None)
            return rest.order(
                body, self._zone, refunds=self.children("refund", body["id"], None), customer=customer or None
            )
        if kind == "product":
            return rest.product(body, self._zone, variants=self.children("product_variant", body["id"], None))
        return rest.TOLD[kind](body, self._zone)

    def _draft(self, operation: Operation, number: str) -> Draft:
        def related(kind: str) -> str | None:
            newest = next(self._world.shelf("", kind).newest(None), None)
            return newest[2]["id"] if newest else None

        turn = self._world.turn(f"draft {operation.kind}")
        return Draft(number, self._now(operation), turn, operation.parts, related, self._new_gid)

    def _parent(self, operation: Operation, kind: str, *, field: str = "") -> Body | None:
        """Return the object that the operation's body says the new one belongs to."""
        named = operation.body.get(field or kind)
        if named is None:
            return None
        body = self.find(kind, number_of(str(named)), None)
        if body is None:
            raise Refused(f"there is no {kind} {named!r}")
        return body

    def _brought(self, operation: Operation, kind: str, gid_: str, body: Body) -> Body:
        """Change another object because of *operation*, with its stamp, time and silence."""
        timeline = self._world.find("", kind, number_of(gid_))
        before = timeline.latest.body if timeline is not None else None
        if before is None:
            raise Refused(f"there is no {kind} {gid_}")
        brought = replace(operation, deed=Deed.CHANGE, kind=kind, id=number_of(gid_), body={}, parts=None)
        return self._write(brought, self._stamped(brought, _merged(before, body)), before=before)

    def _found(self, operation: Operation) -> Timeline:
        timeline = self._world.find("", operation.kind, operation.id)
        if timeline is None:
            raise Refused(f"there is no {operation.kind} {operation.id!r}")
        return timeline

    def _now(self, operation: Operation) -> str:
        return stamp(operation.at if operation.at is not None else self._machinery.clock.now())

    def _stamped(self, operation: Operation, body: Body) -> Body:
        inside = KINDS[operation.kind].inside
        if inside and "updatedAt" not in operation.body.get(inside, {}):
            return {**body, inside: self._stamped(replace(operation, kind="order", body={}), body[inside])}
        if inside or "updatedAt" in operation.body or operation.stamp is Stamp.KEEP:
            return body
        if operation.stamp is Stamp.BACK:
            return {**body, "updatedAt": stamp(moment(body["updatedAt"]).timestamp() - BACKWARDS)}
        return {**body, "updatedAt": self._now(operation)}

    def _new_number(self) -> str:
        return str(FIRST_NUMBER + self._world.turn("number"))

    def _new_gid(self, type_: str) -> str:
        return gid(type_, self._new_number())


def _implied(operation: Operation, kind: str) -> Operation:
    """Return the creation of another object that *operation* needs."""
    return Operation(
        deed=Deed.CREATE, kind=kind, at=operation.at, announce=operation.announce, deliver=operation.deliver
    )


def _with_gids(kind: Kind, body: Body) -> Body:
    """Return *body* with the gid of what the object belongs to, where its number was given."""
    name, field = kind.parent or ("", "")
    if not isinstance(body.get(field), str):
        return body
    return {**body, field: gid(KINDS[name].type, number_of(body[field]))}


def _true(timeline: Timeline) -> Body:
    latest = timeline.latest
    return {
        "kind": timeline.kind,
        "id": timeline.id,
        "scope": "",
        "version": latest.number,
        "deleted": latest.body is None,
        "body": latest.body,
    }


def _merged(body: Body, changes: Body) -> Body:
    """Return *body* with *changes* set, objects merged."""
    result = dict(body)
    for name, value in changes.items():
        old = result.get(name)
        result[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def kind_of(gid_: str) -> str | None:
    """Return the kind that a gid is of, or None."""
    return KIND_OF_TYPE.get(gid_.removeprefix(bodies.GIDS).partition("/")[0])
