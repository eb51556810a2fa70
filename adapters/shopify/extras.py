"""Fields that somebody asks for besides ours: as GraphQL writes them, or metafields by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_METAFIELD: Final = re.compile(r"(?P<namespace>[\w$:-]+)\.(?P<key>[\w-]+)", re.ASCII)
_FIELD: Final = re.compile(r"[A-Za-z_][\w\s{}():,\"'\[\].-]*", re.ASCII)
_LISTS: Final = re.compile(r"\b(nodes|edges|pageInfo|first|last)\b", re.ASCII)
_PAIRS: Final = {"}": "{", ")": "(", "]": "["}


def selections(
    source: str, asked: Mapping[str, Sequence[str]], known: Collection[str]
) -> Mapping[str, tuple[str, ...]]:
    """
    Return what to put into the fragment of each kind; raises `ConfigError` for what can be no field.

    Whether Shopify has it is Shopify's to say. The metafield `custom.gift` is shown as `metafield_custom_gift`.
    """
    faults = [
        *(f"sources[{source}].extra_fields: no such kind: {kind}" for kind in asked if kind not in known),
        *(
            f"sources[{source}].extra_fields.{kind}: {field!r} {wrong}"
            for kind, fields in asked.items()
            for field in fields
            if (wrong := _wrong(field))
        ),
    ]
    if faults:
        raise ConfigError(*faults)
    return {kind: tuple(map(_selection, fields)) for kind, fields in asked.items() if fields}


def _selection(field: str) -> str:
    named = _METAFIELD.fullmatch(field)
    if named is None:
        return " ".join(field.split())
    alias = re.sub(r"\W", "_", f"metafield_{named['namespace']}_{named['key']}", flags=re.ASCII)
    return f'{alias}: metafield(namespace: "{named["namespace"]}", key: "{named["key"]}") {{ type value }}'


def _wrong(field: str) -> str:
    if _METAFIELD.fullmatch(field):
        return ""
    if _FIELD.fullmatch(field) is None or ".." in field or not _closed(field):
        return "is no field; write it as GraphQL does, or a metafield as namespace.key"
    return "is a list of its own, which would be cut short; leave it out" if _LISTS.search(field) else ""


def _closed(field: str) -> bool:
    """Say whether every bracket is closed, in order: else it could end our fragment, and begin something else."""
    opened: list[str] = []
    for letter in _outside_texts(field):
        if letter in "{([":
            opened.append(letter)
        elif letter in _PAIRS and (not opened or opened.pop() != _PAIRS[letter]):
            return False
    return not opened and field.count('"') % 2 == 0


def _outside_texts(field: str) -> Iterator[str]:
    for position, part in enumerate(field.split('"')):
        yield from part if position % 2 == 0 else ""
