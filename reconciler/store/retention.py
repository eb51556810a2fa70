"""
For how long what is settled stays on record, and what that comes to.

Rows are dropped in batches, each a transaction of its own that waits for nobody; what is unsettled (an open event, a
dead letter, the drift of a run at work) stays however old it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from reconciler.store.database import Database

BATCH: Final = 1000
"""Rows that one transaction looks at: some tens of milliseconds, as measured."""

AHEAD: Final = timedelta(days=365)
"""How far ahead the size of a table is forecast of which nothing is dropped."""

EVENTS: Final = "webhook_events"
_IN_ORDER: Final = {
    "object_history": "prune_history",
    "declined_writes": "prune_declined",
    "drift": "prune_drift",
    "runs": "prune_runs",
}
_DAY: Final = timedelta(days=1)
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Growth:
    """
    What a table holds, with what belongs to its rows, and what it is going to hold.

    Attributes:
        rows: As many as the server last counted.
        rows_a_day: As many as came within the last day; what a first load brought is left out.
        kept: For how long its rows are; None: for ever.
        horizon: How far ahead `bytes_at_horizon` lies: by then as much is dropped as comes.
    """

    table: str
    rows: int
    bytes: int
    rows_a_day: int
    bytes_a_day: int
    kept: timedelta | None

    @property
    def horizon(self) -> timedelta:
        """Return how far ahead is forecast."""
        return AHEAD if self.kept is None else self.kept

    @property
    def bytes_at_horizon(self) -> int:
        """Return the size it is going to have, if every day is like the last one."""
        brought = int(self.bytes_a_day * (self.horizon / _DAY))
        return self.bytes + brought if self.kept is None else brought


def prune(
    database: Database,
    kept: Mapping[str, timedelta | None],
    *,
    goes_on: Callable[[Connection], bool] = lambda _: True,
    batch: int = BATCH,
    now: datetime | None = None,
) -> dict[str, int]:
    """
    Drop what has been settled for longer than its table keeps it; return how many rows of each table went.

    Safe to repeat, to race and to leave at any moment: *goes_on* is asked in each transaction, and False ends it.
    """
    gone = dict.fromkeys(kept, 0)
    moment = database.commit(partial(_now, now))
    for table, span in kept.items():
        if span is None:
            continue
        for went in _batches(database, table, moment - span, goes_on, batch):
            if went is None:
                return gone
            gone[table] += went
    return gone


def growth(
    connection: Connection,
    sources: Sequence[str],
    kept: Mapping[str, timedelta | None],
    *,
    now: datetime | None = None,
) -> list[Growth]:
    """Return what each table holds that grows with use, and how fast that is, by the last day."""
    return [
        Growth(
            table=row.name,
            rows=row.rows,
            bytes=row.bytes,
            rows_a_day=row.came,
            bytes_a_day=row.came * row.bytes // max(row.rows, 1),
            kept=kept.get(row.name),
        )
        for row in statements.rows(connection, "growth", {"sources": list(sources), "now": now})
    ]


def _batches(
    database: Database, table: str, before: datetime, goes_on: Callable[[Connection], bool], limit: int
) -> Iterator[int | None]:
    """Yield how many rows each batch dropped; None: it is not to go on."""
    if table == EVENTS:
        with database.transaction() as connection:
            sources = [row.source for row in statements.rows(connection, "sources_of_events")]
        places: list[dict[str, Any]] = [{"source": source, "received_at": _FIRST, "event_id": ""} for source in sources]
    else:
        places = [{"after": -1}]
    for place in places:
        told: dict[str, Any] | None = place
        while told is not None:
            parameters = told | {"before": before, "limit": limit}
            went, told = database.commit(partial(_batch, table, parameters, goes_on))
            yield went
            if went is None:
                return


def _batch(
    table: str, parameters: dict[str, Any], goes_on: Callable[[Connection], bool], connection: Connection
) -> tuple[int | None, dict[str, Any] | None]:
    """Drop one batch; return how many rows went, and where the next one begins, None after the last."""
    if not goes_on(connection):
        return None, None
    if table == EVENTS:
        row = statements.row(connection, "prune_events", parameters)
        if row is None:
            return 0, None
        following = {"source": parameters["source"], "received_at": row.received_at, "event_id": row.event_id}
        return row.gone, following if row.looked_at == parameters["limit"] else None
    row = statements.one(connection, _IN_ORDER[table], parameters)
    # Numbers are drawn before times are known: a batch that holds one old row may be followed by others.
    more = row.looked_at == parameters["limit"] and row.at < parameters["before"]
    return row.gone, {"after": row.reached} if more else None


def _now(now: datetime | None, connection: Connection) -> datetime:
    told: datetime = statements.one(connection, "clock", {"now": now}).now
    return told
