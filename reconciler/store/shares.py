"""
How much of a kind may go at once: a share of it, within an hour, and what is beyond that is held back.

Whoever lets objects go locks their kind first, and counts what went in the database: so however many processes there
are, they let go no more than one would. A stop stands as long as anything is held back; a run that was told so ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reconciler.model import ObjectRef
from reconciler.store import refetches, statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from reconciler.store.refetches import Leased

WITHIN = timedelta(hours=1)
"""The time in which what goes is added up."""

DECIDED_WITHIN = timedelta(hours=24)
"""A run that has not said by then whether its absences may go never will: whoever comes reads them."""

FAR = datetime(9999, 1, 1, tzinfo=UTC)
"""When something is due that waits for a person."""

_SIZE_LASTS = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStop:
    """
    When so much of a kind goes at once that it is more likely a mistake.

    Attributes:
        share: Of the kind's objects in one scope.
        above: So many may always go.
    """

    share: float
    above: int

    def most(self, size: int) -> int:
        """Return how many of so many may go."""
        return max(self.above, int(self.share * size))


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One kind of one scope: what shares are of."""

    source: str
    scope: str
    kind: str

    @property
    def key(self) -> dict[str, Any]:
        """Its columns as statement parameters."""
        return {"source": self.source, "scope": self.scope, "kind": self.kind}

    def __str__(self) -> str:
        """Write it as paths are written, leaving out an empty scope."""
        return "/".join(part for part in (self.source, self.scope, self.kind) if part)


@dataclass(frozen=True, slots=True)
class Leave:
    """
    Whether objects may go.

    Attributes:
        because: Why they may not; empty: they may.
        counted: They count against what else may go within the hour: nobody has allowed them.
    """

    because: str = ""
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Decided:
    """What a run has said of the absences that it met in one place: how many, and why they may not go; empty: may."""

    place: Place
    objects: int
    because: str


@dataclass(frozen=True, slots=True)
class Held:
    """How much is held back in one place, and since when; None: just now."""

    place: Place
    objects: int
    since: datetime | None

    def told(self) -> str:
        """Say so, with the way out."""
        place = self.place
        return (
            f"{self.objects} {place} held back; if they are to go: "
            f"reconcile --since last --source {place.source} --kind {place.kind} --allow-deletes"
        )


def leave(connection: Connection, place: Place, more: int, *, rule: ShareStop, now: datetime) -> Leave:
    """Lock *place* for this transaction and say whether *more* living objects may go there."""
    statements.run(connection, "lock_share", place.key)
    # A statement of its own: what was committed while this one waited counts.
    found = statements.one(connection, "stands_still", place.key | {"now": now, "within": WITHIN})
    if found.allowed:
        return Leave(counted=False)
    if found.stopped_at is not None:
        since = found.stopped_at.isoformat(timespec="seconds")
        return Leave(f"held back: deletions of {place} are stopped since {since}")
    going = found.gone + more
    if going <= rule.above:
        return Leave()
    sized = place.key | {"now": now, "gone": found.gone, "lasts": _SIZE_LASTS}
    size = statements.one(connection, "size_of_kind", sized).size
    if going <= (most := rule.most(size)):
        return Leave()
    return Leave(f"held back: {going} of {size} {place} would go at once, and {most} may")


def hold(connection: Connection, leased: Leased, *, because: str) -> bool:
    """Hold back the absence that was read; return whether the lease still held."""
    told = {"token": leased.token, "because": because, "far": FAR}
    return statements.run(connection, "hold", refetches.key(leased.ref) | told) > 0


def decides(connection: Connection, ref: ObjectRef) -> bool:
    """Say whether a run at work waits for *ref* that has yet to say how much may go."""
    return statements.row(connection, "decides", refetches.key(ref)) is not None


def decide(connection: Connection, run_id: int, *, rule: ShareStop, now: datetime) -> list[Decided]:
    """Say of all absences that the run has met whether they may go: of each place all, to be read again, or none."""
    statements.run(connection, "read_since", {"run_id": run_id})
    decided = []
    for row in statements.rows(connection, "absent_in_run", {"run_id": run_id}):
        place = Place(row.source, row.scope, row.kind)
        because = leave(connection, place, row.objects, rule=rule, now=now).because
        told = place.key | {"run_id": run_id}
        if because:
            statements.run(connection, "hold_in_run", told | {"because": because, "far": FAR})
        else:
            statements.run(connection, "let_go_in_run", told)
        decided.append(Decided(place, row.objects, because))
    return decided


def leave_to_others(connection: Connection, run_ids: Sequence[int]) -> None:
    """Let whoever comes read the absences that these runs, which have ended, did not decide on."""
    if run_ids:
        statements.run(connection, "leave_absences", {"run_ids": list(run_ids)})


def refs(connection: Connection, kinds: Sequence[tuple[str, str]]) -> list[ObjectRef]:
    """Return what is held back of these (source, kind) pairs."""
    told = {"source": [source for source, _ in kinds], "kind": [kind for _, kind in kinds]}
    return [
        ObjectRef(row.source, row.scope, row.kind, row.id) for row in statements.rows(connection, "held_refs", told)
    ]


def held(connection: Connection) -> list[Held]:
    """Return how much is held back, and where."""
    return [
        Held(Place(row.source, row.scope, row.kind), row.objects, row.since)
        for row in statements.rows(connection, "held_kinds")
    ]
