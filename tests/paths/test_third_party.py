"""A stranger's adapter: its distribution is installed beside ours, found by its entry point, and runs like ours."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from reconciler.adapter import Reader
from reconciler.config.settings import OPTIONS
from tests.paths.commanding import ROOT, Finished, serve, stage_on, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.store.database import Database
    from tests.paths.commanding import Stage

_ADAPTER = Path(__file__).parent / "parcels" / "parcels.py"
_KEY, _SECRET = "key-standin", "secret-standin"
_CONFIG = """
[database]
url = "env:DATABASE_URL"
[web]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
tokens = ["env:ADMIN_TOKEN"]
[drain]
workers = 2
poll = "50ms"
absence_recheck = "300ms"
read_lag = "100ms"
[schedule]
in_flight = "0s"
light_every = "off"
[[sources]]
name = "carrier"
provider = "parcels"
api_key = "env:PARCELS_KEY"
webhook_secrets = ["env:PARCELS_SECRET"]
api_base = "{api}"
"""
_IMPORTED = """
import os, sys
from pathlib import Path
from reconciler.bootstrap import program
from reconciler.config import load
with program(load(Path(os.environ["RECONCILER_CONFIG"]), os.environ)) as made:
    print(sorted({"stripe", "shopify", "github", "parcels"} & sys.modules.keys()), *made.adapters)
"""


class Carrier(BaseHTTPRequestHandler):
    """The carrier's API over the parcels that it has."""

    parcels: dict[str, dict[str, Any]]

    def do_GET(self) -> None:
        """Answer one call."""
        asked = urlsplit(self.path)
        since = parse_qs(asked.query).get("since", [""])[0]
        if self.headers["Authorization"] != _KEY:
            self._answer(401, {})
        elif asked.path == "/me":
            self._answer(200, {"account": 7})
        elif asked.path == "/parcels":
            self._answer(200, {"parcels": [each for each in self.parcels.values() if each["moved_at"] >= since]})
        else:
            found = self.parcels.get(asked.path.rpartition("/")[2])
            self._answer(404 if found is None else 200, found or {})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        told = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)


@contextmanager
def carrier() -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Yield the address of a carrier, and its parcels."""
    parcels: dict[str, dict[str, Any]] = {}
    answering = type("Answering", (Carrier,), {"parcels": parcels})
    with ThreadingHTTPServer(("127.0.0.1", 0), answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", parcels
        server.shutdown()


def install(folder: Path, *, distribution: str = "parcels-for-reconciler", value: str = "parcels:PROVIDER") -> None:
    """Put a distribution into *folder*, as an installer would leave it: a module, and metadata beside it."""
    folder.mkdir(exist_ok=True)
    shutil.copy(_ADAPTER, folder)
    about = folder / f"{distribution.replace('-', '_')}-0.3.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.3\n")
    (about / "entry_points.txt").write_text(f"[reconciler.adapters]\nparcels = {value}\n")


@pytest.fixture
def stage(database: Database, tmp_path: Path) -> Iterator[Stage]:
    """Yield where commands find what is installed into the folder `site`, and are configured for one source of it."""
    with stage_on(tmp_path, database) as made:
        made.environment.update(PYTHONPATH=str(tmp_path / "site"), PARCELS_KEY=_KEY, PARCELS_SECRET=_SECRET)
        made.config.write_text(_CONFIG.format(api=made.api))
        yield made


def run(stage: Stage, *arguments: str) -> Finished:
    """Run a command to its end."""
    process = stage.start(*arguments)
    out, err = process.communicate(timeout=120)
    return Finished(process.returncode, out, err)


def parcel(id_: str, place: str) -> dict[str, Any]:
    """Return a parcel that has just come to *place*."""
    return {"id": id_, "place": place, "moved_at": datetime.now(UTC).isoformat(timespec="seconds")}


def places(database: Database) -> dict[str, str]:
    """Return where the view says that parcels are."""
    with database.transaction() as connection:
        rows = connection.exec_driver_sql("SELECT id, place FROM reconciler.parcels_parcel").all()
    return {row.id: row.place for row in rows}


def test_a_strangers_adapter_runs_like_ours(stage: Stage, database: Database, tmp_path: Path) -> None:
    """From its entry point alone: configured, listed, migrated, served, received, drained and swept."""
    install(tmp_path / "site")
    with carrier() as (api, parcels):
        stage.config.write_text(_CONFIG.format(api=api))
        parcels["p1"] = parcel("p1", "Rome")

        assert run(stage, "migrate").code == 0
        assert "parcel" in {each["kind"] for each in run(stage, "kinds", "--format", "json").json}
        loaded = run(stage, "--since", "last")
        assert (loaded.code, places(database)) == (0, {"p1": "Rome"}), loaded.err

        with serve(stage, tmp_path) as daemon:
            parcels["p1"] = parcel("p1", "Oslo")
            told = json.dumps({"id": "evt_1", "parcel": "p1"}).encode()
            signature = hmac.new(_SECRET.encode(), told, hashlib.sha256).hexdigest()
            inbox = f"{daemon.addresses['web']}/webhooks/carrier"
            assert httpx.post(inbox, content=told, headers={"X-Signature": "0"}).status_code == 400
            assert httpx.post(inbox, content=told, headers={"X-Signature": signature}).status_code == 200
            until(lambda: places(database) == {"p1": "Oslo"}, otherwise=daemon.told)
            assert daemon.end(signal.SIGTERM) == 0  # in order: a killed one's leases hold the sweep up

        parcels.update(p2=parcel("p2", "Bari"))
        swept = run(stage, "--since", "24h", "--format", "json")
        assert (swept.code, places(database)) == (0, {"p1": "Oslo", "p2": "Bari"}), swept.err
        del parcels["p1"]
        assert run(stage, "--since", "24h", "--full").code == 0
        assert places(database) == {"p2": "Bari"}


def test_only_what_is_configured_is_imported(stage: Stage, tmp_path: Path) -> None:
    """A program without a Stripe source does without Stripe's SDK."""
    install(tmp_path / "site")

    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], cwd=ROOT, env=stage.environment, capture_output=True, text=True, check=False
    )

    assert done.stdout == "['parcels'] carrier\n", done.stderr


def test_its_keys_are_checked_like_ours(stage: Stage, tmp_path: Path) -> None:
    """What its access declares is required, read, and judged together; what it does not declare is no key."""
    install(tmp_path / "site")
    text = stage.config.read_text()

    stage.config.write_text(text.replace('api_key = "env:PARCELS_KEY"', 'depots = ["a", "b"]\nregion = "eu"'))
    done = run(stage, "config", "check")

    assert done.code == 2
    assert "sources[carrier].region: is no key here" in done.err
    assert "sources[carrier].api_key: is missing; it must be set" in done.err
    stage.config.write_text(f'{text}depots = ["a", "b"]\n')
    assert "sources[carrier]: depots: one is enough" in run(stage, "config", "check").err


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("parcles:PROVIDER", "ModuleNotFoundError: No module named 'parcles'"),
        ("parcels:PROVIDERS", "AttributeError: module 'parcels' has no attribute 'PROVIDERS'"),
        ("parcels:Parcels", "is a type, where a reconciler.adapter.Provider belongs"),
    ],
)
def test_a_broken_entry_point_is_a_sentence(stage: Stage, tmp_path: Path, value: str, why: str) -> None:
    """What cannot be used is named with its distribution, and ends the command before anything is done."""
    install(tmp_path / "site", value=value)

    done = run(stage, "serve")

    assert done.code == 2
    sentence = f"the adapter 'parcels' of parcels-for-reconciler 0.3 cannot be used: {value}: {why}"
    assert sentence in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_a_provider_that_is_not_installed(stage: Stage) -> None:
    """A provider that nothing speaks to is told with those that there are."""
    done = run(stage, "config", "check")

    assert done.code == 2
    assert "'parcels' names no provider; there are github, shopify, stripe" in " ".join(done.err.split())


def test_two_adapters_of_one_name(stage: Stage, tmp_path: Path) -> None:
    """Nobody can take a provider's name from another: both distributions are named, and neither is used."""
    install(tmp_path / "site")
    install(tmp_path / "site", distribution="rival-parcels")

    done = run(stage, "config", "check")

    assert done.code == 2
    both = "parcels-for-reconciler 0.3 and rival-parcels 0.3 have an adapter for 'parcels' each"
    assert both in " ".join(done.err.split())


def test_every_option_can_be_read() -> None:
    """Each way in which an adapter may declare a key has a reader."""
    assert set(OPTIONS) == set(get_args(Reader))
