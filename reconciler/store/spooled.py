"""What a spool kept while the database was away, written as if it had arrived now, each delivery once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.store import events, statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from reconciler.store.events import Arrival, Receipt


def move(
    connection: Connection, spool: str, numbers: Sequence[int], arrivals: Sequence[Arrival]
) -> tuple[list[Arrival], list[Receipt]]:
    """
    Store the arrivals with these rising numbers that were not stored before, and note how far *spool* has been moved.

    Returns those stored, and a receipt for each. Others that move the same spool wait.
    """
    moved = statements.one(connection, "lock_spool", {"name": spool}).moved
    left = [each for number, each in zip(numbers, arrivals, strict=True) if number > moved]
    receipts = events.receive(connection, left) if left else []
    statements.run(connection, "note_moved", {"name": spool, "moved": max(numbers)})
    return left, receipts
