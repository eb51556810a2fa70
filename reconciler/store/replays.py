"""
Replay in bulk: what was given up, or any events, wanted again at a limited rate.

Each piece is a transaction of its own. What is wanted has its time in the database: whoever gives the command need not
stay, live work is due before it, and a replay that was broken off is completed by giving it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from reconciler.store import events, forgetting, refetches, statements, story
from reconciler.store.refetches import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.model import ObjectRef
    from reconciler.store.database import Database

RATE: Final = 10.0
"""Objects a second of each source, where nobody says otherwise."""

WITHIN: Final = timedelta(hours=24)
"""No more is replayed at once than comes due within this: beyond `refetches.FURTHEST` a time is a wrong clock's."""

DEAD: Final = "dead"
_PIECE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """
    Which events are meant; None: whichever. Of the state `dead` also the dead letters that no event names.

    Attributes:
        limit: So many events and dead letters at most.
    """

    event_ids: Sequence[str] | None = None
    source: str | None = None
    kind: str | None = None
    state: str | None = None
    since: datetime | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What a replay came to.

    Attributes:
        wanted: How many objects are wanted.
        until: When the last of them is due; None: nothing is wanted.
        complete: No more of what was chosen is left than the limit says.
    """

    wanted: int
    until: datetime | None
    complete: bool


def replay(database: Database, chosen: Chosen, *, rate: float = RATE, now: datetime | None = None) -> Outcome:
    """Want again what was chosen, so many objects a second of each source; safe to repeat, and to break off."""
    began: datetime = database.commit(lambda connection: statements.one(connection, "clock", {"now": now})).now
    pace, most = Pace(rate), int(rate * WITHIN.total_seconds())
    left = most if chosen.limit is None else min(chosen.limit, most)
    wanted, after, complete = 0, ("", ""), False
    while left > 0 and not complete:
        piece = database.commit(partial(_events, chosen, pace=pace, after=after, limit=min(left, _PIECE), now=now))
        wanted, left, after = wanted + piece.wanted, left - piece.events, piece.last or after
        complete = piece.last is None
    if complete and chosen.state == DEAD and chosen.event_ids is None:
        with database.transaction() as connection:
            refs = story.dead_letters(
                connection, source=chosen.source, kind=chosen.kind, since=chosen.since, limit=left + 1
            )
        complete = len(refs) <= left
        for start in range(0, min(len(refs), left), _PIECE):
            piece_of = refs[start : min(start + _PIECE, left)]
            wanted += database.commit(partial(_letters, piece_of, pace=pace, now=now))
    longest = max(pace.given.values(), default=0)
    until = began + timedelta(seconds=max(longest - 1, 0) / rate) if wanted else None
    return Outcome(wanted, until, complete or (chosen.limit is not None and chosen.limit <= most))


def _events(
    chosen: Chosen, connection: Connection, *, pace: Pace, after: tuple[str, str], limit: int, now: datetime | None
) -> events.Replayed:
    return events.replay(
        connection,
        event_ids=chosen.event_ids,
        source=chosen.source,
        kind=chosen.kind,
        state=chosen.state,
        since=chosen.since,
        after=after,
        limit=limit,
        pace=pace,
        now=now,
    )


def _letters(refs: Sequence[ObjectRef], connection: Connection, *, pace: Pace, now: datetime | None) -> int:
    forgotten = forgetting.among(connection, refs).refs
    return len(refetches.want_again(connection, [ref for ref in refs if ref not in forgotten], pace=pace, now=now))
