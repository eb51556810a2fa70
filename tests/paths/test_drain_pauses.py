"""Failures: whom they are counted against, when a source is left alone, and what survives the end of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from reconciler.accounts import Pinned
from reconciler.adapter import Limit
from reconciler.errors import AccessLost
from reconciler.store import events, pauses, runs
from tests.adapters.scripted import Said, Scripted, failure
from tests.adapters.trickle import Trickle
from tests.paths.draining import SOURCE, bench_on, customer, over, side, until
from tests.paths.sweeping import swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciler.store.database import Database
    from tests.adapters.scripted import Asked
    from tests.paths.draining import Bench, Side

_ROOT = Path(__file__).parents[2]
_ACCOUNT = "account"


@contextmanager
def answering(database: Database, answers: Mapping[str, Callable[[], Said]], **given: Any) -> Iterator[Side]:
    """Yield a drain for a provider that answers so for these ids; others are there, and so is the account."""

    def answer(asked: Asked) -> Said:
        id_ = asked.path.rsplit("/", 1)[-1]
        if id_ in answers:
            return answers[id_]()
        if id_ == _ACCOUNT:
            return Said({"id": "acct_standin", "object": _ACCOUNT})
        return Said({"id": id_, "object": "customer"})

    with ExitStack() as stack:
        provider = stack.enter_context(closing(Scripted(answer)))
        yield stack.enter_context(side(database, provider.url, **given))


def _column(database: Database, statement: str) -> list[object]:
    with database.transaction() as connection:
        return [row[0] for row in connection.exec_driver_sql(statement).all()]


# Attempts


def test_k12_an_object_that_always_fails(database: Database) -> None:
    """An object that is a 500 while others are answered is a dead letter after so many reads, with the reason."""
    tries = 10
    with (
        capture_logs() as lines,
        answering(database, {"cus_bad": lambda: failure(500, message="Sorry.")}, attempts=tries) as process,
    ):
        bench = over(process)
        for id_ in ("cus_bad", "cus_good"):
            bench.deliver(_event(id_))
        for _ in range(tries):
            assert not bench.refetch("cus_bad").dead_at
            bench.hasten()
            while process.drain.turn():
                pass

        refetch = bench.refetch("cus_bad")
        assert refetch.dead_at is not None
        assert refetch.attempts == tries
        assert refetch.last_error == "GET /v1/customers/{id}: 500 invalid_request_error: Sorry."
        assert bench.outcomes() == {"evt_cus_bad": "dead", "evt_cus_good": "done"}
        assert bench.pauses() == []
        assert bench.rows("SELECT last_error FROM webhook_events WHERE outcome = 'dead'") == [(refetch.last_error,)]
        assert bench.alarms() == ["dead_letters"]
        assert len([line for line in lines if line["event"] == "refetch.dead"]) == 1


def _event(id_: str) -> dict[str, object]:
    return {
        "id": f"evt_{id_}",
        "object": "event",
        "type": "customer.updated",
        "created": 1_790_000_000,
        "data": {"object": {"id": id_, "object": "customer"}},
    }


def test_k12_a_provider_that_answers_nobody(bench: Bench) -> None:
    """While the provider answers for none the source is paused, nothing is counted or buried, and then all is read."""
    process = bench.side(attempts=1)
    ids = [f"cus_{number}" for number in range(5)]
    for id_ in ids:
        bench.act("create", id_=id_)
        process.drain.want(customer(id_))
    bench.faults(status={"500": 1})

    for _ in range(4):
        bench.hasten()
        while process.drain.turn():
            pass
    paused, alarms = bench.pauses(), bench.alarms()
    asked = bench.calls()
    while process.drain.turn():
        pass
    left_alone = bench.calls() - asked
    attempts = {bench.refetch(id_).attempts for id_ in ids}
    bench.faults()
    bench.hasten()
    process.work(lambda: not bench.pending())

    assert paused == [("", "unavailable")]
    assert alarms == ["source_unavailable"]
    assert left_alone == 0
    assert attempts == {0}
    assert bench.versions() == bench.truth()
    assert bench.pauses() == []
    assert bench.alarms() == []
    assert bench.logged("source.resumed")


def test_k14_done_only_when_the_work_succeeded(bench: Bench) -> None:
    """A notification whose read failed is open; its repeat runs it, and the repeat of a done one does nothing."""
    [created] = bench.act("create", id_="cus_1")
    bench.faults(status={"503": 1})
    bench.tell(created)
    bench.drain.turn()
    failed = bench.outcomes()
    bench.faults()
    bench.hasten()

    bench.tell(created)
    bench.quiet()
    done, calls = bench.outcomes(), bench.calls()
    bench.tell(created)
    bench.quiet()

    assert failed == {created: None}
    assert done == bench.outcomes() == {created: "done"}
    assert bench.calls() == calls
    assert bench.versions() == bench.truth()


def test_a_dead_letter_lives_again(database: Database) -> None:
    """A repeat of its event, or a want, makes a dead letter due; nothing of the past counts against it."""
    answers = {"cus_1": lambda: failure(500)}
    with answering(database, answers, attempts=1) as process:
        bench = over(process)
        bench.deliver(_event("cus_1"))
        process.drain.turn()
        dead = (bench.refetch("cus_1").dead_at is not None, bench.outcomes())
        answers["cus_1"] = lambda: Said({"id": "cus_1", "object": "customer"})
        bench.deliver(_event("cus_1"))
        bench.quiet()

        assert dead == (True, {"evt_cus_1": "dead"})
        assert bench.outcomes() == {"evt_cus_1": "done"}
        assert (bench.refetch("cus_1").dead_at, bench.refetch("cus_1").attempts) == (None, 0)


def test_a_dead_letter_is_replayed(database: Database) -> None:
    """Replay opens its events and wants their objects."""
    answers = {"cus_1": lambda: failure(500)}
    with answering(database, answers, attempts=1) as process:
        bench = over(process)
        bench.deliver(_event("cus_1"))
        process.drain.turn()
        del answers["cus_1"]

        wanted = database.commit(lambda connection: events.replay(connection, state="dead")).wanted
        bench.quiet()

        assert wanted == 1
        assert bench.outcomes() == {"evt_cus_1": "done"}


def test_a_refusal_is_buried_at_once(database: Database) -> None:
    """Where the provider says no, asking again does not help: one read, one dead letter."""
    with answering(database, {"cus_1": lambda: failure(402, message="Pay first.")}) as process:
        process.drain.want(customer("cus_1"))

        process.drain.turn()

    assert _column(database, "SELECT attempts FROM refetches WHERE dead_at IS NOT NULL") == [1]


def test_a_want_during_a_failing_read(database: Database) -> None:
    """A refetch that was wanted while its last read failed is not buried: the want is looked at."""
    with answering(database, {"cus_1": lambda: failure(402)}) as process:
        process.drain.want(customer("cus_1"))
        process.stripe.before = process.drain.want

        process.drain.turn()

        assert _column(database, "SELECT count(*) FROM refetches WHERE dead_at IS NULL AND wanted > done") == [1]


def test_a_permission_that_a_kind_lacks(bench: Bench) -> None:
    """A 403 for one kind of a readable account: its reads wait, with one alarm and no attempt, and then go on."""
    process = bench.side(attempts=1)
    ids = [f"in_{number}" for number in range(5)]
    told = [bench.act("create", "invoice", id_, body={"status": "draft"})[0] for id_ in ids]
    bench.act("create", id_="cus_1")
    bench.sandbox._access.restricted = {"sk_test_standinofakey": frozenset({"invoice"})}

    bench.tell(*told)
    process.drain.want(customer("cus_1"))
    for _ in range(3):
        while process.drain.turn():
            pass
        bench.edit("UPDATE refused_kinds SET until = clock_timestamp()")
        bench.edit("UPDATE refetches SET due_at = clock_timestamp()")
    alarms, open_ones = bench.alarms(), [bench.outcomes()[event_id] for event_id in told]
    attempts = {bench.refetch(id_, "invoice").attempts for id_ in ids}
    others = bench.versions()
    bench.sandbox._access.restricted = {}
    process.work(lambda: not bench.pending())

    assert (alarms, bench.pauses(), bench.alarms()) == (["permission_missing"], [], [])
    assert (open_ones, attempts, others) == ([None] * 5, {0}, {"cus_1": 1})
    assert len(bench.logged("source.refused")) == len(bench.logged("source.permitted")) == 1
    assert bench.versions("invoice") == bench.truth("invoice")
    assert {bench.outcomes()[event_id] for event_id in told} == {"done"}


def test_a_kind_that_may_not_be_read_is_asked_seldom(bench: Bench) -> None:
    """While a kind waits for its permission nothing of it is asked, however much is wanted; a run says so at once."""
    ids = [f"in_{number}" for number in range(20)]
    for id_ in ids:
        bench.act("create", "invoice", id_, body={"status": "draft"})
    bench.sandbox._access.restricted = {"sk_test_standinofakey": frozenset({"invoice"})}
    bench.want(*ids, kind="invoice")
    while bench.drain.turn():
        pass

    asked = bench.fetches("invoice")
    lacking = swept(bench, "customer", "invoice")

    assert asked == 1
    assert {kind: each["state"] for kind, each in lacking.kinds.items()} == {
        "customer": "complete",
        "invoice": "incomplete",
    }
    assert bench.alarms() == ["permission_missing"]


def test_an_object_that_may_not_be_read(database: Database) -> None:
    """Where only one object of a kind is refused, the others are read, and it alone is given up in the end."""
    denied = {"cus_1": lambda: failure(403, message="Not this one.")}
    with answering(database, denied, attempts=3) as process:
        bench = over(process)
        for id_ in ("cus_1", "cus_2", "cus_3", "cus_4"):
            process.drain.want(customer(id_))
            for _ in range(2):
                bench.hasten()
                bench.edit("UPDATE refused_kinds SET until = clock_timestamp()")
                while process.drain.turn():
                    pass

        assert bench.refetch("cus_1").dead_at is not None
        assert bench.versions().keys() == {"cus_2", "cus_3", "cus_4"}
        assert bench.alarms() == ["dead_letters"]


# Waiting


@pytest.mark.parametrize("attempts", [0, 1, 5, 9, 10, 60, 10_000])
def test_the_back_off(bench: Bench, attempts: int) -> None:
    """The wait doubles from a second to ten minutes, and is spread over its upper half."""
    waits = [bench.drain.back_off(attempts).total_seconds() for _ in range(200)]

    longest = min(2**attempts, 600)
    assert longest / 2 <= min(waits) < longest * 0.6
    assert longest * 0.9 < max(waits) <= longest


_WAITS: Mapping[str, Callable[[], str]] = {
    "seconds": lambda: "40",
    "date": lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True),
}


@pytest.mark.parametrize("spelled", _WAITS)
def test_retry_after_is_obeyed(database: Database, spelled: str) -> None:
    """A provider that says when to come again is asked again then, however it says so."""
    retry_after = _WAITS[spelled]
    date = format_datetime(datetime.now(UTC), usegmt=True)
    said = {"Retry-After": retry_after(), "Date": date}
    with answering(database, {"cus_1": lambda: Said({}, 503, said)}) as process:
        process.drain.want(customer("cus_1"))

        process.drain.turn()

    [left] = _column(database, "SELECT extract(epoch FROM due_at - clock_timestamp())::float8 FROM refetches")
    assert isinstance(left, float)
    assert 35 < left <= 41


def test_a_pause_obeys_retry_after(database: Database) -> None:
    """A provider that asks everybody to wait is left alone at least so long."""
    busy = Said({}, 503, {"Retry-After": "900"})
    with answering(database, {"cus_1": lambda: busy, _ACCOUNT: lambda: busy}) as process:
        process.drain.want(customer("cus_1"))

        process.drain.turn()

    [left] = _column(database, "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM pauses")
    assert isinstance(left, float)
    assert 890 < left <= 900


def test_a_rate_limit_is_nobodys_fault(bench: Bench) -> None:
    """A 429 postpones and counts no attempt, however many there are; nobody is asked who we are, nothing is paused."""
    process = bench.side(attempts=1)
    bench.act("create", id_="cus_1")
    process.drain.want(customer("cus_1"))
    process.work(lambda: not bench.pending())
    bench.act("change", id_="cus_1")
    process.drain.want(customer("cus_1"))
    bench.faults(status={"lock_timeout": 1})

    for _ in range(3):
        bench.hasten()
        bench.edit("UPDATE budgets SET held_until = NULL")
        process.drain.turn()
    refetch = bench.refetch("cus_1")
    bench.faults()
    process.work(lambda: not bench.pending())

    assert (refetch.attempts, refetch.dead_at) == (0, None)
    assert bench.pauses() == []
    assert bench.calls("GET /v1/account") == 1
    assert bench.versions() == bench.truth()


def test_a_spent_budget_is_nobodys_fault(bench: Bench) -> None:
    """A fetch of several calls that runs out of budget is postponed and counted against nobody."""
    process = bench.side(limits=[Limit("calls", 0.2, 3)], attempts=1, lease=timedelta(seconds=1))
    bench.act("create", "invoice", "in_1", parts=950)
    process.drain.want(customer("in_1", "invoice"))

    process.drain.turn()

    refetch = bench.refetch("in_1", "invoice")
    assert "no call left" in refetch.last_error
    assert (refetch.attempts, refetch.dead_at, refetch.leased_until) == (0, None, None)
    assert bench.pauses() == []


def test_a_provider_that_trickles(database: Database) -> None:
    """An answer that never ends is given up long before the lease does."""
    start = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{"
    with closing(Trickle(start)) as provider, side(database, provider.url, timeout=(0.3, 0.4)) as process:
        process.drain.want(customer("cus_1"))

        process.drain.turn()

    assert _column(database, "SELECT leased_until FROM refetches") == [None]
    assert _column(database, "SELECT last_error FROM refetches") == ["GET /v1/account: no complete answer within 0.4 s"]


# Pauses


def test_a_pause_ends_by_itself(bench: Bench) -> None:
    """A paused source is tried again when its pause is over, without anybody's help."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.faults(lost_access="403")
    bench.drain.turn()
    bench.faults()
    bench.edit("UPDATE pauses SET until = clock_timestamp() + interval '0.6 seconds'")
    bench.edit("UPDATE refetches SET due_at = clock_timestamp()")

    before = bench.drain.turn()
    with bench.main.running():
        until(lambda: bench.versions() == {"cus_1": 1})

    assert not before
    assert bench.pauses() == []


def test_a_person_may_look_during_a_pause(bench: Bench) -> None:
    """Looking by hand is not held up by a pause, and ends it if it is answered."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.faults(lost_access="401")
    bench.drain.turn()
    bench.faults()
    bench.edit("UPDATE refetches SET due_at = clock_timestamp()")

    idle = bench.drain.turn()
    looked = bench.drain.look_at(customer("cus_1"))

    assert not idle
    assert looked is not None
    assert looked.verdict == "applied"
    assert bench.pauses() == []


def test_a_read_of_before_ends_no_pause(bench: Bench) -> None:
    """A read that began before its source was paused says nothing about what came after."""
    bench.act("create", id_="cus_1")
    bench.act("create", id_="cus_2")
    other = bench.side()

    def fail_meanwhile(_: object) -> None:
        bench.main.stripe.after = lambda _: None
        bench.faults(lost_access="401")
        other.drain.want(customer("cus_2"))
        other.work(lambda: bench.pauses() != [])

    bench.main.stripe.after = fail_meanwhile
    bench.want("cus_1")
    bench.edit("UPDATE refetches SET attempts = 1")
    bench.drain.turn()

    assert bench.versions() == {"cus_1": 1}
    assert bench.pauses() == [("", "access_lost")]


def test_a_scope_that_is_lost(bench: Bench) -> None:
    """A connected account that cannot be read is paused alone: the source goes on, and nothing is deleted."""
    bench.act("create", id_="cus_1")
    process = bench.side()
    process.stripe.before = lambda ref: _lose(ref.scope)
    lost = type(customer("cus_2"))(SOURCE, "acct_lost", "customer", "cus_2")
    process.drain.want(lost)
    process.drain.want(customer("cus_1"))

    while process.drain.turn():
        pass

    assert bench.pauses() == [("acct_lost", "access_lost")]
    assert bench.versions() == {"cus_1": 1}
    assert bench.rows("SELECT attempts, dead_at FROM refetches WHERE id = 'cus_2'") == [(0, None)]


def _lose(scope: str) -> None:
    if scope:
        raise AccessLost(f"{scope} cannot be read")


# Accounts


def test_another_account_is_refused_before_any_read(bench: Bench, database: Database) -> None:
    """A credential of another account reads nothing: the pinned one stays, and the source is paused."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.quiet()
    with bench_on(database, account="acct_other") as elsewhere:
        elsewhere.act("create", id_="cus_1", body={"name": "Somebody else"})
        elsewhere.want("cus_1")

        elsewhere.drain.turn()

        assert elsewhere.fetches() == 0
        assert elsewhere.pauses() == [("", "access_lost")]
        assert "acct_other" in elsewhere.refetch("cus_1").last_error
    assert bench.body("cus_1")["name"] != "Somebody else"
    assert bench.rows("SELECT account FROM accounts") == [("acct_standin",)]


def test_a_refused_account_stays_refused(bench: Bench) -> None:
    """Having asked once does not let another account through the next time, nor a listing."""
    bench.database.commit(lambda connection: runs.pin(connection, SOURCE, provider="stripe", account="acct_first"))
    adapter = bench.main.adapter
    assert isinstance(adapter, Pinned)

    for _ in range(2):
        with pytest.raises(AccessLost, match="acct_first"):
            adapter.fetch(customer("cus_1"))
        with pytest.raises(AccessLost, match="acct_first"):
            next(adapter.crawl("customer", ""))
        with pytest.raises(AccessLost, match="acct_first"):
            next(adapter.changed_since("customer", "", datetime.now(UTC)))

    assert bench.fetches() == 0
    assert bench.calls("GET /v1/customers") == bench.calls("GET /v1/events") == 0


# The end of a process


@contextmanager
def another(bench: Bench, *, lease: float) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that drains for this mirror, once it works."""
    given = {
        "DRAINING_DATABASE": bench.database.url,
        "DRAINING_SCHEMA": bench.database.schema,
        "DRAINING_PROVIDER": bench.url,
        "DRAINING_LEASE": str(lease),
    }
    with subprocess.Popen(
        [sys.executable, str(_ROOT / "tests/paths/draining_until_killed.py")],
        env=os.environ | given,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
            yield process
        finally:
            process.kill()


def _leased(bench: Bench) -> int:
    return len(bench.rows("SELECT 1 FROM refetches WHERE leased_until > clock_timestamp()"))


def test_k15_killed_between_lease_and_write(bench: Bench) -> None:
    """What a killed process was reading is read by another within the lease; a poisoned one blocks nobody."""
    told = [event for number in range(6) for event in bench.act("create", id_=f"cus_{number}")]
    bench.tell(*told)
    bench.faults(timeout=1)
    with another(bench, lease=2) as process:
        until(lambda: bench.calls("GET /v1/account") >= 1 and _leased(bench) >= 1)
        process.send_signal(signal.SIGKILL)
        process.wait(5)
    left = _leased(bench)
    bench.faults()

    bench.main.work(lambda: set(bench.outcomes().values()) == {"done"}, within=5)

    assert left >= 1
    assert bench.versions() == bench.truth()


def test_k15_one_poisoned_object_and_five_good(database: Database) -> None:
    """An object that always fails leaves the others alone."""
    with answering(database, {"cus_0": lambda: failure(500)}) as process:
        for number in range(6):
            process.drain.want(customer(f"cus_{number}"))

        with process.running():
            until(lambda: len(_column(database, "SELECT id FROM objects")) == 5)

    assert _column(database, "SELECT id FROM refetches WHERE wanted > done") == ["cus_0"]


def test_k15_asked_to_end(bench: Bench) -> None:
    """A process that is asked to end while its provider does not answer gives its leases back at once."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.faults(timeout=1)
    with another(bench, lease=300) as process:
        until(lambda: _leased(bench) == 1)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        said = process.stdout.readline()
        process.wait(60)
    bench.faults()

    assert said == "released\n"
    assert _leased(bench) == 0
    bench.main.work(lambda: bench.versions() == {"cus_1": 1}, within=5)


def test_threads_end_when_asked(bench: Bench) -> None:
    """Idle workers, the listener and the housekeeper end at once, and leave no thread behind."""
    stop = threading.Event()
    before = set(threading.enumerate())
    bench.drain.start(stop)
    until(lambda: len(set(threading.enumerate()) - before) == 6)

    stop.set()

    assert bench.drain.join(3)
    assert bench.drain.failure is None
    assert set(threading.enumerate()) <= before


def test_a_thread_that_fails_is_told(bench: Bench) -> None:
    """A loop that ends for a reason nobody foresaw says so, for the daemon to end with it."""
    bench.want("cus_1")
    bench.edit("ALTER TABLE refetches RENAME COLUMN due_at TO elsewhere")
    stop = threading.Event()

    bench.drain.start(stop)
    until(lambda: bench.drain.failure is not None)
    stop.set()
    bench.drain.join(5)

    assert bench.logged("drain.failed")


def test_every_pause_that_stands(bench: Bench) -> None:
    """What is paused can be asked for, with the reason."""
    bench.want("cus_1")
    bench.faults(lost_access="401")

    bench.drain.turn()

    with bench.database.transaction() as connection:
        [pause] = pauses.standing(connection)
    assert (pause.source, pause.scope, pause.what) == (SOURCE, "", "access_lost")
    assert "401" in pause.because
    assert pause.until > pause.since
