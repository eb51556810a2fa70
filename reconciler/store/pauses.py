"""Pauses: sources and scopes left alone for a while because they answer nobody. Every pause ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Collection
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


@dataclass(frozen=True, slots=True)
class Look:
    """
    A look at our access to a source, or to one scope of it, that a provider's word asked for.

    Attributes:
        what: What it said our access is: as `model.AccessWord`.
        began_at: The database's clock when it was taken.
    """

    source: str
    scope: str
    what: str
    wanted: int
    began_at: datetime


def want_looks(connection: Connection, told: Collection[tuple[str, str, str]]) -> None:
    """Want a look at each of these: source, scope, and what was said of it; wakes the workers on commit."""
    latest = {(source, scope): what for source, scope, what in told}
    if not latest:
        return
    parameters = {
        "source": [source for source, _ in latest],
        "scope": [scope for _, scope in latest],
        "what": list(latest.values()),
    }
    statements.run(connection, "want_looks", parameters)
    statements.rows(connection, "notify_wanted")


def lease_look(connection: Connection, sources: Collection[str]) -> Look | None:
    """Take the look that has been due longest at one of *sources*, for a minute; None: there is none."""
    row = statements.row(connection, "lease_look", {"sources": list(sources)})
    return None if row is None else Look(row.source, row.scope, row.what, row.wanted, row.began_at)


def settle_look(connection: Connection, look: Look) -> None:
    """Forget *look*: our access is known; one that was wanted since stays."""
    told = {"source": look.source, "scope": look.scope, "wanted": look.wanted}
    statements.run(connection, "settle_look", told)
