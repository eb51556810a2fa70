"""Both listeners, served by one event loop in one thread of their own."""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, cast

import uvicorn
import uvloop
from starlette.responses import JSONResponse
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.server import ServerState

    from reconciler.config.values import Listen

_STARTS_WITHIN = 30.0  # seconds
_BACKLOG = 2048
_TICK = 0.01  # seconds between two looks at whether uvicorn has started
_BEAT = 0.25  # seconds between two signs of life
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b'content-type: application/json\r\ncontent-length: 21\r\n\r\n{"error":"too_large"}'
)

_WHY = {
    errno.EADDRINUSE: "another program listens there; stop it, or name another port",
    errno.EACCES: "not allowed; ports below 1024 need the capability CAP_NET_BIND_SERVICE",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


@dataclass(frozen=True, slots=True)
class Site:
    """
    One listener.

    Attributes:
        key: What configures it, for messages.
        inherited: Sockets that listen already (systemd's); where there are some, *listen* is not used.
        connections: At one time; more are told to come again.
    """

    key: str
    app: ASGIApp
    listen: Listen
    inherited: Sequence[socket.socket] = ()
    connections: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """
    How long a connection may take, in seconds, and how large the head of a request may be.

    Attributes:
        head: Until the head of a request is complete, from the connection or its first byte.
        request: Until its body has come, too; an application may be less patient.
        idle: Between two requests.
        head_bytes: Of request line and headers; also of what is sent within a body and is no part of it.
    """

    head: float = 10.0
    request: float = 60.0
    idle: float = 65.0  # longer than load balancers keep theirs, which would else send into a closing connection
    head_bytes: int = 64 * 1024


PATIENCE = Patience()


class WebServer:
    """Serves its sites between `start` and `stop`, each once; *beat* is called as long as its loop turns."""

    def __init__(self, *sites: Site, patience: Patience = PATIENCE, beat: Callable[[], None] = lambda: None) -> None:
        self._sites, self._patience, self._beat = sites, patience, beat
        self._bound: list[list[socket.socket]] = []
        self._servers: list[uvicorn.Server] = []
        self._thread = Thread(target=self._run, name="web", daemon=True)
        self._settled = Event()
        self._fault: BaseException | None = None

    def start(self) -> tuple[str, ...]:
        """Listen and serve; return the address of each site. Raises `ConfigError` where one cannot be had."""
        try:
            for site in self._sites:
                self._bound.append(list(site.inherited) or [_bind(site)])
        except ConfigError:
            for each in [each for sockets in self._bound for each in sockets]:
                each.close()
            raise
        self._servers = [self._server(site) for site in self._sites]
        addresses = tuple(_address(sockets[0]) for sockets in self._bound)
        self._thread.start()
        if not self._settled.wait(_STARTS_WITHIN) or self._fault is not None:
            raise RuntimeError("the web server did not start") from self._fault
        return addresses

    def stop(self, grace: float) -> None:
        """Take no new connection, finish what is being answered within *grace* seconds, and return."""
        for server in self._servers:
            server.config.timeout_graceful_shutdown = math.ceil(grace)
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(grace + 2)

    @property
    def failure(self) -> BaseException | None:
        """What ended the loop though nobody stopped it; None: nothing did."""
        return self._fault

    def _server(self, site: Site) -> uvicorn.Server:
        patience, connections = self._patience, site.connections

        class Protocol(_Bounded):
            """The protocol with this site's bounds."""

            bounds = patience
            most = connections

        return uvicorn.Server(
            uvicorn.Config(
                site.app,
                http=Protocol,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=math.ceil(patience.idle),
                backlog=_BACKLOG,
            )
        )

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `start` raises it
            self._fault = error
        finally:
            self._settled.set()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            for server, sockets in zip(self._servers, self._bound, strict=True):
                group.create_task(server.serve(sockets=sockets))
            while not all(server.started for server in self._servers):  # noqa: ASYNC110 - uvicorn tells no other way
                await asyncio.sleep(_TICK)
            self._settled.set()
            while not any(server.should_exit for server in self._servers):
                self._beat()
                await asyncio.sleep(_BEAT)


class _Bounded(HttpToolsProtocol):
    """HTTP whose every wait ends, and whose heads stay small: uvicorn bounds neither."""

    bounds: Patience
    most: int

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._site = self.app
        self._timer: asyncio.TimerHandle | None = None
        self._begun = False
        self._in_head = False
        self._in_request = False
        self._received = 0  # bytes since the chunk in which this head began, or in which a part of the body was
        self._head = 0  # bytes of the parts of this head that are complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._close_in(self.bounds.head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_in(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        if self._in_head and self._received > self.bounds.head_bytes:
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
        elif self._in_request and self._received > self.bounds.head_bytes:
            self.transport.close()  # trailers, or what stands between chunks: no body is like that
        elif self._is_idle():
            self._close_in(self.bounds.idle)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._in_request, self._received, self._head = True, True, 0, 0
        self._close_in(self.bounds.head)

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer: uvicorn would add it to the headers, which are being read by now
            return
        self._head += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._close_in(self.bounds.request)
        crowded = len(self.connections) > self.most
        self.app = _too_large if self._head > self.bounds.head_bytes else _crowded if crowded else self._site
        super().on_headers_complete()
        self._begun = True

    def on_body(self, body: bytes) -> None:
        self._received = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_request = False
        self._close_in(None)
        super().on_message_complete()

    def _is_idle(self) -> bool:
        """Say whether nothing is going on and no timer runs: what is no request stops uvicorn's own."""
        answered = self._begun and self.cycle.response_complete
        return answered and not self._in_head and self._timer is None and self.timeout_keep_alive_task is None

    def _close_in(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.timeout_keep_alive_handler)


async def _too_large(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": "too_large"}, 431, headers={"Connection": "close"})(scope, receive, send)


async def _crowded(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"Connection": "close", "Retry-After": "5"}
    await JSONResponse({"error": "unavailable"}, 503, headers=headers)(scope, receive, send)


def _bind(site: Site) -> socket.socket:
    host, port = site.listen.host, site.listen.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # "::" alone means every address of both kinds.
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::")
    except socket.gaierror:
        raise ConfigError(f"{site.key}: {host!r} is no address of this machine; write one like 127.0.0.1") from None
    except OSError as error:
        why = _WHY.get(error.errno or 0, error.strerror or str(error))
        raise ConfigError(f"{site.key}: {site.listen}: {why}") from None


def _address(listening: socket.socket) -> str:
    name = listening.getsockname()
    if not isinstance(name, tuple):
        return f"unix:{name}"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
