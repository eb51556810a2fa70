"""
What moved in many repositories, asked in few calls: the newest change of each, a hundred repositories a query.

GraphQL shows it (https://docs.github.com/en/graphql/reference/objects#repository); nothing is mirrored from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adapters.github.calls import PAGE, instant
from adapters.github.events import number_of
from adapters.github.rows import Home
from reconciler import content
from reconciler.adapter import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.github.calls import Calls
    from adapters.github.places import Places
    from adapters.github.rows import Row
    from reconciler.model import JSON, Body

FEW: Final = 25
"""So many repositories are listed one by one: a question about them would spare little."""

_LATEST: Final = "(first: 1, orderBy: {field: UPDATED_AT, direction: DESC}) { nodes { updatedAt } }"
_NEWEST: Final = "(first: 1, orderBy: {field: CREATED_AT, direction: DESC}) { nodes { updatedAt } }"
_QUERY: Final = f"""
query newest($ids: [ID!]!) {{
  nodes(ids: $ids) {{
    ... on Repository {{
      databaseId
      updatedAt
      pushedAt
      issues{_LATEST}
      pullRequests{_LATEST}
      milestones{_LATEST}
      releases{_NEWEST}
      deployments{_NEWEST}
    }}
  }}
}}
"""
_LISTS: Final = {
    "issues": "issues",
    "pull_requests": "pullRequests",
    "milestones": "milestones",
    "releases": "releases",
    "deployments": "deployments",
}

_Newest = dict[str, "datetime | None"]
"""When each sort of thing in a repository last changed; None: there is none. What is not in it was not shown."""


@dataclass(frozen=True, slots=True)
class Probed:
    """
    What one question showed.

    Attributes:
        newest: By number; repositories that are not in it were not seen.
    """

    rows: Mapping[str, Row]
    newest: Mapping[str, _Newest]

    def standing(self, kind: str, scope: str, since: datetime) -> Standing:
        """Say whether *kind* has to be listed in *scope* for what changed since then."""
        row = self.rows[kind]
        if row.home is not Home.REPOSITORY:
            return Standing.MOVED
        if row.probe is None:
            return Standing.UNSEEN
        seen = self.newest.get(scope)
        if seen is None or not seen.keys() >= set(row.probe.shown):
            return Standing.MOVED
        stamps = [stamp for name in row.probe.shown if (stamp := seen[name]) is not None]
        if any(stamp >= since for stamp in stamps):
            return Standing.MOVED
        return Standing.STILL if row.probe.exact else Standing.UNSEEN


class Probing:
    """Asks about the repositories of one source."""

    def __init__(self, calls: Calls, places: Places, rows: Mapping[str, Row]) -> None:
        self._calls, self._places, self._rows = calls, places, rows

    def probe(self) -> Probed | None:
        """Return what moved where; None: there are so few repositories that listing them is as cheap."""
        numbers, _ = self._places.numbers()
        return Probed(self._rows, self.newest(numbers)) if len(numbers) > FEW else None

    def newest(self, numbers: Sequence[str]) -> dict[str, _Newest]:
        """Return what is seen of these repositories; those that are not seen are left out."""
        nodes = self._places.nodes()
        known = [number for number in numbers if number in nodes]
        found: dict[str, _Newest] = {}
        for start in range(0, len(known), PAGE):
            asked = known[start : start + PAGE]
            shown = self._calls.query(_QUERY, {"ids": [nodes[number] for number in asked]}).get("nodes")
            for number, body in zip(asked, shown if isinstance(shown, list) else [], strict=False):
                if isinstance(body, dict) and number_of(body.get("databaseId")) == number:
                    found[number] = dict(_newest(body))
        return found


def _newest(body: Body) -> Iterator[tuple[str, datetime | None]]:
    """Yield what is shown of one repository; what is refused, or no time, is left out."""
    for name, field in (("updated", "updatedAt"), ("pushed", "pushedAt")):
        if field in body and (body[field] is None or instant(body[field]) is not None):
            yield name, instant(body[field])
    for name, field in _LISTS.items():
        nodes = content.find(body, f"/{field}/nodes")
        if isinstance(nodes, list) and all(_stamp(each) is not None for each in nodes):
            yield name, max((stamp for each in nodes if (stamp := _stamp(each)) is not None), default=None)


def _stamp(node: JSON) -> datetime | None:
    return instant(node.get("updatedAt")) if isinstance(node, dict) else None
