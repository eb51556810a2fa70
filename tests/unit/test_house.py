"""Rules of the house that no tool checks: what is tracked, what is locked, where a module stands."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

_HERE = Path(__file__).parents[2]
_PROJECT = tomllib.loads((_HERE / "pyproject.toml").read_text("utf-8"))
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
# Each with a class of one letter in it, or this file would be its own first finding.
_NEVER = {
    "a registry's host": r"pypi[.]org|pythonhosted[.]org|npmjs[.]org|deb[.]debian[.]org|/opt/pyp[i]",
    "a path of one machine": r"(?<![\w.])/(?:h[o]me/(?!some)[a-z]|r[o]ot/|w[o]rk/|U[s]ers/[A-Za-z]|tmp/b[r]ief)",
    "a live credential": (
        r"[sr]k_[l]ive_\w+|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}|\bshp(?:at|ss|ca|pa)_[0-9a-f]{32}"
        r"|-{5}BEGIN [A-Z ]*PRIVATE KEY-{5}|\bAKIA[0-9A-Z]{16}\b"
    ),
}


def tracked() -> list[Path]:
    """Return every file that git tracks; skip the test where this is no checkout."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=_HERE, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("not a git checkout")
    return [path for name in found.stdout.split("\0") if name and (path := _HERE / name).is_file()]


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def findings(never: str, text: str) -> list[str]:
    """Return each match of *never* in *text*."""
    return [match[0] for match in re.finditer(never, text)]


@pytest.mark.parametrize("what", _NEVER)
def test_no_tracked_file_holds(what: str) -> None:
    """Nothing that is tracked names a registry, a path of one machine, or a credential that could be live."""
    found = {}
    for path in tracked():
        if seen := findings(_NEVER[what], path.read_text("utf-8", errors="replace")):
            found[str(path.relative_to(_HERE))] = seen

    assert found == {}, what


@pytest.mark.parametrize(
    ("what", "pieces"),
    [
        ("a registry's host", ("https://pypi", ".org/simple")),
        ("a registry's host", ("https://files.pythonhosted", ".org/x")),
        ("a path of one machine", ("see /ho", "me/ann/notes")),
        ("a path of one machine", ("/wo", "rk/main")),
        ("a live credential", ("sk_li", "ve_0123456789")),
        ("a live credential", ("-----BEGIN RSA ", "PRIVATE KEY-----")),
    ],
)
def test_findings_find(what: str, pieces: tuple[str, str]) -> None:
    """What must never be tracked would be seen."""
    assert findings(_NEVER[what], "".join(pieces))


@pytest.mark.parametrize("text", ["sk_test_standin", "/var/lib/reconciler", "https://docs.example.com/home/ann"])
def test_findings_let_pass(text: str) -> None:
    """Test secrets and paths that every machine has are no finding."""
    assert [findings(never, text) for never in _NEVER.values()] == [[], [], []]


def test_every_dependency_is_locked() -> None:
    """Each package that pyproject.toml names has a version and hashes in the lock."""
    project = _PROJECT["project"]
    named = [
        *_PROJECT["build-system"]["requires"],
        *project["dependencies"],
        *(each for group in project["optional-dependencies"].values() for each in group),
    ]
    lock = (_HERE / "requirements.lock").read_text("utf-8")
    locked = {normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==\S+.*\\\n +--hash=sha256:", lock, re.MULTILINE)}

    missing = {normal(match[0]) for each in named if (match := _NAME.match(each))} - locked

    assert missing == set(), "run `make lock`"


def test_every_line_of_a_lock_is_pinned_by_hash() -> None:
    """No line of a lock lets a package in that was not seen before."""
    for path in (_HERE / "requirements.lock", _HERE / ".ci" / "postgres.lock"):
        for statement in path.read_text("utf-8").replace("\\\n", " ").splitlines():
            assert re.match(r"[A-Za-z0-9._-]+==\S+.* --hash=sha256:[0-9a-f]{64}", statement), (
                path.name,
                statement[:80],
            )


def test_every_module_has_its_place() -> None:
    """Each module of the core stands in a layer, so that its arrows are checked."""
    [arrows] = [each for each in _PROJECT["tool"]["importlinter"]["contracts"] if each["id"] == "arrows"]
    placed = {name for layer in arrows["layers"] for name in re.findall(r"\w+", layer)}
    core = _HERE / "reconciler"
    modules = {path.stem for path in core.glob("*.py")} | {path.parent.name for path in core.glob("*/__init__.py")}

    assert modules - {"__init__"} <= placed


def test_every_package_says_that_it_is_typed() -> None:
    """Whoever imports us gets our types."""
    assert (_HERE / "reconciler" / "py.typed").exists()
    assert (_HERE / "adapters" / "py.typed").exists()


def test_every_exception_from_a_rule_has_a_reason() -> None:
    """A `noqa` in shipped code names its rule and says why; types are never silenced."""
    silent = re.compile(r"#\s*noqa(?!: [A-Z0-9, ]+ - \S)|#\s*type:\s*ignore")
    found = {
        str(path.relative_to(_HERE)): seen
        for package in ("reconciler", "adapters", "migrations")
        for path in (_HERE / package).rglob("*.py")
        if (seen := findings(silent.pattern, path.read_text("utf-8")))
    }

    assert found == {}
