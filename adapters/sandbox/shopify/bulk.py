"""Bulk operations: a query executed over whole lists, its result a file with an object a line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphql import GraphQLError, execute_sync, validate
from graphql import parse as read_document

from adapters.sandbox.faults import Refused
from adapters.sandbox.shopify.bodies import gid, number_of
from adapters.sandbox.shopify.connections import WHOLE
from adapters.sandbox.shopify.fields import resolve, type_of
from adapters.sandbox.shopify.stamps import stamp
from reconciler.content import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphql import GraphQLSchema

    from adapters.sandbox.shopify.fields import Look
    from adapters.sandbox.world import JSON, Body

AT_ONCE = 5
"""Operations of one app that may run in one shop."""

_CONNECTION = {"edges", "nodes", "pageInfo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulking:
    """
    How operations go that are begun from now on.

    Attributes:
        looks: How often one is seen to go on before it ends.
        fails: The error code with which each fails half way; empty: none does.
        cut: Each list of an object's own shows so many at most, without a word; 0: all.
        short: The file lacks so many of its last lines.
        expired: Its result cannot be fetched any more.
    """

    looks: int = 1
    fails: str = ""
    cut: int = 0
    short: int = 0
    expired: bool = False


@dataclass(slots=True)
class _Operation:
    query: str
    created_at: str
    lines: list[str]
    roots: int
    objects: int
    bulking: Bulking
    looks: int = 0
    status: str = "CREATED"
    error: str = ""


class Bulk:
    """
    The bulk operations of one app in one shop; what they show is read when they are begun.

    Attributes:
        bulking: May be replaced at any time.
        base: The address under which results are fetched.
    """

    def __init__(self, schema: GraphQLSchema) -> None:
        self.bulking, self.base = Bulking(), ""
        self._schema = schema
        self._operations: dict[str, _Operation] = {}

    def run(self, look: Look, query: str) -> Body:
        """Begin an operation, as the mutation answers."""
        if sum(each.status in {"CREATED", "RUNNING"} for each in self._operations.values()) >= AT_ONCE:
            return _refused("LIMIT_REACHED", f"{AT_ONCE} bulk query operations are in progress already")
        try:
            document = read_document(query)
        except GraphQLError as error:
            return _refused("INVALID", error.message)
        if wrong := validate(self._schema, document):
            return _refused("INVALID", wrong[0].message)
        whole = replace(look, ceiling=WHOLE, search=[], pages=[])
        shown = execute_sync(self._schema, document, context_value=whole, field_resolver=resolve, type_resolver=type_of)
        bulking = self.bulking
        lines = [] if shown.data is None else list(_lines(shown.data, cut=0))
        kept = [] if shown.data is None else list(_lines(shown.data, cut=bulking.cut))
        self._operations[str(len(self._operations) + 1)] = _Operation(
            query,
            stamp(look.now),
            [dumps(each) for each in kept[: len(kept) - bulking.short]],
            sum("__parentId" not in each for each in lines),
            len(lines),
            bulking,
            error="ACCESS_DENIED" if shown.errors else bulking.fails,
        )
        return {"bulkOperation": self._shown(str(len(self._operations))), "userErrors": []}

    def look(self, id_: str) -> Body | None:
        """Return how an operation stands, which goes on each time."""
        operation = self._operations.get(number_of(id_))
        if operation is None:
            return None
        if operation.status in {"CREATED", "RUNNING"}:
            operation.looks += 1
            going = operation.looks <= operation.bulking.looks
            operation.status = "RUNNING" if going else "FAILED" if operation.error else "COMPLETED"
        return self._shown(number_of(id_))

    def cancel(self, id_: str) -> Body:
        """End an operation, as the mutation answers."""
        operation = self._operations.get(number_of(id_))
        if operation is None or operation.status not in {"CREATED", "RUNNING"}:
            return {"bulkOperation": None, "userErrors": [{"message": "A bulk operation cannot be canceled now"}]}
        operation.status = "CANCELED"
        return {"bulkOperation": self._shown(number_of(id_)), "userErrors": []}

    def result(self, number: str) -> str | None:
        """Return the file of an operation; None: it is not there, or not any more."""
        operation = self._operations.get(number)
        if operation is None or operation.status not in {"COMPLETED", "FAILED"} or operation.bulking.expired:
            return None
        lines = operation.lines if operation.status == "COMPLETED" else operation.lines[: len(operation.lines) // 2]
        return "".join(f"{each}\n" for each in lines)

    def _shown(self, number: str) -> Body:
        operation = self._operations[number]
        url = f"{self.base}/_bulk/{number}.jsonl" if operation.lines else None
        done, failed = operation.status == "COMPLETED", operation.status == "FAILED"
        part = 1 if done else 2
        return {
            "id": gid("BulkOperation", int(number)),
            "type": "QUERY",
            "status": operation.status,
            "query": operation.query,
            "createdAt": operation.created_at,
            "completedAt": operation.created_at if done else None,
            "errorCode": operation.error if failed else None,
            "objectCount": str(operation.objects // part),
            "rootObjectCount": str(operation.roots // part),
            "fileSize": str(sum(len(each) + 1 for each in operation.lines)) if done else None,
            "url": url if done else None,
            "partialDataUrl": url if failed else None,
        }


def bulking_from(settings: Body) -> Bulking:
    """Return what a control request asks for, all else as usual; raises `Refused` for nonsense."""
    types: Mapping[str, type] = {"looks": int, "fails": str, "cut": int, "short": int, "expired": bool}
    for name, value in settings.items():
        if type(value) is not types.get(name):
            raise Refused(f"{name}: {value!r} is nothing to set; there are {', '.join(types)}")
    return Bulking(**settings)


def _refused(code: str, message: str) -> Body:
    return {"bulkOperation": None, "userErrors": [{"code": code, "field": None, "message": message}]}


def _lines(shown: JSON, *, cut: int, parent: str = "") -> Iterator[Body]:
    """Yield each object of the connections in *shown*, those of its own lists right after it."""
    for connection in [each for each in shown.values() if _is_connection(each)]:
        found = [each["node"] for each in connection["edges"]] if "edges" in connection else connection["nodes"]
        for node in found[:cut] if cut and parent else found:
            own = {name: value for name, value in node.items() if not _is_connection(value)}
            yield own | ({"__parentId": parent} if parent else {})
            yield from _lines(node, cut=cut, parent=str(node.get("id", "")))


def _is_connection(value: JSON) -> bool:
    return isinstance(value, dict) and bool(value) and value.keys() <= _CONNECTION
