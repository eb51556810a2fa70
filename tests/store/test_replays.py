"""What was given up is wanted again in bulk, at a limited rate, once however often that is asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.model import Named, Reason
from reconciler.store import refetches, replays
from reconciler.store.replays import Chosen
from tests.store.stage import SOURCE, STAMPED, UNSTAMPED, alive, at, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from reconciler.model import ObjectRef
    from tests.store.stage import Stage

DEAD = Chosen(state="dead")


def bury(stage: Stage, many: int, *, kind: str = STAMPED, told: bool = True) -> list[ObjectRef]:
    """Return so many objects that were given up, each named by an event, or by none."""
    refs = [stage.ref(kind) for _ in range(many)]
    for ref in refs:
        if told:
            stage.record(f"evt_{kind}_{ref.id}", Named(ref))
        else:
            stage.want(ref, Reason.SWEEP)
    stage.execute("UPDATE refetches SET dead_at = :now, last_error = 'no', attempts = 12", now=stage.clock)
    stage.execute("UPDATE webhook_events SET outcome = 'dead'")
    return refs


def due(stage: Stage, refs: Sequence[ObjectRef]) -> list[float]:
    """Return after how many seconds each of these comes due, the soonest first."""
    times = [stage.due_at(ref) for ref in refs]
    return sorted((time - stage.clock).total_seconds() for time in times if time is not None)


@pytest.mark.parametrize("told", [True, False])
def test_one_after_the_other(lone_stage: Stage, *, told: bool) -> None:
    """A thousand dead letters come due at the rate that was asked for, whether events name them or not."""
    stage = lone_stage
    refs = bury(stage, 1200, told=told)

    outcome = replays.replay(stage.database, DEAD, rate=20, now=stage.clock)

    assert due(stage, refs) == pytest.approx([number / 20 for number in range(1200)])
    assert outcome == replays.Outcome(1200, stage.clock + timedelta(seconds=1199 / 20), complete=True)


def test_each_source_has_its_rate(lone_stage: Stage) -> None:
    """One source's dead letters do not wait for another's."""
    stage = lone_stage
    bury(stage, 10, told=False)
    stage.execute(
        "INSERT INTO refetches SELECT 'other', scope, kind, id, wanted, done, reason, locator, due_at, again_at,"
        " seen, leased_until, lease_token, leased_wanted, attempts, last_error, dead_at FROM refetches"
    )

    outcome = replays.replay(stage.database, DEAD, rate=1, now=stage.clock)

    assert outcome.until == stage.clock + timedelta(seconds=9)
    assert outcome.wanted == 20


def test_repeated(lone_stage: Stage) -> None:
    """What was replayed is no dead letter: asked again, nothing happens; asked at once by several, each goes once."""
    stage = lone_stage
    refs = bury(stage, 40)

    outcomes = together(*[lambda: replays.replay(stage.database, DEAD, rate=10, now=stage.clock)] * 3)
    again = replays.replay(stage.database, DEAD, rate=10, now=stage.clock)
    stage.work_off(dict.fromkeys(refs, alive()))

    assert sum(outcome.wanted for outcome in outcomes) == 40
    assert again == replays.Outcome(0, None, complete=True)
    assert {row.outcome for row in stage.query("SELECT outcome FROM webhook_events")} == {"done"}


def test_broken_off(lone_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that ends in between has wanted whole pieces, and the next one wants the rest."""
    stage = lone_stage
    refs = bury(stage, 25)
    monkeypatch.setattr(replays, "_PIECE", 10)
    plain, turns = refetches.want_again, iter([True, False])

    def broken(connection: Connection, refs: Iterable[ObjectRef], **more: Any) -> dict[ObjectRef, int]:
        if not next(turns):
            raise KeyboardInterrupt
        return plain(connection, refs, **more)

    with monkeypatch.context() as patched:
        patched.setattr(refetches, "want_again", broken)
        with pytest.raises(KeyboardInterrupt):
            replays.replay(stage.database, DEAD, now=stage.clock)
    half = len(due(stage, refs))
    rest = replays.replay(stage.database, DEAD, now=stage.clock)

    assert (half, rest.wanted, len(due(stage, refs))) == (10, 15, 25)


def test_live_work_does_not_wait(lone_stage: Stage) -> None:
    """What somebody waits for is due as before, and what an event names meanwhile is due at once."""
    stage = lone_stage
    waiting = stage.ref()
    stage.record("evt_waiting", Named(waiting))
    letters = [stage.ref() for _ in range(3)]
    for ref in letters:
        stage.record(f"evt_{ref.id}", Named(ref))
        stage.execute("UPDATE refetches SET dead_at = :now WHERE id = :id", now=stage.clock, id=ref.id)
    stage.execute("UPDATE webhook_events SET outcome = 'dead'")

    replays.replay(stage.database, DEAD, rate=0.1, now=stage.clock)
    replayed, first = due(stage, letters), due(stage, [waiting])
    stage.record("evt_new", Named(letters[2]))

    assert (first, replayed) == ([0], [0, 10, 20])
    assert due(stage, [letters[2]]) == [0]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (Chosen(state="dead", source=SOURCE), 6),
        (Chosen(state="dead", source="other"), 0),
        (Chosen(state="dead", kind=STAMPED), 4),
        (Chosen(state="dead", kind=UNSTAMPED), 2),
        (Chosen(state="dead", limit=5), 5),
        (Chosen(state="dead", limit=3), 3),
        (Chosen(state="dead", since=at(10)), 2),
        (Chosen(kind=STAMPED), 4),
        (Chosen(event_ids=["evt_order_1"]), 1),
        (Chosen(event_ids=["evt_order_1"], state="dead", kind=UNSTAMPED), 0),
        (Chosen(event_ids=["no such"]), 0),
    ],
)
def test_chosen(lone_stage: Stage, chosen: Chosen, expected: int) -> None:
    """Dead letters are chosen by id, source, kind and time, and no more than the limit says."""
    stage = lone_stage
    bury(stage, 4)
    stage.clock = at(10)
    untold = [stage.ref(UNSTAMPED) for _ in range(2)]
    for ref in untold:
        stage.want(ref, Reason.SWEEP)
        stage.execute(
            "UPDATE refetches SET dead_at = :now WHERE kind = :kind AND id = :id",
            now=stage.clock,
            kind=ref.kind,
            id=ref.id,
        )

    outcome = replays.replay(stage.database, chosen, now=stage.clock)

    assert (outcome.wanted, outcome.complete) == (expected, True)


def test_no_more_than_a_day_holds(lone_stage: Stage) -> None:
    """What would lie beyond a day waits for the next command: no housekeeping takes its time for a wrong clock's."""
    stage = lone_stage
    refs = bury(stage, 30)
    rate = 10 / replays.WITHIN.total_seconds()

    outcome = replays.replay(stage.database, DEAD, rate=rate, now=stage.clock)

    assert (outcome.wanted, outcome.complete) == (10, False)
    assert max(due(stage, refs)) < replays.WITHIN.total_seconds() < refetches.FURTHEST.total_seconds()
