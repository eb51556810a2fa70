"""How Stripe words what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from adapters.sandbox.spelling import compact
from adapters.sandbox.stripe.query import Denied

if TYPE_CHECKING:
    from adapters.sandbox.front import Asked
    from adapters.sandbox.limits import Limit
    from adapters.sandbox.world import JSON, Body, World

RATE_LIMITED = "Stripe-Rate-Limited-Reason"
_REASONS: dict[Limit, str] = {"global": "global-rate", "operation": "endpoint-rate"}


class StripeVoice:
    """Stripe's words for faults and limits, and the headers all its answers have."""

    def __init__(self, world: World, *, api_version: str) -> None:
        self._world = world
        self._api_version = api_version

    def new_request_id(self) -> str:
        """Return the id of the next call."""
        return self._world.new_id("req_", length=14)

    def fault(self, status: str, asked: Asked) -> Response:
        """Answer a call with a fault's *status*."""
        if status == "lock_timeout":
            return _locked()
        if status == "429":
            return self.limited("global", asked)
        kind = "api_error" if status >= "500" else "invalid_request_error"
        return error({"message": f"The stand-in was told to answer {status} here.", "type": kind}, status=int(status))

    def limited(self, limit: Limit, asked: Asked) -> Response:
        """Answer a call that went over *limit*: Stripe names the limit, and no time to wait."""
        message = f"Too many requests for {asked.operation}: slow down."
        response = error({"code": "rate_limit", "message": message, "type": "invalid_request_error"}, status=429)
        response.headers[RATE_LIMITED] = _REASONS[limit]
        return response

    def dress(self, response: Response, asked: Asked) -> None:
        """Add the request's id and the API version that was used."""
        response.headers["Request-Id"] = asked.request_id
        response.headers["Stripe-Version"] = asked.request.headers.get("Stripe-Version", self._api_version)


def success(content: JSON) -> Response:
    """Answer with JSON, every number as it is."""
    return Response(compact(content), media_type="application/json")


def error(content: Body, *, status: int) -> Response:
    """Answer with an error as Stripe wraps it."""
    return Response(compact({"error": content}), status_code=status, media_type="application/json")


def denied(refusal: Denied) -> Response:
    """Answer with the refusal of a call."""
    return error(refusal.error, status=refusal.status)


def missing(kind: str, id_: str) -> Denied:
    """Return the refusal of a call that names an object by its path."""
    return Denied(404, f"No such {kind}: '{id_}'", code="resource_missing", param="id")


def _locked() -> Response:
    """Answer as for an object that another call holds: a 429, but of no rate limit."""
    message = "Another call holds this object right now; try again."
    return error({"code": "lock_timeout", "message": message, "type": "invalid_request_error"}, status=429)
