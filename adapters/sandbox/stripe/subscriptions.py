"""Webhook endpoints as Stripe's API shows, makes, changes and ends them: a secret is shown once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from starlette.routing import Route

from adapters.sandbox.deliveries import Endpoint
from adapters.sandbox.stripe.answers import denied, missing, success
from adapters.sandbox.stripe.ledger import CONNECTED
from adapters.sandbox.stripe.listing import PAGING, part
from adapters.sandbox.stripe.query import Denied, parameters, text, texts, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from adapters.sandbox.front import Asked, Front
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.stripe.access import Access
    from adapters.sandbox.stripe.query import Parameters
    from adapters.sandbox.world import Body

    Act = Callable[[Asked], Body]

FOUNDED = 1_600_000_000
"""When endpoints that the control routes set were made."""

_KIND = "webhook_endpoint"
_HOME = "/v1/webhook_endpoints"
_CHANGEABLE = frozenset({"url", "enabled_events", "disabled", "description", "metadata", "expand"})
_MOST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What Stripe knows of an endpoint besides where it sends what."""

    api_version: str | None
    created: int = FOUNDED
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Endpoints:
    """Answers the calls about webhook endpoints; the control routes set the same ones."""

    def __init__(self, machinery: Machinery, access: Access, *, api_version: str) -> None:
        self._machinery = machinery
        self._access = access
        self._api_version = api_version
        self._traits: dict[str, Trait] = {}

    def routes(self, front: Front) -> list[Route]:
        """Return a route for each operation."""
        acts: dict[str, Act] = {
            f"GET {_HOME}": self._list,
            f"POST {_HOME}": self._create,
            f"GET {_HOME}/{{id}}": self._one,
            f"POST {_HOME}/{{id}}": self._change,
            f"DELETE {_HOME}/{{id}}": self._end,
        }
        return [self._route(front, operation, act) for operation, act in acts.items()]

    def _route(self, front: Front, operation: str, act: Act) -> Route:
        method, path = operation.split(" ")

        async def endpoint(request: Request) -> Response:
            request.state.sent = await request.body()
            return await front.answer(request, operation, partial(self._answer, act))

        return Route(path, endpoint, methods=[method])

    def _answer(self, act: Act, asked: Asked) -> Response:
        try:
            visit = self._access.visit(asked.request)
            may = "read" if asked.request.method == "GET" else "write"
            visit.may_read(_KIND, f"rak_webhook_{may}")
            with self._machinery.world.lock:
                return success(act(asked))
        except Denied as refusal:
            return denied(refusal)

    def _list(self, asked: Asked) -> Body:
        read = parameters(asked.request.query_params.multi_items(), known=PAGING)
        found = [self._shown(each) for each in self._machinery.deliveries.endpoints]
        shown, more = part(found, read, kind=_KIND)
        return {"object": "list", "data": shown, "has_more": more, "url": _HOME}

    def _one(self, asked: Asked) -> Body:
        return self._shown(self._found(asked))

    def _create(self, asked: Asked) -> Body:
        read = _sent(asked, _CHANGEABLE | {"api_version", "connect"})
        url, events = text(read, "url"), texts(read, "enabled_events")
        for name, given in (("url", url), ("enabled_events", events)):
            if not given:
                raise Denied(400, f"Missing required param: {name}.", code="parameter_missing", param=name)
        if len(self._machinery.deliveries.endpoints) >= _MOST:
            raise Denied(400, f"You have reached the maximum of {_MOST} test webhook endpoints.")
        world = self._machinery.world
        secret = world.new_id("whsec_", length=32)
        endpoint = Endpoint(
            id=world.new_id("we_"),
            url=_address(url),
            secrets=(secret,),
            events=tuple(events),
            scope=CONNECTED if truth(read, "connect") else "",
        )
        self._traits[endpoint.id] = Trait(
            api_version=text(read, "api_version"),
            created=int(self._machinery.clock.now()),
            description=text(read, "description"),
            metadata=_fields(read, "metadata"),
        )
        self._machinery.deliveries.endpoints = (*self._machinery.deliveries.endpoints, endpoint)
        return self._shown(endpoint) | {"secret": secret}

    def _change(self, asked: Asked) -> Body:
        before, read = self._found(asked), _sent(asked, _CHANGEABLE)
        url, off = text(read, "url"), truth(read, "disabled")
        after = replace(
            before,
            url=before.url if url is None else _address(url),
            events=tuple(texts(read, "enabled_events")) or before.events,
            enabled=before.enabled if off is None else not off,
        )
        trait = self._trait(before)
        self._traits[before.id] = replace(
            trait,
            description=text(read, "description") or trait.description,
            metadata={**trait.metadata, **_fields(read, "metadata")},
        )
        endpoints = self._machinery.deliveries.endpoints
        self._machinery.deliveries.endpoints = tuple(after if each is before else each for each in endpoints)
        return self._shown(after)

    def _end(self, asked: Asked) -> Body:
        found = self._found(asked)
        endpoints = self._machinery.deliveries.endpoints
        self._machinery.deliveries.endpoints = tuple(each for each in endpoints if each is not found)
        return {"id": found.id, "object": _KIND, "deleted": True}

    def _found(self, asked: Asked) -> Endpoint:
        id_ = unquote(asked.request.path_params["id"])
        for each in self._machinery.deliveries.endpoints:
            if each.id == id_:
                return each
        raise missing(_KIND, id_)

    def _trait(self, endpoint: Endpoint) -> Trait:
        return self._traits.get(endpoint.id, Trait(api_version=self._api_version))

    def _shown(self, endpoint: Endpoint) -> Body:
        trait = self._trait(endpoint)
        return {
            "id": endpoint.id,
            "object": _KIND,
            "api_version": trait.api_version,
            "application": None,  # nothing says that it tells endpoints for connected accounts apart
            "created": trait.created,
            "description": trait.description,
            "enabled_events": list(endpoint.events),
            "livemode": False,
            "metadata": dict(trait.metadata),
            "status": "enabled" if endpoint.enabled else "disabled",
            "url": endpoint.url,
        }


def _sent(asked: Asked, known: frozenset[str]) -> Parameters:
    pairs = parse_qsl(asked.request.state.sent.decode(), keep_blank_values=True)
    return parameters(pairs, known=known)


def _address(url: str | None) -> str:
    if url is None or not url.startswith(("http://", "https://")):
        raise Denied(400, "Invalid URL: An explicit scheme (such as https) must be provided.", param="url")
    return url


def _fields(read: Parameters, name: str) -> dict[str, str]:
    value = read.get(name, {})
    if isinstance(value, dict):
        return value
    raise Denied(400, f"Invalid object: {value}", param=name)
