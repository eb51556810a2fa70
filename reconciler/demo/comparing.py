"""Both sides object by object: what the providers hold against our rows. Shares nothing with what it checks."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from reconciler.model import JSON, Body

Ref: TypeAlias = tuple[str, str, str, str]
"""The source, scope, kind and id of an object."""

# Where each stand-in writes how often an object has changed.
_MARKS = {
    "order": "tags",
    "product": "tags",
    "product_variant": "sku",
    "customer": "tags",
    "refund": "note",
    "repository": "description",
    "issue": "body",
    "pull_request": "body",
    "issue_comment": "body",
    "release": "body",
    "label": "description",
    "milestone": "description",
}
_MIRRORED_GIDS = tuple(f"gid://shopify/{each}/" for each in ("Customer", "Order", "Product", "ProductVariant"))
# What GitHub shows in an object of others, whose own rows have it; and what it works out after the fact.
_OTHERS = {
    "milestone": frozenset({"open_issues", "closed_issues", "updated_at"}),
    "base": frozenset({"repo"}),
    "head": frozenset({"repo"}),
}
_LATER = frozenset({"mergeable", "mergeable_state", "rebaseable"})


@dataclass(frozen=True, slots=True)
class Compared:
    """How many objects the providers have, how many we have, and which differ."""

    theirs: int
    ours: int
    divergent: tuple[Ref, ...]

    @property
    def equal(self) -> bool:
        """Whether not one differs."""
        return not self.divergent and self.theirs == self.ours

    def of(self, source: str) -> str:
        """Return how many of a source's objects differ, kind by kind."""
        kinds = Counter(kind for where, _, kind, _ in self.divergent if where == source)
        return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))

    def __str__(self) -> str:
        return f"{self.theirs} objects at the providers, {self.ours} in the mirror, {len(self.divergent)} divergent"


def ours(url: str) -> dict[Ref, Body]:
    """Return the body of every row of the database at *url* that is no tombstone."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT source, scope, kind, id, body::text FROM reconciler.objects WHERE deleted_at IS NULL"
        ).fetchall()
    return {(source, scope, kind, id_): json.loads(body) for source, scope, kind, id_, body in rows}


def compare(there: Mapping[Ref, Body], here: Mapping[Ref, Body], providers: Mapping[str, str]) -> Compared:
    """Compare every body at the providers with ours; *providers* says whose each source is."""
    gids = frozenset(body["id"] for ref, body in there.items() if providers[ref[0]] == "shopify")

    def differ(ref: Ref) -> bool:
        source, _, kind, _ = ref
        return ref not in there or ref not in here or not same[providers[source]](kind, there[ref], here[ref])

    same: Mapping[str, Callable[[str, Body, Body], bool]] = {
        "stripe": lambda _, theirs, mirrored: theirs == mirrored,
        "shopify": partial(_same_at_shopify, gids=gids),
        "github": _same_at_github,
    }
    return Compared(len(there), len(here), tuple(sorted(filter(differ, there.keys() | here.keys()))))


def _same_at_shopify(kind: str, theirs: Body, mirrored: Body, *, gids: Collection[str]) -> bool:
    """Compare what both show: our queries ask for other fields than the stand-in keeps."""
    return _MARKS[kind] in mirrored and _agree(_as_shown(theirs, gids), mirrored)


def _as_shown(kept: JSON, gids: Collection[str]) -> JSON:
    """Return what the stand-in keeps with null for each object that is gone, as Shopify shows it: *gids* are there."""
    match kept:
        case dict():
            return {name: each if name == "id" else _as_shown(each, gids) for name, each in kept.items()}
        case list():
            return [_as_shown(each, gids) for each in kept]
        case str() if kept.startswith(_MIRRORED_GIDS) and kept not in gids:
            return None
        case _:
            return kept


def _same_at_github(kind: str, theirs: Body, mirrored: Body) -> bool:
    """Compare all that we hold, which is all of it but what only a fetch shows; nothing may be made up."""
    return (
        _MARKS[kind] in mirrored
        and mirrored.keys() <= theirs.keys()
        and _agree(_of_itself(theirs), _of_itself(mirrored))
    )


def _of_itself(body: Body) -> Body:
    """Return a body at GitHub without what it shows of other objects."""

    def own(name: str, value: JSON) -> JSON:
        if not isinstance(value, dict) or name not in _OTHERS:
            return value
        return {part: each for part, each in value.items() if part not in _OTHERS[name]}

    return {name: own(name, value) for name, value in body.items() if name not in _LATER}


def _agree(theirs: JSON, mirrored: JSON) -> bool:
    """Compare what both sides show, where the stand-in keeps a list bare and another object by its gid alone."""
    match theirs, mirrored:
        case dict(), dict():
            shared = theirs.keys() & mirrored.keys()
            return bool(shared or not theirs) and all(_agree(theirs[name], mirrored[name]) for name in shared)
        case list(), {"nodes": list(nodes)}:
            return _agree(theirs, nodes)
        case list(), list():
            return len(theirs) == len(mirrored) and all(map(_agree, theirs, mirrored))
        case str(), {"id": str(gid)}:
            return theirs == gid
        case _:
            return bool(theirs == mirrored)
