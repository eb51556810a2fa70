"""Token buckets that all processes share: one row each, refilled by reading the database's clock."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reconciler import content
from reconciler.store import statements
from reconciler.store.database import in_our_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.model import Body
    from reconciler.store.database import Database

SHARE: Final = 0.1
"""The part of every bucket's rate and capacity that only sweeps may take."""

LONGEST_HOLD: Final = 3600.0
"""Seconds; a hold that ends later than that was not meant, or set by a wrong clock."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """
    A named bucket of one source.

    Attributes:
        rate: Tokens a second.
        burst: The most it holds, at least 2: one for either lane.
    """

    name: str
    rate: float
    burst: float

    @property
    def spare(self) -> float:
        """Return how many of its tokens at most are kept for sweeps."""
        return max(1.0, self.burst * SHARE)


@dataclass(frozen=True, slots=True)
class Level:
    """
    What is in a bucket.

    Attributes:
        tokens: As of `elapsed` seconds ago.
        held: Seconds during which nobody may take any.
    """

    source: str
    name: str
    tokens: float
    elapsed: float
    held: float


@contextmanager
def at_once(database: Database) -> Iterator[Connection]:
    """Yield a connection on which every statement is a transaction of its own: one round trip each."""
    with in_our_words(), database.engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


def take(
    connection: Connection,
    source: str,
    *,
    buckets: Sequence[Bucket],
    sweep: bool,
    counted: Sequence[str] = (),
    now: datetime | None = None,
) -> float:
    """
    Take one call from every bucket and return 0.0, or take none and return the seconds until one may be had.

    One that is taken is counted under the names of *counted*.
    """
    return _turn(connection, source, buckets, sweep=sweep, spent=1, hold=0.0, counted=counted, now=now)


def give_back(
    connection: Connection,
    source: str,
    *,
    buckets: Sequence[Bucket],
    sweep: bool,
    counted: Sequence[str] = (),
    now: datetime | None = None,
) -> None:
    """Return one call to every bucket, where what has no room is lost; it is counted no more."""
    _turn(connection, source, buckets, sweep=sweep, spent=-1, hold=0.0, counted=counted, now=now)


def hold(
    connection: Connection, source: str, *, buckets: Sequence[Bucket], seconds: float, now: datetime | None = None
) -> None:
    """Let nobody take from these buckets for so long; a longer hold stays."""
    _turn(connection, source, buckets, sweep=False, spent=0, hold=min(seconds, LONGEST_HOLD), now=now)


def levels(connection: Connection, *, now: datetime | None = None) -> list[Level]:
    """Return what is in every bucket, by source and name."""
    found = statements.rows(connection, "standing_buckets", {"now": now})
    return [
        Level(row.source, row.name, row.tokens, row.elapsed, row.held if 0 < row.held <= LONGEST_HOLD else 0.0)
        for row in found
    ]


def allotted(
    connection: Connection, asked: Sequence[tuple[str, str, int]], *, now: datetime | None = None
) -> dict[tuple[str, str], tuple[int, int | None]]:
    """
    Return for each source and name what was counted within so many days, and how much is allowed.

    The latter is None where nobody has found that out yet. *asked* has source, name and days.
    """
    parameters = {
        "source": [source for source, _, _ in asked],
        "name": [name for _, name, _ in asked],
        "days": [days for _, _, days in asked],
        "now": now,
    }
    found = statements.rows(connection, "standing_allotments", parameters)
    return {(row.source, row.name): (row.calls, row.allowed) for row in found}


def allot(
    connection: Connection, source: str, name: str, *, calls: int, days: int, now: datetime | None = None
) -> None:
    """Note how many calls of *name* are allowed, and forget what was counted before so many days."""
    told = {"source": source, "name": name, "calls": calls, "days": days, "now": now}
    statements.run(connection, "allot", told)


def objects_since(
    connection: Connection,
    source: str,
    kind: str,
    *,
    holding: Body,
    created: str,
    days: int,
    now: datetime | None = None,
) -> int:
    """Return how many living objects of *kind* hold this, and were made within so many days as *created* tells."""
    told = {"source": source, "kind": kind, "created": created, "days": days, "now": now}
    return int(statements.one(connection, "count_since", told | {"holding": content.dumps(holding)}).objects)


def _turn(
    connection: Connection,
    source: str,
    buckets: Sequence[Bucket],
    *,
    sweep: bool,
    spent: int,
    hold: float,
    now: datetime | None,
    counted: Sequence[str] = (),
) -> float:
    parameters = {
        "source": source,
        "name": [each.name for each in buckets],
        "rate": [float(each.rate) for each in buckets],
        "burst": [float(each.burst) for each in buckets],
        "spare": [each.spare for each in buckets],
        "share": SHARE,
        "longest": LONGEST_HOLD,
        "sweep": sweep,
        "spent": spent,
        "counted": list(counted),
        "hold": float(hold),
        "now": now,
    }
    while (turned := statements.one(connection, "turn_buckets", parameters)).found < len(buckets):
        statements.run(connection, "open_buckets", parameters)
    return float(turned.wait)
