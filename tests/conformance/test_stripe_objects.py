"""The objects of our stand-in for Stripe, against the classes that Stripe's own SDK reads them with."""

from __future__ import annotations

import re
import types
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Union, get_args, get_origin

import pytest
from stripe import ListObject
from stripe._object_classes import OBJECT_CLASSES, get_object_class

from adapters.stripe import KINDS
from reconciler import content
from tests.adapters.bench import StripeBench
from tests.conformance.recording import exercised

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_LISTS: Final = frozenset({"list", "search_result"})
_PLAIN: Final = {int: (int,), str: (str,), bool: (bool,), float: (int, Decimal), Decimal: (str,)}


@pytest.fixture(scope="module")
def shown() -> list[Any]:
    """Return all objects that reading every kind in every way shows, whatever they stand in."""
    with exercised(StripeBench) as done:
        assert None not in done.fetched.values()
        bodies = [content.parse(each.answer) for each in done.exchanges if each.status == 200]
    return [each for body in bodies for each in _objects(body) if not each.get("deleted")]


def test_every_object_is_what_the_sdk_requires(shown: list[Any]) -> None:
    """Each has every field that its class declares as always there, of the declared type, and so do its parts."""
    known = [each for each in shown if each["object"] in OBJECT_CLASSES]

    wrong = {fault: None for each in known for fault in _faults(get_object_class("V1", each["object"]), each)}

    assert not wrong, "\n".join(sorted(wrong))
    assert sorted({each["object"] for each in shown} - OBJECT_CLASSES.keys() - _LISTS) == []
    assert KINDS.keys() - {each["object"].replace(".", "_") for each in known} == set()


def test_a_missing_field_would_be_seen(shown: list[Any]) -> None:
    """An object without one of its required fields, or with another type in it, is a fault."""
    customer = next(each for each in shown if each["object"] == "customer")
    class_ = get_object_class("V1", "customer")

    without = list(_faults(class_, {name: customer[name] for name in customer.keys() - {"created"}}))
    odd = list(_faults(class_, {**customer, "livemode": "no"}))

    assert without == ["customer.created: is not there"]
    assert odd == ["customer.livemode: 'no' is no bool"]


def _objects(value: Any) -> Iterator[Any]:
    """Yield every object of the API in a value, itself first."""
    if isinstance(value, dict):
        if isinstance(value.get("object"), str):
            yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def _faults(class_: Any, body: Any, where: str = "") -> Iterator[str]:
    """Yield in what a body is not as a class of the SDK declares it."""
    where = where or str(body.get("object"))
    for name, declared in class_.__annotations__.items():
        if get_origin(declared) is ClassVar:
            continue
        told = class_._field_remappings.get(name, name)
        if told in body:
            yield from _unlike(declared, body[told], f"{where}.{told}")
        elif type(None) not in _choices(declared):
            yield f"{where}.{told}: is not there"


def _choices(declared: Any) -> tuple[Any, ...]:
    """Return the types that a value may have."""
    return get_args(declared) if get_origin(declared) in {Union, types.UnionType} else (declared,)


def _unlike(declared: Any, value: Any, where: str) -> Iterator[str]:
    """Yield in what a value is of none of the declared types; objects of the API are looked at by themselves."""
    if value is None:
        yield from [] if type(None) in _choices(declared) else [f"{where}: is null"]
        return
    found = [list(_unlike_one(each, value, where)) for each in _choices(declared) if each is not type(None)]
    if all(found):
        yield from min(found, key=len)


def _unlike_one(declared: Any, value: Any, where: str) -> Iterator[str]:
    """Yield in what a value is not of one declared type."""
    origin, inner = get_origin(declared) or declared, get_args(declared)
    if origin is Literal:
        yield from [] if value in inner else [f"{where}: {value!r} is none of {', '.join(map(str, inner))}"]
    elif origin in _PLAIN:
        yield from [] if _is(origin, value) else [f"{where}: {value!r} is no {origin.__name__}"]
    elif origin is list and isinstance(value, list):
        for each in value:
            yield from _unlike(inner[0], each, f"{where}/*")
    elif origin is list or not isinstance(value, dict):
        yield f"{where}: is no {'list' if origin is list else 'object'}"
    elif origin is ListObject:
        yield from [] if isinstance(value.get("data"), list) else [f"{where}: is no list of objects"]
    elif isinstance(origin, type) and not hasattr(origin, "OBJECT_NAME"):
        yield from _faults(origin, value, where)


def _is(plain: Any, value: Any) -> bool:
    """Say whether a value is of a plain type; JSON has exact numbers as text."""
    if plain is Decimal:
        return isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    return isinstance(value, _PLAIN[plain]) and isinstance(value, bool) is (plain is bool)
