"""
A plugin of pytest that runs no test as it stands: first each once to see what it executes, then, for each change, those
that execute what was changed.

Everything is collected once; each file that is looked at and each change is a process forked from there, with
databases of its own.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from coverage import Coverage
from hypothesis import Phase, settings
from psycopg import sql

from reconciler.store import statements
from tests.mutants.breaking import put_in_place
from tests.mutants.changes import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

    import pytest

    from tests.mutants.changes import Mutant

Job = TypeVar("Job")
_FORKED = multiprocessing.get_context("fork")
# How long a test may take: so many seconds, and so many times what it took when nothing was broken.
_PATIENCE = (10, 5)


@dataclass(slots=True)
class Look:
    """
    What the tests of a file executed.

    Attributes:
        seconds: How long each took.
        failed: Those that fail without any change.
        lines: Who executed each line of each module.
        statements: Who executed each statement.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lines: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    statements: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, other: Look) -> None:
        """Take in what was seen of another file."""
        self.seconds |= other.seconds
        self.failed += other.failed
        for place, names in other.lines.items():
            self.lines[place] |= names
        for statement, names in other.statements.items():
            self.statements[statement] |= names


class Broke(Exception):
    """What went wrong outside of the tests."""


class _Noting(dict[str, str]):
    """The statements, and which of them were asked for."""

    asked: set[str]

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)


class Trying:
    """
    The plugin.

    Attributes:
        survivors: The changes that no test noticed, in the end.
        hanging: Those with which a test never ended.
        unsound: Tests that fail without any change: they can tell nothing.
    """

    def __init__(self, mutants: Sequence[Mutant], *, server: str, at_once: int) -> None:
        self.mutants = mutants
        self.survivors: list[Mutant] = []
        self.hanging: list[Mutant] = []
        self.unsound: list[str] = []
        self._server = server
        self._at_once = at_once
        self._failed = False
        self._look = Look()
        self._noticed: list[tuple[Mutant, str]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Look at every test, then try every change."""
        known = settings.get_profile("unhurried")
        settings.register_profile("once", known, database=None, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("once")
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            files[item.path].append(item)
        began = time.monotonic()
        jobs = sorted(files.values(), key=len, reverse=True)
        for items, look in self._forked(jobs, self._looked_at):
            if look is None:
                self.unsound += [item.nodeid for item in items]
            else:
                self._look.add(look)
                self.unsound += look.failed
        _say(f"{len(session.items)} tests looked at in {time.monotonic() - began:.0f} s")
        self._try_all(session.items)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that something failed."""
        self._failed |= report.failed

    def _try_all(self, items: Sequence[pytest.Item]) -> None:
        known = {item.nodeid: item for item in items}
        chosen = ((mutant, [known[name] for name in self._chosen(mutant)]) for mutant in self.mutants)
        for number, ((mutant, tests), noticed) in enumerate(self._forked(chosen, self._noticed_by), 1):
            if noticed == "":
                self.survivors.append(mutant)
                print(f"{mutant}\n    and none of {len(tests)} tests noticed", flush=True)
            elif noticed is None:
                self.hanging.append(mutant)
            else:
                self._noticed.append((mutant, noticed))
            if number % 50 == 0:
                _say(f"{number} of {len(self.mutants)}")

    def _chosen(self, mutant: Mutant) -> list[str]:
        """
        Return the tests that execute what was changed.

        First those that noticed something near, then one case of each test, then the others; file by file, the
        quickest first.
        """
        look = self._look
        if mutant.statement:
            names = look.statements.get(mutant.statement, set())
        else:
            names = look.lines.get((mutant.module, mutant.line), set()) or {
                name for (module, _), names in look.lines.items() if module == mutant.module for name in names
            }
        near = sorted(
            (abs(other.line - mutant.line), name)
            for other, name in self._noticed
            if other.module == mutant.module and name in names
        )
        first = list(dict.fromkeys(name for _, name in near))
        files: dict[str, float] = defaultdict(float)
        cases: dict[str, int] = defaultdict(int)
        ranked: list[tuple[bool, str, float, str]] = []
        for name in sorted(names.difference(first), key=lambda name: (look.seconds[name], name)):
            files[_file(name)] += look.seconds[name]
            ranked.append((cases[_function(name)] > 0, _file(name), look.seconds[name], name))
            cases[_function(name)] += 1
        rest = [
            name for *_, name in sorted((again, files[file], file, took, name) for again, file, took, name in ranked)
        ]
        return [name for name in first + rest if name not in self.unsound]

    def _looked_at(self, items: Sequence[pytest.Item]) -> Look:
        look = Look()
        noting = _Noting(statements.statements())
        statements.statements = lambda: noting  # type: ignore[assignment] # every caller asks the module
        coverage = Coverage(
            data_file=None, config_file=False, include=[str(HERE / part / "*") for part in ("reconciler", "adapters")]
        )
        coverage.start()
        for item, after in zip(items, [*items[1:], None], strict=True):
            noting.asked = set()
            coverage.switch_context(item.nodeid)
            began = time.monotonic()
            if not self._passes(item, after):
                look.failed.append(item.nodeid)
            look.seconds[item.nodeid] = time.monotonic() - began
            for name in noting.asked:
                look.statements[name].add(item.nodeid)
        coverage.stop()
        data = coverage.get_data()
        for file in data.measured_files():
            for line, names in data.contexts_by_lineno(file).items():
                look.lines[str(Path(file).relative_to(HERE)), line] |= set(names) - {""}
        return look

    def _noticed_by(self, job: tuple[Mutant, Sequence[pytest.Item]]) -> str:
        """Return the test that fails; empty: none does."""
        mutant, items = job
        put_in_place(mutant)
        for item, after in zip(items, [*items[1:], None], strict=True):
            faulthandler.dump_traceback_later(_PATIENCE[0] + _PATIENCE[1] * self._look.seconds[item.nodeid], exit=True)
            if not self._passes(item, after):
                return item.nodeid
        return ""

    def _passes(self, item: pytest.Item, after: pytest.Item | None) -> bool:
        self._failed = False
        item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
        return not self._failed

    def _forked(self, jobs: Iterable[Job], work: Callable[[Job], Any]) -> Iterator[tuple[Job, Any]]:
        """Yield each job and what *work* returned in a process of its own, as they end; None: it ended without."""
        left = iter(jobs)
        running: dict[Connection, tuple[Job, ForkProcess]] = {}
        try:
            while True:
                while len(running) < self._at_once and (job := next(left, None)) is not None:
                    ours, theirs = _FORKED.Pipe(duplex=False)
                    process = _FORKED.Process(target=_tell, args=(theirs, partial(work, job)))
                    process.start()
                    theirs.close()
                    running[ours] = job, process
                if not running:
                    return
                for ended in set(running).intersection(wait(list(running))):
                    job, process = running.pop(ended)
                    told = _heard(ended)
                    process.join()
                    self._sweep_up(process.pid)
                    yield job, told
        finally:
            for _, process in running.values():
                process.kill()

    def _sweep_up(self, pid: int | None) -> None:
        """Drop what databases a process left: it ends where it stands."""
        with psycopg.connect(self._server, autocommit=True) as admin:
            found = admin.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"test_{pid}_%"])
            for (name,) in found.fetchall():
                admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _tell(told: Connection, work: Callable[[], Any]) -> None:
    """Do *work* unheard, tell what it returned and end at once, whatever still runs here."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    try:
        told.send(work())
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        told.send(Broke(traceback.format_exc()))
    finally:
        os._exit(0)


def _heard(ended: Connection) -> Any:
    try:
        told = ended.recv()
    except EOFError:
        return None
    finally:
        ended.close()
    if isinstance(told, Broke):
        raise told
    return told


def _file(name: str) -> str:
    return name.partition("::")[0]


def _function(name: str) -> str:
    return name.partition("[")[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
