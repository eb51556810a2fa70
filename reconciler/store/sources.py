"""
The life of sources: left alone by a person, renamed, removed, and what their credential may not read.

A person's pause is a row of `pauses` that no read ends; what became of a source stands in `sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection

NO_END = datetime(9999, 1, 1, tzinfo=UTC)
"""Until when a source is left alone of which nobody said until when."""

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=5), timedelta(minutes=10)
"""How long the refetches of a kind wait that may not be read, at first and at most."""


class State(StrEnum):
    """What became of a source."""

    LIVE = "live"  # a daemon serves it
    LEFT_OUT = "left_out"  # the last configuration does not name it
    REMOVED = "removed"  # a person removed it and kept its rows
    ERASED = "erased"  # a person removed it with its rows
    RENAMED = "renamed"  # its rows have another name


SHUT = frozenset({State.REMOVED, State.ERASED, State.RENAMED})
"""What a person said of a source that the configuration may still name: it is not served."""


@dataclass(frozen=True, slots=True)
class Known:
    """
    A source that was served here once.

    Attributes:
        renamed_to: The name its rows have now; None: its own.
    """

    source: str
    provider: str
    state: State
    since: datetime
    because: str
    renamed_to: str | None

    def told(self) -> str:
        """Return what became of it, and the way out."""
        if self.state is State.RENAMED:
            return f"it was renamed to {self.renamed_to}; write that name in the configuration, and reload it"
        because = f" ({self.because})" if self.because else ""
        return f"it was removed{because}; take it out of the configuration, or `reconcile source resume {self.source}`"


@dataclass(frozen=True, slots=True)
class Held:
    """
    A source that a person left alone.

    Attributes:
        until: None: until it is resumed.
    """

    source: str
    because: str
    since: datetime
    until: datetime | None

    def __str__(self) -> str:
        until = "" if self.until is None else f" until {self.until.isoformat(timespec='seconds')}"
        because = f": {self.because}" if self.because else ""
        return f"{self.source} is paused{until}{because}; `reconcile source resume {self.source}` ends it"


@dataclass(frozen=True, slots=True)
class Refused:
    """A kind that the credential of its source may not read."""

    source: str
    scope: str
    kind: str
    because: str
    since: datetime


@dataclass(frozen=True, slots=True)
class AtWork:
    """How many reads of a source are under way, and how many of its kinds are being swept."""

    reads: int
    sweeps: int

    def __bool__(self) -> bool:
        return bool(self.reads or self.sweeps)


def known(connection: Connection) -> dict[str, Known]:
    """Return what became of every source that was ever served here, by name."""
    found = statements.rows(connection, "sources")
    return {
        row.source: Known(row.source, row.provider, State(row.state), row.since, row.because, row.renamed_to)
        for row in found
    }


def shut(connection: Connection) -> dict[str, Known]:
    """Return the sources that a person removed or renamed: they are not served, whatever is configured."""
    return {name: each for name, each in known(connection).items() if each.state in SHUT}


def serve(connection: Connection, providers: Mapping[str, str]) -> None:
    """Note that these sources, given with their providers, are served, and that the others are left out."""
    told = {"source": list(providers), "provider": list(providers.values())}
    statements.run(connection, "serve_sources", told)


def mark(
    connection: Connection, source: str, state: State, *, because: str = "", renamed_to: str | None = None
) -> None:
    """Say what a person made of *source*."""
    told = {"source": source, "state": str(state), "because": because, "renamed_to": renamed_to}
    statements.run(connection, "mark_source", told)


def pause(connection: Connection, source: str, *, until: datetime | None, because: str) -> datetime:
    """Leave *source* alone until then, or until it is resumed; return since when it is."""
    told = {"source": source, "because": because, "until": until or NO_END}
    since: datetime = statements.one(connection, "pause_by_hand", told).since
    return since


def resume(connection: Connection, source: str) -> bool:
    """End a person's pause of *source*; return whether there was one."""
    return statements.run(connection, "resume_by_hand", {"source": source}) > 0


def held(connection: Connection) -> dict[str, Held]:
    """Return the sources that a person left alone, by name."""
    return {
        row.source: Held(row.source, row.because, row.since, row.until if row.until < NO_END else None)
        for row in statements.rows(connection, "paused_by_hand")
    }


def at_work(connection: Connection, source: str) -> AtWork:
    """Return what is under way in *source*."""
    row = statements.one(connection, "at_work", {"source": source})
    return AtWork(row.reads, row.sweeps)


def rows(connection: Connection, source: str) -> dict[str, int]:
    """Return how many rows of *source* each table has, those with none left out."""
    return {row.name: row.held for row in statements.rows(connection, "rows_of_source", {"source": source})}


def rename(connection: Connection, source: str, renamed_to: str) -> int:
    """Give every row of *source* to another name; return how many. Nobody may read or sweep it meanwhile."""
    told = {"source": source, "renamed_to": renamed_to}
    moved = int(statements.one(connection, "rename_source", told).moved)
    mark(connection, source, State.RENAMED, because=f"its rows are those of {renamed_to}", renamed_to=renamed_to)
    # The name may be that of a source that was renamed or erased before.
    mark(connection, renamed_to, State.LEFT_OUT)
    resume(connection, renamed_to)
    return moved


def follow(connection: Connection, served: Collection[str]) -> int:
    """Give what was received under old names to those of the *served* sources; return how many rows there were."""
    return sum(
        int(statements.one(connection, "follow_rename", {"source": each.source, "renamed_to": each.renamed_to}).moved)
        for each in known(connection).values()
        if each.state is State.RENAMED and each.source not in served and each.renamed_to in served
    )


def erase(connection: Connection, source: str) -> int:
    """Forget every row of *source*; return how many there were. Safe to repeat."""
    return int(statements.one(connection, "erase_source", {"source": source}).gone)


def not_live(connection: Connection, served: Collection[str]) -> dict[str, int]:
    """Return the sources that have objects which nothing keeps fresh, with how many."""
    found = statements.rows(connection, "sources_with_rows", {"served": list(served)})
    return {row.source: row.objects for row in found}


def refuse(connection: Connection, source: str, scope: str, kind: str, *, because: str) -> bool:
    """
    Note that the credential may not read *kind*, whose refetches wait from now on; return whether that is new.

    They are tried again after a while, twice as long each time in a row; a read or a list that is answered ends it.
    """
    told = {"source": source, "scope": scope, "kind": kind, "because": because}
    noted = statements.row(connection, "refuse_kind", told | {"first": FIRST_WAIT, "longest": LONGEST_WAIT})
    return noted is not None and noted.new


def permit(connection: Connection, source: str, scope: str, kind: str, *, began_at: datetime | None) -> bool:
    """
    Note that *kind* could be read by whatever began then (None: now); return whether it could not before.

    What waited for it is due again at once.
    """
    told = {"source": source, "scope": scope, "kind": kind, "began_at": began_at}
    permitted = statements.run(connection, "permit_kind", told) > 0
    if permitted:
        statements.rows(connection, "notify_wanted")
    return permitted


def retry(connection: Connection, source: str) -> None:
    """Let the kinds of *source* that may not be read be tried now: a permission may have been given."""
    statements.run(connection, "retry_kinds", {"source": source})
    statements.rows(connection, "notify_wanted")


def refused(connection: Connection) -> list[Refused]:
    """Return the kinds that may not be read."""
    return [
        Refused(row.source, row.scope, row.kind, row.because, row.since)
        for row in statements.rows(connection, "refused_kinds")
    ]


def excused(connection: Connection, run_id: int, source: str) -> bool:
    """Say whether all that a run left incomplete of *source* is for a reason that has an alarm of its own."""
    row = statements.one(connection, "unexcused_kinds", {"run_id": run_id, "source": source})
    return row.kinds > 0 and not row.unexcused
