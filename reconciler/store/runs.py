"""Runs: who sweeps which kind, what a run waits for, what it found, and how far each kind is swept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from reconciler import content
from reconciler.errors import ReconcilerError
from reconciler.model import ObjectRef
from reconciler.store import forgetting, refetches, shares, statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from reconciler.model import Body, Hint
    from reconciler.store.refetches import Leased

HOLD = timedelta(seconds=60)
"""How long a kind stays held after the last sign of its run."""

_PIECE = 10_000


class RunHeld(ReconcilerError):
    """
    Another run holds a kind that was asked for.

    Attributes:
        run_id: That run.
        since: Since when it holds the kind.
    """

    def __init__(self, *, run_id: int, source: str, kind: str, since: datetime) -> None:
        super().__init__(f"run {run_id} has been sweeping {source}/{kind} since {since.isoformat(timespec='seconds')}")
        self.run_id = run_id
        self.source = source
        self.kind = kind
        self.since = since


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that has begun, and the database's clock when it did."""

    run_id: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Drift:
    """A row that had to be corrected: what was wrong, why (as far as known), and where it differed."""

    ref: ObjectRef
    what: str
    cause: str
    diff: Sequence[Body]


@dataclass(frozen=True, slots=True)
class Left:
    """
    What a run still waits for of one kind.

    Attributes:
        next_at: When the next of them can be read; None: none can.
    """

    source: str
    kind: str
    open: int
    paused: int
    next_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class Asking:
    """A run that waits for an object, and when the object changed by the feed that named it."""

    run_id: int
    changed_at: datetime | None


def begin(
    connection: Connection,
    kinds: Sequence[tuple[str, str]],
    *,
    trigger: str,
    since: datetime | None,
    until: datetime | None,
    dry_run: bool,
    asked: Mapping[str, Any],
) -> Begun:
    """
    Begin a run that holds these (source, kind) pairs; raises `RunHeld` if another holds one of them.

    Runs whose process is gone are marked abandoned on the way.
    """
    abandon(connection)
    parameters = {
        "trigger": trigger,
        "since": since,
        "until": until,
        "dry_run": dry_run,
        "asked": content.dumps(dict(asked)),
    }
    row = statements.one(connection, "insert_run", parameters)
    pairs: dict[str, Any] = {"source": [source for source, _ in kinds], "kind": [kind for _, kind in kinds]}
    held = statements.rows(connection, "hold_kinds", pairs | {"run_id": row.id, "hold": HOLD})
    if len(held) < len(kinds):
        other = statements.one(connection, "first_holder", pairs | {"run_id": row.id})
        raise RunHeld(run_id=other.run_id, source=other.source, kind=other.kind, since=other.since)
    if not dry_run:
        statements.run(connection, "ask_due", pairs | {"run_id": row.id})
    return Begun(row.id, row.started_at)


def abandon(connection: Connection) -> list[int]:
    """Mark the runs whose process is gone; return them."""
    gone = [row.id for row in statements.rows(connection, "abandon_runs", {"hold": HOLD})]
    shares.leave_to_others(connection, gone)
    return gone


def renew(connection: Connection, run_id: int) -> bool:
    """Keep holding the run's kinds; return whether it still holds any."""
    return statements.run(connection, "renew_kinds", {"run_id": run_id, "hold": HOLD}) > 0


def tally(connection: Connection, run_id: int, tallies: Mapping[str, Any]) -> None:
    """Put on record how far the run has come."""
    statements.run(connection, "tally_run", {"run_id": run_id, "tallies": content.dumps(dict(tallies))})


def finish(
    connection: Connection, run_id: int, *, state: str, tallies: Mapping[str, Any], because: str | None
) -> Sequence[Row[Any]]:
    """End the run: say why its drift came about, and let its kinds go; return the drift, counted by why."""
    statements.run(connection, "settle_causes", {"run_id": run_id})
    told = {"run_id": run_id, "state": state, "tallies": content.dumps(dict(tallies)), "because": because}
    statements.run(connection, "finish_run", told)
    statements.run(connection, "free_kinds", {"run_id": run_id})
    shares.leave_to_others(connection, [run_id])
    return statements.rows(connection, "run_drift", {"run_id": run_id})


def watermarks(connection: Connection, source: str) -> dict[tuple[str, str], datetime]:
    """Return up to when each (scope, kind) of *source* is fully swept."""
    found = statements.rows(connection, "watermarks", {"source": source})
    return {(row.scope, row.kind): row.swept_until for row in found}


def move_watermark(connection: Connection, source: str, scope: str, kind: str, *, swept_until: datetime) -> None:
    """Say up to when the kind is fully swept; never moves back."""
    told = {"source": source, "scope": scope, "kind": kind, "swept_until": swept_until}
    statements.run(connection, "move_watermark", told)


def known(connection: Connection, hints: Sequence[Hint]) -> set[tuple[str, ObjectRef]]:
    """Return the (event id, ref) of those hints that our rows have answered already: they cost nothing."""
    told = [hint for hint in hints if hint.event_id is not None]
    if not told:
        return set()
    parameters = refetches.keys(hint.ref for hint in told) | {"event_id": [hint.event_id for hint in told]}
    source = told[0].ref.source
    return {
        (row.event_id, ObjectRef(source, row.scope, row.kind, row.id))
        for row in statements.rows(connection, "known_hints", parameters)
    }


def ask(connection: Connection, run_id: int, hints: Sequence[Hint], wanted: Mapping[ObjectRef, int]) -> None:
    """Let the run wait for these objects to be read; those that are forgotten never are."""
    newest: dict[ObjectRef, Hint] = {}
    forgotten = forgetting.among(connection, [hint.ref for hint in hints]).refs if hints else frozenset()
    for hint in hints:
        if hint.ref in forgotten:
            continue
        before = newest.get(hint.ref)
        if before is None or (hint.changed_at and before.changed_at and hint.changed_at > before.changed_at):
            newest[hint.ref] = hint
    if newest:
        parameters = refetches.keys(newest) | {
            "run_id": run_id,
            "wanted": [wanted[ref] for ref in newest],
            "event_id": [hint.event_id for hint in newest.values()],
            "changed_at": [hint.changed_at for hint in newest.values()],
        }
        statements.run(connection, "ask_run_objects", parameters)


def asking(connection: Connection, leased: Leased) -> list[Asking]:
    """Return the runs that wait for what is read, or for a later read of it."""
    found = statements.rows(connection, "asking_runs", refetches.key(leased.ref))
    return [Asking(row.run_id, row.changed_at) for row in found]


def answer(connection: Connection, leased: Leased, *, verdict: str) -> None:
    """Tell the runs that wait for the leased read what it came to."""
    told = {"wanted": leased.wanted, "verdict": verdict}
    statements.run(connection, "answer_runs", refetches.key(leased.ref) | told)


def defer(connection: Connection, leased: Leased, *, later: int) -> None:
    """Let the runs that wait for the leased read wait for its reread."""
    told = {"wanted": leased.wanted, "later": later}
    statements.run(connection, "defer_runs", refetches.key(leased.ref) | told)


def left(connection: Connection, run_id: int) -> list[Left]:
    """Answer what others have read or buried meanwhile, and return what the run still waits for."""
    statements.run(connection, "answer_read", {"run_id": run_id})
    found = statements.rows(connection, "left_in_run", {"run_id": run_id})
    return [Left(row.source, row.kind, row.open, row.paused, row.next_at, row.now) for row in found]


def lease(connection: Connection, run_id: int, source: str, kind: str, *, n: int, lease: timedelta) -> Leased | None:
    """Lease a due refetch of *kind* that this run waits for; None: there is none."""
    parameters = {"run_id": run_id, "source": source, "kind": kind, "n": n, "lease": lease}
    return refetches.leased_row(statements.row(connection, "lease_in_run", parameters))


def verdicts(connection: Connection, run_id: int) -> dict[tuple[str, str, str], dict[str, int]]:
    """Return what became of the run's wanted objects: counts by (source, scope, kind) and verdict."""
    counted: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in statements.rows(connection, "run_verdicts", {"run_id": run_id}):
        counted.setdefault((row.source, row.scope, row.kind), {})[row.verdict] = row.objects
    return counted


def living(connection: Connection, source: str, scope: str, kind: str, *, before: int) -> Iterator[str]:
    """Yield the ids of the kind's living rows that were read before a position, in pieces."""
    parameters = {"source": source, "scope": scope, "kind": kind, "before": before, "limit": _PIECE}
    after = ""
    while found := statements.rows(connection, "living_ids", parameters | {"after": after}):
        yield from (row.id for row in found)
        after = found[-1].id


def unfinished(
    connection: Connection,
    source: str,
    scope: str,
    kind: str,
    *,
    pointer: str,
    values: frozenset[str],
    before: int,
    limit: int,
) -> list[str]:
    """
    Return the ids of the kind's living rows that are still open: their body shows one of *values* at *pointer*.

    Only of rows that were read before a position, and so many at most: those that were read longest ago.
    """
    path = pointer.split("/")[1:]
    parameters = {"source": source, "scope": scope, "kind": kind, "path": path, "values": sorted(values)}
    return [
        row.id for row in statements.rows(connection, "unfinished_ids", parameters | {"before": before, "limit": limit})
    ]


def drifted(connection: Connection, found: Sequence[Drift], *, run_id: int | None, repaired: bool) -> None:
    """Put drift on record, but of what is forgotten."""
    forgotten = forgetting.among(connection, [each.ref for each in found]).refs if found else frozenset()
    found = [each for each in found if each.ref not in forgotten]
    if found:
        parameters = refetches.keys(each.ref for each in found) | {
            "what": [each.what for each in found],
            "cause": [each.cause for each in found],
            "diff": [content.dumps(list(each.diff)) for each in found],
            "run_id": run_id,
            "repaired": repaired,
        }
        statements.run(connection, "insert_drift", parameters)


def stored(connection: Connection, refs: Sequence[ObjectRef]) -> dict[ObjectRef, Row[Any]]:
    """Return the rows of these objects, unlocked, for comparing without writing."""
    if not refs:
        return {}
    found = statements.rows(connection, "stored_rows", refetches.keys(refs))
    return {ObjectRef(row.source, row.scope, row.kind, row.id): row for row in found}


def told(
    connection: Connection, refs: Sequence[ObjectRef], hints: Sequence[Hint]
) -> dict[ObjectRef, list[datetime | None]]:
    """Return when each of *refs* changed as open events and *hints* tell."""
    changed: dict[ObjectRef, list[datetime | None]] = {ref: [] for ref in refs}
    for row in statements.rows(connection, "open_events_of", refetches.keys(refs)) if refs else ():
        changed[ObjectRef(row.source, row.scope, row.kind, row.id)].append(row.occurred_at)
    for hint in hints:
        if hint.ref in changed:
            changed[hint.ref].append(hint.changed_at)
    return changed


def newest_shape(connection: Connection, source: str, kind: str) -> int:
    """Return the number of the kind's current shape."""
    return int(statements.one(connection, "newest_shape", {"source": source, "kind": kind}).n)


def pin(connection: Connection, source: str, *, provider: str, account: str) -> str:
    """Pin *account* to *source* if this is the first contact; return the account that is pinned."""
    told = {"source": source, "provider": provider, "account": account}
    return str(statements.one(connection, "pin_account", told).account)


def loading(connection: Connection, run_ids: Sequence[int]) -> frozenset[tuple[str, str]]:
    """Return the (source, kind) pairs that these runs load for the first time: what is new there is no drift."""
    found = statements.rows(connection, "loading_kinds", {"run_ids": list(run_ids)})
    return frozenset((row.source, row.kind) for row in found)


def count_left(connection: Connection, run_id: int) -> int:
    """Return how many objects the run still waits for."""
    return int(statements.one(connection, "count_left", {"run_id": run_id}).objects)


def missed(connection: Connection, hints: Sequence[Hint]) -> frozenset[ObjectRef]:
    """Return the objects of those hints whose event was never received."""
    told = [hint for hint in hints if hint.event_id is not None]
    if not told:
        return frozenset()
    parameters = {"source": told[0].ref.source, "event_ids": [hint.event_id for hint in told]}
    received = {row.event_id for row in statements.rows(connection, "received_events", parameters)}
    return frozenset(hint.ref for hint in told if hint.event_id not in received)
