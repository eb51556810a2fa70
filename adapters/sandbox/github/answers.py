"""How GitHub words what it says: errors, limits, redirects and conditional answers."""

from __future__ import annotations

import hashlib
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING

from starlette.responses import Response

from adapters.sandbox.spelling import compact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.sandbox.front import Asked
    from adapters.sandbox.limits import Limit
    from adapters.sandbox.world import JSON, Body, World

VERSION_HEADER = "X-GitHub-Api-Version"
VERSION_SELECTED = "X-GitHub-Api-Version-Selected"
_DOCS = "https://docs.github.com/"
_WORDS: Mapping[str, str] = {
    "400": "Problems parsing JSON",
    "401": "Bad credentials",
    "403": "Resource not accessible by personal access token",
    "404": "Not Found",
    "410": "This feature is gone",
    "422": "Validation Failed",
    "451": "Repository access blocked",
    "500": "Server Error",
    "502": "Server Error",
    "503": "No server is currently available to service your request. Sorry about that.",
    "504": "We couldn't respond to your request in time. Sorry about that.",
}
_TOO_FAST = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID"
)


class Denied(Exception):
    """
    A call that GitHub refuses.

    Attributes:
        status: The HTTP status.
        body: What the answer says.
    """

    def __init__(self, status: int, message: str, *, docs: str = "rest", errors: Sequence[JSON] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.body: Body = {"message": message, "documentation_url": _DOCS + docs, "status": str(status)}
        if errors:
            self.body["errors"] = list(errors)


class Moved(Exception):
    """
    Something that has another address now.

    Attributes:
        path: Its path, with the query of the call.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class GitHubVoice:
    """
    GitHub's words for faults and limits, and the headers all its answers have.

    Attributes:
        retry_after: Seconds that the secondary limit tells to wait; None: it says nothing.
        limit_status: How limits are answered: 403 or 429.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.retry_after: int | None = 1
        self.limit_status = 403

    def new_request_id(self) -> str:
        """Return the id of the next call."""
        return self._world.new_id("5AD0:")

    def fault(self, status: str, asked: Asked) -> Response:
        """Answer a call with a fault's *status*; 429 is the secondary limit."""
        if status in {"429", "lock_timeout"}:
            return self._slow_down(asked, status=429)
        return error(
            {"message": _WORDS.get(status, "Server Error"), "documentation_url": _DOCS + "rest"}, status=status
        )

    def limited(self, limit: Limit, asked: Asked) -> Response:
        """Answer a call that went over *limit*: with GitHub it is always the secondary one."""
        del limit
        return self._slow_down(asked, status=self.limit_status)

    def dress(self, response: Response, asked: Asked) -> None:
        """Add what every answer has."""
        response.headers["X-GitHub-Request-Id"] = asked.request_id
        response.headers["X-GitHub-Media-Type"] = "github.v3; format=json"

    def _slow_down(self, asked: Asked, *, status: int) -> Response:
        docs = f"{_DOCS}rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
        message = f"{_TOO_FAST} {asked.request_id}."
        response = error({"message": message, "documentation_url": docs}, status=str(status))
        if self.retry_after is not None:
            response.headers["Retry-After"] = str(self.retry_after)
        return response


def success(content: JSON, *, status: int = 200) -> Response:
    """Answer with JSON, every number as it is."""
    return Response(compact(content), status_code=status, media_type="application/json")


def conditional(asked: Asked, content: JSON, *, who: str, changed_at: int | None) -> Response:
    """
    Answer with JSON and its validators, or with 304 where the caller has it already.

    The ETag depends on who asks. `Last-Modified` is the object's stamp, so it stays where that stays.
    """
    raw = compact(content)
    etag = f'W/"{hashlib.sha256(who.encode() + raw).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "private, max-age=60, s-maxage=60", "Vary": "Accept, Authorization"}
    if changed_at is not None:
        headers["Last-Modified"] = formatdate(changed_at, usegmt=True)
    if _has_it(asked, etag, changed_at):
        return Response(status_code=304, headers=headers)
    return Response(raw, media_type="application/json; charset=utf-8", headers=headers)


def error(content: Body, *, status: str) -> Response:
    """Answer with an error."""
    return Response(compact({**content, "status": status}), status_code=int(status), media_type="application/json")


def denied(refusal: Denied) -> Response:
    """Answer with the refusal of a call."""
    return error(refusal.body, status=str(refusal.status))


def redirected(base: str, moved: Moved) -> Response:
    """Answer with where something is now."""
    address = base + moved.path
    content: Body = {"message": "Moved Permanently", "url": address, "documentation_url": f"{_DOCS}rest/guides"}
    return Response(compact(content), 301, headers={"Location": address}, media_type="application/json")


def missing() -> Denied:
    """Return the refusal of what is not there, or not for this caller: GitHub does not say which."""
    return Denied(404, "Not Found")


def invalid(resource: str, field: str, code: str = "invalid") -> Denied:
    """Return the refusal of a parameter."""
    return Denied(422, "Validation Failed", errors=[{"resource": resource, "field": field, "code": code}])


def _has_it(asked: Asked, etag: str, changed_at: int | None) -> bool:
    held = asked.request.headers.get("If-None-Match")
    if held is not None:
        return etag.removeprefix("W/") in {each.strip().removeprefix("W/") for each in held.split(",")}
    since = asked.request.headers.get("If-Modified-Since")
    if since is None or changed_at is None:
        return False
    try:
        return parsedate_to_datetime(since).timestamp() >= changed_at
    except ValueError:
        return False
