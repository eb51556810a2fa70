"""What was found at a provider that needs a person: kept as long as it stands, said when it is new and once a day."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler import content
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime, timedelta

    from sqlalchemy import Connection

    from reconciler.model import Body


class What(StrEnum):
    """What a finding is, as alarms are called."""

    SUBSCRIPTION_LOST = "subscription_lost"  # something that should send to us does not, or not all
    SILENCE = "silence"  # it changes, and sends nothing
    DEPRECATED = "deprecated"  # a call that we make will not be answered for ever
    VERSION_DRIFT = "version_drift"  # it sends in another API version than we read in
    FEED_OUTRUN = "feed_outrun"  # a kind was not swept for longer than its feed remembers


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that needs a person: what it is about, and why in a sentence."""

    source: str
    what: What
    about: str
    because: str


def find(connection: Connection, finding: Finding, *, now: datetime | None = None) -> bool:
    """Keep *finding*, and say whether it is to be said: it is new, or another sentence, or was not said for a day."""
    told = {"source": finding.source, "what": str(finding.what), "about": finding.about, "because": finding.because}
    return bool(statements.one(connection, "find", told | {"now": now}).say)


def lose(connection: Connection, source: str, what: What, *, but: Collection[str] = ()) -> int:
    """Drop what was found of this sort and stands no more: about anything *but* these; return how many."""
    return statements.run(connection, "lose", {"source": source, "what": str(what), "about": list(but)})


def expire(connection: Connection, source: str, what: What, *, before: datetime, about: str | None = None) -> int:
    """Drop what nobody has seen since, *about* one thing or (None) any; return how many."""
    told = {"source": source, "what": str(what), "before": before, "about": about}
    return statements.run(connection, "expire_findings", told)


def about(connection: Connection, source: str, what: What) -> set[str]:
    """Return what the findings of this sort are about."""
    return {row.about for row in statements.rows(connection, "findings_about", {"source": source, "what": str(what)})}


@dataclass(frozen=True, slots=True)
class Silence:
    """
    How a source's notifications compare with what sweeps had to find.

    Attributes:
        missed: Changes that sweeps found since the last event, and nothing had told of.
        since: When the first of them was found.
        last_at: When the last event came; None: none ever did.
        events: How many there were lately, up to a thousand.
        usual: The longest that passed between two of those.
    """

    now: datetime
    missed: int
    since: datetime | None
    last_at: datetime | None
    events: int
    usual: timedelta | None


def silence(connection: Connection, source: str, *, span: timedelta, now: datetime | None = None) -> Silence:
    """Return how silent *source* is, with what sweeps found within *span*."""
    row = statements.one(connection, "silence", {"source": source, "span": span, "now": now})
    return Silence(row.now, row.missed, row.since, row.last_at, row.events, row.usual)


def latest_payloads(
    connection: Connection, source: str, *, span: timedelta, limit: int, now: datetime | None = None
) -> list[Body]:
    """Return the payloads of the newest events of *source* within *span*."""
    asked = {"source": source, "span": span, "limit": limit, "now": now}
    return [content.parse(row.payload) for row in statements.rows(connection, "latest_payloads", asked)]
