"""
What the program takes beside what this machine could do: a JSON object a line.

    python -m tests.bench [--runs N] [NAME ...]

`ours` and `limit` are medians of runs that take turns, `ratio` is ours by limit, `spread` is how far our runs lie
apart by their median. The limit of writes is the same bodies in one statement into a bare table; the limit of starts
is what PostgreSQL's own programs take.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg

from reconciler.adapter import Kind, Listing
from reconciler.embedded import Embedded, binaries, guardian
from reconciler.model import Named, Notification, ObjectRef, Origin, Reading, Snapshot, Via
from reconciler.store import events, guard, statements
from reconciler.store.database import connect
from reconciler.store.events import Arrival
from reconciler.store.migrate import migrate
from reconciler.store.mirror import Mirror, Rules, activate
from reconciler.store.shares import ShareStop
from tests.bench.bench_receive import receiving
from tests.bench.measuring import Bench, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reconciler.model import Body
    from reconciler.store.database import Database

NOW = datetime(2026, 11, 30, tzinfo=UTC)
BATCH = 64
ROWS = 64 * 64
SOURCE = "bench"
KIND = Kind(name="thing", list=Listing.WHOLE, feed="", fetch="", deletion="", permission="", cost="")
RULES = Rules(
    read_lag=timedelta(seconds=10),
    rewound_after=timedelta(minutes=10),
    absence_recheck=timedelta(seconds=5),
    share_stop=ShareStop(share=1.0, above=10**9),
)
_BARE = (
    "INSERT INTO reconciler.bare SELECT id, body::jsonb FROM unnest(%b::text[], %b::text[]) AS given (id, body) "
    "ON CONFLICT DO NOTHING"
)

T = TypeVar("T")


def rate(write: Callable[[Sequence[T]], object], rows: Sequence[T]) -> float:
    """Return how many of *rows* a second *write* takes, BATCH at a time."""
    began = time.monotonic()
    for start in range(0, len(rows), BATCH):
        write(rows[start : start + BATCH])
    return len(rows) / (time.monotonic() - began)


def body(number: int, *, version: int = 0) -> Body:
    """Return a body of about a kilobyte."""
    lines = [{"id": f"li_{number}_{line}", "amount": 1000 + line, "currency": "eur"} for line in range(12)]
    return {"id": f"thing_{number}", "object": KIND.name, "version": version, "lines": lines, "note": "x" * 200}


class Writes:
    """Rows into one database, by the guard, by the inbox, and bare."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._version = 0
        with database.transaction() as connection:
            activated = activate(connection, SOURCE, KIND, facts={})
            connection.exec_driver_sql("CREATE TABLE bare (id text PRIMARY KEY, body jsonb)")
        self._mirror = Mirror({(SOURCE, KIND.name): activated}, RULES)

    def created(self) -> float:
        """Apply snapshots of objects that have no row yet."""
        self._empty("objects", "object_history", "refetches", "declined_writes")
        return self._applied()

    def updated(self) -> float:
        """Apply snapshots that differ from their rows."""
        self._version += 1
        return self._applied()

    def unchanged(self) -> float:
        """Apply snapshots that show what their rows show."""
        return self._applied()

    def recorded(self) -> float:
        """Store new notifications and want what they name, BATCH to a transaction."""
        self._empty("webhook_events", "event_objects", "refetches")
        arrivals = [self._arrival(number) for number in range(ROWS)]
        return rate(self._record, arrivals)

    def bare(self) -> float:
        """Insert the same bodies into a bare table, BATCH to a transaction."""
        self._empty("bare")
        rows = [(f"thing_{number}", json.dumps(body(number))) for number in range(ROWS)]
        with psycopg.connect(self._database.url, autocommit=True) as connection:
            return rate(lambda batch: connection.execute(_BARE, _columns(batch)), rows)

    def _applied(self) -> float:
        bodies = [body(number, version=self._version) for number in range(ROWS)]
        return rate(self._apply, bodies)

    def _apply(self, bodies: Sequence[Body]) -> None:
        with self._database.transaction() as connection:
            drawn = statements.one(connection, "draw_position", {"now": None})
            readings = [
                Reading(Snapshot(_ref(each["id"]), each, None, NOW), drawn.position, drawn.position, drawn.now)
                for each in bodies
            ]
            guard.apply(connection, readings, origin=Origin(Via.SWEEP), mirror=self._mirror)

    def _record(self, arrivals: Sequence[Arrival]) -> None:
        with self._database.transaction() as connection:
            events.receive(connection, arrivals)

    def _arrival(self, number: int) -> Arrival:
        named = (Named(_ref(f"thing_{number}")),)
        notification = Notification(SOURCE, f"evt_{number}", "thing.updated", NOW, body(number), None, named)
        return Arrival(notification, {"content-type": "application/json"}, NOW)

    def _empty(self, *tables: str) -> None:
        with self._database.transaction() as connection:
            connection.exec_driver_sql("SELECT set_config('reconciler.guard', 'on', true)")
            for table in tables:
                connection.exec_driver_sql(f"DELETE FROM {table}")
        with psycopg.connect(self._database.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def _ref(number: str) -> ObjectRef:
    return ObjectRef(SOURCE, "", KIND.name, number)


def _columns(rows: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [number for number, _ in rows], [text for _, text in rows]


class Starts:
    """An embedded server in a folder of its own, and PostgreSQL's own programs beside it."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._count = 0

    def cold(self) -> float:
        """Start a server where there is none yet."""
        self._count += 1
        return self._started(Embedded(self._place / f"cold-{self._count}"))

    def warm(self) -> float:
        """Start a server that was there before."""
        if not self._count:
            self.cold()
        return self._started(Embedded(self._place / "cold-1"))

    def initdb(self) -> float:
        """Make a cluster, and nothing else."""
        self._count += 1
        folder = self._place / f"bare-{self._count}"
        return seconds(lambda: self._run("initdb", "-D", str(folder), "-A", "trust", "--no-instructions"))

    def pg_ctl(self) -> float:
        """Start a server on a cluster that PostgreSQL made."""
        folder = next(self._place.glob("bare-*"), None)
        if folder is None:
            self.initdb()
            return self.pg_ctl()
        options = f"-c listen_addresses= -k {folder}"
        took = seconds(lambda: self._run("pg_ctl", "-D", str(folder), "-w", "-o", options, "start"))
        self._run("pg_ctl", "-D", str(folder), "-w", "stop")
        return took

    @staticmethod
    def _started(embedded: Embedded) -> float:
        took = seconds(embedded.start)
        embedded.close()
        return took

    def _run(self, program: str, *words: str) -> None:
        folder = binaries.choose(os.environ, cluster=None)
        user = "nobody" if os.geteuid() == 0 else None
        subprocess.run(
            [folder / program, *words],
            user=user,
            extra_groups=None if user is None else [],
            env=guardian.ENVIRONMENT,
            cwd="/",
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def benches() -> Iterator[list[Bench]]:
    """Yield what is measured without a listener, with a server that keeps what it is told."""
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as folder:
        place = Path(folder)
        place.chmod(0o1777)
        with Embedded(place / "postgres") as embedded:
            database = connect(embedded.url("reconciler"), schema="reconciler", connections=2)
            migrate(database)
            writes, starts = Writes(database), Starts(place)
            yield [
                Bench("receive_record", "deliveries/s", writes.recorded, writes.bare),
                Bench("apply_created", "snapshots/s", writes.created, writes.bare),
                Bench("apply_updated", "snapshots/s", writes.updated, writes.bare),
                Bench("apply_unchanged", "snapshots/s", writes.unchanged, writes.bare),
                Bench("start_cold", "s", starts.cold, starts.initdb),
                Bench("start_warm", "s", starts.warm, starts.pg_ctl),
            ]
            database.close()


def main(arguments: Sequence[str]) -> None:
    """Print a line for each bench that *arguments* name, all of them where they name none."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="What the program takes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as apply or apply_created")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args(arguments)
    for group in (benches, receiving):
        with group() as every:
            for bench in every:
                if not asked.names or bench.name.startswith(tuple(asked.names)):
                    print(bench.line(asked.runs), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1:])
