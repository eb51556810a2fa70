"""What no feed shows: everything in turn, a share each night; what no call lists; feeds that do not reach back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from reconciler.adapter import Listing
from reconciler.errors import SourceUnavailable
from tests.paths.draining import SOURCE
from tests.paths.sweeping import ago, sweep_on, swept, watermark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.model import ObjectRef, Page
    from reconciler.sweep import Sweep
    from tests.paths.draining import Bench
    from tests.paths.sweeping import Swept

NIGHTS = 3
EVERY = timedelta(days=NIGHTS)
DAY = 24 * 3600
LIST = "GET /v1/customers"


@contextmanager
def long_ago(bench: Bench, days: int = 3) -> Iterator[None]:
    """Let what happens in the block have happened before any night's window."""
    bench.hands.now -= days * DAY
    yield
    bench.hands.now += days * DAY


def make(bench: Bench, count: int, kind: str = "customer") -> list[str]:
    """Create objects at the provider and return the ids of all there are."""
    with long_ago(bench):
        for _ in range(count):
            bench.act("create", kind)
    return sorted(bench.truth(kind))


def pass_days(bench: Bench, days: int) -> None:
    """Let so many days have passed since every turn."""
    bench.edit("UPDATE turns SET since = since - make_interval(days => %s)", days)


def behind_our_back(bench: Bench, changed: str, deleted: str, *, days: int = 3) -> None:
    """Change one and delete another, so that no feed tells of it."""
    with long_ago(bench, days):
        bench.act("change", id_=changed)
        bench.act("delete", id_=deleted)


def night(bench: Bench, sweep: Sweep) -> Swept:
    """Carry out a night's run."""
    return swept(bench, sweep=sweep, trigger="nightly", in_turn=True)


def unlisted(bench: Bench) -> None:
    """Let no call list customers any more."""
    kinds = dict(bench.main.stripe.behind.kinds)
    kinds["customer"] = replace(kinds["customer"], list=Listing.NONE)
    vars(bench.main.stripe)["kinds"] = kinds


def test_everything_has_its_turn(bench: Bench) -> None:
    """Between its turns a kind is not listed; in its turn what no feed shows is found, and what is gone is proved."""
    sweep = sweep_on(bench, bench.main, full_every=EVERY)
    one, *_, other = make(bench, 4)
    night(bench, sweep)
    behind_our_back(bench, one, other)
    before = bench.calls(LIST)

    night(bench, sweep)
    unseen, lists = bench.versions() != bench.truth(), bench.calls(LIST) - before
    pass_days(bench, NIGHTS)
    told = night(bench, sweep)
    pass_days(bench, 0)
    again = bench.calls(LIST)
    night(bench, sweep)

    assert (unseen, lists, bench.calls(LIST) - again) == (True, 0, 0)
    assert (told.state, bench.versions() == bench.truth()) == ("complete", True)
    assert {id_: what for id_, what, _ in told.drift} == {one: "differs", other: "extra"}


def test_a_turn_that_broke_off_comes_again(bench: Bench) -> None:
    """A turn is over when all of it was seen; until then every night tries it again."""
    make(bench, 3)
    swept(bench, sweep=sweep_on(bench, bench.main, full_every=EVERY))
    pass_days(bench, NIGHTS)
    crawl = bench.main.stripe.behind.crawl

    def breaking(kind: str, scope: str) -> Iterator[Page]:
        yield from crawl(kind, scope)
        raise SourceUnavailable("it broke there")

    vars(bench.main.stripe)["crawl"] = breaking
    broken = night(bench, sweep_on(bench, bench.main, full_every=EVERY))
    vars(bench.main.stripe)["crawl"] = crawl
    before = bench.calls(LIST)
    whole = night(bench, sweep_on(bench, bench.main, full_every=EVERY))

    assert (broken.state, whole.state) == ("incomplete", "complete")
    assert bench.calls(LIST) > before
    assert bench.rows("SELECT compared_at = since FROM turns") == [(True,)]


def test_missed_turns_do_not_come_all_at_once(bench: Bench) -> None:
    """After a long outage a night makes up for twice its share, what had its turn longest ago first, and says so."""
    kinds = ("customer", "product", "price", "invoice", "charge", "refund")
    sweep = sweep_on(bench, bench.main, full_every=EVERY)
    swept(bench, *kinds, sweep=sweep, trigger="nightly", in_turn=True)
    pass_days(bench, 30)
    for days, kind in enumerate(kinds):
        bench.edit("UPDATE turns SET since = since - make_interval(days => %s) WHERE kind = %s", days, kind)

    lists, said = [], []
    for _ in range(2):
        before = {kind: bench.calls(f"GET /v1/{kind}s") for kind in kinds}
        told = swept(bench, *kinds, sweep=sweep, trigger="nightly", in_turn=True)
        lists.append([kind for kind in kinds if bench.calls(f"GET /v1/{kind}s") > before[kind]])
        said.append(told.report["because"])
        assert told.state == "complete"

    assert lists == [["price", "invoice", "charge", "refund"], ["customer", "product"]]
    assert said == [f"{SOURCE}: 2 of 6 turns that were missed wait for the next nights", None]
    [line] = bench.logged("sweep.turns_put_off")
    assert (line["due"], line["put_off"]) == (6, 2)


def test_turns_are_off(bench: Bench) -> None:
    """Where nothing is to be compared in turn, nothing is."""
    make(bench, 1)
    sweep = sweep_on(bench, bench.main, full_every=None)
    night(bench, sweep)
    pass_days(bench, 100)
    before = bench.calls(LIST)

    night(bench, sweep)

    assert bench.calls(LIST) == before


def test_what_no_call_lists_is_read_row_by_row(bench: Bench) -> None:
    """A share of the rows is read each night, from where the night before ended, and all of them in time."""
    unlisted(bench)
    sweep = sweep_on(bench, bench.main, full_every=EVERY)
    ids = make(bench, 2 * NIGHTS)
    first = night(bench, sweep)
    behind_our_back(bench, ids[0], ids[-1])

    reads, reached = [], []
    for _ in range(NIGHTS):
        pass_days(bench, 1)
        seen: list[str] = []
        bench.main.stripe.before = partial(_note, seen)
        night(bench, sweep)
        reads.append(seen)
        reached += bench.rows("SELECT reached FROM turns")

    assert (first.state, watermark(bench) is not None) == ("complete", True)
    assert "not listable" in str(first.kinds["customer"]["note"])
    assert [set(each) for each in reads] == [set(ids[step : step + 2]) for step in range(0, 2 * NIGHTS, 2)]
    assert reached == [(ids[1],), (ids[3],), ("",)]
    assert bench.versions() == bench.truth()


def _note(seen: list[str], ref: ObjectRef) -> None:
    seen.append(ref.id)


def test_a_full_sweep_of_what_no_call_lists(bench: Bench) -> None:
    """Every row is read again, and one that is gone is proved gone."""
    unlisted(bench)
    sweep = sweep_on(bench, bench.main)
    one, other, *_ = make(bench, 4)
    swept(bench, sweep=sweep)
    behind_our_back(bench, one, other)

    told = swept(bench, sweep=sweep, full=True, since=ago(minutes=1))

    assert (told.state, bench.versions() == bench.truth()) == ("complete", True)
    assert {id_: what for id_, what, _ in told.drift} == {one: "differs", other: "extra"}


def test_longer_away_than_a_feed_remembers(bench: Bench) -> None:
    """It is said in the log and by the run, everything is compared, and the watermark is where it belongs."""
    one, *_, other = make(bench, 4)
    swept(bench)
    behind_our_back(bench, one, other, days=40)
    bench.edit("UPDATE watermarks SET swept_until = swept_until - interval '45 days'")

    told = swept(bench, trigger="catch_up")
    after = swept(bench, trigger="nightly")

    assert (told.state, bench.versions() == bench.truth()) == ("complete", True)
    assert "the feed reaches back 30 days only: everything is compared" in told.report["because"]
    [line] = bench.logged("sweep.feed_outrun")
    assert line["place"] == f"{SOURCE}/customer"
    assert (after.state, after.report["because"]) == ("complete", None)
    assert bench.alarms() == ["feed_outrun"]
    bench.edit("UPDATE findings SET seen_at = seen_at - interval '25 hours'")
    swept(bench, trigger="nightly")
    assert bench.alarms() == []
    [(started,)] = bench.rows("SELECT max(started_at) FROM runs")
    assert watermark(bench) == started - bench.main.adapter.kinds["customer"].feed_lag


def test_unfinished_ones_are_bounded(bench: Bench) -> None:
    """Of very many unfinished ones those that were read longest ago are read, and the report says so; then the next."""
    ids = make(bench, 4, "payment_intent")
    sweep = sweep_on(bench, bench.main, most_unfinished=2)
    swept(bench, "payment_intent", sweep=sweep)
    for id_ in ids:
        bench.act("change", "payment_intent", id_, announce=False)
    before = bench.fetches("payment_intent")

    told = [swept(bench, "payment_intent", sweep=sweep) for _ in range(2)]

    assert bench.fetches("payment_intent") - before == 4
    assert "read longest ago" in told[0].kinds["payment_intent"]["note"]
    assert bench.versions("payment_intent") == bench.truth("payment_intent")
