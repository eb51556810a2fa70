"""Too much at once: what goes is held back, by a run before the first, by the drain at the one that crosses."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.config.settings import DeletesStop
from reconciler.errors import ConfigError, SourceUnavailable
from reconciler.store import shares, sources, story
from reconciler.sweep import Asked
from reconciler.times import Last
from tests.paths.draining import SOURCE, customer
from tests.paths.sweeping import sweep_on, swept

if TYPE_CHECKING:
    from typing import Any

    from reconciler.sweep import Sweep
    from tests.paths.draining import Bench, Side
    from tests.paths.sweeping import Swept

MAY = 2
STOP = DeletesStop(share=0.1, above=MAY)


def stopping(bench: Bench) -> Side:
    """Return a process that lets few go."""
    return bench.side(deletes_stop=STOP, in_flight=timedelta(0))


def mirrored(bench: Bench, sweep: Sweep, count: int = 6) -> list[str]:
    """Return so many customers that both sides have."""
    for _ in range(count):
        bench.act("create")
    swept(bench, sweep=sweep)
    return sorted(bench.truth())


def lost(bench: Bench, ids: list[str]) -> list[str]:
    """Delete these at the provider and return the events that tell of it."""
    return [event for id_ in ids for event in bench.act("delete", id_=id_)]


def gone(bench: Bench) -> int:
    """Return how many of our rows are tombstones."""
    return sum(version is None for version in bench.versions().values())


def alarms(bench: Bench) -> dict[str, story.Alarm]:
    """Return the alarms that stand, by what they are."""
    with bench.database.transaction() as connection:
        return {each.what: each for each in story.alarms(connection, {SOURCE: ("customer",)})}


def full(bench: Bench, sweep: Sweep, **asked: Any) -> Swept:
    """Compare everything."""
    return swept(bench, sweep=sweep, full=True, **asked)


def test_a_run_stops_before_the_first(bench: Bench) -> None:
    """A run that finds more gone than may go lets none go, is incomplete, says why and the way out, and alarms."""
    sweep = sweep_on(bench, stopping(bench))
    ids = mirrored(bench, sweep)
    lost(bench, ids[:3])

    told = full(bench, sweep)

    assert (told.state, gone(bench), told.drift) == ("incomplete", 0, [])
    assert told.kinds["customer"]["held"] == 3
    assert "reconcile --since last --source stripe-eu --kind customer --allow-deletes" in told.report["because"]
    assert "3 stripe-eu/customer held back" in alarms(bench)["deletions_stopped"].because
    [line] = bench.logged("deletions.stopped")
    assert line["because"] == f"held back: 3 of 6 stripe-eu/customer would go at once, and {MAY} may"
    with bench.database.transaction() as connection:
        queue = story.queues(connection)[SOURCE]
        chapters = [each["what"] for each in story.explain(connection, customer(ids[0]))["story"]]
        excused = sources.excused(connection, told.report["id"], SOURCE)
    assert (queue.open, queue.due, queue.dead, queue.held, queue.oldest) == (0, 0, 0, 3, None)
    assert chapters[-1] == "held"
    assert excused


def test_a_run_lets_go_what_may(bench: Bench) -> None:
    """No more than may go is let go in the same run, as drift that is repaired."""
    sweep = sweep_on(bench, stopping(bench))
    ids = mirrored(bench, sweep)
    lost(bench, ids[:MAY])

    told = full(bench, sweep)

    assert (told.state, gone(bench)) == ("complete", MAY)
    assert told.drift == [(id_, "extra", "missed_deletion") for id_ in ids[:MAY]]
    assert told.kinds["customer"]["tombstones"] == MAY
    assert "deletions_stopped" not in alarms(bench)


def test_what_a_person_allows_goes(bench: Bench) -> None:
    """A run with allow_deletes, of sources or kinds that are named, lets go what is held and what else it finds."""
    sweep = sweep_on(bench, stopping(bench))
    ids = mirrored(bench, sweep)
    lost(bench, ids[:3])
    full(bench, sweep)
    again = swept(bench, sweep=sweep)
    [told_of] = lost(bench, ids[3:4])

    with pytest.raises(ConfigError, match="name whose objects may go"):
        sweep.begin(Asked(trigger="cli", since=Last.LAST, allow_deletes=True))
    told = swept(bench, sweep=sweep, allow_deletes=True)

    assert (again.state, again.kinds["customer"]["held"]) == ("incomplete", 3)
    assert told_of
    assert (told.state, gone(bench)) == ("complete", 4)
    assert alarms(bench).keys() & {"deletions_stopped"} == set()
    bench.tell(*lost(bench, ids[4:5]))
    bench.main.work(lambda: gone(bench) == 5)


def test_the_drain_stops_at_the_one_that_crosses(bench: Bench) -> None:
    """Deletions told one by one add up: the one that crosses is held, its event stays open, nothing is dead."""
    side = stopping(bench)
    ids = mirrored(bench, sweep_on(bench, side))
    events = lost(bench, ids[:4])
    bench.tell(*events)

    side.work(lambda: len(held(bench)) == 2 and len(done(bench)) == 2)

    assert gone(bench) == MAY
    assert len(bench.rows("SELECT id FROM refetches WHERE dead_at IS NOT NULL")) == 0
    assert not side.drain.turn()
    swept(bench, sweep=sweep_on(bench, side), allow_deletes=True)
    assert gone(bench) == 4
    side.work(lambda: done(bench) == set(events))


def test_what_is_there_again_is_free(bench: Bench) -> None:
    """A held object that answers alive is held no more, and with the last of them the stop ends."""
    sweep = sweep_on(bench, stopping(bench))
    ids = mirrored(bench, sweep)
    lost(bench, ids[:3])
    full(bench, sweep)
    for id_ in ids[:3]:
        bench.act("recreate", id_=id_)

    told = swept(bench, sweep=sweep)

    assert (told.state, gone(bench), held(bench)) == ("complete", 0, [])
    assert "deletions_stopped" not in alarms(bench)


def test_looking_by_hand_frees_nothing(bench: Bench) -> None:
    """Whoever asks for a held object is told that it is held; only a run that allows it lets it go."""
    side = stopping(bench)
    sweep = sweep_on(bench, side)
    ids = mirrored(bench, sweep)
    lost(bench, ids[:3])
    full(bench, sweep)

    side.drain.want(customer(ids[0]))
    looked = side.drain.look_at(customer(ids[0]))

    assert looked is not None
    assert "deletions of stripe-eu/customer are stopped since" in looked.error
    assert (gone(bench), len(held(bench))) == (0, 3)


def test_a_run_that_is_gone_holds_nothing(bench: Bench) -> None:
    """Absences that a run met and never decided on are read by whoever comes, as if it had not been."""
    side = stopping(bench)
    sweep = sweep_on(bench, side)
    ids = mirrored(bench, sweep)
    lost(bench, ids[:1])
    undecided = vars(side.drain)
    run_id = sweep.begin(Asked(trigger="cli", since=Last.LAST, kinds=("customer",), full=True))
    undecided["turn_in_run"] = _failing_after_one(side)

    state = sweep.execute(run_id)

    assert (state, gone(bench)) == ("failed", 0)
    side.work(lambda: gone(bench) == 1)


def _failing_after_one(side: Side) -> Any:
    turn_in_run = side.drain.turn_in_run

    def turned(run_id: int, source: str, kind: str) -> object:
        looked = turn_in_run(run_id, source, kind)
        if looked is not None:
            raise SourceUnavailable("it broke there")
        return looked

    return turned


def done(bench: Bench) -> set[str]:
    """Return the events that are done."""
    return {event_id for event_id, outcome in bench.outcomes().items() if outcome == "done"}


def held(bench: Bench) -> list[str]:
    """Return the ids of what is held."""
    with bench.database.transaction() as connection:
        return sorted(ref.id for ref in shares.refs(connection, [(SOURCE, "customer")]))
