"""
What is forgotten for good: every copy of an object erased at once, and a marker that keeps it from coming back.

Whoever writes about objects asks first which of them are forgotten, and with that holds off forgetting until its
transaction ends. Whoever forgets waits until nobody writes and lets nobody begin. So what was written before is erased,
and what would be written after is known to be forgotten: there is nothing in between.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import OperationalError

from reconciler import content, times
from reconciler.adapter import links
from reconciler.errors import DatabaseUnavailable
from reconciler.model import ObjectRef
from reconciler.store import refetches, statements
from reconciler.store.database import sqlstate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from reconciler.adapter import Kind
    from reconciler.model import JSON, Body, Notification
    from reconciler.store.database import Database

BECAUSE: Final = "it was forgotten"
"""What is said of a read of something that is forgotten."""

_IN_USE: Final = "55P03"
_TRIES: Final = 100
_PIECE: Final = 100  # ids in one pattern
_SHORTEST_MENTION: Final = 6  # shorter ids are numbers that mean anything
_CLOCKS_DIFFER: Final = timedelta(minutes=10)
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_MENTION: Final = re.compile(r"[\w:.-]{6,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Among:
    """
    Which of some objects are forgotten.

    Attributes:
        any: Something is, though it need not be one of them.
    """

    refs: frozenset[ObjectRef] = frozenset()
    any: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """
    What was forgotten, without saying whose it was.

    Attributes:
        erased: How many rows of each table went; of `webhook_events`, how many say nothing any more.
        markers: What keeps each object from coming back, in order.
        proof: Vouches for all of this; only this mirror can make it.
    """

    source: str
    kinds: Mapping[str, int]
    at: datetime
    erased: Mapping[str, int]
    markers: Sequence[str]
    proof: str = ""

    def told(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "source": self.source,
            "at": times.iso(self.at),
            "kinds": dict(sorted(self.kinds.items())),
            "erased": dict(sorted(self.erased.items())),
            "markers": list(self.markers),
            "proof": self.proof,
        }


@dataclass(slots=True)
class _Going:
    """One forgetting under way: what is to go, and what went so far."""

    source: str
    done: set[ObjectRef] = field(default_factory=set)
    erased: dict[str, int] = field(default_factory=dict)
    markers: set[str] = field(default_factory=set)


def among(connection: Connection, refs: Iterable[ObjectRef], *, by_link: bool = False) -> Among:
    """
    Return which of *refs* are forgotten, *by_link* only those that what is linked to them follows.

    Nothing else is forgotten until this transaction ends: ask before the first row is locked or written.
    """
    chosen = list(dict.fromkeys(refs))
    found = statements.rows(connection, "forgotten_among", refetches.keys(chosen) | {"by_link": by_link})
    places = [row.place for row in found]
    return Among(frozenset(chosen[place - 1] for place in places if place), any=bool(places))


def among_bodies(connection: Connection, bodies: Iterable[tuple[ObjectRef, Kind, Body | None]]) -> frozenset[ObjectRef]:
    """Return which of these objects are forgotten, or linked to something that was forgotten with all that is."""
    every = list(bodies)
    found = among(connection, [ref for ref, _, _ in every])
    if not found.any:
        return frozenset()
    linked = {ref: _linked(ref, kind, body) for ref, kind, body in every if body is not None}
    others = among(connection, (other for refs in linked.values() for other in refs), by_link=True).refs
    return found.refs | {ref for ref, refs in linked.items() if not others.isdisjoint(refs)}


def mentioning(connection: Connection, told: Sequence[Notification]) -> set[int]:
    """Return the places of those notifications whose payload mentions something that is forgotten."""
    forgetting = {row.name for row in statements.rows(connection, "sources_forgetting")}
    texts = [
        (place, each.source, text)
        for place, each in enumerate(told)
        if each.source in forgetting
        for text in set(_texts(each.payload))
    ]
    if not texts:
        return set()
    places, sources, words = zip(*texts, strict=True)
    asked = {"place": list(places), "source": list(sources), "told": list(words)}
    return {row.place for row in statements.rows(connection, "mentioned_among", asked)}


def related(connection: Connection, ref: ObjectRef, kinds: Mapping[str, Kind]) -> list[ObjectRef]:
    """Return *ref* and all that is linked to it by the kinds' own columns, and to that, as far as the mirror shows."""
    found, fresh = {ref}, {ref}
    while fresh:
        linking = {
            ObjectRef(ref.source, ref.scope, kind.name, row.id)
            for kind in kinds.values()
            for name, pointers in links(kind)
            if (ids := [each.id for each in fresh if each.kind == name])
            for pointer in pointers
            for row in statements.rows(
                connection,
                "linked_objects",
                {
                    "source": ref.source,
                    "scope": ref.scope,
                    "kind": kind.name,
                    "path": content.steps(pointer),
                    "ids": ids,
                },
            )
        }
        fresh = linking - found
        found |= fresh
    return sorted(found)


def forget(
    database: Database,
    chosen: Mapping[ObjectRef, bool],
    kinds: Mapping[str, Kind],
    *,
    event_id: str | None = None,
    now: datetime | None = None,
) -> Receipt:
    """
    Erase every copy of these objects of one source, of which True are taken with what is linked to them.

    All that is found goes in one transaction, with *event_id*'s wish. What was linked while it was looked for goes in
    another right after: the markers keep out whatever comes later. Safe to repeat, at any moment. Raises
    `DatabaseUnavailable` where the rows stay in use.
    """
    [source] = {ref.source for ref in chosen}
    going = _Going(source)
    while True:
        began, refs, saying = database.commit(partial(_looked_for, chosen, kinds, going))
        if going.done >= refs.keys():
            break
        _erase(database, going, refs, saying, event_id=event_id, began=began, now=now)
    return database.commit(partial(_receipt, going, now))


def holds(connection: Connection, told: Mapping[str, Any]) -> bool:
    """Say whether a receipt, as `Receipt.told` gave it, is of this mirror and unchanged, and all its markers stand."""
    markers = told.get("markers")
    if not isinstance(markers, list) or not all(isinstance(each, str) for each in markers):
        return False
    proof = statements.one(connection, "prove", {"told": _proved({**told, "proof": ""})}).proof
    asked = {"source": str(told.get("source")), "markers": markers}
    standing = statements.one(connection, "standing_markers", asked).standing
    return proof is not None and bool(proof == told.get("proof")) and bool(standing == len(markers))


def _looked_for(
    chosen: Mapping[ObjectRef, bool], kinds: Mapping[str, Kind], going: _Going, connection: Connection
) -> tuple[datetime, dict[ObjectRef, bool], list[str]]:
    """Return since when was looked, what is to go (True: with what is linked), and the events that mention it."""
    began = statements.one(connection, "clock", {"now": None}).now
    refs = dict(chosen)
    for ref, with_related in chosen.items():
        if with_related:
            refs |= dict.fromkeys(related(connection, ref, kinds), True)
    fresh = [ref for ref in refs if ref not in going.done]
    return began, refs, _saying(connection, going.source, fresh, since=_FIRST)


def _saying(connection: Connection, source: str, refs: Iterable[ObjectRef], *, since: datetime) -> list[str]:
    ids = sorted({ref.id for ref in refs if len(ref.id) >= _SHORTEST_MENTION})
    found: set[str] = set()
    for start in range(0, len(ids), _PIECE):
        pattern = "|".join(map(re.escape, ids[start : start + _PIECE]))
        asked = {"source": source, "since": since, "pattern": rf"(^|\W)({pattern})(\W|$)"}
        found |= {row.event_id for row in statements.rows(connection, "saying_events", asked)}
    return sorted(found)


def _erase(
    database: Database,
    going: _Going,
    refs: Mapping[ObjectRef, bool],
    saying: Sequence[str],
    *,
    event_id: str | None,
    began: datetime,
    now: datetime | None,
) -> None:
    """Erase in one transaction, tried again while somebody uses a row and may be waiting for us."""

    def work(connection: Connection) -> None:
        statements.rows(connection, "lock_forgetting")
        statements.rows(connection, "give_way")
        late = _saying(connection, going.source, refs, since=began - _CLOCKS_DIFFER)
        keys = {key: value for key, value in refetches.keys(refs).items() if key != "source"}
        moment = statements.one(connection, "clock", {"now": now}).now
        told = keys | {"source": going.source, "now": moment}
        erased = statements.rows(connection, "forget_objects", told | {"event_ids": [*saying, *late]})
        marked = statements.rows(connection, "mark_forgotten", told | {"related": list(refs.values())})
        if event_id is not None:
            end_erasure(connection, going.source, event_id, outcome="done")
        going.done |= refs.keys()
        going.markers |= {row.marker for row in marked}
        for row in erased:
            going.erased[row.name] = going.erased.get(row.name, 0) + row.gone

    for _ in range(_TRIES):
        try:
            database.commit(work)
        except OperationalError as error:
            if sqlstate(error) != _IN_USE:
                raise
            time.sleep(random.uniform(0.02, 0.1))  # noqa: S311 - so that whoever was in the way gets on
        else:
            return
    raise DatabaseUnavailable("what is to be forgotten stays in use; give the command again")


def _receipt(going: _Going, now: datetime | None, connection: Connection) -> Receipt:
    kinds: dict[str, int] = {}
    for ref in going.done:
        kinds[ref.kind] = kinds.get(ref.kind, 0) + 1
    at = statements.one(connection, "clock", {"now": now}).now
    receipt = Receipt(going.source, kinds, at, going.erased, sorted(going.markers))
    proof = statements.one(connection, "prove", {"told": _proved(receipt.told())}).proof
    return Receipt(going.source, kinds, at, going.erased, sorted(going.markers), proof)


def _proved(told: Mapping[str, Any]) -> str:
    """Write a receipt for its proof, whatever order it was read in."""
    return content.dumps(
        [[key, sorted(value.items()) if isinstance(value, dict) else value] for key, value in sorted(told.items())]
    )


# --- what providers ask for ---


@dataclass(frozen=True, slots=True)
class Wish:
    """What a provider's event asks to be forgotten: these objects (True: with what is linked), or the whole source."""

    source: str
    event_id: str
    whole: bool
    objects: Mapping[ObjectRef, bool]


def ask(connection: Connection, told: Iterable[tuple[Notification, datetime]]) -> None:
    """Note what these notifications, received then, ask us to forget; once for each event."""
    asked = [(each, each.erasure, at) for each, at in told if each.erasure is not None]
    if not asked:
        return
    parameters = {
        "source": [each.source for each, _, _ in asked],
        "event_id": [each.event_id for each, _, _ in asked],
        "whole": [erasure.whole for _, erasure, _ in asked],
        "objects": [
            content.dumps(
                [
                    {"scope": ref.scope, "kind": ref.kind, "id": ref.id, "related": with_related}
                    for ref, with_related in erasure.objects
                ]
            )
            for _, erasure, _ in asked
        ],
        "at": [at for _, _, at in asked],
    }
    statements.run(connection, "ask_erasures", parameters)


def wishes(connection: Connection, sources: Sequence[str], *, now: datetime | None = None) -> list[Wish]:
    """Return what these sources ask to be forgotten and it is time to."""
    return [
        Wish(row.source, row.event_id, row.whole, dict(_wished(row.source, row.objects)))
        for row in statements.rows(connection, "due_erasures", {"sources": list(sources), "now": now})
    ]


def end_erasure(
    connection: Connection, source: str, event_id: str, *, outcome: str, because: str | None = None
) -> None:
    """Note that an event's wish is done, or why it is not going to be."""
    told = {"source": source, "event_id": event_id, "outcome": outcome, "because": because}
    statements.run(connection, "end_erasure", told)


def postpone_erasure(connection: Connection, source: str, event_id: str, *, because: str) -> None:
    """Try an event's wish again in a while."""
    told = {"source": source, "event_id": event_id, "because": because}
    statements.run(connection, "postpone_erasure", told)


def _wished(source: str, objects: str) -> Iterator[tuple[ObjectRef, bool]]:
    for each in content.parse(objects):
        yield ObjectRef(source, each["scope"], each["kind"], each["id"]), each["related"]


def _linked(ref: ObjectRef, kind: Kind, body: Body) -> set[ObjectRef]:
    """Return what the columns of *kind* say that *body* is linked to."""
    return {
        ObjectRef(ref.source, ref.scope, name, told)
        for name, pointers in links(kind)
        for pointer in pointers
        if (told := _tail(content.find(body, pointer)))
    }


def _texts(tree: JSON) -> Iterator[str]:
    """Yield every text and whole number in *tree* that may be an id, or ends with one as paths do."""
    todo: list[JSON] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict | list):
            todo += node.values() if isinstance(node, dict) else node
        elif (told := _tail(node)) and _MENTION.fullmatch(told):
            yield told


def _tail(value: JSON) -> str:
    """Return the id that a value is, or that a path such as a gid ends with; empty where it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return re.sub(r"^.*/|[?].*$", "", value, flags=re.DOTALL) if isinstance(value, str) else ""
