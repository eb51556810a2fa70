"""Stripe's API as far as a mirror reads it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.routing import Route

from adapters.sandbox.stripe.answers import denied, missing, success
from adapters.sandbox.stripe.kind import Listed
from adapters.sandbox.stripe.kinds import KINDS
from adapters.sandbox.stripe.ledger import EVENT
from adapters.sandbox.stripe.listing import PAGING, event_filter, filters, known, page, part
from adapters.sandbox.stripe.query import Denied, parameters, text, texts
from adapters.sandbox.stripe.shapes import SHOWN_PARTS, as_shown, is_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.requests import Request
    from starlette.responses import Response

    from adapters.sandbox.front import Asked, Front
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.stripe.access import Access, Visit
    from adapters.sandbox.stripe.kind import Kind
    from adapters.sandbox.stripe.ledger import Ledger
    from adapters.sandbox.stripe.query import Parameters
    from adapters.sandbox.world import Body

HISTORY = 30 * 24 * 3600
"""Seconds that events stay listed."""

PART_OF = {
    "application_fee": "fee_refund",
    "credit_note": "credit_note_line_item",
    "invoice": "line_item",
    "subscription": "subscription_item",
    "transfer": "transfer_reversal",
}
"""What an object's own list holds."""

OWNED = {("charge", "refunds"): "refund", ("customer", "tax_ids"): "tax_id"}
"""Lists of objects of another kind that an object has, by the field that shows them once it is expanded."""


class Api:
    """Answers the read calls of Stripe's API from what is in the ledger."""

    def __init__(self, machinery: Machinery, ledger: Ledger, access: Access, *, api_version: str) -> None:
        self._machinery = machinery
        self._world = machinery.world
        self._ledger = ledger
        self._access = access
        self._api_version = api_version

    def routes(self, front: Front) -> list[Route]:
        """Return a route for each operation, and one that refuses all others."""
        answers: dict[str, Callable[[Asked, Visit], Body]] = {
            "GET /v1/account": self._account,
            "GET /v1/accounts": self._accounts,
            "GET /v1/accounts/{id}": self._account_by_id,
            "GET /v1/events": self._events,
            "GET /v1/events/{id}": self._event,
            "GET /v1/subscription_items": self._subscription_items,
            "GET /v1/subscription_items/{id}": self._subscription_item,
        }
        for name, kind in KINDS.items():
            if kind.listed is not Listed.NOWHERE:
                answers[f"GET /v1/{kind.plural}"] = partial(self._list, name, kind)
            answers.setdefault(f"GET /v1/{kind.plural}/{{id}}", partial(self._retrieve, name, kind))
            if kind.parts and name != "subscription":
                answers[f"GET /v1/{kind.plural}/{{id}}/{kind.parts}"] = partial(self._parts, name, kind)
        for (name, field), owned in OWNED.items():
            answers[f"GET /v1/{KINDS[name].plural}/{{id}}/{field}"] = partial(self._owned_by, name, field, owned)
        routes = [front.route(operation, partial(self._answer, act)) for operation, act in answers.items()]
        return [*routes, self._unknown(front)]

    def _answer(self, act: Callable[[Asked, Visit], Body], asked: Asked) -> Response:
        try:
            self._version(asked)
            visit = self._access.visit(asked.request)
            with self._world.lock:
                return success(act(asked, visit))
        except Denied as refusal:
            return denied(refusal)

    def _unknown(self, front: Front) -> Route:
        def refuse(asked: Asked) -> Response:
            path, method = asked.request.url.path, asked.request.method
            return denied(Denied(404, f"Unrecognized request URL ({method}: {path})."))

        async def endpoint(request: Request) -> Response:
            return await front.answer(request, f"{request.method} unknown", refuse)

        return Route("/{path:path}", endpoint, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    def _account(self, asked: Asked, visit: Visit) -> Body:
        _read(asked, {"expand"})
        visit.may_read("account", "rak_accounts_kyc_basic_read")
        return self._ledger.account(visit.account)

    def _account_by_id(self, asked: Asked, visit: Visit) -> Body:
        id_ = _id(asked)
        visit.may_read("account", "rak_accounts_kyc_basic_read")
        if id_ == visit.account or (id_ in self._ledger.scopes and not visit.scope):
            return self._ledger.account(id_)
        message = f"The provided key does not have access to account '{id_}' (or that account does not exist)."
        raise Denied(403, message, code="account_invalid")

    def _accounts(self, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, PAGING)
        visit.may_read("account", "rak_accounts_kyc_basic_read")
        connected = sorted(self._ledger.scopes - {""}) if not visit.scope else []
        found = [self._ledger.account(id_) for id_ in connected]
        return _listed("/v1/accounts", *part(found, read, kind="account"))

    def _retrieve(self, name: str, kind: Kind, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, {"expand"})
        visit.may_read(name, kind.permission)
        timeline = self._world.find(visit.scope, name, _id(asked))
        version = timeline.seen(asked.at) if timeline is not None else None
        if version is None or (version.body is None and not kind.stub):
            raise missing(name, _id(asked))
        if version.body is None:
            return {"id": _id(asked), "object": name, "deleted": True}
        return self._shown(version.body, asked, visit, expand=texts(read, "expand"))

    def _list(self, name: str, kind: Kind, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, known(name, kind))
        visit.may_read(name, kind.permission)
        found, more = page(self._world.shelf(visit.scope, name), read, at=asked.at, keep=filters(name, kind, read))
        expand = [_under_data(path) for path in texts(read, "expand")]
        shown = [self._shown(body, asked, visit, expand=expand) for body in found]
        if more:
            self._shift(asked, visit, name, found[-1]["id"])
        return _listed(f"/v1/{kind.plural}", shown, more)

    def _events(self, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, PAGING | {"created", "delivery_success", "type", "types"})
        visit.may_read("event", "rak_event_read")
        deliveries = self._machinery.deliveries
        found, more = page(
            self._world.shelf(visit.scope, EVENT),
            read,
            at=asked.at,
            keep=event_filter(read, deliveries.undelivered),
            least=self._oldest_event(),
        )
        if more:
            self._shift(asked, visit, EVENT, found[-1]["id"])
        return _listed("/v1/events", [self._pending(event) for event in found], more)

    def _event(self, asked: Asked, visit: Visit) -> Body:
        visit.may_read("event", "rak_event_read")
        timeline = self._world.find(visit.scope, EVENT, _id(asked))
        version = timeline.seen(asked.at) if timeline is not None else None
        if version is None or version.body is None or version.body["created"] < self._oldest_event():
            raise missing("event", _id(asked))
        return self._pending(version.body)

    def _oldest_event(self) -> int:
        return int(self._machinery.clock.now()) - HISTORY

    def _pending(self, event: Body) -> Body:
        return {**event, "pending_webhooks": self._machinery.deliveries.undelivered(event["id"])}

    def _subscription_items(self, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, PAGING | {"subscription"})
        visit.may_read("subscription", KINDS["subscription"].permission)
        id_ = text(read, "subscription")
        if id_ is None:
            raise Denied(400, "Missing required param: subscription.", code="parameter_missing", param="subscription")
        return self._part("subscription", id_, read, asked, visit)

    def _subscription_item(self, asked: Asked, visit: Visit) -> Body:
        _read(asked, {"expand"})
        visit.may_read("subscription", KINDS["subscription"].permission)
        for _, _, body in self._world.shelf(visit.scope, "subscription").newest(asked.at):
            for each in as_shown(body, version=self._version(asked), whole=True)["items"]["data"]:
                if each["id"] == _id(asked):
                    shown: Body = each
                    return shown
        raise missing("subscription_item", _id(asked))

    def _parts(self, name: str, kind: Kind, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, PAGING)
        visit.may_read(name, kind.permission)
        return self._part(name, _id(asked), read, asked, visit)

    def _part(self, name: str, id_: str, read: Parameters, asked: Asked, visit: Visit) -> Body:
        """Return one page of the lines or items of an object."""
        owner = self._owner(name, id_, asked, visit)
        held = owner[KINDS[name].parts or ""]
        found, more = part(held["data"], read, kind=PART_OF[name])
        if more and self._machinery.mischief.shifts(asked.operation):
            self._ledger.grow(visit.scope, name, id_)
        return _listed(held["url"].partition("?")[0], found, more)

    def _owned_by(self, name: str, field: str, owned: str, asked: Asked, visit: Visit) -> Body:
        read = _read(asked, PAGING)
        visit.may_read(owned, KINDS[owned].permission)
        owner = self._owner(name, _id(asked), asked, visit)
        url = f"/v1/{KINDS[name].plural}/{owner['id']}/{field}"
        return _listed(url, *self._owned(owned, {name: owner["id"]}, read, asked, visit))

    def _owned(self, owned: str, whose: Body, read: Parameters, asked: Asked, visit: Visit) -> tuple[list[Body], bool]:
        shelf = self._world.shelf(visit.scope, owned)
        return page(shelf, read, at=asked.at, keep=lambda body: all(body[name] == id_ for name, id_ in whose.items()))

    def _owner(self, name: str, id_: str, asked: Asked, visit: Visit) -> Body:
        """Return the whole object whose own list is asked for."""
        timeline = self._world.find(visit.scope, name, id_)
        version = timeline.seen(asked.at) if timeline is not None else None
        if version is None or version.body is None:
            raise missing(name, id_)
        return as_shown(version.body, version=self._version(asked), whole=True)

    def _version(self, asked: Asked) -> str:
        version = asked.request.headers.get("Stripe-Version", self._api_version)
        if not is_version(version):
            raise Denied(400, f"Invalid Stripe API version: {version}")
        return version

    def _shown(self, body: Body, asked: Asked, visit: Visit, *, expand: list[str]) -> Body:
        shown = as_shown(body, version=self._version(asked))
        return {**shown, **{field: self._expanded(body, field, asked, visit) for field in expand}}

    def _expanded(self, body: Body, field: str, asked: Asked, visit: Visit) -> Body | None:
        kind = body["object"].replace(".", "_")
        owned = OWNED.get((kind, field))
        if owned is not None:
            found, more = self._owned(owned, {kind: body["id"]}, {"limit": str(SHOWN_PARTS)}, asked, visit)
            shown = _listed(f"/v1/{KINDS[kind].plural}/{body['id']}/{field}", found, more)
            return {**shown, "total_count": len(found)}
        name = KINDS[kind].references.get(field)
        if name is None:
            raise Denied(400, f"This property cannot be expanded ({field}).", param="expand")
        timeline = self._world.find(visit.scope, name, body[field] or "")
        version = timeline.seen(asked.at) if timeline is not None else None
        if version is None:
            return None
        if version.body is None:
            return {"id": body[field], "object": name, "deleted": True}
        return as_shown(version.body, version=self._version(asked))

    def _shift(self, asked: Asked, visit: Visit, name: str, last_id: str) -> None:
        if self._machinery.mischief.shifts(asked.operation):
            self._ledger.shift(visit.scope, name, last_id)


def _id(asked: Asked) -> str:
    return unquote(asked.request.path_params["id"])


def _read(asked: Asked, names: Collection[str]) -> Parameters:
    return parameters(asked.request.query_params.multi_items(), known=names)


def _under_data(path: str) -> str:
    if not path.startswith("data."):
        raise Denied(400, f"This property cannot be expanded ({path}); in a list, start with data.", param="expand")
    return path.removeprefix("data.")


def _listed(url: str, found: list[Body], more: bool) -> Body:  # noqa: FBT001 - a page is (found, more)
    return {"object": "list", "data": found, "has_more": more, "url": url}
