"""What is installed is whole: the wheel alone, unpacked elsewhere, migrates a database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconciler import __version__, resources
from reconciler.store.migrate import check

if TYPE_CHECKING:
    from reconciler.store.database import Database

_HERE = Path(__file__).parents[2]
_PARTS = ("reconciler", "adapters", "migrations", "config", "systemd")
_NEEDED = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
_MIGRATE = """
import sys
import reconciler
from reconciler import resources
from reconciler.store.database import connect
from reconciler.store.migrate import migrate
database = connect(sys.argv[1], schema="reconciler", connections=1)
migrate(database)
database.close()
print(reconciler.__file__, resources.folder("migrations"), resources.folder("config"), sep="\\n")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built without a network from a copy that git's leftovers cannot reach."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    for part in _PARTS:
        shutil.copytree(_HERE / part, checkout / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _NEEDED:
        shutil.copy(_HERE / name, checkout / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(checkout)],
        check=True,
        capture_output=True,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel's contents."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def elsewhere(unpacked: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the unpacked wheel before everything else, in a folder that holds nothing of ours."""
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(unpacked), "PYTHONSAFEPATH": "1"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_wheel_holds_code_and_folders(wheel: Path) -> None:
    """Every tracked file of the two packages and the three folders is in it, and nothing else is."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.split("/", 1)[1] for name in archive.namelist() if ".dist-info/" in name}
    files = {
        path.relative_to(_HERE).as_posix()
        for part in _PARTS
        for path in (_HERE / part).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    code = {name for name in files if name.startswith(("reconciler/", "adapters/"))}

    assert held == code | {f"reconciler/_shipped/{name}" for name in files - code}
    assert {"reconciler/py.typed", "adapters/py.typed", "reconciler/_shipped/migrations/env.py"} <= held
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= about


def test_wheel_alone_migrates(unpacked: Path, tmp_path: Path, empty_database: Database) -> None:
    """The installed program needs no checkout, whatever folder it is run from."""
    done = elsewhere(unpacked, tmp_path, "-c", _MIGRATE, empty_database.url)

    assert done.returncode == 0, done.stderr
    code, migrations, config = (Path(line) for line in done.stdout.splitlines())
    assert code.is_relative_to(unpacked)
    assert migrations == unpacked / "reconciler" / "_shipped" / "migrations"
    assert config == unpacked / "reconciler" / "_shipped" / "config"
    check(empty_database)


def test_wheel_alone_has_the_command(unpacked: Path, tmp_path: Path) -> None:
    """The installed command tells how it is used."""
    if not (_HERE / "reconciler" / "__main__.py").exists():
        pytest.skip("there is no command yet")

    done = elsewhere(unpacked, tmp_path, "-m", "reconciler", "--help")

    assert done.returncode == 0, done.stderr
    assert "migrate" in done.stdout


def test_version_is_said_once(wheel: Path) -> None:
    """The wheel's version is the program's."""
    assert wheel.name.split("-")[1] == __version__


@pytest.mark.parametrize("name", ["config", "migrations", "systemd"])
def test_folder_is_the_one_of_the_checkout(name: resources.Shipped) -> None:
    """From a checkout its own folders are used, so that an edit shows at once."""
    assert resources.folder(name) == _HERE / name
