"""An OpenAPI 3.0 description as JSON Schema: what an answer must look like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_JSON: Final = "application/json"
_HERE: Final = "urn:described"
_STEP: Final = re.compile(r"\\{[^/{}]+\\}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that is described, and where."""

    method: str
    path: str
    told: Mapping[str, Any]


class Description:
    """All calls of one API and what they answer."""

    def __init__(self, told: Any) -> None:
        self._told = told
        schemas = {name: _as_schema(each) for name, each in told["components"]["schemas"].items()}
        resource = DRAFT202012.create_resource({"components": {"schemas": schemas}})
        self._registry: Registry[Any] = Registry().with_resource(_HERE, resource)
        self._paths = [
            (re.compile(_STEP.sub("[^/]+", re.escape(path))), path, calls) for path, calls in told["paths"].items()
        ]

    def operation(self, method: str, path: str) -> Operation | None:
        """Return the call behind an address: the one with the fewest steps left open."""
        found = [
            (path_, calls)
            for shape, path_, calls in self._paths
            if method.lower() in calls and shape.fullmatch(path) is not None
        ]
        if not found:
            return None
        best, calls = min(found, key=lambda each: each[0].count("{"))
        return Operation(method, best, calls[method.lower()])

    def faults(self, operation: Operation, status: int, answer: Any) -> Iterator[str]:
        """Yield in what an answer is not as it is described."""
        responses = operation.told["responses"]
        if str(status) not in responses:
            yield f"{status} is not described"
            return
        schema = self._resolved(responses[str(status)]).get("content", {}).get(_JSON, {}).get("schema")
        if schema is None:
            yield from [f"{status} is described without a body"] if answer else []
            return
        validator = Draft202012Validator(_at_home(_as_schema(schema)), registry=self._registry)
        for error in validator.iter_errors(answer):
            yield from _told(error)

    def _resolved(self, told: Any) -> Any:
        """Return what a reference points at."""
        while "$ref" in told:
            target = self._told
            for step in told["$ref"].removeprefix("#/").split("/"):
                target = target[step.replace("~1", "/").replace("~0", "~")]
            told = target
        return told


def _told(error: Any) -> Iterator[str]:
    """Yield an error in a line; of alternatives, those of the one that comes nearest."""
    if error.validator in {"anyOf", "oneOf"} and error.context:
        branches: dict[Any, list[Any]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        for inner in min(branches.values(), key=_distance):
            yield from _told(inner)
        return
    where = "/".join("*" if isinstance(step, int) else str(step) for step in error.absolute_path)
    yield f"/{where}: {error.message[:160]}"


def _distance(errors: list[Any]) -> tuple[bool, int]:
    """Return how far a branch is from fitting: a wrong type at its top is farthest."""
    return any(each.validator == "type" and not each.path for each in errors), len(errors)


def _at_home(schema: Any) -> Any:
    """Return a schema whose references point at the description it stands in."""
    if isinstance(schema, dict):
        return {
            name: _HERE + inner if name == "$ref" and isinstance(inner, str) else _at_home(inner)
            for name, inner in schema.items()
        }
    return [_at_home(inner) for inner in schema] if isinstance(schema, list) else schema


def _as_schema(told: Any) -> Any:
    """Return *told* with `nullable`, which only OpenAPI knows, said in words of JSON Schema."""
    if isinstance(told, list):
        return [_as_schema(each) for each in told]
    if not isinstance(told, dict):
        return told
    # A field of an object may be called as a word of schemas: only what stands as a word is one.
    schema = {name: _as_fields(inner) if name == "properties" else _as_schema(inner) for name, inner in told.items()}
    if schema.pop("nullable", False) is not True:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def _as_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _as_schema(inner) for name, inner in fields.items()}
