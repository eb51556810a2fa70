"""A provider on loopback that answers each request as a test's function says."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DATE = "Mon, 30 Nov 2026 12:00:00 GMT"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, its query read."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer; what is no bytes is written as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def raw(self) -> bytes:
        """Return the bytes of the body."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def failure(status: int, code: str = "", message: str = "No.", **fields: str) -> Said:
    """Return an error as Stripe writes it."""
    error = {"type": "invalid_request_error", "message": message, **fields}
    return Said({"error": error | ({"code": code} if code else {})}, status)


class Scripted:
    """
    A server on loopback, kept alive between requests as Stripe's is.

    Attributes:
        url: Without a slash at its end.
        asked: Every request, in order.
    """

    def __init__(self, answer: Callable[[Asked], Said]) -> None:
        self.asked: list[Asked] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                request = Asked(parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()), body)
                asked.append(request)
                said = answer(request)
                raw = said.raw()
                self.send_response_only(said.status)
                for name, value in {"Date": DATE, "Content-Length": str(len(raw)), **said.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)
                self.close_connection = said.headers.get("Connection") == "close"

            do_POST = do_GET  # noqa: N815 - the name that http.server looks for

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
