"""
The inbox: notifications stored once, and what became of each.

An event is *open* until every object it names has been read as far as the event waits for; it is closed in the
transaction that applied the last of those reads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reconciler import content
from reconciler.model import ObjectRef, Reason, Verdict, Via
from reconciler.store import forgetting, pauses, refetches, statements
from reconciler.store.refetches import Want

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from reconciler.model import Body, Named, Notification
    from reconciler.store.refetches import Leased, Pace

_WAITS_FOR_NOTHING = 0
_REDONE = frozenset({None, "dead", "ignored"})
"""Outcomes whose repeat is looked at again; a repeat of any other is counted and answered."""
_NOT_ACTED_ON = frozenset({"ignored", "skipped"})


@dataclass(frozen=True, slots=True)
class Arrival:
    """A notification with what its delivery was: headers without signatures, our time of receipt."""

    notification: Notification
    headers: Mapping[str, str]
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Receipt:
    """
    What recording one arrival came to.

    Attributes:
        duplicate: The event had been stored before.
        declined: Objects whose row is already newer than the notification: on record, not read.
    """

    source: str
    event_id: str
    duplicate: bool
    ignored: bool
    declined: tuple[ObjectRef, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenEvent:
    """An event that a read may close, locked by this transaction."""

    event_id: str
    occurred_at: datetime | None
    received_at: datetime
    stamp: datetime | None


@dataclass(frozen=True, slots=True)
class Closed:
    """An event closed in this transaction, and when it was received."""

    event_id: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    What replaying some events came to.

    Attributes:
        events: How many were chosen.
        wanted: How many objects they name.
        last: The key of the last one; None: there was none.
    """

    events: int
    wanted: int
    last: tuple[str, str] | None


def receive(connection: Connection, arrivals: Sequence[Arrival], *, now: datetime | None = None) -> list[Receipt]:
    """
    Store each arrival's event once and want what it names; return a receipt for each, in order.

    Repeats are told apart in a second statement, which sees what racing copies wrote. A repeat of an event that is
    open or dead wants its objects again, one of an ignored event is mapped anew, one of any other is only counted. A
    stamped object whose living row is strictly newer than the notification is declined on record and not wanted. What
    is forgotten is not named, and an event that mentions it is stored without what it says. One that says that our
    access has changed wants a look at that, and is done with it.
    """
    arrivals = _without_forgotten(connection, arrivals)
    first = {_key(each): each for each in reversed(arrivals)}
    new = _insert(connection, list(first.values()))
    repeats = Counter(_key(each) for each in arrivals)
    repeats.subtract(new)
    stood = _count(connection, {key: first[key] for key in first if repeats[key] > 0}, repeats)
    looked_at = [each for key, each in first.items() if key in new or stood.get(key, "done") in _REDONE]
    declined = _name(connection, looked_at, now=now)
    forgetting.ask(connection, [(each.notification, each.received_at) for each in looked_at])
    pauses.want_looks(
        connection,
        [
            (each.notification.source, each.notification.access.scope, each.notification.access.what)
            for each in looked_at
            if each.notification.access is not None and not each.notification.skipped
        ],
    )
    receipts: list[Receipt] = []
    unseen = set(new)
    for each in arrivals:
        key = _key(each)
        duplicate = key not in unseen
        unseen.discard(key)
        ignored = _outcome(each.notification) in _NOT_ACTED_ON
        receipts.append(Receipt(*key, duplicate=duplicate, ignored=ignored, declined=declined.get(key, ())))
    return receipts


def lock(connection: Connection, leased: Leased) -> list[OpenEvent]:
    """Lock the events that the leased read may close, in key order: before objects, before refetches."""
    found = statements.rows(connection, "lock_events", refetches.key(leased.ref) | {"wanted": leased.wanted})
    return [OpenEvent(row.event_id, row.occurred_at, row.received_at, row.stamp) for row in found]


def payloads(connection: Connection, source: str, event_ids: Sequence[str]) -> dict[str, Body]:
    """Return the stored payloads of these events."""
    found = statements.rows(connection, "event_payloads", {"source": source, "event_ids": list(event_ids)})
    return {row.event_id: content.parse(row.payload) for row in found}


def defer(connection: Connection, ref: ObjectRef, event_ids: Sequence[str], *, wanted: int) -> None:
    """Let these locked events wait for the reread of *ref* with this number."""
    if event_ids:
        parameters = refetches.key(ref) | {"event_ids": list(event_ids), "wanted": wanted}
        statements.run(connection, "defer_events", parameters)


def close(
    connection: Connection, source: str, event_ids: Sequence[str], *, now: datetime, ahead: Iterable[str] = ()
) -> list[Closed]:
    """
    Close those of these locked events whose objects are all read; *ahead* promised a state that never showed.

    Call it after the refetches are settled: it counts what they say now.
    """
    if not event_ids:
        return []
    parameters = {"source": source, "event_ids": list(event_ids), "ahead": list(ahead), "now": now}
    return [Closed(row.event_id, row.received_at) for row in statements.rows(connection, "close_events", parameters)]


def kill(connection: Connection, source: str, event_ids: Sequence[str], *, because: str, now: datetime) -> None:
    """Give these locked events up: an object they name is a dead letter."""
    if event_ids:
        parameters = {"source": source, "event_ids": list(event_ids), "because": because, "now": now}
        statements.run(connection, "kill_events", parameters)


def replay(
    connection: Connection,
    *,
    event_ids: Sequence[str] | None = None,
    source: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    since: datetime | None = None,
    after: tuple[str, str] = ("", ""),
    limit: int | None = None,
    pace: Pace | None = None,
    now: datetime | None = None,
) -> Replayed:
    """
    Open the chosen events again and want what they name; safe to repeat.

    *after* is the key of the event that went before; at most *limit* follow it. What nobody wanted before comes due as
    *pace* says, at once where there is none.
    """
    forgetting.among(connection, ())  # what events name from here on is not forgotten meanwhile
    asked: dict[str, Any] = {
        "event_ids": None if event_ids is None else list(event_ids),
        "source": source,
        "kind": kind,
        "state": state,
        "since": since,
        "after_source": after[0],
        "after_id": after[1],
        "limit": limit,
    }
    chosen = statements.rows(connection, "events_to_replay", asked)
    last = (chosen[-1].source, chosen[-1].event_id) if chosen else None
    events = {"source": [row.source for row in chosen], "event_id": [row.event_id for row in chosen]}
    named = statements.rows(connection, "named_objects", events)
    if not named:
        return Replayed(len(chosen), 0, last)
    with_objects = {(row.source, row.event_id) for row in named}
    keys = {"source": [key[0] for key in with_objects], "event_id": [key[1] for key in with_objects]}
    statements.run(connection, "reopen_events", keys)
    wanted = refetches.want_again(connection, [_ref(row) for row in named], pace=pace, now=now)
    _wait(connection, [(row.source, row.event_id, _ref(row), wanted[_ref(row)], row.stamp) for row in named])
    return Replayed(len(chosen), len(wanted), last)


def _key(arrival: Arrival) -> tuple[str, str]:
    return arrival.notification.source, arrival.notification.event_id


def _ref(row: Row[Any]) -> ObjectRef:
    return ObjectRef(row.source, row.scope, row.kind, row.id)


def _outcome(notification: Notification) -> str | None:
    if notification.skipped:
        return "skipped"
    if notification.named or notification.erasure:
        return None
    return "ignored" if notification.access is None else "done"


def _without_forgotten(connection: Connection, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the arrivals without what is forgotten, and without what they say where they say anything of it."""
    told = [each.notification for each in arrivals]
    found = forgetting.among(connection, [about.ref for each in told for about in each.named])
    saying = forgetting.mentioning(connection, told) if found.any else set()
    kept = []
    for place, each in enumerate(arrivals):
        note = each.notification
        named = tuple(about for about in note.named if about.ref not in found.refs)
        if place in saying or len(named) < len(note.named) or note.erasure is not None:
            kept.append(replace(each, notification=replace(note, named=named, payload={}, raw=None), headers={}))
        else:
            kept.append(each)
    return kept


def _insert(connection: Connection, arrivals: Sequence[Arrival]) -> set[tuple[str, str]]:
    told = [each.notification for each in arrivals]
    parameters = {
        "source": [each.source for each in told],
        "event_id": [each.event_id for each in told],
        "event_type": [each.event_type for each in told],
        "payload": [content.dumps(each.payload) for each in told],
        "headers": [content.dumps(content.clean(dict(each.headers))[0]) for each in arrivals],
        "raw": [each.raw for each in told],
        "occurred_at": [each.occurred_at for each in told],
        "received_at": [each.received_at for each in arrivals],
        "outcome": [_outcome(each) for each in told],
        "secret": [each.secret for each in told],
    }
    return {(row.source, row.event_id) for row in statements.rows(connection, "insert_events", parameters)}


def _count(
    connection: Connection, repeated: Mapping[tuple[str, str], Arrival], repeats: Counter[tuple[str, str]]
) -> dict[tuple[str, str], str | None]:
    """Count the repeats and return how each event stood before."""
    if not repeated:
        return {}
    events = {"source": [key[0] for key in repeated], "event_id": [key[1] for key in repeated]}
    stood = {(row.source, row.event_id): row.outcome for row in statements.rows(connection, "lock_repeats", events)}
    outcomes = [
        _outcome(each.notification) if stood.get(key, "done") in _REDONE else stood[key]
        for key, each in repeated.items()
    ]
    parameters = events | {
        "repeats": [repeats[key] for key in repeated],
        "received_at": [each.received_at for each in repeated.values()],
        "outcome": outcomes,
    }
    statements.run(connection, "count_repeats", parameters)
    return stood


def _name(
    connection: Connection, arrivals: Sequence[Arrival], *, now: datetime | None
) -> dict[tuple[str, str], tuple[ObjectRef, ...]]:
    """Want what the arrivals name, except what is older than our row; return those exceptions by event."""
    named = _named(arrivals)
    if not named:
        return {}
    older = _older(connection, named, now=now)
    fresh = [Want(about.ref, Reason.WEBHOOK, about.locator) for key, about in named if (key, about.ref) not in older]
    wanted = refetches.want(connection, fresh, now=now)
    waits = [
        (*key, about.ref, _WAITS_FOR_NOTHING if (key, about.ref) in older else wanted[about.ref], about.stamp)
        for key, about in named
    ]
    _wait(connection, waits)
    declined: dict[tuple[str, str], tuple[ObjectRef, ...]] = {}
    for key, ref in older:
        declined[key] = (*declined.get(key, ()), ref)
    for source in {source for source, _ in declined}:
        moment = _now(connection, now)
        close(connection, source, [event_id for owner, event_id in declined if owner == source], now=moment)
    return declined


def _named(arrivals: Sequence[Arrival]) -> list[tuple[tuple[str, str], Named]]:
    """Return what each arrival names, once; of two mentions the newer counts, and one without a stamp above all."""
    found: dict[tuple[tuple[str, str], ObjectRef], Named] = {}
    for arrival in arrivals:
        for about in () if arrival.notification.skipped else arrival.notification.named:
            mentioned = found.setdefault((_key(arrival), about.ref), about)
            if mentioned.stamp is not None and (about.stamp is None or about.stamp > mentioned.stamp):
                found[_key(arrival), about.ref] = about
    return [(key, about) for (key, _), about in found.items()]


def _older(
    connection: Connection,
    named: Sequence[tuple[tuple[str, str], Named]],
    *,
    now: datetime | None,
) -> set[tuple[tuple[str, str], ObjectRef]]:
    """Put on record, and return, which named objects our rows have already gone beyond."""
    stamped = [(key, about) for key, about in named if about.stamp is not None]
    if not stamped:
        return set()
    parameters = refetches.keys(about.ref for _, about in stamped) | {
        "event_id": [key[1] for key, _ in stamped],
        "stamp": [about.stamp for _, about in stamped],
    }
    newer = statements.rows(connection, "newer_rows", parameters)
    if newer:
        declined = refetches.keys(_ref(row) for row in newer) | {
            "verdict": [str(Verdict.DECLINED)] * len(newer),
            "because": ["the notification is older than our row"] * len(newer),
            "incoming_source_updated_at": [row.stamp for row in newer],
            "stored_source_updated_at": [row.source_updated_at for row in newer],
            "incoming_read_from": [None] * len(newer),
            "incoming_read_until": [None] * len(newer),
            "stored_read_from": [row.read_from for row in newer],
            "stored_read_until": [row.read_until for row in newer],
            "event_id": [row.event_id for row in newer],
            "via": str(Via.PAYLOAD),
            "run_id": None,
            "now": _now(connection, now),
        }
        statements.run(connection, "insert_declined", declined)
    return {((row.source, row.event_id), _ref(row)) for row in newer}


def _wait(connection: Connection, waits: Sequence[tuple[str, str, ObjectRef, int, datetime | None]]) -> None:
    parameters = refetches.keys(ref for _, _, ref, _, _ in waits) | {
        "event_id": [event_id for _, event_id, _, _, _ in waits],
        "wanted": [wanted for _, _, _, wanted, _ in waits],
        "stamp": [stamp for _, _, _, _, stamp in waits],
    }
    statements.run(connection, "insert_event_objects", parameters)


def _now(connection: Connection, now: datetime | None) -> datetime:
    told: datetime = statements.one(connection, "clock", {"now": now}).now
    return told
