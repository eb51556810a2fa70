"""What the demo does with the kinds of each provider: all of them are made, changed, ended and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.github import KINDS as GITHUB
from adapters.sandbox.github.kinds import KINDS as AT_GITHUB
from adapters.sandbox.shopify.kinds import KINDS as AT_SHOPIFY
from adapters.sandbox.stripe.kind import stays
from adapters.sandbox.stripe.kinds import KINDS as AT_STRIPE
from adapters.shopify.kinds import KINDS as SHOPIFY
from adapters.stripe.kinds import KINDS as STRIPE
from reconciler.adapter import Listing
from reconciler.demo.comparing import compare
from reconciler.demo.parts import parts
from reconciler.demo.provider import Provider
from reconciler.model import ObjectRef
from tests.paths.cases import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.demo.comparing import Ref
    from reconciler.demo.parts import Part
    from reconciler.model import Body
    from tests.paths.cases import Case, MakeCase

PARTS = {each.provider: each for each in parts()}
KINDS = {
    name: {kind: row.kind for kind, row in rows.items()}
    for name, rows in (("stripe", STRIPE), ("shopify", SHOPIFY), ("github", GITHUB))
}
MORE = {"stripe": "", "shopify": "", "github": 'organizations = ["acme"]\n'}
# Nobody ends these: they are what all the others are in.
LASTING = {"stripe": {"account", "subscription_item"}, "shopify": {"shop"}, "github": {"repository"}}
ENDING = {
    "stripe": {kind for kind, row in AT_STRIPE.items() if row.remove is not stays},
    "shopify": {kind for kind, row in AT_SHOPIFY.items() if not row.final},
    "github": {kind for kind, row in AT_GITHUB.items() if not row.stays},
}


@pytest.mark.parametrize("provider", EVERY)
def test_every_kind_is_in_the_demo(provider: str) -> None:
    """What an adapter can mirror is made there; what may end ends there; what no call lists is read by its ids."""
    part, known = PARTS[provider], KINDS[provider]

    assert set(part.first) == set(known)
    assert {kind for kind, row in known.items() if row.list is Listing.NONE} == set(part.unlisted)
    assert set(part.leaves) == ENDING[provider] - LASTING[provider]
    assert {kind for kind, count in part.first.items() if not count} == LASTING[provider] - {"repository"}


@pytest.mark.parametrize("provider", EVERY)
def test_every_kind_is_compared(case_of: MakeCase, provider: str) -> None:
    """Of every kind a row as of now is equal to the provider's, and one as of before its last change is not."""
    case = case_of(provider, more=f'{MORE[provider]}kinds = "all"')
    stand_in = Provider(PARTS[provider], case.url, seed=1)
    stand_in.create(0.01)
    whose = {case.source: provider}
    before = fetched(case, stand_in.truth())

    changed = {(kind, key) for key in stand_in.truth() for kind in [key[1]] if happens(stand_in, PARTS[provider], key)}
    there = {(case.source, *key): body for key, body in stand_in.truth().items()}
    now = fetched(case, stand_in.truth())

    assert compare(there, now, whose).divergent == ()
    assert {kind for kind, _ in changed} == set(KINDS[provider]) - set(PARTS[provider].within)
    for ref in before:
        assert compare(there, {**now, ref: before[ref]}, whose).divergent == (ref,), ref


def fetched(case: Case, keys: Iterable[tuple[str, str, str]]) -> Mapping[Ref, Body]:
    """Return each object as our adapter reads it."""
    read = {(case.source, *key): case.adapter.fetch(ObjectRef(case.source, *key)).body for key in keys}
    return {ref: body for ref, body in read.items() if body is not None}


def happens(stand_in: Provider, part: Part, key: tuple[str, str, str]) -> bool:
    """Let the object change in the stand-in's own way, and say whether it did."""
    scope, kind, id_ = key
    if kind in part.within:
        return False
    [done] = stand_in.ask("POST", "/objects", [{"op": "change", "kind": kind, "id": id_, "scope": scope}])
    return "error" not in done
