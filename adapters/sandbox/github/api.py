"""The gate of GitHub's API: versions, credentials, the hour's allowance, and where repositories are."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import Route

from adapters.sandbox.github.access import primary_limit
from adapters.sandbox.github.answers import (
    VERSION_HEADER,
    VERSION_SELECTED,
    Denied,
    Moved,
    denied,
    missing,
    redirected,
    success,
)
from adapters.sandbox.github.bodies import STABLE_VERSION
from adapters.sandbox.github.calls import Call, rest_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from adapters.sandbox.front import Asked, Front
    from adapters.sandbox.github.access import Access, Visit
    from adapters.sandbox.github.calls import Act, Operations, Shelves
    from adapters.sandbox.github.ledger import Ledger
    from adapters.sandbox.machinery import Machinery

VERSIONS = ("2022-11-28", "2026-03-10")

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_PLACES = ("/repos/{owner}/{repo}", "/repositories/{repository}")


class Api:
    """Lets calls in and has them answered, as the caller sees the world."""

    def __init__(self, machinery: Machinery, ledger: Ledger, access: Access, shelves: Shelves) -> None:
        self._world = machinery.world
        self._ledger = ledger
        self._access = access
        self._shelves = shelves

    def routes(self, front: Front, operations: Operations) -> list[Route]:
        """Return a route for each operation, two for each inside a repository, and one that refuses all others."""
        own: Operations = {
            "GET /versions": lambda _: success(list(VERSIONS)),
            "GET /meta": lambda _: success({"verifiable_password_authentication": False, "hooks": ["127.0.0.1/32"]}),
        }
        routes: list[Route] = []
        for operation, act in {**own, **operations}.items():
            method, _, path = operation.partition(" ")
            if path.startswith("~"):
                inside = partial(self._inside, act)
                routes += [self._route(front, f"{method} {place}{path[1:]}", inside) for place in _PLACES]
            else:
                routes.append(self._route(front, operation, act))
        return [*routes, self._unknown(front)]

    def _route(self, front: Front, operation: str, act: Act) -> Route:
        method, _, path = operation.partition(" ")
        name = operation.replace(":path", "")

        async def endpoint(request: Request) -> Response:
            request.state.sent = await request.body()
            return await front.answer(request, name, partial(self._answer, act))

        return Route(path, endpoint, methods=[method])

    def _unknown(self, front: Front) -> Route:
        def refuse(_: Call) -> Response:
            raise missing()

        async def endpoint(request: Request) -> Response:
            return await front.answer(request, f"{request.method} unknown", partial(self._answer, refuse))

        return Route("/{path:path}", endpoint, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    def _answer(self, act: Act, asked: Asked) -> Response:
        base = str(asked.request.base_url).rstrip("/")
        try:
            version = _version(asked.request)
            visit = self._access.visit(asked.request)
        except Denied as refusal:
            return denied(refusal)
        response = self._let_in(act, asked, visit, base=base, version=version)
        allowance = self._access.allowance(visit, resource=_resource(asked.request))
        if response.status_code == 304:  # what the caller has already costs nothing
            allowance.used -= 1
        response.headers.update(allowance.headers())
        response.headers[VERSION_SELECTED] = version
        return response

    def _let_in(self, act: Act, asked: Asked, visit: Visit, *, base: str, version: str) -> Response:
        try:
            self._spend(visit, asked.request)
            with self._world.lock:
                views = self._ledger.views(base=base, at=asked.at, version=version)
                return act(Call(asked, visit, views, address=base + asked.request.url.path))
        except Denied as refusal:
            return denied(refusal)
        except Moved as moved:
            return redirected(base, moved)

    def _spend(self, visit: Visit, request: Request) -> None:
        if request.url.path == "/rate_limit":
            return
        allowance = self._access.allowance(visit, resource=_resource(request))
        if allowance.used >= allowance.limit:
            raise primary_limit(self._access.user, status=self._access.limit_status)
        allowance.used += 1

    def _inside(self, act: Act, call: Call) -> Response:
        """Answer a call about a repository, or lead it to where the repository is now."""
        named = call.asked.request.path_params
        number = str(named["repository"]) if "repository" in named else self._called(call)
        found = self._shelves.repository(call, number)
        if found is None:
            raise missing()
        address = f"{call.base}/repositories/{number}{rest_of(call.asked.request)}"
        return act(replace(call, scope=number, facts=found[1], address=address))

    def _called(self, call: Call) -> str:
        """Return the number of the repository that the path calls by its name."""
        name = f"{call.named('owner')}/{call.named('repo')}"
        number = self._ledger.names.has(name)
        if number is not None:
            return number
        former = self._ledger.names.had(name)
        if former is None or self._shelves.repository(call, former) is None:
            raise missing()
        raise Moved(call.with_query(f"/repositories/{former}{rest_of(call.asked.request)}"))


def _resource(request: Request) -> str:
    """Return which allowance a call counts for: queries have one of their own."""
    return "graphql" if request.url.path == "/graphql" else "core"


def _version(request: Request) -> str:
    """Return the API version of a call; a retired one is gone, which says nothing of any object."""
    said = str(request.headers.get(VERSION_HEADER, STABLE_VERSION))
    if said in VERSIONS:
        return said
    docs = "rest/about-the-rest-api/api-versions"
    if _DATE.fullmatch(said) and said < STABLE_VERSION:
        raise Denied(410, f"API version {said} is no longer supported.", docs=docs)
    raise Denied(400, f"{said} is not a supported API version; supported are {', '.join(VERSIONS)}.", docs=docs)
