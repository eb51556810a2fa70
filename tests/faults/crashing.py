"""
A process that does all there is to do and is killed after one durable step of its choice.

A step is a transaction that wrote something, named by the function that asked for it. Between two of them nothing
outside this process changes that a restart would have to know of, so there are no other points worth dying at.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from reconciler import config, schedule
from reconciler.bootstrap import program
from reconciler.schedule import Pace, Schedule
from reconciler.store.database import Database
from reconciler.sweep import Asked
from reconciler.times import Last

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

    import sqlalchemy

    from reconciler.bootstrap import Program
    from reconciler.model import Delivery, ObjectRef

_FRESH = multiprocessing.get_context("forkserver")
_OURS = "reconciler."
_NOT_A_PLACE = "reconciler.store.database"
_PATIENCE = 60.0
_PACE = Pace(look=timedelta(seconds=1), lead=timedelta(seconds=30), claim=timedelta(seconds=30))
_COLD = timedelta(seconds=0.5)


@dataclass(frozen=True, slots=True)
class Errand:
    """What a process is to do: take these deliveries, read what is wanted, have its night, compare everything."""

    file: Path
    environment: Mapping[str, str]
    source: str
    deliveries: Sequence[Delivery]
    wanted: Sequence[ObjectRef] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """
    What a process had to tell until its end.

    Attributes:
        steps: Its durable steps, in order.
        answered: The numbers of the deliveries it acknowledged.
        ended: The state of its last run; None: it did not come so far.
        killed: It died by SIGKILL.
    """

    steps: tuple[str, ...]
    answered: frozenset[int]
    ended: str | None
    killed: bool


def run(
    errand: Errand, *, dies_after: str = "", turn: int = 1, reached: Callable[[str], object] = lambda _: None
) -> Told:
    """
    Have a process of its own do *errand*, killed the *turn*-th time that it has done the step *dies_after*.

    *reached* is told of each step here, soon after.
    """
    _FRESH.set_forkserver_preload([__name__])
    ours, theirs = _FRESH.Pipe(duplex=False)
    process = _FRESH.Process(target=_do, args=(errand, theirs, dies_after, turn))
    process.start()
    theirs.close()
    told: dict[str, list[Any]] = {"step": [], "answered": [], "ended": []}
    end = time.monotonic() + _PATIENCE
    while ours.poll(max(0.0, end - time.monotonic())):
        try:
            what, about = ours.recv()
        except EOFError:
            break
        told[what].append(about)
        if what == "step":
            reached(about)
    process.join(max(0.0, end - time.monotonic()))
    hung = process.is_alive()
    if hung:
        process.kill()
        process.join()
    assert not hung, f"it hangs after {told['step'][-3:]}"
    return Told(
        tuple(told["step"]),
        frozenset(told["answered"]),
        told["ended"][-1] if told["ended"] else None,
        process.exitcode == -signal.SIGKILL,
    )


def _do(errand: Errand, told: Connection, dies_after: str, turn: int) -> None:
    lock = threading.Lock()
    left = turn

    def tell(what: str, about: object) -> None:
        with lock:
            told.send((what, about))

    def reached(step: str) -> None:
        nonlocal left
        tell("step", step)
        if step == dies_after:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    _watch(reached)
    with program(config.load(errand.file, errand.environment)) as behind:
        with behind.receiver:
            for number, delivery in enumerate(errand.deliveries):
                behind.receiver.receive(errand.source, delivery)
                tell("answered", number)
        for ref in errand.wanted:
            behind.want(ref)
        _work_off(behind)
        _have_a_night(behind)
        _work_off(behind)
        behind.sweep.execute(behind.sweep.begin(Asked(trigger="cli", since=Last.LAST)))
        tell("ended", behind.sweep.execute(behind.sweep.begin(Asked(trigger="cli", since=Last.LAST, full=True))))
    told.close()


def _work_off(behind: Program) -> None:
    """Read what is due until nothing has been for a while."""
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < _COLD.total_seconds():
        if behind.drain.turn():
            quiet_since = time.monotonic()
        else:
            time.sleep(0.02)


def _have_a_night(behind: Program) -> None:
    """Lead the schedule, and run what it finds to be due."""
    plans = [schedule.plan(source, behind.settings.schedule) for source in behind.adapters]
    made = Schedule(behind.database, behind.sweep, plans, holder="here", leads=threading.Event(), pace=_PACE)
    made.start()
    end = time.monotonic() + _PATIENCE / 2
    while not _slept(behind) and time.monotonic() < end:
        time.sleep(0.02)
    made.stop(5)


def _slept(behind: Program) -> bool:
    with behind.database.transaction() as connection:
        return bool(connection.exec_driver_sql("SELECT bool_or(state = 'used') FROM slots").scalar())


def _watch(reached: Callable[[str], None]) -> None:
    """Have *reached* called with the name of each durable step of this process, once it is durable."""
    plain = Database.transaction

    @contextmanager
    def watched(self: Database) -> Iterator[sqlalchemy.Connection]:
        with plain(self) as connection:
            yield connection
            wrote = connection.exec_driver_sql("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").scalar()
        if wrote:
            reached(_place())

    cast("Any", Database).transaction = watched


def _place() -> str:
    """Return the function of ours that this transaction was for."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_OURS) and module != _NOT_A_PLACE:
            return f"{module.removeprefix(_OURS)}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "elsewhere"
