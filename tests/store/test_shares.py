"""How much of a kind may go within an hour: never more than allowed, whoever lets it go and however they interleave."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.store import runs, shares
from reconciler.store.shares import Place, ShareStop
from tests.store.stage import APPLIED, DECLINED, GONE, SOURCE, STAMPED, UNSTAMPED, alive, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from reconciler.model import ObjectRef
    from reconciler.store.guard import Outcome
    from tests.store.stage import Shown, Stage

RULE = ShareStop(share=0.1, above=3)
HOUR = timedelta(hours=1)


def stopping(stage: Stage, rule: ShareStop = RULE) -> Stage:
    """Let no more go on *stage* than *rule* says."""
    stage.mirror = replace(stage.mirror, rules=replace(stage.mirror.rules, share_stop=rule))
    return stage


def filled(stage: Stage, count: int, *, scope: str, kind: str = UNSTAMPED) -> list[ObjectRef]:
    """Return so many living objects of a scope that nothing else is in."""
    refs = [stage.ref(kind, scope=scope) for _ in range(count)]
    stage.apply(*(stage.reading(ref, alive(), (1, 2)) for ref in refs))
    return refs


def look(stage: Stage, ref: ObjectRef, shown: Shown = GONE) -> Outcome:
    """Read *ref* as the drain does, finding it gone; what is held back stays wanted."""
    stage.want(ref)
    leased = stage.leased(ref)

    def work(connection: Connection) -> Outcome:
        outcome = stage.conclude_in(connection, leased, shown)
        if outcome.held:
            shares.hold(connection, leased, because=outcome.because)
        return outcome

    return stage.run(work)


def gone(stage: Stage, refs: Sequence[ObjectRef]) -> int:
    """Return how many of *refs* are tombstones."""
    rows = [stage.row(ref) for ref in refs]
    return sum(row is not None and row.deleted_at is not None for row in rows)


@pytest.mark.parametrize(("size", "may"), [(5, 3), (30, 3), (39, 3), (40, 4), (95, 9)])
def test_the_one_that_crosses_is_held(stage: Stage, size: int, may: int) -> None:
    """So many of a kind may go, or that share of it, whichever is more; the next is declined and stays as it was."""
    refs = filled(stopping(stage), size, scope=f"size-{size}")

    outcomes = [look(stage, ref) for ref in refs[: may + 2]]

    assert [each.verdict for each in outcomes] == [APPLIED] * may + [DECLINED] * min(2, size - may)
    assert gone(stage, refs) == may
    place = Place(SOURCE, f"size-{size}", UNSTAMPED)
    assert outcomes[may].because == f"held back: {may + 1} of {size} {place} would go at once, and {may} may"


def test_a_stop_stands_until_nothing_is_held(stage: Stage) -> None:
    """An hour later the stop still stands; when the held one turns out to be there, it ends."""
    refs = filled(stopping(stage), 10, scope="stands")
    for ref in refs[:4]:
        look(stage, ref)
    stage.tick(3601)

    after = look(stage, refs[5])
    back = [look(stage, refs[each], alive("b")) for each in (3, 5)]
    later = look(stage, refs[6])

    assert (after.held, [each.held for each in back], later.held) == (True, [False, False], False)
    assert "are stopped since" in after.because
    assert gone(stage, refs) == 4


def test_what_is_held_waits(stage: Stage) -> None:
    """Its refetch is open, not due, no dead letter, and says why; its row and its event are as they were."""
    refs = filled(stopping(stage), 10, scope="waits")
    for ref in refs[:3]:
        look(stage, ref)
    before = stage.row(refs[3])

    outcome = look(stage, refs[3])

    refetch = stage.refetch(refs[3])
    assert refetch is not None
    assert refetch.wanted > refetch.done
    assert (refetch.due_at, refetch.dead_at, refetch.last_error) == (shares.FAR, None, outcome.because)
    assert refetch.held_at is not None
    assert stage.lease(refs[3]) is None
    assert stage.row(refs[3]) == before
    [declined] = stage.of("declined_writes", refs[3])
    assert (declined.verdict, declined.because) == ("declined", outcome.because)


def test_kinds_and_scopes_are_counted_apart(stage: Stage) -> None:
    """What goes in one place does not stop another."""
    stopping(stage)
    places = [("one", UNSTAMPED), ("two", UNSTAMPED), ("one", STAMPED)]
    refs = [filled(stage, 4, scope=scope, kind=kind) for scope, kind in places]

    held = [[look(stage, ref).held for ref in each] for each in refs]

    assert held == [[False, False, False, True]] * 3


def test_what_was_never_here_is_not_counted(stage: Stage) -> None:
    """An object that came and went before anybody looked takes nothing away, nor does a tombstone that is confirmed."""
    refs = filled(stopping(stage), 4, scope="fleeting")
    fleeting = [stage.ref(UNSTAMPED, scope="fleeting") for _ in range(5)]
    for ref in (*fleeting, *fleeting):
        look(stage, ref)

    held = [look(stage, ref).held for ref in refs]

    assert held == [False, False, False, True]


def test_a_listing_holds_nothing(stage: Stage) -> None:
    """Where a list shows more gone than may go, each is wanted instead: only a read can be held back."""
    refs = filled(stopping(stage), 5, scope="listed", kind=STAMPED)
    readings = [stage.reading(ref, GONE, (stage.position(), stage.position()), listed=True) for ref in refs]

    outcomes = stage.apply(*readings)

    assert [each.verdict for each in outcomes] == [None] * 5
    assert gone(stage, refs) == 0
    assert [stage.due_at(ref) for ref in refs] == [stage.clock] * 5


def test_a_run_that_allows_it(stage: Stage) -> None:
    """While a run that was told so goes on, everything may go, and what went does not count afterwards."""
    refs = filled(stopping(stage), 12, scope="allowed")
    for ref in refs[:4]:
        look(stage, ref)
    pairs = [(SOURCE, UNSTAMPED)]
    asked = {"allow_deletes": True}
    begun = stage.run(lambda c: runs.begin(c, pairs, trigger="cli", since=None, until=None, dry_run=False, asked=asked))

    allowed = [look(stage, ref).held for ref in refs[3:8]]
    stage.run(lambda c: runs.finish(c, begun.run_id, state="complete", tallies={}, because=None))
    stage.tick(3601)
    after = [look(stage, ref).held for ref in refs[8:12]]

    assert allowed == [False] * 5
    assert after == [False, False, False, True]


def test_two_at_the_edge(stage: Stage) -> None:
    """Of two that would let the last one go at the same moment, one does; again and again."""
    stopping(stage)
    for turn in range(8):
        refs = filled(stage, 6, scope=f"edge-{turn}")
        for ref in refs[:2]:
            look(stage, ref)

        outcomes = together(*(lambda ref=ref: look(stage, ref) for ref in refs[2:6]))

        assert sorted(each.held for each in outcomes) == [False, True, True, True]
        assert gone(stage, refs) == 3


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(4, 45),
    steps=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2400)), min_size=1, max_size=12),
    share=st.sampled_from([0.0, 0.1, 0.25]),
)
def test_never_more_within_any_hour(stage: Stage, size: int, steps: list[tuple[int, int]], share: float) -> None:
    """However many go at once and however long apart, no hour sees more living rows go than may."""
    stopping(stage, ShareStop(share=share, above=3))
    scope = f"any-{next(stage.ids)}"
    left = filled(stage, size, scope=scope)

    for at_once, wait in steps:
        now, left = left[:at_once], left[at_once:]
        if now:
            together(*(lambda ref=ref: look(stage, ref) for ref in now))
        stage.tick(wait)
        # Whatever is held turns out to be there, so that the stop ends and the next may go again.
        for held in stage.run(lambda c: shares.refs(c, [(SOURCE, UNSTAMPED)])):
            if held.scope == scope:
                look(stage, held, alive("back"))

    times = [
        row.at
        for row in stage.query(
            "SELECT at FROM object_history WHERE scope = :scope AND what = 'deleted' ORDER BY at", scope=scope
        )
    ]
    most = max(3, int(share * size))
    assert all(later - first >= HOUR for first, later in zip(times, times[most:], strict=False))
    assert all(first <= later for first, later in pairwise(times))
