"""What providers and load balancers see: deliveries taken, signs of life."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from reconciler.errors import DatabaseUnavailable, DeliveryRejected, SignatureInvalid
from reconciler.model import Delivery
from reconciler.receive import reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from starlette.requests import Request
    from starlette.responses import Response

    from reconciler.receive import Receiver

LATE = 60.0
"""Seconds without a turn after which a loop counts as stuck."""

_SIGNATURE_STATUS = {"shopify": 401}
"""What a provider wants to hear where its signature is refused; the others want 400."""

_WORDS = {404: "unknown", 405: "method", 408: "too_slow", 413: "too_large"}
_COME_AGAIN = {"Retry-After": "5"}
_SMALL = 64 * 1024
_PROBED_FOR = 1.0  # seconds for which one look at the database answers everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """
    How much of a delivery is waited for.

    Attributes:
        max_body: Bytes of the largest body that is read.
        body_within: Seconds within which it has to come.
        large_at_once: Bodies above 64 KiB read at one time; others wait their turn, so that memory is bounded.
        probe_within: Seconds within which the database has to answer, for `/readyz`.
    """

    max_body: int
    body_within: float = 30.0
    large_at_once: int = 8
    probe_within: float = 3.0


class Heartbeats:
    """The loops of this process and when each last turned, by a clock that only moves forward."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turned: dict[str, float] = {}

    def beat(self, loop: str) -> None:
        """Note that *loop* has turned; its first turn makes it known."""
        self._turned[loop] = self._clock()

    def end(self, loop: str) -> None:
        """Forget *loop*: it has ended as it should."""
        self._turned.pop(loop, None)

    def late(self) -> tuple[str, ...]:
        """Return the loops that have not turned for `LATE` seconds."""
        now = self._clock()
        return tuple(sorted(loop for loop, turned in self._turned.copy().items() if now - turned >= LATE))


def public_app(
    receiver: Receiver, heartbeats: Heartbeats, *, reception: Reception, clock: Callable[[], datetime]
) -> Starlette:
    """Return the public application; *clock* says when a delivery was received."""
    deliveries = _Deliveries(receiver, reception, clock)
    probe = _Probe(receiver, within=reception.probe_within)

    async def healthz(_: Request) -> Response:
        late = heartbeats.late()
        return JSONResponse({"alive": False, "late": late} if late else {"alive": True}, 503 if late else 200)

    async def readyz(_: Request) -> Response:
        because = await probe.hindrance()
        if because is None:
            return JSONResponse({"ready": True})
        return JSONResponse({"ready": False, "because": because}, 503, headers=_COME_AGAIN)

    app = Starlette(
        routes=[
            Route("/webhooks/{name}", deliveries.take, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _refuse, Exception: _apologise},
    )
    # A provider follows no redirect: it would count as a failure, or turn the POST into a GET.
    app.router.redirect_slashes = False
    return app


class _Deliveries:
    """The route that takes deliveries."""

    def __init__(self, receiver: Receiver, reception: Reception, clock: Callable[[], datetime]) -> None:
        self._receiver, self._reception, self._clock = receiver, reception, clock
        self._large = asyncio.Semaphore(reception.large_at_once)

    async def take(self, request: Request) -> Response:
        """Answer one delivery, once what it tells is durable."""
        name = request.path_params["name"]
        provider = self._receiver.provider(name)
        if provider is None:
            self._receiver.misdirected(name)
            raise HTTPException(404)
        try:
            delivery = Delivery(_headers(request), await self._body(request), self._clock())
        except HTTPException as error:
            self._receiver.refused(name, _WORDS[error.status_code], because="its body is not read to the end")
            raise
        except ClientDisconnect:
            self._receiver.refused(name, "incomplete", because="the sender went away before its body was here")
            raise HTTPException(400) from None
        try:
            receipt = await self._receiver.received(name, delivery)
        except DeliveryRejected as error:
            status = _SIGNATURE_STATUS.get(provider, 400) if isinstance(error, SignatureInvalid) else 400
            return JSONResponse({"error": reason(error)}, status)
        except DatabaseUnavailable:
            return JSONResponse({"error": "unavailable"}, 503, headers=_COME_AGAIN)
        except KeyError:  # nobody listens there any more
            raise HTTPException(404) from None
        return JSONResponse(
            {"event_id": receipt.event_id or None, "duplicate": receipt.duplicate},
            headers={"X-Duplicate": "1"} if receipt.duplicate else None,
        )

    async def _body(self, request: Request) -> bytes:
        """Return the exact bytes, of which never more than allowed are held; raises for too many and too slow."""
        if _declared(request) > self._reception.max_body:
            raise HTTPException(413)
        try:
            async with asyncio.timeout(self._reception.body_within), AsyncExitStack() as turn:
                return await self._read(request, turn)
        except TimeoutError:
            raise HTTPException(408, headers={"Connection": "close"}) from None

    async def _read(self, request: Request, turn: AsyncExitStack) -> bytes:
        chunks: list[bytes] = []
        size, waited = 0, False
        async for chunk in request.stream():
            size += len(chunk)
            if size > self._reception.max_body:
                raise HTTPException(413)
            if size > _SMALL and not waited:
                await turn.enter_async_context(self._large)
                waited = True
            chunks.append(chunk)
        return b"".join(chunks)


class _Probe:
    """One look at the database at a time, shared by all who ask."""

    def __init__(self, receiver: Receiver, *, within: float) -> None:
        self._receiver, self._within = receiver, within
        self._asked_at = 0.0
        self._asking: asyncio.Task[str | None] | None = None

    async def hindrance(self) -> str | None:
        """Return why a delivery could not be made durable now; a database that hangs is not asked twice."""
        if self._receiver.retired:
            return "shutting down"
        now = asyncio.get_running_loop().time()
        if self._asking is None or (self._asking.done() and now - self._asked_at > _PROBED_FOR):
            self._asked_at = now
            self._asking = asyncio.create_task(asyncio.to_thread(self._receiver.hindrance))
        done, _ = await asyncio.wait({self._asking}, timeout=self._within)
        return self._asking.result() if done else "the database does not answer"


def _headers(request: Request) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in request.scope["headers"]}


def _declared(request: Request) -> int:
    """Return how long the sender says its body is; 0 where it does not say."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() and length.isascii() and len(length) < 20 else 0


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class alone
    word = _WORDS.get(error.status_code, "refused")
    return JSONResponse({"error": word}, error.status_code, headers=error.headers)


async def _apologise(_: Request, __: Exception) -> Response:
    return JSONResponse({"error": "unavailable"}, 503, headers=_COME_AGAIN)
