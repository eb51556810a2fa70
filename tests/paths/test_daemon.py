"""The daemon in processes of its own: ready, at work, killed, ended, and several at once."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from psycopg import sql
from structlog.testing import capture_logs

from reconciler.config import RetentionSettings, ScheduleSettings
from reconciler.daemon import Ending, _thread_failures
from reconciler.schedule import Pace, Schedule, plan
from reconciler.store import runs, slots, statements
from reconciler.store.slots import Job, Slot
from tests.paths.commanding import SECRET, SOURCE, TOKEN, serve, stage_on, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.store.database import Database
    from reconciler.sweep import Asked, Progress
    from tests.paths.commanding import Stage

ADMIN = {"Authorization": f"Bearer {TOKEN}"}
NIGHTS = "SELECT count(*) FROM runs WHERE trigger IN ('nightly', 'catch_up')"


@pytest.fixture
def stage(database: Database, tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage over the test's database."""
    with stage_on(tmp_path, database) as made:
        yield made


def count(database: Database, query: str) -> int:
    """Return the number that *query* gives."""
    with database.transaction() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


def delivery(event_id: str, id_: str) -> tuple[bytes, dict[str, str]]:
    """Return body and headers of a delivery about a customer."""
    now = int(time.time())
    event = {
        "id": event_id,
        "object": "event",
        "type": "customer.updated",
        "created": now,
        "livemode": False,
        "api_version": "2026-10-28.endive",
        "data": {"object": {"id": id_, "object": "customer", "created": now, "livemode": False}},
    }
    body = json.dumps(event).encode()
    digest = hmac.new(SECRET.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    return body, {"Stripe-Signature": f"t={now},v1={digest}"}


def test_serve_from_delivery_to_end(stage: Stage, database: Database, tmp_path: Path) -> None:
    """A delivery ends as a row; SIGTERM ends the daemon in order, with code 0 and nothing left leased."""
    stage.change("create", "customer", "cus_1")
    with serve(stage, tmp_path) as daemon:
        body, headers = delivery("evt_1", "cus_1")

        ready = httpx.get(f"{daemon.addresses['web']}/readyz")
        answer = httpx.post(f"{daemon.addresses['web']}/webhooks/{SOURCE}", content=body, headers=headers)
        until(lambda: count(database, "SELECT count(*) FROM webhook_events WHERE outcome = 'done'") == 1)
        code = daemon.end(signal.SIGTERM)

        assert (ready.status_code, answer.status_code, code) == (200, 200, 0), daemon.told()
        assert daemon.lines("serve.stopping")[0]["because"] == "SIGTERM"
        assert daemon.lines("serve.stopped")[0]["cut_off"] is False
    assert count(database, "SELECT count(*) FROM objects WHERE id = 'cus_1'") == 1
    assert count(database, "SELECT count(*) FROM refetches WHERE leased_until IS NOT NULL") == 0
    assert count(database, "SELECT count(*) FROM holders") == 0


def test_two_daemons_one_night(stage: Stage, database: Database, tmp_path: Path) -> None:
    """K54: however many daemons there are, one leads, and a source has one night; when it ends, another leads."""
    with serve(stage, tmp_path) as one, serve(stage, tmp_path) as other:
        until(lambda: count(database, f"{NIGHTS} AND state = 'complete'") == 1)
        [leader], [follower] = (
            [each for each in (one, other) if bool(each.lines("schedule.leads")) is led] for led in (True, False)
        )

        leader.end(signal.SIGTERM)
        follower.wait_for("schedule.leads", within=30)

        assert count(database, NIGHTS) == 1
        assert count(database, "SELECT count(*) FROM slots WHERE job = 'nightly' AND state = 'used'") == 1


def test_admin_of_a_daemon(stage: Stage, tmp_path: Path) -> None:
    """People refetch, begin a run and follow it over HTTP; the leader shows what the database says."""
    stage.change("create", "customer", "cus_1")
    with serve(stage, tmp_path) as daemon:
        until(lambda: bool(daemon.lines("run.finished")))
        with httpx.Client(base_url=daemon.addresses["admin"], headers=ADMIN, timeout=60) as http:
            looked = http.post(f"/refetch/{SOURCE}/customer/cus_1", params={"wait": 30})
            unknown = http.post(f"/refetch/{SOURCE}/custmer/cus_1")
            no_time = http.post("/reconcile", json={})
            begun = http.post("/reconcile", json={"since": "1h", "kinds": ["customer"]})
            until(lambda: http.get(f"/runs/{begun.json()['run']}").json()["state"] == "complete")
            metrics = http.get("/metrics").text

    assert (looked.status_code, looked.json()["verdict"], looked.json()["deleted"]) == (200, "unchanged", False)
    assert unknown.status_code == 404
    assert no_time.status_code == 400
    assert begun.status_code == 202
    assert 'reconciler_watermark_age_seconds{kind="customer",source="stripe-eu"}' in metrics


def test_held_kind_over_http(stage: Stage, database: Database, tmp_path: Path) -> None:
    """A run over HTTP beside another of the same kind is 409 and names that one."""
    with serve(stage, tmp_path) as daemon:
        until(lambda: bool(daemon.lines("run.finished")))
        with database.transaction() as connection:
            connection.exec_driver_sql(
                "INSERT INTO sweeps VALUES ('stripe-eu', 'customer', 41, now(), now() + interval '1 min')"
            )

        answer = httpx.post(f"{daemon.addresses['admin']}/reconcile", json={"since": "1h"}, headers=ADMIN)

    assert (answer.status_code, answer.json()) == (409, {"run": 41})


def test_end_during_a_run(stage: Stage, database: Database, tmp_path: Path) -> None:
    """SIGTERM during a night ends it on record, and gives its slot back as if it had not been tried."""
    stage.control("PUT", "faults", {"timeout": 1.0})
    with serve(stage, tmp_path) as daemon:
        daemon.wait_for("schedule.run")

        code = daemon.end(signal.SIGTERM)

        assert code == 0, daemon.told()
    assert count(database, "SELECT count(*) FROM runs WHERE state = 'running'") == 0
    assert count(database, "SELECT count(*) FROM sweeps") == 0
    assert count(database, "SELECT tries FROM slots WHERE state = 'failed' AND held_until <= now()") == 0


def test_held_night(stage: Stage, database: Database, tmp_path: Path) -> None:
    """K54: a night beside a run by hand is put off, not run twice and not lost."""
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO sweeps VALUES ('stripe-eu', 'customer', 41, now(), now() + interval '1 min')"
        )
    with serve(stage, tmp_path) as daemon:
        held = daemon.wait_for("schedule.held")

        assert "run 41" in held["because"]
        put_off = "SELECT count(*) FROM slots WHERE job = 'nightly' AND state = 'failed' AND tries = 0"
        until(lambda: count(database, put_off) == 1)
    assert count(database, NIGHTS) == 0


def test_database_away_at_start(stage: Stage, database: Database, tmp_path: Path) -> None:
    """A daemon waits for its database with a sentence each time, and is ready once it is there."""
    url = database.engine.url.set(drivername="postgresql")
    name = str(url.database)
    stage.environment["DATABASE_URL"] = url.set(database=f"{name}_later").render_as_string(hide_password=False)
    elsewhere = url.set(database="postgres").render_as_string(hide_password=False)
    with serve(stage, tmp_path, ready=False) as daemon:
        away = daemon.wait_for("serve.database_away")
        database.close()
        with _renamed(elsewhere, name, f"{name}_later"):
            daemon.wait_for("serve.ready")
            code = daemon.end(signal.SIGTERM)

    assert f"{name}_later" in away["because"]
    assert code == 0


@contextmanager
def _renamed(elsewhere: str, name: str, later: str) -> Iterator[None]:
    """Let a database have another name for the length of the block."""
    rename = "ALTER DATABASE {} RENAME TO {}"
    with psycopg.connect(elsewhere, autocommit=True) as admin:
        admin.execute(sql.SQL(rename).format(sql.Identifier(name), sql.Identifier(later)))
        try:
            yield
        finally:
            admin.execute(sql.SQL(rename).format(sql.Identifier(later), sql.Identifier(name)))


def test_end_while_waiting(stage: Stage, tmp_path: Path) -> None:
    """A daemon that still waits for its database can be ended."""
    stage.environment["DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/none"
    with serve(stage, tmp_path, ready=False) as daemon:
        daemon.wait_for("serve.database_away")

        assert daemon.end(signal.SIGTERM) == 0


def test_taken_port(stage: Stage, tmp_path: Path) -> None:
    """A port that somebody has is exit code 2 and a sentence that names the key."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stage.environment["RECONCILER_WEB__LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        with serve(stage, tmp_path, ready=False) as daemon:
            assert daemon.process.wait(60) == 2
            assert "web.listen" in daemon.told()
            assert "web.listen" in daemon.lines("serve.stopping")[0]["because"]


def test_failing_part(stage: Stage, database: Database, tmp_path: Path) -> None:
    """A part that fails ends the process with 1: half a daemon would look alive."""
    with serve(stage, tmp_path) as daemon:
        with database.transaction() as connection:
            connection.exec_driver_sql("ALTER TABLE refetches RENAME COLUMN due_at TO elsewhere")

        code = daemon.process.wait(60)

        assert code == 1
        assert daemon.lines("serve.failed")
        assert daemon.lines("serve.stopped")


def test_failing_thread() -> None:
    """Any thread that dies of an exception ends the process, whichever part it belonged to."""
    ending = Ending(threading.Event(), [])

    def fail() -> None:
        raise RuntimeError("gone")

    with _thread_failures(ending), capture_logs() as lines:
        thread = threading.Thread(target=fail, name="part")
        thread.start()
        thread.join()

    assert ending.asked.is_set()
    assert ending.failure() == "failed: part: RuntimeError: gone"
    assert [line["event"] for line in lines] == ["serve.failed"]


def test_roles(stage: Stage, database: Database, tmp_path: Path) -> None:
    """Each role does its part only; together they do all."""
    stage.change("create", "customer", "cus_1")
    body, headers = delivery("evt_1", "cus_1")
    with serve(stage, tmp_path, "--role", "web") as web:
        answer = httpx.post(f"{web.addresses['web']}/webhooks/{SOURCE}", content=body, headers=headers)
        alone = count(database, "SELECT count(*) FROM objects"), count(database, "SELECT count(*) FROM holders")
        with serve(stage, tmp_path, "--role", "drain") as drain:
            until(lambda: count(database, "SELECT count(*) FROM objects") == 1)
            with serve(stage, tmp_path, "--role", "schedule") as schedule:
                schedule.wait_for("schedule.leads")

                assert list(schedule.addresses) == ["admin"]
        assert list(drain.addresses) == ["admin"]

    assert answer.status_code == 200
    assert alone == (0, 0)


def test_supervisor_is_told(stage: Stage, tmp_path: Path) -> None:
    """A supervisor like systemd hears when the daemon is ready, that it is alive, and that it ends."""
    address = str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(address)
        supervisor.settimeout(60)
        stage.environment.update(NOTIFY_SOCKET=address, WATCHDOG_USEC="400000")
        with serve(stage, tmp_path) as daemon:
            heard = [supervisor.recv(4096).decode() for _ in range(3)]
            daemon.end(signal.SIGTERM)
        supervisor.settimeout(1)
        while "STOPPING=1" not in heard[-1]:
            heard.append(supervisor.recv(4096).decode())

    assert heard[0].startswith("READY=1")
    assert heard[1:3] == ["WATCHDOG=1", "WATCHDOG=1"]


def test_embedded_daemon() -> None:
    """Without a database of one's own it brings one, up to date, and takes it down again."""
    with TemporaryDirectory(prefix="reconciler-") as made:
        folder = Path(made)
        folder.chmod(0o711)  # the server may run as a user of its own
        with stage_on(folder, None) as stage, serve(stage, folder) as daemon:
            until(lambda: bool(daemon.lines("run.finished")))

            code = daemon.end(signal.SIGTERM)

        assert code == 0
        assert not list((folder / "state" / "postgres").rglob("postmaster.pid"))


class Counting:
    """Begins runs that end at once, and counts them."""

    def __init__(self, database: Database, state: str = "complete") -> None:
        self._database, self._state = database, state
        self.begun: list[str] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def begin(self, asked: Asked) -> int:
        """Begin a run."""
        told = {"trigger": asked.trigger, "since": None, "until": None, "dry_run": False, "asked": "{}"}
        with self._database.transaction() as connection:
            run_id = int(statements.one(connection, "insert_run", told).id)
        self.begun.append(asked.trigger)
        return run_id

    def execute(self, run_id: int, *, progress: Callable[[Progress], None]) -> str:
        """End the run, once it may."""
        del progress
        self.may_end.wait()
        with self._database.transaction() as connection:
            runs.finish(connection, run_id, state=self._state, tallies={}, because=None)
        return self._state


@contextmanager
def scheduling(database: Database, sweep: Counting, *, holder: str = "here") -> Iterator[Schedule]:
    """Yield a schedule in a hurry, not started."""
    pace = Pace(look=timedelta(seconds=0.3), lead=timedelta(seconds=1.5), claim=timedelta(seconds=2))
    made = Schedule(
        database,
        sweep,
        [plan(SOURCE, ScheduleSettings(light_every=None))],
        holder=holder,
        leads=threading.Event(),
        pace=pace,
        kept=RetentionSettings().kept(),
    )
    yield made


def test_killed_schedule(database: Database) -> None:
    """K55: a leader that is killed during a night is followed by another, which runs that night."""
    script = Path(__file__).with_name("scheduling_until_killed.py")
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"SCHEDULING_DATABASE": database.url},
        stdout=subprocess.PIPE,
        text=True,
    )
    sweep = Counting(database)
    try:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        with scheduling(database, sweep) as schedule:
            schedule.start()
            try:
                beside = list(sweep.begun)
                process.kill()
                until(
                    lambda: count(database, "SELECT count(*) FROM slots WHERE job = 'nightly' AND state = 'used'") == 1
                )
            finally:
                schedule.stop(5)
    finally:
        process.kill()
        process.communicate()

    assert beside == []
    assert len(sweep.begun) == 1
    assert count(database, f"SELECT count(*) FROM runs WHERE id <> {first} AND state = 'complete'") == 1


def test_long_night(database: Database) -> None:
    """A night keeps its slot for as long as it takes, and its process begins no other run of that source."""
    sweep = Counting(database)
    sweep.may_end.clear()
    with scheduling(database, sweep) as schedule:
        schedule.start()
        try:
            kept = (
                "SELECT count(*) FROM slots WHERE job = 'nightly' AND state = 'claimed'"
                " AND held_until > claimed_at + interval '5 s'"
            )
            until(lambda: count(database, kept) == 1)
            sweep.may_end.set()
            until(lambda: count(database, "SELECT count(*) FROM slots WHERE job = 'nightly' AND state = 'used'") == 1)
        finally:
            sweep.may_end.set()
            schedule.stop(5)

    assert len(sweep.begun) == 1
    assert count(database, "SELECT tries FROM slots WHERE job = 'nightly'") == 1


@pytest.mark.parametrize(
    ("state", "paused", "expected"),
    [
        ("complete", False, "used"),
        ("incomplete", False, "failed"),
        ("incomplete", True, "used"),
        ("failed", False, "failed"),
    ],
)
def test_slot_after_a_run(database: Database, state: str, expected: str, *, paused: bool) -> None:
    """A slot is used by a complete run, or by one that a pause kept from being so; else it is tried again later."""
    if paused:
        with database.transaction() as connection:
            connection.exec_driver_sql(
                "INSERT INTO pauses (source, what, because, since, until) "
                "VALUES ('stripe-eu', 'access_lost', '401', now(), now() + interval '1 hour')"
            )
    sweep = Counting(database, state)
    with scheduling(database, sweep) as schedule:
        schedule.start()
        try:
            until(
                lambda: count(database, "SELECT count(*) FROM slots WHERE job = 'nightly' AND state <> 'claimed'") == 1
            )
        finally:
            schedule.stop(5)

    slot = Slot(SOURCE, Job.NIGHTLY, _night())
    with database.transaction() as connection:
        standing = slots.standing(connection, SOURCE)[slot]
    assert (str(standing.state), len(sweep.begun)) == (expected, 1)
    assert (standing.held_until > datetime.now(UTC) + timedelta(minutes=5)) is (expected == "failed")


def test_pruning_once_a_day(database: Database) -> None:
    """However many schedules there are, what has been kept long enough is dropped by one of them, once a day."""
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO webhook_events (source, event_id, event_type, payload, headers, received_at, outcome)"
            " VALUES ('stripe-eu', 'evt_old', '', '{}', '{}', now() - interval '46 days', 'done'),"
            "        ('stripe-eu', 'evt_new', '', '{}', '{}', now() - interval '44 days', 'done')"
        )
    pruned = "SELECT count(*) FROM slots WHERE job = 'prune' AND state = 'used'"
    sweep = Counting(database)
    with ExitStack() as stack, capture_logs() as lines:
        for holder in ("here", "there"):
            schedule = stack.enter_context(scheduling(database, sweep, holder=holder))
            schedule.start()
            stack.callback(schedule.stop, 5)
        until(lambda: count(database, pruned) == 1)
        time.sleep(1)

    assert [line["webhook_events"] for line in lines if line["event"] == "retention.pruned"] == [1]
    assert count(database, "SELECT count(*) FROM webhook_events WHERE event_id = 'evt_new'") == 1
    assert count(database, "SELECT count(*) FROM webhook_events") == 1


def _night() -> str:
    """Return the date of the latest night of the source."""
    settings: Any = ScheduleSettings(light_every=None)
    mine = plan(SOURCE, settings)
    now = datetime.now(UTC)
    begun = datetime.combine(now.date(), mine.nightly, UTC) + mine.spread <= now
    return (now.date() if begun else now.date() - timedelta(days=1)).isoformat()
