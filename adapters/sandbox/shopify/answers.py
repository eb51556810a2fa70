"""How Shopify words its answers, and what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from adapters.sandbox.spelling import compact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sandbox.front import Asked
    from adapters.sandbox.limits import Limit
    from adapters.sandbox.shopify.access import Denied
    from adapters.sandbox.world import JSON, Body, World

MESSAGES = {
    "INTERNAL_SERVER_ERROR": "Internal error. Looks like something went wrong on our end.",
    "THROTTLED": "Throttled",
}
_WORDS = {
    "401": "[API] Invalid API key or access token (unrecognized login or wrong password)",
    "402": "Unavailable Shop",
    "403": "[API] This action requires merchant approval for the app.",
    "404": "Not Found",
    "423": "Unavailable Shop",
    "429": "Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service.",
}


class ShopifyVoice:
    """Shopify's words for faults and limits, and the headers all its answers have."""

    def __init__(self, world: World) -> None:
        self._world = world

    def new_request_id(self) -> str:
        """Return the id of the next call."""
        return self._world.new_id("", length=32).lower()

    def fault(self, status: str, asked: Asked) -> Response:
        """Answer a call with a fault's *status*; a lock is told as an error inside a 200."""
        if status == "lock_timeout":
            return failed("INTERNAL_SERVER_ERROR", asked.request_id)
        response = refusal(_WORDS.get(status, "The stand-in was told to answer so."), status=int(status))
        if status == "429":
            response.headers["Retry-After"] = "2.0"
        return response

    def limited(self, limit: Limit, asked: Asked) -> Response:
        """Answer a call that went over a limit of calls, which is none of Shopify's points."""
        del limit
        return self.fault("429", asked)

    def dress(self, response: Response, asked: Asked) -> None:
        """Add the request's id."""
        response.headers["X-Request-Id"] = asked.request_id


def success(content: JSON) -> Response:
    """Answer with JSON, every number as it is."""
    return Response(compact(content), media_type="application/json")


def refusal(errors: JSON, *, status: int) -> Response:
    """Answer with a refusal, which has a text where a GraphQL answer has a list."""
    return Response(compact({"errors": errors}), status_code=status, media_type="application/json")


def denied(denial: Denied) -> Response:
    """Answer with the refusal of a call."""
    return refusal(denial.errors, status=denial.status)


def unread(errors: Sequence[Body]) -> Response:
    """Answer a query that was not executed: a 200 without data."""
    return success({"errors": list(errors)})


def failed(code: str, request_id: str) -> Response:
    """Answer that all of it failed, inside a 200."""
    told: Body = {"code": code, "requestId": request_id}
    return success({"data": None, "errors": [{"message": MESSAGES.get(code, code), "extensions": told}]})


def throttled(cost: Body) -> Response:
    """Answer that the bucket is empty: a 200 without data that says what it would have cost."""
    error = {
        "message": "Throttled",
        "extensions": {"code": "THROTTLED", "documentation": "https://shopify.dev/api/usage/rate-limits"},
    }
    return success({"data": None, "errors": [error], "extensions": {"cost": cost}})
