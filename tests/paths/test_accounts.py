"""The life of accounts by commands: paused, renamed, removed, compared, adopted; and a daemon that is reloaded."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Self, TypeAlias

import httpx
import pytest
from sqlalchemy import event

from reconciler import bootstrap
from reconciler.cli import main
from reconciler.config import load
from tests.paths.commanding import SOURCE, Finished, serve, stage_on, until
from tests.paths.sweeping import swept
from tests.paths.test_daemon import count, delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reconciler.config import Settings
    from reconciler.store.database import Database
    from tests.paths.commanding import Serving, Stage
    from tests.paths.draining import Bench

Command: TypeAlias = "Callable[..., Finished]"


@pytest.fixture
def stage(emptied: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Yield a stage, and its environment as ours."""
    with stage_on(tmp_path, emptied) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs a command line here, and returns what it left."""

    def run(*arguments: str) -> Finished:
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return Finished(code, said.out, said.err)

    return run


def configure(stage: Stage, before: str, after: str) -> None:
    """Write another configuration."""
    stage.config.write_text(stage.config.read_text().replace(before, after))


def test_pause_and_resume(stage: Stage, command: Command) -> None:
    """Of a paused source nothing is listed or fetched, and that is all that is wrong; after it all is as before."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")
    asked = len(httpx.get(f"{stage.api}/_control/calls").json())

    paused = command("source", "pause", SOURCE, "--until", "2h", "--reason", "moving", "--format", "json")
    run = command("--since", "24h", "--format", "json")
    looked = command("refetch", SOURCE, "customer", "cus_1", "--format", "json")
    status = command("status", "--format", "json")
    calls = len(httpx.get(f"{stage.api}/_control/calls").json()) - asked
    resumed = command("source", "resume", SOURCE)
    after = command("--since", "24h"), command("status")

    assert (paused.code, paused.json["state"], run.code, looked.code, status.code) == (0, "paused", 1, 1, 1)
    assert calls == 0
    assert all("moving; `reconcile source resume" in kind["error"] for kind in run.json["kinds"])
    assert "moving" in looked.json[0]["error"]
    assert [(alarm["what"], alarm["because"]) for alarm in status.json["alarms"]] == [("paused", "moving")]
    assert status.json["sources"][0]["state"] == "paused"
    assert (resumed.code, [each.code for each in after]) == (0, [0, 0])


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["source", "pause", "stripe-us"], "source 'stripe-us' is none of stripe-eu"),
        (["source", "pause", SOURCE, "--until", "2020-01-01T00:00:00Z"], "has passed"),
        (["source", "pause", SOURCE, "--until", "soon"], "'soon'"),
        (["source", "rename", SOURCE, "Stripe EU"], "is no name"),
        (["source", "rename", SOURCE, SOURCE], "is its name already"),
        (["source", "remove", "stripe-us"], "is none of"),
    ],
)
def test_what_cannot_be_meant(command: Command, arguments: list[str], sentence: str) -> None:
    """What cannot be meant is exit code 2 and a sentence; nothing is done."""
    done = command(*arguments)

    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_rename(stage: Stage, command: Command) -> None:
    """The rows go with the name: what was known is known, and the old name leads to the new one."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")

    renamed = command("source", "rename", SOURCE, "stripe-us")
    early = command("--since", "24h")
    configure(stage, SOURCE, "stripe-us")
    run = command("--since", "24h", "--format", "json")
    taken = command("source", "rename", "stripe-us", SOURCE)

    assert renamed.code == 0
    assert "1 objects" in renamed.err
    assert "/webhooks/stripe-us" in renamed.out
    assert "renamed to stripe-us" in early.err
    assert (run.code, run.json["drift"], [kind["applied"] for kind in run.json["kinds"]]) == (0, [], [0, 0])
    assert taken.code == 0


def test_remove(stage: Stage, command: Command, emptied: Database) -> None:
    """A removed source is not served and shown as not live; erased, nothing of it is left; it can come back."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")

    kept = command("source", "remove", SOURCE)
    status = command("status", "--format", "json")
    run = command("--since", "24h")
    rows = count(emptied, "SELECT count(*) FROM objects")
    erased = command("source", "remove", SOURCE, "--delete-data")
    left = count(emptied, "SELECT count(*) FROM rows_of_source('stripe-eu') WHERE name <> 'pauses'")
    back = command("source", "resume", SOURCE), command("--since", "last", "--format", "json")

    assert (kept.code, run.code, rows) == (0, 0, 1)
    assert status.json["not_live"] == [{"source": SOURCE, "objects": 1}]
    assert status.json["sources"][0]["state"] == "removed"
    assert "take it out of the configuration" in run.err
    assert (erased.code, left) == (0, 0)
    assert (back[1].code, back[1].json["kinds"][0]["applied"]) == (0, 1)


def test_a_copy(stage: Stage, command: Command, emptied: Database) -> None:
    """A mirror that was started elsewhere may be read and nothing else, until it is adopted."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")
    with emptied.transaction() as connection:
        connection.exec_driver_sql("UPDATE environment SET public_url = 'https://hooks.example.com'")
    changed = [("--since", "24h"), ("refetch", SOURCE, "customer", "cus_1"), ("replay", "--state", "dead")]
    changed += [("source", "pause", SOURCE)]
    asked = len(httpx.get(f"{stage.api}/_control/calls").json())

    refused = [command(*each) for each in changed]
    status, story = command("status", "--format", "json"), command("explain", SOURCE, "customer", "cus_1")
    calls = len(httpx.get(f"{stage.api}/_control/calls").json()) - asked
    adopted = command("adopt")
    after = [command(*each) for each in (changed[0], ("status",))]

    assert [done.code for done in refused] == [2] * len(changed)
    assert all("stays read-only until `reconcile adopt`" in done.err for done in refused)
    assert (status.code, status.json["ready"], status.json["alarms"][0]["what"]) == (1, False, "not_adopted")
    assert (story.code, calls) == (0, 0)
    assert "hooks.example.com" in adopted.err
    assert [done.code for done in (adopted, *after)] == [0, 0, 0]


def test_a_daemon_over_a_copy(stage: Stage, emptied: Database, tmp_path: Path, command: Command) -> None:
    """It listens, says why it takes nothing, and begins by itself once the copy is adopted."""
    command("--since", "last")
    with emptied.transaction() as connection:
        connection.exec_driver_sql("UPDATE environment SET database = '1'")
    body, headers = delivery("evt_1", "cus_1")
    with serve(stage, tmp_path, ready=False) as daemon:
        waiting = daemon.wait_for("serve.read_only")
        web = f"http://{waiting['web']}"
        before = httpx.post(f"{web}/webhooks/{SOURCE}", content=body, headers=headers)
        ready, alive = httpx.get(f"{web}/readyz"), httpx.get(f"{web}/healthz")
        stored = count(emptied, "SELECT count(*) FROM webhook_events")
        command("adopt")
        daemon.wait_for("serve.ready")
        after = httpx.post(f"{web}/webhooks/{SOURCE}", content=body, headers=headers)

        assert daemon.end(signal.SIGTERM) == 0
    assert (before.status_code, ready.status_code, alive.status_code, stored) == (503, 503, 200, 0)
    assert "reconcile adopt" in ready.json()["because"]
    assert after.status_code == 200


class Sender:
    """Sends deliveries without a pause, and keeps what was answered."""

    def __init__(self, address: str) -> None:
        self.answers: list[int] = []
        self._address, self._over = address, threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _send(self) -> None:
        with httpx.Client() as http:
            while not self._over.wait(0.02):
                body, headers = delivery(f"evt_{len(self.answers)}", "cus_1")
                self.answers.append(http.post(self._address, content=body, headers=headers).status_code)


def test_reload(stage: Stage, emptied: Database, tmp_path: Path, command: Command) -> None:
    """SIGHUP applies sources, kinds and schedule and loses no delivery; a faulty file changes nothing and is told."""
    stage.change("create", "customer", "cus_1")
    right = stage.config.read_text()
    second = right[right.index("[[sources]]") :].replace(SOURCE, "stripe-us").replace('"customer", ', "")
    with serve(stage, tmp_path) as daemon:
        url = daemon.addresses["web"] + "/webhooks/"
        until(lambda: bool(daemon.lines("run.finished")))
        same = command("config", "diff")
        with Sender(url + SOURCE) as sender:
            stage.config.write_text(right + 'nonsense = "x"\n')
            _reload(daemon, "config.faulty")
            stage.config.write_text(right.replace('light_every = "off"', 'light_every = "2h"') + second)
            checked, differs = command("config", "check"), command("config", "diff", "--format", "json")
            _reload(daemon, "config.applied")
            sent = len(sender.answers)
            until(lambda: len(sender.answers) > sent + 20)
        body, headers = delivery("evt_us", "cus_1")
        new = httpx.post(url + "stripe-us", content=body, headers=headers)
        command("source", "remove", "stripe-us", "--delete-data")
        until(lambda: httpx.post(url + "stripe-us", content=body, headers=headers).status_code == 404)
        stored = count(emptied, "SELECT count(*) FROM webhook_events WHERE source = 'stripe-eu'")

        assert daemon.end(signal.SIGTERM) == 0, daemon.told()
    assert "nothing differs" in same.out
    assert "nonsense" in str(daemon.lines("config.faulty")[0]["faults"])
    assert checked.code == 0
    assert [(each["what"], each["where"]) for each in differs.json] == [
        ("changed", "schedule.light_every"),
        ("added", "sources.stripe-us"),
    ]
    assert daemon.lines("config.applied")[0]["changes"] == [
        "schedule.light_every: nothing -> 2h",
        "sources.stripe-us: added",
    ]
    assert set(sender.answers) == {200}
    assert stored == len(sender.answers)
    assert new.status_code == 200


def _reload(daemon: Serving, event: str) -> None:
    before = len(daemon.lines(event))
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: len(daemon.lines(event)) > before, otherwise=daemon.told)


def forty(stage: Stage) -> Settings:
    """Return the configuration of a stage with thirty-nine more sources."""
    one = stage.config.read_text()
    folder = stage.config.parent / "conf.d"
    folder.mkdir()
    entry = one[one.index("[[sources]]") :]
    for number in range(39):
        (folder / f"{number}.toml").write_text(entry.replace(SOURCE, f"stripe-{number}"))
    return load(stage.config, stage.environment)


def test_forty_sources(stage: Stage) -> None:
    """Forty sources from conf.d are up within seconds."""
    settings = forty(stage)

    began = time.monotonic()
    with bootstrap.program(settings) as program:
        took = time.monotonic() - began
        served = len(program.adapters)

    assert served == 40
    assert took < 10


def test_forty_idle_sources(stage: Stage) -> None:
    """While nothing is due one look of one worker is enough: two statements a poll, however many sources there are."""
    configure(stage, 'poll = "50ms"', 'poll = "200ms"')
    asked: list[str] = []
    with bootstrap.program(forty(stage)) as program:
        program.drain.start(program.stop)
        time.sleep(1)
        event.listen(program.database.engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
        time.sleep(2)
        seen = [statement for statement in asked if "refetches" in statement]
        program.stop.set()
        assert program.drain.join(10)

    assert 2 <= len(seen) <= 2 * (2 / 0.2 + 3)


def test_a_kind_that_may_not_be_read(bench: Bench) -> None:
    """A permission that a kind lacks is one alarm, and incomplete for that kind only; it ends with the first list."""
    bench.act("create", id_="cus_1")
    restricted = {"sk_test_standinofakey": frozenset({"invoice"})}
    bench.sandbox._access.restricted = restricted

    lacking = swept(bench, "customer", "invoice")
    alarms, paused = bench.alarms(), bench.pauses()
    bench.sandbox._access.restricted = {}
    swept(bench, "customer", "invoice")

    assert {kind: each["state"] for kind, each in lacking.kinds.items()} == {
        "customer": "complete",
        "invoice": "incomplete",
    }
    assert (alarms, paused) == (["permission_missing"], [])
    assert bench.versions() == {"cus_1": 1}
    assert bench.alarms() == []


def test_a_source_that_is_lost(bench: Bench) -> None:
    """A source whose credential is good for nothing is asked once, and is one alarm until it answers."""
    bench.act("create", id_="cus_1")
    swept(bench, "customer", "invoice")
    bench.faults(lost_access="401")
    before = bench.calls()

    lost = swept(bench, "customer", "invoice")
    asked = bench.calls() - before
    alarms = bench.alarms()
    bench.edit("UPDATE pauses SET until = clock_timestamp()")
    still = bench.alarms()
    bench.faults()
    swept(bench, "customer")

    assert {each["state"] for each in lost.kinds.values()} == {"incomplete"}
    assert (alarms, still) == (["access_lost"], ["access_lost"])
    assert asked == 2
    assert (bench.pauses(), bench.alarms()) == ([], [])
    assert bench.versions() == {"cus_1": 1}
