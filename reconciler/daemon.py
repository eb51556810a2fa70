"""
`reconcile serve`: everything that runs by itself, from the first connection to an orderly end.

Whatever part fails ends the whole process, so that whoever supervises it starts it anew: half a daemon looks alive.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import structlog

from reconciler import bootstrap, log, notify, schedule, times
from reconciler.config.written import changes, written
from reconciler.errors import ConfigError, DatabaseUnavailable, Forgotten, NotAdopted
from reconciler.schedule import Schedule
from reconciler.store import runs, sources, story
from reconciler.store.sources import State
from reconciler.sweep import Asked
from reconciler.web.admin import Looked, RunHeld, UnknownKind, admin_app
from reconciler.web.current import Current, waiting_app
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import Site, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from starlette.types import ASGIApp

    from reconciler.bootstrap import Ground, Program
    from reconciler.config import Settings
    from reconciler.model import Body, ObjectRef
    from reconciler.sweep import Progress
    from reconciler.web.admin import RunRequest

WEB_GRACE = 8.0
"""Seconds in which requests under way are answered at the end."""

WORK_GRACE = 35.0
"""Seconds in which reads and runs under way end; together well within the unit's TimeoutStopSec."""

RELOAD_GRACE = 25.0
"""Seconds in which reads and runs of before a reload end; within the unit's WatchdogSec."""

_TICK = 1.0
_LOOKS_EVERY = 2.0  # seconds between two looks at what people made of sources, or at whether a copy was adopted
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
    What is wished of the process: that it ends, or that it reads its configuration again.

    Attributes:
        asked: Set once it is to end.
        because: What brought that: a signal, or the part that failed.
        reload: Set while the configuration is to be read again.
    """

    asked: threading.Event
    because: list[str]
    reload: threading.Event = field(default_factory=threading.Event)

    def ask(self, because: str) -> None:
        """Wish the process to end."""
        self.because.append(because)
        self.asked.set()

    def failure(self) -> str | None:
        """Return the part that failed; None: the process was asked to end."""
        return next((each for each in self.because if each.startswith(_FAILED)), None)


def serve(
    settings: Settings,
    role: Role,
    *,
    reread: Callable[[], Settings] | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """
    Run the daemon until a signal ends it, and return its exit code; 1: a part of it failed.

    Waits for a database that is away, and, taking nothing, for somebody to adopt a copy. SIGHUP has *reread* give the
    settings anew. Raises `ConfigError` for what only a person can mend. For the main thread only.
    """
    told = dict(os.environ if environment is None else environment)
    heartbeats, ending = Heartbeats(), Ending(threading.Event(), [])
    _warn(settings)
    cut_off = False
    with _signals(ending), _thread_failures(ending), ExitStack() as stack:
        takes = role.includes(Role.WEB)
        ground = _grounded(settings, ending, takes_deliveries=takes, stack=stack, environment=told)
        if ground is None:
            return _ENDED_WELL
        daemon = Daemon(ground, settings, role, heartbeats, reread=reread or (lambda: settings), environment=told)
        try:
            daemon.start()
            failure = daemon.watch(ending)
        except ConfigError as error:
            ending.because.append(str(error))
            raise
        finally:
            cut_off = not daemon.stop(ending.because)
    code = _ENDED_BADLY if failure else _ENDED_WELL
    if cut_off:
        # A thread that hangs in a provider's call would keep the interpreter from ending.
        os._exit(code)
    return code


class Parts:
    """What of a daemon changes with its configuration: everything but its listeners, its database and its writer."""

    def __init__(self, program: Program, stack: ExitStack, role: Role, heartbeats: Heartbeats) -> None:
        self.program = program
        self.requests = Requests(program)
        self._stack = stack
        self._role = role
        self._heartbeats = heartbeats
        self._schedule: Schedule | None = None

    def start(self) -> None:
        """Start what this role does besides serving."""
        if self._role.includes(Role.DRAIN):
            self.program.drain.start(self.program.stop)
        if self._role.includes(Role.SCHEDULE):
            self._schedule = self._planned()
            self._schedule.start()
            self.program.watchdog.start(self.program.stop, self.program.leads)

    def stop(self, deadline: float) -> bool:
        """End what is under way, and return whether all of it ended by *deadline* (of the monotonic clock)."""
        self.program.stop.set()
        ended = [
            self._schedule is None or self._schedule.stop(max(deadline - monotonic(), 0.0)),
            self.requests.stop(deadline),
            self.program.drain.join(max(deadline - monotonic(), 0.0)),
            self.program.watchdog.join(max(deadline - monotonic(), 0.0)),
        ]
        if all(ended):
            self._stack.close()
        return all(ended)

    def failure(self) -> str | None:
        """Return the part that ended though it should have gone on, and why; None: none did."""
        parts = {
            "drain": self.program.drain.failure,
            "schedule": None if self._schedule is None else self._schedule.failure,
            "watchdog": self.program.watchdog.failure,
        }
        return next((_failed(part, failure) for part, failure in parts.items() if failure is not None), None)

    def _planned(self) -> Schedule:
        program = self.program
        return Schedule(
            program.database,
            program.sweep,
            [schedule.plan(source, program.settings.schedule) for source in program.adapters],
            holder=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
            leads=program.leads,
            beat=self._heartbeats.beat,
            kept=program.settings.retention.kept(),
        )


class Daemon:
    """The parts of one serving process, started and stopped together."""

    def __init__(
        self,
        ground: Ground,
        settings: Settings,
        role: Role,
        heartbeats: Heartbeats,
        *,
        reread: Callable[[], Settings],
        environment: Mapping[str, str],
    ) -> None:
        self._ground = ground
        self._settings = settings
        self._role = role
        self._heartbeats = heartbeats
        self._reread = reread
        self._environment = environment
        self._log = structlog.get_logger()
        self._sites: dict[str, Current] = {}
        self._addresses: dict[str, str] = {}
        self._web: WebServer | None = None
        self._parts: Parts | None = None
        self._shut: frozenset[str] = frozenset()
        self._looked_at = monotonic()
        self._waits_for = ""

    def start(self) -> None:
        """Start every part of this role, and say so once deliveries are taken; raises `ConfigError`."""
        if self._role.includes(Role.WEB):
            self._ground.receiver.start()
        self._begin()

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
            if ending.reload.is_set():
                ending.reload.clear()
                self.reload()
            elif monotonic() - self._looked_at >= _LOOKS_EVERY:
                self._looked_at = monotonic()
                self._look(ending)
        return ending.failure()

    def stop(self, because: Sequence[str]) -> bool:
        """Take nothing more, end what is under way, and return whether all of it ended in time."""
        self._log.info("serve.stopping", because=", ".join(because))
        notify.notify(self._environment, notify.STOPPING, notify.status("stopping"))
        self._ground.receiver.retire()
        if self._parts is not None:
            self._parts.program.stop.set()
        if self._web is not None:
            self._web.stop(WEB_GRACE)
        self._ground.receiver.close(WEB_GRACE)
        ended = self._parts is None or self._parts.stop(monotonic() + WORK_GRACE)
        self._log.info("serve.stopped", cut_off=not ended)
        return ended

    def reload(self) -> None:
        """Read the configuration again and apply it, losing no delivery; one that cannot be used changes nothing."""
        since = notify.since(monotonic())
        notify.notify(self._environment, notify.RELOADING, since, notify.status("reading the configuration"))
        try:
            self._apply(self._reread())
        except ConfigError as error:
            self._log.error("config.faulty", faults=list(error.faults), because="nothing is changed")
        except DatabaseUnavailable as error:
            self._log.error("config.not_applied", because=str(error))
        notify.notify(self._environment, notify.READY, notify.status(_spelled(self._addresses)))

    # --- beginning ---

    def _begin(self) -> None:
        """Begin to work; where this is a copy that is not adopted, or the database went away, wait for that."""
        try:
            parts = self._built(self._settings)
        except (NotAdopted, DatabaseUnavailable) as hindrance:
            self._wait(hindrance)
            return
        self._serve(self._applications(parts), parts)
        parts.start()
        self._log.info("serve.ready", role=str(self._role), pid=os.getpid(), **self._addresses)
        notify.notify(self._environment, notify.READY, notify.status(_spelled(self._addresses)))

    def _wait(self, hindrance: NotAdopted | DatabaseUnavailable) -> None:
        because = str(hindrance)
        if because == self._waits_for:
            return
        self._waits_for = because
        app = waiting_app(
            because, alive=lambda: not self._heartbeats.late(), exposition=self._ground.metrics.exposition
        )
        self._serve(dict.fromkeys(("web", "admin") if self._role.includes(Role.WEB) else ("admin",), app), None)
        event = "serve.read_only" if isinstance(hindrance, NotAdopted) else "serve.database_away"
        self._log.critical(event, because=because, **self._addresses)
        notify.notify(self._environment, notify.READY, notify.status(because))

    def _built(self, settings: Settings) -> Parts:
        """Return the parts of a program with these settings, not started; raises as `bootstrap.program` does."""
        with ExitStack() as stack:
            program = stack.enter_context(bootstrap.program(settings, beat=self._heartbeats.beat, ground=self._ground))
            bootstrap.applied(self._ground.database, settings)
            return Parts(program, stack.pop_all(), self._role, self._heartbeats)

    def _applications(self, parts: Parts) -> dict[str, ASGIApp]:
        settings = parts.program.settings
        tokens = [token.reveal() for token in settings.admin.tokens]
        admin = admin_app(parts.requests, self._ground.metrics.exposition, tokens=tokens)
        if not self._role.includes(Role.WEB):
            return {"admin": admin}
        public = public_app(
            self._ground.receiver,
            self._heartbeats,
            reception=Reception(max_body=settings.web.max_body),
            clock=lambda: datetime.now(UTC),
        )
        return {"web": public, "admin": admin}

    def _serve(self, applications: Mapping[str, ASGIApp], parts: Parts | None) -> None:
        """Let these applications answer from now on, and *parts* stand behind them."""
        if parts is not None:
            self._shut = frozenset(self._ground.database.commit(sources.shut))
            parts.program.take_over(self._shut)
            self._parts = parts
        if self._sites:
            for name, app in applications.items():
                self._sites[name].app = app
            return
        self._sites = {name: Current(app) for name, app in applications.items()}
        self._addresses = self._listen()

    def _listen(self) -> dict[str, str]:
        """Serve what this role serves; return the addresses."""
        settings, inherited = self._settings, notify.listen_fds(self._environment, pid=os.getpid())
        listens = {"web": settings.web.listen, "admin": settings.admin.listen}
        sites = {
            name: Site(f"{name}.listen", app, listens[name], inherited=inherited.get(name, ()))
            for name, app in self._sites.items()
        }
        if self._role.includes(Role.WEB):
            return self._served(sites)
        with suppress(ConfigError):
            return self._served(sites)
        # Another role's daemon on this machine may have the address; its metrics are not ours.
        self._log.warning("serve.no_metrics", because=f"{settings.admin.listen} is taken")
        return {}

    def _served(self, sites: Mapping[str, Site]) -> dict[str, str]:
        web = WebServer(*sites.values(), beat=lambda: self._heartbeats.beat("web"))
        addresses = dict(zip(sites, web.start(), strict=True))
        self._web = web
        return addresses

    # --- while it serves ---

    def _failure(self) -> str | None:
        if self._web is not None and self._web.failure is not None:
            return _failed("web", self._web.failure)
        return None if self._parts is None else self._parts.failure()

    def _look(self, ending: Ending) -> None:
        """Begin if that was not possible before; take nothing more for sources that a person removed meanwhile."""
        if self._parts is None:
            self._begin()
            return
        try:
            shut = self._ground.database.commit(sources.shut)
        except DatabaseUnavailable:
            return  # receiving and draining say so
        for name in shut.keys() & self._shut & self._parts.program.adapters.keys():
            if shut[name].state is State.ERASED:
                # What was on its way into the database when it was erased.
                self._ground.database.commit(partial(sources.erase, source=name))
        if shut.keys() == self._shut:
            return
        ours = {source.name for source in self._settings.sources}
        if (self._shut - shut.keys()) & ours:
            ending.reload.set()
        for name in shut.keys() - self._shut & ours:
            self._log.warning("source.shut", source=name, because=shut[name].told())
        self._shut = frozenset(shut)
        self._parts.program.take_over(self._shut)

    def _apply(self, given: Settings) -> None:
        """Apply *given*, as far as that can be done without a restart; raises what keeps it from being used."""
        settings, waiting = _appliable(self._settings, given)
        if waiting:
            self._log.warning("config.needs_restart", keys=waiting)
        if self._parts is None:
            self._settings = settings
            self._begin()
            return
        shut = self._ground.database.commit(sources.shut)
        served = {source.name for source in settings.sources if source.name not in shut}
        if settings == self._settings and served == self._parts.program.adapters.keys():
            self._log.info("config.unchanged")
            return
        differs = [str(each) for each in changes(_kept(self._settings), _kept(settings))]
        _warn(settings)
        known = [*self._settings.secrets(), *settings.secrets()]
        parts = self._built(settings)
        log.configure(settings.log.level, sys.stderr, secrets=known)
        before, self._settings = self._parts, settings
        self._serve(self._applications(parts), parts)
        self._replace(before, parts)
        self._log.info("config.applied", changes=differs or ["secrets"])

    def _replace(self, before: Parts | None, parts: Parts) -> None:
        """End the old parts and start the new ones: what was leased is finished, runs begin again."""
        if before is not None and not before.stop(monotonic() + RELOAD_GRACE):
            self._log.warning("config.cut_off", because="reads or runs of before have not ended; they do by themselves")
        if before is not None:
            for number in range(parts.program.settings.drain.workers, before.program.settings.drain.workers):
                self._heartbeats.end(f"drain-{number}")
        parts.start()


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
        except Forgotten as error:
            raise UnknownKind(str(error)) from None

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
            allow_deletes=request.allow_deletes,
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


def _grounded(
    settings: Settings, ending: Ending, *, takes_deliveries: bool, stack: ExitStack, environment: Mapping[str, str]
) -> Ground | None:
    """Return what the process stands on once its database answers; None: the process is to end before it did."""
    attempt = 0
    while not ending.asked.is_set():
        try:
            return stack.enter_context(bootstrap.grounded(settings, takes_deliveries=takes_deliveries))
        except DatabaseUnavailable as error:
            structlog.get_logger().warning("serve.database_away", because=str(error))
            notify.notify(environment, notify.status(f"waits for the database: {error}"), _MORE_TIME)
            ending.asked.wait(_RETRIES[min(attempt, len(_RETRIES) - 1)])
            attempt += 1
    return None


def _appliable(before: Settings, given: Settings) -> tuple[Settings, list[str]]:
    """Return *given* with what only a restart can change as it was, and the keys of that which differ."""
    pairs = {
        "state_directory": (before.state_directory, given.state_directory),
        "database": (before.database, given.database),
        "web.listen": (before.web.listen, given.web.listen),
        "web.spool": (before.web.spool, given.web.spool),
        "web.spool_max": (before.web.spool_max, given.web.spool_max),
        "admin.listen": (before.admin.listen, given.admin.listen),
    }
    settings = replace(
        given,
        files=before.files,
        state_directory=before.state_directory,
        database=before.database,
        web=replace(given.web, listen=before.web.listen, spool=before.web.spool, spool_max=before.web.spool_max),
        admin=replace(given.admin, listen=before.admin.listen),
    )
    return settings, [key for key, (old, new) in pairs.items() if old != new]


def _kept(settings: Settings) -> Mapping[str, Any]:
    return written(settings, bootstrap.mirrored(settings))


def _warn(settings: Settings) -> None:
    for warning in settings.warnings:
        structlog.get_logger().warning("config.warning", because=warning)


def _failed(part: str, failure: BaseException) -> str:
    return f"{_FAILED}{part}: {type(failure).__name__}: {failure}"


@contextmanager
def _signals(ending: Ending) -> Iterator[None]:
    """Let signals wish while the block runs: SIGTERM and SIGINT for the end, a second one at once; SIGHUP to reload."""

    def ask(number: int, _: FrameType | None) -> None:
        ending.ask(signal.Signals(number).name)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, before[each])

    def reload(_: int, __: FrameType | None) -> None:
        ending.reload.set()

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGHUP, reload)
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
