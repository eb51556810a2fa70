"""The laws of the guard, by exhaustive search where that is small and by generated histories where it is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.model import Origin, Proof, Reading, Snapshot, Via
from reconciler.store import guard, refetches
from tests.store.stage import (
    APPLIED,
    DECLINED,
    FIRST_DRAWN,
    GONE,
    LEASE,
    REWOUND_AFTER,
    SOURCE,
    STAMPED,
    TIED,
    UNCHANGED,
    UNSTAMPED,
    alive,
    at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from reconciler.model import ObjectRef, Verdict
    from reconciler.store.guard import Outcome
    from tests.store.stage import Shown, Stage

_STEP = 10
_PIECE = 400
both_kinds = pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])


def generated(examples: int) -> settings:
    """Return how many histories a test looks at."""
    unconcerned = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, deadline=None, database=None, suppress_health_check=unconcerned)


@dataclass(frozen=True, slots=True)
class State:
    """What a provider holds of an object from one change to the next."""

    content: str | None
    stamp: int


@dataclass(frozen=True, slots=True)
class Read:
    """A read and the number of the state that it saw, oldest first; its interval is one of positions."""

    span: tuple[int, int]
    level: int
    listed: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """An object's states, and reads of it in the order in which they are applied."""

    states: tuple[State, ...]
    reads: tuple[Read, ...]

    def shown(self, level: int) -> Shown:
        """Return what the provider shows in this state."""
        state = self.states[level]
        return GONE if state.content is None else alive(state.content, state.stamp)

    @property
    def last(self) -> Shown:
        """What the provider shows once it is quiet."""
        return self.shown(len(self.states) - 1)


def reading(ref: ObjectRef, history: History, read: Read, stage: Stage) -> Reading:
    """Return a read as the guard takes it; the time it was observed tells which state it saw."""
    shown = history.shown(read.level)
    stamp = shown.stamp if ref.kind == STAMPED else None
    proof = Proof.STATED if shown.body is None else None
    snapshot = Snapshot(ref, shown.body, stamp, at(read.level), proof=proof)
    return Reading(snapshot, *read.span, began_at=stage.clock, listed=read.listed)


# --- small worlds, whole ---


def spans(reads: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield every way in which the intervals of so many reads can lie to one another."""
    for order in set(permutations([read for read in range(reads) for _ in "fu"])):
        ends: dict[int, list[int]] = {}
        for place, read in enumerate(order, start=1):
            ends.setdefault(read, []).append(place * _STEP)
        yield tuple((ends[read][0], ends[read][1]) for read in range(reads))


def levels(taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield every way in which honest reads with these intervals can have seen states, the last one among them."""
    for seen in product(range(len(taken)), repeat=len(taken)):
        honest = all(
            one[0] < other[1]
            for one, early in zip(taken, seen, strict=True)
            for other, late in zip(taken, seen, strict=True)
            if early < late
        )
        if honest and set(seen) == set(range(max(seen) + 1)):
            yield seen


def lives(length: int, *, stamped: bool) -> Iterator[tuple[State, ...]]:
    """Yield every life of so many states: there or not, changed back or on, with a stamp that moved or stayed."""
    names = [each for each in product(("a", "b", "c", None), repeat=length) if all(a != b for a, b in pairwise(each))]
    kept = [each for each in names if _first_of_its_sort(each)]
    for contents in kept:
        # Around an absence no stamp is compared: there it always moves.
        choices = [(0, 1) if stamped and None not in pair else (1,) for pair in pairwise(contents)]
        for moves in product(*choices):
            yield tuple(State(content, sum(moves[:place])) for place, content in enumerate(contents))


def _first_of_its_sort(contents: tuple[str | None, ...]) -> bool:
    """Whether no other naming says the same: names appear in alphabetical order."""
    names = list(dict.fromkeys(each for each in contents if each is not None))
    return names == sorted(names) and names == list("abc"[: len(names)])


def small_worlds(reads: int, *, stamped: bool) -> Iterator[History]:
    """Yield every history of so many reads, up to names."""
    for taken in spans(reads):
        for seen in levels(taken):
            for states in lives(max(seen) + 1, stamped=stamped):
                yield History(states, tuple(Read(span, level) for span, level in zip(taken, seen, strict=True)))


def apply_all(stage: Stage, readings: Sequence[Reading]) -> list[Outcome]:
    """Apply readings of different objects, many to a transaction."""
    pieces = [readings[start : start + _PIECE] for start in range(0, len(readings), _PIECE)]
    return [outcome for piece in pieces for outcome in stage.apply(*piece)]


def observed(stage: Stage, kind_name: str) -> dict[str, int]:
    """Return which state each row of a kind shows, by id."""
    found = stage.query("SELECT id, observed_at FROM objects WHERE kind = :kind", kind=kind_name)
    return {row.id: round((row.observed_at - at(0)).total_seconds()) for row in found}


def work_off_all(stage: Stage, worlds: Mapping[ObjectRef, History]) -> int:
    """Carry out every reread that is queued, many to a transaction; return how many that took."""
    reads = 0
    by_id = {ref.id: ref for ref in worlds}
    [kind_name] = {ref.kind for ref in worlds}
    for _ in range(20):
        due = stage.query(
            "SELECT id, LEAST(CASE WHEN wanted > done THEN due_at END, again_at) AS due FROM refetches "
            "WHERE kind = :kind AND (wanted > done OR again_at IS NOT NULL)",
            kind=kind_name,
        )
        if not due:
            return reads
        stage.clock = max([stage.clock, *(row.due for row in due)])
        refs = sorted(by_id[row.id] for row in due)
        for start in range(0, len(refs), _PIECE):
            reads += reread_together(stage, {ref: worlds[ref] for ref in refs[start : start + _PIECE]})
    message = "objects are read again and again"
    raise AssertionError(message)


def reread_together(stage: Stage, worlds: Mapping[ObjectRef, History]) -> int:
    """Lease these objects, read each in its last state, apply and settle."""

    def work(connection: Connection) -> int:
        leased = [refetches.lease_one(connection, ref, n=1, lease=LEASE, now=stage.clock) for ref in worlds]
        held = [each for each in leased if each is not None]
        readings = []
        for each in held:
            history = worlds[each.ref]
            last = Read((each.read_from, each.read_from), len(history.states) - 1)
            readings.append(replace(reading(each.ref, history, last, stage), read_until=None, began_at=each.began_at))
        outcomes = guard.apply(connection, readings, origin=Origin(Via.REREAD), mirror=stage.mirror, now=stage.clock)
        for each, outcome in zip(held, outcomes, strict=True):
            refetches.settle(connection, each, verdict=outcome.verdict)
        return len(held)

    return stage.run(work)


def not_standing(stage: Stage, worlds: Mapping[ObjectRef, History]) -> list[History]:
    """Return the histories whose row does not end as the provider did."""
    kinds = {ref.kind for ref in worlds}
    found = stage.query("SELECT kind, id, digest, deleted_at FROM objects WHERE kind = ANY(:kinds)", kinds=list(kinds))
    rows = {(row.kind, row.id): None if row.deleted_at else row.digest for row in found}
    wrong = []
    for ref, history in worlds.items():
        form = stage.mirror.of(SOURCE, ref.kind).form
        body = history.last.body
        digest = None if body is None else form.digest(form.stored(body))
        if rows.get((ref.kind, ref.id), "no row") != digest:
            wrong.append(history)
    return wrong


@both_kinds
def test_small_worlds(lone_stage: Stage, kind_name: str) -> None:
    """Laws 2, 3 and 5 hold for every order of up to three overlapping reads over every life of up to three states."""
    stage = lone_stage
    stamped = kind_name == STAMPED
    worlds = {stage.ref(kind_name): each for reads in (1, 2, 3) for each in small_worlds(reads, stamped=stamped)}
    verdicts: Counter[Verdict | None] = Counter()
    before: dict[str, int] = {}
    for place in range(3):
        now = {ref: each.reads[place] for ref, each in worlds.items() if place < len(each.reads)}
        outcomes = apply_all(stage, [reading(ref, worlds[ref], read, stage) for ref, read in now.items()])
        verdicts.update(outcome.verdict for outcome in outcomes)
        shows = observed(stage, kind_name)
        assert [ref for ref in now if shows[ref.id] < before.get(ref.id, 0)] == [], "a row went back"
        before = shows

    reread = work_off_all(stage, worlds)

    [(recorded,)] = stage.query("SELECT count(*) FROM declined_writes WHERE event_id IS NULL AND via = 'webhook'")
    assert len(worlds) > 1500
    assert reread > 500
    assert not_standing(stage, worlds) == []
    assert sum(verdicts.values()) == sum(len(each.reads) for each in worlds.values())
    assert set(verdicts) == {APPLIED, UNCHANGED, DECLINED, TIED}
    assert recorded == verdicts[DECLINED] + verdicts[TIED]


# --- larger worlds, by chance ---


@st.composite
def histories(draw: st.DrawFn, *, rewinds: bool = True, gone: bool = True, kept: bool = True) -> History:
    """Draw a life and honest reads of it, one of which sees its end, in any order, some twice."""
    states = draw(_lives(rewinds=rewinds, gone=gone, kept=kept))
    changes = sorted(draw(st.lists(st.integers(1, 900), min_size=len(states) - 1, max_size=len(states) - 1)))
    reads = []
    for last in (*draw(st.lists(st.just(False), max_size=7)), True):  # noqa: FBT003 - drawn for shrinking
        begin, see, end = sorted(draw(st.tuples(*[st.integers(1, 990)] * 3)))
        see, end = (max(see, 901), max(end, 902)) if last else (see, max(end, see))
        level = sum(change <= see for change in changes)
        reads.append(Read((begin, end), level, listed=draw(st.booleans())))
    again = draw(st.lists(st.sampled_from(reads), max_size=3))
    return History(states, tuple(draw(st.permutations([*reads, *again]))))


@st.composite
def _lives(draw: st.DrawFn, *, rewinds: bool, gone: bool, kept: bool) -> tuple[State, ...]:
    states = [State("a", 20)]
    moves = st.sampled_from([*((0,) if kept else ()), 1, 5, *((-7,) if rewinds else ())])
    contents = st.sampled_from(["a", "b", "c", *((None,) if gone else ())])
    for content in draw(st.lists(contents, max_size=6)):
        states.append(State(content, states[-1].stamp + draw(moves)))
    return tuple(states)


def batches(draw: st.DataObject, readings: Sequence[Reading]) -> Iterator[Sequence[Reading]]:
    """Yield the readings in their order, some alone and some together."""
    left = list(readings)
    while left:
        size = draw.draw(st.integers(1, 3))
        yield left[:size]
        left = left[size:]


@both_kinds
@generated(100)
@given(history=histories(), draw=st.data())
def test_law_3_order_independence(stage: Stage, kind_name: str, history: History, draw: st.DataObject) -> None:
    """Any reads of which one saw the end, in any order, twice, in batches: the rereads they queue end in one row."""
    ref = stage.ref(kind_name)
    shows = -1
    for batch in batches(draw, [reading(ref, history, read, stage) for read in history.reads]):
        outcomes = stage.apply(*batch)
        row = stage.row(ref)
        assert row is not None
        level = round((row.observed_at - at(0)).total_seconds())
        assert level >= shows, "law 2: a row went back"
        assert all(outcome.verdict is not None or outcome.wanted is not None for outcome in outcomes)
        shows = level

    stage.work_off({ref: history.last})

    assert stage.stands(ref, history.last)


@generated(100)
@given(history=histories(rewinds=False, gone=False, kept=False), stale=st.lists(st.integers(0, 6), min_size=12))
def test_law_2_no_regress(stage: Stage, history: History, stale: list[int]) -> None:
    """However old the states are that a provider shows, their stamps keep a row from going back to them."""
    ref = stage.ref(STAMPED)
    shows = -1
    for read, back in zip(history.reads, stale, strict=False):
        seen = replace(read, level=max(0, read.level - back))
        stage.apply(reading(ref, history, seen, stage))
        row = stage.row(ref)
        assert row is not None
        assert round((row.observed_at - at(0)).total_seconds()) >= shows
        shows = round((row.observed_at - at(0)).total_seconds())

    stage.want(ref)
    stage.work_off({ref: history.last})

    assert stage.stands(ref, history.last)


@both_kinds
@generated(60)
@given(history=histories(), draw=st.data())
def test_law_6_repair_is_never_blocked(stage: Stage, kind_name: str, history: History, draw: st.DataObject) -> None:
    """Whatever was done to row, sequence and stamp, one want brings the row back within the ladder's time."""
    ref = stage.ref(kind_name)
    harm = {
        "edit": "UPDATE objects SET body = '{\"name\": \"x\"}', source_updated_at = 'infinity' WHERE id = :id",
        "delete": "DELETE FROM objects WHERE id = :id",
        "bury": "UPDATE objects SET deleted_at = 'infinity' WHERE id = :id",
        "lift": "UPDATE objects SET deleted_at = NULL, body = COALESCE(body, '[]') WHERE id = :id",
        "set back": "SELECT setval('positions', 500), :id",
        "forge": "WITH marked AS MATERIALIZED (SELECT set_config('reconciler.guard', 'on', true) AS guard) "
        "UPDATE objects SET read_from = read_from + 5000, read_until = read_until + 5000 FROM marked "
        "WHERE id = :id AND guard = 'on'",
    }
    for read in history.reads:
        stage.apply(reading(ref, history, read, stage))
        if done := draw.draw(st.sampled_from([None, *harm])):
            stage.execute(harm[done], id=ref.id)
    began = stage.clock

    stage.want(ref)
    stage.work_off({ref: history.last})

    assert stage.stands(ref, history.last)
    looks = guard.REWOUND_LOOKS[-1]
    assert stage.clock - began <= looks + 2 * REWOUND_AFTER
    stage.execute("SELECT setval('positions', :n) FROM positions WHERE last_value < :n", n=FIRST_DRAWN)


@pytest.mark.parametrize("content", ["new", "old"])
def test_law_6_a_poisoned_stamp_freezes_nothing(stage: Stage, content: str) -> None:
    """A stamp a year ahead is believed for ten minutes at most, whether or not the content differs."""
    ref = stage.ref(STAMPED)
    year = timedelta(days=365).total_seconds()
    stage.apply(stage.reading(ref, alive("old", year), (10, 20)))
    began = stage.clock
    stage.want(ref)

    while (row := stage.row(ref)) is not None and row.source_updated_at != at(1):
        due = stage.due_at(ref)
        assert due is not None
        stage.clock = max(stage.clock, due)
        stage.reread(ref, alive(content, 1))

    assert stage.clock - began <= 1.1 * REWOUND_AFTER
    assert stage.stands(ref, alive(content, 1))


def test_law_6_no_clock_freezes_a_reread(stage: Stage) -> None:
    """What was queued while the clock stood a year ahead is forgotten by the first live read after it was put right."""
    ref = stage.ref(STAMPED)
    stage.apply(stage.reading(ref, alive("old", 50), (10, 20)))
    stage.tick(timedelta(days=365).total_seconds())
    stage.apply(stage.reading(ref, alive("new", 5), (30, 40)))
    stage.tick(-timedelta(days=365).total_seconds())
    stage.execute("UPDATE refetches SET again_at = :now, due_at = :now WHERE id = :id", now=stage.clock, id=ref.id)

    stage.work_off({ref: alive("new", 5)}, horizon=timedelta(days=2))

    assert stage.stands(ref, alive("new", 5))


@both_kinds
@generated(60)
@given(reads=st.lists(st.tuples(st.integers(1, 700), st.integers(1, 100), st.booleans()), min_size=1, max_size=8))
def test_law_7_deletes_stay_deleted(stage: Stage, kind_name: str, reads: list[tuple[int, int, bool]]) -> None:
    """Nothing that was read before or while an object was found gone makes it live again, however often it comes."""
    ref = stage.ref(kind_name)
    stage.apply(stage.reading(ref, GONE, (700, 800)))

    for begin, length, listed in reads:
        stage.tick(60)
        stage.apply(stage.reading(ref, alive("ghost", 10**6), (begin, begin + length), listed=listed))
        assert stage.stands(ref, GONE)
    stage.work_off({ref: GONE})

    assert stage.stands(ref, GONE)


@both_kinds
def test_law_7_confirmed_life_after_death(stage: Stage, kind_name: str) -> None:
    """An object that is there again lives again after two live reads, `read_lag` apart."""
    ref = stage.ref(kind_name)
    stage.apply(stage.reading(ref, GONE, (10, 20)))
    stage.want(ref)

    reads = stage.work_off({ref: alive("back")})

    assert reads == 2
    assert stage.stands(ref, alive("back"))
    assert [past.what for past in stage.of("object_history", ref)] == ["deleted", "restored"]


def test_law_5_exactly_one_verdict(stage: Stage) -> None:
    """Declined and tied snapshots are on record once each; applied and unchanged ones are not."""
    ref = stage.ref(STAMPED)
    stage.apply(stage.reading(ref, alive("a", 5), (100, 200)))

    outcomes = stage.apply(
        stage.reading(ref, alive("b", 1), (90, 150)),
        stage.reading(ref, alive("b", 9), (91, 150)),
        stage.reading(ref, alive("a", 5), (92, 150)),
        stage.reading(ref, alive("c", 6), (300, 310)),
    )

    assert [outcome.verdict for outcome in outcomes] == [DECLINED, TIED, UNCHANGED, APPLIED]
    assert [record.verdict for record in stage.of("declined_writes", ref)] == ["declined", "tied"]
