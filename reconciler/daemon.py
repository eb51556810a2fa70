"""
`reconcile serve`: everything that runs by itself, from the first connection to an orderly end.

Whatever part fails ends the whole process, so that whoever supervises it starts it anew: half a daemon looks alive.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING

import structlog

from reconciler import bootstrap, notify, schedule, times
from reconciler.errors import ConfigError, DatabaseUnavailable
from reconciler.schedule import Schedule
from reconciler.store import runs, story
from reconciler.sweep import Asked
from reconciler.web.admin import Looked, RunHeld, UnknownKind, admin_app
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import Site, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from reconciler.bootstrap import Program
    from reconciler.config import Settings
    from reconciler.model import Body, ObjectRef
    from reconciler.sweep import Progress
    from reconciler.web.admin import RunRequest

WEB_GRACE = 8.0
"""Seconds in which requests under way are answered at the end."""

WORK_GRACE = 35.0
"""Seconds in which reads and runs under way end; together well within the unit's TimeoutStopSec."""

_TICK = 1.0
_RETRIES = (1.0, 2.0, 5.0, 10.0)  # seconds between two attempts to reach the database at start; the last one stays
_MORE_TIME = "EXTEND_TIMEOUT_USEC=60000000"
_ENDED_WELL, _ENDED_BADLY = 0, 1
_FAILED = "failed: "


class Role(StrEnum):
    """What a daemon does of all there is to do."""

    ALL = "all"
    WEB = "web"
    DRAIN = "drain"
    SCHEDULE = "schedule"

    def includes(self, part: Role) -> bool:
        """Say whether a daemon of this role does *part*."""
        return self in {Role.ALL, part}


@dataclass(frozen=True, slots=True)
class Ending:
    """
    The wish that the process ends.

    Attributes:
        asked: Set once it is there.
        because: What brought it: a signal, or the part that failed.
    """

    asked: threading.Event
    because: list[str]

    def ask(self, because: str) -> None:
        """Wish the process to end."""
        self.because.append(because)
        self.asked.set()

    def failure(self) -> str | None:
        """Return the part that failed; None: the process was asked to end."""
        return next((each for each in self.because if each.startswith(_FAILED)), None)


def serve(settings: Settings, role: Role, *, environment: Mapping[str, str] | None = None) -> int:
    """
    Run the daemon until a signal ends it, and return its exit code; 1: a part of it failed.

    Waits for a database that is away. Raises `ConfigError` for what only a person can mend. For the main thread only.
    """
    told = dict(os.environ if environment is None else environment)
    logger = structlog.get_logger()
    for warning in settings.warnings:
        logger.warning("config.warning", because=warning)
    heartbeats, ending = Heartbeats(), Ending(threading.Event(), [])
    cut_off = False
    with _signals(ending), _thread_failures(ending), ExitStack() as stack:
        program = _opened(settings, heartbeats, ending, stack=stack, environment=told)
        if program is None:
            return _ENDED_WELL
        daemon = Daemon(program, role, heartbeats, environment=told)
        try:
            daemon.start()
            failure = daemon.watch(ending)
        finally:
            cut_off = not daemon.stop(ending.because)
    code = _ENDED_BADLY if failure else _ENDED_WELL
    if cut_off:
        # A thread that hangs in a provider's call would keep the interpreter from ending.
        os._exit(code)
    return code


class Daemon:
    """The parts of one serving process, started and stopped together."""

    def __init__(self, program: Program, role: Role, heartbeats: Heartbeats, *, environment: Mapping[str, str]) -> None:
        self._program = program
        self._role = role
        self._heartbeats = heartbeats
        self._environment = environment
        self._log = structlog.get_logger()
        self._requests = Requests(program)
        self._web: WebServer | None = None
        self._schedule: Schedule | None = None

    def start(self) -> None:
        """Start every part of this role, and say so once deliveries are taken; raises `ConfigError`."""
        addresses = self._listen()
        if self._role.includes(Role.DRAIN):
            self._program.drain.start(self._program.stop)
        if self._role.includes(Role.SCHEDULE):
            self._schedule = self._planned()
            self._schedule.start()
            self._program.watchdog.start(self._program.stop, self._program.leads)
        self._log.info("serve.ready", role=str(self._role), pid=os.getpid(), **addresses)
        notify.notify(self._environment, notify.READY, notify.status(_spelled(addresses)))

    def watch(self, ending: Ending) -> str | None:
        """Return when the process is to end: None for a wish, else the part that failed."""
        pause = notify.watchdog_pause(self._environment, pid=os.getpid())
        every = _TICK if pause is None else min(_TICK, pause.total_seconds())
        while not ending.asked.wait(every):
            if failure := self._failure():
                ending.ask(failure)
                self._log.critical("serve.failed", because=failure)
                return failure
            if not self._heartbeats.late():
                notify.notify(self._environment, notify.WATCHDOG)
        return ending.failure()

    def stop(self, because: Sequence[str]) -> bool:
        """Take nothing more, end what is under way, and return whether all of it ended in time."""
        self._log.info("serve.stopping", because=", ".join(because))
        notify.notify(self._environment, notify.STOPPING, notify.status("stopping"))
        self._program.receiver.retire()
        self._program.stop.set()
        if self._web is not None:
            self._web.stop(WEB_GRACE)
        self._program.receiver.close(WEB_GRACE)
        deadline = monotonic() + WORK_GRACE
        ended = [
            self._schedule is None or self._schedule.stop(max(deadline - monotonic(), 0.0)),
            self._requests.stop(deadline),
            self._program.drain.join(max(deadline - monotonic(), 0.0)),
            self._program.watchdog.join(max(deadline - monotonic(), 0.0)),
        ]
        self._log.info("serve.stopped", cut_off=not all(ended))
        return all(ended)

    def _listen(self) -> dict[str, str]:
        """Serve what this role serves; return the addresses."""
        settings, inherited = self._program.settings, notify.listen_fds(self._environment, pid=os.getpid())
        tokens = [token.reveal() for token in settings.admin.tokens]
        app = admin_app(self._requests, self._program.metrics.exposition, tokens=tokens)
        sites = {"admin": Site("admin.listen", app, settings.admin.listen, inherited=inherited.get("admin", ()))}
        if not self._role.includes(Role.WEB):
            with suppress(ConfigError):
                return self._served(sites)
            # Another role's daemon on this machine may have the address; its metrics are not ours.
            self._log.warning("serve.no_metrics", because=f"{settings.admin.listen} is taken")
            return {}
        self._program.receiver.start()
        public = public_app(
            self._program.receiver,
            self._heartbeats,
            reception=Reception(max_body=settings.web.max_body),
            clock=lambda: datetime.now(UTC),
        )
        site = Site("web.listen", public, settings.web.listen, inherited=inherited.get("web", ()))
        return self._served({"web": site} | sites)

    def _served(self, sites: Mapping[str, Site]) -> dict[str, str]:
        web = WebServer(*sites.values(), beat=lambda: self._heartbeats.beat("web"))
        addresses = dict(zip(sites, web.start(), strict=True))
        self._web = web
        return addresses

    def _planned(self) -> Schedule:
        program = self._program
        return Schedule(
            program.database,
            program.sweep,
            [schedule.plan(source, program.settings.schedule) for source in program.adapters],
            holder=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
            leads=program.leads,
            beat=self._heartbeats.beat,
        )

    def _failure(self) -> str | None:
        parts = {
            "web": self._web and self._web.failure,
            "drain": self._program.drain.failure,
            "schedule": self._schedule and self._schedule.failure,
            "watchdog": self._program.watchdog.failure,
        }
        for part, failure in parts.items():
            if failure is not None:
                return f"{_FAILED}{part}: {type(failure).__name__}: {failure}"
        return None


class Requests:
    """What the admin listener can have done: the bridge from its words to the program's."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._stopping = threading.Event()

    def want(self, ref: ObjectRef) -> int:
        """Want *ref* and return the number it was given; raises `UnknownKind`."""
        try:
            return self._program.want(ref)
        except KeyError:
            raise UnknownKind(f"{ref.source} is no source that mirrors {ref.kind}") from None

    def looked_at(self, ref: ObjectRef, wanted: int, seconds: float) -> Looked | None:
        """Return what came of *ref* once it is read as far as *wanted*; None if it is not within *seconds*."""
        looked = self._program.looked_at(ref, wanted, seconds)
        if looked is None:
            return None
        with self._program.database.transaction() as connection:
            row = story.our_row(connection, ref)
        if row is None:
            return Looked(looked.verdict, None, None, deleted=False, error=looked.error)
        stamp = row["source_updated_at"]
        return Looked(
            looked.verdict,
            None if stamp is None else times.instant(stamp),
            times.instant(row["observed_at"]),
            deleted=row["deleted_at"] is not None,
            error=looked.error,
        )

    def begin_run(self, request: RunRequest) -> int:
        """Begin a run and return its number; raises `RunHeld`, or `ConfigError` for what cannot be asked."""
        if request.since is None:
            raise ConfigError("since is missing; write a duration like 24h, an instant, or last")
        if self._stopping.is_set():
            raise DatabaseUnavailable("the process is stopping; ask again in a moment")
        now = datetime.now(UTC)
        asked = Asked(
            trigger="http",
            since=times.parse_since(request.since, now),
            until=None if request.until is None else times.parse_time(request.until, now),
            sources=request.sources,
            kinds=request.kinds,
            full=request.full,
            dry_run=request.dry_run,
        )
        try:
            run_id = self._program.sweep.begin(asked)
        except runs.RunHeld as held:
            raise RunHeld(held.run_id) from held
        thread = threading.Thread(target=self._execute, args=(run_id,), name=f"run-{run_id}", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()
        return run_id

    def run_report(self, run_id: int) -> Body | None:
        """Return what is known of a run, as our JSON shows it; None if there is none."""
        with self._program.database.transaction() as connection:
            return story.run_report(connection, run_id)

    def stop(self, deadline: float) -> bool:
        """End the runs at their next step; return whether all ended by *deadline* (of the monotonic clock)."""
        self._stopping.set()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(deadline - monotonic(), 0.0))
        return not any(thread.is_alive() for thread in threads)

    def _execute(self, run_id: int) -> None:
        def progress(_: Progress) -> None:
            if self._stopping.is_set():
                raise schedule.Stopped(schedule.STOPPING)

        try:
            self._program.sweep.execute(run_id, progress=progress)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())


def _opened(
    settings: Settings,
    heartbeats: Heartbeats,
    ending: Ending,
    *,
    stack: ExitStack,
    environment: Mapping[str, str],
) -> Program | None:
    """Return the program once its database answers; None: the process is to end before it did."""
    attempt = 0
    while not ending.asked.is_set():
        try:
            return stack.enter_context(bootstrap.program(settings, beat=heartbeats.beat))
        except DatabaseUnavailable as error:
            structlog.get_logger().warning("serve.database_away", because=str(error))
            notify.notify(environment, notify.status(f"waits for the database: {error}"), _MORE_TIME)
            ending.asked.wait(_RETRIES[min(attempt, len(_RETRIES) - 1)])
            attempt += 1
    return None


@contextmanager
def _signals(ending: Ending) -> Iterator[None]:
    """Let SIGTERM and SIGINT wish for the end while the block runs; a second one ends at once. SIGHUP means nothing."""

    def ask(number: int, _: FrameType | None) -> None:
        ending.ask(signal.Signals(number).name)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, before[each])

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _thread_failures(ending: Ending) -> Iterator[None]:
    """Let any thread that dies of an exception wish for the end while the block runs."""

    def failed(arguments: threading.ExceptHookArgs) -> None:
        name = arguments.thread.name if arguments.thread else "a thread"
        failure = arguments.exc_value or arguments.exc_type()
        trace = (arguments.exc_type, failure, arguments.exc_traceback)
        structlog.get_logger().critical("serve.failed", loop=name, because=str(failure), exc_info=trace)
        ending.ask(f"{_FAILED}{name}: {type(failure).__name__}: {failure}")

    before = threading.excepthook
    threading.excepthook = failed
    try:
        yield
    finally:
        threading.excepthook = before


def _spelled(addresses: Mapping[str, str]) -> str:
    return ", ".join(f"{name} on {address}" for name, address in addresses.items()) or "at work"
