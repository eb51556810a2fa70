"""What systemd and this program say to one another: states, the watchdog, sockets passed on."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"
RELOADING = "RELOADING=1"
WATCHDOG = "WATCHDOG=1"

_FIRST_PASSED = 3


def status(text: str) -> str:
    """Return the line that shows *text* in `systemctl status`."""
    return f"STATUS={' '.join(text.split())}"


def since(monotonic: float) -> str:
    """Return the line that says since when, by the monotonic clock, a state lasts."""
    return f"MONOTONIC_USEC={int(monotonic * 1_000_000)}"


def notify(environment: Mapping[str, str], *lines: str) -> bool:
    """Tell the manager *lines*, all in one message, and whether it was there to hear them; never raises."""
    address = environment.get("NOTIFY_SOCKET", "")
    if address[:1] not in {"/", "@"}:
        return False
    # A leading @ stands for the zero byte of Linux's abstract names.
    address = f"\0{address[1:]}" if address[0] == "@" else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as ours:
            ours.sendto("\n".join(lines).encode(), address)
    except OSError:
        return False
    return True


def watchdog_pause(environment: Mapping[str, str], *, pid: int) -> timedelta | None:
    """Return how long to wait between two `WATCHDOG` lines: half of what is allowed; None: nobody waits for them."""
    allowed = environment.get("WATCHDOG_USEC", "")
    meant = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
    return timedelta(microseconds=int(allowed)) / 2 if meant and _is_count(allowed) and int(allowed) else None


def listen_fds(environment: Mapping[str, str], *, pid: int) -> dict[str, tuple[socket.socket, ...]]:
    """
    Return the listening sockets that were passed to the process *pid*, by their `FileDescriptorName`.

    To be called once: each socket returned owns its descriptor, and no child inherits it.
    """
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(pid) or not _is_count(count):
        return {}
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    passed: dict[str, tuple[socket.socket, ...]] = {}
    for place in range(int(count)):
        name = names[place] if place < len(names) and names[place] else "unknown"
        passed[name] = (*passed.get(name, ()), _adopt(_FIRST_PASSED + place))
    return passed


def _adopt(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the name of the function says what it is
    return socket.socket(fileno=descriptor)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()
