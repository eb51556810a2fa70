"""Reads that may be too early: a provider tells of a change before every read shows it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.drain.early import BEHIND, EarlyReads
from tests.paths.draining import READ_LAG

if TYPE_CHECKING:
    from reconciler.model import Body
    from tests.paths.draining import Bench

_STEPS = tuple(timedelta(seconds=seconds) for seconds in (0.15, 0.2, 0.25))

# Stamped kinds


def test_the_ladder_of_a_late_read() -> None:
    """A state older than its notification is looked for again five times, within a minute."""
    assert sorted(BEHIND) == list(BEHIND)
    assert len(BEHIND) == 5
    assert sum(BEHIND, timedelta(0)) < timedelta(minutes=1)


@pytest.fixture
def hasty(bench: Bench) -> Bench:
    """Return a bench whose ladder of late reads has three short steps."""
    bench.drain._looking._early = EarlyReads({"stripe-eu": bench.main.adapter}, bench.main.mirror, behind=_STEPS)
    return bench


def _promised(bench: Bench, id_: str, *, ahead: int) -> Body:
    """Return an event that shows its product as it will be so many seconds from now."""
    [changed] = bench.act("change", "product", id_)
    body = bench.event(changed)
    shown = body["data"]["object"]
    return {**body, "id": f"evt_ahead_{ahead}", "data": {"object": {**shown, "updated": shown["updated"] + ahead}}}


def test_a_read_behind_its_notification(hasty: Bench) -> None:
    """A stamped object older than its event is applied, and read again until it shows what was promised."""
    hasty.act("create", "product", "prod_1", at=int(hasty.hands.now) - 60)
    hasty.deliver(_promised(hasty, "prod_1", ahead=5))

    hasty.drain.turn()
    early = (hasty.versions("product"), hasty.outcomes())
    hasty.hands.now += 10
    hasty.act("change", "product", "prod_1", announce=False)
    hasty.quiet()

    assert early == ({"prod_1": 2}, {"evt_ahead_5": None})
    assert hasty.versions("product") == {"prod_1": 3}
    assert hasty.outcomes() == {"evt_ahead_5": "done"}
    assert hasty.fetches("product") == 2
    assert hasty.refetch("prod_1", "product").seen is None


def test_a_promise_that_is_never_kept(hasty: Bench) -> None:
    """After the last step the event is *ahead*, which is no failure: the row shows what there is."""
    hasty.act("create", "product", "prod_1")
    hasty.deliver(_promised(hasty, "prod_1", ahead=5))
    began = time.monotonic()

    hasty.quiet()

    assert time.monotonic() - began >= sum(_STEPS, timedelta(0)).total_seconds()
    assert hasty.outcomes() == {"evt_ahead_5": "ahead"}
    assert hasty.versions("product") == {"prod_1": 2}
    assert hasty.fetches("product") == 1 + len(_STEPS)
    assert hasty.refetch("prod_1", "product").dead_at is None
    assert hasty.refetch("prod_1", "product").seen is None


def test_wants_do_not_hurry_the_ladder(hasty: Bench) -> None:
    """However often somebody looks meanwhile, a step is only climbed when its time has come."""
    hasty.act("create", "product", "prod_1")
    hasty.deliver(_promised(hasty, "prod_1", ahead=5))
    hasty.drain.turn()

    looks = 0
    while hasty.outcomes() == {"evt_ahead_5": None} and looks < 500:
        hasty.want("prod_1", kind="product")
        hasty.drain.turn()
        looks += 1
    hasty.quiet()

    assert hasty.outcomes() == {"evt_ahead_5": "ahead"}
    assert looks > len(_STEPS)
    began, ended = hasty.rows("SELECT received_at, processed_at FROM webhook_events")[0]
    assert ended - began >= sum(_STEPS, timedelta(0))


def test_two_changes_of_one_stamp(bench: Bench) -> None:
    """A second change within the second of a stamp is not taken for told by a read that still shows the first."""
    bench.tell(*bench.act("create", "product", "prod_1"))
    bench.quiet()
    bench.stale()
    [changed] = bench.act("change", "product", "prod_1")
    bench.tell(changed)

    bench.drain.turn()
    early = (bench.versions("product"), bench.outcomes()[changed])
    bench.faults()
    bench.quiet()

    assert early == ({"prod_1": 1}, None)
    assert bench.versions("product") == {"prod_1": 2}
    assert bench.outcomes()[changed] == "done"
    assert bench.fetches("product") == 3


def test_one_change_of_a_stamp_needs_one_read(bench: Bench) -> None:
    """A stamp that only one change has needs no confirmation, whatever the payload shows."""
    bench.tell(*bench.act("create", "product", "prod_1", at=int(bench.hands.now) - 5))
    bench.quiet()
    [changed] = bench.act("change", "product", "prod_1")

    bench.deliver(bench.event(changed) | {"api_version": "2020-08-27"})
    bench.quiet()

    assert bench.fetches("product") == 2


def test_only_what_is_behind_waits(hasty: Bench) -> None:
    """Of two events that one read answers, the one it shows is done at once."""
    [created] = hasty.act("create", "product", "prod_1")
    hasty.tell(created)
    hasty.deliver(_promised(hasty, "prod_1", ahead=5))

    hasty.drain.turn()

    assert hasty.outcomes() == {created: "done", "evt_ahead_5": None}


def test_what_is_shown_between_two_steps(hasty: Bench) -> None:
    """An event that comes while another's ladder waits, and whose state the read shows, is done at once."""
    hasty.act("create", "product", "prod_1", at=int(hasty.hands.now) - 60)
    hasty.deliver(_promised(hasty, "prod_1", ahead=50))
    hasty.drain.turn()
    hasty.hands.now += 10
    [changed] = hasty.act("change", "product", "prod_1")

    hasty.tell(changed)
    hasty.drain.turn()
    between = hasty.outcomes()
    hasty.quiet()

    assert between == {"evt_ahead_50": None, changed: "done"}
    assert hasty.outcomes() == {"evt_ahead_50": "ahead", changed: "done"}


def test_the_ladder_survives_a_crash(hasty: Bench) -> None:
    """How far a ladder was climbed is kept with the refetch, not with the process."""
    hasty.act("create", "product", "prod_1")
    hasty.deliver(_promised(hasty, "prod_1", ahead=5))
    hasty.main.work(lambda: hasty.fetches("product") == 3)

    other = hasty.side()
    other.drain._looking._early = EarlyReads({"stripe-eu": other.adapter}, other.mirror, behind=_STEPS)
    other.work(lambda: hasty.outcomes() == {"evt_ahead_5": "ahead"})

    assert hasty.fetches("product") == 1 + len(_STEPS)


def test_a_ladder_outlasts_the_last_attempt(bench: Bench) -> None:
    """An object on a ladder is never given up, however often its reads fail in between."""
    side = bench.side(attempts=1)
    bench.act("create", "product", "prod_1")
    bench.deliver(_promised(bench, "prod_1", ahead=5))
    side.drain.turn()
    bench.faults(status={"500": 1})
    side.adapter.identity = lambda _="": "acct_standin"  # type: ignore[method-assign, assignment]

    bench.want("prod_1", kind="product")
    side.drain.turn()

    refetch = bench.refetch("prod_1", "product")
    assert (refetch.dead_at, refetch.attempts) == (None, 1)


# Unstamped kinds


def test_a_read_that_a_payload_shows(bench: Bench) -> None:
    """A read that shows what its newest event shows needs no other."""
    [created] = bench.act("create", id_="cus_1")

    bench.tell(created)
    bench.quiet()

    assert bench.fetches() == 1
    assert bench.outcomes() == {created: "done"}


def test_a_read_that_no_payload_shows(bench: Bench) -> None:
    """A read so soon after its event that it may be stale is confirmed once, `read_lag` after the event."""
    [created] = bench.act("create", id_="cus_1")
    bench.deliver(bench.event(created) | {"api_version": "2020-08-27"})
    began = time.monotonic()

    bench.drain.turn()
    early = (bench.versions(), bench.outcomes())
    bench.quiet()

    assert early == ({"cus_1": 1}, {created: None})
    assert time.monotonic() - began >= READ_LAG.total_seconds()
    assert bench.outcomes() == {created: "done"}
    assert bench.fetches() == 2


def test_a_read_long_after_its_event(bench: Bench) -> None:
    """A read whose `Date` is `read_lag` or more after its event is good enough."""
    [created] = bench.act("create", id_="cus_1")
    bench.hands.now += 1

    bench.deliver(bench.event(created) | {"api_version": "2020-08-27"})
    bench.quiet()

    assert bench.fetches() == 1
    assert bench.outcomes() == {created: "done"}


@pytest.mark.parametrize(("passed", "fetches"), [(0, 2), (1, 1)], ids=["soon", "long after"])
def test_a_deletion_that_was_told(bench: Bench, passed: int, fetches: int) -> None:
    """An absence soon after its event is confirmed, as no payload can show it; one long after is not."""
    bench.act("create", id_="cus_1", at=int(bench.hands.now) - 60)
    [deleted] = bench.act("delete", id_="cus_1")
    bench.hands.now += passed

    bench.tell(deleted)
    bench.quiet()

    assert bench.fetches() == fetches
    assert bench.outcomes() == {deleted: "done"}


def test_an_event_of_the_future(bench: Bench) -> None:
    """An event dated an hour ahead is confirmed once, soon, and holds nothing up for an hour."""
    [created] = bench.act("create", id_="cus_1", at=int(bench.hands.now) + 3600)
    bench.deliver(bench.event(created) | {"api_version": "2020-08-27"})

    bench.quiet(within=5)

    assert bench.fetches() == 2
    assert bench.outcomes() == {created: "done"}


def test_an_event_at_the_end_of_time(bench: Bench) -> None:
    """An event of the last moment that a date can name costs nothing but a reread."""
    [created] = bench.act("create", id_="cus_1")
    bench.deliver(bench.event(created) | {"api_version": "2020-08-27"})
    with bench.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE webhook_events SET occurred_at = '9999-12-31 23:59:59.999999Z'")

    bench.quiet(within=5)

    assert bench.versions() == {"cus_1": 1}
    assert bench.outcomes() == {created: "done"}


def test_wants_do_not_confirm(bench: Bench) -> None:
    """A read that somebody wants before its time does not stand for the one that confirms."""
    [created] = bench.act("create", id_="cus_1")
    bench.deliver(bench.event(created) | {"api_version": "2020-08-27"})
    bench.drain.turn()

    bench.want("cus_1")
    bench.drain.turn()
    early = bench.outcomes()
    bench.quiet()

    assert early == {created: None}
    assert bench.outcomes() == {created: "done"}
    assert bench.fetches() == 3


def test_two_states_of_one_second_prove_neither(bench: Bench) -> None:
    """A read that shows one of two states told in one second may be the older: it is confirmed."""
    [created] = bench.act("create", id_="cus_1")
    bench.stale()
    [changed] = bench.act("change", id_="cus_1")
    bench.tell(created, changed)

    bench.drain.turn()
    early = bench.versions()
    bench.faults()
    bench.quiet()

    assert early == {"cus_1": 1}
    assert bench.versions() == {"cus_1": 2}


@pytest.mark.parametrize(("kind", "id_"), [("customer", "cus_1"), ("product", "prod_1")])
def test_replicas_that_lag(bench: Bench, kind: str, id_: str) -> None:
    """While every read shows the world of a moment ago, each change told is shown in the end, without a sweep."""
    bench.drain._looking._early = EarlyReads({"stripe-eu": bench.main.adapter}, bench.main.mirror, behind=_STEPS)
    bench.faults(stale_reads=1, stale_for=READ_LAG.total_seconds() * 0.8)
    told = bench.act("create", kind, id_)

    bench.tell(*told)
    for number in range(3):
        bench.drain.turn()
        bench.hands.now += 1
        bench.tell(*bench.act("change", kind, id_, at=int(bench.hands.now) + number))
    bench.quiet()

    assert bench.versions(kind) == bench.truth(kind) == {id_: 4}
    assert not [each for each in bench.outcomes().values() if each is None]


def test_a_confirmed_event_is_told_again(bench: Bench) -> None:
    """A repeat of a done event is counted, and costs nothing."""
    [created] = bench.act("create", id_="cus_1")
    bench.tell(created)
    bench.quiet()
    before = bench.calls()

    bench.tell(created, created)
    bench.quiet()

    assert bench.calls() == before
    assert bench.rows("SELECT duplicates FROM webhook_events") == [(2,)]
    assert bench.refetch("cus_1").wanted == bench.refetch("cus_1").done
