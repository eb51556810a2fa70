"""The dirty set worked off: one fetch at a time, few of them, in the right order, and none forgotten."""

from __future__ import annotations

import io
import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
import structlog
from sqlalchemy.exc import DBAPIError

from reconciler import log
from reconciler.adapter import Limit
from reconciler.errors import DatabaseUnavailable
from reconciler.model import Reason, Verdict
from reconciler.store import refetches
from reconciler.store.refetches import Want
from tests.paths.draining import KEY, READ_LAG, SECRET, SOURCE, customer, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.model import ObjectRef
    from tests.paths.draining import Bench

# Bursts


def test_a_burst_on_one_object(bench: Bench) -> None:
    """Fifty wants of one object cost two fetches at most, whenever they come."""
    bench.act("create", id_="cus_1")
    bench.faults(slow=[0.05, 0.05])

    with bench.main.running(), ThreadPoolExecutor(10) as wanting:
        list(wanting.map(lambda _: bench.want("cus_1"), range(50)))
        until(lambda: not bench.pending())

    assert bench.fetches() <= 2
    assert bench.versions() == bench.truth()


def test_a_burst_of_notifications(bench: Bench) -> None:
    """Fifty changes told at once cost one fetch for all, and one that confirms it; every event is done."""
    told = bench.act("create", id_="cus_1")
    told += [event for _ in range(49) for event in bench.act("change", id_="cus_1")]
    bench.tell(*random.Random(1).sample(told, len(told)))

    bench.quiet()

    assert bench.fetches() <= 2
    assert bench.versions() == bench.truth()
    assert bench.outcomes() == dict.fromkeys(told, "done")


def test_calls_follow_changes(bench: Bench) -> None:
    """A change told by one event costs one call; one that nobody told of costs none, however much there is."""
    for number in range(50):
        bench.act("create", id_=f"cus_{number}")
    bench.want("cus_0")
    bench.quiet()
    contact = bench.calls("GET /v1/account")
    before = bench.calls()

    for number in range(5):
        bench.tell(*bench.act("change", id_=f"cus_{number}"))
    bench.quiet()

    assert bench.calls() - before == 5
    assert bench.calls("GET /v1/account") == contact == 1


def test_one_fetch_at_a_time_for_each_object(bench: Bench) -> None:
    """Eight workers in each of two processes never fetch one object together."""
    other = bench.side(workers=8)
    main = bench.side(workers=8)
    ids = [f"cus_{number}" for number in range(3)]
    for id_ in ids:
        bench.act("create", id_=id_)
    together = _Together()
    main.stripe.before, main.stripe.after = together.begin, lambda snapshot: together.end(snapshot.ref)
    other.stripe.before, other.stripe.after = together.begin, lambda snapshot: together.end(snapshot.ref)
    bench.faults(slow=[0.0, 0.01])

    with main.running(), other.running():
        for number in range(80):
            main.drain.want(customer(ids[number % 3]))
            time.sleep(0.004)
        until(lambda: not bench.pending())

    assert together.most == 1
    assert together.fetches > 10


class _Together:
    """The most fetches of one object that went on at once, whoever made them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going: set[ObjectRef] = set()
        self.most = self.fetches = 0

    def begin(self, ref: ObjectRef) -> None:
        with self._lock:
            self.fetches += 1
            self.most = max(self.most, 1 + (ref in self._going))
            self._going.add(ref)

    def end(self, ref: ObjectRef) -> None:
        with self._lock:
            self._going.discard(ref)


def test_no_wake_up_is_lost(bench: Bench) -> None:
    """However wants race with reads, each change made before its want is in the row when all numbers are done."""
    ids = [f"cus_{number}" for number in range(4)]
    for id_ in ids:
        bench.act("create", id_=id_)
    bench.faults(slow=[0.0, 0.004])
    numbers: dict[ObjectRef, int] = {}

    def change(seed: int) -> None:
        drawn = random.Random(seed)
        for _ in range(25):
            id_ = drawn.choice(ids)
            bench.act("change", id_=id_)
            number = bench.drain.want(customer(id_))
            numbers[customer(id_)] = max(number, numbers.get(customer(id_), 0))

    with bench.side(workers=8).running(), ThreadPoolExecutor(4) as changing:
        list(changing.map(change, range(4)))
        until(lambda: not bench.pending())

    assert bench.versions() == bench.truth()
    assert all(bench.refetch(ref.id).done >= number for ref, number in numbers.items())


def test_a_want_during_a_fetch_is_read_again(bench: Bench) -> None:
    """What is wanted while its object is being read is not covered by that read."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")

    def change_once(ref: ObjectRef) -> None:
        bench.main.stripe.after = lambda _: None
        bench.act("change", id_=ref.id)
        bench.want(ref.id)

    bench.main.stripe.after = lambda snapshot: change_once(snapshot.ref)
    assert bench.drain.turn()
    assert bench.versions() == {"cus_1": 1}

    bench.quiet()

    assert bench.versions() == bench.truth() == {"cus_1": 2}
    assert bench.fetches() == 2


def test_live_work_goes_before_a_sweeps(bench: Bench) -> None:
    """What somebody waits for is read before what a sweep has wanted, unless it is the sweeps' turn."""
    for id_ in ("cus_1", "cus_2", "cus_3", "cus_4"):
        bench.act("create", id_=id_)
    for id_, reason in {"cus_1": Reason.SWEEP, "cus_2": Reason.SWEEP, "cus_3": Reason.TRIGGER}.items():
        bench.drain.want(customer(id_), reason=reason)

    bench.drain.turn()
    live_first = set(bench.versions())
    bench.drain.want(customer("cus_4"))
    bench.drain.turn(sweep_first=True)

    assert live_first == {"cus_3"}
    assert set(bench.versions()) == {"cus_3", "cus_1"}


def test_a_single_worker_leaves_sweeps_their_turn(bench: Bench) -> None:
    """Live work without an end does not keep the only worker from what a sweep has wanted."""
    lone = bench.side(workers=1)
    bench.act("create", id_="cus_live")
    bench.act("create", id_="cus_swept")
    lone.drain.want(customer("cus_swept"), reason=Reason.SWEEP)
    lone.stripe.before = lambda _: lone.drain.want(customer("cus_live"))
    lone.drain.want(customer("cus_live"))

    with lone.running():
        until(lambda: "cus_swept" in bench.versions())
        lone.stripe.before = lambda _: None


def test_a_kind_without_budget_holds_up_no_other(bench: Bench) -> None:
    """Where one operation has no call left, the next kind is read; and the first as soon as it may be."""
    side = bench.side(limits=[Limit("operation", 4, 2, "*")])
    for number in range(4):
        bench.act("create", id_=f"cus_{number}")
        bench.want(f"cus_{number}")
    bench.act("create", "charge", "ch_1")
    bench.want("ch_1", kind="charge")

    while side.drain.turn():
        pass
    soon = set(bench.versions("charge"))
    with side.running():
        until(lambda: not bench.pending(), within=5)

    assert soon == {"ch_1"}
    assert bench.versions() == bench.truth()


def test_looking_for_nothing_costs_nothing(bench: Bench) -> None:
    """A call that was paid for a refetch which somebody else has, or nobody wants, is given back."""
    side = bench.side(limits=[Limit("calls", 0.01, 4)])
    bench.act("create", id_="cus_1")

    looks = [side.drain.look_at(customer("cus_1")) for _ in range(10)]
    side.drain.want(customer("cus_1"))

    assert looks == [None] * 10
    assert side.drain.turn()
    assert bench.versions() == {"cus_1": 1}


def test_a_spent_budget_is_waited_for(bench: Bench) -> None:
    """Workers that cannot pay come back when they can, not when they would look for work anyway."""
    side = bench.side(limits=[Limit("calls", 20, 2)], poll=timedelta(seconds=30))
    for number in range(10):
        bench.act("create", id_=f"cus_{number}")
        bench.want(f"cus_{number}")
    began = time.monotonic()

    with side.running():
        until(lambda: not bench.pending())

    assert 0.3 < time.monotonic() - began < 5


@pytest.mark.parametrize("seed", [1, 2])
def test_all_that_is_told_is_shown(bench: Bench, seed: int) -> None:
    """However a provider fails, lags and repeats itself: once it is quiet, two processes show all it told of."""
    draw = random.Random(seed)
    objects = [("customer", "cus_1"), ("customer", "cus_2"), ("product", "prod_1"), ("invoice", "in_1")]
    told = [event for kind, id_ in objects for event in bench.act("create", kind, id_)]
    other, lag = bench.side(), READ_LAG.total_seconds() / 2
    bench.faults(status={"500": 0.1, "lock_timeout": 0.05}, stale_reads=0.3, stale_for=lag, slow=[0, 0.02])

    with bench.main.running(), other.running():
        for _ in range(60):
            kind, id_ = draw.choice(objects)
            op = "recreate" if bench.truth(kind)[id_] is None else draw.choice(["change"] * 5 + ["delete"])
            told += bench.act(op, kind, id_, body={"status": "draft"} if op == "recreate" and kind == "invoice" else {})
            if draw.random() < 0.6:
                bench.tell(*draw.sample(told, len(told)))
                told = told[-2:]  # these come again
            bench.hands.now += draw.choice([0, 0, 1])
        bench.tell(*told)
        bench.faults()
        until(lambda: _is_settled(bench), within=30)

    assert {kind: bench.versions(kind) for kind, _ in objects} == {kind: bench.truth(kind) for kind, _ in objects}
    assert set(bench.outcomes().values()) <= {"done", "ahead"}


def _is_settled(bench: Bench) -> bool:
    bench.hasten()
    return not bench.pending() and bench.main.drain.failure is None


# Order


def test_k18_ids_do_not_order(bench: Bench) -> None:
    """An event's id says nothing about when: the live object does."""
    [first] = bench.act("create", id_="cus_1", body={"name": "of 100"})
    [second] = bench.act("change", id_="cus_1", body={"name": "of 200"})
    bodies = [bench.event(second) | {"id": "evt_1"}, bench.event(first) | {"id": "evt_9", "created": 100}]

    for body in bodies:
        bench.deliver(body)
        bench.quiet()

    assert bench.body("cus_1")["name"] == "of 200"
    assert bench.outcomes() == {"evt_1": "done", "evt_9": "done"}


@pytest.mark.parametrize("swapped", [False, True], ids=["in order", "swapped"])
def test_k19_two_events_of_one_second(bench: Bench, *, swapped: bool) -> None:
    """Of two states of one second the live one stands, in whichever order they are told."""
    [opened] = bench.act("create", "invoice", "in_1", body={"status": "draft"})
    paid = bench.act("change", "invoice", "in_1", body={"status": "open"})
    told = [opened, *paid]

    for event in reversed(told) if swapped else told:
        bench.tell(event)
        bench.drain.turn()
    bench.quiet()

    assert bench.body("in_1", "invoice")["status"] == "open"
    assert set(bench.outcomes().values()) == {"done"}


def test_k20_an_older_event_comes_later(bench: Bench) -> None:
    """A stamped object's late notification is on record as declined, done, and costs no call."""
    [created] = bench.act("create", "product", "prod_1", at=int(bench.hands.now) - 20)
    [updated] = bench.act("change", "product", "prod_1")
    bench.tell(updated)
    bench.quiet()
    before = bench.calls()

    bench.tell(created)
    bench.quiet()

    assert bench.versions("product") == {"prod_1": 2}
    assert bench.outcomes() == {created: "done", updated: "done"}
    assert bench.rows("SELECT verdict, via, event_id FROM declined_writes") == [("declined", "payload", created)]
    assert bench.calls() == before


def test_k20_an_update_of_what_is_not_here(bench: Bench) -> None:
    """An update of an object we never saw writes its row."""
    bench.act("create", id_="cus_1")
    [updated] = bench.act("change", id_="cus_1")

    bench.tell(updated)
    bench.quiet()

    assert bench.versions() == {"cus_1": 2}
    assert bench.history("cus_1") == ["created"]


def test_k22_an_object_without_a_stamp(bench: Bench) -> None:
    """Of a kind that shows only when it was created, positions order reads: the late older event changes nothing."""
    now = int(bench.hands.now)
    bench.act("create", id_="cus_1", at=now - 300)
    [first] = bench.act("change", id_="cus_1", body={"name": "A"}, at=now - 200)
    [second] = bench.act("change", id_="cus_1", body={"name": "B"}, at=now - 100)

    for event in (second, first):
        bench.tell(event)
        bench.quiet()

    assert bench.body("cus_1")["name"] == "B"
    assert bench.body("cus_1")["created"] == now - 300
    assert bench.history("cus_1") == ["created"]


@pytest.mark.parametrize(("kind", "id_"), [("product", "prod_1"), ("customer", "cus_1")])
def test_k24_what_a_person_asked_for_stays(bench: Bench, kind: str, id_: str) -> None:
    """An event of before a refetch by hand changes nothing: a stamped one is declined, an unstamped one read again."""
    now = int(bench.hands.now)
    bench.act("create", kind, id_, at=now - 100)
    [late] = bench.act("change", kind, id_, at=now - 60)
    bench.act("change", kind, id_, at=now, announce=False)
    bench.want(id_, kind=kind)
    looked = bench.drain.look_at(customer(id_, kind))

    bench.tell(late)
    bench.quiet()

    assert looked is not None
    assert (looked.verdict, looked.calls) == (Verdict.APPLIED, 2)
    assert bench.versions(kind) == {id_: 3}
    assert bench.history(id_) == ["created"]
    assert bench.outcomes() == {late: "done"}
    assert bench.fetches(kind) == (1 if kind == "product" else 2)


# Waking


def test_a_want_wakes_an_idle_worker(bench: Bench) -> None:
    """A notification that another process stored is worked on within milliseconds, not when somebody polls."""
    side = bench.side(poll=timedelta(seconds=60))
    bench.act("create", id_="cus_0")
    bench.act("create", id_="cus_1")

    with side.running():
        side.drain.want(customer("cus_0"))
        until(lambda: bench.versions() == {"cus_0": 1})
        until(lambda: bool(bench.rows("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN %%'")))
        began = time.monotonic()
        bench.database.commit(lambda c: refetches.want(c, [Want(customer("cus_1"), Reason.WEBHOOK)]))
        until(lambda: len(bench.versions()) == 2)
        took = time.monotonic() - began

    assert took < 1.5


def test_polling_finds_what_nobody_announced(bench: Bench) -> None:
    """With LISTEN out of order work is found all the same, and one line says so."""
    side = bench.side(listen_url="postgresql://nobody@127.0.0.1:9/nowhere", poll=timedelta(seconds=0.2))
    bench.act("create", id_="cus_1")

    with side.running():
        until(lambda: bool(bench.logged("drain.deaf")))
        bench.database.commit(lambda c: refetches.want(c, [Want(customer("cus_1"), Reason.WEBHOOK)]))
        until(lambda: bench.versions() == {"cus_1": 1})

    assert len(bench.logged("drain.deaf")) == 1


# Trouble at home


def test_the_database_goes_away(bench: Bench) -> None:
    """Workers whose connections are cut go on when the database answers: nothing is lost, nobody waits for a lease."""
    for number in range(30):
        bench.act("create", id_=f"cus_{number}")
    bench.faults(slow=[0.01, 0.02])

    with bench.main.running():
        bench.want(*(f"cus_{number}" for number in range(30)))
        for _ in range(4):
            _cut(bench)
            time.sleep(0.05)
        until(lambda: _is_shown(bench, bench.truth()), within=15)

    assert bench.logged("drain.database_away")
    assert not [line for line in bench.lines if line.get("exc_info")]


def _cut(bench: Bench) -> None:
    """Cut every connection to the database but the one that does it."""
    with psycopg.connect(bench.database.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_read_that_the_database_lost_is_made_again(bench: Bench) -> None:
    """What was read while the database went away is leased again at once, not when its lease ends."""
    bench.act("create", id_="cus_1")
    bench.want("cus_1")
    bench.main.stripe.after = lambda _: _cut_once(bench)
    with pytest.raises(DatabaseUnavailable):
        bench.drain.turn()

    with bench.main.running():
        until(lambda: _is_shown(bench, {"cus_1": 1}), within=5)

    assert bench.fetches() == 2


def _is_shown(bench: Bench, versions: dict[str, int | None]) -> bool:
    """Say whether the rows show these versions, if the database can be asked."""
    try:
        return bench.versions() == versions and not bench.pending()
    except DatabaseUnavailable:
        return False


def _cut_once(bench: Bench) -> None:
    bench.main.stripe.after = lambda _: None
    _cut(bench)


class Door:
    """Stops whoever comes by until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, _: object) -> None:
        """Wait."""
        self.reached.set()
        self.opened.wait(10)


def test_a_worker_outlives_its_lease(bench: Bench) -> None:
    """A read that comes back after its lease settles nothing; another worker's has, and the row is right."""
    quick, slow = bench.side(), bench.side()
    [created] = bench.act("create", id_="cus_1")
    bench.tell(created)
    slow.stripe.after = door = Door()

    with ThreadPoolExecutor(1) as aside:
        late = aside.submit(slow.drain.turn)
        assert door.reached.wait(5)
        bench.expire()
        bench.act("change", id_="cus_1", announce=False)
        quick.work(lambda: bench.versions() == {"cus_1": 2})
        settled = bench.refetch("cus_1")
        door.opened.set()
        late.result(5)
        after = bench.refetch("cus_1")
    bench.quiet()

    assert after.done == settled.done < after.wanted
    assert bench.versions() == {"cus_1": 2}
    assert bench.outcomes() == {created: "done"}


def test_a_late_absence_is_not_noted(bench: Bench) -> None:
    """A 404 whose lease has ended counts for nothing: the object may have been read alive since."""
    quick, slow = bench.side(), bench.side()
    bench.want("prod_1", kind="product")
    slow.stripe.after = door = Door()

    with ThreadPoolExecutor(1) as aside:
        late = aside.submit(slow.drain.turn)
        assert door.reached.wait(5)
        bench.expire()
        bench.act("create", "product", "prod_1")
        quick.work(lambda: bench.versions("product") == {"prod_1": 1})
        door.opened.set()
        late.result(5)

    assert bench.refetch("prod_1", "product").seen is None


def test_a_slow_fetch_ends_before_its_lease(bench: Bench) -> None:
    """A read of many calls begins none for which its lease has no room, and counts as a failed attempt."""
    side = bench.side(lease=timedelta(seconds=4))
    bench.act("create", "invoice", "in_1", parts=950)
    bench.want("in_1", kind="invoice")
    bench.faults(slow=[0.6, 0.6])
    began = time.monotonic()

    side.drain.turn()

    assert time.monotonic() - began < 4
    refetch = bench.refetch("in_1", "invoice")
    assert (refetch.attempts, refetch.leased_until) == (1, None)
    assert "takes too long" in refetch.last_error


def test_a_thing_that_cannot_be_stored(bench: Bench) -> None:
    """An object that the database refuses is a dead letter at once, the others are read, and its body is not told."""
    bench.edit("ALTER TABLE objects ADD CONSTRAINT no_guests CHECK (body ->> 'name' <> 'Guest of honour')")
    [good] = bench.act("create", id_="cus_good")
    [bad] = bench.act("create", id_="cus_bad", body={"name": "Guest of honour"})
    bench.tell(bad, good)

    bench.quiet()

    assert bench.versions() == {"cus_good": 1}
    assert bench.outcomes() == {good: "done", bad: "dead"}
    because = bench.refetch("cus_bad").last_error
    assert "cannot be stored" in because
    assert "no_guests" in because
    assert "Guest of honour" not in f"{because} {bench.lines}"


def test_an_adapter_with_a_fault(bench: Bench) -> None:
    """What no adapter should raise costs its object attempts, and nobody else anything."""
    bench.act("create", id_="cus_1")
    bench.act("create", id_="cus_2")

    def fail(ref: ObjectRef) -> None:
        if ref.id == "cus_1":
            raise KeyError(ref.id)

    bench.main.stripe.before = fail
    bench.want("cus_1", "cus_2")
    with bench.main.running():
        until(lambda: bench.versions() == {"cus_2": 1} and bench.refetch("cus_1").attempts >= 1)

    assert bench.refetch("cus_1").last_error == "unexpected: KeyError"
    assert bench.logged("refetch.failed")


# Clocks


def test_a_clock_that_stood_ahead(bench: Bench) -> None:
    """Times that were written while a clock stood a year ahead hold nothing up once it is right again."""
    for id_ in ("cus_due", "cus_leased"):
        bench.act("create", id_=id_)
        bench.want(id_)
    bench.edit("UPDATE refetches SET due_at = clock_timestamp() + interval '1 year' WHERE id = 'cus_due'")
    bench.edit(
        "UPDATE refetches SET leased_until = clock_timestamp() + interval '1 year', lease_token = gen_random_uuid(),"
        " leased_wanted = wanted WHERE id = 'cus_leased'"
    )
    bench.edit(
        "INSERT INTO pauses (source, scope, what, because, since, until) VALUES (%s, '', 'unavailable', 'of old',"
        " clock_timestamp(), clock_timestamp() + interval '1 year')",
        SOURCE,
    )

    with bench.main.running():
        until(lambda: bench.versions() == bench.truth())

    assert bench.logged("refetch.unfrozen")
    assert bench.logged("source.unfrozen")


def test_a_clock_that_went_back(bench: Bench) -> None:
    """A first 404 and a reread of the future are begun anew and brought back: neither counts, neither blocks."""
    bench.act("create", "product", "prod_1")
    bench.want("prod_1", kind="product")
    bench.quiet()
    ahead = "to_jsonb(clock_timestamp() + interval '1 year')"
    bench.edit(
        "UPDATE refetches SET again_at = clock_timestamp() + interval '1 year', seen = jsonb_build_object("
        f" 'again', jsonb_build_array({ahead}), 'absent', jsonb_build_object('until', 1, 'ended_at', {ahead}))"
    )
    bench.act("delete", "product", "prod_1", announce=False)
    bench.sandbox.machinery.world.shelf("", "product").by_id.clear()

    with bench.main.running():
        until(lambda: bench.fetches("product") >= 2)
        first = bench.versions("product")
        until(lambda: bench.versions("product") == {"prod_1": None})

    assert first == {"prod_1": 1}
    assert bench.refetch("prod_1", "product").again_at is None


# What is told


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Yield what would be written to the log of a daemon, debug lines and all, that was told of no secret."""
    stream = io.StringIO()
    before = list(logging.getLogger().handlers)
    log.configure("debug", stream)
    yield stream
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = before


def test_no_secret_and_no_body_is_told(bench: Bench, logged: io.StringIO) -> None:
    """Whatever goes well or wrong, neither the log nor the queue ever shows a key or what an object holds."""
    log_began = logged.getvalue()
    told = [bench.act("create", id_=f"cus_{number}", body={"name": "Grete Unmistakable"}) for number in range(3)]
    bench.tell(*(event for each in told for event in each))
    bench.quiet()
    bench.main.stripe.before = lambda ref: None if ref.id == "cus_0" else int(ref.id)
    bench.want("cus_1")
    bench.drain.turn()
    for faults in ({"lost_access": "401"}, {"status": {"500": 1}}, {"status": {"429": 1}}):
        bench.faults(**faults)
        bench.want("cus_0")
        bench.hasten()
        bench.drain.turn()

    said = logged.getvalue() + str(bench.rows("SELECT last_error FROM refetches"))
    assert log_began == ""
    assert "ValueError" in said
    assert "source.paused" in said
    for hidden in (KEY, SECRET, "Grete Unmistakable"):
        assert hidden not in said


def test_errors_do_not_quote_what_was_written(bench: Bench) -> None:
    """An exception that ends in a traceback shows the statement, and none of its values."""
    with pytest.raises(DBAPIError, match="no_such_function") as raised, bench.database.transaction() as connection:
        connection.exec_driver_sql("SELECT no_such_function(%s::text)", ("Grete Unmistakable",))

    assert "Grete" not in str(raised.value)
