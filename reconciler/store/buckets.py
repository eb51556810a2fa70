"""Token buckets that all processes share: one row each, refilled by reading the database's clock."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reconciler.store import statements
from reconciler.store.database import in_our_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

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
    connection: Connection, source: str, *, buckets: Sequence[Bucket], sweep: bool, now: datetime | None = None
) -> float:
    """Take one call from every bucket and return 0.0, or take none and return the seconds until one may be had."""
    return _turn(connection, source, buckets, sweep=sweep, spent=1, hold=0.0, now=now)


def give_back(
    connection: Connection, source: str, *, buckets: Sequence[Bucket], sweep: bool, now: datetime | None = None
) -> None:
    """Return one call to every bucket; what has no room there is lost."""
    _turn(connection, source, buckets, sweep=sweep, spent=-1, hold=0.0, now=now)


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


def _turn(
    connection: Connection,
    source: str,
    buckets: Sequence[Bucket],
    *,
    sweep: bool,
    spent: int,
    hold: float,
    now: datetime | None,
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
        "hold": float(hold),
        "now": now,
    }
    while (turned := statements.one(connection, "turn_buckets", parameters)).found < len(buckets):
        statements.run(connection, "open_buckets", parameters)
    return float(turned.wait)
