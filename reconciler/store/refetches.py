"""
The dirty set: one refetch per object, standing as long as the object does.

Wanting draws a number under the row's lock; a lease remembers the number, and settling closes the refetch only as far
as that. So bursts coalesce, one worker at a time looks at an object, and no wake-up is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from reconciler import content
from reconciler.model import ObjectRef, Reason
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from reconciler.model import Body, Verdict


FURTHEST = timedelta(hours=25)
"""No rule sets a reread further ahead: a time beyond that was set by a clock that stood wrong."""

_ANY_SHAPE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Want:
    """A wish to look at one object again, and why."""

    ref: ObjectRef
    reason: Reason
    locator: Body | None = None


@dataclass(slots=True)
class Pace:
    """
    When what is wanted in bulk comes due: so many a second of each source, one after the other.

    Attributes:
        rate: Objects a second.
        given: How many of each source have their time.
    """

    rate: float
    given: dict[str, int] = field(default_factory=dict)

    def next(self, source: str) -> timedelta:
        """Return how long from the beginning the next object of *source* waits."""
        number = self.given.get(source, 0)
        self.given[source] = number + 1
        return timedelta(seconds=number / self.rate)


@dataclass(frozen=True, slots=True)
class Alive:
    """A first live read over a tombstone: the position and the database's time at which it ended."""

    until: int
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Absent:
    """A first 404: the position and the database's time at which it ended."""

    until: int
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Older:
    """Live reads older than the row's stamp: how many, when the first began, where the last ended, its stamp."""

    reads: int
    began_at: datetime
    until: int
    stamp: datetime | None


@dataclass(frozen=True, slots=True)
class Seen:
    """
    What an object's ladders have seen so far; survives crashes and new wants.

    Attributes:
        behind: How many reads showed a state older than a notification promised.
        confirmed: The time of the newest event for which a confirming reread was queued.
    """

    alive: Alive | None = None
    older: Older | None = None
    absent: Absent | None = None
    behind: int = 0
    confirmed: datetime | None = None

    @property
    def until(self) -> int:
        """The furthest position that any of the guard's ladders has reached; -1: none has begun."""
        return max((note.until for note in (self.alive, self.older, self.absent) if note is not None), default=-1)

    def below(self, horizon: int) -> Seen:
        """Return it without ladders that reached *horizon*: they were climbed on a number line that is over."""
        return replace(
            self,
            alive=None if self.alive is not None and self.alive.until >= horizon else self.alive,
            older=None if self.older is not None and self.older.until >= horizon else self.older,
            absent=None if self.absent is not None and self.absent.until >= horizon else self.absent,
        )

    def climbed_down(self) -> Seen:
        """Return it without the guard's own ladders, for a row that has moved; those of events stay."""
        return replace(self, alive=None, older=None, absent=None)


@dataclass(frozen=True, slots=True)
class Ladders:
    """A locked refetch's `seen`: its ladders, and the times at which rereads are due."""

    seen: Seen = Seen()
    again: tuple[datetime, ...] = ()

    def after(self, began_at: datetime, *, now: datetime) -> tuple[datetime, ...]:
        """Return the times that a live read begun then leaves standing; what a wrong clock set is not among them."""
        return tuple(time for time in self.again if began_at < time <= now + FURTHEST)


@dataclass(frozen=True, slots=True)
class Again:
    """
    A reread to queue, or only what a read leaves for later ones.

    Attributes:
        at: When to look again; nothing before a time clears it.
        wants: The reread replaces the read that asked: it draws a number, for events and runs to wait on.
        seen: What the ladders have seen; None: as before.
        began_at: When the read that leaves this began; clears times up to it. None: it was no live read.
        moved: Our row has changed: where *seen* is None, the guard's ladders begin anew.
    """

    ref: ObjectRef
    at: tuple[datetime, ...]
    reason: Reason
    seen: Seen | None
    wants: bool
    began_at: datetime | None
    locator: Body | None = None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Leased:
    """
    One refetch that this worker alone works on until the lease ends.

    Attributes:
        wanted: The number remembered at the lease: what the read covers.
        read_from: Where the read begins.
        began_at: The database's clock at that moment.
        attempts: Reads that failed before this one.
        last_error: Why the one before this did, where it did.
        refused: Its kind could not be read the last time.
    """

    ref: ObjectRef
    wanted: int
    reason: Reason
    locator: Body | None
    seen: Seen
    token: UUID
    attempts: int
    read_from: int
    began_at: datetime
    last_error: str | None = None
    refused: bool = False


def keys(refs: Iterable[ObjectRef]) -> dict[str, Any]:
    """Return the key columns of *refs* as statement parameters."""
    chosen = list(refs)
    return {
        "source": [ref.source for ref in chosen],
        "scope": [ref.scope for ref in chosen],
        "kind": [ref.kind for ref in chosen],
        "id": [ref.id for ref in chosen],
    }


def key(ref: ObjectRef) -> dict[str, Any]:
    """Return the key columns of one ref as statement parameters."""
    return {"source": ref.source, "scope": ref.scope, "kind": ref.kind, "id": ref.id}


def want(connection: Connection, wants: Sequence[Want], *, now: datetime | None = None) -> dict[ObjectRef, int]:
    """
    Make every object due and return the number each drew; wakes the workers on commit.

    Several wants of one object draw one number. Where the sequence turns out to have been set back (a failover, a
    restore), it is moved on and the numbers are drawn again.
    """
    if not wants:
        return {}
    chosen = {each.ref: each for each in wants}
    parameters = keys(chosen) | {
        "reason": [str(each.reason) for each in chosen.values()],
        "locator": [_held(each.locator) for each in chosen.values()],
        "now": now,
    }
    drawn = statements.rows(connection, "want", parameters)
    behind = [row.wanted for row in drawn if row.drawn < row.wanted]
    if behind:
        outrun(connection, max(behind))
        drawn = statements.rows(connection, "want", parameters)
    statements.rows(connection, "notify_wanted")
    return {_ref(row): row.wanted for row in drawn}


def want_again(
    connection: Connection, refs: Iterable[ObjectRef], *, pace: Pace | None = None, now: datetime | None = None
) -> dict[ObjectRef, int]:
    """
    Want objects for a replay and return the number each drew; what nobody waits for yet comes due as *pace* says.

    A want of another reason in between makes it due at once.
    """
    chosen = sorted(set(refs))
    open_before = {_ref(row) for row in statements.rows(connection, "lock_open", keys(chosen))}
    wanted = want(connection, [Want(ref, Reason.REPLAY) for ref in chosen], now=now)
    waits = {} if pace is None else {ref: pace.next(ref.source) for ref in chosen if ref not in open_before}
    if any(waits.values()):
        moment = statements.one(connection, "clock", {"now": now}).now
        due = {ref: moment + wait for ref, wait in waits.items()}
        statements.run(connection, "put_off", keys(due) | {"due_at": list(due.values())})
    return wanted


def outrun(connection: Connection, beyond: int) -> None:
    """Move the sequence beyond a position that must come from before a failover or restore; never back."""
    statements.rows(connection, "lock_positions")
    statements.rows(connection, "advance_positions", {"beyond": beyond})


def due_kinds(
    connection: Connection,
    kinds: Mapping[tuple[str, str], int | None],
    *,
    sweep: bool,
    now: datetime | None = None,
) -> list[tuple[str, str]]:
    """
    Return the (source, kind) pairs of which a refetch is due in this lane, those first that have been due longest.

    *kinds* has them with the number of this process's shape, None for any: what `lease` would leave to a newer process
    is left out here too, or it would stand before everything else for ever.
    """
    parameters = {
        "source": [source for source, _ in kinds],
        "kind": [kind for _, kind in kinds],
        "n": [_ANY_SHAPE if n is None else n for n in kinds.values()],
        "sweep": sweep,
        "now": now,
    }
    return [(row.source, row.kind) for row in statements.rows(connection, "due_kinds", parameters)]


def lease(
    connection: Connection,
    source: str,
    kind: str,
    *,
    n: int,
    sweep: bool,
    lease: timedelta,
    now: datetime | None = None,
) -> Leased | None:
    """
    Lease the refetch of *kind* that has been due longest in this lane; None: there is none.

    *n* is the number of this process's shape: a kind that a newer process stores differently is left to that process.
    """
    parameters = {"source": source, "kind": kind, "n": n, "sweep": sweep, "lease": lease, "now": now}
    return leased_row(statements.row(connection, "lease", parameters))


def lease_one(
    connection: Connection, ref: ObjectRef, *, n: int, lease: timedelta, now: datetime | None = None
) -> Leased | None:
    """Lease the refetch of *ref*; None: it is not due, or somebody else has it."""
    return leased_row(statements.row(connection, "lease_one", key(ref) | {"n": n, "lease": lease, "now": now}))


def lock_seen(connection: Connection, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Ladders]:
    """Lock the refetches of *refs* in key order and return what they have seen; a ref without one is left out."""
    parameters = keys(refs)
    if not parameters["source"]:
        return {}
    return {_ref(row): _ladders(row.seen) for row in statements.rows(connection, "lock_refetches", parameters)}


def seen(connection: Connection, ref: ObjectRef) -> Seen:
    """Return what the ladders of *ref* have seen, without locking it."""
    found = statements.row(connection, "refetch", key(ref))
    return Seen() if found is None else _ladders(found.seen).seen


def read_again(connection: Connection, rereads: Sequence[Again], *, now: datetime) -> dict[ObjectRef, int]:
    """
    Queue rereads and keep what ladders have seen; return the numbers of those that want.

    Times that a live read has reached are cleared, all others stay: no want and no other reread moves them.
    """
    if not rereads:
        return {}
    fresh = [each.ref for each in rereads if each.at]
    if fresh:
        statements.run(connection, "open_refetches", keys(fresh) | {"now": now})
    locked = lock_seen(connection, [each.ref for each in rereads])
    left = {each.ref: _left(each, locked[each.ref], now) for each in rereads if each.ref in locked}
    chosen = [each for each in rereads if each.at or left.get(each.ref, Ladders()) != locked.get(each.ref, Ladders())]
    if not chosen:
        return {}
    parameters = keys(each.ref for each in chosen) | {
        "wants": [each.wants and bool(each.at) for each in chosen],
        "reason": [str(each.reason) for each in chosen],
        "due_at": [min(each.at, default=now) for each in chosen],
        "again_at": [min(left[each.ref].again, default=None) for each in chosen],
        "seen": [_told(left[each.ref]) for each in chosen],
        "locator": [_held(each.locator) for each in chosen],
    }
    drawn = statements.rows(connection, "read_again", parameters)
    if any(each.at for each in chosen):
        statements.rows(connection, "notify_wanted")
    wanting = {each.ref for each in chosen if each.wants and each.at}
    return {_ref(row): row.wanted for row in drawn if _ref(row) in wanting}


def settle(connection: Connection, leased: Leased, *, verdict: Verdict | None) -> bool:
    """Close the refetch as far as *leased* covers it; return whether the lease still held."""
    parameters = {"token": leased.token, "verdict": None if verdict is None else str(verdict)}
    return statements.row(connection, "settle", key(leased.ref) | parameters) is not None


def postpone(connection: Connection, leased: Leased, *, due_at: datetime, because: str, counts: bool) -> bool:
    """Give the lease back and look again at *due_at*; return whether the lease still held."""
    parameters = {"token": leased.token, "due_at": due_at, "because": _plain(because), "counts": counts}
    return statements.run(connection, "postpone", key(leased.ref) | parameters) > 0


def bury(connection: Connection, leased: Leased, *, because: str, now: datetime | None = None) -> bool:
    """Make a dead letter of the refetch, unless it was wanted since; return whether it is one now."""
    parameters = {"token": leased.token, "because": _plain(because), "now": now}
    found = statements.row(connection, "bury", key(leased.ref) | parameters)
    return found is not None and found.dead


def bury_unread(connection: Connection, ref: ObjectRef, *, because: str, now: datetime | None = None) -> int:
    """
    Make a dead letter of an object that was listed but cannot be stored; return its number.

    Where it is wanted already it stays so: events wait for the fetch, which may show more than the list did.
    """
    found = statements.one(connection, "bury_unread", key(ref) | {"because": _plain(because), "now": now})
    return int(found.wanted)


def free(connection: Connection, tokens: Sequence[UUID]) -> None:
    """Give back leases at once: their worker is stopping."""
    statements.run(connection, "free_leases", {"tokens": list(tokens)})


def unfreeze(connection: Connection, *, lease: timedelta) -> int:
    """Bring back times that only a wrong clock can have set; return how many rows had such."""
    return statements.run(connection, "unfreeze", {"lease": lease})


def _left(each: Again, before: Ladders, now: datetime) -> Ladders:
    """Return what the ladders of a locked refetch hold from now on."""
    seen = each.seen
    if seen is None:
        seen = before.seen.climbed_down() if each.moved else before.seen
    standing = before.again if each.began_at is None else before.after(each.began_at, now=now)
    # A wanting reread that is due at once needs no time of its own: its number makes it due.
    timed = [time for time in each.at if time > now or not each.wants]
    return Ladders(seen, tuple(sorted({*standing, *timed})))


def _ref(row: Row[Any]) -> ObjectRef:
    return ObjectRef(row.source, row.scope, row.kind, row.id)


def leased_row(row: Row[Any] | None) -> Leased | None:
    """Return the lease that a statement like `lease` returned; None where it leased nothing."""
    if row is None:
        return None
    return Leased(
        ref=_ref(row),
        wanted=row.wanted,
        reason=Reason(row.reason),
        locator=None if row.locator is None else content.parse(row.locator),
        seen=_ladders(row.seen).seen,
        token=row.lease_token,
        attempts=row.attempts,
        read_from=row.read_from,
        began_at=row.began_at,
        last_error=row.last_error,
        refused=row.refused,
    )


def _held(locator: Body | None) -> str | None:
    """Write a locator as PostgreSQL can hold it."""
    return None if locator is None else content.dumps(content.clean(locator)[0])


def _plain(because: str) -> str:
    """Return a reason as PostgreSQL can hold it: providers' answers are quoted in reasons."""
    return str(content.clean(because)[0])


def _told(ladders: Ladders) -> str | None:
    """Write what ladders have seen as `refetches.seen` holds it; None when there is nothing to tell."""
    seen = ladders.seen
    told: dict[str, Any] = {}
    if ladders.again:
        told["again"] = [time.isoformat() for time in ladders.again]
    for name, note in (("alive", seen.alive), ("absent", seen.absent)):
        if note is not None:
            told[name] = {"until": note.until, "ended_at": note.ended_at.isoformat()}
    if seen.older is not None:
        stamp = None if seen.older.stamp is None else seen.older.stamp.isoformat()
        began = seen.older.began_at.isoformat()
        told["older"] = {"reads": seen.older.reads, "began_at": began, "until": seen.older.until, "stamp": stamp}
    if seen.behind:
        told["behind"] = seen.behind
    if seen.confirmed is not None:
        told["confirmed"] = seen.confirmed.isoformat()
    return content.dumps(told) if told else None


def _ladders(text: str | None) -> Ladders:
    told: Mapping[str, Any] = {} if text is None else content.parse(text)
    seen = Seen(behind=told.get("behind", 0), confirmed=_time(told.get("confirmed")))
    if alive := told.get("alive"):
        seen = replace(seen, alive=Alive(alive["until"], datetime.fromisoformat(alive["ended_at"])))
    if absent := told.get("absent"):
        seen = replace(seen, absent=Absent(absent["until"], datetime.fromisoformat(absent["ended_at"])))
    if older := told.get("older"):
        began = datetime.fromisoformat(older["began_at"])
        seen = replace(seen, older=Older(older["reads"], began, older["until"], _time(older["stamp"])))
    return Ladders(seen, tuple(datetime.fromisoformat(time) for time in told.get("again", ())))


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
