"""Forecasts, kept for the runs that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection


def keep(
    connection: Connection,
    source: str,
    *,
    kind: str,
    objects: int,
    exact: bool,
    calls: int,
    hours: float,
    gigabytes: float,
    now: datetime | None = None,
) -> None:
    """Keep what loading *kind* would come to, over what was forecast of it before."""
    told = {"source": source, "kind": kind, "objects": objects, "exact": exact, "calls": calls}
    statements.run(connection, "keep_forecast", told | {"hours": hours, "gigabytes": gigabytes, "now": now})


def against(connection: Connection, kinds: Sequence[Mapping[str, Any]], began: datetime) -> list[dict[str, Any]]:
    """Return what was forecast of each kind that a run listed all of, beside what that came to in all its scopes."""
    return [
        {
            "source": row.source,
            "kind": row.kind,
            "at": row.at,
            "objects": row.objects,
            "exact": row.exact,
            "listed": sum(each["listed"] for each in loaded),
            "calls": row.calls,
            "spent": sum(each["calls"] for each in loaded),
        }
        for row in statements.rows(connection, "forecasts_before", {"before": began})
        if (loaded := list(_loaded(kinds, row.source, row.kind)))
    ]


def _loaded(kinds: Sequence[Mapping[str, Any]], source: str, kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield what a run says of a kind, scope by scope; nothing where it did not list all of it."""
    mine = [each for each in kinds if (each["source"], each["kind"]) == (source, kind)]
    if all(each["state"] == "complete" and each["since"] is None for each in mine):
        yield from mine
