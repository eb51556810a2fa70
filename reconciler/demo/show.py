"""The demo itself: what happens, in which order, and what is said about it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
from rich.console import Console
from rich.table import Table

from reconciler.demo.processes import Child, answer, running
from reconciler.demo.provider import Provider
from reconciler.embedded import Embedded
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = "stripe-demo"
_ROUNDS, _KILLED_IN, _EDITED_IN = 150, 45, 130
_CHANGES_A_ROUND = 20
_ROUND = 0.12
_SETTLES_WITHIN = 60.0
_FAULTS = {
    "drop": 0.1,
    "duplicate": 0.1,
    "reorder": 0.2,
    "delay": [0, 1.5],
    "status": {"429": 0.01, "500": 0.01},
    "stale_reads": 0.02,
    "stale_for": 0.5,
}
_CONFIGURATION = """\
state_directory = {state}
[web]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[drain]
lease = "31s"
read_lag = "1s"
absence_recheck = "500ms"
poll = "200ms"
[schedule]
light_every = "off"
in_flight = "500ms"
[[sources]]
name = "{source}"
provider = "stripe"
api_key = "env:DEMO_KEY"
webhook_secrets = ["env:DEMO_SECRET"]
calls_per_second = 600
api_base = "{url}"
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """Both sides, object by object: how many the provider has, how many we have, and which differ."""

    theirs: int
    ours: int
    divergent: tuple[str, ...]


def main(*, seed: int) -> int:
    """Show the main job, and return 0 only if not one object diverges in the end."""
    console = Console(stderr=False, highlight=False, soft_wrap=True)
    folder = Path(tempfile.mkdtemp(prefix="reconciler-demo-"))
    folder.chmod(0o755)  # as root the embedded server runs as another user, who must get in
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            compared = _Demo(console, folder, seed, stack).show()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(f"seed {seed}, {time.monotonic() - began:.0f} s")
    console.print(
        f"{compared.theirs} objects at the providers, {compared.ours} in the mirror, "
        f"{len(compared.divergent)} divergent"
    )
    return 0 if not compared.divergent and compared.theirs == compared.ours else 1


class _Demo:
    def __init__(self, console: Console, folder: Path, seed: int, stack: ExitStack) -> None:
        self._console = console
        self._folder = folder
        self._seed = seed
        self._stack = stack
        self._chance = Random(seed)  # noqa: S311 - a seeded course of events, not a secret
        self._config = folder / "reconciler.toml"
        self._environment = {
            **os.environ,
            "DEMO_KEY": "sk_test_standin",
            "DEMO_SECRET": "whsec_standin",
            "RECONCILER_CONFIG": str(self._config),
        }
        self._edited: list[str] = []

    def show(self) -> Compared:
        embedded = self._stack.enter_context(Embedded(self._folder / "state" / "postgres"))
        self._url = embedded.url("reconciler")
        provider = self._provider()
        daemon, address = self._daemon()
        self._say(f"a PostgreSQL, a stand-in for Stripe and a daemon are running (pid {daemon.pid})")
        daemon = self._happen(provider, daemon, address)
        self._settle(provider)
        provider.change_in_silence(40)
        self._say("40 objects changed or went without any event")
        self._report("before any sweep", self._compare(provider))
        swept = self._reconcile("--since", "1h")
        self._report("after reconcile --since 1h", self._compare(provider))
        full = self._reconcile("--since", "1h", "--full")
        compared = self._compare(provider)
        self._report("after reconcile --since 1h --full", compared)
        self._table(provider, [swept, full])
        self._story()
        daemon.stop()
        for ref in compared.divergent[:10]:
            self._say(f"divergent: {ref}")
        return compared

    # --- what happens ---

    def _provider(self) -> Provider:
        arguments = ["sandbox", "stripe", "--port", "0"]
        child = self._stack.enter_context(
            running(arguments, environment=self._environment, log=self._folder / "stand-in.log")
        )
        address = child.line("http://")
        provider = Provider(address[address.index("http://") :].split()[0], self._chance)
        provider.ask("POST", "/seed", {"seed": self._seed})
        self._config.write_text(
            _CONFIGURATION.format(state=json.dumps(str(self._folder / "state")), source=SOURCE, url=provider.url)
        )
        return provider

    def _daemon(self, *, web: str = "127.0.0.1:0") -> tuple[Child, str]:
        environment = {**self._environment, "RECONCILER_WEB__LISTEN": web}
        daemon = Child(["serve"], environment=environment, log=self._folder / "daemon.log")
        self._stack.callback(daemon.stop)
        ready = json.loads(daemon.line("serve.ready"))
        return daemon, ready["web"]

    def _happen(self, provider: Provider, daemon: Child, address: str) -> Child:
        hook = {"url": f"http://{address}/webhooks/{SOURCE}", "secret": self._environment["DEMO_SECRET"]}
        provider.ask("PUT", "/webhooks", hook)
        provider.ask("PUT", "/faults", _FAULTS)
        provider.create()
        for number in range(_ROUNDS):
            began = time.monotonic()
            provider.change(_CHANGES_A_ROUND)
            if number == _KILLED_IN:
                daemon.kill()
                self._say(f"the daemon was killed with SIGKILL (pid {daemon.pid})")
            if number == _KILLED_IN + 8:
                daemon, _ = self._daemon(web=address)
                self._say(f"and started again (pid {daemon.pid})")
            if number == _EDITED_IN:
                self._edit_by_hand()
            time.sleep(max(0.0, _ROUND - (time.monotonic() - began)))
        happened = ", ".join(f"{count} {what}" for what, count in sorted(provider.changes.items()))
        self._say(f"at the provider: {happened}")
        return daemon

    def _edit_by_hand(self) -> None:
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT kind, id FROM reconciler.objects WHERE deleted_at IS NULL ORDER BY kind, id"
            ).fetchall()
            for number, (kind, identity) in enumerate(self._chance.sample(rows, 12)):
                statement = (
                    'UPDATE reconciler.objects SET body = body || \'{"edited": "by hand"}\' WHERE (kind, id) = (%s, %s)'
                    if number % 3
                    else "DELETE FROM reconciler.objects WHERE (kind, id) = (%s, %s)"
                )
                connection.execute(statement, (kind, identity))
                self._edited.append(f"{kind}/{identity}")
        self._say(f"{len(self._edited)} rows were edited or deleted by hand")

    def _settle(self, provider: Provider) -> None:
        """Wait until every delivery has arrived, and until the daemon has read what they named."""
        pending = provider.ask("POST", "/flush?timeout=60")["pending"]
        provider.ask("PUT", "/faults", {})
        until = time.monotonic() + _SETTLES_WITHIN
        with psycopg.connect(self._url, autocommit=True) as connection:
            while time.monotonic() < until:
                found = connection.execute(
                    "SELECT count(*) FROM reconciler.refetches WHERE wanted > done AND dead_at IS NULL"
                    " AND (leased_until IS NULL OR leased_until < clock_timestamp())"
                ).fetchone()
                if found is not None and found[0] == 0:
                    break
                time.sleep(0.1)
        self._say(f"the provider is quiet, {pending} deliveries are on their way")

    # --- what is said ---

    def _say(self, sentence: str) -> None:
        self._console.print(f"· {sentence}")

    def _report(self, when: str, compared: Compared) -> None:
        self._say(f"{when}: {len(compared.divergent)} of {compared.theirs} objects diverge")

    def _reconcile(self, *arguments: str) -> Mapping[str, Any]:
        code, report = answer(list(arguments), environment=self._environment)
        if not isinstance(report, dict):
            raise ReconcilerError(f"reconcile {' '.join(arguments)} said {report!r}")
        told = report["kinds"]
        listed, applied = sum(each["listed"] for each in told), sum(each["applied"] for each in told)
        self._say(
            f"reconcile {' '.join(arguments)}: run {report['id']} {report['state']} (exit code {code}), "
            f"{listed} listed, {applied} applied, {len(report['drift'])} rows had drifted"
        )
        if report["because"]:
            self._say(f"because {report['because']}")
        return report

    def _compare(self, provider: Provider) -> Compared:
        """Compare every body at the provider with our row; shares no code with what it checks."""
        theirs = provider.truth()
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT kind, id, body::text, deleted_at IS NOT NULL FROM reconciler.objects"
            ).fetchall()
        ours = {(kind, identity): None if gone else json.loads(body) for kind, identity, body, gone in rows}
        mirrored = {kind for kind, _ in ours}
        there = {key: body for key, body in theirs.items() if body is not None and key[0] in mirrored}
        here = {key: body for key, body in ours.items() if body is not None}
        divergent = sorted("/".join(key) for key in there.keys() | here.keys() if there.get(key) != here.get(key))
        return Compared(len(there), len(here), tuple(divergent))

    def _table(self, provider: Provider, reports: list[Mapping[str, Any]]) -> None:
        counted = self._counted()
        sent = provider.ask("GET", "/deliveries?last=0")
        calls = provider.ask("GET", "/calls?last=0")
        table = Table(title="what happened", show_header=False, title_justify="left")
        table.add_row("objects at the provider", str(counted["objects"]))
        table.add_row(
            "deliveries",
            f"{sent['sent']} sent, {sent['dropped']} lost, {sent['duplicates']} doubled, "
            f"{sent['reordered']} reordered, {sent['failed']} attempts unanswered",
        )
        table.add_row("notifications stored", f"{counted['events']}, of these {counted['unanswered']} not read yet")
        table.add_row("duplicates seen", str(counted["duplicates"]))
        table.add_row("applied", _spelled(counted["history"]))
        table.add_row("declined and tied writes", _spelled(counted["declined"]))
        table.add_row("drift by cause", _spelled(counted["drift"]))
        table.add_row(
            "provider calls",
            f"{calls['total']} ({_spelled(calls['statuses'])}), of these "
            f"{sum(each['calls'] for report in reports for each in report['kinds'])} by the two runs",
        )
        self._console.print(table)

    def _counted(self) -> dict[str, Any]:
        with psycopg.connect(self._url, options="-csearch_path=reconciler") as connection:

            def number(statement: str) -> int:
                found = connection.execute(statement.encode()).fetchone()
                return 0 if found is None or found[0] is None else int(found[0])

            def counts(statement: str) -> dict[str, int]:
                return dict(connection.execute(statement.encode()).fetchall())

            return {
                "objects": number("SELECT count(*) FROM objects WHERE deleted_at IS NULL"),
                "events": number("SELECT count(*) FROM webhook_events"),
                "unanswered": number("SELECT count(*) FROM webhook_events WHERE outcome IS NULL"),
                "duplicates": number("SELECT sum(duplicates) FROM webhook_events"),
                "history": counts("SELECT what, count(*) FROM object_history GROUP BY what ORDER BY 2 DESC"),
                "declined": counts("SELECT verdict, count(*) FROM declined_writes GROUP BY verdict ORDER BY 2 DESC"),
                "drift": counts("SELECT cause, count(*) FROM drift GROUP BY cause ORDER BY 2 DESC"),
            }

    def _story(self) -> None:
        """Tell the story of one object: one that was edited by hand, if there is one with much to tell."""
        with psycopg.connect(self._url, options="-csearch_path=reconciler") as connection:
            found = connection.execute(
                "SELECT kind, id FROM drift WHERE cause IN ('hand_edit', 'missed_notification')"
                " ORDER BY cause, seq LIMIT 1"
            ).fetchone()
        if found is None:
            return
        kind, identity = found
        _, told = answer(["explain", SOURCE, kind, identity], environment=self._environment)
        if not isinstance(told, dict):
            return
        self._console.print(f"\nthe story of {told['ref']} (reconcile explain {SOURCE} {kind} {identity}):")
        story = told["story"]
        for each in story if len(story) <= 16 else [*story[:6], None, *story[-8:]]:
            self._console.print("   …" if each is None else f"   {each['at'][11:23]}  {each['text']}")
        self._console.print()


def _spelled(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items()) or "none"


if __name__ == "__main__":
    sys.exit(main(seed=1))
