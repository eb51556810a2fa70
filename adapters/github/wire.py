"""The HTTP under PyGithub: one deadline for a whole answer, no redirects, no proxies, no retries, and no naps."""

from __future__ import annotations

import io
import ssl
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import socket
    from collections.abc import ItemsView, Mapping

_RESTS = 30.0  # seconds after which an idle connection may be half closed by whatever stands between


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


class Wire:
    """
    Connections to one address; every answer is complete within one deadline, or is none.

    Safe to share between threads.
    """

    def __init__(self, address: str, *, connect: float, total: float) -> None:
        parts = urlsplit(address)
        self._secure, self._host = parts.scheme == "https", parts.netloc
        self._connect, self._total = connect, total
        self._trusted = ssl.create_default_context()
        self._idle: deque[tuple[float, _Line]] = deque()

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: str | None = None) -> Answer:
        """Return the answer to one request; raises `NoAnswer`."""
        until = monotonic() + self._total
        rested = self._rested()
        try:
            if rested is not None:
                with suppress(ConnectionError):  # closed while it rested, by them: nothing was asked yet
                    return self._exchange(rested, method, target, headers, body, until)
            return self._exchange(self._line(until), method, target, headers, body, until)
        except TimeoutError as error:
            raise NoAnswer(f"no complete answer within {self._total:g} s", how="timeout") from error
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer(f"no answer: {type(error).__name__}", how="refused") from error

    def close(self) -> None:
        """Close the connections at rest; one in use is closed when its answer is complete."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[1].connection.close()

    def _exchange(  # noqa: PLR0917 - a request has these parts
        self, line: _Line, method: str, target: str, headers: Mapping[str, str], body: str | None, until: float
    ) -> Answer:
        try:
            line.until = until
            line.connection.request(method, target, body, dict(headers))
            response = line.connection.getresponse()
            told = {name.lower(): value for name, value in response.headers.items()}
            answer = Answer(response.status, told, response.read())
        except BaseException:
            line.connection.close()
            raise
        if line.connection.sock is not None:
            self._idle.append((monotonic(), line))
        return answer

    def _rested(self) -> _Line | None:
        """Return the open connection used last; close those that rested too long."""
        with suppress(IndexError):
            while True:
                since, line = self._idle.pop()
                if monotonic() - since < _RESTS:
                    return line
                line.connection.close()
        return None

    def _line(self, until: float) -> _Line:
        within = min(self._connect, _left(until))
        if self._secure:
            return _Line(HTTPSConnection(self._host, timeout=within, context=self._trusted))
        return _Line(HTTPConnection(self._host, timeout=within))


class Exchange:
    """
    One exchange, in the form that PyGithub expects of a connection.

    The SDK follows a 301 and loses its query, sleeps on a 202 and fails on odd headers: it is shown an empty 200.

    Attributes:
        answer: As it came.
        status: What the SDK is shown.
    """

    status = 200

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.answer = Answer(0, {}, b"")

    def request(self, verb: str, url: str, body: Any, headers: Mapping[str, str], _stream: object = None) -> None:  # noqa: ANN401 - the SDK's signature
        """Ask, and keep the answer; raises `NoAnswer` through the SDK, which knows nothing of it."""
        self.answer = self._wire.ask(verb, url, headers, body)

    def getresponse(self) -> Exchange:
        """Return what the SDK reads."""
        return self

    def getheaders(self) -> ItemsView[str, str]:
        """Return no headers."""
        return dict[str, str]().items()

    def read(self) -> str:
        """Return no body."""
        return ""


class _Line:
    """
    A connection whose socket gives each operation only what is left of the time.

    `http.client` sees it in place of the socket.

    Attributes:
        until: When the present exchange must be over (monotonic).
    """

    def __init__(self, connection: HTTPConnection) -> None:
        connection.connect()
        self.connection, self._sock = connection, connection.sock
        connection.sock = cast("socket.socket", self)
        self.until = 0.0

    def sendall(self, sent: bytes) -> None:
        self.hurry()
        self._sock.sendall(sent)

    def makefile(self, _mode: str) -> io.BufferedReader:
        # A file of the socket's own keeps it open until the answer is read, whoever closes it meanwhile.
        return io.BufferedReader(_Ear(self, self._sock.makefile("rb", buffering=0)))

    def close(self) -> None:
        self._sock.close()

    def hurry(self) -> None:
        self._sock.settimeout(_left(self.until))


class _Ear(io.RawIOBase):
    """The bytes that come over a line, as long as there is time."""

    def __init__(self, line: _Line, raw: io.RawIOBase) -> None:
        super().__init__()
        self._line, self._raw = line, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - a writable buffer has no public type before 3.12
        self._line.hurry()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(until: float) -> float:
    left = until - monotonic()
    if left <= 0:
        raise TimeoutError
    return left
