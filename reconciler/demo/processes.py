"""Child processes of the demo: this program, run as its user would run it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

_PATIENCE = 60.0
_STOPS_WITHIN = 30.0
_LOOKS_EVERY = 0.02


class Child:
    """One process of this program; its log goes to a file of its own."""

    def __init__(self, arguments: tuple[str, ...], *, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                _command(arguments),
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
                raise ReconcilerError(f"{self._log.stem} did not start; its log says: {written[-1500:].strip()}")
            time.sleep(_LOOKS_EVERY)

    def kill(self) -> None:
        """Kill it as a power failure would (SIGKILL)."""
        self._process.kill()
        self._process.wait()

    def ask_to_end(self) -> None:
        """Ask it to end (SIGTERM), and return at once."""
        self._process.terminate()

    def wait(self) -> None:
        """Return when it has ended; one that was asked to and does not is killed."""
        try:
            self._process.wait(_STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()


class Children:
    """Every process of one demo: all of them end with the block."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._started: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._started:
            child.ask_to_end()
        for child in self._started:
            child.wait()

    def start(self, *arguments: str, log: str, environment: Mapping[str, str] | None = None) -> Child:
        """Start `reconcile` with *arguments* and return at once."""
        told = {**self._environment, **(environment or {})}
        child = Child(arguments, environment=told, log=self._folder / f"{log}.log")
        self._started.append(child)
        return child

    def answer(self, *arguments: str) -> tuple[int, object]:
        """Run one command with `--format json` to its end; return its exit code and what it said."""
        ran = subprocess.run(  # noqa: S603 - this program itself
            _command((*arguments, "--format", "json")),
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if not ran.stdout.strip():
            said = ran.stderr.strip()[-1500:]
            raise ReconcilerError(f"reconcile {' '.join(arguments)} ended with {ran.returncode}: {said}")
        return ran.returncode, json.loads(ran.stdout)


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "reconciler", *arguments]
