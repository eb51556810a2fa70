"""The door of a stand-in's API: every call is counted, limited and struck by faults here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from starlette.responses import Response
from starlette.routing import Route

from adapters.sandbox.calls import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from adapters.sandbox.limits import Limit
    from adapters.sandbox.machinery import Machinery


@dataclass(frozen=True, slots=True)
class Asked:
    """
    One API call.

    Attributes:
        operation: The method and the path with its variable parts unfilled.
        at: Ticks of the world it is shown; None: as it is now.
    """

    request: Request
    operation: str
    request_id: str
    at: float | None


class Voice(Protocol):
    """How a provider words what is not its API's business."""

    def new_request_id(self) -> str:
        """Return the id of the next call."""

    def fault(self, status: str, asked: Asked) -> Response:
        """Answer a call with a fault's *status*."""

    def limited(self, limit: Limit, asked: Asked) -> Response:
        """Answer a call that went over *limit*."""

    def dress(self, response: Response, asked: Asked) -> None:
        """Add the headers that every answer has."""


class Front:
    """Makes routes out of functions that answer."""

    def __init__(self, machinery: Machinery, voice: Voice) -> None:
        self._machinery = machinery
        self._voice = voice
        self._hanging: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def route(self, operation: str, answer: Callable[[Asked], Response]) -> Route:
        """Return the route of *operation* (`GET /v1/customers/{id}`), answered by *answer* unless a fault strikes."""
        method, path = operation.split(" ")

        async def endpoint(request: Request) -> Response:
            return await self.answer(request, operation, answer)

        return Route(path, endpoint, methods=[method])

    async def answer(self, request: Request, operation: str, answer: Callable[[Asked], Response]) -> Response:
        """Answer one call of *operation*, and note it."""
        machinery = self._machinery
        mischief = machinery.mischief
        if pause := mischief.wait(operation):
            await asyncio.sleep(pause)
        lag = mischief.lag(operation)
        at = machinery.clock.ticks() - lag if lag else None
        asked = Asked(request, operation, self._voice.new_request_id(), at)
        if mischief.hangs(operation):
            self._note(asked, "timeout", fault="timeout")
            return await self._hang(request)
        response, fault = self._struck(asked) or (answer(asked), "stale" if lag else "")
        self._voice.dress(response, asked)
        response.headers["Date"] = machinery.clock.date()
        response.headers.update(machinery.said)
        self._note(asked, str(response.status_code), fault=fault)
        return response

    def _struck(self, asked: Asked) -> tuple[Response, str] | None:
        if status := self._machinery.mischief.status(asked.operation):
            return self._voice.fault(status, asked), "status"
        if limit := self._machinery.limits.refuses(asked.operation):
            return self._voice.limited(limit, asked), "limit"
        return None

    def let_go(self) -> None:
        """End all calls that hang; safe from any thread while the loop runs."""
        for loop, released in list(self._hanging):
            loop.call_soon_threadsafe(released.set)

    async def _hang(self, request: Request) -> Response:
        """Say nothing until the caller has gone, for as long as the fault says, or until let go."""
        released = asyncio.Event()
        hanging = (asyncio.get_running_loop(), released)
        self._hanging.add(hanging)
        waits = {asyncio.ensure_future(each) for each in (released.wait(), _gone(request))}
        try:
            await asyncio.wait(
                waits, timeout=self._machinery.mischief.faults.hang_for, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._hanging.discard(hanging)
            for each in waits:
                each.cancel()
        return Response(status_code=504, headers={"Connection": "close"})

    def _note(self, asked: Asked, status: str, *, fault: str) -> None:
        request = asked.request
        self._machinery.calls.note(
            Call(
                at=self._machinery.clock.now(),
                operation=asked.operation,
                method=request.method,
                path=request.url.path,
                query=tuple(request.query_params.multi_items()),
                status=status,
                request_id=asked.request_id,
                fault=fault,
            ),
        )


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
