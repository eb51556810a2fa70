"""The inbox: every event once, open until all it names is read as far as it waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reconciler.model import AccessWord, Erasure, Named
from reconciler.store import events, refetches
from reconciler.store.events import Closed
from tests.store.stage import GONE, LEASE, SOURCE, STAMPED, UNSTAMPED, alive, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from reconciler.model import ObjectRef
    from reconciler.store.refetches import Leased
    from tests.store.stage import Stage


@pytest.fixture
def told(ids: Iterator[int]) -> Iterator[str]:
    """Return event ids that no other test of this file has."""
    return (f"evt_{number}" for number in ids)


def waits(stage: Stage, event_id: str) -> dict[str, int]:
    """Return the number that an event waits for, by object."""
    found = stage.query("SELECT id, wanted FROM event_objects WHERE event_id = :event", event=event_id)
    return {row.id: row.wanted for row in found}


def kill(stage: Stage, ref: ObjectRef) -> None:
    """Bury *ref* and the events that wait for it, as the drain does."""
    leased = stage.leased(ref)

    def work(connection: Connection) -> None:
        ids = [event.event_id for event in events.lock(connection, leased)]
        assert refetches.bury(connection, leased, because="404", now=stage.clock)
        events.kill(connection, SOURCE, ids, because="404", now=stage.clock)

    stage.run(work)


def test_event_is_stored_once(stage: Stage, told: Iterator[str]) -> None:
    """A first delivery is stored whole and wants what it names; the event waits for that very number."""
    ref, other, event = stage.ref(), stage.ref(UNSTAMPED), next(told)

    receipt = stage.record(event, Named(ref, at(5)), Named(other), payload={"id": "é", "n": 10**30}, raw=b"\xff")

    row = stage.event(event)
    refetch = stage.refetch(ref)
    assert refetch is not None
    assert (receipt.duplicate, receipt.ignored, receipt.declined) == (False, False, ())
    assert (row.payload, row.raw, row.headers) == ({"id": "é", "n": 10**30}, b"\xff", {"host": "here"})
    assert (row.event_type, row.occurred_at, row.received_at, row.secret) == ("changed", at(0), at(0), 1)
    assert (row.outcome, row.processed_at, row.duplicates, row.last_repeat_at) == (None, None, 0, None)
    assert waits(stage, event)[ref.id] == refetch.wanted
    assert set(waits(stage, event)) == {ref.id, other.id}
    assert (refetch.reason, refetch.due_at) == ("webhook", at(0))


@pytest.mark.parametrize(("named", "skipped", "outcome"), [(False, "", "ignored"), (True, "test mode", "skipped")])
def test_event_that_wants_nothing(
    stage: Stage, told: Iterator[str], *, named: bool, skipped: str, outcome: str
) -> None:
    """An authentic event about nothing we mirror, or not to be acted on, is on record and done with."""
    ref, event = stage.ref(), next(told)
    about = [Named(ref)] if named else []

    receipts = [stage.record(event, *about, skipped=skipped) for _ in range(2)]

    row = stage.event(event)
    assert [receipt.duplicate for receipt in receipts] == [False, True]
    assert all(receipt.ignored for receipt in receipts)
    assert (row.outcome, row.processed_at, row.duplicates) == (outcome, at(0), 1)
    assert stage.refetch(ref) is None


def test_repeat_of_an_open_event(stage: Stage, told: Iterator[str]) -> None:
    """K14: a repeat of an event whose work is not done wants its objects again, and waits for the later number."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref))
    first = waits(stage, event)[ref.id]
    stage.tick(5)

    receipt = stage.record(event, Named(ref))

    row, refetch = stage.event(event), stage.refetch(ref)
    assert refetch is not None
    assert receipt.duplicate
    assert not receipt.ignored
    assert waits(stage, event)[ref.id] == refetch.wanted > first
    assert (row.outcome, row.duplicates, row.last_repeat_at, row.received_at) == (None, 1, at(5), at(0))


def test_repeat_of_a_done_event(stage: Stage, told: Iterator[str]) -> None:
    """K14: a repeat of an event that is done is counted and answered, and nothing more."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref))
    stage.reread(ref, alive())
    stage.tick(5)
    before = stage.refetch(ref)

    receipt = stage.record(event, Named(ref))

    row = stage.event(event)
    assert receipt.duplicate
    assert stage.refetch(ref) == before
    assert (row.outcome, row.processed_at, row.duplicates, row.last_repeat_at) == ("done", at(0), 1, at(5))


def test_repeat_of_an_event_that_ran_ahead(stage: Stage, told: Iterator[str]) -> None:
    """An event settled as ahead is done like any other."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref))
    stage.execute("UPDATE webhook_events SET outcome = 'ahead', last_error = 'x' WHERE event_id = :id", id=event)
    before = stage.refetch(ref)

    stage.record(event, Named(ref))

    assert (stage.event(event).outcome, stage.event(event).last_error) == ("ahead", "x")
    assert stage.refetch(ref) == before


def test_repeat_of_a_dead_event(stage: Stage, told: Iterator[str]) -> None:
    """K16: a repeat of an event that was given up opens it again, and its object with it."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref))
    kill(stage, ref)
    dead = stage.event(event)

    receipt = stage.record(event, Named(ref))

    row = stage.event(event)
    assert (dead.outcome, dead.last_error, dead.processed_at) == ("dead", "404", at(0))
    assert receipt.duplicate
    assert (row.outcome, row.last_error, row.processed_at) == (None, None, None)
    stage.reread(ref, alive())
    assert stage.event(event).outcome == "done"


def test_repeat_of_a_dead_event_that_is_older_than_our_row(stage: Stage, told: Iterator[str]) -> None:
    """A dead event whose object was repaired another way since is done by its repeat, and waits for nothing."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref, at(5)))
    kill(stage, ref)
    stage.apply(stage.reading(ref, alive("new", 9), (stage.position(), None), listed=True))

    receipt = stage.record(event, Named(ref, at(5)))

    assert receipt.declined == (ref,)
    assert stage.event(event).outcome == "done"
    assert waits(stage, event) == {ref.id: 0}


def test_repeat_of_an_ignored_event_is_mapped_anew(stage: Stage, told: Iterator[str]) -> None:
    """What meant nothing when it came may mean something now."""
    ref, event = stage.ref(), next(told)
    stage.record(event)

    receipt = stage.record(event, Named(ref))

    assert receipt.duplicate
    assert not receipt.ignored
    assert stage.event(event).outcome is None
    assert stage.event(event).processed_at is None
    assert stage.lease(ref) is not None
    assert stage.record(event).ignored


def test_copies_in_one_commit(stage: Stage, told: Iterator[str]) -> None:
    """Copies that share a commit are one event: the first is new, the others repeats of it."""
    ref, event, other = stage.ref(), next(told), next(told)
    stage.record(other, Named(ref))
    arrivals = [stage.arrival(each, Named(ref)) for each in (event, other, event, event)]

    receipts = stage.run(lambda c: events.receive(c, arrivals, now=stage.clock))

    assert [receipt.duplicate for receipt in receipts] == [False, True, True, True]
    assert [receipt.event_id for receipt in receipts] == [event, other, event, event]
    assert (stage.event(event).duplicates, stage.event(other).duplicates) == (2, 1)
    assert waits(stage, event) == waits(stage, other)


def test_object_named_twice_by_one_event(stage: Stage, told: Iterator[str]) -> None:
    """An event may mention an object more than once: the newest mention counts, one without a stamp above all."""
    ref, other, event = stage.ref(), stage.ref(), next(told)
    for each in (ref, other):
        stage.apply(stage.reading(each, alive("a", 10), (10, 20)))

    receipt = stage.record(
        event, Named(ref, at(5)), Named(ref, at(15)), Named(other, at(1)), Named(other), Named(ref, at(7))
    )

    found = stage.query("SELECT id, stamp FROM event_objects WHERE event_id = :event", event=event)
    assert receipt.declined == ()
    assert {row.id: row.stamp for row in found} == {ref.id: at(15), other.id: None}
    assert stage.lease(ref) is not None
    assert stage.lease(other) is not None


@pytest.mark.parametrize(("stamp", "is_older"), [(9.999, True), (10, False), (11, False), (None, False)])
def test_notification_older_than_our_row(
    stage: Stage, told: Iterator[str], stamp: float | None, *, is_older: bool
) -> None:
    """A notification strictly older than a living row is declined on record and done; every other one is read."""
    ref, event = stage.ref(), next(told)
    stage.apply(stage.reading(ref, alive("a", 10), (10, 20)))

    receipt = stage.record(event, Named(ref, None if stamp is None else at(stamp)))

    records = stage.of("declined_writes", ref)
    assert receipt.declined == ((ref,) if is_older else ())
    assert (stage.event(event).outcome == "done") is is_older
    assert (stage.refetch(ref) is None) is is_older
    assert len(records) == is_older
    for record in records:
        assert (record.verdict, record.via, record.event_id, record.at) == ("declined", "payload", event, at(0))
        assert (record.incoming_source_updated_at, record.stored_source_updated_at) == (at(9.999), at(10))
        assert (record.incoming_read_from, record.incoming_read_until) == (None, None)
        assert (record.stored_read_from, record.stored_read_until) == (10, 20)
        assert waits(stage, event) == {ref.id: 0}
        assert stage.event(event).processed_at == at(0)


@pytest.mark.parametrize("row", ["tombstone", "edited", "none"])
def test_notification_with_nothing_to_be_older_than(stage: Stage, told: Iterator[str], row: str) -> None:
    """Over a tombstone, an edited row or none at all, any notification is read."""
    ref, event = stage.ref(), next(told)
    if row != "none":
        stage.apply(stage.reading(ref, alive("a", 10), (10, 20)))
    if row == "tombstone":
        stage.apply(stage.reading(ref, GONE, (30, 40)))
    if row == "edited":
        stage.execute(
            "UPDATE objects SET source_updated_at = :year, body = '{}' WHERE id = :id", year=at(9e9), id=ref.id
        )

    receipt = stage.record(event, Named(ref, at(5)))

    assert receipt.declined == ()
    assert stage.lease(ref) is not None


def test_event_that_is_older_for_one_of_its_objects(stage: Stage, told: Iterator[str]) -> None:
    """It waits for the others only."""
    ref, other, event = stage.ref(), stage.ref(), next(told)
    stage.apply(stage.reading(ref, alive("a", 10), (10, 20)))

    receipt = stage.record(event, Named(ref, at(5)), Named(other, at(5)))
    before = stage.event(event).outcome
    stage.reread(other, alive("b", 5))

    assert receipt.declined == (ref,)
    assert before is None
    assert stage.event(event).outcome == "done"


def test_event_closes_with_the_last_of_its_objects(stage: Stage, told: Iterator[str]) -> None:
    """An event that names two objects is open until both are read."""
    ref, other, event = stage.ref(), stage.ref(), next(told)
    stage.record(event, Named(ref), Named(other))

    stage.reread(ref, alive())
    first = stage.event(event).outcome
    stage.tick(7)
    stage.reread(other, alive())

    row = stage.event(event)
    assert first is None
    assert (row.outcome, row.processed_at, row.last_error) == ("done", at(7), None)


def test_event_waits_for_the_reread(stage: Stage, told: Iterator[str]) -> None:
    """A read that ended tied closes nothing: the event waits for the reread's number."""
    ref, event = stage.ref(UNSTAMPED), next(told)
    stage.apply(stage.reading(ref, alive("a"), (10, 20)))
    stage.record(event, Named(ref))
    leased = stage.leased(ref)
    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    outcome = stage.conclude(leased, alive("b"))

    assert waits(stage, event) == {ref.id: outcome.wanted}
    assert stage.event(event).outcome is None
    stage.work_off({ref: alive("b")})
    assert stage.event(event).outcome == "done"


def test_event_since_the_lease_is_not_closed(stage: Stage, told: Iterator[str]) -> None:
    """A read closes what was wanted before it began, and no later event."""
    ref, event, later = stage.ref(), next(told), next(told)
    stage.record(event, Named(ref))
    leased = stage.leased(ref)
    stage.record(later, Named(ref))

    stage.conclude(leased, alive())

    assert (stage.event(event).outcome, stage.event(later).outcome) == ("done", None)


def locked(stage: Stage, leased: Leased) -> list[str]:
    """Return the events that a leased read may close."""
    return [event.event_id for event in stage.run(lambda c: events.lock(c, leased))]


def test_events_that_a_read_may_close(stage: Stage, told: Iterator[str]) -> None:
    """Open and dead events of this object are, in key order; done ones, other objects' and later ones are not."""
    ref, other = stage.ref(), stage.ref()
    done, dead, second, first, elsewhere, later = (next(told) for _ in range(6))
    first, second = sorted((first, second))
    stage.record(done, Named(ref))
    stage.reread(ref, alive())
    for each in (second, dead, first):
        stage.record(each, Named(ref, at(3)))
    stage.execute("UPDATE webhook_events SET outcome = 'dead' WHERE event_id = :id", id=dead)
    stage.record(elsewhere, Named(other))
    leased = stage.leased(ref)
    stage.record(later, Named(ref))

    found = stage.run(lambda c: events.lock(c, leased))

    assert [event.event_id for event in found] == sorted((first, second, dead))
    assert {(event.occurred_at, event.received_at, event.stamp) for event in found} == {(at(0), at(0), at(3))}


def test_history_of_an_object_is_not_locked_again(stage: Stage, told: Iterator[str]) -> None:
    """What this object was read for is not looked at again, though the event is open for another's sake."""
    ref, other, event = stage.ref(), stage.ref(), next(told)
    stage.record(event, Named(ref), Named(other))
    stage.reread(ref, alive())
    stage.want(ref)

    assert locked(stage, stage.leased(ref)) == []
    assert locked(stage, stage.leased(other)) == [event]


def test_dead_event_is_done_when_its_object_is_read_after_all(stage: Stage, told: Iterator[str]) -> None:
    """A dead letter that is wanted again and read closes the events that were given up with it."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref))
    kill(stage, ref)
    stage.want(ref)

    stage.reread(ref, alive())

    assert (stage.event(event).outcome, stage.event(event).last_error) == ("done", None)


def test_dead_event_stays_dead_while_one_of_its_objects_is(stage: Stage, told: Iterator[str]) -> None:
    """An event given up for one object is not done because another was read."""
    ref, other, event = stage.ref(), stage.ref(), next(told)
    stage.record(event, Named(ref), Named(other))
    kill(stage, ref)

    stage.reread(other, alive())
    before = stage.event(event).outcome
    stage.want(ref)
    stage.reread(ref, alive())

    assert before == "dead"
    assert stage.event(event).outcome == "done"


def test_close(stage: Stage, told: Iterator[str]) -> None:
    """Only those of the given events are closed that wait for nothing; those that promised more are ahead."""
    ref, other = stage.ref(), stage.ref()
    done, ahead, open_, unasked = (next(told) for _ in range(4))
    for each in (done, ahead, unasked):
        stage.record(each, Named(ref))
    stage.record(open_, Named(ref), Named(other))
    leased = stage.leased(ref)
    stage.run(lambda c: refetches.settle(c, leased, verdict=None))
    stage.tick(3)

    closed = stage.run(lambda c: events.close(c, SOURCE, [done, ahead, open_], now=stage.clock, ahead=[ahead, open_]))

    assert sorted(closed, key=lambda each: each.event_id) == sorted(
        (Closed(done, at(0)), Closed(ahead, at(0))), key=lambda each: each.event_id
    )
    outcomes = [stage.event(each).outcome for each in (done, ahead, open_, unasked)]
    assert outcomes == ["done", "ahead", None, None]
    assert stage.event(done).processed_at == at(3)
    assert stage.run(lambda c: events.close(c, SOURCE, [], now=stage.clock)) == []


def test_close_of_what_no_refetch_knows(stage: Stage, told: Iterator[str]) -> None:
    """An event whose refetch is missing was not read."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref))
    stage.execute("DELETE FROM refetches WHERE id = :id", id=ref.id)

    assert stage.run(lambda c: events.close(c, SOURCE, [event], now=stage.clock)) == []


def test_defer(stage: Stage, told: Iterator[str]) -> None:
    """The given events wait for another number of this object, and of no other."""
    ref, other, event, untouched = stage.ref(), stage.ref(), next(told), next(told)
    for each in (event, untouched):
        stage.record(each, Named(ref), Named(other))
    before, kept = waits(stage, event), waits(stage, untouched)

    stage.run(lambda c: events.defer(c, ref, [event], wanted=10**9))
    stage.run(lambda c: events.defer(c, other, [], wanted=10**9))

    assert waits(stage, event) == before | {ref.id: 10**9}
    assert waits(stage, untouched) == kept


def test_kill(stage: Stage, told: Iterator[str]) -> None:
    """Only the given events are given up."""
    ref, event, untouched = stage.ref(), next(told), next(told)
    for each in (event, untouched):
        stage.record(each, Named(ref))

    stage.run(lambda c: events.kill(c, SOURCE, [event], because="no", now=at(9)))
    stage.run(lambda c: events.kill(c, SOURCE, [], because="no", now=at(9)))

    row = stage.event(event)
    assert (row.outcome, row.last_error, row.processed_at) == ("dead", "no", at(9))
    assert stage.event(untouched).outcome is None


def test_payloads(stage: Stage, told: Iterator[str]) -> None:
    """Payloads come back with every number as it was written."""
    event, other = next(told), next(told)
    for each in (event, other):
        stage.record(each, payload={"id": each, "n": 10**30})

    assert stage.run(lambda c: events.payloads(c, SOURCE, [event])) == {event: {"id": event, "n": 10**30}}


def test_replay(stage: Stage, told: Iterator[str]) -> None:
    """Chosen events are open again and wait for a new read of all they name."""
    ref, other, event, second = stage.ref(), stage.ref(), next(told), next(told)
    stage.record(event, Named(ref), Named(other))
    stage.record(second, Named(ref))
    for each in (ref, other):
        stage.reread(each, alive())
    before = waits(stage, event)
    ignored = next(told)
    stage.record(ignored)

    wanted = stage.run(lambda c: events.replay(c, event_ids=[event, second, ignored], now=stage.clock)).wanted

    row = stage.event(event)
    assert wanted == 2
    assert (row.outcome, row.processed_at) == (None, None)
    assert all(waits(stage, event)[each] > before[each] for each in before)
    assert waits(stage, event)[ref.id] == waits(stage, second)[ref.id]
    assert stage.event(ignored).outcome == "ignored"
    refetch = stage.refetch(ref)
    assert refetch is not None
    assert refetch.reason == "replay"
    assert stage.run(lambda c: events.replay(c, event_ids=[ignored])).wanted == 0
    assert stage.run(lambda c: events.replay(c, event_ids=[])).wanted == 0


@pytest.mark.parametrize(
    ("chosen", "opened"),
    [
        ({"source": SOURCE}, {"done", "dead", "late"}),
        ({"source": "elsewhere"}, set()),
        ({"state": "dead"}, {"dead"}),
        ({"state": "done"}, {"done", "late"}),
        ({"state": "open"}, set()),
        ({"since": at(10)}, {"late"}),
        ({"since": at(10.001)}, set()),
        ({"event_ids": ["done"]}, {"done"}),
        ({"event_ids": ["done"], "state": "dead"}, set()),
        ({}, {"done", "dead", "late"}),
    ],
)
def test_replay_chooses(lone_stage: Stage, chosen: dict[str, object], opened: set[str]) -> None:
    """Events are chosen by id, source, state and time of receipt, all of which must hold."""
    stage = lone_stage
    refs = {name: stage.ref(STAMPED) for name in ("done", "dead", "late")}
    for name, ref in refs.items():
        stage.clock = at(10 if name == "late" else 0)
        stage.record(name, Named(ref))
        if name == "dead":
            kill(stage, ref)
        else:
            stage.reread(ref, alive())

    wanted = stage.run(lambda c: events.replay(c, now=stage.clock, **chosen)).wanted  # type: ignore[arg-type]

    assert {name for name in refs if stage.event(name).outcome is None} == opened
    assert wanted == len(opened)


def test_odd_headers(stage: Stage, told: Iterator[str]) -> None:
    """Nothing that a sender writes into a header keeps an event from being stored."""
    event = next(told)
    arrival = replace(stage.arrival(event), headers={"x": "a\0b\ud800"})

    stage.run(lambda c: events.receive(c, [arrival]))

    assert stage.event(event).headers == {"x": "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"}


def test_late_worker(stage: Stage, told: Iterator[str]) -> None:
    """A worker that outlived its lease applies what it read, by the guard, and closes nothing with it."""
    ref, event = stage.ref(), next(told)
    stage.record(event, Named(ref, at(5)))
    late = stage.leased(ref)
    stage.tick(LEASE.total_seconds())
    holder = stage.leased(ref)

    outcome = stage.conclude(late, alive("a", 5))
    between = stage.event(event).outcome
    stage.conclude(holder, alive("a", 5))

    assert outcome.verdict == "applied"
    assert between is None
    assert stage.event(event).outcome == "done"


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_wish_to_be_forgotten(stage: Stage, told: Iterator[str], repeats: int) -> None:
    """What a provider asks us to forget is on record with its event, once."""
    event, ref = next(told), stage.ref()
    for _ in range(repeats):
        stage.record(event, erasure=Erasure(((ref, True),)))

    wishes = stage.query("SELECT event_id, whole FROM erasures WHERE event_id = :id", id=event)
    assert [tuple(row) for row in wishes] == [(event, False)]


@pytest.mark.parametrize(("skipped", "looks"), [("", 1), ("of the other mode", 0)])
def test_a_word_about_our_access(stage: Stage, told: Iterator[str], skipped: str, looks: int) -> None:
    """Somebody is to look at once, unless the event must not be acted on."""
    event = next(told)
    stage.record(event, access=AccessWord(event, "suspended"), skipped=skipped)

    wanted = stage.query("SELECT what FROM access_looks WHERE scope = :scope", scope=event)
    assert [row.what for row in wanted] == ["suspended"] * looks
