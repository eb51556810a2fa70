"""What systemd and this program say to one another."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler import notify

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ADOPT = """
import os
from reconciler.notify import listen_fds
for name, passed in listen_fds(os.environ, pid=os.getpid()).items():
    for one in passed:
        print(name, one.fileno(), one.getsockname()[1], os.get_inheritable(one.fileno()), flush=True)
"""


def test_notify(tmp_path: Path) -> None:
    """All lines arrive in one message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)

        heard = notify.notify({"NOTIFY_SOCKET": str(tmp_path / "notify")}, notify.READY, notify.status("two\nlines"))

        assert heard
        assert manager.recv(1024) == b"READY=1\nSTATUS=two lines"


def test_notify_abstract_name() -> None:
    """A name that begins with @ is an abstract one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # Linux picks a free abstract name
        manager.settimeout(5)
        address = "@" + manager.getsockname()[1:].decode()

        assert notify.notify({"NOTIFY_SOCKET": address}, notify.STOPPING)
        assert manager.recv(1024) == b"STOPPING=1"


@pytest.mark.parametrize(
    "environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/notify"}, {"NOTIFY_SOCKET": "x"}]
)
def test_nobody_listens(environment: Mapping[str, str]) -> None:
    """Without a manager nothing is said, and nothing breaks."""
    assert not notify.notify(environment, notify.WATCHDOG)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, timedelta(seconds=30)),
        ({"WATCHDOG_USEC": "60000000"}, timedelta(seconds=30)),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "soon", "WATCHDOG_PID": "7"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_watchdog_pause(environment: Mapping[str, str], expected: timedelta | None) -> None:
    """The watchdog is fed twice as often as it must be, if it waits for this very process."""
    assert notify.watchdog_pause(environment, pid=7) == expected


@pytest.mark.parametrize(
    "environment",
    [{}, {"LISTEN_FDS": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": "8"}, {"LISTEN_FDS": "x", "LISTEN_PID": "7"}],
)
def test_no_sockets(environment: Mapping[str, str]) -> None:
    """Descriptors that were passed to somebody else are left alone."""
    assert notify.listen_fds(environment, pid=7) == {}


def test_listen_fds() -> None:
    """Sockets passed on are adopted by their names, and kept from children."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ports = [one.getsockname()[1] for one in (first, second)]
        # The shell moves our sockets to the places where a manager would put them, and keeps its pid through exec.
        moved = f"exec 8<&{first.fileno()} 9<&{second.fileno()}; exec 3<&8 4<&9 8<&- 9<&-"
        command = f'{moved}; LISTEN_PID=$$ exec "$0" -c "$1"'

        said = subprocess.run(
            ["/bin/bash", "-c", command, sys.executable, ADOPT],
            env={**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "web:"},
            pass_fds=(first.fileno(), second.fileno()),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout

    assert said.splitlines() == [f"web 3 {ports[0]} False", f"unknown 4 {ports[1]} False"]


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd-socket-activate is not installed")
def test_with_systemd() -> None:
    """What systemd itself passes on is understood."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    activate = ["systemd-socket-activate", "--listen", f"127.0.0.1:{port}", "--fdname=web", sys.executable, "-c", ADOPT]
    with subprocess.Popen(
        activate, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stderr is not None
            # It says so once it listens.
            assert "Listening on" in program.stderr.readline()
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                said, _ = program.communicate(timeout=30)
        finally:
            program.kill()

    assert said == f"web 3 {port} False\n"
