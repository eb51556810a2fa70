"""The systemd units, judged by systemd's own tools."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
ANALYZE = shutil.which("systemd-analyze")

pytestmark = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return a folder with our units, the program replaced by one that every machine has."""
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(
            re.sub(r"^ExecStart=\S+", "ExecStart=/usr/bin/true", unit.read_text(), flags=re.MULTILINE)
        )
    return tmp_path


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze in *folder*."""
    return subprocess.run(
        [str(ANALYZE), *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def verify(folder: Path) -> subprocess.CompletedProcess[str]:
    """Have every unit in *folder* verified; a key that systemd does not know fails, too."""
    found = sorted(f"./{unit.name}" for unit in folder.iterdir())
    return analyze(folder, "verify", "--man=no", "--recursive-errors=no", *found)


def test_units_are_valid(units: Path) -> None:
    """Nothing in our units makes systemd speak up."""
    judged = verify(units)

    assert (judged.returncode, judged.stderr) == (0, "")


def test_unknown_key_is_found(units: Path) -> None:
    """The check itself works: a key that does not exist fails it."""
    with (units / "reconciler.service").open("a") as unit:
        unit.write("\n[Service]\nProtectEverything=yes\n")

    judged = verify(units)

    assert judged.returncode != 0
    assert "ProtectEverything" in judged.stderr


def test_service_is_confined(units: Path) -> None:
    """The service is shut in: an exposure below 2.0 of 10 by systemd's own count."""
    judged = analyze(units, "security", "--offline=true", "--threshold=20", "--no-pager", "reconciler.service")

    assert judged.returncode == 0, judged.stdout.splitlines()[-1]


def test_commented_settings_are_valid(units: Path) -> None:
    """What the unit offers in comments is valid once it is switched on."""
    service = units / "reconciler.service"
    service.write_text(re.sub(r"^#(?=[^ \n])", "", service.read_text(), flags=re.MULTILINE))

    judged = verify(units)

    assert (judged.returncode, judged.stderr) == (0, "")
