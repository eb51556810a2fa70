"""
Who runs what, once: a row for each scheduled slot, and a row for each role that one process holds.

Both are held for a time and renewed, so that what a dead process held is free again without anybody noticing its death.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from reconciler.store import statements

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection


_NONE = timedelta(0)


class Job(StrEnum):
    """What a slot is for."""

    NIGHTLY = "nightly"  # a slot for each local date
    LIGHT = "light"  # a slot for each period between nights
    PRUNE = "prune"  # a slot for each date, of no source: what has been kept long enough goes


class State(StrEnum):
    """What became of a slot."""

    CLAIMED = "claimed"  # somebody is at it, until `held_until`
    USED = "used"  # it had its run
    FAILED = "failed"  # it may be tried again, from `held_until` on


@dataclass(frozen=True, slots=True)
class Slot:
    """One occasion on which one job of a source runs once, however many processes there are."""

    source: str
    job: Job
    name: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How a slot stands: who may take it, and when."""

    state: State
    tries: int
    held_until: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """A slot that is ours, as long as we renew it; *tries* tells it from claims before and after."""

    slot: Slot
    tries: int


def hold(connection: Connection, role: str, *, holder: str, hold: timedelta, now: datetime | None = None) -> bool:
    """Take *role* or keep it for so long, and say whether *holder* has it; at most one holder does."""
    parameters = {"role": role, "holder": holder, "hold": hold, "now": now}
    return statements.row(connection, "hold_role", parameters) is not None


def release(connection: Connection, role: str, *, holder: str) -> None:
    """Let go of *role* at once, if *holder* has it."""
    statements.run(connection, "release_role", {"role": role, "holder": holder})


def standing(connection: Connection, source: str) -> dict[Slot, Standing]:
    """Return how the newest slots of each job of *source* stand."""
    found = statements.rows(connection, "slots_standing", {"source": source})
    return {
        Slot(source, Job(row.job), row.slot): Standing(State(row.state), row.tries, row.held_until) for row in found
    }


def claim(connection: Connection, slot: Slot, *, hold: timedelta, now: datetime | None = None) -> Claim | None:
    """Take *slot* for so long; None: it is used, resting, or somebody else's."""
    row = statements.row(connection, "claim_slot", _key(slot) | {"hold": hold, "now": now})
    return None if row is None else Claim(slot, row.tries)


def keep(
    connection: Connection,
    claim: Claim,
    *,
    hold: timedelta,
    run_id: int | None = None,
    now: datetime | None = None,
) -> bool:
    """Hold *claim* for longer, tell its run where that is known, and say whether it was still ours."""
    parameters = {"tries": claim.tries, "hold": hold, "run_id": run_id, "now": now}
    return statements.run(connection, "keep_slot", _key(claim.slot) | parameters) > 0


def use(connection: Connection, claim: Claim, *, now: datetime | None = None) -> None:
    """Mark the slot of *claim* as used: nobody runs it again."""
    _end(connection, claim, State.USED, rest=_NONE, now=now)


def fail(connection: Connection, claim: Claim, *, rest: timedelta, now: datetime | None = None) -> None:
    """Let the slot of *claim* be taken again, by anybody, after *rest*."""
    _end(connection, claim, State.FAILED, rest=rest, now=now)


def give_back(connection: Connection, claim: Claim, *, rest: timedelta, now: datetime | None = None) -> None:
    """Let the slot of *claim* be taken again after *rest*, as if this had been no try."""
    statements.run(connection, "yield_slot", _key(claim.slot) | {"tries": claim.tries, "rest": rest, "now": now})


def forget(connection: Connection, source: str, *, now: datetime | None = None) -> None:
    """Drop slots of *source* that nothing looks at any more."""
    statements.run(connection, "forget_slots", {"source": source, "now": now})


def _end(connection: Connection, claim: Claim, state: State, *, rest: timedelta, now: datetime | None) -> None:
    parameters = {"tries": claim.tries, "state": str(state), "rest": rest, "now": now}
    statements.run(connection, "end_slot", _key(claim.slot) | parameters)


def _key(slot: Slot) -> dict[str, Any]:
    return {"source": slot.source, "job": str(slot.job), "slot": slot.name}
