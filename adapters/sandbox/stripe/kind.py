"""What one row of the stand-in's table says of a kind, and what the rows of many kinds have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.faults import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.stripe.bodies import Draft
    from adapters.sandbox.world import Body

Edit: TypeAlias = "Callable[[Body, int], Body]"
"""Given a body and the provider's time, returns the fields to set."""

Announce: TypeAlias = "Callable[[Body | None, Body | None], list[str]]"
"""Given the object before and after a change (None: it does not exist), returns the types of its events."""


class Listed(StrEnum):
    """How the objects of a kind can be listed."""

    DATED = "dated"  # with bounds on `created`
    UNDATED = "undated"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One sort of object.

    Attributes:
        plural: As in the API's paths.
        permission: What a restricted key needs to read it.
        prefix: Of its ids.
        make: Returns a new body.
        edit: What a change does to it that says nothing else.
        follow: What else a change of its fields brings with it, given the body after the change.
        remove: What deleting does; returns None where the object goes.
        stub: A GET of a deleted one answers 200 with `deleted: true`.
        stamped: It has `updated`.
        events: Which events a change makes.
        equal: List parameters that must equal a field, with the field.
        parts: The field that holds its own list, if there is one.
        references: Fields that hold the id of another kind's object and can be expanded.
        keeps: What its list shows at all.
    """

    plural: str
    permission: str
    prefix: str
    id_length: int = 24
    make: Callable[[Draft], Body]
    edit: Edit
    follow: Edit = lambda _body, _now: {}
    remove: Callable[[Body, int], Body | None]
    stub: bool = False
    stamped: bool = False
    events: Announce
    equal: Mapping[str, str] = field(default_factory=dict)
    parts: str | None = None
    references: Mapping[str, str] = field(default_factory=dict)
    listed: Listed = Listed.DATED
    keeps: Callable[[Body], bool] = lambda _body: True


def plain(family: str) -> Announce:
    """Return what announces creations, changes and deletions."""

    def events(before: Body | None, after: Body | None) -> list[str]:
        return [f"{family}.{'created' if before is None else 'deleted' if after is None else 'updated'}"]

    return events


def moves(family: str, by_status: Mapping[str, str], *, born: str = "created", edited: str = "updated") -> Announce:
    """Return what announces the steps of objects that have a status; an empty word is an event there is not."""

    def events(before: Body | None, after: Body | None) -> list[str]:
        if after is None:
            return []
        if before is None:
            words = [born]
        else:
            words = [edited, by_status.get(after["status"], "") if before["status"] != after["status"] else ""]
        return [f"{family}.{word}" for word in words if word]

    return events


def silent(_before: Body | None, _after: Body | None) -> list[str]:
    """Announce nothing: Stripe has no event about such an object."""
    return []


def count_of(body: Body) -> int:
    """Return which change of an object comes next."""
    return int(body["metadata"]["version"]) + 1


def described(body: Body, _now: int) -> Body:
    """Change the description."""
    return {"description": f"Change {count_of(body)}"}


def renamed(body: Body, _now: int) -> Body:
    """Change the name."""
    return {"name": f"{body['name'].split(',')[0]}, change {count_of(body)}"}


def nicknamed(body: Body, _now: int) -> Body:
    """Change the nickname."""
    return {"nickname": f"Change {count_of(body)}"}


def tagged(body: Body, _now: int) -> Body:
    """Change the metadata."""
    return {"metadata": {"note": f"Change {count_of(body)}"}}


def goes(_body: Body, _now: int) -> Body | None:
    """Let it go."""
    return None


def deactivates(_body: Body, _now: int) -> Body | None:
    """Let it stay, and be inactive."""
    return {"active": False}


def cancels(*final: str) -> Callable[[Body, int], Body | None]:
    """Return what cancels an object that has none of the *final* statuses."""

    def remove(body: Body, _now: int) -> Body | None:
        if body["status"] in final:
            raise Refused(f"a {body['object']} that is {body['status']} cannot be canceled")
        return {"status": "canceled"}

    return remove


def stays(body: Body, _now: int) -> Body | None:
    """Refuse: such an object is never deleted."""
    raise Refused(f"a {body['object']} is never deleted")
