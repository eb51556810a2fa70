"""Going and coming back: what proves an absence, what does not, and what brings a row back to life."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from reconciler.model import Reason
from tests.adapters.scripted import Said, Scripted, failure
from tests.paths.draining import ABSENCE_RECHECK, READ_LAG, customer, side, until

if TYPE_CHECKING:
    from reconciler.store.database import Database
    from tests.adapters.scripted import Asked
    from tests.paths.draining import Bench

INVOICE = "invoice"


@pytest.fixture
def gone(bench: Bench) -> Bench:
    """Return a bench with an invoice that is in the mirror and no longer at the provider, which nobody has told."""
    bench.act("create", INVOICE, "in_1", body={"status": "draft"})
    bench.want("in_1", kind=INVOICE)
    bench.quiet()
    bench.act("delete", INVOICE, "in_1", announce=False)
    return bench


def test_a_first_404_is_noted(gone: Bench) -> None:
    """One 404 deletes nothing; it is kept in mind, with when it may be proved."""
    gone.want("in_1", kind=INVOICE)

    gone.drain.turn()

    refetch = gone.refetch("in_1", INVOICE)
    assert gone.versions(INVOICE) == {"in_1": 1}
    assert '"absent"' in refetch.seen
    assert refetch.again_at is not None
    assert (refetch.attempts, refetch.leased_until, refetch.last_error) == (0, None, "404 resource_missing")


def test_a_second_404_proves(gone: Bench) -> None:
    """Two 404s far enough apart make a tombstone, which keeps the last known body."""
    began = time.monotonic()
    gone.want("in_1", kind=INVOICE)

    gone.quiet()

    row = gone.row("in_1", INVOICE)
    assert row is not None
    assert row.deleted_at is not None
    assert gone.body("in_1", INVOICE)["id"] == "in_1"
    assert gone.history("in_1") == ["created", "deleted"]
    assert gone.fetches(INVOICE) == 3
    assert time.monotonic() - began >= ABSENCE_RECHECK.total_seconds()
    assert gone.refetch("in_1", INVOICE).seen is None


def test_wants_do_not_hurry_a_proof(gone: Bench) -> None:
    """However often the object is wanted, the second 404 counts only when the first is old enough."""
    began = time.monotonic()

    while gone.versions(INVOICE) == {"in_1": 1}:
        gone.want("in_1", kind=INVOICE)
        gone.drain.turn()
        assert time.monotonic() < began + 10

    assert time.monotonic() - began >= ABSENCE_RECHECK.total_seconds()
    assert gone.fetches(INVOICE) > 3


def test_a_first_404_survives_a_crash(gone: Bench) -> None:
    """The process that saw the first 404 need not be the one that sees the second."""
    gone.want("in_1", kind=INVOICE)
    gone.drain.turn()

    other = gone.side()
    other.work(lambda: gone.versions(INVOICE) == {"in_1": None})

    assert gone.fetches(INVOICE) == 3


def test_a_first_404_of_another_number_line(gone: Bench) -> None:
    """A note whose position lies ahead, of before a failover, proves nothing and is begun anew."""
    gone.edit(
        "UPDATE refetches SET seen = jsonb_build_object('absent', jsonb_build_object('until', 1000000,"
        " 'ended_at', to_jsonb(clock_timestamp() - interval '1 hour')))"
    )
    gone.want("in_1", kind=INVOICE)

    gone.drain.turn()
    after_one = gone.versions(INVOICE)
    gone.quiet()

    assert after_one == {"in_1": 1}
    assert gone.versions(INVOICE) == {"in_1": None}
    assert gone.fetches(INVOICE) == 3


def test_a_live_read_clears_a_first_404(gone: Bench) -> None:
    """An object seen alive in between is not gone at the next 404: two more are needed."""
    gone.want("in_1", kind=INVOICE)
    gone.drain.turn()
    gone.act("recreate", INVOICE, "in_1", body={"status": "draft"}, announce=False)
    gone.quiet()
    cleared = gone.refetch("in_1", INVOICE).seen
    gone.act("delete", INVOICE, "in_1", announce=False)

    gone.want("in_1", kind=INVOICE)
    gone.drain.turn()
    after_one = gone.versions(INVOICE)
    gone.quiet()

    assert cleared is None
    assert after_one == {"in_1": 3}
    assert gone.versions(INVOICE) == {"in_1": None}


@pytest.mark.parametrize("lost", ["401", "403", "404"])
def test_k30_the_parent_must_be_readable(gone: Bench, lost: str) -> None:
    """While the account cannot be read, or another one answers, nothing is deleted: the source is paused, loudly."""
    gone.want("in_1", kind=INVOICE)
    gone.drain.turn()
    gone.faults(lost_access=lost)
    time_for_a_proof = time.monotonic() + 2 * ABSENCE_RECHECK.total_seconds()

    while time.monotonic() < time_for_a_proof:
        gone.hasten()
        gone.drain.turn()
    kept, paused, alarms = gone.versions(INVOICE), gone.pauses(), gone.alarms()
    gone.faults()
    gone.hasten()
    gone.quiet()

    assert kept == {"in_1": 1}
    assert paused == [("", "access_lost")]
    assert alarms == ["access_lost"]
    assert gone.logged("source.paused")
    assert gone.versions(INVOICE) == {"in_1": None}
    assert (gone.pauses(), gone.alarms()) == ([], [])
    assert gone.refetch("in_1", INVOICE).attempts == 0


def test_k30_everything_is_404_because_another_account_answers(bench: Bench) -> None:
    """A credential that by now opens another account deletes nothing, whatever that account does not have."""
    ids = [f"cus_{number}" for number in range(5)]
    for id_ in ids:
        bench.act("create", id_=id_)
    bench.want(*ids)
    bench.quiet()
    bench.faults(lost_access="404")
    bench.want(*ids)

    end = time.monotonic() + 3 * ABSENCE_RECHECK.total_seconds()
    while time.monotonic() < end:
        bench.hasten()
        bench.drain.turn()

    assert bench.versions() == bench.truth()
    assert [event for each in ids for event in bench.history(each)] == ["created"] * 5
    assert not [each for each in ids if bench.refetch(each).seen]


def test_k31_a_proof_needs_no_second_read(bench: Bench) -> None:
    """What the provider states is believed at once: one fetch, one tombstone."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.quiet()
    bench.act("delete", id_="cus_1", announce=False)

    bench.want("cus_1")
    bench.drain.turn()

    assert bench.versions() == {"cus_1": None}
    assert bench.fetches() == 2


def test_k31_a_refusal_is_no_deletion(database: Database) -> None:
    """A 404 that is about the address or the key, and a 410 that says nothing of this object, delete nothing."""
    answers = {
        "cus_url": failure(404, message="Unrecognized request URL"),
        "cus_gone": failure(410, message="This API version is no longer available"),
        # Last, for its kind waits from then on.
        "cus_mode": failure(
            404, "resource_missing", "a similar object exists in live mode, but a test mode key was used"
        ),
    }
    with _scripted(answers) as provider, side(database, provider.url) as process:
        for id_ in answers:
            process.drain.want(customer(id_))

        while process.drain.turn():
            pass

        with database.transaction() as connection:
            stored = connection.exec_driver_sql("SELECT count(*) FROM objects").scalar()
            dead = connection.exec_driver_sql("SELECT id FROM refetches WHERE dead_at IS NOT NULL ORDER BY id").all()
    assert stored == 0
    assert [row.id for row in dead] == ["cus_gone", "cus_url"]


def _scripted(answers: dict[str, Said]) -> closing[Scripted]:
    """Return a provider whose customers answer so, and whose account is there."""

    def answer(asked: Asked) -> Said:
        name = asked.path.rsplit("/", 1)[-1]
        return Said({"id": "acct_standin", "object": "account"}) if name == "account" else answers[name]

    return closing(Scripted(answer))


# The cases of the field


def test_k21_a_404_right_after_created(bench: Bench) -> None:
    """A 404 that follows the news of an object is lag: the row appears, and was never a tombstone."""
    [created] = bench.act("create", INVOICE, "in_7", body={"status": "draft"})
    bench.faults(stale_reads=1, stale_for=50)
    bench.tell(created)

    bench.drain.turn()
    early = (bench.versions(INVOICE), bench.outcomes())
    bench.faults()
    bench.quiet()

    assert early == ({}, {created: None})
    assert bench.versions(INVOICE) == {"in_7": 1}
    assert bench.history("in_7") == ["created"]
    assert bench.outcomes() == {created: "done"}


def test_k25_the_stub_of_a_deleted_object(bench: Bench) -> None:
    """`deleted: true` makes a tombstone that keeps the last known body and stamp, by event and by hand."""
    for id_ in ("prod_told", "prod_asked"):
        bench.act("create", "product", id_)
        bench.want(id_, kind="product")
    bench.quiet()
    stamps = {id_: bench.body(id_, "product")["updated"] for id_ in ("prod_told", "prod_asked")}
    bench.hands.now += 60

    bench.tell(*bench.act("delete", "product", "prod_told"))
    bench.act("delete", "product", "prod_asked", announce=False)
    bench.want("prod_asked", kind="product")
    bench.quiet()

    for id_, stamp in stamps.items():
        row = bench.row(id_, "product")
        assert row is not None
        assert row.deleted_at is not None
        assert bench.body(id_, "product")["name"]
        assert row.source_updated_at.timestamp() == stamp


def test_k26_deleted_says_the_event(bench: Bench) -> None:
    """An event called `deleted` deletes nothing: a canceled subscription is there, and its row shows that."""
    bench.act("create", "subscription", "sub_1")
    [deleted] = bench.act("delete", "subscription", "sub_1")
    assert bench.event(deleted)["type"] == "customer.subscription.deleted"

    bench.tell(deleted)
    bench.quiet()

    row = bench.row("sub_1", "subscription")
    assert row is not None
    assert row.deleted_at is None
    assert bench.body("sub_1", "subscription")["status"] == "canceled"


def test_k28_created_and_deleted_before_we_look(bench: Bench) -> None:
    """Both events are done after a bounded number of reads, a tombstone remembers, and other events are not held up."""
    [created] = bench.act("create", INVOICE, "in_1", body={"status": "draft"})
    [deleted] = bench.act("delete", INVOICE, "in_1")
    [other] = bench.act("create", id_="cus_1")

    bench.tell(created, other)
    bench.quiet()
    bench.tell(deleted)
    bench.quiet()

    assert bench.outcomes() == {created: "done", deleted: "done", other: "done"}
    assert bench.versions() == {"cus_1": 1}
    assert bench.versions(INVOICE) == {"in_1": None}
    assert bench.fetches(INVOICE) <= 5


def test_k29_an_old_event_after_the_deletion(bench: Bench) -> None:
    """An update that is told after the deletion does not bring the object back."""
    [created] = bench.act("create", id_="cus_1")
    [updated] = bench.act("change", id_="cus_1")
    [deleted] = bench.act("delete", id_="cus_1")

    for event in (deleted, updated, created):
        bench.tell(event)
        bench.quiet()

    assert bench.versions() == {"cus_1": None}
    assert set(bench.outcomes().values()) == {"done"}


def test_k29_a_read_of_before_the_deletion(bench: Bench) -> None:
    """What was read before the deletion and is written after it stays out: the tombstone stands."""
    slow, quick = bench.side(), bench.side()
    bench.act("create", id_="cus_1")
    bench.want("cus_1")

    def delete_meanwhile(_: object) -> None:
        slow.stripe.after = lambda _: None
        bench.act("delete", id_="cus_1", announce=False)
        bench.expire()
        quick.work(lambda: bench.versions() == {"cus_1": None})

    slow.stripe.after = delete_meanwhile
    slow.drain.turn()
    stood = bench.versions()
    bench.quiet()

    assert stood == bench.versions() == {"cus_1": None}
    assert bench.rows("SELECT verdict FROM declined_writes") == [("tied",)]


def test_an_object_comes_back(bench: Bench) -> None:
    """One live read over a tombstone is not enough; one that began `read_lag` after it restores the row."""
    bench.act("create", id_="cus_1")
    bench.tell(*bench.act("delete", id_="cus_1"))
    bench.quiet()
    [recreated] = bench.act("recreate", id_="cus_1")
    began = time.monotonic()

    bench.tell(recreated)
    bench.drain.turn()
    first = (bench.versions(), bench.outcomes()[recreated])
    bench.quiet()

    assert first == ({"cus_1": None}, None)
    assert time.monotonic() - began >= READ_LAG.total_seconds()
    assert bench.versions() == bench.truth() == {"cus_1": 3}
    assert bench.history("cus_1") == ["deleted", "restored"]
    assert bench.outcomes()[recreated] == "done"


def test_a_stale_read_does_not_bring_back(bench: Bench) -> None:
    """A replica that still shows what was deleted lifts no tombstone: the read that confirms it shows none."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.quiet()
    bench.tell(*bench.act("delete", id_="cus_1"))
    bench.main.work(lambda: bench.versions() == {"cus_1": None})

    bench.act("recreate", id_="cus_1", announce=False)
    bench.stale()
    bench.act("delete", id_="cus_1", announce=False)
    bench.want("cus_1")
    bench.drain.turn()
    first = bench.rows("SELECT verdict FROM declined_writes")
    bench.faults()
    bench.quiet()

    assert first == [("tied",)]
    assert bench.versions() == {"cus_1": None}
    assert "restored" not in bench.history("cus_1")
    assert bench.refetch("cus_1").seen is None or "alive" not in bench.refetch("cus_1").seen


def test_absences_in_a_run_wait_for_their_proof(gone: Bench) -> None:
    """A refetch that a sweep wanted is proved the same way, and by the sweeps' own worker."""
    gone.drain.want(customer("in_1", INVOICE), reason=Reason.SWEEP)

    with gone.main.running():
        until(lambda: gone.versions(INVOICE) == {"in_1": None})

    assert gone.fetches(INVOICE) == 3


def test_the_account_is_asked_for_between(gone: Bench) -> None:
    """Each 404 of an object that we hold is followed by a read of the account it lives in."""
    before = gone.calls("GET /v1/account")
    gone.want("in_1", kind=INVOICE)

    gone.quiet()

    assert gone.calls("GET /v1/account") - before == 2
