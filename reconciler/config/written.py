"""Settings as JSON without secrets, to be kept and compared: of a secret only where it is kept."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from zoneinfo import ZoneInfo

from reconciler import times
from reconciler.adapter import Secret
from reconciler.config.values import Listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from reconciler.config.settings import Settings, Source

Tree: TypeAlias = dict[str, Any]

_LEFT_OUT = frozenset({"files", "warnings", "name"})
_NONE: Tree = {}
_SPELLED: Mapping[type, Callable[[Any], str]] = {
    timedelta: times.spell,
    time: "{:%H:%M}".format,
    datetime: times.iso,
    Secret: "{0.reference}".format,
    ZoneInfo: str,
    Listen: str,
    Path: str,
}


@dataclass(frozen=True, slots=True)
class Change:
    """
    What one key, source or endpoint was and is.

    Attributes:
        where: The key, with its tables before it.
        before: None: it was not there.
        after: None: it is not there any more.
    """

    where: str
    before: Any
    after: Any

    @property
    def what(self) -> str:
        """Whether a source or endpoint was added or removed, or a key changed."""
        if isinstance(self.after, dict):
            return "added"
        return "removed" if isinstance(self.before, dict) else "changed"

    def told(self) -> Tree:
        """Return it as our JSON shows it."""
        return {"what": self.what, "where": self.where, "before": self.before, "after": self.after}

    def __str__(self) -> str:
        if isinstance(self.before, list) and isinstance(self.after, list):
            less = [f"-{each}" for each in self.before if each not in self.after]
            more = [f"+{each}" for each in self.after if each not in self.before]
            return f"{self.where}: {' '.join([*less, *more]) or 'in another order'}"
        if self.what != "changed":
            return f"{self.where}: {self.what}"
        return f"{self.where}: {_plain(self.before)} -> {_plain(self.after)}"


def _plain(value: object) -> str:
    return "nothing" if value is None else str(value)


def written(settings: Settings, kinds: Mapping[str, Sequence[str]]) -> Tree:
    """Return *settings* as they are kept; *kinds* are those that each source mirrors, by the source's name."""
    tree: Tree = _spelled(settings)
    tree["sources"] = {each.name: _source(each, kinds.get(each.name, ())) for each in settings.sources}
    tree["endpoints"] = {each.name: _spelled(each) for each in settings.endpoints}
    return tree


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return what differs between two kept configurations: a source or endpoint that came or went as a whole."""
    return list(_changes(before, after, where=""))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], *, where: str) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        here = f"{where}{name}"
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, where=f"{here}.")
        elif old != new and (where or name not in {"sources", "endpoints"}):
            yield Change(here, old, new)
        elif old != new:
            yield from _changes(old or _NONE, new or _NONE, where=f"{here}.")


def _source(source: Source, kinds: Sequence[str]) -> Tree:
    tree: Tree = _spelled(source)
    access: Tree = tree.pop("access")
    return tree | access | {"kinds": sorted(kinds)}


def _spelled(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return *value* as JSON shows it; what names a secret names only where it is kept."""
    for cls, spell in _SPELLED.items():
        if isinstance(value, cls):
            return spell(value)
    if isinstance(value, tuple):
        return [_spelled(member) for member in value]
    if isinstance(value, dict):
        return {name: _spelled(member) for name, member in value.items()}
    if is_dataclass(value):
        return {one.name: _spelled(getattr(value, one.name)) for one in fields(value) if one.name not in _LEFT_OUT}
    return value
