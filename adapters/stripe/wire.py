"""The HTTP under Stripe's SDK: one deadline for the whole answer, no redirects, no proxies, no retries of its own."""

from __future__ import annotations

import io
import ssl
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import stripe

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

_IDLE_SECONDS = 30.0  # a connection that rested longer may be half closed by whatever stands between


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer as it came; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class NoAnswer(Exception):
    """
    There is no complete answer.

    Attributes:
        how: `timeout` or `refused`.
    """

    def __init__(self, message: str, *, how: str) -> None:
        super().__init__(message)
        self.how = how


class Wire(stripe.HTTPClient):
    """
    An HTTP client for the SDK that keeps its promises about time.

    `requests`, the SDK's own choice, limits each socket read, so an answer that trickles never ends; it also reads
    proxies and `.netrc` (which would replace the key) from the environment. Here every read, of headers too, is given
    what is left until one deadline. Safe to share between threads.
    """

    name = "reconciler"

    def __init__(self, *, connect: float, total: float) -> None:
        super().__init__()
        self._connect, self._total = connect, total
        self._trusted = ssl.create_default_context()
        self._trusted.load_verify_locations(stripe.ca_bundle_path)
        self._idle: deque[tuple[float, tuple[str, str], HTTPConnection]] = deque()
        self._answered = threading.local()

    def take(self) -> Answer:
        """Return this thread's last answer, once: the SDK's errors lose its headers where the body is no JSON."""
        answer: Answer = self._answered.__dict__.pop("answer")
        return answer

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: Any = None,  # noqa: ANN401 - the SDK's signature
        *,
        _usage: list[str] | None = None,
    ) -> tuple[str, int, Mapping[str, str]]:
        """Return body, status and headers; raises `NoAnswer` through the SDK, which knows nothing of it."""
        until = monotonic() + self._total
        try:
            answer = self._exchange(method, url, dict(headers or {}), post_data, until)
        except TimeoutError as error:
            raise NoAnswer(f"no complete answer within {self._total:g} s", how="timeout") from error
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer(f"no answer: {type(error).__name__}", how="refused") from error
        self._answered.answer = answer
        return answer.body.decode("utf-8", "replace"), answer.status, answer.headers

    def close(self) -> None:
        """Close the connections at rest; one in use is closed when its call ends."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[2].close()

    def _exchange(self, method: str, url: str, headers: dict[str, str], body: object, until: float) -> Answer:
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        kept = self._rested((parts.scheme, parts.netloc))
        while True:
            connection = kept or self._connection(parts.scheme, parts.netloc, until)
            try:
                return self._ask(connection, (parts.scheme, parts.netloc), (method, target, body, headers), until)
            except ConnectionError:
                # A kept connection may have been closed meanwhile; only a GET is certainly safe to send again.
                if kept is None or method.lower() != "get":
                    raise
                kept = None

    def _ask(
        self,
        connection: HTTPConnection,
        origin: tuple[str, str],
        what: tuple[str, str, Any, dict[str, str]],
        until: float,
    ) -> Answer:
        method, target, body, asked = what
        try:
            connection.response_class = _timed(until)
            if connection.sock is not None:
                connection.sock.settimeout(_left(until))
            connection.request(method.upper(), target, body, asked)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.headers.items()}
            answer = Answer(response.status, headers, response.read())
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            self._idle.append((monotonic(), origin, connection))
        return answer

    def _rested(self, origin: tuple[str, str]) -> HTTPConnection | None:
        """Return an open connection to *origin*, the one used last; closes those that rested too long."""
        with suppress(IndexError):
            while True:
                since, whose, connection = self._idle.pop()
                if whose == origin and monotonic() - since < _IDLE_SECONDS:
                    return connection
                connection.close()
        return None

    def _connection(self, scheme: str, netloc: str, until: float) -> HTTPConnection:
        within = min(self._connect, _left(until))
        if scheme == "https":
            return HTTPSConnection(netloc, timeout=within, context=self._trusted)
        return HTTPConnection(netloc, timeout=within)


class _Ear(io.RawIOBase):
    """A socket's bytes, each read given only what is left of the time."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, until: float) -> None:
        super().__init__()
        self._sock, self._raw, self._until = sock, raw, until

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - a writable buffer has no public type before 3.12
        """Fill *buffer* from the socket, or raise TimeoutError."""
        self._sock.settimeout(_left(self._until))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Let go of the socket."""
        self._raw.close()
        super().close()


def _timed(until: float) -> Any:  # noqa: ANN401 - `response_class` is declared a class; what makes one serves
    def response(sock: socket.socket, *, method: str | None = None) -> HTTPResponse:
        made = HTTPResponse(sock, method=method)
        made.fp = io.BufferedReader(_Ear(sock, made.fp.detach(), until))
        return made

    return response


def _left(until: float) -> float:
    left = until - monotonic()
    if left <= 0:
        raise TimeoutError
    return left
