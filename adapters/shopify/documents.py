"""GraphQL documents, put together from the fragments in `queries`: one fragment of a kind for lists and fetches."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.shopify.kinds import Part, Row

SHOP: Final = "query shop { shop { id myshopifyDomain } }"
"""Who we are."""

SCOPES: Final = "query scopes { currentAppInstallation { accessScopes { handle } } }"
"""What the app may see."""

DESTROYED: Final = """query destroyed($query: String!, $first: Int!, $after: String) {
  events(query: $query, first: $first, after: $after, sortKey: CREATED_AT) {
    nodes { id action createdAt ... on BasicEvent { subjectId subjectType } }
    pageInfo { endCursor hasNextPage }
  }
}"""
"""The shop's history, oldest first."""

_FRAGMENT: Final = re.compile(r"^fragment (\w+) on .*?^}$", re.MULTILINE | re.DOTALL)
_SPREAD: Final = re.compile(r"\.\.\.(\w+)")


class Documents:
    """Every document that the adapter sends about objects; reads the fragments once."""

    def __init__(self) -> None:
        self._fragments = _fragments()

    def fragment(self, row: Row) -> str:
        """Return the fragment of a kind with all that it uses: what a body's form depends on."""
        return self._with_used(f"...{row.kind.name}").partition("\n")[2]

    def one(self, row: Row) -> str:
        """Return the document that reads one object."""
        return self._with_used(
            f"query {row.root}($id: ID!{_parts(row)}) {{ {row.root}(id: $id) {{ ...{row.kind.name} }} }}"
        )

    def many(self, row: Row, *, sort: str) -> str:
        """Return the document that lists objects, in the order of *sort*."""
        shown = f"id updatedAt {row.inside} {{ ...{row.kind.name} }}" if row.inside else f"...{row.kind.name}"
        return self._with_used(
            f"query {row.list}($query: String!, $first: Int!, $after: String{_parts(row)}) {{ "
            f"{row.list}(query: $query, first: $first, after: $after, sortKey: {sort}) {{ "
            f"nodes {{ {shown} }} pageInfo {{ ...place }} }} }}"
        )

    def part(self, row: Row, part: Part) -> str:
        """Return the document that goes on in an object's own list."""
        return self._with_used(
            f"query {part.field}($id: ID!, $first: Int!, $after: String) {{ {row.root}(id: $id) {{ "
            f"{part.field}(first: $first, after: $after) {{ nodes {{ ...{part.fragment} }} pageInfo {{ ...place }} }} "
            "} }"
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
    return ", $parts: Int!" if row.parts else ""


def _fragments() -> Mapping[str, str]:
    texts = (each.read_text("utf-8") for each in (resources.files(__package__) / "queries").iterdir())
    return {found.group(1): found.group() for text in texts for found in _FRAGMENT.finditer(text)}
