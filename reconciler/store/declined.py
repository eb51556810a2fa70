"""Notifications that told of less than our row already holds, as they stand on record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.model import ObjectRef
from reconciler.store import refetches, statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.store.events import Receipt


@dataclass(frozen=True, slots=True)
class Decline:
    """One object of one event, with both stamps and the interval of our row."""

    ref: ObjectRef
    event_id: str
    incoming_source_updated_at: datetime | None
    stored_source_updated_at: datetime | None
    stored_read_from: int
    stored_read_until: int
    because: str


def on_record(connection: Connection, receipts: Sequence[Receipt]) -> list[Decline]:
    """Return what is on record about the objects that these receipts call declined, each once."""
    declined = sorted({(each.event_id, ref) for each in receipts for ref in each.declined})
    if not declined:
        return []
    parameters = refetches.keys(ref for _, ref in declined) | {"event_id": [event_id for event_id, _ in declined]}
    return [
        Decline(
            ObjectRef(row.source, row.scope, row.kind, row.id),
            row.event_id,
            row.incoming_source_updated_at,
            row.stored_source_updated_at,
            row.stored_read_from,
            row.stored_read_until,
            row.because,
        )
        for row in statements.rows(connection, "declined_notifications", parameters)
    ]
