"""What an event says, snapshot or thin: which objects it names, when it happened, whose it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.stripe.kinds import ITSELF, NAMELESS, OUTSIDE
from reconciler import content
from reconciler.model import AccessWord, Named, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapters.stripe.kinds import Row
    from reconciler.model import JSON, Body

_ACCESS = {"account.application.authorized": "", "account.application.deauthorized": "uninstalled"}

LONGEST_ID = 255
"""Longer texts are no ids of Stripe's."""


def named(event: Body, rows: Mapping[str, Row], source: str, *, scope: str) -> tuple[Named, ...]:
    """Return the objects of *rows* in *scope* that a snapshot or thin event concerns, the one it shows first."""
    topic = type_of(event).removeprefix("v1.")
    if topic in NAMELESS:
        return ()
    shown = content.find(event, "/related_object") if is_thin(event) else content.find(event, "/data/object")
    found = {each.ref: each for each in _concerned(topic, event, shown, rows, source, scope)}
    return tuple(found.values())


def access(event: Body, scope: str | None) -> AccessWord | None:
    """Return what an event about *scope* says of a platform's access to that connected account; None: nothing."""
    what = _ACCESS.get(type_of(event).removeprefix("v1."))
    return AccessWord(scope, what) if scope and what is not None else None


def is_thin(event: Body) -> bool:
    """Say whether *event* names its object without showing it."""
    return event.get("object") == "v2.core.event"


def type_of(event: Body) -> str:
    """Return its type; empty where it has none."""
    type_ = event.get("type")
    return type_ if isinstance(type_, str) else ""


def account_of(event: Body) -> str | None:
    """Return the connected account it is about; empty: the account itself. None: whose it is cannot be told."""
    account = event.get("context" if is_thin(event) else "account")
    if not account:
        return ""
    return account.rpartition("/")[2] if isinstance(account, str) else None


def id_of(value: JSON) -> str | None:
    """Return *value*, or the id of the object it is, if that can be an id."""
    id_ = value.get("id") if isinstance(value, dict) else value
    return id_ if isinstance(id_, str) and 0 < len(id_) <= LONGEST_ID else None


def instant(value: JSON) -> datetime | None:
    """Return the time that whole seconds since 1970 or an ISO 8601 text tell; None where they tell none."""
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            told = datetime.fromisoformat(value)
            return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def stamp_of(row: Row, body: Body) -> datetime | None:
    """Return the stamp that *body* carries; None for unstamped kinds."""
    return instant(content.find(body, row.kind.stamp)) if row.kind.stamp else None


def kind_of(body: Body) -> str | None:
    """Return the kind of an object as the API shows it, or of a thin event's related object."""
    name = body.get("object") or body.get("type")
    return name.replace(".", "_") if isinstance(name, str) else None


def _concerned(  # noqa: PLR0917 - one call of one function
    topic: str, event: Body, shown: JSON, rows: Mapping[str, Row], source: str, scope: str
) -> Iterator[Named]:
    if not isinstance(shown, dict):
        return
    row, id_ = rows.get(kind_of(shown) or ""), id_of(shown)
    if row is not None and id_ is not None:
        yield Named(ObjectRef(source, scope, row.kind.name, id_), stamp_of(row, shown))
    for name, each in rows.items():
        pointers = each.topics.get(topic, ITSELF)
        for other in _ids(event, shown, pointers) if pointers != ITSELF else ():
            yield Named(ObjectRef(source, scope, name, other))


def _ids(event: Body, shown: Body, pointers: str) -> Iterator[str]:
    """Yield the ids that *pointers* lead to, from the object that is shown or from the event."""
    for pointer in pointers.split():
        start = event if pointer.startswith(OUTSIDE) else shown
        for value in _found(start, pointer.removeprefix(OUTSIDE).split("/")[1:]):
            id_ = id_of(value)
            if id_ is not None:
                yield id_


def _found(node: JSON, steps: Sequence[str]) -> Iterator[JSON]:
    if not steps:
        yield node
    elif steps[0] == "*":
        for each in node if isinstance(node, list) else ():
            yield from _found(each, steps[1:])
    elif isinstance(node, dict):
        yield from _found(node.get(steps[0]), steps[1:])
