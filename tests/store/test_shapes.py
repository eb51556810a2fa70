"""Shapes: numbered forms of a kind's bodies, and what a change of form does to rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reconciler.model import Change, Origin, Via
from reconciler.store import mirror
from tests.store.stage import (
    APPLIED,
    DECLINED,
    GONE,
    SOURCE,
    STAMPED,
    TIED,
    UNCHANGED,
    UNSTAMPED,
    alive,
    at,
    in_the_way,
    kind,
    mirrored,
)

if TYPE_CHECKING:
    from typing import Any

    from reconciler.model import ObjectRef
    from reconciler.store.mirror import MirroredKind
    from tests.store.stage import Stage

FACTS = {"adapter": 1, "api_version": "2026-10"}
ORDER = kind(STAMPED)


def activate(stage: Stage, **changed: Any) -> MirroredKind:
    """Activate the kind's shape as a process that starts does."""
    given: dict[str, Any] = {"kind": ORDER, "facts": FACTS, "omit": (), "source": SOURCE, **changed}
    named, source = given.pop("kind"), given.pop("source")
    return stage.run(lambda c: mirror.activate(c, source, named, now=stage.clock, **given))


def test_activation(lone_stage: Stage) -> None:
    """The same form has the same number; another one, were it an earlier one, is the next."""
    stage = lone_stage
    other = {**FACTS, "api_version": "2027-01"}

    found = [activate(stage, facts=facts) for facts in (FACTS, FACTS, other, other, FACTS)]

    assert [each.n for each in found] == [1, 1, 2, 2, 3]
    assert found[0].shape.removeprefix("1:") == found[4].shape.removeprefix("3:") != found[2].shape.removeprefix("2:")
    assert [row.n for row in stage.query("SELECT n FROM shapes ORDER BY n")] == [1, 2, 3]
    assert stage.query("SELECT DISTINCT activated_at FROM shapes") == [(stage.clock,)]


@pytest.mark.parametrize(
    "changed",
    [
        {"omit": ("/phone",)},
        {"kind": replace(ORDER, volatile=("/seen",))},
        {"kind": replace(ORDER, unordered=("/tags",))},
        {"facts": {**FACTS, "fields": "all"}},
    ],
)
def test_what_makes_another_shape(lone_stage: Stage, changed: dict[str, Any]) -> None:
    """All that decides how a body is stored and compared is part of the form."""
    activate(lone_stage)

    assert activate(lone_stage, **changed).n == 2


def test_what_makes_no_other_shape(lone_stage: Stage) -> None:
    """The order of declarations, and what is only told to people, is not."""
    stage = lone_stage
    first = activate(stage, facts={"b": 1, "a": 2}, omit=("/x", "/y"))
    again = activate(stage, facts={"a": 2, "b": 1}, omit=("/y", "/x"), kind=replace(ORDER, feed="another"))

    assert first.shape == again.shape


def test_each_kind_of_each_source_counts_for_itself(lone_stage: Stage) -> None:
    """A number belongs to one kind of one source."""
    stage = lone_stage
    activate(stage)
    activate(stage, facts={})

    assert activate(stage, kind=kind(UNSTAMPED)).n == 1
    assert activate(stage, source="elsewhere").n == 1


def test_processes_that_start_together(lone_stage: Stage) -> None:
    """A process that starts while another numbers its shape waits, and finds that number."""
    stage = lone_stage

    found = in_the_way(
        stage, lambda c: mirror.activate(c, SOURCE, ORDER, facts=FACTS, now=at(0)), lambda: activate(stage).n
    )

    assert found == 1


def held(stage: Stage, kind_name: str = STAMPED, **more: Any) -> ObjectRef:
    """Return an object whose row has the first shape."""
    ref = stage.ref(kind_name)
    stage.apply(stage.reading(ref, alive("a", 10, **more), (10, 20)))
    return ref


@pytest.mark.parametrize(
    ("stamp", "event_id", "change"),
    [
        (10, None, Change.RESHAPED),
        (11, None, Change.UPDATED),
        (10, "evt_1", Change.UPDATED),
    ],
)
def test_difference_that_comes_with_a_new_shape(
    stage: Stage, stamp: float, event_id: str | None, change: Change
) -> None:
    """It is reshaped only if no event asked for the read and the stamp did not move."""
    ref = held(stage)

    [outcome] = stage.apply(
        stage.reading(ref, alive("a", stamp, added=1), (30, 40)),
        mirror=mirrored(2, 2),
        origin=Origin(Via.SWEEP, event_id=event_id),
    )

    row = stage.row(ref)
    assert row is not None
    assert (outcome.verdict, outcome.change) == (APPLIED, change)
    assert (row.shape, row.body) == ("2:standin", '{"name": "a", "added": 1}')
    assert [past.what for past in stage.of("object_history", ref)] == ["created", str(change)]


def test_difference_of_an_unstamped_kind_with_a_new_shape(stage: Stage) -> None:
    """Where there is no stamp, it cannot have moved."""
    ref = stage.ref(UNSTAMPED)
    stage.apply(stage.reading(ref, alive("a"), (10, 20)))

    [outcome] = stage.apply(stage.reading(ref, alive("b"), (30, 40)), mirror=mirrored(2, 2))

    assert outcome.change is Change.RESHAPED


def test_difference_with_the_same_shape(stage: Stage) -> None:
    """It is an ordinary change."""
    ref = held(stage)

    [outcome] = stage.apply(stage.reading(ref, alive("b", 10), (30, 40)))

    assert outcome.change is Change.UPDATED


@pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])
def test_first_read_after_a_hand_edit_is_no_reshaping(stage: Stage, kind_name: str) -> None:
    """A row that lost its shape to a hand edit is repaired by an ordinary change."""
    ref = held(stage, kind_name)
    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    [outcome] = stage.apply(stage.reading(ref, alive("a", 10), (stage.position(), None)))

    assert outcome.change is Change.UPDATED


def test_absence_with_a_new_shape(stage: Stage) -> None:
    """A tombstone keeps the shape of the body it keeps."""
    ref = held(stage)

    [outcome] = stage.apply(stage.reading(ref, GONE, (30, 40)), mirror=mirrored(2, 2))
    [again] = stage.apply(stage.reading(ref, GONE, (50, 60)), mirror=mirrored(2, 2))

    row = stage.row(ref)
    assert row is not None
    assert (outcome.change, again.verdict) == (Change.DELETED, UNCHANGED)
    assert row.shape == "1:standin"


@pytest.mark.parametrize("span", [(30, 40), (15, 40), (1, 5)])
def test_same_content_with_a_new_shape(stage: Stage, span: tuple[int, int]) -> None:
    """The row takes the new shape, and loses what is no longer to be stored, though it was never compared."""
    before = mirrored(1, 1, kinds=(kind(STAMPED, volatile=("/phone",)), kind(UNSTAMPED)))
    after = mirrored(2, 2, omit=("/phone",))
    ref = stage.ref(STAMPED)
    stage.apply(stage.reading(ref, alive("a", 10, phone="1"), (10, 20)), mirror=before)

    [outcome] = stage.apply(stage.reading(ref, alive("a", 10, phone="1"), span), mirror=after)

    row = stage.row(ref)
    assert row is not None
    assert outcome.verdict is UNCHANGED
    assert (row.shape, row.body) == ("2:standin", '{"name": "a"}')


def test_old_and_new_process_side_by_side(stage: Stage) -> None:
    """A process of the earlier shape neither writes over the later one's row nor takes its refetch."""
    ref = held(stage)
    stage.apply(stage.reading(ref, alive("b", 20, added=1), (30, 40)), mirror=mirrored(2, 2))
    stage.execute("INSERT INTO shapes VALUES ('shop', 'order', 2, 'new', now()) ON CONFLICT DO NOTHING")

    [old] = stage.apply(stage.reading(ref, alive("c", 30), (stage.position(), None)), mirror=mirrored(1, 1))
    left = stage.lease(ref, n=1)
    leased = stage.leased(ref, n=2)
    new = stage.conclude(leased, alive("c", 30, added=1), mirror=mirrored(2, 2))

    assert old.verdict is TIED
    assert left is None
    assert new.verdict is APPLIED
    stage.execute("DELETE FROM shapes")


def test_older_read_with_a_new_shape(stage: Stage) -> None:
    """A new shape makes no read newer than it is."""
    ref = held(stage)

    [outcome] = stage.apply(stage.reading(ref, alive("b", 5, added=1), (1, 5)), mirror=mirrored(2, 2))

    row = stage.row(ref)
    assert row is not None
    assert outcome.verdict is DECLINED
    assert (row.shape, row.source_updated_at) == ("1:standin", at(10))


def test_unknown_kind_is_refused() -> None:
    """Nothing is applied of a kind that this process does not mirror."""
    with pytest.raises(KeyError):
        mirrored().of(SOURCE, "refund")
