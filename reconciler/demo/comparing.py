"""Both sides object by object: what the providers hold against our rows. Shares nothing with what it checks."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
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
    "collection": "handle",
    "discount": "discount",
    "draft_order": "tags",
    "fulfillment": "name",
    "fulfillment_order": "fulfillmentHolds",
    "inventory_item": "sku",
    "inventory_level": "quantities",
    "location": "name",
    "shop": "shopOwnerName",
    "branch": "commit",
    "check_run": "external_id",
    "check_suite": "status",
    "commit_comment": "body",
    "deployment": "description",
    "deployment_status": "description",
    "member": "role",
    "review": "body",
    "review_comment": "body",
    "team": "description",
    "workflow_job": "name",
    "workflow_run": "display_title",
}
_MIRRORED_GIDS = tuple(
    f"gid://shopify/{each}/"
    for each in (
        "Collection",
        "Customer",
        "DraftOrder",
        "Fulfillment",
        "FulfillmentOrder",
        "InventoryItem",
        "Location",
        "Order",
        "Product",
        "ProductVariant",
        "Refund",
    )
)
# What GitHub shows in an object of others, whose own rows have it; and what it works out after the fact.
_OUTSIDE = {
    "check_suite": frozenset({"repository"}),
    "member": frozenset({"organization"}),
    "team": frozenset({"organization"}),
    "workflow_run": frozenset({"repository", "head_repository"}),
}
_OTHERS = {
    "milestone": frozenset({"open_issues", "closed_issues", "updated_at"}),
    "base": frozenset({"repo"}),
    "head": frozenset({"repo"}),
}
_SECRET = frozenset({"client_secret"})
_LATER = frozenset({"mergeable", "mergeable_state", "rebaseable"})


@dataclass(frozen=True, slots=True)
class Compared:
    """
    How many objects the providers have, how many we have, and which differ.

    Attributes:
        kinds: How many the providers have, by source and kind.
    """

    theirs: int
    ours: int
    divergent: tuple[Ref, ...]
    kinds: Mapping[tuple[str, str], int] = field(default_factory=dict, compare=False)

    @property
    def equal(self) -> bool:
        """Whether not one differs."""
        return not self.divergent and self.theirs == self.ours

    def of(self, source: str) -> str:
        """Say how many of a source's objects differ, kind by kind."""
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self.differing(source).items()))

    def differing(self, source: str) -> Counter[str]:
        """Return how many of a source's objects differ, by kind."""
        return Counter(kind for where, _, kind, _ in self.divergent if where == source)

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
        "stripe": _same_at_stripe,
        "shopify": partial(_same_at_shopify, gids=gids),
        "github": _same_at_github,
    }
    divergent = tuple(sorted(filter(differ, there.keys() | here.keys())))
    return Compared(len(there), len(here), divergent, Counter((source, kind) for source, _, kind, _ in there))


def _same_at_stripe(_: str, theirs: Body, mirrored: Body) -> bool:
    """Compare all of it but what no row may hold."""
    return {name: each for name, each in theirs.items() if name not in _SECRET} == mirrored


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
        and _agree(_of_itself(kind, theirs), _of_itself(kind, mirrored))
    )


def _of_itself(kind: str, body: Body) -> Body:
    """Return a body at GitHub without what it shows of other objects."""

    def own(name: str, value: JSON) -> JSON:
        if not isinstance(value, dict) or name not in _OTHERS:
            return value
        return {part: each for part, each in value.items() if part not in _OTHERS[name]}

    left_out = _LATER | _OUTSIDE.get(kind, frozenset())
    return {name: own(name, value) for name, value in body.items() if name not in left_out}


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
