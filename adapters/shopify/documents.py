"""GraphQL documents, put together from the fragments in `queries`: one fragment of a kind for lists and fetches."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Final

from adapters.shopify.rows import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.shopify.rows import Part, Row

SHOP: Final = "query shop { shop { id myshopifyDomain } }"
"""Who we are."""

SCOPES: Final = "query scopes { currentAppInstallation { accessScopes { handle } } }"
"""What the app may see."""

RUN: Final = """mutation run($query: String!) {
  bulkOperationRunQuery(query: $query, groupObjects: true) {
    bulkOperation { id }
    userErrors { code message }
  }
}"""
"""Begins a bulk operation whose result has an object's own lists right after it."""

OPERATION: Final = """query operation($id: ID!) {
  bulkOperation(id: $id) { id status errorCode objectCount rootObjectCount url }
}"""
"""How a bulk operation stands."""

CANCEL: Final = "mutation cancel($id: ID!) { bulkOperationCancel(id: $id) { userErrors { message } } }"
"""Ends a bulk operation."""

FIELDS: Final = "query fields($type: String!) { __type(name: $type) { fields { name } } }"
"""What the schema has of a type."""

LOCATIONS: Final = """query locations($first: Int!, $after: String) {
  locations(first: $first, after: $after, includeInactive: true, includeLegacy: true, sortKey: ID) {
    nodes { id }
    pageInfo { endCursor hasNextPage }
  }
}"""
"""Where stock can be."""

DESTROYED: Final = """query destroyed($query: String!, $first: Int!, $after: String) {
  events(query: $query, first: $first, after: $after, sortKey: CREATED_AT) {
    nodes { id action createdAt ... on BasicEvent { subjectId subjectType } }
    pageInfo { endCursor hasNextPage }
  }
}"""
"""The shop's history, oldest first."""

_FRAGMENT: Final = re.compile(r"^fragment (\w+) on .*?^}$", re.MULTILINE | re.DOTALL)
_OWN_LIST: Final = re.compile(r"(\w+)\(first: [^)]*\) \{ nodes \{ (\.\.\.\w+) \} pageInfo \{ \.\.\.place \} \}")
_PLACE: Final = re.compile(r"^fragment place on .*?^}\n?", re.MULTILINE | re.DOTALL)
_SPREAD: Final = re.compile(r"\.\.\.(\w+)")


class Documents:
    """Every document that the adapter sends about objects; reads the fragments once."""

    def __init__(self, extra: Mapping[str, Sequence[str]] | None = None) -> None:
        """Ask of each kind named in *extra* for those fields, too."""
        self._fragments = _fragments()
        for kind, fields in (extra or {}).items():
            self._fragments[kind] = "\n".join(
                [self._fragments[kind].removesuffix("\n}"), *(f"  {each}" for each in fields), "}"]
            )

    def fragment(self, row: Row) -> str:
        """Return the fragment of a kind with all that it uses: what a body's form depends on."""
        return self._with_used(f"...{row.kind.name}").partition("\n")[2]

    def one(self, row: Row) -> str:
        """Return the document that reads one object."""
        name = row.kind.name
        if row.walk is Walk.ALONE:
            return self._with_used(f"query {row.root} {{ {row.root} {{ ...{name} }} }}")
        if row.walk is Walk.LEVELS:
            return self._with_used(
                f"query {name}($item: ID!, $location: ID!) {{ {row.root}(id: $item) {{ id "
                f"inventoryLevel(locationId: $location, includeInactive: true) {{ ...{name} }} }} }}"
            )
        return self._with_used(f"query {row.root}($id: ID!{_parts(row)}) {{ {row.root}(id: $id) {{ ...{name} }} }}")

    def many(self, row: Row, *, sort: str) -> str:
        """Return the document that lists objects, in the order of *sort*."""
        given = "".join(f", {each}" for each in (row.given, f"sortKey: {sort}" if row.sorted else "") if each)
        return self._with_used(
            f"query {row.list}($query: String!, $first: Int!, $after: String{_parts(row)}) {{ "
            f"{row.list}(query: $query, first: $first, after: $after{given}) {{ "
            f"nodes {{ {_shown(row)} }} pageInfo {{ ...place }} }} }}"
        )

    def bulk(self, row: Row, search: str) -> str | None:
        """
        Return the query by which a bulk operation shows every object, each of its own lists whole.

        None for a kind that holds a list which is cut on purpose: an operation would show all of it.
        """
        given = ", ".join(each for each in (row.given, f"query: {json.dumps(search)}" if search else "") if each)
        operation = f"{{ {row.list}{f'({given})' if given else ''} {{ edges {{ node {{ ...{row.kind.name} }} }} }} }}"
        text = _OWN_LIST.sub(r"\1 { edges { node { \2 } } }", self._with_used(operation))
        return None if "first:" in text else _PLACE.sub("", text)

    def type_of(self, part: Part) -> str:
        """Return the type of what a list of an object's own holds."""
        return self._fragments[part.fragment].split()[3]

    def part(self, row: Row, part: Part) -> str:
        """Return the document that goes on in an object's own list."""
        return self._with_used(
            f"query {part.field}($id: ID!, $first: Int!, $after: String) {{ {row.root}(id: $id) {{ "
            f"{part.field}(first: $first, after: $after) {{ nodes {{ ...{part.fragment} }} pageInfo {{ ...place }} }} "
            "} }"
        )

    def levels(self, row: Row, *, of: str) -> str:
        """Return the document that lists the levels of one item or location, as *of* says."""
        return self._with_used(
            f"query {of}Levels($id: ID!, $query: String, $first: Int!, $after: String) {{ {of}(id: $id) {{ "
            "inventoryLevels(query: $query, first: $first, after: $after, includeInactive: true) { "
            f"nodes {{ ...{row.kind.name} }} pageInfo {{ ...place }} }} }} }}"
        )

    def _with_used(self, operation: str) -> str:
        """Return *operation* with every fragment that it uses: GraphQL refuses one that is missing, or not used."""
        used: dict[str, str] = {}
        todo = _SPREAD.findall(operation)
        while todo:
            name = todo.pop()
            if name not in used:
                used[name] = self._fragments[name]
                todo += _SPREAD.findall(used[name])
        return "\n".join([operation, *(used[name] for name in sorted(used))])


def _parts(row: Row) -> str:
    """Return the declaration of the variable that only kinds with lists of their own use."""
    return ", $parts: Int!" if row.parts or row.walk is Walk.LEVELS else ""


def _shown(row: Row) -> str:
    """Return what a list asks of each thing it shows."""
    if row.walk is Walk.LEVELS:
        shown = f"nodes {{ ...{row.kind.name} }} pageInfo {{ ...place }}"
        return f"id {row.inside}(first: $parts, includeInactive: true) {{ {shown} }}"
    return f"id updatedAt {row.inside} {{ ...{row.kind.name} }}" if row.inside else f"...{row.kind.name}"


def _fragments() -> dict[str, str]:
    texts = (each.read_text("utf-8") for each in (resources.files(__package__) / "queries").iterdir())
    return {found.group(1): found.group() for text in texts for found in _FRAGMENT.finditer(text)}
