"""What our stand-in for GitHub answers, against GitHub's own description of its API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from adapters.github import KINDS
from reconciler import content
from tests.adapters.bench import GitHubBench
from tests.conformance.described import Description
from tests.conformance.recording import exercised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.conformance.packages import Package
    from tests.conformance.recording import Exchange

_BY_NUMBER: Final = (
    (re.compile(r"/repositories/\d+(?=/|$)"), "/repos/acme/shop"),
    (re.compile(r"/organizations/\d+(?=/|$)"), "/orgs/acme"),
    (re.compile(r"/orgs/([^/]+)/team/"), r"/orgs/\1/teams/"),
)
"""Addresses by number, which GitHub serves and does not describe, and those that are described."""

GRAPHQL: Final = "/graphql"
"""What is asked there is described elsewhere."""


@pytest.fixture(scope="module")
def exchanges() -> list[Exchange]:
    """Return all that reading every kind in every way asks the stand-in, and what it answers."""
    with exercised(GitHubBench) as done:
        assert done.fetched.keys() == KINDS.keys()
        assert None not in done.fetched.values()
        return list(done.exchanges)


@pytest.fixture(scope="module")
def description(published: Callable[[str], Package]) -> Description:
    """Return GitHub's description of its API."""
    return Description(published("@octokit/openapi").json("generated/api.github.com.json"))


def test_every_answer_is_as_described(description: Description, exchanges: list[Exchange]) -> None:
    """Each fetch and each list of every kind has all that is required, and nothing of another type."""
    wrong: dict[str, None] = {}
    seen = set()
    for each in exchanges:
        operation = description.operation(each.method, _described(each.path))
        if operation is None:
            wrong |= {} if each.path == GRAPHQL else {f"{each.method} {each.path}: is not described": None}
            continue
        seen.add(operation.path)
        answer = _plain(each.answer)
        for fault in description.faults(operation, each.status, answer):
            wrong[f"{operation.method} {operation.path}: {fault}"] = None

    assert len(seen) > len(KINDS)
    assert not wrong, "\n".join(wrong)


def test_a_missing_field_would_be_seen(description: Description, exchanges: list[Exchange]) -> None:
    """An answer without one of its required fields, or with another type in it, is a fault."""
    [fetched] = [each for each in exchanges if re.fullmatch(r"/repositories/\d+/issues/\d+", each.path)][:1]
    operation = description.operation("GET", _described(fetched.path))
    assert operation is not None
    shown: Mapping[str, Any] = _plain(fetched.answer)

    without = list(description.faults(operation, 200, {name: shown[name] for name in shown.keys() - {"title"}}))
    odd = list(description.faults(operation, 200, {**shown, "number": "1"}))

    assert [each for each in without if "'title' is a required property" in each]
    assert [each for each in odd if each.startswith("/number:")]


def _described(path: str) -> str:
    """Return the address under which a call is described."""
    for shape, told in _BY_NUMBER:
        path = shape.sub(told, path)
    return path


def _plain(answer: bytes) -> Any:
    """Return an answer with numbers as JSON Schema wants them."""
    return content.parse(answer) if answer else None
