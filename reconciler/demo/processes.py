"""Child processes of the demo: this program, run as its user would run it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_PATIENCE = 30.0
_LOOKS_EVERY = 0.02


class Child:
    """One process of this program; its log goes to a file of its own."""

    def __init__(self, arguments: list[str], *, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-m", "reconciler", *arguments],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def line(self, word: str) -> str:
        """Return the first line it has written that holds *word*; raises `ReconcilerError` if it ends without one."""
        until = time.monotonic() + _PATIENCE
        while True:
            written = self._log.read_bytes()[self._read :].decode()
            for line in written.splitlines():
                if word in line and written.endswith("\n"):
                    return line
            if self._process.poll() is not None or time.monotonic() > until:
                raise ReconcilerError(f"{self._log.stem} did not start; its log says: {written[-1500:]}")
            time.sleep(_LOOKS_EVERY)

    def kill(self) -> None:
        """Kill it as a power failure would (SIGKILL)."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and see that it does."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def running(arguments: list[str], *, environment: Mapping[str, str], log: Path) -> Iterator[Child]:
    """Yield a process of this program and stop it after."""
    child = Child(arguments, environment=environment, log=log)
    try:
        yield child
    finally:
        child.stop()


def answer(arguments: list[str], *, environment: Mapping[str, str]) -> tuple[int, object]:
    """Run one command with `--format json` to its end; return its exit code and what it said."""
    ran = subprocess.run(  # noqa: S603 - this program itself
        [sys.executable, "-m", "reconciler", *arguments, "--format", "json"],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if not ran.stdout.strip():
        raise ReconcilerError(
            f"reconcile {' '.join(arguments)} ended with {ran.returncode}: {ran.stderr.strip()[-1500:]}"
        )
    return ran.returncode, json.loads(ran.stdout)
