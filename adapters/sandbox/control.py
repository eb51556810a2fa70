"""
The control routes of a stand-in: make things happen at the provider, and look at what really is there.

Under `/_control`, JSON both ways; what makes no sense is a 400 `{"error"}` and changes nothing:

    GET    /objects?kind=&scope=   [{"kind","id","scope","version","deleted","body"}], whole, free of faults
    POST   /objects                {"op","kind","id","scope","stamp","body","parts","at","announce","deliver"} or a list
    PUT    /webhooks               {"url","secret","events","enabled","scope","id"} or a list; GET shows them
    PUT    /faults                 see `adapters.sandbox.faults.Faults`; what is not named is off; GET shows them
    POST   /seed                   {"seed"}: the same seed and the same calls draw the same faults
    PUT    /clock                  {"skew"}: seconds the provider's clock is ahead; GET shows it
    PUT    /limits                 {"every","each","named"}: calls a second, null for no limit; GET shows them
    PUT    /headers                {"Deprecation": ...}: what every answer of the API says besides; GET shows them
    PUT    /retries                {"first","factor","most","attempts"}: of deliveries
    GET    /calls?last=            totals, counts by operation and status, the last calls; DELETE forgets them
    GET    /deliveries?last=       sent, delivered, failed, dropped, ..., pending, answers by status, the last attempts
    POST   /flush?timeout=         waits until no delivery is on its way: {"pending"}
    POST   /resend                 {"event_id"}: once more by hand: {"sent_to"}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from adapters.sandbox.deliveries import backoff_from, endpoints_from
from adapters.sandbox.faults import Refused, faults_from, shown
from adapters.sandbox.limits import rates_from
from adapters.sandbox.operations import operation_from
from adapters.sandbox.spelling import compact
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from adapters.sandbox.deliveries import Endpoint
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.operations import Operation
    from adapters.sandbox.world import JSON, Body

PREFIX = "/_control"


class Provider(Protocol):
    """What the control routes need from the stand-in of one provider."""

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id` and `version`; raises `Refused` if the provider would not have it."""

    def truth(self, *, kind: str | None, scope: str | None) -> list[Body]:
        """Return each object that ever was, with its hidden version, whole and without any fault."""

    def resend(self, event_id: str) -> int:
        """Send an event of the feed again and return to how many endpoints; raises `Refused` if there is none."""

    def new_endpoint_id(self) -> str:
        """Return the id of a new webhook endpoint."""


class Control:
    """The control routes of one stand-in."""

    def __init__(self, machinery: Machinery, provider: Provider) -> None:
        self._machinery = machinery
        self._provider = provider

    def routes(self) -> list[Route]:
        """Return the routes, each answering JSON; a request that makes no sense gets a 400 and the reason."""
        return [route(method, path, act) for (method, path), act in self._table().items()]

    def no_such_route(self) -> Route:
        """Return the route for whatever else is asked under the prefix; it names what there is."""
        message = f"no such control route; there are {', '.join(' '.join(each) for each in self._table())}"

        async def endpoint(_: Request) -> Response:
            return _json({"error": message}, status=404)

        return Route(f"{PREFIX}{{rest:path}}", endpoint, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    def _table(self) -> dict[tuple[str, str], Act]:
        return {
            ("GET", "/objects"): self._objects,
            ("POST", "/objects"): self._operate,
            ("GET", "/webhooks"): self._webhooks,
            ("PUT", "/webhooks"): self._set_webhooks,
            ("GET", "/faults"): self._faults,
            ("PUT", "/faults"): self._set_faults,
            ("POST", "/seed"): self._seed,
            ("GET", "/clock"): self._clock,
            ("PUT", "/clock"): self._set_clock,
            ("GET", "/limits"): self._limits,
            ("PUT", "/limits"): self._set_limits,
            ("GET", "/headers"): self._headers,
            ("PUT", "/headers"): self._set_headers,
            ("PUT", "/retries"): self._retries,
            ("GET", "/calls"): self._calls,
            ("DELETE", "/calls"): self._forget_calls,
            ("GET", "/deliveries"): self._deliveries,
            ("POST", "/flush"): self._flush,
            ("POST", "/resend"): self._resend,
        }

    def _objects(self, request: Request, _: JSON) -> JSON:
        return self._provider.truth(kind=request.query_params.get("kind"), scope=request.query_params.get("scope"))

    def _operate(self, _: Request, asked: JSON) -> JSON:
        if not isinstance(asked, list):
            return self._provider.operate(operation_from(asked))
        return [self._operate_or_say(operation) for operation in [operation_from(each) for each in asked]]

    def _operate_or_say(self, operation: Operation) -> Body:
        try:
            return self._provider.operate(operation)
        except Refused as refused:
            return {"kind": operation.kind, "id": operation.id, "error": str(refused)}

    def _webhooks(self, _: Request, __: JSON) -> JSON:
        return [_endpoint(each) for each in self._machinery.deliveries.endpoints]

    def _set_webhooks(self, request: Request, asked: JSON) -> JSON:
        self._machinery.deliveries.endpoints = endpoints_from(asked, new_id=self._provider.new_endpoint_id)
        return self._webhooks(request, None)

    def _faults(self, _: Request, __: JSON) -> JSON:
        return shown(self._machinery.mischief.faults)

    def _set_faults(self, request: Request, asked: JSON) -> JSON:
        self._machinery.mischief.faults = faults_from(_object(asked))
        return self._faults(request, None)

    def _seed(self, _: Request, asked: JSON) -> JSON:
        seed = _object(asked).get("seed")
        if not isinstance(seed, int):
            raise Refused("seed must be a whole number")
        self._machinery.mischief.reseed(seed)
        return {"seed": seed}

    def _clock(self, _: Request, __: JSON) -> JSON:
        return {"skew": self._machinery.clock.skew, "now": self._machinery.clock.now()}

    def _set_clock(self, request: Request, asked: JSON) -> JSON:
        try:
            self._machinery.clock.skew = float(_object(asked).get("skew", 0))
        except (TypeError, ValueError):
            raise Refused("skew must be a number of seconds") from None
        return self._clock(request, None)

    def _limits(self, _: Request, __: JSON) -> JSON:
        return self._machinery.limits.rates

    def _set_limits(self, request: Request, asked: JSON) -> JSON:
        self._machinery.limits.set(rates_from(_object(asked)))
        return self._limits(request, None)

    def _headers(self, _: Request, __: JSON) -> JSON:
        return self._machinery.said

    def _set_headers(self, request: Request, asked: JSON) -> JSON:
        headers = _object(asked)
        if not all(isinstance(value, str) for value in headers.values()):
            raise Refused("each header must be a text")
        self._machinery.said.clear()
        self._machinery.said.update(headers)
        return self._headers(request, None)

    def _retries(self, _: Request, asked: JSON) -> JSON:
        self._machinery.deliveries.backoff = backoff_from(_object(asked))
        return {}

    def _calls(self, request: Request, _: JSON) -> JSON:
        return self._machinery.calls.summary(_whole(request, "last", 200))

    def _forget_calls(self, _: Request, __: JSON) -> JSON:
        self._machinery.calls.clear()
        return {}

    def _deliveries(self, request: Request, _: JSON) -> JSON:
        return self._machinery.deliveries.report(_whole(request, "last", 100))

    def _flush(self, request: Request, _: JSON) -> JSON:
        return {"pending": self._machinery.deliveries.flush(_whole(request, "timeout", 30))}

    def _resend(self, _: Request, asked: JSON) -> JSON:
        return {"sent_to": self._provider.resend(str(_object(asked).get("event_id", "")))}


if TYPE_CHECKING:
    Act = Callable[[Request, JSON], JSON]


def route(method: str, path: str, act: Act) -> Route:
    """Return a control route that answers with what *act* makes of the request and its JSON."""

    async def endpoint(request: Request) -> Response:
        raw = await request.body()
        try:
            asked = parse(raw) if raw else None
            answer = await run_in_threadpool(act, request, asked)
        except ValueError as error:
            return _json({"error": str(error)}, status=400)
        return _json(answer, status=200)

    return Route(f"{PREFIX}{path}", endpoint, methods=[method])


def _json(content: JSON, *, status: int) -> Response:
    return Response(compact(content), status_code=status, media_type="application/json")


def _object(asked: JSON) -> Body:
    if not isinstance(asked, dict):
        raise Refused("the request must be a JSON object")
    return asked


def _whole(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name, str(default))
    if not value.isdecimal():
        raise Refused(f"{name} must be a whole number")
    return int(value)


def _endpoint(endpoint: Endpoint) -> Body:
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "events": list(endpoint.events),
        "enabled": endpoint.enabled,
        "scope": endpoint.scope,
    }
