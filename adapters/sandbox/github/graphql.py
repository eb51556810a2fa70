"""GitHub's GraphQL, as far as repositories are asked by their global ids when they last changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adapters.sandbox.github.access import not_permitted
from adapters.sandbox.github.answers import Denied, success
from adapters.sandbox.github.bodies import node, stamp
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from adapters.sandbox.github.access import Access
    from adapters.sandbox.github.calls import Call, Operations, Shelves
    from adapters.sandbox.world import JSON, Body

MOST = 100
"""So many nodes may be asked for at once."""

_CONNECTION = re.compile(
    r"(\w+)\s*\(first: 1, orderBy: \{field: (\w+), direction: DESC\}\)\s*\{ nodes \{ ([\w ]+) \} \}"
)
_KINDS = {
    "issues": "issue",
    "pullRequests": "pull_request",
    "milestones": "milestone",
    "releases": "release",
    "deployments": "deployment",
}
_ORDERS = {"UPDATED_AT": "_updated", "CREATED_AT": "_created"}
_ORDERED = {kind: {"CREATED_AT"} if kind in {"releases", "deployments"} else set(_ORDERS) for kind in _KINDS}
_FIELDS = {"updatedAt": "_updated", "createdAt": "_created"}


class GraphQL:
    """Answers one sort of query: nodes by their ids, and the newest of what repositories hold."""

    def __init__(self, shelves: Shelves, access: Access) -> None:
        self._shelves = shelves
        self._access = access

    def operations(self) -> Operations:
        """Return what answers each operation."""
        return {"POST /graphql": self._query}

    def _check(self, call: Call) -> None:
        if call.visit.sort == "anonymous":
            raise Denied(401, "This endpoint requires you to be authenticated.", docs="graphql")
        if not self._access.queries:
            raise not_permitted(call.visit.sort)

    def _query(self, call: Call) -> Response:
        asked = _asked(call.sent)
        self._check(call)
        ids = asked["variables"].get("ids")
        query = asked["query"]
        if not isinstance(ids, list) or "nodes(ids: $ids)" not in query:
            return _refused("the stand-in knows nodes by their ids only")
        if len(ids) > MOST:
            return _refused(f"You may not provide more than {MOST} node ids; you provided {len(ids)}.")
        connections = _CONNECTION.findall(query)
        odd = [name for name, order, _ in connections if order not in _ORDERED.get(name, ())]
        if odd:
            return _refused(f"{', '.join(odd)}: no such list, or no such order of it")
        there = {node("repository", int(timeline.id)): timeline.id for timeline, _ in self._shelves.repositories(call)}
        shown = [self._repository(call, there[id_], connections) if id_ in there else None for id_ in ids]
        errors = [
            {"type": "NOT_FOUND", "path": ["nodes", place], "message": f"Could not resolve to a node with '{id_}'."}
            for place, id_ in enumerate(ids)
            if id_ not in there
        ]
        return success({"data": {"nodes": shown}} | ({"errors": errors} if errors else {}))

    def _repository(self, call: Call, number: str, connections: Sequence[tuple[str, str, str]]) -> Body | None:
        row = self._shelves.repository(call, number)
        if row is None:
            return None
        shown: Body = {
            "databaseId": int(number),
            "updatedAt": stamp(row[1]["_updated"]),
            "pushedAt": stamp(row[1]["_pushed"]),
        }
        for name, order, fields in connections:
            held = (facts for _, facts in self._shelves.rows_in(call, number, _KINDS[name]))
            newest = max(held, key=lambda facts: facts[_ORDERS[order]], default=None)
            one = [] if newest is None else [{field: stamp(newest[_FIELDS[field]]) for field in fields.split()}]
            shown[name] = {"nodes": one}
        return shown


def _asked(sent: bytes) -> Body:
    try:
        asked = parse(sent)
    except ValueError:
        asked = None
    if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
        raise Denied(400, "Problems parsing JSON", docs="graphql")
    return {"query": asked["query"], "variables": asked.get("variables") or {}}


def _refused(message: str) -> Response:
    errors: JSON = [{"message": message}]
    return success({"errors": errors})
