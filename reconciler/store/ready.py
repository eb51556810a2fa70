"""Whether a delivery could be made durable now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.errors import DatabaseUnavailable
from reconciler.store import statements

if TYPE_CHECKING:
    from sqlalchemy import Connection


def probe(connection: Connection) -> None:
    """Do nothing where the inbox can be written; raises `DatabaseUnavailable`, or what the database says, elsewhere."""
    if not statements.one(connection, "probe_inbox").allowed:
        raise DatabaseUnavailable(
            "this database user may not write to webhook_events, event_objects, refetches and declined_writes"
        )
