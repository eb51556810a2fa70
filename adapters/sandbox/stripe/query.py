"""Query parameters as Stripe reads them: `created[gte]=1`, `types[]=a`, `types[0]=a`, and nothing it does not know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from adapters.sandbox.world import Body

_NAME = re.compile(r"([^\[\]]+)(?:\[([^\[\]]*)\])?")
_COMPARISONS = frozenset({"gt", "gte", "lt", "lte"})
MAX_LIMIT = 100
DEFAULT_LIMIT = 10

Parameters: TypeAlias = "dict[str, str | list[str] | dict[str, str]]"


class Denied(Exception):
    """
    A call that Stripe refuses.

    Attributes:
        status: The HTTP status.
        error: What stands under `error` in the body.
    """

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error: Body = {"message": message, "type": "invalid_request_error"}
        if code is not None:
            self.error |= {"code": code, "doc_url": f"https://stripe.com/docs/error-codes/{code.replace('_', '-')}"}
        if param is not None:
            self.error["param"] = param


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of a list is wanted."""

    limit: int
    after: str | None
    before: str | None


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers between two bounds, both inclusive; None: no bound."""

    least: int | None = None
    most: int | None = None

    def __contains__(self, number: int) -> bool:
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)


def parameters(pairs: Iterable[tuple[str, str]], *, known: Collection[str]) -> Parameters:
    """Return the parameters of a call by name; raises `Denied` for one that is not *known*."""
    read: Parameters = {}
    for name, value in pairs:
        match = _NAME.fullmatch(name)
        if match is None or match[1] not in known:
            raise Denied(400, f"Received unknown parameter: {name}", code="parameter_unknown", param=name)
        _place(read, match[1], match[2], value)
    return read


def _place(read: Parameters, name: str, key: str | None, value: str) -> None:
    if key is None:
        read[name] = value
        return
    listed = key == "" or key.isdecimal()
    if listed:
        values = read.setdefault(name, [])
        if isinstance(values, list):
            values.append(value)
            return
    else:
        fields = read.setdefault(name, {})
        if isinstance(fields, dict):
            fields[key] = value
            return
    raise Denied(400, f"Invalid hash or array: {name}", code="parameter_invalid_empty", param=name)


def paging(read: Parameters) -> Paging:
    """Return which page is wanted; raises `Denied` for bounds Stripe does not take."""
    limit = whole(read, "limit")
    if limit is None:
        limit = DEFAULT_LIMIT
    if limit < 1:
        message = "This value must be greater than or equal to 1."
        raise Denied(400, message, code="parameter_invalid_integer", param="limit")
    if limit > MAX_LIMIT:
        message = f"This value must be less than or equal to {MAX_LIMIT} (it currently is '{limit}')."
        raise Denied(400, message, code="parameter_invalid_integer", param="limit")
    after, before = text(read, "starting_after"), text(read, "ending_before")
    if after is not None and before is not None:
        message = "You cannot parameterize both starting_after and ending_before."
        raise Denied(400, message, param="ending_before")
    return Paging(limit, after, before)


def text(read: Parameters, name: str) -> str | None:
    """Return a plain parameter, or None if it was not given."""
    value = read.get(name)
    if value is None or isinstance(value, str):
        return value
    raise Denied(400, f"Invalid string: {value}", param=name)


def texts(read: Parameters, name: str) -> list[str]:
    """Return a list parameter, empty if it was not given."""
    value = read.get(name, [])
    if isinstance(value, list):
        return value
    raise Denied(400, f"Invalid array: {value}", param=name)


def whole(read: Parameters, name: str) -> int | None:
    """Return a whole number, or None if it was not given."""
    value = text(read, name)
    return None if value is None else _integer(name, value)


def truth(read: Parameters, name: str) -> bool | None:
    """Return a truth value, or None if it was not given."""
    value = text(read, name)
    if value is None:
        return None
    if value not in {"true", "false"}:
        raise Denied(400, f"Invalid boolean: {value}", param=name)
    return value == "true"


def span(read: Parameters, name: str) -> Range:
    """Return what `name=1`, `name[gte]=1` and the like ask for."""
    value = read.get(name)
    if value is None:
        return Range()
    if isinstance(value, str):
        exact = _integer(name, value)
        return Range(exact, exact)
    if isinstance(value, list) or not value.keys() <= _COMPARISONS:
        raise Denied(400, f"Invalid range: {name}", code="parameter_unknown", param=name)
    bounds = {key: _integer(f"{name}[{key}]", number) for key, number in value.items()}
    return Range(_least(bounds), _most(bounds))


def _least(bounds: Mapping[str, int]) -> int | None:
    found = [bounds[key] + step for key, step in (("gte", 0), ("gt", 1)) if key in bounds]
    return max(found, default=None)


def _most(bounds: Mapping[str, int]) -> int | None:
    found = [bounds[key] - step for key, step in (("lte", 0), ("lt", 1)) if key in bounds]
    return min(found, default=None)


def _integer(name: str, value: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", value):
        raise Denied(400, f"Invalid integer: {value}", code="parameter_invalid_integer", param=name)
    return int(value)
