"""The demo as a stranger runs it, and what tells whether it went well."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from reconciler.demo.comparing import Compared, compare
from reconciler.demo.parts import parts
from reconciler.demo.show import conclude

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVIDERS = {"stripe-demo": "stripe", "shopify-demo": "shopify", "github-demo": "github"}
_SHORT = (
    "import sys; from reconciler.demo import Size, main;"
    "sys.exit(main(seed=11, size=Size("
    "objects=0.3, rounds=45, pace=0.08, killed=2, absent=5, edited=40, edits=3, silent=6)))"
)
_HANGS = 480
_CUSTOMER = {"id": "cus_1", "metadata": {"version": "3"}}
_PAYMENT = {"id": "pi_1", "client_secret": "pi_1_secret_x", "metadata": {"version": "1"}}
_MIRRORED_PAYMENT = {"id": "pi_1", "metadata": {"version": "1"}}
_ORDER = {
    "id": "gid://shopify/Order/1",
    "tags": ["v3"],
    "capturable": False,
    "customer": "gid://shopify/Customer/7",
    "lineItems": [{"id": "gid://shopify/LineItem/2", "product": "gid://shopify/Product/9", "quantity": 1}],
}
_MIRRORED_ORDER = {
    "id": "gid://shopify/Order/1",
    "tags": ["v3"],
    "clientIp": None,
    "customer": {"id": "gid://shopify/Customer/7"},
    "lineItems": {"nodes": [{"id": "gid://shopify/LineItem/2", "product": None, "quantity": 1}]},
}
_BUYER = {"id": "gid://shopify/Customer/7", "tags": ["v1"]}
_ISSUE = {"id": 5, "number": 1, "title": "Issue", "body": "Text v3", "closed_by": None, "milestone": None}
_MIRRORED_ISSUE = {"id": 5, "number": 1, "title": "Issue", "body": "Text v3", "milestone": None}
_PULL = {
    "id": 6,
    "number": 2,
    "body": "Text v1",
    "mergeable": True,
    "base": {"ref": "main", "repo": {"open_issues": 2}},
}
_MIRRORED_PULL = {**_PULL, "mergeable": None, "base": {"ref": "main", "repo": {"open_issues": 1}}}
_THERE: dict[tuple[str, str, str, str], dict[str, Any]] = {
    ("stripe-demo", "", "customer", "cus_1"): _CUSTOMER,
    ("stripe-demo", "", "payment_intent", "pi_1"): _PAYMENT,
    ("shopify-demo", "", "order", "1"): _ORDER,
    ("shopify-demo", "", "customer", "7"): _BUYER,
    ("github-demo", "30", "issue", "1"): _ISSUE,
    ("github-demo", "30", "pull_request", "2"): _PULL,
}
_HERE: dict[tuple[str, str, str, str], dict[str, Any]] = {
    ("stripe-demo", "", "customer", "cus_1"): _CUSTOMER,
    ("stripe-demo", "", "payment_intent", "pi_1"): _MIRRORED_PAYMENT,
    ("shopify-demo", "", "order", "1"): _MIRRORED_ORDER,
    ("shopify-demo", "", "customer", "7"): _BUYER,
    ("github-demo", "30", "issue", "1"): _MIRRORED_ISSUE,
    ("github-demo", "30", "pull_request", "2"): _MIRRORED_PULL,
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder for temporary files, which whoever runs the database may pass, with a space in its name."""
    root = Path(tempfile.mkdtemp(prefix="demo test "))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


def processes_of(folder: Path) -> list[str]:
    """Return the command of each process that was told of a file in *folder*, or works there."""
    found = []
    for running in Path("/proc").iterdir():
        if running.name.isdigit() and int(running.name) != os.getpid():
            with suppress(OSError):
                told = (running / "environ").read_bytes() + (running / "cmdline").read_bytes()
                if os.fsencode(folder) in told:
                    found.append((running / "cmdline").read_text())
    return found


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start Python on *arguments*, with its temporary files in *folder*, as a terminal would."""
    environment = {**os.environ, "TMPDIR": str(folder), "RECONCILER_WEB__LISTEN": "nonsense"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_a_short_demo(folder: Path) -> None:
    """Three providers, a killed daemon and edited rows end without one divergent object, and nothing is left over."""
    demo = started(folder, "-c", _SHORT)

    said = all_of(demo)

    *_, last = said.splitlines()
    closing = re.fullmatch(r"(\d+) objects at the providers, (\d+) in the mirror, 0 divergent", last)
    assert closing is not None, said
    assert closing[1] == closing[2]
    assert int(closing[1]) > 50
    assert demo.returncode == 0
    assert all(f"{source} " in said or f"{source}\n" in said for source in PROVIDERS)
    assert all(f" {kind} " in said for part in parts() for kind in part.first)
    assert "killed with SIGKILL" in said
    assert (list(folder.iterdir()), processes_of(folder)) == ([], [])


def all_of(demo: subprocess.Popen[str]) -> str:
    """Return all that a demo says until its end; one that hangs is told to end."""
    try:
        said, _ = demo.communicate(timeout=_HANGS)
    except subprocess.TimeoutExpired:
        os.killpg(demo.pid, signal.SIGINT)
        said, _ = demo.communicate(timeout=60)
        pytest.fail(f"it took more than {_HANGS} seconds: {said}")
    return said


def test_an_interrupted_demo(folder: Path) -> None:
    """Ctrl-C ends everything that was started, removes what was written, and says so by the exit code."""
    demo = started(folder, "-m", "reconciler", "demo")
    assert demo.stdout is not None
    for line in demo.stdout:
        if "daemon are running" in line:
            break

    os.killpg(demo.pid, signal.SIGINT)
    demo.communicate(timeout=60)

    assert demo.returncode == 130
    assert (list(folder.iterdir()), left_after_a_while(folder)) == ([], [])


def left_after_a_while(folder: Path) -> list[str]:
    """Return what still runs of *folder*, once nothing does, or after ten seconds."""
    until = time.monotonic() + 10
    while (left := processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def test_both_sides_equal() -> None:
    """What the stand-ins keep in another form, and what other objects show, is no difference."""
    compared = compare(_THERE, _HERE, PROVIDERS)

    assert compared == Compared(6, 6, ())
    assert compared.equal


@pytest.mark.parametrize(
    ("ref", "change"),
    [
        (("stripe-demo", "", "customer", "cus_1"), {"metadata": {"version": "2"}}),
        (("stripe-demo", "", "customer", "cus_1"), {"edited": "by hand"}),
        (("stripe-demo", "", "payment_intent", "pi_1"), {"client_secret": "pi_1_secret_x"}),
        (("shopify-demo", "", "order", "1"), {"tags": ["v2"]}),
        (("shopify-demo", "", "order", "1"), {"id": "edited by hand"}),
        (("shopify-demo", "", "order", "1"), {"customer": {"id": "gid://shopify/Customer/8"}}),
        (("shopify-demo", "", "order", "1"), {"customer": None}),
        (("shopify-demo", "", "order", "1"), {"lineItems": {"nodes": []}}),
        (("shopify-demo", "", "order", "1"), {"tags": None}),
        (("github-demo", "30", "issue", "1"), {"body": "Text v2"}),
        (("github-demo", "30", "issue", "1"), {"edited": "by hand"}),
        (("github-demo", "30", "pull_request", "2"), {"base": {"ref": "old", "repo": {}}}),
    ],
    ids=json.dumps,
)
def test_a_row_that_differs(ref: tuple[str, str, str, str], change: dict[str, Any]) -> None:
    """A row that is behind, edited or cut short is seen, whoever's it is."""
    here = {**_HERE, ref: {**_HERE[ref], **change}}

    compared = compare(_THERE, here, PROVIDERS)

    assert compared.divergent == (ref,)
    assert not compared.equal


@pytest.mark.parametrize("ref", _THERE, ids=lambda ref: f"{ref[0]} {ref[2]}")
def test_a_row_too_few_or_too_many(ref: tuple[str, str, str, str]) -> None:
    """An object that only one side has diverges."""
    without = {each: body for each, body in _HERE.items() if each != ref}
    fewer = {each: body for each, body in _THERE.items() if each != ref}

    missing, extra = compare(_THERE, without, PROVIDERS), compare(fewer, _HERE, PROVIDERS)

    assert ref in missing.divergent
    assert ref in extra.divergent
    assert not missing.equal
    assert not extra.equal


def test_a_mark_that_is_missing() -> None:
    """A body that lost the field in which its version stands is not taken for equal."""
    issue = ("github-demo", "30", "issue", "1")
    here = {**_HERE, issue: {name: value for name, value in _MIRRORED_ISSUE.items() if name != "body"}}

    assert compare(_THERE, here, PROVIDERS).divergent == (issue,)


@pytest.mark.parametrize(
    ("compared", "code", "line"),
    [
        (Compared(3, 3, ()), 0, "3 objects at the providers, 3 in the mirror, 0 divergent"),
        (
            Compared(3, 3, (("stripe-demo", "", "customer", "cus_1"),)),
            1,
            "3 objects at the providers, 3 in the mirror, 1 divergent",
        ),
        (Compared(3, 2, ()), 1, "3 objects at the providers, 2 in the mirror, 0 divergent"),
    ],
)
def test_the_last_line(compared: Compared, code: int, line: str) -> None:
    """The last line says how both sides stand, and the exit code is 0 only where they are equal."""
    said = io.StringIO()

    assert conclude(Console(file=said, soft_wrap=True), compared) == code
    assert said.getvalue() == f"{line}\n"
