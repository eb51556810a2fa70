"""What a control request does to the objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from adapters.sandbox.faults import Refused

if TYPE_CHECKING:
    from adapters.sandbox.world import JSON, Body


class Deed(StrEnum):
    """What is done to an object."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    RECREATE = "recreate"


class Stamp(StrEnum):
    """What happens to the object's own stamp, where its kind has one."""

    MOVE = "move"
    KEEP = "keep"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """
    One change at the provider.

    Attributes:
        id: May be left out when creating.
        body: Fields to set, merged into what is there.
        parts: How many lines or items the object has; None: as it comes.
        at: When it happened, in seconds since 1970; None: now.
        announce: Whether an event tells of it.
        deliver: Whether that event is sent to webhooks, besides standing in the feed.
    """

    deed: Deed
    kind: str
    id: str = ""
    scope: str = ""
    stamp: Stamp = Stamp.MOVE
    body: Body = field(default_factory=dict)
    parts: int | None = None
    at: int | None = None
    announce: bool = True
    deliver: bool = True


def operation_from(settings: JSON) -> Operation:
    """Return the operation that a control request asks for; raises `Refused` where it makes no sense."""
    if not isinstance(settings, dict):
        raise Refused('an operation is an object such as {"op": "create", "kind": "customer"}')
    unknown = sorted(settings.keys() - _TYPES.keys())
    if unknown:
        raise Refused(f"unknown settings {', '.join(unknown)}; there are {', '.join(_TYPES)}")
    for name, value in settings.items():
        if value is not None and type(value) is not _TYPES[name]:
            raise Refused(f"{name} must be {_WORDS[_TYPES[name]]}, not {value!r}")
    given = {name: value for name, value in settings.items() if value is not None}
    given["deed"] = _word(Deed, "op", given.pop("op", None))
    given["stamp"] = _word(Stamp, "stamp", given.get("stamp", Stamp.MOVE))
    if not given.get("kind"):
        raise Refused("kind is missing")
    if given["deed"] is not Deed.CREATE and not given.get("id"):
        raise Refused(f"id is missing: which one to {given['deed']}?")
    return Operation(**given)


def _word(words: type[StrEnum], name: str, value: JSON) -> StrEnum:
    try:
        return words(value)
    except ValueError:
        raise Refused(f"{name} must be {', '.join(words)}, not {value!r}") from None


_TYPES: dict[str, type] = {
    "op": str,
    "kind": str,
    "id": str,
    "scope": str,
    "stamp": str,
    "body": dict,
    "parts": int,
    "at": int,
    "announce": bool,
    "deliver": bool,
}
_WORDS: dict[type, str] = {str: "a text", dict: "an object", int: "a whole number", bool: "true or false"}
