"""Sweeps: what they list, what they prove, what they call drift, and when they may say that they are complete."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.errors import ConfigError, SourceRefused, SourceUnavailable
from reconciler.model import Hint, Reason, Snapshot
from reconciler.store import refetches, runs
from reconciler.store.refetches import Want
from reconciler.store.runs import RunHeld
from reconciler.sweep import Asked
from reconciler.times import Last
from tests.paths.draining import SOURCE, customer, until
from tests.paths.sweeping import ago, listing_as, sweep_on, swept, watermark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.model import ObjectRef, Page
    from tests.paths.draining import Bench

TABLES = ("objects", "refetches", "declined_writes", "object_history", "watermarks", "webhook_events", "event_objects")


def make(bench: Bench, count: int = 3, kind: str = "customer") -> list[str]:
    """Create objects at the provider that nobody tells us of, and return their ids."""
    before = set(bench.truth(kind))
    for _ in range(count):
        bench.act("create", kind)
    return sorted(set(bench.truth(kind)) - before)


# --- the first sweep ---


def test_a_kind_that_was_never_swept_is_listed_whole(bench: Bench) -> None:
    """The first sweep loads every object and calls none of it drift."""
    ids = make(bench)

    told = swept(bench)

    assert told.state == "complete"
    assert told.drift == []
    assert bench.versions() == bench.truth()
    assert [bench.history(id_) for id_ in ids] == [["loaded"]] * 3
    assert told.kinds["customer"]["applied"] == told.kinds["customer"]["listed"] == 3


def test_an_explicit_window_is_no_full_sweep(bench: Bench) -> None:
    """A window over a kind that was never swept lists the window only, says so, and leaves the watermark unset."""
    bench.hands.now -= 7200
    make(bench)
    bench.hands.now += 7200
    [late] = make(bench, 1)

    told = swept(bench, since=ago(minutes=30))

    assert set(bench.versions()) == {late}
    assert told.kinds["customer"]["note"] == "never fully swept"
    assert watermark(bench) is None


def test_the_watermark_is_the_start_of_the_run(bench: Bench) -> None:
    """K37, K38: what changes while a run goes on is the next one's: the watermark is its start less the feed's lag."""
    make(bench)

    swept(bench)

    [(started,)] = bench.rows("SELECT started_at FROM runs")
    assert watermark(bench) == started - bench.main.adapter.kinds["customer"].feed_lag


# --- windows ---


def test_a_change_behind_the_back_of_the_webhooks_is_found(bench: Bench) -> None:
    """What was changed and never delivered is listed, read, and put on record as a missed notification."""
    one, _, _ = make(bench)
    swept(bench)
    bench.act("change", id_=one)
    side = bench.side(in_flight=timedelta(0))

    told = swept(bench, sweep=sweep_on(bench, side))

    assert bench.versions() == bench.truth()
    assert told.drift == [(one, "differs", "missed_notification")]
    assert {"/name", "/metadata/version"} <= {each["path"] for each in told.report["drift"][0]["diff"]}
    finished = bench.logged("run.finished")[-1]
    assert (finished["drift"], finished["causes"]) == (1, {"missed_notification": 1})
    counted = 'reconciler_drift_total{cause="missed_notification",kind="customer",source="stripe-eu"} 1.0'
    assert counted in side.metrics.exposition().decode()


def test_the_window_begins_with_its_first_instant(bench: Bench) -> None:
    """K36: an object that changed in the very second the window begins is taken."""
    [one] = make(bench, 1)
    swept(bench)
    bench.hands.now += 60
    bench.act("change", id_=one)
    edge = ago() + timedelta(seconds=bench.hands.now - ago().timestamp())

    swept(bench, since=edge)

    assert bench.versions() == bench.truth()


def test_an_object_outside_the_window_is_left_alone(bench: Bench) -> None:
    """K33: what a window does not show has not changed; nothing is read and nothing is deleted."""
    bench.hands.now -= 7200
    make(bench)
    bench.hands.now += 7200
    swept(bench)
    fetched = bench.fetches()

    told = swept(bench, since=ago(minutes=30))

    assert told.state == "complete"
    assert bench.fetches() == fetched
    assert None not in bench.versions().values()


def test_k40_a_window_beyond_the_feed_lists_everything(bench: Bench) -> None:
    """Events reach back 30 days; asked for 60, the objects themselves are listed, and the report says so."""
    make(bench)
    bench.act("create", id_="cus_old", at=int(ago(days=45).timestamp()))

    told = swept(bench, since=ago(days=60))

    assert "30 days only" in told.kinds["customer"]["note"]
    assert bench.versions() == bench.truth()
    assert "cus_old" in bench.versions()


def test_finished_objects_are_not_overlooked(bench: Bench) -> None:
    """K34: a subscription that was canceled behind our back ends canceled here."""
    bench.act("create", "customer")
    [sub] = make(bench, 1, "subscription")
    swept(bench, "subscription")
    bench.act("delete", "subscription", sub, announce=False)

    told = swept(bench, "subscription", full=True)

    assert bench.body(sub, "subscription")["status"] == "canceled"
    assert told.state == "complete"


def test_until_ends_the_window(bench: Bench) -> None:
    """What changed after `--until` is not looked at, and the watermark goes no further."""
    one, _, _ = make(bench)
    swept(bench)
    bench.act("change", id_=one)
    bench.hands.now += 3600
    [late] = make(bench, 1)

    swept(bench, until=ago(minutes=-30))

    assert bench.versions()[one] == 2
    assert late not in bench.versions()


def test_a_late_window_moves_no_watermark(bench: Bench) -> None:
    """A window that begins after the watermark leaves a gap, so the watermark stays."""
    make(bench)
    swept(bench)
    bench.edit("UPDATE watermarks SET swept_until = clock_timestamp() - interval '3 days'")
    before = watermark(bench)

    swept(bench, since=ago(hours=1))

    assert watermark(bench) == before


def test_a_watermark_never_goes_back(bench: Bench) -> None:
    """A run up to a time in the past moves nothing back."""
    make(bench)
    swept(bench)
    before = watermark(bench)

    swept(bench, until=ago(hours=5))

    assert watermark(bench) == before


def test_light_passes_keep_to_the_overlap(bench: Bench) -> None:
    """A light pass lists from the watermark less the overlap, not a day back, and moves the watermark on."""
    make(bench)
    swept(bench)
    before = watermark(bench)

    told = swept(bench, light=True, trigger="light")

    assert before is not None
    assert told.kinds["customer"]["since"] > (before - timedelta(minutes=1)).isoformat()
    assert watermark(bench) != before


# --- what costs nothing ---


def test_a_hint_that_was_answered_costs_nothing(bench: Bench) -> None:
    """An event that arrived, and whose object was read since, is not read again by a sweep."""
    [one] = make(bench, 1)
    swept(bench)
    bench.tell(*bench.act("change", id_=one))
    bench.hands.now += 60
    bench.quiet()
    fetched = bench.fetches()

    told = swept(bench, since=ago(seconds=30))

    assert told.state == "complete"
    assert told.kinds["customer"]["listed"] > 0
    # The one whose creation nobody told us of is the same object: one fetch answers all its hints.
    assert bench.fetches() - fetched <= 1
    assert told.drift == []


def test_an_event_about_another_object_proves_nothing(bench: Bench) -> None:
    """An event is an answer only for the object it named, and only while that row is as it was read."""
    [one] = make(bench, 1)
    swept(bench)
    bench.tell(*bench.act("change", id_=one))
    bench.quiet()
    bench.edit("DELETE FROM event_objects")
    fetched = bench.fetches()

    swept(bench)

    assert bench.fetches() > fetched


# --- complete or not ---


def test_a_page_that_was_not_seen_is_no_success(bench: Bench) -> None:
    """Law 8: a listing that breaks off leaves the run incomplete, its watermark unmoved and every row in place."""
    make(bench, 3)
    swept(bench)
    before = watermark(bench)
    bench.faults(status={"500": 1})

    told = swept(bench, full=True)

    assert told.state == "incomplete"
    assert told.kinds["customer"]["error"]
    assert watermark(bench) == before
    assert None not in bench.versions().values()


def test_a_listing_that_breaks_off_proves_nothing_gone(bench: Bench) -> None:
    """K33: a crawl that ends on its second page tombstones none of what it did not reach."""
    ids = make(bench, 130)
    swept(bench)

    def short(pages: Iterator[Page]) -> Iterator[Page]:
        yield next(pages)
        raise SourceUnavailable("broke off")

    told = swept(bench, sweep=listing_as(bench, short), full=True)

    assert told.state == "incomplete"
    assert "broke off" in told.report["because"]
    assert [bench.versions()[id_] for id_ in ids] == [1] * 130


def test_a_dead_refetch_makes_a_run_incomplete(bench: Bench) -> None:
    """A run that had to give an object up says so; the others are repaired all the same."""
    one, other = make(bench, 2)
    swept(bench)
    side = bench.side(attempts=1)
    bench.act("change", id_=one)
    bench.act("change", id_=other)

    def refuse(ref: object) -> None:
        if ref == customer(one):
            raise SourceRefused("no such thing")

    side.stripe.before = refuse
    told = swept(bench, sweep=sweep_on(bench, side))

    assert told.state == "incomplete"
    assert "1 dead" in told.kinds["customer"]["error"]
    assert bench.versions()[other] == 2


def test_a_paused_source_is_incomplete_at_once(bench: Bench) -> None:
    """A run does not wait for a source that answers nobody."""
    [one] = make(bench, 1)
    swept(bench)
    bench.act("change", id_=one)
    bench.edit(
        "INSERT INTO pauses (source, what, because, since, until)"
        " VALUES (%s, 'unavailable', 'away', clock_timestamp(), clock_timestamp() + interval '1 hour')",
        SOURCE,
    )

    told = swept(bench)

    assert told.state == "incomplete"
    assert "unfinished" in told.kinds["customer"]["error"]


def test_a_run_ends_when_the_process_does(bench: Bench) -> None:
    """A stop asked for in the middle leaves the run incomplete, its kinds free and its watermark where it was."""
    make(bench, 3)
    stop = threading.Event()
    stop.set()

    told = swept(bench, sweep=sweep_on(bench, stop=stop))

    assert told.state == "incomplete"
    assert watermark(bench) is None
    assert bench.rows("SELECT count(*) FROM sweeps") == [(0,)]


def test_a_kind_in_a_newer_shape_is_left_to_its_process(bench: Bench) -> None:
    """An older process does not sweep what a newer one stores differently, and says so."""
    make(bench)
    sweep = sweep_on(bench)
    swept(bench, sweep=sweep)
    bench.edit(
        "INSERT INTO shapes SELECT source, kind, n + 1, 'newer', clock_timestamp() FROM shapes WHERE kind = 'customer'"
    )

    told = swept(bench, sweep=sweep)

    assert told.state == "incomplete"
    assert "newer process" in told.kinds["customer"]["error"]


# --- holding kinds ---


def test_a_kind_is_swept_by_one_run_at_a_time(bench: Bench) -> None:
    """A second run of a held kind is refused with who holds it and since when; of another kind it is not."""
    sweep = sweep_on(bench)
    held = sweep.begin(Asked(trigger="cli", since=Last.LAST, kinds=("customer", "charge")))

    with pytest.raises(RunHeld) as refused:
        sweep.begin(Asked(trigger="cli", since=Last.LAST, kinds=("price", "customer")))

    assert refused.value.run_id == held
    assert f"run {held}" in str(refused.value)
    assert sweep.begin(Asked(trigger="cli", since=Last.LAST, kinds=("price",))) > held
    assert bench.rows("SELECT count(*) FROM runs") == [(2,)]


def test_the_hold_of_a_dead_process_ends(bench: Bench) -> None:
    """K55: a run whose process is gone holds nothing once its hold has passed, and is marked abandoned."""
    sweep = sweep_on(bench)
    gone = sweep.begin(Asked(trigger="cli", since=Last.LAST, kinds=("customer",)))
    bench.edit("UPDATE sweeps SET held_until = clock_timestamp()")
    bench.edit("UPDATE runs SET started_at = clock_timestamp() - interval '1 hour'")

    told = swept(bench)

    assert told.state == "complete"
    assert bench.rows("SELECT state FROM runs WHERE id = %s", gone) == [("abandoned",)]


def test_unknown_names_are_refused(bench: Bench) -> None:
    """A source or kind that is not mirrored is a sentence with what there is, before anything is done."""
    sweep = sweep_on(bench)

    with pytest.raises(ConfigError, match="there is: stripe-eu"):
        sweep.begin(Asked(trigger="cli", since=Last.LAST, sources=("stripe-us",)))
    with pytest.raises(ConfigError, match="kind 'custommer' is not mirrored"):
        sweep.begin(Asked(trigger="cli", since=Last.LAST, kinds=("custommer",)))

    assert bench.rows("SELECT count(*) FROM runs") == [(0,)]


# --- deletions ---


def test_a_full_sweep_proves_the_missing_gone(bench: Bench) -> None:
    """What a complete listing does not show is read, and only the read makes the tombstone."""
    bench.hands.now -= 3 * 86400
    one, _, _ = make(bench)
    bench.hands.now += 3 * 86400
    swept(bench)
    bench.act("delete", id_=one, announce=False)
    assert swept(bench).drift == []

    told = swept(bench, full=True)

    assert bench.versions() == bench.truth()
    assert told.drift == [(one, "extra", "missed_deletion")]
    assert told.kinds["customer"]["tombstones"] == 1


def test_a_full_sweep_deletes_nothing_that_is_there(bench: Bench) -> None:
    """An object that a listing left out for reasons of its own is read, found alive, and kept."""
    one, _, _ = make(bench)
    swept(bench)

    def hiding(pages: Iterator[Page]) -> Iterator[Page]:
        for page in pages:
            yield replace(page, snapshots=tuple(each for each in page.snapshots if each.ref.id != one))

    told = swept(bench, sweep=listing_as(bench, hiding), full=True)

    assert told.state == "complete"
    assert bench.versions() == bench.truth()
    assert bench.versions()[one] == 1


def test_lost_access_in_a_full_sweep_deletes_nothing(bench: Bench) -> None:
    """K30: a listing refused for want of access leaves every row, and the run incomplete."""
    make(bench)
    swept(bench)
    bench.faults(lost_access="401")

    told = swept(bench, full=True)

    assert told.state == "incomplete"
    assert None not in bench.versions().values()


# --- listings and the guard ---


def test_a_stale_listing_overwrites_nothing(bench: Bench) -> None:
    """Of an unstamped kind a listed object that differs is read again, never written: law 2."""
    [one] = make(bench, 1)
    swept(bench)
    bench.ticks.leapt += 100
    bench.tell(*bench.act("change", id_=one))
    bench.quiet()

    def stale(pages: Iterator[Page]) -> Iterator[Page]:
        bench.faults(stale_reads=1, stale_for=50)
        listed = list(pages)
        bench.faults()
        yield from listed

    told = swept(bench, sweep=listing_as(bench, stale), full=True)

    assert bench.versions() == {one: 2}
    assert bench.history(one) == ["loaded", "updated"]
    assert told.kinds["customer"]["listed"] == told.kinds["customer"]["unchanged"] == 1


def test_a_page_listed_before_a_write_is_older_than_it(bench: Bench) -> None:
    """A page read ahead carries the positions of its own request: what was written meanwhile is not undone."""
    [one] = make(bench, 1, "product")
    swept(bench, "product")
    bench.hands.now += 5

    def overtaken(pages: Iterator[Page]) -> Iterator[Page]:
        listed = list(pages)
        bench.act("change", "product", one)
        bench.want(one, kind="product")
        bench.main.work(lambda: bench.versions("product")[one] == 2)
        yield from listed

    told = swept(bench, "product", sweep=listing_as(bench, overtaken), full=True)

    assert bench.versions("product") == bench.truth("product")
    assert told.state == "complete"
    assert bench.rows("SELECT DISTINCT verdict FROM declined_writes WHERE via = 'crawl'") == [("declined",)]


def test_what_cannot_be_stored_is_a_dead_letter_of_the_run(bench: Bench) -> None:
    """One listed object that PostgreSQL refuses does not keep the others of its page out; the run is incomplete."""
    make(bench, 3)

    def spoiled(pages: Iterator[Page]) -> Iterator[Page]:
        for page in pages:
            first = page.snapshots[0]
            bad = Snapshot(replace(first.ref, id="cus_bad"), {"balance": float("nan")}, None, first.observed_at)
            yield replace(page, snapshots=(bad, *page.snapshots))

    told = swept(bench, sweep=listing_as(bench, spoiled))

    assert bench.versions() == bench.truth()
    assert told.state == "incomplete"
    assert told.kinds["customer"]["error"] == "1 dead"
    assert "cannot be stored" in bench.refetch("cus_bad").last_error


# --- drift and its causes ---


def test_drift_found_while_its_notification_waits(bench: Bench) -> None:
    """A row that is wrong because its event is still in the queue is called notification pending."""
    [one] = make(bench, 1)
    swept(bench)
    bench.tell(*bench.act("change", id_=one))

    told = swept(bench)

    assert told.drift == [(one, "differs", "notification_pending")]


def test_drift_of_an_object_that_is_asked_for_again_while_it_is_read(bench: Bench) -> None:
    """A run that reads what was due, and meanwhile finds the same object in its list, puts the drift on record."""
    [one] = make(bench, 1)
    swept(bench)
    bench.tell(*bench.act("change", id_=one))
    side = bench.side(in_flight=timedelta(0))
    run_id = sweep_on(bench, side).begin(Asked(trigger="cli", since=Last.LAST, kinds=("customer",)))

    def ask_again(ref: ObjectRef) -> None:
        with bench.database.transaction() as connection:
            wanted = refetches.want(connection, [Want(ref, Reason.SWEEP)])
            runs.ask(connection, run_id, [Hint(ref)], wanted)

    side.stripe.before = ask_again
    side.drain.turn_in_run(run_id, SOURCE, "customer")

    assert bench.rows("SELECT id, run_id FROM drift") == [(one, run_id)]


def test_an_object_that_changed_just_now_is_in_flight(bench: Bench) -> None:
    """What changed less than `in_flight` ago is repaired and tallied, not called drift."""
    [one] = make(bench, 1)
    swept(bench)
    bench.act("change", id_=one)

    told = swept(bench, sweep=sweep_on(bench, in_flight=timedelta(minutes=5)))

    assert bench.versions() == bench.truth()
    assert told.drift == []
    assert told.kinds["customer"]["in_flight"] == 1


def test_a_dry_run_finds_it_in_flight_too(bench: Bench) -> None:
    """What a run would not call drift, a dry run does not either, and leaves as it is: listed, by a hint, told."""
    [one] = make(bench, 1)
    swept(bench)
    swept(bench, "product")
    before = bench.versions()
    bench.act("change", id_=one)
    bench.tell(*bench.act("create", id_="cus_told"))
    bench.act("create", id_="cus_new")
    bench.act("create", "product", "prod_new")
    patient = sweep_on(bench, in_flight=timedelta(minutes=5))

    told = swept(bench, sweep=patient, dry_run=True)
    listed = swept(bench, "product", sweep=patient, full=True, dry_run=True)

    assert (told.drift, told.kinds["customer"]["in_flight"]) == ([], 3)
    assert (listed.drift, listed.kinds["product"]["in_flight"]) == ([], 1)
    assert bench.versions() == before


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_stamp_of_the_future_hides_no_drift(bench: Bench, dry_run: bool) -> None:  # noqa: FBT001 - both are the test
    """An object whose stamp is a year ahead is not in flight for a year: its drift is drift."""
    swept(bench, "product")
    bench.act("create", "product", "prod_1", at=int(bench.hands.now) + 365 * 86400)
    patient = sweep_on(bench, in_flight=timedelta(minutes=5))

    told = swept(bench, "product", sweep=patient, full=True, dry_run=dry_run)

    assert [(id_, what) for id_, what, _ in told.drift] == [("prod_1", "missing")]
    assert told.kinds["product"]["in_flight"] == 0


def test_a_created_object_that_nobody_told_of_is_missing(bench: Bench) -> None:
    """An object that a later sweep finds new is drift: missing, for a missed notification."""
    make(bench)
    swept(bench)
    [late] = make(bench, 1)

    told = swept(bench)

    assert told.drift == [(late, "missing", "missed_notification")]


def test_a_change_that_nothing_announced_has_another_cause(bench: Bench) -> None:
    """A difference that only a full sweep could show is repaired, with cause other."""
    one, _, _ = make(bench)
    swept(bench)
    bench.act("change", id_=one, announce=False)

    told = swept(bench, full=True)

    assert told.drift == [(one, "differs", "other")]
    assert bench.versions() == bench.truth()


def test_a_hand_edit_keeps_its_name(bench: Bench) -> None:
    """A row edited by hand and found by a sweep is still a hand edit."""
    [one] = make(bench, 1)
    swept(bench)
    bench.edit('UPDATE objects SET body = body || \'{"name": "edited"}\'')

    told = swept(bench)

    assert told.drift == [(one, "differs", "hand_edit")]
    assert bench.versions() == bench.truth()


def test_open_objects_are_read_again(bench: Bench) -> None:
    """A payment intent that is not finished is read every time, for its edits show in no feed."""
    [one] = make(bench, 1, "payment_intent")
    swept(bench, "payment_intent")
    bench.act("change", "payment_intent", one, announce=False)

    swept(bench, "payment_intent")

    assert bench.versions("payment_intent") == bench.truth("payment_intent")


# --- dry runs ---


def test_a_dry_run_changes_nothing(bench: Bench) -> None:
    """A dry run finds the drift that a run would repair, leaves every other table as it is, and repairs nothing."""
    one, other, third = make(bench, 3)
    swept(bench)
    bench.act("change", id_=one)
    bench.act("delete", id_=other)
    bench.act("change", id_=third, announce=False)
    [late] = make(bench, 1)
    before = {table: bench.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4") for table in TABLES}

    told = swept(bench, full=True, since=ago(hours=1), dry_run=True)

    assert told.state == "complete"
    assert {id_: what for id_, what, _ in told.drift} == {
        one: "differs",
        other: "extra",
        third: "differs",
        late: "missing",
    }
    assert {each["repaired_at"] for each in told.report["drift"]} == {None}
    after = {table: bench.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4") for table in TABLES}
    assert after == before


def test_a_clean_mirror_has_no_drift(bench: Bench) -> None:
    """Two sweeps of a provider that is quiet find nothing, dry or not."""
    make(bench)
    swept(bench)

    assert swept(bench, full=True, dry_run=True).drift == []
    assert swept(bench, full=True).drift == []


# --- beside a daemon ---


def test_a_run_works_off_what_was_due(bench: Bench) -> None:
    """A run reads what its kinds had waiting when it began, daemon or not."""
    [one] = make(bench, 1)
    swept(bench)
    bench.act("change", id_=one, announce=False)
    bench.want(one)

    swept(bench)

    assert bench.versions() == bench.truth()
    assert bench.pending() == 0


def test_a_run_and_a_daemon_share_the_work(bench: Bench) -> None:
    """With a daemon draining beside it a run still learns what became of everything it wanted."""
    ids = make(bench, 40)
    swept(bench)
    for id_ in ids:
        bench.act("change", id_=id_)

    with bench.side(in_flight=timedelta(0)).running():
        told = swept(bench)

    assert told.state == "complete"
    assert bench.versions() == bench.truth()
    assert len(told.drift) == 40


def test_a_rewind_ladder_holds_no_run(bench: Bench) -> None:
    """A source that rewound is reread over minutes; the run ends without waiting for it."""
    side = bench.side(rewound_after=timedelta(minutes=10))
    [one] = make(bench, 1, "product")
    sweep = sweep_on(bench, side)
    swept(bench, "product", sweep=sweep)
    bench.hands.now += 60
    bench.act("change", "product", one, stamp="back")

    told = swept(bench, "product", sweep=sweep, full=True)

    assert told.kinds["product"]["declined"] >= 1
    assert bench.refetch(one, "product").again_at is not None
    assert told.state == "complete"


def test_runs_are_on_record_while_they_go(bench: Bench) -> None:
    """A run that is under way shows as running, and its kinds as held."""
    sweep = sweep_on(bench)
    run_id = sweep.begin(Asked(trigger="http", since=Last.LAST, kinds=("customer",)))

    assert bench.rows("SELECT state, trigger FROM runs WHERE id = %s", run_id) == [("running", "http")]
    assert bench.rows("SELECT source, kind FROM sweeps") == [(SOURCE, "customer")]

    ended = threading.Thread(target=lambda: sweep.execute(run_id))
    ended.start()
    until(lambda: bench.rows("SELECT state FROM runs WHERE id = %s", run_id) == [("complete",)])
    ended.join()
    assert bench.database.commit(runs.abandon) == []
