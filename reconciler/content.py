"""
What JSON says, apart from how it is spelled: parsing, cleaning, comparing.

Two bodies with one digest say the same; `differences` says where two do not.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING

import simplejson

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from reconciler.model import JSON, Body

MAX_DEPTH = 100
"""Deeper trees are kept as text: PostgreSQL and every reader have a stack."""

_EXACT = Context(prec=150_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_LONG_INTEGER = 4000  # CPython refuses to turn longer texts into int (CVE-2020-10735)
_PLAIN_DIGITS = 40  # beyond this many digits a number is compared by mantissa and exponent
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# PostgreSQL's numeric: this many digits before and after the decimal point.
_NUMERIC_BEFORE, _NUMERIC_AFTER = 131_072, 16_383


def parse(raw: bytes | str) -> JSON:
    """
    Parse JSON with exact numbers: integers as int, all others as Decimal.

    Raises ValueError for anything that is not one JSON text in UTF-8, NaN and Infinity included, and for nesting
    beyond what the interpreter's stack takes.
    """
    text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
    try:
        return simplejson.loads(text, parse_float=_decimal, parse_int=_integer, parse_constant=_refuse)
    except RecursionError:
        message = "nested too deep"
        raise ValueError(message) from None


def dumps(tree: JSON) -> str:
    """Write JSON with every number as it was written; keys keep their order."""
    return simplejson.dumps(tree, use_decimal=True, ensure_ascii=False, separators=(",", ":"))


def clean(tree: JSON) -> tuple[JSON, bool]:  # noqa: C901 - one walk, a branch for each sort of node
    """
    Return *tree* as PostgreSQL can hold it, and whether anything had to change.

    NUL and lone surrogates become U+FFFD, in keys too (which stay unique); numbers beyond `numeric` and trees deeper
    than MAX_DEPTH become text.
    """
    changed = False

    def text(value: str) -> str:
        nonlocal changed
        if isinstance(value, _Unheld):
            changed = True
            return str(value)
        if _UNSTORABLE.search(value) is None:
            return value
        changed = True
        return _UNSTORABLE.sub(_REPLACEMENT, value)

    def visit(node: JSON, depth: int) -> JSON:  # noqa: PLR0911 - same
        nonlocal changed
        if isinstance(node, str):
            return text(node)
        if isinstance(node, Decimal):
            if _fits_numeric(node):
                return node
            changed = True
            return str(node)
        if not isinstance(node, dict | list):
            return node
        if depth == MAX_DEPTH:
            changed = True
            return text(_written(node))
        if isinstance(node, list):
            return [visit(each, depth + 1) for each in node]
        kept: dict[str, JSON] = {}
        for key, value in node.items():
            name = text(key)
            while name in kept:
                name += _REPLACEMENT
            kept[name] = visit(value, depth + 1)
        return kept

    return visit(tree, 0), changed


def without(tree: JSON, names: Collection[str], *, but_in: str = "") -> JSON:
    """
    Return *tree* without the fields of these names, wherever they are, but for what is in a field called *but_in*.

    A tree in which there are none is returned itself.
    """
    if isinstance(tree, dict):
        kept = {
            name: value if name == but_in else without(value, names, but_in=but_in)
            for name, value in tree.items()
            if name not in names
        }
        is_same = len(kept) == len(tree) and all(kept[name] is value for name, value in tree.items())
        return tree if is_same else kept
    if isinstance(tree, list):
        parts = [without(each, names, but_in=but_in) for each in tree]
        return tree if all(one is other for one, other in zip(parts, tree, strict=True)) else parts
    return tree


@dataclass(frozen=True, slots=True)
class Form:
    """
    How a kind's bodies are stored and compared.

    Attributes:
        omit: JSON pointers never stored.
        volatile: JSON pointers stored but not compared.
        unordered: JSON pointers to arrays compared as bags; `*` is any step.
    """

    omit: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()

    def stored(self, body: Body) -> Body:
        """Return *body* as it is written to its row: clean, without what is omitted."""
        cleaned: Body
        cleaned, _ = clean(body)
        for pointer in self.omit:
            _remove(cleaned, _steps(pointer))
        return cleaned

    def compared(self, stored: Body) -> JSON:
        """Return what counts in a stored body: no volatile fields, unordered arrays sorted, numbers spelled one way."""
        tree = _normal(stored)
        for pointer in self.volatile:
            _remove(tree, _steps(pointer))
        for pointer in sorted(self.unordered, key=lambda each: -each.count("/")):
            _sort(tree, _steps(pointer))
        return tree

    def digest(self, stored: Body) -> str:
        """Return the digest by which two stored bodies say the same (SHA-256, hex)."""
        return hashlib.sha256(_canonical(self.compared(stored)).encode()).hexdigest()


def differences(ours: JSON, theirs: JSON) -> list[Body]:
    """
    Return where two compared trees differ, as `[{"path", "ours", "theirs"}]` with JSON pointers.

    A side that has nothing there shows null, and `"absent"` names it. Arrays of one length are compared element by
    element, others as wholes.
    """
    found: list[Body] = []

    def visit(path: str, a: JSON, b: JSON) -> None:
        if isinstance(a, dict) and isinstance(b, dict):
            for key in [*a, *(key for key in b if key not in a)]:
                step = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
                if key not in b:
                    found.append({"path": step, "ours": a[key], "theirs": None, "absent": "theirs"})
                elif key not in a:
                    found.append({"path": step, "ours": None, "theirs": b[key], "absent": "ours"})
                else:
                    visit(step, a[key], b[key])
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            for index, (one, other) in enumerate(zip(a, b, strict=True)):
                visit(f"{path}/{index}", one, other)
        elif _canonical(a) != _canonical(b):
            found.append({"path": path, "ours": a, "theirs": b})

    visit("", _normal(ours), _normal(theirs))
    return found


def find(tree: JSON, pointer: str) -> JSON:
    """Return what *pointer* shows in *tree*, or None where it leads nowhere."""
    node = tree
    for step in _steps(pointer):
        if isinstance(node, dict):
            node = node.get(step)
        elif isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def steps(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer, as PostgreSQL's paths have them."""
    return list(_steps(pointer))


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _LONG_INTEGER else Decimal(text)


class _Unheld(str):
    """A number whose exponent even Decimal cannot hold, as its text."""

    __slots__ = ()


def _decimal(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:
        return _Unheld(text)


def _written(tree: JSON) -> str:
    """Write a tree of any depth as `dumps` would, whose stack is finite."""
    written: list[str] = []
    todo: list[JSON] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, tuple):  # text that is written already: JSON has no tuples
            written.extend(node)
        elif isinstance(node, dict):
            todo.append(("}",))
            for place, (key, value) in reversed(tuple(enumerate(node.items()))):
                todo += [value, ("{" if place == 0 else ",", dumps(key), ":")]
            if not node:
                written.append("{")
        elif isinstance(node, list):
            todo.append(("]",))
            for place, value in reversed(tuple(enumerate(node))):
                todo += [value, ("[" if place == 0 else ",",)]
            if not node:
                written.append("[")
        else:
            written.append(dumps(node))
    return "".join(written)


def _refuse(name: str) -> JSON:
    message = f"{name} is not JSON"
    raise ValueError(message)


def _fits_numeric(number: Decimal) -> bool:
    # NaN and Infinity, whose exponents are letters, never come out of `parse`.
    return number.adjusted() < _NUMERIC_BEFORE and int(number.as_tuple().exponent) >= -_NUMERIC_AFTER


def _steps(pointer: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def _branches(node: JSON, step: str) -> Iterable[JSON]:
    if isinstance(node, dict):
        return list(node.values()) if step == "*" else [node[step]] if step in node else []
    if isinstance(node, list):
        return list(node) if step == "*" else [node[int(step)]] if step.isdigit() and int(step) < len(node) else []
    return []


def _remove(node: JSON, steps: Sequence[str]) -> None:
    first, *rest = steps
    if rest:
        for branch in _branches(node, first):
            _remove(branch, rest)
    elif isinstance(node, dict):
        for key in list(node) if first == "*" else [first]:
            node.pop(key, None)


def _sort(node: JSON, steps: Sequence[str]) -> None:
    if steps:
        for branch in _branches(node, steps[0]):
            _sort(branch, steps[1:])
    elif isinstance(node, list):
        node.sort(key=_canonical)


def _normal(node: JSON) -> JSON:
    if isinstance(node, dict):
        return {key: _normal(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_normal(each) for each in node]
    if isinstance(node, Decimal):
        return _number(node)
    if isinstance(node, int) and not isinstance(node, bool) and abs(node) >= 10**_PLAIN_DIGITS:
        return _number(Decimal(node))
    return node


def _number(value: Decimal) -> int | Decimal:
    reduced = value.normalize(_EXACT)
    if not reduced:
        return 0
    return int(reduced) if int(reduced.as_tuple().exponent) >= 0 and reduced.adjusted() < _PLAIN_DIGITS else reduced


def _canonical(tree: JSON) -> str:
    return simplejson.dumps(tree, use_decimal=True, sort_keys=True, separators=(",", ":"))
