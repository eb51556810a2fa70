"""What an event says, snapshot or thin: which objects it names, when it happened, whose it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.stripe.kinds import NAMELESS
from reconciler import content
from reconciler.model import Named, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adapters.stripe.kinds import Row
    from reconciler.model import JSON, Body

LONGEST_ID = 255
"""Longer texts are no ids of Stripe's."""


def named(event: Body, rows: Mapping[str, Row], source: str) -> tuple[Named, ...]:
    """Return the objects of *rows* that a snapshot or thin event concerns, the one it shows first."""
    topic = type_of(event).removeprefix("v1.")
    scope = scope_of(event)
    if topic in NAMELESS or scope is None:
        return ()
    shown = content.find(event, "/related_object") if is_thin(event) else content.find(event, "/data/object")
    found = {each.ref: each for each in _concerned(topic, shown, rows, source, scope)}
    return tuple(found.values())


def is_thin(event: Body) -> bool:
    """Say whether *event* names its object without showing it."""
    return event.get("object") == "v2.core.event"


def type_of(event: Body) -> str:
    """Return its type; empty where it has none."""
    type_ = event.get("type")
    return type_ if isinstance(type_, str) else ""


def scope_of(event: Body) -> str | None:
    """Return the scope its objects live in; None: a connected account's, which this source does not mirror."""
    account = event.get("context" if is_thin(event) else "account")
    return None if account else ""


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


def _concerned(topic: str, shown: JSON, rows: Mapping[str, Row], source: str, scope: str) -> Iterator[Named]:
    if not isinstance(shown, dict):
        return
    row, id_ = rows.get(kind_of(shown) or ""), id_of(shown)
    if row is not None and id_ is not None:
        yield Named(ObjectRef(source, scope, row.kind.name, id_), stamp_of(row, shown))
    for name, each in rows.items():
        pointer = each.topics.get(topic, "/id")
        other = id_of(content.find(shown, pointer)) if pointer != "/id" else None
        if other is not None:
            yield Named(ObjectRef(source, scope, name, other))
