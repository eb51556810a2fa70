"""The HTTP under the GraphQL calls: httpx with one deadline for the whole answer, no redirects, proxies or retries."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

import httpcore
import httpx

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

_IDLE_SECONDS = 30.0  # a connection that rested longer may be half closed by whatever stands between


class NoAnswer(Exception):
    """
    There is no complete answer.

    Attributes:
        how: `timeout` or `refused`.
    """

    def __init__(self, message: str, *, how: str) -> None:
        super().__init__(message)
        self.how = how


class Wire(httpx.BaseTransport):
    """
    A transport for httpx that keeps its promises about time; safe to share between threads.

    httpx limits each socket read, so an answer that trickles never ends. Here every read, of headers too, is given
    what is left until one deadline. Looking up the host's name is left to the system's resolver.
    """

    def __init__(self, *, connect: float, total: float) -> None:
        self._total = total
        self._deadline = _Deadline()
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=None,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_Network(self._deadline, connect=connect),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the whole answer; raises `NoAnswer`."""
        self._deadline.until = monotonic() + self._total
        asked = httpcore.Request(
            request.method,
            httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.read(),
        )
        try:
            answer = self._pool.handle_request(asked)
            try:
                body = answer.read()
            finally:
                answer.close()
        except httpcore.TimeoutException as error:
            raise NoAnswer(f"no complete answer within {self._total:g} s", how="timeout") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError) as error:
            raise NoAnswer(f"no answer: {type(error).__name__}", how="refused") from error
        return httpx.Response(answer.status, headers=answer.headers, content=body)

    def close(self) -> None:
        """Close the connections at rest."""
        self._pool.close()


class _Deadline(threading.local):
    """When the call that this thread makes must be over (monotonic)."""

    until = 0.0

    def left(self) -> float:
        left = self.until - monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left


class _Network(httpcore.NetworkBackend):
    """Opens connections whose every operation is given what is left of the time."""

    def __init__(self, deadline: _Deadline, *, connect: float) -> None:
        self._sockets = httpcore.SyncBackend()
        self._deadline, self._connect = deadline, connect

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - ours is the one that counts
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect within the time for that, and what is left."""
        within = min(self._connect, self._deadline.left())
        return _Stream(
            self._sockets.connect_tcp(host, port, within, local_address, socket_options), self._deadline, self._connect
        )


class _Stream(httpcore.NetworkStream):
    """A connection that takes no time-out but what is left until the deadline of the thread that uses it."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline, connect: float) -> None:
        self._stream, self._deadline, self._connect = stream, deadline, connect

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - see the class
        """Read what there is."""
        return self._stream.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - see the class
        """Write all of *buffer*."""
        self._stream.write(buffer, self._deadline.left())

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - see the class
    ) -> httpcore.NetworkStream:
        """Speak TLS from here on."""
        within = min(self._connect, self._deadline.left())
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, within), self._deadline, self._connect)

    def get_extra_info(self, info: str) -> object:
        """Tell what httpcore asks of the connection."""
        return self._stream.get_extra_info(info)
