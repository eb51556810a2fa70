"""Real processes for one round: a database, stand-ins, daemons and commands, and all that is done to them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from reconciler.demo.comparing import compare, ours
from reconciler.demo.parts import parts
from reconciler.demo.processes import Children
from reconciler.demo.provider import Provider
from reconciler.embedded import Embedded
from reconciler.embedded.binaries import CHOICE, choose
from tests.chaos.checking import WATCH, Seen
from tests.chaos.clocks import Clock, compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from reconciler.demo.comparing import Compared, Ref
    from reconciler.demo.processes import Child
    from reconciler.model import Body
    from tests.chaos.course import Act, Course

_OBJECTS = 0.4
_SLOTS = 60
_STANDING = 0.2
_QUIET_WITHIN = 90.0
_LATER = 120
_SETTINGS = {"max_connections": str(_SLOTS), "fsync": "off", "synchronous_commit": "on"}
_CONFIGURATION = """\
state_directory = {state}
[database]
url = {url}
[web]
listen = "127.0.0.1:0"
spool = {spool}
[admin]
listen = "127.0.0.1:0"
[drain]
workers = 4
lease = "31s"
read_lag = "1s"
rewound_after = "3s"
absence_recheck = "500ms"
poll = "200ms"
deletes_stop = {{ share = 1.0, above = 1000000 }}
[schedule]
nightly = "{nightly}"
light_every = "off"
in_flight = "500ms"
"""
_LOADING = "SELECT FROM reconciler.runs WHERE state <> 'running' HAVING count(*) < {sources}"
_BUSY = """\
SELECT FROM reconciler.refetches
WHERE dead_at IS NULL AND (wanted > done OR again_at < clock_timestamp() + interval '2 minutes')
LIMIT 1
"""
_EDITED = """\
UPDATE reconciler.objects SET body = body || '{"id": "edited by hand"}', source_updated_at = now()
WHERE (source, scope, kind, id) = (%s, %s, %s, %s)
"""
_DELETED = "DELETE FROM reconciler.objects WHERE (source, scope, kind, id) = (%s, %s, %s, %s)"


class Stage:
    """
    The processes of one round, in a folder of their own; all of them end with the block.

    Methods named by acts do what the act says, and return before it has come to anything.
    """

    def __init__(self, course: Course, folder: Path) -> None:
        self.course = course
        self._folder = folder
        self._stack = ExitStack()
        self._parts = [part for part in parts() if part.provider in course.providers]
        self._beside: list[Child] = []
        self._daemon: Child | None = None
        self._web = "127.0.0.1:0"
        self._starts = 0
        self._timers: list[threading.Timer] = []

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._join()
        self._stack.close()

    def perform(self, acts: Sequence[Act]) -> None:
        """Let it all happen, each act at its time or soon after."""
        began = time.monotonic()
        for act in acts:
            time.sleep(max(0.0, act.at - (time.monotonic() - began)))
            getattr(self, act.what)(**act.told)

    # --- what an act may ask for ---

    def change(self, *, provider: str, count: int) -> None:
        """Let objects change, come, go and come back."""
        if provider in self._providers:
            self._providers[provider].change(count)

    def change_in_silence(self, *, provider: str, count: int) -> None:
        """Let objects change or go without any event."""
        if provider in self._providers:
            self._providers[provider].change_in_silence(count)

    def misbehave(self, *, provider: str, faults: Mapping[str, Any]) -> None:
        """Let a provider do these things wrong from now on."""
        self._providers[provider].ask("PUT", "/faults", dict(faults))

    def end(self, *, how: str) -> None:
        """End the daemon by this signal."""
        if self._daemon is not None:
            self._end(self._daemon, how)
            self._daemon = None

    def serve(self) -> None:
        """Have a daemon at the address that deliveries go to, if there is none."""
        if self._daemon is None:
            self._daemon = self._start_daemon({"RECONCILER_WEB__LISTEN": self._web})

    def serve_beside(self) -> None:
        """Start another daemon over the same database."""
        self._beside.append(self._start_daemon({}))

    def end_beside(self, *, how: str) -> None:
        """End the daemons that were started beside the first."""
        while self._beside:
            self._end(self._beside.pop(), how)

    def edit(self, *, provider: str, count: int) -> None:
        """Change some rows by hand, and delete every third."""
        with suppress(psycopg.OperationalError), self._connect() as connection:
            for turn, key in enumerate(self._providers[provider].some(count)):
                statement = _DELETED if turn % 3 == 2 else _EDITED
                connection.execute(statement, (self._providers[provider].part.source, *key))

    def sweep_beside(self, *, full: bool) -> None:
        """Sweep by a command of its own, beside all else."""
        arguments = ["--since", "1h", *(["--full"] if full else [])]
        self._starts += 1
        self._children.start(*arguments, log=f"command-{self._starts}")

    def restart(self, *, how: str) -> None:
        """End the database server by this signal; its guardian raises it again."""
        pid_file = self._folder / "server" / "data" / "postmaster.pid"
        with suppress(OSError, ValueError):
            os.kill(int(pid_file.read_text().split()[0]), signal.Signals[how])

    def cut_off(self, *, seconds: float) -> None:
        """Throw everybody out of the database, and let nobody in for a while."""
        with suppress(psycopg.OperationalError), self._connect("postgres") as connection:
            connection.execute("ALTER DATABASE reconciler ALLOW_CONNECTIONS false")
            connection.execute(_THROWN_OUT)
        self._later(seconds, self._let_in)

    def exhaust(self, *, seconds: float) -> None:
        """Take every connection there is, for a while."""
        taken = ExitStack()
        with suppress(psycopg.OperationalError):
            admin = taken.enter_context(self._connect("postgres"))
            admin.execute(_THROWN_OUT)
            for _ in range(_SLOTS):
                taken.enter_context(self._connect("postgres"))
        self._later(seconds, taken.close)

    def set_clock(self, *, whose: str, seconds: int) -> None:
        """Set the clock of the database server, or of the daemons and commands, so many seconds off."""
        self._clocks[whose].set(seconds)

    # --- when nothing happens any more ---

    def settle(self) -> str:
        """
        Put right all that was disturbed, and wait until everything that was asked for is read.

        Returns what is still open, in words; empty: nothing.
        """
        self._join()
        self._let_in()
        for clock in self._clocks.values():
            # Leases of the dead, waits and ladders end with time: that is all that passes here.
            clock.set(_LATER)
        self.serve()
        for each in self._providers.values():
            each.behave()
        until = time.monotonic() + _QUIET_WITHIN
        while time.monotonic() < until:
            with suppress(psycopg.OperationalError), self._connect() as connection:
                if connection.execute(_BUSY).fetchone() is None:
                    return ""
                time.sleep(_STANDING)
        return f"after {_QUIET_WITHIN:.0f} s of quiet there are still open refetches"

    def sweep(self, *arguments: str) -> str:
        """Sweep to the end; return what was wrong with it, in words."""
        code, report = self._children.answer("--since", "1h", *arguments)
        if code == 0:
            return ""
        because = report.get("because") if isinstance(report, dict) else report
        return f"reconcile --since 1h {' '.join(arguments)} ended with {code}: {because}"

    def compare(self) -> Compared:
        """Compare both sides object by object, but for the kinds that no call shows: events alone tell of those."""
        theirs = {
            (each.part.source, *key): body for each in self._providers.values() for key, body in each.truth().items()
        }
        unlisted = {(part.source, kind) for part in self._parts for kind in part.unlisted}

        def listed(bodies: Mapping[Ref, Body]) -> dict[Ref, Body]:
            return {ref: body for ref, body in bodies.items() if (ref[0], ref[2]) not in unlisted}

        providers = {part.source: part.provider for part in self._parts}
        return compare(listed(theirs), listed(ours(self._url)), providers)

    def seen(self) -> Seen:
        """Return what the checker looks at."""
        return Seen(
            url=self._url,
            logs=tuple(sorted(self._folder.glob("*.log"))),
            providers={part.source: part.provider for part in self._parts},
            deliveries={
                each.part.source: each.ask("GET", "/deliveries?last=1000") for each in self._providers.values()
            },
            calls={each.part.source: each.ask("GET", "/calls?last=0") for each in self._providers.values()},
            happened={each.part.source: each.happened.total() for each in self._providers.values()},
            excused=self._unstamped() if self.course.stale else frozenset(),
        )

    def _unstamped(self) -> frozenset[tuple[str, str]]:
        """Return the kinds that have no stamp of their own, by provider."""
        _, told = self._children.answer("kinds")
        assert isinstance(told, list)
        return frozenset((each["provider"], each["kind"]) for each in told if not each["stamp"])

    # --- how it is put together ---

    def _set_up(self) -> None:
        library = compiled(self._folder)
        self._clocks = {whose: Clock(self._folder / f"clock-{whose}", library) for whose in ("database", "daemon")}
        self._embedded = Embedded(self._folder / "server", settings=_SETTINGS)
        with _environment(CHOICE, str(self._binaries())):
            self._embedded.start()
        self._stack.callback(self._embedded.close)
        self._url = self._embedded.url("reconciler")
        secrets = {name: value for part in self._parts for name, value in part.environment().items()}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RECONCILER_")}
        environment = {**inherited, **secrets, "RECONCILER_CONFIG": str(self._folder / "reconciler.toml")}
        standing_in = self._stack.enter_context(Children(self._folder, environment=environment))
        self._children = self._stack.enter_context(
            Children(self._folder, environment={**environment, **self._clocks["daemon"].environment()})
        )
        started = [
            (part, standing_in.start("sandbox", part.provider, "--port", "0", log=f"stand-in-{part.provider}"))
            for part in self._parts
        ]
        self._providers = {
            part.provider: Provider(part, _address(child.line("http://")), seed=self.course.seed)
            for part, child in started
        }
        for each in self._providers.values():
            each.create(_OBJECTS)
        self._configure()
        self._first_load()

    def _configure(self) -> None:
        told = _CONFIGURATION.format(
            state=json.dumps(str(self._folder / "state")),
            url=json.dumps(self._url),
            spool=json.dumps(self.course.spool),
            nightly=f"{datetime.now(UTC) - timedelta(hours=2):%H:%M}",
        )
        tables = [each.part.configuration(each.url) for each in self._providers.values()]
        (self._folder / "reconciler.toml").write_text(told + "".join(tables))

    def _first_load(self) -> None:
        """Make the schema and everything that is watched in it, and wait for the first sweep."""
        self._children.answer("migrate")
        with self._connect() as connection:
            connection.execute(WATCH)
        self._daemon = self._start_daemon({})
        self._web = json.loads(self._daemon.line("serve.ready"))["web"]
        loading = _LOADING.format(sources=len(self._parts)).encode()
        until = time.monotonic() + _QUIET_WITHIN
        with self._connect() as connection:
            while connection.execute(loading).fetchone() is not None and time.monotonic() < until:
                time.sleep(_STANDING)
        for each in self._providers.values():
            each.send_to(self._web)

    def _start_daemon(self, environment: Mapping[str, str]) -> Child:
        self._starts += 1
        return self._children.start("serve", log=f"daemon-{self._starts}", environment=environment)

    def _end(self, child: Child, how: str) -> None:
        with suppress(ProcessLookupError):
            if how == "SIGKILL":
                child.kill()
            else:
                child.ask_to_end()
                self._later(0.0, child.wait)

    def _let_in(self) -> None:
        until = time.monotonic() + _QUIET_WITHIN
        while time.monotonic() < until:
            try:
                with self._connect("postgres") as connection:
                    connection.execute("ALTER DATABASE reconciler ALLOW_CONNECTIONS true")
            except psycopg.OperationalError:
                time.sleep(_STANDING)
            else:
                return

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        timer.start()
        self._timers.append(timer)

    def _join(self) -> None:
        for timer in self._timers:
            timer.join()

    def _connect(self, database: str = "reconciler") -> psycopg.Connection[Any]:
        return psycopg.connect(self._embedded.url(database), autocommit=True, connect_timeout=10)

    def _binaries(self) -> Path:
        """Return a folder of server binaries that read the database's clock."""
        real = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None) or choose(os.environ, cluster=None)
        folder = self._folder / "binaries"
        folder.mkdir()
        names = " ".join(f"{name}={value}" for name, value in self._clocks["database"].environment().items())
        for name in ("postgres", "initdb"):
            told = names if name == "postgres" else ""
            (folder / name).write_text(f'#!/bin/sh\nexec env {told} "{real / name}" "$@"\n')
            (folder / name).chmod(0o755)
        return folder


_THROWN_OUT = """\
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'reconciler' AND pid <> pg_backend_pid()
"""


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Have a variable set for the length of the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _address(line: str) -> str:
    return line[line.index("http://") :].strip()
