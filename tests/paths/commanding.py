"""The command line with all it needs: a configuration, a database, and Stripe's stand-in over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from adapters.sandbox.serving import serving
from adapters.sandbox.stripe import StripeSandbox
from reconciler import content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.store.database import Database

ROOT = Path(__file__).parents[2]
SOURCE = "stripe-eu"
SECRET = "whsec_standin"
TOKEN = "token-standin"

_CONFIG = """
state_directory = "{state}"
{database}
[web]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
tokens = ["env:ADMIN_TOKEN"]
[drain]
workers = 2
poll = "50ms"
absence_recheck = "300ms"
read_lag = "100ms"
[schedule]
in_flight = "0s"
light_every = "off"
[[sources]]
name = "stripe-eu"
provider = "stripe"
api_key = "env:STRIPE_API_KEY"
webhook_secrets = ["env:STRIPE_WHSEC"]
kinds = ["customer", "product"]
calls_per_second = 2000
api_base = "{api}"
"""
_IN_THE_DATABASE = """
[database]
url = "env:DATABASE_URL"
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """
    Where commands are given.

    Attributes:
        config: The configuration file.
        environment: What they find in their environment.
        api: The stand-in's address.
    """

    config: Path
    environment: dict[str, str]
    api: str

    def change(self, op: str, kind: str, id_: str, **how: Any) -> None:
        """Change an object at the provider; nothing is delivered."""
        self.control("POST", "objects", {"op": op, "kind": kind, "id": id_, "deliver": False, **how})

    def control(self, method: str, route: str, asked: object) -> None:
        """Ask something of the stand-in."""
        httpx.request(method, f"{self.api}/_control/{route}", json=asked, timeout=30).raise_for_status()

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "reconciler", *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            **{"stderr": subprocess.PIPE, **more},
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command left: its exit code, its result, and what it said beside it."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the result, which must be one JSON text, numbers exact."""
        return content.parse(self.out)


@dataclass(slots=True)
class Serving:
    """A daemon in a process of its own, and the lines of its log so far."""

    process: subprocess.Popen[str]
    log: Path
    addresses: dict[str, str] = field(default_factory=dict)

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of one event."""
        told = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in told if line["event"] == event]

    def wait_for(self, event: str, *, within: float = 60.0) -> dict[str, Any]:
        """Return the first line of *event* once it is there."""
        until(lambda: bool(self.lines(event)) or self.process.poll() is not None, within=within, otherwise=self.told)
        found = self.lines(event)
        assert found, self.told()
        return found[0]

    def end(self, signal_number: int, *, within: float = 60.0) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(within)

    def told(self) -> str:
        """Return all that was said so far."""
        return self.log.read_text()


@contextmanager
def stage_on(folder: Path, database: Database | None) -> Iterator[Stage]:
    """Yield a stage whose files are in *folder*; without a database they have an embedded one."""
    config = folder / "reconciler.toml"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "home"),
        "STRIPE_API_KEY": "sk_test_standin",
        "STRIPE_WHSEC": SECRET,
        "ADMIN_TOKEN": TOKEN,
        "RECONCILER_CONFIG": str(config),
        "COLUMNS": "200",
    }
    if database is not None:
        environment["DATABASE_URL"] = database.url
    with serving(StripeSandbox(seed=1)) as running:
        config.write_text(
            _CONFIG.format(
                state=folder / "state", api=running.url, database=_IN_THE_DATABASE if database is not None else ""
            )
        )
        yield Stage(config, environment, running.url)


@contextmanager
def serve(stage: Stage, folder: Path, *arguments: str, ready: bool = True) -> Iterator[Serving]:
    """Yield a daemon, once it is ready; it is killed in the end if it has not ended."""
    log = folder / f"serve-{time.monotonic_ns()}.log"
    with log.open("w") as stream:
        process = stage.start("serve", *arguments, stderr=stream)
    daemon = Serving(process, log)
    try:
        if ready:
            line = daemon.wait_for("serve.ready")
            daemon.addresses = {name: f"http://{line[name]}" for name in ("web", "admin") if name in line}
        yield daemon
    finally:
        process.kill()
        process.communicate()


def until(holds: Callable[[], bool], *, within: float = 30.0, otherwise: Callable[[], str] = lambda: "") -> None:
    """Return once *holds*, and fail if it takes longer."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"it took too long {otherwise()}"
        time.sleep(0.02)
