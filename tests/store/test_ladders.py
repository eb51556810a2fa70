"""Ladders: what it takes until a source that rewound, or an object back from the dead, is believed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.model import Change, Origin, Reading, Reason, Via
from reconciler.store import refetches
from reconciler.store.guard import REWOUND_LOOKS
from reconciler.store.refetches import Absent, Again, Alive, Ladders, Older, Seen
from tests.store.stage import (
    APPLIED,
    DECLINED,
    GONE,
    NOT_FOUND,
    READ_LAG,
    REWOUND_AFTER,
    STAMPED,
    TIED,
    UNCHANGED,
    UNSTAMPED,
    Shown,
    alive,
    at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from reconciler.model import ObjectRef
    from reconciler.store.guard import Outcome
    from tests.store.stage import Stage

NOTHING_SEEN = Ladders()


def seen(stage: Stage, ref: ObjectRef) -> Ladders:
    """Return what the ladders of *ref* hold."""
    return stage.run(lambda c: refetches.lock_seen(c, [ref])).get(ref, NOTHING_SEEN)


def held(stage: Stage, what: Shown, kind_name: str = STAMPED) -> ObjectRef:
    """Return an object of which our row shows *what*."""
    ref = stage.ref(kind_name)
    stage.apply(stage.reading(ref, what, (10, 20)))
    return ref


def look(stage: Stage, ref: ObjectRef, shown: Shown, *, after: float = 0) -> Outcome:
    """Read *ref* now, whether or not that is due, some seconds from now."""
    stage.tick(after)
    if stage.due_at(ref) is None or stage.lease(ref) is None:
        stage.want(ref, Reason.TRIGGER)
        return stage.conclude(stage.leased(ref), shown)
    stage.execute("UPDATE refetches SET leased_until = NULL, lease_token = NULL WHERE id = :id", id=ref.id)
    return stage.conclude(stage.leased(ref), shown)


def next_step(stage: Stage, ref: ObjectRef, shown: Shown) -> tuple[datetime, Outcome]:
    """Wait until *ref* is due and read it; return when that was, and what it came to."""
    due = stage.due_at(ref)
    assert due is not None
    stage.clock = due
    outcome = stage.reread(ref, shown)
    assert outcome is not None
    return due, outcome


def test_rewind_ladder(stage: Stage) -> None:
    """A source that shows an older state four times over ten minutes is believed, and looked at three times more."""
    ref = held(stage, alive("new", 100))
    stage.want(ref)
    began = stage.clock

    climbed = [next_step(stage, ref, alive("old", 50)) for _ in range(4)]

    row, refetch = stage.row(ref), stage.refetch(ref)
    found = [(time - began, outcome.verdict, outcome.ladder) for time, outcome in climbed]
    outcome = climbed[-1][1]
    assert row is not None
    assert refetch is not None
    assert found == [
        (timedelta(0), DECLINED, True),
        (timedelta(seconds=30), DECLINED, True),
        (timedelta(minutes=3), DECLINED, True),
        (timedelta(minutes=10), APPLIED, True),
    ]
    assert stage.stands(ref, alive("old", 50))
    assert row.source_updated_at == at(50)
    assert outcome.change is Change.REWOUND
    assert outcome.because == "rewound"
    assert [past.what for past in stage.of("object_history", ref)] == ["created", "rewound"]
    assert [record.verdict for record in stage.of("declined_writes", ref)] == ["declined"] * 3
    assert seen(stage, ref) == Ladders(Seen(), tuple(stage.clock + look for look in REWOUND_LOOKS))
    assert refetch.wanted == refetch.done
    looks = []
    while (due := stage.due_at(ref)) is not None:
        looks.append(due - stage.clock)
        stage.clock = due
        assert stage.reread(ref, alive("old", 50)) is not None
    assert looks == [timedelta(hours=1), timedelta(hours=5), timedelta(hours=18)]


def test_rewind_ladder_over_same_content(stage: Stage) -> None:
    """The same content with an older stamp stays unchanged, until the ladder's end lowers the stamp."""
    ref = held(stage, alive("same", 100))
    stage.want(ref)
    stamps = []

    for _ in range(4):
        _, outcome = next_step(stage, ref, alive("same", 50))
        row = stage.row(ref)
        assert row is not None
        stamps.append((outcome.verdict, row.source_updated_at, outcome.wanted))

    assert stamps == [(UNCHANGED, at(100), None)] * 3 + [(UNCHANGED, at(50), None)]
    assert stage.of("declined_writes", ref) == []
    assert len(stage.of("object_history", ref)) == 1
    assert seen(stage, ref) == Ladders(Seen(), tuple(stage.clock + look for look in REWOUND_LOOKS))


def test_rewind_needs_four_reads(stage: Stage) -> None:
    """Three reads are not believed, however far apart."""
    ref = held(stage, alive("new", 100))

    verdicts = [look(stage, ref, alive("old", 50), after=3600).verdict for _ in range(4)]

    assert verdicts == [DECLINED] * 3 + [APPLIED]


def test_rewind_needs_ten_minutes(stage: Stage) -> None:
    """Any number of reads in less than ten minutes is not believed, and the next one is due when they are over."""
    ref = held(stage, alive("new", 100))
    began = stage.clock

    verdicts = [look(stage, ref, alive("old", 50), after=after).verdict for after in (0, 60, 60, 60, 60, 60)]
    due = stage.due_at(ref)
    last = look(stage, ref, alive("old", 50), after=299.999)
    end = look(stage, ref, alive("old", 50), after=0.001)

    assert verdicts == [DECLINED] * 6
    assert due == began + REWOUND_AFTER
    assert (last.verdict, end.verdict) == (DECLINED, APPLIED)


def test_last_step_of_a_rewind_is_not_put_off_for_ever(stage: Stage) -> None:
    """A read that comes a moment too early is followed by one that is not."""
    ref = held(stage, alive("new", 100))
    for after in (0, 60, 60, 60):
        look(stage, ref, alive("old", 50), after=after)

    outcome = look(stage, ref, alive("old", 50), after=419.5)

    assert outcome.verdict is DECLINED
    assert stage.clock + 0.05 * REWOUND_AFTER in seen(stage, ref).again


def test_rewind_ladder_begins_anew_below_its_predecessor(stage: Stage) -> None:
    """A read older than the one before it is the first of a new ladder; one that is newer climbs on."""
    ref = held(stage, alive("new", 100))

    for stamp, reads in [(50, 1), (50, 2), (60, 3), (55, 1), (55, 2), (55, 3)]:
        look(stage, ref, alive("old", stamp), after=600)
        ladder = seen(stage, ref).seen.older
        assert ladder is not None
        assert (ladder.reads, ladder.stamp) == (reads, at(stamp))


def test_rewind_to_an_object_without_a_stamp(stage: Stage) -> None:
    """A missing stamp is the oldest of all, and climbs the same ladder."""
    ref = held(stage, alive("new", 100))

    verdicts = [look(stage, ref, Shown({"name": "old"}), after=600).verdict for _ in range(4)]

    assert verdicts == [DECLINED] * 3 + [APPLIED]
    row = stage.row(ref)
    assert row is not None
    assert row.source_updated_at is None


def test_rewind_reads_that_overlap_count_once(stage: Stage) -> None:
    """A read that began before the one before it had ended tells nothing more."""
    ref = held(stage, alive("new", 100))
    stage.want(ref)
    first = stage.leased(ref)
    stage.tick(600)
    stage.execute("UPDATE refetches SET leased_until = NULL WHERE id = :id", id=ref.id)
    stage.want(ref)
    second = stage.leased(ref)

    for leased in (second, first):
        stage.conclude(leased, alive("old", 50))

    ladder = seen(stage, ref).seen.older
    assert ladder is not None
    assert ladder.reads == 1
    assert ladder.began_at == second.began_at


@pytest.mark.parametrize("begins_at_its_end", [True, False])
def test_rewind_reads_must_not_touch(stage: Stage, *, begins_at_its_end: bool) -> None:
    """A read that begins with the very position that ended the last one does not count; the next position does."""
    ref = held(stage, alive("new", 100))
    stage.apply(stage.reading(ref, alive("old", 50), (30, 40)))

    stage.apply(stage.reading(ref, alive("old", 50), (40 if begins_at_its_end else 41, 50)))

    ladder = seen(stage, ref).seen.older
    assert ladder is not None
    assert ladder.reads == (1 if begins_at_its_end else 2)


@pytest.mark.parametrize(
    ("shown", "listed"),
    [
        (alive("newer", 101), False),
        (alive("newer", 101), True),
        (alive("same stamp", 100), False),
        (alive("new", 100), False),
        (alive("new", 101), False),
        (GONE, False),
        (GONE, True),
    ],
)
def test_rewind_ladder_ends(stage: Stage, shown: Shown, *, listed: bool) -> None:
    """Whatever moves the row, or a live read that shows it as it is, ends the ladder: no stale read climbs on."""
    ref = held(stage, alive("new", 100))
    for _ in range(3):
        look(stage, ref, alive("old", 50), after=600)
    drawn = stage.position()

    stage.apply(stage.reading(ref, shown, (drawn, None), listed=listed))

    assert seen(stage, ref).seen.older is None
    assert look(stage, ref, alive("old", 50), after=600).verdict is not APPLIED


@pytest.mark.parametrize(
    ("shown", "listed", "span"),
    [
        (alive("new", 100), True, None),
        (alive("new", 50), True, None),
        (alive("new", 100), False, (5, 15)),
        (alive("older", 99), True, None),
        (alive("older", 99), False, (5, 15)),
    ],
)
def test_rewind_ladder_goes_on(stage: Stage, shown: Shown, span: tuple[int, int] | None, *, listed: bool) -> None:
    """Lists, which may lag, and reads from before prove nothing against the ladder."""
    ref = held(stage, alive("new", 100))
    for _ in range(3):
        look(stage, ref, alive("old", 50), after=600)
    before = seen(stage, ref).seen

    stage.apply(stage.reading(ref, shown, span or (stage.position(), None), listed=listed))

    assert seen(stage, ref).seen == before
    assert look(stage, ref, alive("old", 50), after=600).verdict is APPLIED


def test_rewind_ladder_from_the_future_begins_anew(stage: Stage) -> None:
    """A ladder whose beginning lies ahead of the clock was begun by a wrong clock."""
    ref = held(stage, alive("new", 100))
    for _ in range(3):
        look(stage, ref, alive("old", 50), after=600)
    stage.tick(-7200)

    outcome = look(stage, ref, alive("old", 50))

    ladder = seen(stage, ref).seen.older
    assert ladder is not None
    assert outcome.verdict is DECLINED
    assert (ladder.reads, ladder.began_at) == (1, stage.clock)


def test_life_after_death(stage: Stage) -> None:
    """The first live read over a tombstone is noted and tied; the second, `read_lag` later, restores."""
    ref = held(stage, GONE)
    first = look(stage, ref, alive("back", 5), after=60)
    noted, ended = seen(stage, ref), stage.clock
    early = look(stage, ref, alive("back", 5), after=READ_LAG.total_seconds() - 0.001)
    due = stage.due_at(ref)
    second = look(stage, ref, alive("back", 6), after=0.001)

    assert noted.seen.alive is not None
    assert noted.seen.alive.ended_at == ended
    assert noted.again == (ended + READ_LAG,)
    assert (first.verdict, early.verdict, second.verdict) == (TIED, TIED, APPLIED)
    assert due == ended + READ_LAG
    assert second.change is Change.RESTORED
    assert seen(stage, ref) == NOTHING_SEEN
    row = stage.row(ref)
    assert row is not None
    assert (row.deleted_at, row.source_updated_at) == (None, at(6))
    assert stage.due_at(ref) is None


@pytest.mark.parametrize(("begins", "verdict"), [(40, TIED), (41, APPLIED)])
def test_second_read_begins_after_the_first_ended(stage: Stage, begins: int, verdict: object) -> None:
    """Two reads that touch are one as far as they prove anything."""
    ref = held(stage, GONE)
    stage.apply(stage.reading(ref, alive("back"), (30, 40)))
    stage.tick(60)

    [outcome] = stage.apply(stage.reading(ref, alive("back"), (begins, 50)))

    assert outcome.verdict is verdict


def test_listing_after_a_first_live_read(stage: Stage) -> None:
    """A list is no second live read."""
    ref = held(stage, GONE)
    look(stage, ref, alive("back"), after=60)
    stage.tick(60)

    [outcome] = stage.apply(stage.reading(ref, alive("back"), (stage.position(), None), listed=True))

    assert outcome.verdict is TIED
    assert stage.stands(ref, GONE)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])
def test_confirmed_tombstone_forgets_a_first_live_read(stage: Stage, kind_name: str, *, listed: bool) -> None:
    """A live read from before the object was found gone again counts for nothing."""
    ref = held(stage, GONE, kind_name)
    look(stage, ref, alive("ghost"), after=60)
    stage.tick(60)
    [confirmed] = stage.apply(stage.reading(ref, GONE, (stage.position(), None), listed=listed))

    outcome = look(stage, ref, alive("ghost"))

    assert confirmed.verdict is UNCHANGED
    assert outcome.verdict is TIED
    assert stage.stands(ref, GONE)


def test_first_live_read_from_the_future(stage: Stage) -> None:
    """A note that lies ahead of the clock is not waited for."""
    ref = held(stage, GONE)
    look(stage, ref, alive("back"), after=3600)
    stage.tick(-3000)

    outcome = look(stage, ref, alive("back"))

    note = seen(stage, ref).seen.alive
    assert note is not None
    assert outcome.verdict is TIED
    assert note.ended_at == stage.clock


@pytest.mark.parametrize(
    ("row", "shown", "span", "forgotten"),
    [
        (alive("a", 10), alive("a", 10), None, True),
        (alive("a", 10), alive("b", 11), None, True),
        (alive("a", 10), alive("b", 9), None, True),
        (alive("a", 10), alive("b", 11), (15, 30), True),
        (GONE, alive("b", 11), None, True),
        (None, alive("b", 11), None, True),
        (alive("a", 10), GONE, (15, 30), False),
        (alive("a", 10), GONE, None, True),
        (GONE, GONE, None, True),
    ],
)
def test_note_of_a_first_absence(
    stage: Stage, row: Shown | None, shown: Shown, span: tuple[int, int] | None, *, forgotten: bool
) -> None:
    """A live read that shows the object, whatever its verdict, clears the note of a first 404."""
    ref = stage.ref() if row is None else held(stage, row)
    note = Seen(absent=Absent(25, at(0)), behind=2, confirmed=at(7))
    stage.run(
        lambda c: refetches.read_again(
            c, [Again(ref, (at(60),), Reason.REREAD, note, wants=False, began_at=None)], now=stage.clock
        )
    )

    stage.apply(stage.reading(ref, shown, span or (30, 40)))

    left = seen(stage, ref).seen
    assert left.absent == (None if forgotten else note.absent)
    assert (left.behind, left.confirmed) == (2, at(7))


def note_absence(stage: Stage, ref: ObjectRef, until: int) -> None:
    """Note a first 404 that ended at a position, as the drain does."""
    again = Again(ref, (at(60),), Reason.REREAD, Seen(absent=Absent(until, at(0))), wants=False, began_at=None)
    stage.run(lambda c: refetches.read_again(c, [again], now=stage.clock))


@pytest.mark.parametrize("row", [alive("a", 10), None])
@pytest.mark.parametrize(("noted", "is_believed"), [(None, False), (30, False), (29, True)])
def test_absence_that_nobody_states(stage: Stage, row: Shown | None, noted: int | None, *, is_believed: bool) -> None:
    """A 404 counts only where another one, which ended before it began, is still on record when it is applied."""
    ref = stage.ref() if row is None else held(stage, row)
    if noted is not None:
        note_absence(stage, ref, noted)

    [outcome] = stage.apply(stage.reading(ref, NOT_FOUND, (30, 40)))

    assert outcome.verdict is (APPLIED if is_believed else TIED)
    assert stage.stands(ref, GONE) is is_believed
    assert (outcome.wanted is None) is is_believed
    if not is_believed:
        assert stage.due_at(ref) == stage.clock
        [record] = stage.of("declined_writes", ref)
        told = (record.stored_read_from, record.stored_read_until)
        assert told == ((0, 0) if row is None else outcome.stored_positions)


def test_absence_that_confirms_a_tombstone(stage: Stage) -> None:
    """Over a tombstone one 404 is enough."""
    ref = held(stage, GONE)

    [outcome] = stage.apply(stage.reading(ref, NOT_FOUND, (30, 40)))

    assert outcome.verdict is UNCHANGED


def test_first_absence_that_was_cleared_meanwhile(stage: Stage) -> None:
    """A list that showed the object between two 404s is heeded, even if it is applied while the second is read."""
    ref = held(stage, alive("a", 10), UNSTAMPED)
    note_absence(stage, ref, stage.position())
    page = stage.reading(ref, alive("a", 10), (stage.position(), stage.position()))
    stage.want(ref)
    leased = stage.leased(ref)
    stage.apply(page)

    outcome = stage.conclude(leased, NOT_FOUND)

    assert leased.seen.absent is not None
    assert outcome.verdict is TIED
    assert stage.stands(ref, alive("a", 10))


def test_listing_that_makes_a_row_clears_the_note_of_a_first_absence(stage: Stage) -> None:
    """A list that shows what was not found once is enough to begin the proof anew."""
    ref = stage.ref(UNSTAMPED)
    note = Seen(absent=Absent(5, at(0)))
    stage.run(
        lambda c: refetches.read_again(
            c, [Again(ref, (at(60),), Reason.REREAD, note, wants=False, began_at=None)], now=stage.clock
        )
    )

    stage.apply(stage.reading(ref, alive(), (30, 40), listed=True))

    assert seen(stage, ref) == Ladders(Seen(), (at(60),))


def test_what_ladders_have_seen_survives(stage: Stage) -> None:
    """All that is noted comes back as it was written, and a new want leaves it alone."""
    ref = stage.ref()
    note = Seen(Alive(3, at(1)), Older(2, at(2), 9, None), Absent(4, at(3.5)), behind=3, confirmed=at(4))
    stage.run(
        lambda c: refetches.read_again(
            c, [Again(ref, (at(60), at(90)), Reason.REREAD, note, wants=False, began_at=None)], now=stage.clock
        )
    )

    stage.want(ref)

    assert seen(stage, ref) == Ladders(note, (at(60), at(90)))
    assert stage.leased(ref).seen == note


def rereads(stage: Stage, ref: ObjectRef) -> Sequence[object]:
    """Return the times at which *ref* is read again."""
    return seen(stage, ref).again


def test_rereads_keep_their_own_time(stage: Stage) -> None:
    """A want, and a read that began before a reread's time, leave it; one that begins at that time clears it."""
    ref = held(stage, alive("a", 10))
    stage.run(
        lambda c: refetches.read_again(
            c, [Again(ref, (at(60), at(90)), Reason.REREAD, None, wants=False, began_at=None)], now=stage.clock
        )
    )

    look(stage, ref, alive("a", 10), after=59.999)
    untouched = rereads(stage, ref)
    look(stage, ref, alive("a", 10), after=0.001)
    first_done = rereads(stage, ref)
    stage.apply(stage.reading(ref, alive("a", 10), (stage.position(), None), listed=True))
    stage.tick(60)
    stage.apply(stage.reading(ref, alive("a", 10), (stage.position(), None), listed=True))
    listed = rereads(stage, ref)
    stage.work_off({ref: alive("a", 10)})

    assert untouched == (at(60), at(90))
    assert first_done == listed == (at(90),)
    assert rereads(stage, ref) == ()
    assert stage.due_at(ref) is None


def test_reread_that_was_begun_too_early(stage: Stage) -> None:
    """A slow read that began before a reread's time and ends after it does not clear it."""
    ref = held(stage, alive("a", 10))
    reading = stage.reading(ref, alive("a", 10), (30, None))
    stage.run(
        lambda c: refetches.read_again(
            c, [Again(ref, (at(60),), Reason.REREAD, None, wants=False, began_at=None)], now=stage.clock
        )
    )
    stage.tick(120)

    stage.apply(reading)

    assert rereads(stage, ref) == (at(60),)


def test_reread_far_ahead(stage: Stage) -> None:
    """A time beyond what any rule sets came from a wrong clock: a live read clears it, a list keeps it."""
    ref, other = held(stage, alive("a", 10)), held(stage, alive("a", 10))
    within, beyond = refetches.FURTHEST.total_seconds(), refetches.FURTHEST.total_seconds() + 0.001
    for each in (ref, other):
        again = Again(each, (at(within), at(beyond)), Reason.REREAD, Seen(behind=1), wants=False, began_at=None)
        stage.run(lambda c, again=again: refetches.read_again(c, [again], now=stage.clock))  # type: ignore[misc]

    stage.apply(stage.reading(ref, GONE, (30, 40)), stage.reading(other, GONE, (30, 40), listed=True))

    assert rereads(stage, ref) == (at(within),)
    assert rereads(stage, other) == (at(within), at(beyond))


def test_read_that_is_from_no_event(stage: Stage) -> None:
    """What brought a read is on record with what it did."""
    ref = stage.ref()

    stage.apply(
        Reading(stage.snapshot(ref, alive()), 10, 20, stage.clock),
        origin=Origin(Via.TRIGGER, event_id="evt_9", run_id=3),
    )

    [past] = stage.of("object_history", ref)
    assert (past.via, past.event_id, past.run_id, past.source_updated_at) == ("trigger", "evt_9", 3, at(0))
