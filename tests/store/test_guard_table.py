"""Every cell of the guard's table, on the real statements: verdict, row, record and reread."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from reconciler.model import Change, Origin, Reason, Via
from tests.store.stage import (
    APPLIED,
    DECLINED,
    FIRST_DRAWN,
    GONE,
    READ_LAG,
    REWOUND_AFTER,
    STAMPED,
    TIED,
    UNCHANGED,
    UNSTAMPED,
    Shown,
    alive,
    at,
    kind,
    mirrored,
)

if TYPE_CHECKING:
    from reconciler.model import ObjectRef, Verdict
    from reconciler.store.guard import Outcome
    from tests.store.stage import Stage

STORED = (100, 200)
AFTER, BEFORE = (201, 300), (50, 99)
# One point in common on either side, one across each end, one around and one inside.
OVERLAPPING = ((200, 300), (50, 100), (150, 250), (50, 150), (50, 250), (120, 180))
SPANS = (AFTER, *OVERLAPPING, BEFORE)
NEWER, EQUAL, OLDER, MISSING = 10.0, 0.0, -10.0, None
NOT_READ = None
AT_ONCE = timedelta(0)
FIRST_STEP = REWOUND_AFTER * 0.05

CELLS = [
    (AFTER, NEWER, APPLIED, NOT_READ),
    (AFTER, EQUAL, APPLIED, NOT_READ),
    (AFTER, OLDER, DECLINED, FIRST_STEP),
    (AFTER, MISSING, DECLINED, FIRST_STEP),
    *((span, NEWER, TIED, AT_ONCE) for span in OVERLAPPING),
    *((span, EQUAL, TIED, AT_ONCE) for span in OVERLAPPING),
    *((span, OLDER, DECLINED, AT_ONCE) for span in OVERLAPPING),
    *((span, MISSING, DECLINED, AT_ONCE) for span in OVERLAPPING),
    (BEFORE, NEWER, TIED, AT_ONCE),
    (BEFORE, EQUAL, DECLINED, NOT_READ),
    (BEFORE, OLDER, DECLINED, NOT_READ),
    (BEFORE, MISSING, DECLINED, NOT_READ),
]


def shown(name: str, stamp: float | None) -> Shown:
    """Return a living object with or without a stamp."""
    return Shown({"name": name}, None if stamp is None else at(stamp))


def held(stage: Stage, kind_name: str, what: Shown) -> ObjectRef:
    """Return an object of which our row shows *what*, read in STORED; its history is forgotten."""
    ref = stage.ref(kind_name)
    stage.apply(stage.reading(ref, what, STORED))
    stage.execute("DELETE FROM object_history WHERE id = :id", id=ref.id)
    return ref


def check_kept(stage: Stage, outcome: Outcome, *, verdict: Verdict, wait: timedelta | None) -> None:
    """See that a snapshot which was not applied left the row alone, and went on record with its reread."""
    ref, reading = outcome.ref, outcome.reading
    row, refetch = stage.row(ref), stage.refetch(ref)
    [record] = stage.of("declined_writes", ref)
    told = (row.read_from, row.read_until, row.source_updated_at) if row is not None else (0, 0, None)
    assert record.verdict == verdict
    assert record.incoming_source_updated_at == (
        reading.snapshot.stamp if ref.kind == STAMPED else reading.snapshot.observed_at
    )
    assert (record.incoming_read_from, record.incoming_read_until) == (reading.read_from, reading.read_until)
    assert (record.stored_read_from, record.stored_read_until, record.stored_source_updated_at) == told
    assert (record.via, record.event_id, record.run_id, record.at) == ("sweep", "evt_1", 7, stage.clock)
    assert record.because == outcome.because != ""
    assert stage.of("object_history", ref) == []
    if wait is None:
        assert refetch is None
        assert outcome.wanted is None
    else:
        assert refetch is not None
        assert refetch.wanted == outcome.wanted
        assert refetch.wanted > FIRST_DRAWN
        assert refetch.done == 0
        assert refetch.due_at == stage.clock + wait
        assert refetch.reason == ("tie" if verdict is TIED else "reread")
        assert refetch.again_at == (None if wait == AT_ONCE else stage.clock + wait)


@pytest.mark.parametrize(("span", "stamp", "verdict", "wait"), CELLS)
def test_stamped_cells(
    stage: Stage, span: tuple[int, int], stamp: float | None, verdict: Verdict, wait: timedelta | None
) -> None:
    """Positions and stamps together decide what becomes of other content of a stamped kind."""
    ref = held(stage, STAMPED, shown("old", EQUAL))
    before = stage.row(ref)
    stage.tick(60)

    [outcome] = stage.apply(
        stage.reading(ref, shown("new", stamp), span), origin=Origin(Via.SWEEP, event_id="evt_1", run_id=7)
    )

    assert outcome.verdict is verdict
    if verdict is APPLIED:
        row = stage.row(ref)
        assert row is not None
        assert row.body == '{"name": "new"}'
        assert (row.read_from, row.read_until) == span
        assert row.source_updated_at == (None if stamp is None else at(stamp))
        assert (row.observed_at, row.applied_at) == (stage.clock, stage.clock)
        assert row.digest == outcome.digest
        assert stage.of("declined_writes", ref) == []
        assert stage.refetch(ref) is None
        assert outcome.wanted is None
        [past] = stage.of("object_history", ref)
        assert (past.what, past.changed, past.via) == ("updated", ["/name"], "sweep")
        assert (past.event_id, past.run_id, past.at) == ("evt_1", 7, stage.clock)
        assert outcome.diff == [{"path": "/name", "ours": "old", "theirs": "new"}]
        assert (outcome.had_row, outcome.was_deleted) == (True, False)
        assert (outcome.stored_positions, outcome.stored_stamp) == (STORED, at(EQUAL))
    else:
        assert stage.row(ref) == before
        check_kept(stage, outcome, verdict=verdict, wait=wait)


@pytest.mark.parametrize(
    ("span", "verdict", "wait"),
    [(AFTER, APPLIED, None), *((span, TIED, AT_ONCE) for span in OVERLAPPING), (BEFORE, DECLINED, None)],
)
@pytest.mark.parametrize("incoming", [alive("new"), GONE])
def test_unstamped_cells(
    stage: Stage, span: tuple[int, int], verdict: Verdict, wait: timedelta | None, incoming: Shown
) -> None:
    """Positions alone decide for unstamped kinds; an absence is ordered like any other state."""
    ref = held(stage, UNSTAMPED, alive("old"))
    before = stage.row(ref)
    stage.tick(60)

    [outcome] = stage.apply(stage.reading(ref, incoming, span), origin=Origin(Via.SWEEP, event_id="evt_1", run_id=7))

    assert outcome.verdict is verdict
    if verdict is APPLIED:
        assert stage.stands(ref, incoming)
        row = stage.row(ref)
        assert row is not None
        assert (row.read_from, row.read_until) == span
        assert row.source_updated_at == stage.clock
    else:
        assert stage.row(ref) == before
        check_kept(stage, outcome, verdict=verdict, wait=wait)


@pytest.mark.parametrize(
    ("span", "verdict", "wait"),
    [(AFTER, APPLIED, None), *((span, TIED, AT_ONCE) for span in OVERLAPPING), (BEFORE, DECLINED, None)],
)
def test_absence_of_a_stamped_object(
    stage: Stage, span: tuple[int, int], verdict: Verdict, wait: timedelta | None
) -> None:
    """An absence has no stamp and needs none: positions alone order it, and a tombstone keeps body and stamp."""
    ref = held(stage, STAMPED, alive("old", 3600))
    before = stage.row(ref)
    assert before is not None
    stage.tick(60)

    [outcome] = stage.apply(stage.reading(ref, GONE, span), origin=Origin(Via.SWEEP, event_id="evt_1", run_id=7))

    assert outcome.verdict is verdict
    if verdict is APPLIED:
        row = stage.row(ref)
        assert row is not None
        assert row.deleted_at == stage.clock
        assert (row.body, row.digest, row.shape) == (before.body, before.digest, before.shape)
        assert row.source_updated_at == at(3600)
        assert (row.read_from, row.read_until) == span
        assert [past.what for past in stage.of("object_history", ref)] == ["deleted"]
        assert outcome.diff == []
    else:
        assert stage.row(ref) == before
        check_kept(stage, outcome, verdict=verdict, wait=wait)


@pytest.mark.parametrize(
    ("span", "verdict", "wait"),
    [(AFTER, TIED, READ_LAG), *((span, TIED, AT_ONCE) for span in OVERLAPPING), (BEFORE, DECLINED, None)],
)
@pytest.mark.parametrize(("kind_name", "stamp"), [(STAMPED, NEWER), (STAMPED, OLDER), (UNSTAMPED, EQUAL)])
def test_alive_over_a_tombstone(  # noqa: PLR0917 - a column of the table each
    stage: Stage, span: tuple[int, int], verdict: Verdict, wait: timedelta | None, kind_name: str, stamp: float
) -> None:
    """One read never lifts a tombstone, whatever its stamp: data from before is declined, the rest is read again."""
    tombstone = held(stage, kind_name, GONE)
    before = stage.row(tombstone)
    stage.tick(60)

    [outcome] = stage.apply(
        stage.reading(tombstone, alive("new", stamp), span), origin=Origin(Via.SWEEP, event_id="evt_1", run_id=7)
    )

    assert outcome.verdict is verdict
    assert stage.row(tombstone) == before
    check_kept(stage, outcome, verdict=verdict, wait=wait)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("stamp", [NEWER, EQUAL, OLDER, MISSING])
def test_same_content(stage: Stage, span: tuple[int, int], stamp: float | None) -> None:
    """Same content is unchanged in every cell: positions and stamp move to the later, nothing goes on record."""
    ref = held(stage, STAMPED, shown("same", EQUAL))
    first = stage.row(ref)
    assert first is not None
    stage.tick(60)

    [outcome] = stage.apply(stage.reading(ref, shown("same", stamp), span))

    row, refetch = stage.row(ref), stage.refetch(ref)
    assert row is not None
    assert (outcome.verdict, outcome.change, outcome.diff) == (UNCHANGED, None, [])
    assert (row.read_from, row.read_until) == (max(STORED[0], span[0]), max(STORED[1], span[1]))
    assert row.source_updated_at == at(NEWER if stamp == NEWER else EQUAL)
    assert (row.observed_at, row.applied_at) == (stage.clock, first.applied_at)
    assert (row.body, row.digest, row.shape) == (first.body, first.digest, first.shape)
    assert stage.of("declined_writes", ref) == []
    assert stage.of("object_history", ref) == []
    if span == AFTER and stamp in {OLDER, MISSING}:
        assert refetch is not None
        assert (refetch.wanted, refetch.again_at) == (0, stage.clock + FIRST_STEP)
        assert refetch.seen is not None
        assert outcome.ladder
    else:
        assert refetch is None
        assert not outcome.ladder
    assert outcome.wanted is None


@pytest.mark.parametrize(
    ("span", "verdict"), [(AFTER, APPLIED), *((span, TIED) for span in OVERLAPPING), (BEFORE, TIED)]
)
def test_stamp_over_a_row_without(stage: Stage, span: tuple[int, int], verdict: Verdict) -> None:
    """A missing stamp is older than any."""
    ref = held(stage, STAMPED, shown("old", MISSING))

    [outcome] = stage.apply(stage.reading(ref, shown("new", EQUAL), span))

    assert outcome.verdict is verdict


@pytest.mark.parametrize("span", SPANS)
def test_absence_over_a_tombstone_with_a_stamp(stage: Stage, span: tuple[int, int]) -> None:
    """The stamp that a tombstone keeps is compared with nothing: no absence is older than it."""
    ref = held(stage, STAMPED, alive("old", 3600))
    stage.apply(stage.reading(ref, GONE, AFTER))

    [outcome] = stage.apply(stage.reading(ref, GONE, (span[0] + 500, span[1] + 500)))

    row = stage.row(ref)
    assert row is not None
    assert (outcome.verdict, outcome.ladder, row.source_updated_at) == (UNCHANGED, False, at(3600))
    assert stage.refetch(ref) is None


@pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])
@pytest.mark.parametrize("span", SPANS)
def test_absence_over_a_tombstone(stage: Stage, span: tuple[int, int], kind_name: str) -> None:
    """A tombstone that is confirmed keeps its time and moves its positions."""
    ref = held(stage, kind_name, GONE)
    stage.tick(60)

    [outcome] = stage.apply(stage.reading(ref, GONE, span))

    row = stage.row(ref)
    assert row is not None
    assert outcome.verdict is UNCHANGED
    assert (row.deleted_at, row.observed_at) == (at(0), stage.clock)
    assert (row.read_from, row.read_until) == (max(STORED[0], span[0]), max(STORED[1], span[1]))
    assert stage.refetch(ref) is None


@pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(("what", "change"), [(alive("new"), "created"), (GONE, "deleted")])
def test_no_row_yet(stage: Stage, kind_name: str, what: Shown, change: str, *, listed: bool) -> None:
    """The first snapshot becomes the row, listed or fetched; an absence becomes a tombstone."""
    ref = stage.ref(kind_name)

    [outcome] = stage.apply(stage.reading(ref, what, STORED, listed=listed))

    row = stage.row(ref)
    assert row is not None
    assert outcome.verdict is APPLIED
    assert stage.stands(ref, what)
    assert (row.read_from, row.read_until, row.shape) == (*STORED, "1:standin")
    assert (row.observed_at, row.applied_at) == (stage.clock, stage.clock)
    assert [past.what for past in stage.of("object_history", ref)] == [change]
    assert (outcome.had_row, outcome.stored_positions, outcome.stored_stamp) == (False, None, None)
    assert stage.refetch(ref) is None


def test_what_a_first_sweep_brings_is_loaded(stage: Stage) -> None:
    """New rows of a kind that was never swept are told apart from objects that were created since."""
    ref, other, known = stage.ref(STAMPED), stage.ref(UNSTAMPED), held(stage, STAMPED, alive("old"))

    outcomes = stage.apply(
        stage.reading(ref, alive(), STORED),
        stage.reading(other, alive(), STORED),
        stage.reading(known, alive("new"), AFTER),
        loading=[("shop", STAMPED)],
    )

    assert [outcome.change for outcome in outcomes] == [Change.LOADED, Change.CREATED, Change.UPDATED]
    assert [past.what for past in stage.of("object_history", ref)] == ["loaded"]


@pytest.mark.parametrize("span", SPANS)
def test_listing_of_an_unstamped_kind(stage: Stage, span: tuple[int, int]) -> None:
    """A list without stamps may confirm a row; where it differs it only asks for a look, and leaves no record."""
    ref, same = held(stage, UNSTAMPED, alive("old")), held(stage, UNSTAMPED, alive("old"))
    before = stage.row(ref)

    differs, confirms = stage.apply(
        stage.reading(ref, alive("new"), span, listed=True), stage.reading(same, alive("old"), span, listed=True)
    )

    refetch = stage.refetch(ref)
    assert differs.verdict is None
    assert stage.row(ref) == before
    assert stage.of("declined_writes", ref) == []
    assert refetch is not None
    assert (refetch.wanted, refetch.due_at) == (differs.wanted, stage.clock)
    assert refetch.wanted > refetch.done
    assert confirms.verdict is UNCHANGED
    assert stage.refetch(same) is None


@pytest.mark.parametrize("what", [alive("new"), GONE])
def test_listing_of_an_unstamped_kind_over_a_tombstone(stage: Stage, what: Shown) -> None:
    """A list that shows a dead object alive asks for a look, and one that shows it gone confirms the tombstone."""
    ref = held(stage, UNSTAMPED, GONE)

    [outcome] = stage.apply(stage.reading(ref, what, AFTER, listed=True))

    assert outcome.verdict is (UNCHANGED if what is GONE else None)
    assert stage.stands(ref, GONE)
    assert (stage.refetch(ref) is None) is (what is GONE)


@pytest.mark.parametrize(
    ("span", "stamp", "verdict"),
    [(span, stamp, verdict) for span, stamp, verdict, _ in CELLS if (span, stamp) != (AFTER, MISSING)],
)
def test_listing_of_a_stamped_kind(stage: Stage, span: tuple[int, int], stamp: float | None, verdict: Verdict) -> None:
    """A list with stamps is as good as a fetch, but climbs no ladder: a live read is wanted at once instead."""
    ref = held(stage, STAMPED, alive("old", EQUAL))

    [outcome] = stage.apply(stage.reading(ref, shown("new", stamp), span, listed=True))

    refetch = stage.refetch(ref)
    assert outcome.verdict is verdict
    assert not outcome.ladder
    if refetch is not None:
        assert (refetch.seen, refetch.again_at) == (None, None)
        assert (refetch.due_at, refetch.wanted) == (stage.clock, outcome.wanted)
    assert (refetch is None) is (verdict is APPLIED or (span == BEFORE and stamp != NEWER))


def test_listing_with_the_same_content_and_an_older_stamp(stage: Stage) -> None:
    """It confirms the content and asks for a live read, which alone may climb the ladder."""
    ref = held(stage, STAMPED, alive("same", EQUAL))

    [outcome] = stage.apply(stage.reading(ref, alive("same", OLDER), AFTER, listed=True))

    row, refetch = stage.row(ref), stage.refetch(ref)
    assert row is not None
    assert refetch is not None
    assert outcome.verdict is UNCHANGED
    assert row.source_updated_at == at(EQUAL)
    assert (refetch.again_at, refetch.wanted) == (stage.clock, 0)


def test_listing_of_a_stamped_kind_over_a_tombstone(stage: Stage) -> None:
    """A list never lifts a tombstone, however new its stamp: a live read is wanted, and no first one is noted."""
    ref = held(stage, STAMPED, GONE)

    [outcome] = stage.apply(stage.reading(ref, alive("new", NEWER), AFTER, listed=True))

    refetch = stage.refetch(ref)
    assert refetch is not None
    assert outcome.verdict is TIED
    assert stage.stands(ref, GONE)
    assert (refetch.due_at, refetch.seen) == (stage.clock, None)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("what", [alive("new", NEWER), alive("old", EQUAL), GONE])
def test_lower_shape(stage: Stage, span: tuple[int, int], what: Shown) -> None:
    """A process of an earlier shape writes nothing over a row of a later one: it ties, and a later process reads."""
    ref = stage.ref(STAMPED)
    stage.apply(stage.reading(ref, alive("old", EQUAL), STORED), mirror=mirrored(2, 2))
    before = stage.row(ref)

    [outcome] = stage.apply(stage.reading(ref, what, span), mirror=mirrored(1, 1))

    refetch = stage.refetch(ref)
    assert outcome.verdict is TIED
    assert stage.row(ref) == before
    assert refetch is not None
    assert (refetch.due_at, refetch.wanted) == (stage.clock, outcome.wanted)
    assert [record.verdict for record in stage.of("declined_writes", ref)] == ["tied"]


def test_repeats_in_one_batch_go_in_read_order(stage: Stage) -> None:
    """A batch that holds one object more than once ends as its reads were begun, in whatever order they stand."""
    ref, other = stage.ref(STAMPED), stage.ref(STAMPED)
    third, first, second = ((300, 310), alive("c", 3)), ((100, 110), alive("a", 1)), ((200, 210), alive("b", 2))

    outcomes = stage.apply(
        *(stage.reading(ref, what, span) for span, what in (third, first)),
        stage.reading(other, alive("x"), (150, 160)),
        stage.reading(ref, second[1], second[0]),
    )

    assert [outcome.verdict for outcome in outcomes] == [APPLIED] * 4
    assert [outcome.change for outcome in outcomes] == [
        Change.UPDATED,
        Change.CREATED,
        Change.CREATED,
        Change.UPDATED,
    ]
    assert stage.stands(ref, alive("c"))
    assert [past.what for past in stage.of("object_history", ref)] == ["created", "updated", "updated"]


def test_repeat_within_one_transaction_is_no_failover(stage: Stage) -> None:
    """A row this very transaction wrote, up to its own position, is an ordinary row to what follows."""
    ref = stage.ref(UNSTAMPED)

    outcomes = stage.apply(stage.reading(ref, alive("a"), (100, None)), stage.reading(ref, alive("b"), (200, None)))

    assert [outcome.verdict for outcome in outcomes] == [APPLIED, TIED]
    assert [record.because for record in stage.of("declined_writes", ref)] == ["the two reads overlap"]


def test_read_that_ends_with_its_transaction(stage: Stage) -> None:
    """Where nobody says when a read ended, it ended when the applying transaction began."""
    ref = stage.ref(UNSTAMPED)
    drawn = stage.position()

    stage.apply(stage.reading(ref, alive(), (drawn, None)))

    row = stage.row(ref)
    assert row is not None
    assert (row.read_from, row.read_until) == (drawn, drawn + 1)


def test_nothing_to_apply(stage: Stage) -> None:
    """An empty batch is no error."""
    assert stage.apply() == []


def test_reason_of_a_reread(stage: Stage) -> None:
    """What was tied is read because of the tie, what was declined is read again."""
    tied, declined = held(stage, STAMPED, alive("old")), held(stage, STAMPED, alive("old"))

    stage.apply(
        stage.reading(tied, alive("new", NEWER), BEFORE), stage.reading(declined, alive("new", OLDER), OVERLAPPING[0])
    )

    assert stage.leased(tied).reason is Reason.TIE
    assert stage.leased(declined).reason is Reason.REREAD


def test_locator_of_what_was_read_is_kept(stage: Stage) -> None:
    """A reread is asked for with the locator that the tied snapshot came with, however odd."""
    ref = held(stage, STAMPED, alive("old"))
    reading = stage.reading(ref, alive("new", NEWER), BEFORE)
    located = type(reading.snapshot)(ref, {"name": "new"}, at(NEWER), stage.clock, locator={"name": "a\0b"})

    stage.apply(type(reading)(located, *BEFORE, began_at=stage.clock))

    assert stage.leased(ref).locator == {"name": "a\N{REPLACEMENT CHARACTER}b"}


def test_content_ignores_what_its_kind_says(stage: Stage) -> None:
    """Volatile fields, key order and the spelling of numbers are no change; the row keeps what it had."""
    ref = held(stage, STAMPED, alive("same", version=1, total=1))

    [outcome] = stage.apply(
        stage.reading(ref, Shown({"total": Decimal("1.0"), "version": 2, "name": "same"}, at(0)), AFTER)
    )

    row = stage.row(ref)
    assert row is not None
    assert outcome.verdict is UNCHANGED
    assert row.body == '{"name": "same", "total": 1, "version": 1}'


def test_omitted_fields_are_not_stored(stage: Stage) -> None:
    """What is never to be stored is not, and makes no difference."""
    ref = stage.ref(STAMPED)
    omitting = mirrored(omit=("/phone",))

    stage.apply(stage.reading(ref, alive(phone="1"), STORED), mirror=omitting)
    [outcome] = stage.apply(stage.reading(ref, alive(phone="2"), AFTER), mirror=omitting)

    row = stage.row(ref)
    assert row is not None
    assert outcome.verdict is UNCHANGED
    assert row.body == '{"name": "a"}'


def test_kinds_declare_what_is_unordered(stage: Stage) -> None:
    """The order of an array its kind calls unordered is no change."""
    declared = mirrored(kinds=(kind(STAMPED, unordered=("/tags",)), kind(UNSTAMPED)))
    ref = stage.ref(STAMPED)

    stage.apply(stage.reading(ref, alive(tags=[1, 2]), STORED), mirror=declared)
    [same] = stage.apply(stage.reading(ref, alive(tags=[2, 1]), AFTER), mirror=declared)
    [other] = stage.apply(stage.reading(ref, alive(tags=[2, 3]), (301, 310)), mirror=declared)

    assert (same.verdict, other.verdict) == (UNCHANGED, APPLIED)
