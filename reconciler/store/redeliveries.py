"""Which undelivered events were asked for again: an event that keeps failing is not asked for for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Asked:
    """
    How an event that its provider could not deliver stands with us.

    Attributes:
        arrived: We have it all the same: what failed was only the answer, or another attempt was taken.
        times: How often it was asked for again.
    """

    arrived: bool
    times: int
    last_at: datetime | None


def asked(connection: Connection, source: str, event_ids: Collection[str]) -> dict[str, Asked]:
    """Return how each of these events stands."""
    found = statements.rows(connection, "asked_again", {"source": source, "event_id": list(event_ids)})
    return {row.event_id: Asked(row.arrived, row.times, row.last_at) for row in found}


def ask(connection: Connection, source: str, event_ids: Collection[str], *, now: datetime | None = None) -> None:
    """Remember that these were asked for once more."""
    statements.run(connection, "ask_again", {"source": source, "event_id": list(event_ids), "now": now})


def forget(connection: Connection, source: str, *, before: datetime) -> int:
    """Forget those last asked for before a time; return how many."""
    return statements.run(connection, "forget_redeliveries", {"source": source, "before": before})
