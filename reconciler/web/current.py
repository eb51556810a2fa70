"""What a listener serves now: it goes on listening while what stands behind it changes, or is not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

_COME_AGAIN = {"Retry-After": "60"}
_EVERY_METHOD = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Current:
    """
    An application that another may take the place of: requests that have begun end with the one they began with.

    Attributes:
        app: The one that answers the next request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application of now answer."""
        await self.app(scope, receive, send)


def waiting_app(because: str, *, alive: Callable[[], bool], exposition: Callable[[], bytes]) -> Starlette:
    """Return an application that is alive and not ready, says why, and takes nothing: whoever sends comes again."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"alive": alive()}, 200 if alive() else 503)

    async def readyz(_: Request) -> Response:
        return JSONResponse({"ready": False, "because": because}, 503, headers=_COME_AGAIN)

    async def metrics(_: Request) -> Response:
        return Response(exposition(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def refuse(_: Request) -> Response:
        return JSONResponse({"error": "unavailable"}, 503, headers=_COME_AGAIN)

    app = Starlette(
        routes=[
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/{path:path}", refuse, methods=_EVERY_METHOD),
        ]
    )
    app.router.redirect_slashes = False
    return app
