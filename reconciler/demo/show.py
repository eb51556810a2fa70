"""The demo itself: what happens, in which order, and what is said about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
from rich.console import Console

from reconciler.demo.comparing import compare, ours
from reconciler.demo.loopback import ask
from reconciler.demo.parts import parts
from reconciler.demo.processes import Children
from reconciler.demo.provider import Provider
from reconciler.demo.tallies import Tallies, kinds_table, table
from reconciler.embedded import Embedded
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from reconciler.demo.comparing import Compared
    from reconciler.demo.processes import Child

_WIDTH = 100
_SETTLES_WITHIN = 60.0
_LOOKS_EVERY = 0.1
_STORY = 16
_TOKEN = "of-the-demo-alone"  # noqa: S105 - opens nothing but its admin listener, which ends with it
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OURS, _KEPT = "RECONCILER_", "RECONCILER_PG_BINDIR"
_CONFIGURATION = """\
state_directory = {state}
[web]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
tokens = ["env:DEMO_ADMIN_TOKEN"]
[drain]
lease = "31s"
read_lag = "1s"
absence_recheck = "500ms"
poll = "200ms"
deletes_stop = {{ share = 1.0, above = 1000000 }}
[schedule]
nightly = "{nightly}"
light_every = "off"
in_flight = "500ms"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """
    How much happens.

    Attributes:
        objects: The share of each part's first objects.
        rounds: How often every provider changes things.
        pace: Seconds from one round to the next, at least.
        killed: The round in which the daemon is killed: early, for what it had leased is free only half a minute later.
        absent: Rounds until it is started again.
        edited: The round in which rows are edited by hand.
        edits: How many of each source.
        silent: Objects of each source that change without any event.
    """

    objects: float = 1.0
    rounds: int = 120
    pace: float = 0.15
    killed: int = 12
    absent: int = 8
    edited: int = 110
    edits: int = 5
    silent: int = 14


def main(*, seed: int, size: Size | None = None) -> int:
    """Show the main job, and return 0 only if not one object diverges in the end; leave nothing behind."""
    console = _console()
    began = time.monotonic()
    with _ended_by_signals(), _folder() as folder, ExitStack() as stack:
        compared = _Demo(console, folder, seed=seed, size=size or Size(), stack=stack).show()
    console.print(f"seed {seed}, {time.monotonic() - began:.0f} s")
    return conclude(console, compared)


def conclude(console: Console, compared: Compared) -> int:
    """Say in one line how both sides stand, and return the exit code: 0 only if not one object diverges."""
    console.print(str(compared))
    return 0 if compared.equal else 1


def _console() -> Console:
    """Return what writes to a terminal as wide as it is, and to anything else in lines of one width."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH)


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder that goes with the block."""
    folder = Path(tempfile.mkdtemp(prefix="reconciler-demo-"))
    try:
        folder.chmod(0o755)  # as root the embedded server runs as another user, who must get in
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the first signal that asks for the end undo everything in order, and no further one disturb that."""

    def end(_: int, __: FrameType | None) -> None:
        for each in _ENDS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in _ENDS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass(frozen=True, slots=True)
class _Daemon:
    """A daemon that takes deliveries, and the addresses of its listeners."""

    child: Child
    web: str
    admin: str


class _Demo:
    def __init__(self, console: Console, folder: Path, *, seed: int, size: Size, stack: ExitStack) -> None:
        self._console = console
        self._folder = folder
        self._seed = seed
        self._size = size
        self._parts = parts()
        self._embedded = Embedded(folder / "state" / "postgres")
        stack.callback(self._embedded.close)
        self._children = stack.enter_context(Children(folder, environment=self._environment()))
        self._tallies = Tallies()

    def show(self) -> Compared:
        providers = self._stand_ins()
        daemon = self._happen(providers)
        self._settle(providers)
        silent = sum(each.change_in_silence(self._size.silent) for each in providers)
        self._say(f"{silent} objects changed or went without any event")
        self._compare("before any sweep", providers)
        self._reconcile("--since", "1h")
        self._say_what_no_feed_showed(self._compare("after reconcile --since 1h", providers))
        self._read_what_no_call_lists(daemon, providers)
        self._reconcile("--since", "1h", "--full")
        compared = self._compare("after reconcile --since 1h --full", providers)
        self._tallies.add_daemon(daemon.admin)
        self._console.print(table(self._url, providers, self._tallies))
        self._console.print(kinds_table(providers, compared))
        self._tell_a_story()
        for ref in compared.divergent[:10]:
            self._say(f"divergent: {'/'.join(ref)}")
        return compared

    # --- what happens ---

    def _environment(self) -> dict[str, str]:
        """Return our own, with the demo's secrets, and without what would configure another program than the demo's."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) or name == _KEPT}
        secrets = {name: value for part in self._parts for name, value in part.environment().items()}
        secrets["DEMO_ADMIN_TOKEN"] = _TOKEN
        return {**inherited, **secrets, "RECONCILER_CONFIG": str(self._folder / "reconciler.toml")}

    def _stand_ins(self) -> list[Provider]:
        """Start the stand-ins and the database side by side, and make the first objects."""
        started = [
            (part, self._children.start("sandbox", part.provider, "--port", "0", log=f"stand-in-{part.provider}"))
            for part in self._parts
        ]
        self._url = self._embedded.start().url("reconciler")
        providers = [Provider(part, _address(child.line("http://")), seed=self._seed) for part, child in started]
        for provider in providers:
            provider.create(self._size.objects)
        tables = [each.part.configuration(each.url) for each in providers]
        # The nightly sweep is the first that each source has, and comes again long after the demo.
        nightly = f"{datetime.now(UTC) - timedelta(hours=2):%H:%M}"
        told = _CONFIGURATION.format(state=json.dumps(str(self._folder / "state")), nightly=nightly)
        (self._folder / "reconciler.toml").write_text(told + "".join(tables))
        return providers

    def _daemon(self, *, web: str = "127.0.0.1:0") -> _Daemon:
        """Start a daemon, and return once it takes deliveries."""
        child = self._children.start("serve", log="daemon", environment={"RECONCILER_WEB__LISTEN": web})
        ready = json.loads(child.line("serve.ready"))
        return _Daemon(child, web=ready["web"], admin=ready["admin"])

    def _happen(self, providers: Sequence[Provider]) -> _Daemon:
        """Let everything happen, with a daemon that is killed and started again; return the last one."""
        size, daemon = self._size, self._daemon()
        names = ", ".join(each.part.name for each in providers)
        self._say(f"a PostgreSQL, stand-ins for {names} and a daemon are running (pid {daemon.child.pid})")
        self._wait(_LOADING.format(sources=len(providers)))
        for each in providers:
            each.send_to(daemon.web)
        for number in range(size.rounds):
            until = time.monotonic() + size.pace
            for each in providers:
                each.change(each.part.changes)
            if number == size.killed:
                self._kill(daemon)
            if number == size.killed + size.absent:
                daemon = self._daemon(web=daemon.web)
                self._say(f"and started again (pid {daemon.child.pid})")
            if number == size.edited:
                self._edit_by_hand(providers)
            time.sleep(max(0.0, until - time.monotonic()))
        happened = sum((each.happened for each in providers), start=Counter())
        told = ", ".join(f"{count} {what}" for what, count in sorted(happened.items()))
        self._say(f"at the providers: {told}")
        return daemon

    def _kill(self, daemon: _Daemon) -> None:
        self._tallies.add_daemon(daemon.admin)
        daemon.child.kill()
        self._say(f"the daemon was killed with SIGKILL (pid {daemon.child.pid})")

    def _edit_by_hand(self, providers: Sequence[Provider]) -> None:
        """Change some rows, and delete every third, behind the back of everybody."""
        edited = 0
        with psycopg.connect(self._url) as connection:
            for each in providers:
                for turn, key in enumerate(each.some(self._size.edits)):
                    statement = _DELETED if turn % 3 == 2 else _EDITED
                    edited += connection.execute(statement, (each.part.source, *key)).rowcount
        self._say(f"{edited} rows were edited or deleted by hand")

    def _settle(self, providers: Sequence[Provider]) -> None:
        """Wait until all that was sent has arrived, and all that it asked for is read."""
        pending = sum(each.behave() for each in providers)
        self._wait(_DUE)
        self._say(f"the providers are quiet, {pending} deliveries are on their way")

    def _read_what_no_call_lists(self, daemon: _Daemon, providers: Sequence[Provider]) -> None:
        """Have each object of the kinds that no call lists read by its id, as whoever knows of one would."""
        asked = 0
        for each in providers:
            for scope, kind, id_ in each.unlisted():
                named = quote(f"/refetch/{each.part.source}/{kind}/{id_}") + (f"?scope={scope}" if scope else "")
                ask(daemon.admin, "POST", named, token=_TOKEN)
                asked += 1
        self._wait(_DUE)
        self._say(f"{asked} objects of kinds that no call lists were read by their ids")

    def _wait(self, busy: str) -> None:
        """Wait until the statement *busy* finds nothing any more, but not for ever."""
        until = time.monotonic() + _SETTLES_WITHIN
        with psycopg.connect(self._url, autocommit=True) as connection:
            while time.monotonic() < until and connection.execute(busy.encode()).fetchone() is not None:
                time.sleep(_LOOKS_EVERY)

    # --- what is said ---

    def _say(self, sentence: str) -> None:
        self._console.print(f"· {sentence}")

    def _reconcile(self, *arguments: str) -> None:
        code, report = self._children.answer(*arguments)
        if not isinstance(report, dict):
            raise ReconcilerError(f"reconcile {' '.join(arguments)} said {report!r}")
        self._tallies.add_run(report)
        kinds = report["kinds"]
        listed, applied = sum(each["listed"] for each in kinds), sum(each["applied"] for each in kinds)
        self._say(
            f"reconcile {' '.join(arguments)}: run {report['id']} {report['state']} (exit code {code}), "
            f"{listed} listed, {applied} applied, {len(report['drift'])} rows had drifted"
        )
        if report["because"]:
            self._say(f"because {report['because']}")

    def _compare(self, when: str, providers: Sequence[Provider]) -> Compared:
        theirs = {(each.part.source, *key): body for each in providers for key, body in each.truth().items()}
        compared = compare(theirs, ours(self._url), {part.source: part.provider for part in self._parts})
        self._say(f"{when}: {len(compared.divergent)} of {compared.theirs} objects diverge")
        return compared

    def _say_what_no_feed_showed(self, compared: Compared) -> None:
        for part in self._parts:
            if left := compared.of(part.source):
                self._say(f"what no feed of {part.name}'s could show: {left}")

    def _tell_a_story(self) -> None:
        """Tell the story of one object: of those that drifted, one whose story is rich and not too long."""
        with psycopg.connect(self._url, options="-csearch_path=reconciler") as connection:
            found = connection.execute(_EVENTFUL).fetchone()
        if found is None:
            return
        source, scope, kind, id_ = found
        named = [source, kind, id_, *(["--scope", scope] if scope else [])]
        _, told = self._children.answer("explain", *named)
        if not isinstance(told, dict):
            return
        self._console.print(f"the story of one object (reconcile explain {' '.join(named)}):")
        story = told["story"]
        for each in story if len(story) <= _STORY else [*story[:6], None, *story[-9:]]:
            self._console.print("   …" if each is None else f"   {each['at'][11:23]}  {each['text']}")
        self._console.print()


# Each source is swept for the first time as soon as the daemon is up.
_LOADING = "SELECT FROM reconciler.runs WHERE state <> 'running' HAVING count(*) < {sources}"
_EDITED = """\
UPDATE reconciler.objects SET body = body || '{"id": "edited by hand"}'
WHERE (source, scope, kind, id) = (%s, %s, %s, %s)
"""
_DELETED = "DELETE FROM reconciler.objects WHERE (source, scope, kind, id) = (%s, %s, %s, %s)"
_DUE = """\
SELECT FROM reconciler.refetches
WHERE wanted > done AND dead_at IS NULL AND (leased_until IS NULL OR leased_until < clock_timestamp())
LIMIT 1
"""
_EVENTFUL = """\
SELECT drift.source, drift.scope, drift.kind, drift.id
FROM drift
JOIN object_history AS told USING (source, scope, kind, id)
LEFT JOIN event_objects AS named USING (source, scope, kind, id)
GROUP BY drift.source, drift.scope, drift.kind, drift.id
ORDER BY count(DISTINCT named.event_id) BETWEEN 2 AND 6 DESC,
         bool_or(drift.cause = 'hand_edit') DESC,
         count(DISTINCT told.what) DESC,
         min(drift.seq)
LIMIT 1
"""


def _address(line: str) -> str:
    return line[line.index("http://") :].strip()
