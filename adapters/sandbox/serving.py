"""Run a stand-in on this machine only."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"


class StandIn(Protocol):
    """What every stand-in can do."""

    @property
    def app(self) -> ASGIApp:
        """The provider's API and the control routes, as one application."""

    def close(self) -> None:
        """Stop what runs in the background; called before the server ends."""


class Running:
    """
    A stand-in that answers on a port of this machine until it is closed.

    Attributes:
        url: Without a slash at its end.
    """

    def __init__(self, stand_in: StandIn, *, port: int = 0, host: str = LOOPBACK) -> None:
        self._stand_in = stand_in
        self._socket = _listen(host, port)
        self.url = f"http://{_authority(self._socket)}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                stand_in.app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                date_header=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            ),
        )
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="sandbox", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering and sending; safe to repeat."""
        self._stand_in.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


@contextmanager
def serving(stand_in: StandIn, *, port: int = 0, host: str = LOOPBACK) -> Iterator[Running]:
    """Let *stand_in* answer while the block runs."""
    running = Running(stand_in, port=port, host=host)
    try:
        yield running
    finally:
        running.close()


def wait_for_signal() -> None:
    """Return when the program is asked to end (SIGINT, SIGTERM); for the main thread only."""
    # What the signal itself writes wakes us whichever thread it came to, and needs no lock that another could hold.
    asked, ask = os.pipe()
    os.set_blocking(ask, False)
    wanted = (signal.SIGINT, signal.SIGTERM)
    woken = signal.set_wakeup_fd(ask, warn_on_full_buffer=False)
    before = [signal.signal(each, lambda *_: None) for each in wanted]
    try:
        os.read(asked, 1)
    finally:
        for each, handler in zip(wanted, before, strict=True):
            signal.signal(each, handler)
        signal.set_wakeup_fd(woken)
        os.close(asked)
        os.close(ask)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a client that comes early waits instead of being refused."""
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(f"a stand-in listens on this machine only, not on {host}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


def _authority(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
