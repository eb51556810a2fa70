"""Edits by hand: the row forgets what it claimed to be, and the provider is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import text

from reconciler.model import Reason
from tests.store.stage import APPLIED, GONE, STAMPED, TIED, UNCHANGED, UNSTAMPED, alive, at

if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Row

    from reconciler.model import ObjectRef
    from tests.store.stage import Shown, Stage

TRUE = alive("true", 50)
# What a trigger draws is dated by the server's clock, so these tests go by it.
ALL_KEYS = "source = 'shop' AND scope = '' AND id = "


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """Return a stage whose clock is the server's."""
    return at_the_servers_time(stage)


@pytest.fixture
def lone_stage(lone_stage: Stage) -> Stage:
    """Return a lone stage whose clock is the server's."""
    return at_the_servers_time(lone_stage)


def at_the_servers_time(stage: Stage) -> Stage:
    """Set the clock of *stage* a little ahead of the server's."""
    stage.clock = datetime.now(UTC) + timedelta(seconds=30)
    return stage


def held(stage: Stage, shown: Shown = TRUE, kind_name: str = STAMPED) -> ObjectRef:
    """Return an object that our row shows as the provider does."""
    ref = stage.ref(kind_name)
    stage.apply(stage.reading(ref, shown, (10, 20)))
    return ref


def row_of(stage: Stage, ref: ObjectRef) -> Row[Any]:
    """Return our row, which there is."""
    row = stage.row(ref)
    assert row is not None
    return row


def check_forgotten(stage: Stage, ref: ObjectRef) -> None:
    """See that a row claims nothing, and that the object is wanted because of the edit."""
    row, refetch = row_of(stage, ref), stage.refetch(ref)
    assert refetch is not None
    assert (row.digest, row.shape, row.source_updated_at) == (None, "0:", None)
    assert row.read_from == row.read_until > 1000
    assert refetch.wanted > row.read_until
    assert refetch.reason == "hand_edit"
    assert refetch.wanted > refetch.done
    assert refetch.due_at <= stage.clock


EDITS = {
    "content": 'UPDATE objects SET body = \'{"name": "forged"}\'',
    "same content": "UPDATE objects SET body = body",
    "claims": "UPDATE objects SET digest = 'x', shape = '9:x', read_from = 9999999, read_until = 9999999, "
    "source_updated_at = 'infinity'",
    "times": "UPDATE objects SET observed_at = 'infinity', applied_at = '-infinity'",
    "death": "UPDATE objects SET deleted_at = 'infinity'",
    "death before Christ": "UPDATE objects SET deleted_at = '0044-03-15 BC'",
    "no object": "UPDATE objects SET body = '[1, {}]'",
    "nothing": "UPDATE objects SET body = 'null'",
    "much too deep": "UPDATE objects SET body = (repeat('[', 3000) || repeat(']', 3000))::jsonb",
    "deep": "UPDATE objects SET body = (repeat('[', 900) || repeat(']', 900))::jsonb",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])
def test_update(stage: Stage, edit: str, kind_name: str) -> None:
    """However a row was edited, it claims nothing any more and ends as the provider has it."""
    ref = held(stage, kind_name=kind_name)

    stage.execute(f"{edit} WHERE {ALL_KEYS} :id", id=ref.id)

    check_forgotten(stage, ref)
    stage.work_off({ref: TRUE})
    row = row_of(stage, ref)
    assert stage.stands(ref, TRUE)
    assert row.shape == "1:standin"
    assert row.observed_at <= stage.clock


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_update_of_a_tombstone(stage: Stage, edit: str) -> None:
    """A tombstone that was edited is a tombstone again; its time is one that can be read."""
    ref = held(stage, GONE)

    stage.execute(f"{edit} WHERE {ALL_KEYS} :id", id=ref.id)

    check_forgotten(stage, ref)
    stage.work_off({ref: GONE})
    assert stage.stands(ref, GONE)


def test_tombstone_brought_to_life(stage: Stage) -> None:
    """A tombstone that was lifted by hand is one again after one read."""
    ref = held(stage)
    stage.apply(stage.reading(ref, GONE, (30, 40)))

    stage.execute("UPDATE objects SET deleted_at = NULL WHERE id = :id", id=ref.id)

    assert stage.work_off({ref: GONE}) == 1
    assert stage.stands(ref, GONE)


def test_time_of_a_tombstone_is_kept(stage: Stage) -> None:
    """An edit that leaves the time of a death alone does not move it."""
    ref = held(stage, GONE)
    stage.execute("UPDATE objects SET deleted_at = '2026-01-01T00:00Z' WHERE id = :id", id=ref.id)

    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    assert row_of(stage, ref).deleted_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_insert(stage: Stage) -> None:
    """A row made by hand claims nothing, and goes if the provider has no such object."""
    forged, real = stage.ref(), stage.ref()

    for ref in (forged, real):
        stage.execute(
            "INSERT INTO objects (source, kind, id, body, digest, shape, read_until) "
            "VALUES ('shop', 'order', :id, '{}', 'x', '9:x', 999999999)",
            id=ref.id,
        )

    check_forgotten(stage, forged)
    stage.work_off({forged: GONE, real: TRUE})
    assert stage.stands(forged, GONE)
    assert stage.stands(real, TRUE)


def test_delete(stage: Stage) -> None:
    """A row deleted by hand comes back."""
    ref = held(stage)

    stage.execute("DELETE FROM objects WHERE id = :id", id=ref.id)

    refetch = stage.refetch(ref)
    assert stage.row(ref) is None
    assert refetch is not None
    assert refetch.reason == "hand_edit"
    stage.work_off({ref: TRUE})
    assert stage.stands(ref, TRUE)


def test_truncate(lone_stage: Stage) -> None:
    """Even a table emptied by hand is filled again, object by object."""
    stage = lone_stage
    refs = [held(stage), held(stage, kind_name=UNSTAMPED), held(stage, GONE)]

    stage.execute("TRUNCATE objects")

    assert [stage.row(ref) for ref in refs] == [None] * 3
    assert {ref: stage.leased(ref).reason for ref in refs} == dict.fromkeys(refs, Reason.HAND_EDIT)


@pytest.mark.parametrize(("column", "value"), [("id", "x"), ("kind", UNSTAMPED), ("scope", "9"), ("source", "shop2")])
def test_key_change(stage: Stage, column: str, value: str) -> None:
    """A row moved to another key is looked at there, and at its old place."""
    ref = held(stage)

    stage.execute(f"UPDATE objects SET {column} = :value WHERE id = :id", value=value + ref.id, id=ref.id)

    moved = type(ref)(**{name: getattr(ref, name) for name in ref.__slots__} | {column: value + ref.id})
    refetch = stage.refetch(ref)
    check_forgotten(stage, moved)
    assert refetch is not None
    assert refetch.reason == "hand_edit"
    stage.work_off({ref: TRUE})
    assert stage.stands(ref, TRUE)


@pytest.mark.parametrize("kind_name", [STAMPED, UNSTAMPED])
def test_edit_during_a_read(stage: Stage, kind_name: str) -> None:
    """A read that was under way when the row was edited cannot tell before from after: it is tied, and read again."""
    ref = held(stage, kind_name=kind_name)
    stage.want(ref)
    leased = stage.leased(ref)
    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    outcome = stage.conclude(leased, TRUE)

    refetch = stage.refetch(ref)
    assert refetch is not None
    assert outcome.verdict is TIED
    assert refetch.reason == "hand_edit"
    assert stage.work_off({ref: TRUE}) == 1
    assert stage.stands(ref, TRUE)


def test_read_from_before_an_edit(stage: Stage) -> None:
    """What was read before the edit does not undo it; the read that it queued does."""
    ref = held(stage, kind_name=UNSTAMPED)
    reading = stage.reading(ref, TRUE, (30, 40))
    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    [outcome] = stage.apply(reading)

    assert outcome.verdict is not APPLIED
    assert outcome.verdict is not UNCHANGED
    stage.work_off({ref: TRUE})
    assert stage.stands(ref, TRUE)


def test_reason_outlives_other_wants(stage: Stage) -> None:
    """That a hand edit is behind the read is not forgotten until it is settled."""
    ref = held(stage)
    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    for reason in (Reason.WEBHOOK, Reason.SWEEP, Reason.TRIGGER):
        stage.want(ref, reason)
    first = stage.leased(ref)
    stage.conclude(first, TRUE)
    stage.want(ref)

    assert first.reason is Reason.HAND_EDIT
    assert stage.leased(ref).reason is Reason.WEBHOOK


def test_edit_of_what_is_wanted_or_dead(stage: Stage) -> None:
    """An edit makes a dead letter due, forgives its attempts, and takes over the reason."""
    ref = held(stage)
    before = stage.want(ref, Reason.TRIGGER)
    stage.execute("UPDATE refetches SET dead_at = now(), attempts = 9 WHERE id = :id", id=ref.id)

    stage.execute("UPDATE objects SET body = '{}' WHERE id = :id", id=ref.id)

    leased = stage.leased(ref)
    assert (leased.reason, leased.attempts) == (Reason.HAND_EDIT, 0)
    assert leased.wanted > before


def test_edit_after_the_sequence_was_set_back(lone_stage: Stage) -> None:
    """An edit is wanted beyond every earlier number."""
    stage = lone_stage
    ref = held(stage)
    stage.execute("SELECT setval('positions', 90000)")
    before = stage.want(ref)
    stage.execute("SELECT setval('positions', 5)")

    stage.execute("UPDATE objects SET body = '{}'")

    refetch = stage.refetch(ref)
    assert refetch is not None
    assert refetch.wanted > before


def test_edit_from_elsewhere(lone_stage: Stage) -> None:
    """The trigger finds our tables whatever the editing session's search path, even with tables of the same names."""
    stage = lone_stage
    ref = held(stage)

    with psycopg.connect(stage.database.url, autocommit=True) as connection:
        connection.execute("SET search_path TO public")
        connection.execute("CREATE TABLE public.refetches (id text)")
        connection.execute("CREATE TEMPORARY TABLE refetches (id text)")
        connection.execute("UPDATE reconciler.objects SET body = '{}'")

    check_forgotten(stage, ref)


def test_edit_by_copy(lone_stage: Stage) -> None:
    """Rows copied in are noticed as well."""
    stage = lone_stage
    ref = stage.ref()

    with (
        psycopg.connect(stage.database.url, options="-csearch_path=reconciler") as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY objects (source, kind, id, body) FROM STDIN") as copy,
    ):
        copy.write_row(("shop", STAMPED, ref.id, "{}"))

    check_forgotten(stage, ref)


def test_edit_wakes_the_workers(lone_stage: Stage) -> None:
    """An edit is told to whoever listens."""
    stage = lone_stage
    ref = held(stage)
    with psycopg.connect(stage.database.url, autocommit=True) as connection:
        connection.execute("LISTEN reconciler_wanted")

        stage.execute("DELETE FROM objects WHERE id = :id", id=ref.id)

        assert len(list(connection.notifies(timeout=5, stop_after=1))) == 1


def test_guard_is_no_editor(lone_stage: Stage) -> None:
    """What the guard writes fires nothing, whatever it does to the row."""
    stage = lone_stage
    ref = held(stage)

    stage.apply(stage.reading(ref, alive("new", 60), (30, 40)))
    stage.apply(stage.reading(ref, alive("new", 60), (50, 60)))
    stage.apply(stage.reading(ref, GONE, (70, 80)))

    assert stage.refetch(ref) is None
    assert row_of(stage, ref).read_from == 70


def test_mark_ends_with_its_transaction(lone_stage: Stage) -> None:
    """A connection that the guard used is nobody special afterwards."""
    stage = lone_stage
    ref = held(stage)
    with stage.database.engine.connect() as connection:
        for value in ("on", "off"):
            with connection.begin():
                connection.execute(text("SELECT set_config('reconciler.guard', :value, true)"), {"value": value})
            with connection.begin():
                connection.execute(text("UPDATE objects SET body = '{}'"))

    check_forgotten(stage, ref)


def test_stamp_of_an_edit_is_not_believed(stage: Stage) -> None:
    """An edit far in the future does not make the provider's state older than ours."""
    ref = held(stage)
    stage.execute(
        "UPDATE objects SET body = '{}', source_updated_at = :stamp WHERE id = :id", stamp=at(10**9), id=ref.id
    )

    assert stage.work_off({ref: TRUE}) == 1
    assert stage.stands(ref, TRUE)
    assert row_of(stage, ref).source_updated_at == TRUE.stamp
