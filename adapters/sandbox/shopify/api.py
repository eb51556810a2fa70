"""Shopify's Admin API as far as a mirror uses it: one address, and everything in the body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    GraphQLError,
    OperationDefinitionNode,
    execute_sync,
    get_named_type,
    get_operation_ast,
    type_from_ast,
    validate,
)
from graphql import parse as read_document
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from adapters.sandbox.shopify.access import Denied
from adapters.sandbox.shopify.answers import denied, failed, success, throttled, unread
from adapters.sandbox.shopify.bodies import GIDS, place_of
from adapters.sandbox.shopify.cost import SINGLE_QUERY, Cost
from adapters.sandbox.shopify.fields import Look, resolve, type_of
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphql import DocumentNode, ExecutionResult, GraphQLSchema
    from starlette.requests import Request
    from starlette.responses import Response

    from adapters.sandbox.front import Asked, Front
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.shopify.access import Access
    from adapters.sandbox.shopify.bulk import Bulk
    from adapters.sandbox.shopify.cost import Bucket
    from adapters.sandbox.shopify.ledger import Ledger
    from adapters.sandbox.shopify.subscriptions import Subscriptions
    from adapters.sandbox.world import JSON, Body

SUPPORTED = ("2026-01", "2026-04", "2026-07", "2026-10", "unstable")
"""Versions that are served; calls of an older one get the oldest of these."""

TOKEN = "POST /admin/oauth/access_token"  # noqa: S105 - the name of an operation
_KEPT_DOCUMENTS = 200


@dataclass(frozen=True, slots=True)
class Query:
    """
    One GraphQL request.

    Attributes:
        roots: The names of the fields asked for at the top, or what is wrong with it.
        document: None where it could not be read.
    """

    text: str
    variables: dict[str, JSON]
    operation: str | None
    roots: str
    document: DocumentNode | None
    errors: tuple[GraphQLError, ...] = ()


class Api:
    """Answers queries from what is in the ledger, and makes tokens."""

    def __init__(
        self,
        machinery: Machinery,
        ledger: Ledger,
        access: Access,
        *,
        schema: GraphQLSchema,
        subscriptions: Subscriptions,
        bulk: Bulk,
        bucket: Bucket,
        ceiling: int,
    ) -> None:
        self._machinery = machinery
        self._ledger = ledger
        self._access = access
        self._subscriptions = subscriptions
        self._bulk = bulk
        self._bucket = bucket
        self._ceiling = ceiling
        self._schema = schema
        self._documents: dict[str, tuple[DocumentNode | None, tuple[GraphQLError, ...]]] = {}

    def routes(self, front: Front) -> list[Route]:
        """Return a route for queries, one for tokens, and one that refuses all others."""

        async def query(request: Request) -> Response:
            self._bulk.base = str(request.base_url).rstrip("/")
            asked = self._read(await request.body())
            return await front.answer(
                request, f"POST graphql.json {asked.roots}", lambda call: self._answer(call, asked)
            )

        async def token(request: Request) -> Response:
            raw = await request.body()
            return await front.answer(request, TOKEN, lambda _: self._token(raw))

        async def result(request: Request) -> Response:
            return await front.answer(request, "GET bulk result", self._result)

        async def other(request: Request) -> Response:
            refused = Denied(404, "Not Found")
            return await front.answer(request, f"{request.method} unknown", lambda _: denied(refused))

        return [
            Route("/admin/api/{version}/graphql.json", query, methods=["POST"]),
            Route("/_bulk/{number}.jsonl", result, methods=["GET"]),
            Route("/admin/oauth/access_token", token, methods=["POST"]),
            Route("/{path:path}", other, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

    def _result(self, asked: Asked) -> Response:
        """Answer with the file of a bulk operation, for which no token is asked."""
        found = self._bulk.result(asked.request.path_params["number"])
        return PlainTextResponse("Forbidden", 403) if found is None else PlainTextResponse(found)

    def _token(self, raw: bytes) -> Response:
        try:
            asked = parse(raw) if raw[:1] == b"{" else dict(parse_qsl(raw.decode("utf-8", "replace")))
            return success(self._access.make_token(asked))
        except ValueError:
            return denied(Denied(400, "invalid_request"))
        except Denied as denial:
            return denied(denial)

    def _read(self, raw: bytes) -> Query:
        """Read a request's body; what is wrong with it is told by the answer."""
        try:
            asked = parse(raw)
        except ValueError:
            asked = None
        if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
            return Query("", {}, None, "unreadable", None)
        document, errors = self._document(asked["query"])
        roots = "+".join(_roots(document)) if document is not None else "unreadable"
        variables, operation = asked.get("variables"), asked.get("operationName")
        return Query(
            asked["query"],
            variables if isinstance(variables, dict) else {},
            operation if isinstance(operation, str) else None,
            roots,
            document,
            errors,
        )

    def _document(self, text: str) -> tuple[DocumentNode | None, tuple[GraphQLError, ...]]:
        if text not in self._documents:
            if len(self._documents) >= _KEPT_DOCUMENTS:
                self._documents.clear()
            try:
                document = read_document(text)
                self._documents[text] = document, tuple(validate(self._schema, document))
            except GraphQLError as error:
                self._documents[text] = None, (error,)
        return self._documents[text]

    def _answer(self, asked: Asked, query: Query) -> Response:
        try:
            version = _served(asked.request.path_params["version"])
            self._access.visit(asked.request)
        except Denied as denial:
            return denied(denial)
        response = self._failing(asked) or self._answered(asked, query)
        response.headers["X-Shopify-API-Version"] = version
        return response

    def _failing(self, asked: Asked) -> Response | None:
        """Return the answer of a call that fails because the shop was told to."""
        if not self._access.policy.errors:
            return None
        left = self._machinery.mischief.pick(f"errors {asked.operation}", 1_000_000) / 1_000_000
        for code, share in self._access.policy.errors.items():
            left -= share
            if left < 0:
                return failed(code, asked.request_id)
        return None

    def _answered(self, asked: Asked, query: Query) -> Response:
        if not query.text:
            return denied(Denied(400, {"query": "Required parameter missing or invalid"}))
        if query.document is None or query.errors:
            return unread([dict(error.formatted) for error in query.errors])
        operation = get_operation_ast(query.document, query.operation)
        if operation is None:
            return unread([{"message": "An operation name is required"}])
        if wrong := _wrong_ids(self._schema, operation, query.variables):
            return unread(wrong)
        return self._paid(asked, query, operation, query.document)

    def _paid(self, asked: Asked, query: Query, operation: OperationDefinitionNode, document: DocumentNode) -> Response:
        fragments = {each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)}
        cost = Cost(self._schema, operation, fragments, query.variables)
        requested = cost.requested
        if requested > SINGLE_QUERY:
            return unread([_too_dear(requested)])
        if not self._bucket.take(requested):
            return throttled(self._cost(requested, None))
        result, look = self._executed(asked, query, document)
        actual = min(requested, cost.actual(result.data))
        self._bucket.give_back(requested - actual)
        shown: Body = {"data": result.data}
        if result.errors:
            shown["errors"] = [dict(error.formatted) for error in result.errors]
        shown["extensions"] = {"cost": self._cost(requested, actual)}
        if look.search:
            shown["extensions"]["search"] = look.search
        return success(shown)

    def _executed(self, asked: Asked, query: Query, document: DocumentNode) -> tuple[ExecutionResult, Look]:
        look = Look(
            ledger=self._ledger,
            policy=self._access.policy,
            subscriptions=self._subscriptions,
            bulk=self._bulk,
            versions=[{"handle": each, "displayName": each, "supported": each != "unstable"} for each in SUPPORTED],
            now=self._machinery.clock.now(),
            at=asked.at,
            ceiling=self._ceiling,
        )
        with self._machinery.world.lock:
            result = execute_sync(
                self._schema,
                document,
                context_value=look,
                variable_values=query.variables,
                operation_name=query.operation,
                field_resolver=resolve,
                type_resolver=type_of,
            )
            for kind, last in look.pages:
                if self._machinery.mischief.shifts(asked.operation):
                    self._ledger.shift(kind, last)
        return result, look

    def _cost(self, requested: int, actual: int | None) -> Body:
        return {
            "requestedQueryCost": requested,
            "actualQueryCost": actual,
            "throttleStatus": self._bucket.status(),
        }


def _served(version: str) -> str:
    """Return the version that answers calls of *version*; raises `Denied` for one that is none."""
    if version in SUPPORTED:
        return version
    if not re.fullmatch(r"\d{4}-(01|04|07|10)", version) or version > SUPPORTED[-2]:
        raise Denied(404, "Not Found")
    return SUPPORTED[0]


def _roots(document: DocumentNode) -> Iterator[str]:
    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode):
            for each in definition.selection_set.selections:
                yield each.name.value if isinstance(each, FieldNode) else "..."


def _too_dear(cost: int) -> Body:
    return {
        "message": f"Query cost is {cost}, which exceeds the single query max cost limit ({SINGLE_QUERY}).",
        "extensions": {
            "code": "MAX_COST_EXCEEDED",
            "cost": cost,
            "maxCost": SINGLE_QUERY,
            "documentation": "https://shopify.dev/api/usage/rate-limits",
        },
    }


def _wrong_ids(schema: GraphQLSchema, operation: OperationDefinitionNode, variables: dict[str, JSON]) -> list[Body]:
    """Return an error for each variable of type ID that is no global id."""
    wrong = []
    for definition in operation.variable_definitions or ():
        name, type_ = definition.variable.name.value, type_from_ast(schema, definition.type)
        value = variables.get(name)
        given = value if isinstance(value, list) else [] if value is None else [value]
        if type_ is not None and get_named_type(type_).name == "ID":
            wrong += [_wrong_id(name, str(type_), each) for each in given if not _is_id(each)]
    return wrong


def _is_id(value: JSON) -> bool:
    text = str(value)
    return text.isdecimal() or (text.startswith(GIDS) and place_of(text) > 0)


def _wrong_id(name: str, type_: str, value: JSON) -> Body:
    said = f"Invalid global id '{value}'"
    return {
        "message": f"Variable ${name} of type {type_} was provided invalid value",
        "extensions": {"value": value, "problems": [{"path": [], "explanation": said, "message": said}]},
    }
