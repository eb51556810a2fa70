"""What one row of the table of kinds says, and how rows are written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from reconciler.adapter import Column, Kind, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

FEED_HISTORY: Final = timedelta(days=30)
"""How far back `GET /v1/events` reaches (SDK, _event_service.py)."""

ITSELF: Final = "/id"
"""Where an event about an object shows the id of it."""

OUTSIDE: Final = "^"
"""Begins a pointer into the event, instead of into the object that it shows."""

NEVER: Final = "never; 404 resource_missing would be believed"
EVENTS: Final = "GET /v1/events by type"

_FEED_LAG: Final = timedelta(minutes=5)  # events are made after the change, by a process nobody promises a time for


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """
    One list call of those that together show all of a kind.

    Attributes:
        path: Empty: that of the kind.
        parameters: The defaults hide finished ones.
        inside: Points to the list in each listed object that holds those of the kind; empty: they are what is listed.
        dated: It takes bounds on `created`.
        alone: There is no list: *path* shows the one there is.
    """

    path: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    inside: str = ""
    dated: bool = True
    alone: bool = False


UNDATED: Final = (Pass(dated=False),)
"""One list, which takes no bounds on `created`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    A kind, and how Stripe is asked about it.

    Attributes:
        path: `/{id}` after it fetches one.
        topics: Each event type that concerns it, and where the event's object holds its id: pointers, where `*` is any
            step, and `^` begins one into the event.
        passes: The list calls that together show all of them.
        recent: Its changes are announced so incompletely that what was created lately is listed too.
    """

    kind: Kind
    path: str
    topics: Mapping[str, str]
    passes: tuple[Pass, ...]
    recent: bool = False


def row(  # noqa: PLR0913 - one argument for each thing that a row says
    name: str,
    path: str,
    *,
    worth: str,
    permission: str,
    columns: str,
    topics: Mapping[str, str] | None = None,
    passes: tuple[Pass, ...] = (Pass(),),
    recent: bool = False,
    core: bool = False,
    stamp: str | None = None,
    list: Listing = Listing.WHOLE,  # noqa: A002 - as `Kind` calls it
    deletion: str = NEVER,
    cost: str = "1 call; 1 per 100 listed",
    volatile: tuple[str, ...] = (),
    open_while: tuple[str, str] | None = None,
    blind: str = "",
) -> Row:
    """
    Return the row of a kind that is listed and fetched at *path*.

    *columns* are lines of name, type and pointers (by default the field of that name); *open_while* holds a pointer and
    words.
    """
    named = topics or {}
    listed = f"GET {path} by created" if recent else ""
    kind = Kind(
        name=name,
        core=core,
        topics=tuple(named),
        stamp=stamp,
        list=list,
        feed=", and ".join(part for part in (EVENTS if named else "", listed) if part),
        fetch=f"GET {path}/{{id}}",
        deletion=deletion,
        permission=f"{permission}: read, Events: read" if named else f"{permission}: read",
        cost=cost,
        volatile=volatile,
        columns=_columns(columns),
        open_while=(open_while[0], frozenset(open_while[1].split())) if open_while else None,
        feed_history=FEED_HISTORY if named else None,
        feed_lag=_FEED_LAG,
        blind=blind,
        worth=worth,
    )
    return Row(kind=kind, path=path, topics=named, passes=passes, recent=recent)


def topics(prefix: str, endings: str, pointers: str = ITSELF) -> dict[str, str]:
    """Return the event types `prefix.ending`, each with where it names the object."""
    return {f"{prefix}.{ending}": pointers for ending in endings.split()}


def _columns(text: str) -> tuple[Column, ...]:
    words = (line.split() for line in text.strip().splitlines())
    return tuple(Column(name, tuple(pointers) or (f"/{name}",), type_) for name, type_, *pointers in words)
