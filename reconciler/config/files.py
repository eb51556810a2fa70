"""Where settings are written: the file, `conf.d` beside it, and the environment over both; one tree comes of it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from reconciler.config.settings import Settings, keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Tree: TypeAlias = dict[str, Any]
"""Parsed TOML, in which an environment variable stands as an `Override`."""

VARIABLE = "RECONCILER_CONFIG"
PREFIX = "RECONCILER_"
LISTS = ("sources", "endpoints")


@dataclass(frozen=True, slots=True)
class Override:
    """A value that an environment variable sets, and which."""

    text: str
    variable: str


@dataclass(slots=True)
class Written:
    """
    What all files and the environment say together.

    Attributes:
        lists: The `[[sources]]` and `[[endpoints]]`, each entry with the file it stands in.
        set_in: The file that set a key first.
    """

    tree: Tree = field(default_factory=dict)
    lists: dict[str, list[tuple[Path, Tree]]] = field(default_factory=lambda: {name: [] for name in LISTS})
    faults: list[str] = field(default_factory=list)
    set_in: dict[str, Path] = field(default_factory=dict)

    def add(self, file: Path) -> None:
        """Take in what *file* says; what it says otherwise than an earlier one is a fault."""
        try:
            told = tomllib.loads(file.read_bytes().decode())
        except OSError as error:
            self.faults.append(f"{file}: cannot be read ({error.strerror}); check that it exists and who may read it")
        except UnicodeDecodeError:
            self.faults.append(f"{file}: is not UTF-8 text; save it as UTF-8")
        except tomllib.TOMLDecodeError as error:
            self.faults.append(f"{file}: is not TOML: {error}; mend that line")
        else:
            for name in LISTS:
                self._append(name, told.pop(name, []), file)
            self._merge(self.tree, told, file, where="")

    def override(self, environment: Mapping[str, str]) -> None:
        """Let the variables that name a key stand over what the files say."""
        for variable in sorted(environment):
            path = variable.removeprefix(PREFIX)
            override = Override(environment[variable], variable)
            if path == variable or ("__" not in path and path.lower() not in keys(Settings)):
                continue
            if path.partition("__")[0].lower() in LISTS:
                self._set_in_list(path, override)
            else:
                self._set(self.tree, path.lower().split("__"), override)

    def _append(self, name: str, entries: object, file: Path) -> None:
        if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
            self.lists[name] += [(file, entry) for entry in entries]
        else:
            self.faults.append(f"{name}: is not a list of tables in {file}; begin each entry with [[{name}]]")

    def _merge(self, tree: Tree, told: Tree, file: Path, *, where: str) -> None:
        for name, value in told.items():
            here = f"{where}{name}"
            known = tree.setdefault(name, {} if isinstance(value, dict) else value)
            first = self.set_in.setdefault(here, file)
            if isinstance(known, dict) and isinstance(value, dict):
                self._merge(known, value, file, where=f"{here}.")
            elif known != value:
                self.faults.append(f"{here}: {first} and {file} say different things; set it in one of them")

    def _set(self, tree: Tree, steps: list[str], override: Override) -> None:
        for step in steps[:-1]:
            tree = tree.setdefault(step, {})
            if not isinstance(tree, dict):
                self.faults.append(f"{override.variable}: {step} is no table; see the example for what can be set")
                return
        tree[steps[-1]] = override

    def _set_in_list(self, path: str, override: Override) -> None:
        name, _, rest = path.partition("__")
        entries = {as_variable(entry.get("name")): entry for _, entry in self.lists[name.lower()]}
        named = max(
            (spelled for spelled in entries if spelled and rest.startswith(f"{spelled}__")), key=len, default=None
        )
        if named is None:
            self.faults.append(
                f"{override.variable}: no entry of {name.lower()} has that name; it is{_one_of(entries)}"
            )
            return
        steps = rest.removeprefix(f"{named}__").lower().split("__")
        if steps[0] in {"name", "provider"}:
            self.faults.append(f"{override.variable}: {steps[0]} says which entry is meant; change it in the file")
        else:
            self._set(entries[named], steps, override)


def as_variable(name: object) -> str:
    """Return *name* as it stands in the name of a variable; empty for what is no name."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper()) if isinstance(name, str) else ""


def find(path: Path | None, environment: Mapping[str, str], *, default: Path) -> tuple[Path, ...]:
    """
    Return the files to read, in order.

    A file that somebody named is returned whether it exists or not; the *default* one and `conf.d` only if they do.
    """
    named = path or (Path(environment[VARIABLE]) if environment.get(VARIABLE) else None)
    main = named or default
    beside = sorted((main.parent / "conf.d").glob("*.toml"))
    return (*([main] if named or main.exists() else []), *beside)


def _one_of(entries: Iterable[str]) -> str:
    spelled = ", ".join(f"{PREFIX}...__{one}__KEY" for one in entries if one)
    return f" one of {spelled}" if spelled else " not in any file"
