"""
The adapters that are installed: found by their entry points, imported when somebody needs one.

Ours are declared in pyproject.toml in the same way. What nobody asks for is not imported, and neither is the SDK that
it needs.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, get_args

from reconciler.adapter import Kind, Provider, Reader
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

GROUP: Final = "reconciler.adapters"
"""The group of entry points; each names a `reconciler.adapter.Provider`, and its own name is the provider's."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)  # it stands in the names of views


@cache
def names() -> tuple[str, ...]:
    """Return the name of every provider that an installed distribution has an adapter for."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


@cache
def provider(name: str) -> Provider:
    """
    Return what speaks to the provider *name*, imported now if it was not.

    Raises `ConfigError` where no distribution has an adapter of that name, several have one, or it cannot be used.
    """
    points = [*entry_points(group=GROUP, name=name)]
    if not points:
        raise ConfigError(f"no installed distribution has an adapter for {name!r}; there are {', '.join(names())}")
    if len(points) > 1:
        whose = " and ".join(sorted(map(_whose, points)))
        raise ConfigError(f"{whose} have an adapter for {name!r} each; uninstall all but one of them")
    [point] = points
    try:
        found = point.load()
    except Exception as error:  # noqa: BLE001 - whatever a stranger's module does when it is imported
        wrong = f"{type(error).__name__}: {error}"
    else:
        wrong = _wrong(name, found)
        if not wrong and isinstance(found, Provider):
            return found
    raise ConfigError(
        f"the adapter {name!r} of {_whose(point)} cannot be used: {point.value}: {wrong}; mend or uninstall it"
    )


def _whose(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _wrong(name: str, found: object) -> str:
    """Return why *found* cannot be what speaks to the provider *name*; empty: it can."""
    if not isinstance(found, Provider):
        return f"is a {type(found).__name__}, where a reconciler.adapter.Provider belongs"
    if _NAME.fullmatch(name) is None:
        return "its name has to be of lower-case letters, digits and _, a letter first"
    kinds: Mapping[str, object] = found.kinds
    if odd := [each for each, kind in kinds.items() if not isinstance(kind, Kind) or kind.name != each]:
        return f"its kinds {', '.join(odd)} are no rows of these names"
    if not is_dataclass(found.access) or not callable(getattr(found.access, "faults", None)):
        return "its access is no dataclass with a method faults"
    readers = {one.name: one.metadata.get("read") for one in fields(found.access) if one.metadata}
    if odd := [key for key, read in readers.items() if not callable(read) and read not in get_args(Reader)]:
        return f"its keys {', '.join(odd)} are declared without reconciler.adapter.option"
    return ""
