"""Pauses: sources and scopes left alone for a while because they answer nobody. Every pause ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.store import statements

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Pause:
    """
    A source, or one scope of it, that is left alone until a time.

    Attributes:
        what: `unavailable`, or `access_lost`, where the provider says so `suspended` or `uninstalled`, or `paused` by a
            person, which no read ends.
        until: When it is tried again; it stands until a read succeeds.
    """

    source: str
    scope: str
    what: str
    because: str
    since: datetime
    until: datetime


def pause(
    connection: Connection,
    source: str,
    scope: str,
    *,
    what: str,
    because: str,
    first: timedelta,
    longest: timedelta,
    now: datetime | None = None,
) -> datetime | None:
    """
    Leave *scope* (all, if empty) of *source* alone, twice as long each time in a row; return until when.

    Returns None where it was left alone for the same reason already: workers that fail together pause once.
    """
    told = {"source": source, "scope": scope, "what": what, "because": because, "first": first, "longest": longest}
    row = statements.row(connection, "pause", told | {"now": now})
    return None if row is None else row.until


def unpause(connection: Connection, source: str, scope: str, *, began_at: datetime) -> bool:
    """
    Forget the pause of *source* and of *scope*: a read that began then was answered; return whether there was one.

    A pause that began later stays: the read says nothing about what came after it began.
    """
    return statements.run(connection, "unpause", {"source": source, "scope": scope, "began_at": began_at}) > 0


def unfreeze(connection: Connection, *, longest: timedelta, now: datetime | None = None) -> int:
    """End pauses that only a wrong clock can have set so far ahead; return how many."""
    return statements.run(connection, "unfreeze_pauses", {"longest": longest, "now": now})


def standing(connection: Connection) -> list[Pause]:
    """Return every pause that no successful read has ended yet."""
    found = statements.rows(connection, "paused")
    return [Pause(row.source, row.scope, row.what, row.because, row.since, row.until) for row in found]
