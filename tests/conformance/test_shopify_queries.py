"""Every query that we send, and the schema that our stand-in answers by, against the one that Shopify publishes."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLUnionType,
    build_client_schema,
    parse,
    validate,
)

import adapters.shopify
from adapters.sandbox.shopify.schema import admin_schema
from reconciler import content
from tests.adapters.bench import ShopifyBench
from tests.conformance.recording import exercised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphql import DocumentNode, GraphQLNamedType, GraphQLSchema

    from tests.conformance.packages import Package

_ADDRESS: Final = re.compile(r"/admin/api/([^/]+)/graphql\.json")
_OPERATION: Final = re.compile(r"\s*(query|mutation)\b")


@pytest.fixture(scope="module")
def sent() -> dict[str, set[str]]:
    """Return each document that reading every kind in every way sends, by API version."""
    found: dict[str, set[str]] = {}
    with exercised(ShopifyBench) as done:
        assert done.fetched.keys() == adapters.shopify.KINDS.keys()
        for each in done.exchanges:
            if address := _ADDRESS.fullmatch(each.path):
                found.setdefault(address[1], set()).add(str(content.parse(each.asked)["query"]))
    return found


@pytest.fixture(scope="module")
def schema(published: Callable[[str], Package], sent: dict[str, set[str]]) -> GraphQLSchema:
    """Return the published schema of the version that is pinned."""
    [version] = sent
    told: Any = published("@shopify/dev-mcp").json(f"dist/data/admin_{version}.json.gz")
    return build_client_schema(told["data"], assume_valid=True)


def test_every_query_is_valid(schema: GraphQLSchema, sent: dict[str, set[str]]) -> None:
    """What passes over the wire, and what else stands in the adapter, is what the published schema allows."""
    [documents] = sent.values()
    standing = set(_standing())

    wrong = {fault.message: text[:80] for text in documents | standing for fault in validate(schema, _parsed(text))}

    assert len(documents) > 2 * len(adapters.shopify.KINDS)
    assert standing
    assert wrong == {}


# A field that every document asks for, whatever it is about: its first word that closes a selection.
_FIELD: Final = re.compile(r"\b(\w+)(?=\s*\})")


def test_a_misspelt_field_would_be_seen(schema: GraphQLSchema, sent: dict[str, set[str]]) -> None:
    """A mistake in a document would be seen."""
    [documents] = sent.values()

    faults = {text: validate(schema, _parsed(_FIELD.sub(r"\1_not", text, count=1))) for text in documents}

    assert [text for text, found in faults.items() if not found] == []


def test_the_stand_in_answers_by_the_same_schema(schema: GraphQLSchema) -> None:
    """What the stand-in knows, Shopify knows in the same form: fields, arguments, types, values."""
    own = {name: type_ for name, type_ in admin_schema().type_map.items() if not name.startswith("__")}

    wrong = [fault for name, type_ in own.items() for fault in _unlike(type_, schema.get_type(name))]

    assert wrong == []


def _standing() -> Iterator[str]:
    """Yield every whole document that stands in the adapter's modules."""
    for found in pkgutil.iter_modules(adapters.shopify.__path__):
        for value in vars(import_module(f"adapters.shopify.{found.name}")).values():
            if isinstance(value, str) and _OPERATION.match(value):
                yield value


def _parsed(text: str) -> DocumentNode:
    return parse(text, no_location=True)


def _unlike(ours: GraphQLNamedType, theirs: GraphQLNamedType | None) -> Iterator[str]:
    """Yield in what a type of the stand-in's is not as it is published."""
    if theirs is None or type(ours) is not type(theirs):
        yield f"{ours.name}: is not published, or is something else"
    elif isinstance(ours, GraphQLEnumType) and isinstance(theirs, GraphQLEnumType):
        yield from (f"{ours.name}.{value}: is no value" for value in ours.values.keys() - theirs.values.keys())
    elif isinstance(ours, GraphQLUnionType) and isinstance(theirs, GraphQLUnionType):
        known = {each.name for each in theirs.types}
        yield from (f"{ours.name}: has no {each.name}" for each in ours.types if each.name not in known)
    elif isinstance(ours, GraphQLInputObjectType) and isinstance(theirs, GraphQLInputObjectType):
        yield from _unlike_fields(ours.name, ours.fields, theirs.fields)
    elif isinstance(ours, (GraphQLObjectType, GraphQLInterfaceType)):
        assert isinstance(theirs, (GraphQLObjectType, GraphQLInterfaceType))
        yield from _unlike_fields(ours.name, ours.fields, theirs.fields)
        for name in ours.fields.keys() & theirs.fields.keys():
            yield from _unlike_fields(f"{ours.name}.{name}", ours.fields[name].args, theirs.fields[name].args)


def _unlike_fields(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for field, shape in ours.items():
        if field not in theirs:
            yield f"{name}.{field}: is not published"
        elif str(shape.type) != str(theirs[field].type):
            yield f"{name}.{field}: is {shape.type}, published as {theirs[field].type}"
