"""A schedule in a program of its own, for tests that kill it. Its runs do not end; it says when one has begun."""

from __future__ import annotations

import os
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from reconciler import log
from reconciler.config import ScheduleSettings
from reconciler.schedule import Pace, Schedule, plan
from reconciler.store import statements
from reconciler.store.database import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.sweep import Asked, Progress

log.configure("error", sys.stderr)
database = connect(os.environ["SCHEDULING_DATABASE"], schema="reconciler", connections=4)


class Endless:
    """Begins runs and never ends one."""

    def begin(self, asked: Asked) -> int:
        """Begin a run, and say so."""
        told = {"trigger": asked.trigger, "since": None, "until": None, "dry_run": False, "asked": "{}"}
        with database.transaction() as connection:
            run_id = int(statements.one(connection, "insert_run", told).id)
        print(run_id, flush=True)
        return run_id

    def execute(self, run_id: int, *, progress: Callable[[Progress], None]) -> str:
        """Work until the process is killed."""
        del run_id, progress
        threading.Event().wait()
        return "never"


Schedule(
    database,
    Endless(),
    [plan("stripe-eu", ScheduleSettings())],
    holder=str(os.getpid()),
    leads=threading.Event(),
    pace=Pace(look=timedelta(seconds=0.3), lead=timedelta(seconds=1.5), claim=timedelta(seconds=2)),
).start()
threading.Event().wait()
