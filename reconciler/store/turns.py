"""Turns: when each kind of a scope was last compared whole, so that a few each night are, and all of them in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.store import statements
from reconciler.store.shares import Place

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Turn:
    """
    How a kind of a scope stands in its turn.

    Attributes:
        since: When it last had its turn, or was first seen.
        reached: The last id that was read again, where the turn goes by ids.
    """

    since: datetime
    reached: str


def of(connection: Connection, place: Place, *, now: datetime) -> Turn:
    """Return how *place* stands; from now on its turn is awaited."""
    row = statements.one(connection, "see_turn", place.key | {"now": now})
    return Turn(row.since, row.reached)


def standing(connection: Connection, source: str) -> dict[Place, datetime]:
    """Return when each place of *source* that is swept still last had its turn."""
    found = statements.rows(connection, "standing_turns", {"source": source})
    return {Place(source, row.scope, row.kind): row.since for row in found}


def had(connection: Connection, place: Place, *, now: datetime) -> None:
    """Note that *place* was compared whole by a run that began then."""
    statements.run(connection, "had_turn", place.key | {"now": now})


def reach(connection: Connection, place: Place, reached: str, *, now: datetime) -> None:
    """Note that the rows of *place* up to an id are read again, all if it is empty, by a run that began then."""
    statements.run(connection, "reached_in_turn", place.key | {"reached": reached, "now": now})


def share(connection: Connection, place: Place, *, nights: int, after: str) -> list[str]:
    """Return the ids of the next living rows of *place*, so many that all come round in so many nights."""
    objects = statements.one(connection, "living_count", place.key).objects
    asked = place.key | {"after": after, "before": 2**63 - 1, "limit": -(-objects // nights)}
    return [row.id for row in statements.rows(connection, "living_ids", asked)]
