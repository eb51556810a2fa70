"""What people and scripts ask for: refetches, runs, metrics."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reconciler import content, times
from reconciler.errors import ConfigError, DatabaseUnavailable, ReconcilerError
from reconciler.model import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from reconciler.model import JSON, Body

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds a trigger may wait for its verdict."""

_SLICE = 1.0  # seconds a thread waits at once: a client that leaves, or a shutdown, frees it that soon
_WAITERS = 16
_CALLERS = 4
_LONGEST_ID = 1000
_STEPS = frozenset({".", ".."})  # in a path they would lead elsewhere
_LARGEST_REQUEST = 64 * 1024
_COME_AGAIN = {"Retry-After": "5"}


class UnknownKind(ReconcilerError):
    """There is no such source, or it does not mirror such a kind."""


class RunHeld(ReconcilerError):
    """
    Another run sweeps one of these kinds.

    Attributes:
        run_id: That run.
    """

    def __init__(self, run_id: int) -> None:
        super().__init__(f"run {run_id} sweeps one of these kinds")
        self.run_id = run_id


@dataclass(frozen=True, slots=True)
class Looked:
    """
    What became of a refetch.

    Attributes:
        verdict: None: it was given up, or waits for another read.
        source_updated_at: As our row has it now; so are the next two.
        error: Why it was given up.
    """

    verdict: str | None
    source_updated_at: datetime | None
    observed_at: datetime | None
    deleted: bool
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `POST /reconcile` asks for; times as they were written, nothing named means everything."""

    since: str | None = None
    until: str | None = None
    sources: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    full: bool = False
    dry_run: bool = False
    allow_deletes: bool = False


class Operations(Protocol):
    """What the admin listener can have done; all of it may wait for the database."""

    def want(self, ref: ObjectRef) -> int:
        """Want *ref* and return the number it was given; raises `UnknownKind`."""

    def looked_at(self, ref: ObjectRef, wanted: int, seconds: float) -> Looked | None:
        """Return what came of *ref* once it is read as far as *wanted*; None if it is not within *seconds*."""

    def begin_run(self, request: RunRequest) -> int:
        """Begin a run and return its number; raises `RunHeld`, or `ConfigError` for what cannot be asked."""

    def run_report(self, run_id: int) -> Body | None:
        """Return what is known of a run, as our JSON shows it; None if there is none."""


def admin_app(operations: Operations, exposition: Callable[[], bytes], *, tokens: Sequence[str]) -> Starlette:
    """Return the admin application; without *tokens* everything but `/metrics` is refused."""
    routes = _Routes(operations, exposition)
    app = Starlette(
        routes=[
            Route("/refetch/{source}/{kind}/{id:path}", routes.refetch, methods=["POST"]),
            Route("/reconcile", routes.reconcile, methods=["POST"]),
            Route("/runs/{run_id:int}", routes.run, methods=["GET"]),
            Route("/metrics", routes.metrics, methods=["GET"]),
        ],
        middleware=[Middleware(_Door, tokens=tokens)],
        exception_handlers={
            HTTPException: _refuse,
            UnknownKind: partial(_say, 404),
            ConfigError: partial(_say, 400),
            RunHeld: _held,
            DatabaseUnavailable: _unavailable,
        },
    )
    app.router.redirect_slashes = False
    return app


class _Door:
    """Who may come in: everyone to `/metrics`, elsewhere whoever shows a token."""

    def __init__(self, app: ASGIApp, *, tokens: Sequence[str]) -> None:
        self._app = app
        # Digests are of one length, and of bytes: comparing them tells nothing and takes any header.
        self._known = [_digest(token.encode()) for token in tokens if token]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/metrics" or self._opens(scope):
            await self._app(scope, receive, send)
        elif self._known:
            challenge = {"WWW-Authenticate": 'Bearer realm="reconciler"'}
            await JSONResponse({"error": "token"}, 401, headers=challenge)(scope, receive, send)
        else:
            await JSONResponse({"error": "no token is configured: [admin] tokens"}, 403)(scope, receive, send)

    def _opens(self, scope: Scope) -> bool:
        scheme, _, shown = Headers(scope=scope).get("authorization", "").partition(" ")
        offered = _digest(shown.strip().encode("latin-1"))
        same = [hmac.compare_digest(known, offered) for known in self._known]
        return scheme.lower() == "bearer" and any(same)


class _Routes:
    def __init__(self, operations: Operations, exposition: Callable[[], bytes]) -> None:
        self._operations, self._exposition = operations, exposition
        self._callers = ThreadPoolExecutor(_CALLERS, thread_name_prefix="admin")
        self._waiters = ThreadPoolExecutor(_WAITERS, thread_name_prefix="admin-wait")

    async def refetch(self, request: Request) -> Response:
        """Want an object now, and tell what came of it if asked to wait."""
        ref, seconds = _ref(request), _wait(request)
        wanted = await self._call(self._operations.want, ref)
        looked = await self._looked_at(ref, wanted, seconds)
        if looked is None:
            return _json({"ref": str(ref), "wanted": wanted}, 202)
        return _json({"ref": str(ref)} | _shown(looked), 200)

    async def reconcile(self, request: Request) -> Response:
        """Begin a run."""
        run_id = await self._call(self._operations.begin_run, _run_request(await _object(request)))
        return _json({"run": run_id}, 202)

    async def run(self, request: Request) -> Response:
        """Show a run."""
        run_id: int = request.path_params["run_id"]
        report = await self._call(self._operations.run_report, run_id) if run_id < 2**63 else None
        if report is None:
            raise HTTPException(404, f"there is no run {run_id}")
        return _json(report, 200)

    async def metrics(self, _: Request) -> Response:
        """Show what is counted."""
        return Response(await self._call(self._exposition), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def _looked_at(self, ref: ObjectRef, wanted: int, seconds: float) -> Looked | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0:
            look = partial(self._operations.looked_at, ref, wanted, min(left, _SLICE))
            looked = await loop.run_in_executor(self._waiters, look)
            if looked is not None:
                return looked
        return None

    async def _call(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._callers, partial(function, *arguments))


def _ref(request: Request) -> ObjectRef:
    asked = request.path_params
    ref = ObjectRef(asked["source"], request.query_params.get("scope", ""), asked["kind"], asked["id"])
    if not ref.id:
        raise HTTPException(404, "no id is named")
    strange = {ref.scope, ref.id} & _STEPS
    if strange or any(not part.isprintable() or len(part) > _LONGEST_ID for part in (ref.scope, ref.id)):
        raise HTTPException(400, "no id or scope looks like this")
    return ref


def _wait(request: Request) -> float:
    text = request.query_params.get("wait", "0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise HTTPException(400, f"wait={text}: not a number of seconds; write one from 0 to {LONGEST_WAIT:.0f}")
    return min(seconds, LONGEST_WAIT)


async def _object(request: Request) -> Body:
    """Return the JSON object in the body; an empty body asks for everything."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _LARGEST_REQUEST:
            raise HTTPException(413, "the request is too large")
    try:
        asked = content.parse(bytes(raw)) if raw.strip() else {}
    except ValueError:
        raise HTTPException(400, "the body is not JSON") from None
    if not isinstance(asked, dict):
        raise HTTPException(400, "the body is not a JSON object")
    return asked


def _run_request(asked: Body) -> RunRequest:
    known = [each.name for each in fields(RunRequest)]
    if unknown := [name for name in asked if name not in known]:
        raise HTTPException(400, f"{unknown[0]}: unknown; known are {', '.join(known)}")
    given = {name: value for name, value in asked.items() if value is not None}
    return RunRequest(**{name: _READERS[name](name, value) for name, value in given.items()})


def _text(name: str, value: JSON) -> str:
    if not isinstance(value, str):
        raise HTTPException(400, f"{name}: not a text")
    return value


def _texts(name: str, value: JSON) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise HTTPException(400, f"{name}: not a list of texts")
    return tuple(value)


def _flag(name: str, value: JSON) -> bool:
    if not isinstance(value, bool):
        raise HTTPException(400, f"{name}: neither true nor false")
    return value


_READERS: dict[str, Callable[[str, JSON], JSON]] = {
    "since": _text,
    "until": _text,
    "sources": _texts,
    "kinds": _texts,
    "full": _flag,
    "dry_run": _flag,
    "allow_deletes": _flag,
}


def _shown(looked: Looked) -> Body:
    shown: Body = {
        "verdict": looked.verdict,
        "source_updated_at": _time(looked.source_updated_at),
        "observed_at": _time(looked.observed_at),
        "deleted": looked.deleted,
    }
    return shown if looked.error is None else shown | {"error": looked.error}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else times.iso(moment)


def _json(body: Body, status: int) -> Response:
    return Response(content.dumps(body), status, media_type="application/json")


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class alone
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _say(status: int, _: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status)


async def _held(_: Request, error: Exception) -> Response:
    assert isinstance(error, RunHeld)  # noqa: S101 - registered for this class alone
    return JSONResponse({"run": error.run_id}, 409)


async def _unavailable(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503, headers=_COME_AGAIN)
