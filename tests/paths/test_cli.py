"""What the command line answers: results on stdout, sentences on stderr, and the exit codes of the contract."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, TypeAlias

import httpx
import pytest

from reconciler.cli import main
from reconciler.cli.output import plain
from reconciler.model import ObjectRef, Reason
from reconciler.store import refetches
from reconciler.store.refetches import Want
from tests.paths.commanding import ROOT, SOURCE, Finished, stage_on, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reconciler.store.database import Database
    from tests.paths.commanding import Stage

Command: TypeAlias = "Callable[..., Finished]"


@pytest.fixture
def stage(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Yield a stage over the test's database, and its environment as ours."""
    with stage_on(tmp_path, database) as made:
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


def test_bare(command: Command) -> None:
    """Bare `reconcile` prints help and is a usage error."""
    done = command()

    assert done.code == 2
    assert "Usage: reconcile" in done.out
    assert all(name in done.out for name in ("serve", "refetch", "explain", "status", "replay", "sandbox"))


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sinc", "24h"], "No such option"),
        (["bogus"], "No such command"),
        (["--full"], "--since is missing"),
        (["--since", "24h", "--allow-deletes"], "--allow-deletes: name whose objects may go"),
        (["--since", "2026-11-30T03:10:00"], "names no zone"),
        (["--since", "2999-01-01T00:00:00Z"], "lies in the future"),
        (["--since", "yesterday"], "'yesterday'"),
        (["--since", "1h", "--until", "2h"], "is not after"),
        (["--since", "1h", "--source", "stripe-us"], "source 'stripe-us' is not configured"),
        (["--since", "1h", "--kind", "custmer"], "kind 'custmer' is not mirrored"),
        (["--since", "1h", "status"], "stand before `status`"),
        (["refetch", SOURCE, "custmer", "cus_1"], "kind 'custmer' is none of customer, product"),
        (["refetch", "stripe-us", "customer", "cus_1"], "source 'stripe-us' is none of stripe-eu"),
        (["explain", SOURCE, "custmer", "cus_1"], "kind 'custmer' is none of"),
        (["events", "--state", "lost"], "state 'lost' is none of open, done"),
        (["events", "--source", "stripe-us"], "source 'stripe-us' is none of"),
        (["events", "--limit", "0"], "--limit"),
        (["events", "--limit", "9" * 20], "--limit"),
        (["replay", "--state", "dead", "--limit", "9" * 20], "--limit"),
        (["replay", "--state", "dead", "--rate", "nan"], "--rate"),
        (["upgrade-api", SOURCE, "2026-10-28.endive", "--dry-run", "--sample", "9" * 20], "--sample"),
        (["drift", "--since", "soon"], "'soon'"),
        (["replay"], "name what to replay"),
        (["refetch", SOURCE, "customer", ".."], "'..' names no object"),
        (["refetch", SOURCE, "customer", "cus_1", ""], "'' names no object"),
        (["refetch", SOURCE, "customer", "cus_1", "--scope", ".."], "'..' names no object"),
        (["status", "--config", "/nowhere/reconciler.toml"], "/nowhere/reconciler.toml"),
        (["sandbox", "etsy", "--port", "0"], "provider 'etsy' is none of stripe"),
        (["serve", "--role", "boss"], "boss"),
    ],
)
def test_usage_errors(command: Command, arguments: list[str], sentence: str) -> None:
    """What cannot be meant is exit code 2, in a sentence, with nothing on stdout and nothing done."""
    done = command(*arguments)

    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert command("runs", "--format", "json").json == []


def test_every_fault_of_a_configuration(stage: Stage, command: Command) -> None:
    """All faults are told at once, a line each."""
    stage.config.write_text('[web]\nlisten = "nowhere"\nlistne = "x"\n')

    done = command("status")

    assert done.code == 2
    assert len(done.err.splitlines()) == 2


def test_faults_that_adapters_know(stage: Stage, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config check` tells what any adapter refuses, all at once and without a database, as a run does."""
    second = """
[[sources]]
name = "shop-berlin"
provider = "shopify"
shop = "shop.example.com"
access_token = "env:STRIPE_API_KEY"
"""
    stage.config.write_text(stage.config.read_text().replace('"product"', '"prodct"') + second)

    swept = command("--since", "24h")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    checked = command("config", "check")

    assert (checked.code, checked.out, swept.code) == (2, "", 2)
    assert re.findall(r"^reconcile: (sources\S+): ", checked.err, re.MULTILINE) == [
        "sources[stripe-eu].kinds",
        "sources[shop-berlin].shop",
    ]
    assert checked.err == swept.err


@pytest.mark.parametrize("provider", ["stripe", "shopify", "github"])
def test_what_a_stand_in_can_be_told(stage: Stage, provider: str) -> None:
    """`reconcile sandbox` says where it is, and beside that how to steer it; each command it prints does so."""
    process = stage.start("sandbox", provider, "--port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        url = process.stdout.readline().strip()
        told = [process.stderr.readline() for _ in range(4)]
        asked = [shlex.split(line)[2:] for line in told if line.startswith("curl -X")]
        answers = [httpx.request(method, address, content=body) for method, address, _, body in asked]
    finally:
        process.kill()
        process.communicate()

    assert f'api_base = "{url}"' in told[0]
    assert [answer.status_code for answer in answers] == [200, 200, 200]


def test_kinds(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kinds` needs no configuration and no database, and tells all the contract names."""
    monkeypatch.setenv("RECONCILER_CONFIG", "/nowhere/reconciler.toml")

    told, table = command("kinds", "--format", "json"), command("kinds")

    assert (told.code, table.code) == (0, 0)
    expected = [
        "provider",
        "kind",
        "core",
        "topics",
        "stamp",
        "list",
        "feed",
        "fetch",
        "deletion",
        "permission",
        "cost",
        "columns",
        "worth",
    ]
    assert all(list(kind) == expected for kind in told.json)
    assert "subscription" in table.out


def test_reconcile(stage: Stage, command: Command) -> None:
    """A run loads what is there, repairs what drifted and is complete; its JSON is the contract's."""
    stage.change("create", "customer", "cus_1")
    stage.change("create", "product", "prod_1")

    first = command("--since", "last", "--format", "json")
    stage.change("change", "customer", "cus_1")
    second = command("--since", "24h", "--format", "json")
    third = command("--since", "24h")

    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert first.json["drift"] == []
    report = second.json
    assert list(report) == ["id", "trigger", "state", "since", "until", "dry_run", "because", "kinds", "drift"]
    assert (report["trigger"], report["state"], report["dry_run"]) == ("cli", "complete", False)
    keys = {
        "source",
        "provider",
        "scope",
        "kind",
        "state",
        "since",
        "until",
        "listed",
        "applied",
        "unchanged",
        "declined",
        "tied",
    }
    keys |= {"tombstones", "in_flight", "calls", "error"}
    assert all(keys <= set(kind) for kind in report["kinds"])
    assert [(drift["id"], drift["what"], drift["cause"]) for drift in report["drift"]] == [
        ("cus_1", "differs", "missed_notification")
    ]
    assert "no drift" in third.out
    assert "reading:" in third.err


def test_dry_run(stage: Stage, command: Command) -> None:
    """A dry run that finds drift is exit code 3, repairs nothing, and leaves the drift for a real run."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")
    before = command("explain", SOURCE, "customer", "cus_1", "--format", "json").json["row"]
    stage.change("change", "customer", "cus_1")

    dry = command("--since", "24h", "--dry-run", "--format", "json")

    after = command("explain", SOURCE, "customer", "cus_1", "--format", "json").json["row"]
    repaired = command("--since", "24h", "--format", "json")
    clean = command("--since", "24h", "--dry-run")
    assert dry.code == 3
    assert [drift["repaired_at"] for drift in dry.json["drift"]] == [None]
    assert before == after
    assert (repaired.code, len(repaired.json["drift"])) == (0, 1)
    assert clean.code == 0


def test_incomplete_run(stage: Stage, command: Command) -> None:
    """Law 8: a run that did not see a page is exit code 1, and says of which kind."""
    stage.control("PUT", "faults", {"lost_access": True})

    done = command("--since", "24h", "--format", "json")

    assert done.code == 1
    assert done.json["state"] == "incomplete"
    assert all(kind["state"] == "incomplete" and kind["error"] for kind in done.json["kinds"])


@pytest.mark.usefixtures("stage")
def test_a_run_with_a_wrong_key(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps every kind from being seen is told once, with all of them, and names the key to mend."""
    monkeypatch.setenv("STRIPE_API_KEY", "nonsense")

    done = command("--since", "24h", "--format", "json")

    assert done.code == 1
    assert done.json["because"].startswith("stripe-eu/customer, stripe-eu/product: GET /v1/account: 401 ")
    assert done.json["because"].count("name a key that is valid in sources[stripe-eu].api_key") == 1


def test_a_run_over_fresh_changes(stage: Stage, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed a moment ago is put right, is no drift, and the last line says that it was there."""
    monkeypatch.setenv("RECONCILER_SCHEDULE__IN_FLIGHT", "5m")
    command("--since", "last")
    stage.change("create", "customer", "cus_1")

    first, second = command("--since", "24h"), command("--since", "24h")

    assert "; no drift; 1 put right that changed too lately to be called drift\n" in first.out
    assert second.out.endswith("; no drift\n")


@pytest.mark.usefixtures("stage")
def test_held_run(database: Database, command: Command) -> None:
    """A run beside another of the same kind is exit code 1 and names that one, and since when."""
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO sweeps VALUES ('stripe-eu', 'customer', 41, '2026-11-30T03:10:00Z', now() + interval '1 min')"
        )

    done = command("--since", "24h")

    assert (done.code, done.out) == (1, "")
    assert "run 41" in done.err
    assert "2026-11-30T03:10:00" in done.err


def test_interrupted_run(stage: Stage, database: Database) -> None:
    """Ctrl-C ends a run in order: exit code 130, the run on record, its kinds free."""
    stage.control("PUT", "faults", {"timeout": 1.0})
    process = stage.start("--since", "24h")

    until(lambda: _count(database, "SELECT count(*) FROM runs WHERE state = 'running'") == 1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert _count(database, "SELECT count(*) FROM runs WHERE state = 'failed' AND because = 'interrupted'") == 1
    assert _count(database, "SELECT count(*) FROM sweeps") == 0


def test_refetch(stage: Stage, command: Command) -> None:
    """Named objects are fetched now, and each gets its verdict: also one that is gone, and one that never was."""
    stage.change("create", "customer", "cus_1")
    stage.change("create", "customer", "cus_2")
    stage.change("delete", "customer", "cus_2")

    done = command("refetch", SOURCE, "customer", "cus_1", "cus_2", "cus_none", "--format", "json")
    again = command("refetch", SOURCE, "customer", "cus_1")

    assert (done.code, again.code) == (0, 0)
    assert [list(told) for told in done.json] == [
        ["ref", "verdict", "source_updated_at", "observed_at", "deleted", "error"]
    ] * 3
    assert [(told["ref"], told["verdict"], told["deleted"], told["error"]) for told in done.json] == [
        ("stripe-eu/customer/cus_1", "applied", False, None),
        ("stripe-eu/customer/cus_2", "applied", True, None),
        ("stripe-eu/customer/cus_none", "applied", True, None),
    ]
    assert "unchanged" in again.out


def test_refetch_without_a_verdict(stage: Stage, command: Command) -> None:
    """An object that could not be read is exit code 1, with the reason; others are read all the same."""
    stage.change("create", "customer", "cus_1")
    stage.control("PUT", "faults", {"lost_access": True})

    done = command("refetch", SOURCE, "customer", "cus_1", "--format", "json")

    assert done.code == 1
    assert [told["verdict"] for told in done.json] == [None]
    assert done.json[0]["error"]


def test_explain(stage: Stage, command: Command) -> None:
    """The story of an object is told in sentences, and as JSON with the row, numbers as the provider wrote them."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")
    stage.change("change", "customer", "cus_1")
    command("--since", "24h")

    told = command("explain", SOURCE, "customer", "cus_1", "--format", "json")
    text = command("explain", SOURCE, "customer", "cus_1")
    nothing = command("explain", SOURCE, "customer", "cus_none")

    assert (told.code, text.code, nothing.code) == (0, 0, 0)
    assert list(told.json) == ["ref", "row", "story"]
    assert [each["what"] for each in told.json["story"]] == ["applied", "applied", "drift"]
    assert told.json["row"]["body"]["metadata"] == {"version": "2"}
    assert "found that it differed here (missed notification): " in text.out
    assert "nothing is known of it" in nothing.err


@pytest.mark.usefixtures("stage")
def test_explain_in_several_scopes(database: Database, command: Command) -> None:
    """An id that lives in several scopes needs one named."""
    refs = [ObjectRef(SOURCE, scope, "customer", "cus_1") for scope in ("acct_1", "acct_2")]
    database.commit(lambda connection: refetches.want(connection, [Want(ref, Reason.TRIGGER) for ref in refs]))

    unclear = command("explain", SOURCE, "customer", "cus_1")
    named = command("explain", SOURCE, "customer", "cus_1", "--scope", "acct_2", "--format", "json")

    assert unclear.code == 2
    assert "--scope with one of 'acct_1', 'acct_2'" in unclear.err
    assert named.json["ref"] == "stripe-eu/acct_2/customer/cus_1"


@pytest.mark.usefixtures("stage")
def test_status(command: Command) -> None:
    """`status` is exit code 1 while an alarm stands and 0 after; its JSON is the contract's."""
    never = command("status", "--format", "json")
    command("--since", "last")
    swept, text = command("status", "--format", "json"), command("status")

    assert (never.code, swept.code, text.code) == (1, 0, 0)
    assert never.json["alarms"] == [{"what": "never_swept", "source": SOURCE, "since": None}]
    assert list(swept.json) == ["ready", "alarms", "sources", "growth"]
    assert [each["table"] for each in swept.json["growth"]][:2] == ["objects", "webhook_events"]
    assert swept.json["growth"][1]["kept_seconds"] == 45 * 86400
    [source] = swept.json["sources"]
    expected = [
        "source",
        "provider",
        "state",
        "freshness_seconds",
        "queue",
        "oldest_seconds",
        "dead",
        "held",
        "budgets",
        "last_run",
        "next_run",
    ]
    assert list(source) == expected
    assert (source["last_run"]["trigger"], source["last_run"]["state"]) == ("cli", "complete")
    assert "no alarms" in text.out
    assert re.search(r"webhook_events .* 45d ", text.out)


@pytest.mark.usefixtures("stage")
def test_replay(database: Database, command: Command) -> None:
    """Dead letters are wanted again, also those that no event names; unknown events want nothing."""
    _bury(database, ObjectRef(SOURCE, "", "customer", "cus_1"))

    dead = command("status", "--format", "json").json["sources"][0]["dead"]
    replayed = command("replay", "--state", "dead", "--format", "json")
    unknown = command("replay", "evt_none")

    assert dead == 1
    assert (replayed.code, replayed.json["wanted"]) == (0, 1)
    assert list(replayed.json) == ["wanted", "until"]
    assert command("status", "--format", "json").json["sources"][0]["dead"] == 0
    assert (unknown.code, unknown.out) == (1, "0 wanted\n")


def test_forget(stage: Stage, database: Database, command: Command, tmp_path: Path) -> None:
    """What would go is listed first; then it goes, with a receipt that holds, and a run does not bring it back."""
    for id_ in ("cus_forgotten", "cus_other"):
        stage.change("create", "customer", id_)
    command("--since", "last")

    dry = command("forget", SOURCE, "customer", "cus_forgotten", "--related", "--dry-run", "--format", "json")
    unharmed = command("explain", SOURCE, "customer", "cus_forgotten", "--format", "json").json["row"]
    forgotten = command("forget", SOURCE, "customer", "cus_forgotten", "--format", "json")
    again = command("forget", SOURCE, "customer", "cus_forgotten")
    receipt = tmp_path / "receipt.json"
    receipt.write_text(forgotten.out)
    holds = command("forget", "--check", str(receipt))
    receipt.write_text(forgotten.out.replace("customer", "product"))
    changed = command("forget", "--check", str(receipt), "--format", "json")
    run = command("--since", "1h", "--full")

    assert dry.json == [f"{SOURCE}/customer/cus_forgotten"]
    assert unharmed is not None
    assert (forgotten.code, forgotten.json["kinds"], forgotten.json["erased"]["objects"]) == (0, {"customer": 1}, 1)
    assert "rows erased: none were left" in again.out
    assert forgotten.json["markers"][0] in again.out
    assert (holds.code, holds.out) == (0, "the receipt holds\n")
    assert (changed.code, changed.json) == (1, {"holds": False})
    assert run.code == 0
    with database.transaction() as connection:
        assert connection.exec_driver_sql("SELECT id FROM objects").all() == [("cus_other",)]
    refused = command("refetch", SOURCE, "customer", "cus_forgotten")
    assert (refused.code, "was forgotten" in refused.err) == (1, True)


@pytest.mark.usefixtures("stage")
def test_forget_what_is_not_there(command: Command, tmp_path: Path) -> None:
    """What nobody knows is kept from coming in; what cannot be meant is said."""
    unknown = command("forget", SOURCE, "customer", "cus_unknown")
    nothing = command("forget")
    kind = command("forget", SOURCE, "no_kind", "1")
    receipt = command("forget", "--check", str(tmp_path / "none.json"))

    assert (unknown.code, unknown.err) == (0, "nothing was known of it; it is kept from coming in from now on\n")
    assert [each.code for each in (nothing, kind, receipt)] == [2, 2, 2]
    assert "SOURCE KIND ID" in nothing.err
    assert "is none of" in kind.err
    assert "is no receipt that can be read" in receipt.err


def test_lists(stage: Stage, command: Command) -> None:
    """Lists are arrays as JSON, tables otherwise, and empty ones are no error."""
    stage.change("create", "customer", "cus_1")
    command("--since", "last")

    runs = command("runs", "--source", SOURCE, "--kind", "customer", "--format", "json")
    tables = [command(name) for name in ("events", "declined", "drift", "runs")]
    before = command("--format", "json", "runs", "--state", "complete")

    assert [run["trigger"] for run in runs.json] == ["cli"]
    assert before.json == runs.json
    assert [table.code for table in tables] == [0, 0, 0, 0]
    assert all(line == line.rstrip() for table in tables for line in table.out.splitlines())


def test_migrate(empty_database: Database, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older schema is exit code 2 and names `reconcile migrate`, which brings it up to date, once."""
    with stage_on(tmp_path, empty_database) as stage:
        for name, value in stage.environment.items():
            monkeypatch.setenv(name, value)

        before = [command("status"), command("--since", "24h"), command("serve")]
        first, second = command("migrate", "--format", "json"), command("migrate")
        after = command("status")

    assert [done.code for done in before] == [2, 2, 2]
    assert all("run `reconcile migrate`" in done.err for done in before)
    assert (first.code, second.code, second.out) == (0, 0, "the schema is up to date\n")
    assert first.json["ran"]
    assert after.code == 1


@pytest.mark.usefixtures("stage")
def test_database_away(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its database a command is exit code 1 and one sentence."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")

    done = command("status")

    assert (done.code, done.out) == (1, "")
    assert "127.0.0.1" in done.err
    assert "Traceback" not in done.err


@pytest.mark.usefixtures("stage")
def test_fault_of_the_program(database: Database, command: Command, tmp_path: Path) -> None:
    """A bug is one line that says where the traceback is, and the traceback is there."""
    with database.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE runs DROP COLUMN because")

    done = command("runs")

    kept = tmp_path / "home" / "reconciler" / "faults.log"
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert str(kept) in done.err
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_progress_on_a_terminal(stage: Stage) -> None:
    """On a terminal a bar shows how far the run is, on stderr; stdout holds the result only."""
    stage.change("create", "customer", "cus_1")
    ours, theirs = os.openpty()

    process = stage.start("--since", "last", "--format", "json", stderr=theirs)
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)

    assert process.returncode == 0, shown
    assert re.search(r"(listing|reading|done): 1 seen", shown)
    assert Finished(0, out, "").json["state"] == "complete"


def test_broken_pipe() -> None:
    """Whoever stops reading hears no complaint."""
    shell = f"{shlex.quote(sys.executable)} -m reconciler kinds --format json | true"

    done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)

    assert (done.stdout, done.stderr) == ("", "")


def test_control_characters() -> None:
    """A provider's text cannot do anything to a terminal."""
    assert plain("a\x1b[31mb\nc\u202e") == "a\\x1b[31mb\\nc\\u202e"
    assert [plain(cell) for cell in (None, True, False, 0)] == ["", "yes", "no", "0"]


def _count(database: Database, query: str) -> int:
    with database.transaction() as connection:
        return int(connection.exec_driver_sql(query).scalar_one())


def _bury(database: Database, ref: ObjectRef) -> None:
    database.commit(lambda connection: refetches.bury_unread(connection, ref, because="404"))
