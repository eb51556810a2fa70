"""Rows that were right and are not: edited by hand, or ahead of a source that has rewound."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.paths.draining import ABSENCE_RECHECK, REWOUND_AFTER, until

if TYPE_CHECKING:
    from tests.paths.draining import Bench


@pytest.fixture
def mirrored(bench: Bench) -> Bench:
    """Return a bench with one customer in the mirror."""
    bench.act("create", id_="cus_1", body={"name": "Grete", "email": None})
    bench.want("cus_1")
    bench.quiet()
    return bench


# Edited here


def test_a_hand_edit_is_repaired(mirrored: Bench) -> None:
    """What somebody wrote into a row is put right, and on record as drift with its cause and the difference."""
    mirrored.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"Mallory\"')")

    mirrored.quiet()

    assert mirrored.body("cus_1")["name"] == "Grete"
    assert mirrored.drift() == [("cus_1", "differs", "hand_edit")]
    [(diff, repaired_at, run_id)] = mirrored.rows("SELECT diff, repaired_at, run_id FROM drift")
    assert diff == [{"path": "/name", "ours": "Mallory", "theirs": "Grete"}]
    assert (repaired_at is not None, run_id) == (True, None)
    assert [line["cause"] for line in mirrored.logged("drift.repaired")] == ["hand_edit"]
    assert 'reconciler_drift_total{cause="hand_edit",kind="customer",source="stripe-eu"} 1.0' in (
        mirrored.main.metrics.exposition().decode()
    )


def test_an_edit_that_was_undone(mirrored: Bench) -> None:
    """A row that was edited and edited back is read again and is no drift."""
    mirrored.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"Mallory\"')")
    mirrored.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"Grete\"')")

    mirrored.quiet()

    assert mirrored.drift() == []
    row = mirrored.row("cus_1")
    assert row is not None
    assert row.digest is not None


@pytest.mark.parametrize("statement", ["DELETE FROM objects", "TRUNCATE objects"])
def test_rows_that_were_removed(mirrored: Bench, statement: str) -> None:
    """Deleted rows come back by themselves, and are on record as missing."""
    mirrored.act("create", id_="cus_2")
    mirrored.want("cus_2")
    mirrored.quiet()
    mirrored.edit(statement)
    gone = mirrored.versions()

    mirrored.quiet()

    assert gone == {}
    assert mirrored.versions() == mirrored.truth()
    assert sorted(mirrored.drift()) == [("cus_1", "missing", "hand_edit"), ("cus_2", "missing", "hand_edit")]


def test_a_row_that_was_made_up(mirrored: Bench) -> None:
    """A row that somebody inserted for an object that does not exist is proved gone: two reads, one drift."""
    mirrored.edit(
        "INSERT INTO objects (source, kind, id, body)"
        " VALUES ('stripe-eu', 'customer', 'cus_fake', jsonb_build_object('name', 'Eve'))"
    )
    began = time.monotonic()

    mirrored.quiet()

    assert mirrored.versions() == {"cus_1": 1, "cus_fake": None}
    assert mirrored.drift() == [("cus_fake", "extra", "hand_edit")]
    assert time.monotonic() - began >= ABSENCE_RECHECK.total_seconds()


def test_a_row_deleted_by_a_mark(mirrored: Bench) -> None:
    """A row that somebody marked deleted is restored after the two reads that bring anything back."""
    mirrored.edit("UPDATE objects SET deleted_at = clock_timestamp()")

    mirrored.quiet()

    assert mirrored.versions() == mirrored.truth()
    assert mirrored.history("cus_1") == ["created", "restored"]
    assert mirrored.drift() == [("cus_1", "missing", "hand_edit")]


def test_an_edit_during_a_fetch(mirrored: Bench) -> None:
    """What is edited while its object is read is read again after it, and told with its cause."""
    mirrored.act("change", id_="cus_1", body={"name": "Greta"})

    def edit_once(_: object) -> None:
        mirrored.main.stripe.after = lambda _: None
        mirrored.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"Mallory\"')")

    mirrored.main.stripe.after = edit_once
    mirrored.want("cus_1")
    mirrored.quiet()

    assert mirrored.body("cus_1")["name"] == "Greta"
    assert mirrored.drift() == [("cus_1", "differs", "hand_edit")]
    assert mirrored.rows("SELECT verdict FROM declined_writes") == [("tied",)]


def test_a_hand_edit_outlives_other_wants(mirrored: Bench) -> None:
    """A notification that comes after the edit does not take its cause away."""
    mirrored.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"Mallory\"')")
    mirrored.tell(*mirrored.act("change", id_="cus_1", body={"name": "Greta"}))

    mirrored.quiet()

    assert mirrored.body("cus_1")["name"] == "Greta"
    assert mirrored.drift() == [("cus_1", "differs", "hand_edit")]


def test_workers_wake_at_an_edit(mirrored: Bench) -> None:
    """An edit wakes the workers: nobody sees it for long."""
    process = mirrored.side(poll=timedelta(seconds=60))
    with process.running():
        until(lambda: bool(mirrored.rows("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN %%'")))
        mirrored.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"Mallory\"')")
        until(lambda: mirrored.body("cus_1")["name"] == "Grete", within=5)


# Rewound there


@pytest.fixture
def ahead(bench: Bench) -> Bench:
    """Return a bench with a product whose source has gone back an hour since it was mirrored."""
    bench.act("create", "product", "prod_1", body={"name": "before"})
    bench.act("change", "product", "prod_1", body={"name": "after"})
    bench.want("prod_1", kind="product")
    bench.quiet()
    bench.act("change", "product", "prod_1", stamp="back", body={"name": "before"}, announce=False)
    return bench


def test_an_older_stamp_is_not_believed_at_once(ahead: Bench) -> None:
    """One live read whose stamp is older than the row's is declined, on record, and read again."""
    ahead.want("prod_1", kind="product")

    ahead.drain.turn()

    assert ahead.body("prod_1", "product")["name"] == "after"
    assert ahead.rows("SELECT verdict, via FROM declined_writes") == [("declined", "trigger")]
    assert ahead.logged("write.declined")[0]["because"] == "its stamp is older, though it was read after"
    assert ahead.refetch("prod_1", "product").again_at is not None


def test_a_source_that_rewound(ahead: Bench) -> None:
    """Four reads over the whole time that agree are believed, loudly, and looked at again for a day."""
    began = time.monotonic()
    ahead.want("prod_1", kind="product")

    ahead.quiet()

    assert time.monotonic() - began >= REWOUND_AFTER.total_seconds()
    assert ahead.body("prod_1", "product")["name"] == "before"
    assert ahead.history("prod_1") == ["created", "rewound"]
    assert ahead.fetches("product") - 1 >= 4
    [told] = ahead.logged("write.rewound")
    assert told["log_level"] == "warning"
    assert ahead.rows(
        "SELECT round(extract(epoch FROM (value #>> '{}')::timestamptz - clock_timestamp()) / 3600)::int"
        " FROM refetches, jsonb_array_elements(seen -> 'again') ORDER BY 1"
    ) == [(1,), (6,), (24,)]
    assert ahead.refetch("prod_1", "product").dead_at is None


def test_wants_do_not_hurry_a_rewind(ahead: Bench) -> None:
    """However often the object is read, the source is not believed before its time."""
    began = time.monotonic()

    while ahead.body("prod_1", "product")["name"] == "after":
        ahead.want("prod_1", kind="product")
        ahead.drain.turn()
        assert time.monotonic() < began + 10

    assert time.monotonic() - began >= REWOUND_AFTER.total_seconds()


def test_a_source_that_comes_round(ahead: Bench) -> None:
    """A source that shows the newer state again has not rewound: its ladder is forgotten."""
    ahead.want("prod_1", kind="product")
    ahead.drain.turn()
    ahead.hands.now += 10
    ahead.act("change", "product", "prod_1", body={"name": "newer"}, announce=False)

    ahead.quiet()

    assert ahead.body("prod_1", "product")["name"] == "newer"
    assert ahead.history("prod_1") == ["created", "updated"]
    assert ahead.refetch("prod_1", "product").seen is None


def test_a_ladder_is_never_given_up(ahead: Bench) -> None:
    """A rewind ladder outlasts the last attempt: an object on it is no dead letter."""
    process = ahead.side(attempts=1)
    ahead.want("prod_1", kind="product")
    process.drain.turn()
    process.stripe.before = lambda ref: int(ref.id)

    ahead.want("prod_1", kind="product")
    process.drain.turn()

    refetch = ahead.refetch("prod_1", "product")
    assert refetch.last_error == "unexpected: ValueError"
    assert refetch.dead_at is None


def test_a_poisoned_stamp_freezes_nothing(mirrored: Bench) -> None:
    """A stamp of next year in a row gives way to what live reads show."""
    mirrored.act("create", "product", "prod_1", body={"updated": int(mirrored.hands.now) + 31_000_000})
    mirrored.want("prod_1", kind="product")
    mirrored.quiet()
    mirrored.act("change", "product", "prod_1", body={"name": "now"}, announce=False)
    [(stamp,)] = mirrored.rows("SELECT source_updated_at > clock_timestamp() FROM objects WHERE kind = 'product'")

    mirrored.want("prod_1", kind="product")
    mirrored.quiet()

    assert stamp
    assert mirrored.body("prod_1", "product")["name"] == "now"
