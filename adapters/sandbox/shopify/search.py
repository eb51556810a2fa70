"""
Shopify's search syntax: `updated_at:>='2026-11-29T00:00:00Z' AND (status:open OR -tag:old)`.

As at Shopify, nothing in it is an error. A field that the list does not know is dropped with a warning, which leaves
the list unfiltered; a time that is not quoted falls apart at its colons; and a time in another zone than UTC matches
nothing.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.shopify.bodies import number_of
from adapters.sandbox.shopify.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from adapters.sandbox.world import JSON, Body

Keep: TypeAlias = "Callable[[Body], bool]"
Get: TypeAlias = "Callable[[Body], JSON]"
Made: TypeAlias = "Callable[[str, str], Keep | None]"

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<open>\()|(?P<close>\))|(?P<word>(?:AND|OR|NOT)(?=[\s()]|$))
    |(?P<minus>-)?(?:(?P<field>[A-Za-z_][\w.]*)\s*:\s*(?P<op><=|>=|<|>)?\s*)?
     (?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s()]+)""",
    re.VERBOSE,
)
_OPERATORS: Mapping[str, Callable[[JSON, JSON], bool]] = {
    "": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UTC = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?Z)?")


@dataclass(frozen=True, slots=True)
class Searched:
    """
    A query as Shopify understood it.

    Attributes:
        keep: Tells whether an object is found.
        warnings: What was not understood, as the answer spells it.
        parsed: How it was read, as the answer spells it.
    """

    keep: Keep
    warnings: list[Body]
    parsed: Body


def searched(query: str, fields: Mapping[str, Field]) -> Searched:
    """Read *query* for a list that knows *fields*; never fails."""
    reading = _Reading(list(_tokens(query)), fields)
    keep = reading.either()
    return Searched(keep or (lambda _: True), reading.warnings, reading.parsed)


@dataclass(frozen=True, slots=True)
class Field:
    """
    Something that can be searched for.

    Attributes:
        get: Takes it from an object: a value, or a list of them.
        read: Makes the value out of the query's text, None if it is none.
    """

    get: Get
    read: Callable[[str], JSON]

    def test(self, comparison: str, text: str) -> Keep:
        """Return what tells whether an object is found by this term."""
        wanted, compare = self.read(text), _OPERATORS[comparison]
        if wanted is None:
            return lambda _: False
        if isinstance(wanted, str) and wanted.endswith("*"):
            return lambda body: any(value.startswith(wanted[:-1]) for value in self._values(body))
        return lambda body: any(compare(value, wanted) for value in self._values(body))

    def _values(self, body: Body) -> list[JSON]:
        found = self.get(body)
        return [value for value in (found if isinstance(found, list) else [found]) if value is not None]


def when(name: str, *, inside: str = "") -> Field:
    """Return a field that is a time."""

    def get(body: Body) -> JSON:
        found = (body[inside] if inside else body)[name]
        return found and moment(found)

    return Field(get, _instant)


def word(name: str, *, inside: str = "") -> Field:
    """Return a field that is a text or a list of texts; case does not matter."""

    def get(body: Body) -> JSON:
        found = (body[inside] if inside else body)[name]
        return [each.lower() for each in found] if isinstance(found, list) else found and str(found).lower()

    return Field(get, str.lower)


def number(name: str = "id") -> Field:
    """Return a field that is a number, or a gid, of which the number counts."""
    return Field(lambda body: body[name] and _whole(number_of(str(body[name]))), _whole)


def flag(name: str) -> Field:
    """Return a field that is true or false."""
    return Field(lambda body: body[name], {"true": True, "false": False}.get)


@dataclass(slots=True)
class _Reading:
    """Reads tokens from left to right: OR binds less than AND, which may be left out."""

    tokens: list[re.Match[str]]
    fields: Mapping[str, Field]
    warnings: list[Body] = field(default_factory=list)
    parsed: Body = field(default_factory=dict)
    at: int = 0

    def either(self) -> Keep | None:
        """Read alternatives; None: nothing of them is left."""
        found = [self._all()]
        while self._word("OR"):
            found.append(self._all())
        return _joined(found, any)

    def _all(self) -> Keep | None:
        found: list[Keep | None] = []
        while (token := self._peek()) is not None and token["close"] is None and token["word"] != "OR":
            if not self._word("AND"):
                found.append(self._one())
        return _joined(found, all)

    def _one(self) -> Keep | None:
        if self._word("NOT"):
            return _not(self._one())
        token = self._take()
        if token["open"] is None:
            term = self._term(token)
            return _not(term) if token["minus"] else term
        inside = self.either()
        if self._peek() is not None:
            self._take()
        return inside

    def _term(self, token: re.Match[str]) -> Keep | None:
        name, value = token["field"], token["value"] or ""
        quoted = value[:1] in {"'", '"'}
        text = re.sub(r"\\(.)", r"\1", value[1:-1]) if quoted else value
        if name is None:
            return _mentions(text.lower())
        if name not in self.fields:
            self._dropped(name, text)
            return None
        if not quoted and ":" in value:
            for piece in value.split(":")[:-1]:
                self._dropped(re.findall(r"\w+", piece.replace("T", " "))[-1], value)
            return lambda _: False
        return self.fields[name].test(token["op"] or "", text)

    def _dropped(self, name: str, text: str) -> None:
        self.parsed = self.parsed or {"field": name, "match_all": text}
        self.warnings.append(
            {"field": name, "message": "Invalid search field for this query.", "code": "invalid_field"}
        )

    def _word(self, word: str) -> bool:
        token = self._peek()
        found = token is not None and token["word"] == word
        self.at += found
        return found

    def _peek(self) -> re.Match[str] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _take(self) -> re.Match[str]:
        self.at += 1
        return self.tokens[self.at - 1]


def _tokens(query: str) -> Iterator[re.Match[str]]:
    return (token for token in _TOKEN.finditer(query) if token["space"] is None)


def _joined(found: list[Keep | None], how: Callable[[Iterator[bool]], bool]) -> Keep | None:
    kept = [each for each in found if each is not None]
    if len(kept) < 2:
        return kept[0] if kept else None
    return lambda body: how(each(body) for each in kept)


def _not(keep: Keep | None) -> Keep | None:
    return None if keep is None else lambda body: not keep(body)


def _mentions(text: str) -> Keep:
    names = ("name", "title", "email", "displayName", "tags", "sku")
    return lambda body: any(text in str(body.get(name, "")).lower() for name in names)


def _instant(text: str) -> datetime | None:
    """Return the instant, if *text* is a day or a time in UTC with its `Z`."""
    if _UTC.fullmatch(text) is None:
        return None
    try:
        return moment(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def _whole(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
