"""The dirty set: wants coalesce, leases exclude, nothing that was wanted is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from reconciler.model import Reason, Verdict
from reconciler.store import guard, refetches, statements
from reconciler.store.refetches import Again, Older, Seen, Want
from tests.store.stage import LEASE, SOURCE, STAMPED, UNSTAMPED, alive, at

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sqlalchemy import Row

    from reconciler.model import ObjectRef
    from reconciler.store.refetches import Leased
    from tests.store.stage import Stage


def found(stage: Stage, ref: ObjectRef) -> Row[Any]:
    """Return the whole refetch of *ref*, which there is."""
    [row] = stage.query(
        "SELECT *, seen::text AS told FROM refetches WHERE (source, scope, kind, id) = (:source, :scope, :kind, :id)",
        **refetches.key(ref),
    )
    return row


def settle(stage: Stage, leased: Leased, verdict: Verdict | None = Verdict.APPLIED) -> bool:
    """Settle *leased*."""
    return stage.run(lambda c: refetches.settle(c, leased, verdict=verdict))


def postpone(stage: Stage, leased: Leased, *, seconds: float, counts: bool = True) -> bool:
    """Postpone *leased* by so long."""
    due_at = stage.clock + timedelta(seconds=seconds)
    return stage.run(lambda c: refetches.postpone(c, leased, due_at=due_at, because="503", counts=counts))


def bury(stage: Stage, leased: Leased) -> bool:
    """Bury *leased*."""
    return stage.run(lambda c: refetches.bury(c, leased, because="no\0", now=stage.clock))


def again(stage: Stage, ref: ObjectRef, *seconds: float, wants: bool = True, **more: Any) -> int | None:
    """Queue a reread of *ref* so long from now; return its number."""
    given = {"reason": Reason.TIE, "seen": None, "began_at": None} | more
    reread = Again(ref, tuple(stage.clock + timedelta(seconds=each) for each in seconds), wants=wants, **given)
    return stage.run(lambda c: refetches.read_again(c, [reread], now=stage.clock)).get(ref)


def test_first_want(stage: Stage) -> None:
    """An object nobody wanted before is due at once."""
    ref = stage.ref()

    number = stage.want(ref, locator={"name": "a\0"})

    row = found(stage, ref)
    assert (row.wanted, row.done, row.due_at, row.reason) == (number, 0, stage.clock, "webhook")
    assert row.locator == {"name": "a\N{REPLACEMENT CHARACTER}"}
    assert (row.attempts, row.dead_at, row.again_at, row.leased_until) == (0, None, None, None)


def test_wants_coalesce(stage: Stage) -> None:
    """However often an object is wanted before it is read, it is read once, at the earliest time asked for."""
    ref = stage.ref()
    first = stage.want(ref)
    stage.tick(5)
    second = stage.want(ref)
    leased = stage.leased(ref)

    settle(stage, leased)

    row = found(stage, ref)
    assert first < second == leased.wanted == row.done
    assert row.due_at == at(0)
    assert stage.lease(ref) is None


@pytest.mark.parametrize("draw", ["want", "reread", "unread"])
def test_numbers_are_positions(stage: Stage, draw: str) -> None:
    """A number that is drawn lies between the positions before and after it, however low the last one was."""
    ref = stage.ref()
    stage.want(ref)
    before = stage.position()

    draws: dict[str, Callable[[], int | None]] = {
        "want": lambda: stage.want(ref),
        "reread": lambda: again(stage, ref, 0),
        "unread": lambda: stage.run(lambda c: refetches.bury_unread(c, ref, because="odd")),
    }
    number = draws[draw]()

    assert number is not None
    assert before < number < stage.position()


def test_want_of_several(stage: Stage) -> None:
    """Each object draws a number; one that is named twice draws one."""
    one, other = stage.ref(), stage.ref(UNSTAMPED)

    numbers = stage.run(
        lambda c: refetches.want(c, [Want(other, Reason.SWEEP), Want(one, Reason.SWEEP), Want(one, Reason.TRIGGER)])
    )

    assert set(numbers) == {one, other}
    assert found(stage, one).reason == "trigger"
    assert stage.run(lambda c: refetches.want(c, [])) == {}


def test_want_during_a_read(stage: Stage) -> None:
    """What is wanted after the lease stays due when that read is settled."""
    ref = stage.ref()
    stage.want(ref)
    leased = stage.leased(ref)
    later = stage.want(ref)

    settled = settle(stage, leased, Verdict.UNCHANGED)

    row = found(stage, ref)
    assert settled
    assert (row.wanted, row.done, row.verdict) == (later, leased.wanted, "unchanged")
    assert stage.leased(ref).wanted == later


def test_want_forgives(stage: Stage) -> None:
    """A want clears attempts and brings a dead letter back, due now."""
    ref = stage.ref()
    stage.want(ref)
    postpone(stage, stage.leased(ref), seconds=60)
    stage.tick(60)
    bury(stage, stage.leased(ref))
    dead = found(stage, ref)
    stage.tick(60)

    stage.want(ref)

    row = found(stage, ref)
    assert (dead.dead_at, dead.attempts, dead.last_error) == (at(60), 2, "no\N{REPLACEMENT CHARACTER}")
    assert stage.clock == at(120)
    assert (row.dead_at, row.attempts, row.due_at) == (None, 0, at(120))


def test_want_brings_a_postponed_refetch_forward(stage: Stage) -> None:
    """A postponed refetch is due as soon as it is wanted anew."""
    ref = stage.ref()
    stage.want(ref)
    postpone(stage, stage.leased(ref), seconds=3600)
    stage.tick(1)
    waiting = stage.lease(ref)

    stage.want(ref)

    assert waiting is None
    assert found(stage, ref).due_at == stage.clock


def test_want_after_a_settled_one_is_due_now(stage: Stage) -> None:
    """The time of what was settled long ago makes nothing due earlier than it was wanted."""
    ref = stage.ref()
    stage.want(ref)
    settle(stage, stage.leased(ref))
    stage.tick(60)

    stage.want(ref)

    assert found(stage, ref).due_at == stage.clock


@pytest.mark.parametrize(
    ("standing", "wanted", "kept", "kept_when_dead", "kept_when_done"),
    [
        ("hand_edit", "webhook", True, True, False),
        ("hand_edit", "sweep", True, True, False),
        ("webhook", "sweep", True, False, False),
        ("tie", "sweep", True, False, False),
        ("webhook", "trigger", False, False, False),
        ("sweep", "webhook", False, False, False),
        ("trigger", "hand_edit", False, False, False),
    ],
)
def test_reasons(
    stage: Stage, standing: str, wanted: str, *, kept: bool, kept_when_dead: bool, kept_when_done: bool
) -> None:
    """Live reasons outlast a sweep's, a hand edit outlasts all until it is settled."""
    for state, stays in (("open", kept), ("dead", kept_when_dead), ("done", kept_when_done)):
        ref = stage.ref()
        stage.want(ref, Reason(standing))
        if state == "dead":
            bury(stage, stage.leased(ref))
        if state == "done":
            settle(stage, stage.leased(ref))

        stage.want(ref, Reason(wanted))

        assert found(stage, ref).reason == (standing if stays else wanted), state


def test_locator_is_kept_until_there_is_another(stage: Stage) -> None:
    """A want without a locator leaves the one that is known."""
    ref = stage.ref()
    stage.want(ref, locator={"name": "a"})
    stage.want(ref)
    first = found(stage, ref).locator

    stage.want(ref, locator={"name": "b"})

    assert first == {"name": "a"}
    assert stage.leased(ref).locator == {"name": "b"}


def test_lease(stage: Stage) -> None:
    """A lease tells what is covered, where the read begins and when; until it ends nobody else has it."""
    ref = stage.ref()
    number = stage.want(ref, Reason.TRIGGER)
    stage.tick(1)
    before = stage.position()

    leased = stage.leased(ref)

    row = found(stage, ref)
    assert (leased.wanted, leased.reason, leased.attempts, leased.seen) == (number, Reason.TRIGGER, 0, Seen())
    assert leased.read_from == before + 1
    assert leased.began_at == stage.clock
    assert (row.leased_until, row.lease_token, row.leased_wanted) == (stage.clock + LEASE, leased.token, number)
    stage.tick(LEASE.total_seconds() - 0.001)
    assert stage.lease(ref) is None
    stage.tick(0.001)
    assert stage.leased(ref).token != leased.token


def test_lease_in_its_time(stage: Stage) -> None:
    """Nothing is leased before it is due, and neither are dead letters nor what nobody wants."""
    ref, dead, unwanted = stage.ref(), stage.ref(), stage.ref()
    stage.want(ref)
    postpone(stage, stage.leased(ref), seconds=10)
    stage.want(dead)
    bury(stage, stage.leased(dead))
    again(stage, unwanted, wants=False, seen=Seen(behind=1))
    stage.tick(9.999)

    early = [stage.lease(each) for each in (ref, dead, unwanted)]
    stage.tick(0.001)

    assert early == [None] * 3
    assert stage.lease(ref) is not None
    assert stage.lease(dead) is None


@pytest.mark.parametrize("leases", ["lease", "lease_one"])
def test_lease_of_a_newer_shape(lone_stage: Stage, leases: str) -> None:
    """A kind that a newer process stores differently is left to that process; others are not."""
    stage = lone_stage
    ref, other = stage.ref(STAMPED), stage.ref(UNSTAMPED)
    for each in (ref, other):
        stage.want(each)
    stage.execute(f"INSERT INTO shapes VALUES ('{SOURCE}', '{STAMPED}', 2, 'new', now())")
    stage.execute(f"INSERT INTO shapes VALUES ('elsewhere', '{UNSTAMPED}', 2, 'new', now())")

    def lease(each: ObjectRef, n: int) -> Leased | None:
        if leases == "lease_one":
            return stage.lease(each, n=n)
        given: dict[str, Any] = {"n": n, "sweep": False, "lease": LEASE, "now": stage.clock}
        return stage.run(lambda c: refetches.lease(c, SOURCE, each.kind, **given))

    assert lease(ref, 1) is None
    assert lease(other, 1) is not None
    assert lease(ref, 2) is not None


def due(
    stage: Stage, *, sweep: bool, kinds: tuple[str, ...] = (STAMPED, UNSTAMPED), n: tuple[int, ...] = ()
) -> str | None:
    """Return the kind that has been due longest in a lane."""
    asked = {(SOURCE, kind): n[place] if n else None for place, kind in enumerate(kinds)}
    found = stage.run(lambda c: refetches.due_kinds(c, asked, sweep=sweep, now=stage.clock))
    return found[0][1] if found else None


def next_in_lane(stage: Stage, kind: str, *, sweep: bool) -> Leased | None:
    """Lease what is due in a lane."""
    return stage.run(lambda c: refetches.lease(c, SOURCE, kind, n=1, sweep=sweep, lease=LEASE, now=stage.clock))


def test_lanes(lone_stage: Stage) -> None:
    """Live work and sweeps have a lane each, and in each what has been due longest comes first."""
    stage = lone_stage
    live, swept, older = stage.ref(UNSTAMPED), stage.ref(STAMPED), stage.ref(UNSTAMPED)
    nothing = due(stage, sweep=False), due(stage, sweep=True)
    stage.want(swept, Reason.SWEEP)
    stage.tick(1)
    stage.want(older)
    stage.tick(1)
    stage.want(live)
    second_kind = stage.ref(STAMPED)
    stage.tick(1)
    stage.want(second_kind)

    assert nothing == (None, None)
    assert due(stage, sweep=True) == STAMPED
    assert due(stage, sweep=False) == UNSTAMPED
    assert due(stage, sweep=False, kinds=(STAMPED,)) == STAMPED
    assert due(stage, sweep=True, kinds=(UNSTAMPED,)) is None
    assert next_in_lane(stage, UNSTAMPED, sweep=True) is None
    order = [next_in_lane(stage, UNSTAMPED, sweep=False) for _ in range(3)]
    assert [each and each.ref for each in order] == [older, live, None]
    assert due(stage, sweep=False) == STAMPED
    first = next_in_lane(stage, STAMPED, sweep=True)
    assert first is not None
    assert first.ref == swept
    assert due(stage, sweep=True) is None
    stage.tick(LEASE.total_seconds())
    assert due(stage, sweep=True) == STAMPED


def test_lanes_go_by_the_time_that_comes_first(lone_stage: Stage) -> None:
    """A reread's time counts like a want's: whichever comes first makes it due."""
    stage = lone_stage
    ref, other = stage.ref(STAMPED), stage.ref(UNSTAMPED)
    again(stage, ref, 5, wants=False)
    stage.tick(4.999)
    early = due(stage, sweep=False), next_in_lane(stage, STAMPED, sweep=False)
    stage.tick(0.001)
    on_time = due(stage, sweep=False)
    stage.tick(1)
    stage.want(other)

    assert early == (None, None)
    assert on_time == due(stage, sweep=False) == STAMPED
    leased = next_in_lane(stage, STAMPED, sweep=False)
    assert leased is not None
    assert leased.reason is Reason.REREAD


@pytest.mark.parametrize("settled", [False, True])
def test_kinds_go_by_the_time_that_comes_first(lone_stage: Stage, *, settled: bool) -> None:
    """Between kinds, what counts is the earlier of both times, and the time of what was settled not at all."""
    stage = lone_stage
    ref, other = stage.ref(STAMPED), stage.ref(UNSTAMPED)
    stage.want(ref)
    again(stage, ref, 60, wants=False)
    if settled:
        settle(stage, stage.leased(ref))
    stage.tick(50)
    stage.want(other)
    stage.tick(50)

    assert due(stage, sweep=False) == (UNSTAMPED if settled else STAMPED)


@pytest.mark.parametrize("settled", [False, True])
def test_refetches_go_by_the_time_that_comes_first(lone_stage: Stage, *, settled: bool) -> None:
    """So it is within a kind."""
    stage = lone_stage
    ref, other = stage.ref(), stage.ref()
    stage.want(ref)
    again(stage, ref, 60, wants=False)
    if settled:
        settle(stage, stage.leased(ref))
    stage.tick(50)
    stage.want(other)
    stage.tick(50)

    leased = next_in_lane(stage, STAMPED, sweep=False)

    assert leased is not None
    assert leased.ref == (other if settled else ref)


@pytest.mark.parametrize("lease_by", ["kind", "lane", "ref"])
def test_settled_refetch_is_not_due_by_its_old_time(lone_stage: Stage, lease_by: str) -> None:
    """While a reread waits for its own time, the time of the settled want makes nothing due."""
    stage = lone_stage
    ref = stage.ref()
    stage.want(ref)
    settle(stage, stage.leased(ref))
    again(stage, ref, 60, wants=False)

    early = is_due(stage, ref, lease_by)
    stage.tick(60)

    assert not early
    assert is_due(stage, ref, lease_by)


def is_due(stage: Stage, ref: ObjectRef, lease_by: str) -> bool:
    """Whether *ref* is found by its kind, in its lane, or by itself."""
    if lease_by == "kind":
        return due(stage, sweep=False) == ref.kind
    if lease_by == "lane":
        return next_in_lane(stage, ref.kind, sweep=False) is not None
    return stage.lease(ref) is not None


@pytest.mark.parametrize("lease_by", ["kind", "lane", "ref"])
@pytest.mark.parametrize("state", ["dead", "dead with a reread", "settled", "leased", "postponed", "noted"])
def test_what_is_not_due(lone_stage: Stage, state: str, lease_by: str) -> None:
    """Nobody is told of, or leases, what is dead, done, taken or yet to come; when that has changed they do."""
    stage = lone_stage
    ref = stage.ref()
    stage.want(ref)
    leased = stage.leased(ref)
    if state.startswith("dead"):
        bury(stage, leased)
    if state == "dead with a reread":
        again(stage, ref, -1, wants=False)
    if state in {"settled", "noted"}:
        settle(stage, leased)
    if state == "noted":
        again(stage, ref, wants=False, seen=Seen(behind=1))
    if state == "postponed":
        postpone(stage, leased, seconds=5)

    found = is_due(stage, ref, lease_by)
    stage.tick(LEASE.total_seconds())
    stage.want(ref)

    assert not found
    assert is_due(stage, ref, lease_by)


def test_lane_of_other_sources(lone_stage: Stage) -> None:
    """A worker of one source sees nothing of another's."""
    stage = lone_stage
    stage.want(type(stage.ref())("elsewhere", "", STAMPED, "1"))

    assert due(stage, sweep=False) is None
    assert next_in_lane(stage, STAMPED, sweep=False) is None


@pytest.mark.parametrize(
    ("scope", "until", "open_"), [("", 10, False), ("7", 10, False), ("8", 10, True), ("", 0, True), ("7", 0, True)]
)
def test_paused(lone_stage: Stage, scope: str, until: float, *, open_: bool) -> None:
    """A paused source or scope is left alone until its pause ends; other scopes are not."""
    stage = lone_stage
    ref = stage.ref(scope="7")
    stage.want(ref)
    stage.execute(
        "INSERT INTO pauses VALUES (:source, :scope, 'unavailable', '', now(), :until)",
        source=SOURCE,
        scope=scope,
        until=stage.clock + timedelta(seconds=until),
    )
    stage.execute("INSERT INTO pauses VALUES ('elsewhere', '', 'unavailable', '', now(), :until)", until=at(60))

    assert (due(stage, sweep=False) == STAMPED) is open_
    assert (next_in_lane(stage, STAMPED, sweep=False) is not None) is open_


def test_kind_of_a_newer_shape_does_not_stand_in_the_way(lone_stage: Stage) -> None:
    """A process that may not lease a kind is told of the next one that it may."""
    stage = lone_stage
    stage.want(stage.ref(STAMPED))
    stage.tick(1)
    stage.want(stage.ref(UNSTAMPED))
    stage.execute(f"INSERT INTO shapes VALUES ('{SOURCE}', '{STAMPED}', 2, 'new', now())")

    assert due(stage, sweep=False) == STAMPED
    assert due(stage, sweep=False, n=(2, 1)) == STAMPED
    assert due(stage, sweep=False, n=(1, 1)) == UNSTAMPED


def test_settle_needs_the_lease(stage: Stage) -> None:
    """A worker that outlived its lease settles, postpones and buries nothing."""
    ref = stage.ref()
    stage.want(ref)
    late = stage.leased(ref)
    stage.tick(LEASE.total_seconds())
    holder = stage.leased(ref)
    before = found(stage, ref)

    assert not settle(stage, late)
    assert not postpone(stage, late, seconds=60)
    assert not bury(stage, late)
    assert found(stage, ref) == before
    assert settle(stage, holder)
    assert not settle(stage, holder)


def test_settle(stage: Stage) -> None:
    """Settling ends the lease and forgets the failures before it; an earlier number never undoes a later one."""
    ref = stage.ref()
    stage.want(ref)
    postpone(stage, stage.leased(ref), seconds=0)
    leased = stage.leased(ref)
    stage.execute("UPDATE refetches SET done = done + 100000 WHERE id = :id", id=ref.id)

    settle(stage, leased)

    row = found(stage, ref)
    assert leased.attempts == 1
    assert (row.done, row.attempts, row.last_error, row.verdict) == (100000, 0, None, "applied")
    assert (row.leased_until, row.lease_token, row.leased_wanted) == (None, None, None)


def test_postpone(stage: Stage) -> None:
    """Postponing gives the lease back, says why, and counts the attempt where it was the object's."""
    ref = stage.ref()
    stage.want(ref)
    first = postpone(stage, stage.leased(ref), seconds=0)
    second = postpone(stage, stage.leased(ref), seconds=30, counts=False)

    row = found(stage, ref)
    assert first
    assert second
    assert (row.attempts, row.last_error, row.due_at) == (1, "503", at(30))
    assert (row.leased_until, row.lease_token, row.leased_wanted) == (None, None, None)
    assert row.wanted > row.done


@pytest.mark.parametrize(("seconds", "due_at"), [(30, 10), (5, 5)])
def test_postpone_what_was_wanted_since(stage: Stage, seconds: float, due_at: float) -> None:
    """What was wanted during the failed read keeps its own time, unless the other comes first."""
    ref = stage.ref()
    stage.want(ref)
    leased = stage.leased(ref)
    again(stage, ref, 10)

    postpone(stage, leased, seconds=seconds)

    assert found(stage, ref).due_at == at(due_at)


@pytest.mark.parametrize(("again_at", "postponed_to"), [(-5, 30), (60, 60), (None, None)])
def test_postpone_a_reread(stage: Stage, again_at: float | None, postponed_to: float | None) -> None:
    """A reread whose time has come waits as long as the rest; one whose time is yet to come keeps it."""
    ref = stage.ref()
    stage.want(ref)
    if again_at is not None:
        again(stage, ref, again_at, wants=False)

    postpone(stage, stage.leased(ref), seconds=30)

    assert found(stage, ref).again_at == (None if postponed_to is None else at(postponed_to))


def test_bury(stage: Stage) -> None:
    """A dead letter is not due until it is wanted, and neither is its reread."""
    ref = stage.ref()
    stage.want(ref)
    again(stage, ref, 5, wants=False)

    dead = bury(stage, stage.leased(ref))

    row = found(stage, ref)
    assert dead
    assert (row.dead_at, row.attempts, row.lease_token, row.leased_until, row.leased_wanted) == (
        at(0),
        1,
        None,
        None,
        None,
    )
    stage.tick(60)
    assert stage.lease(ref) is None


def test_bury_what_was_wanted_since(stage: Stage) -> None:
    """An object that was wanted during its last attempt lives on."""
    ref = stage.ref()
    stage.want(ref)
    leased = stage.leased(ref)
    stage.want(ref)

    assert not bury(stage, leased)
    assert found(stage, ref).dead_at is None
    assert stage.lease(ref) is not None


def test_bury_unread(stage: Stage) -> None:
    """What was listed but cannot be stored is a dead letter with its reason, whether or not it was known."""
    fresh, known = stage.ref(), stage.ref()
    stage.want(known)
    settle(stage, stage.leased(known))
    done = found(stage, known).done

    for ref in (fresh, known):
        number = stage.run(
            lambda c, ref=ref: refetches.bury_unread(c, ref, because="odd\0", now=stage.clock)  # type: ignore[misc]
        )

        row = found(stage, ref)
        assert (row.wanted, row.dead_at) == (number, at(0))
        assert row.last_error == "odd\N{REPLACEMENT CHARACTER}"
        assert row.wanted > row.done
        assert stage.lease(ref) is None
    assert found(stage, fresh).reason == "sweep"
    assert found(stage, known).done == done


@pytest.mark.parametrize("is_dead", [False, True])
def test_bury_unread_what_is_wanted(stage: Stage, *, is_dead: bool) -> None:
    """An object that events wait for stays wanted: the fetch decides. A dead one stays dead."""
    ref = stage.ref()
    first = stage.want(ref)
    if is_dead:
        bury(stage, stage.leased(ref))

    number = stage.run(lambda c: refetches.bury_unread(c, ref, because="odd", now=stage.clock))

    assert number > first
    assert (found(stage, ref).dead_at is not None) is is_dead
    assert (stage.lease(ref) is None) is is_dead


def test_free(stage: Stage) -> None:
    """A worker that stops gives its leases back at once, and only its own."""
    mine, other = stage.ref(), stage.ref()
    for ref in (mine, other):
        stage.want(ref)
    leased, kept = stage.leased(mine), stage.leased(other)

    stage.run(lambda c: refetches.free(c, [leased.token, uuid4()]))

    assert stage.lease(mine) is not None
    assert stage.lease(other) is None
    assert not settle(stage, leased)
    assert settle(stage, kept)


@pytest.mark.parametrize(
    ("column", "ahead", "frozen"),
    [
        ("due_at", "26 hours", True),
        ("due_at", "24 hours", False),
        ("again_at", "26 hours", True),
        ("again_at", "24 hours", False),
        ("leased_until", "11 minutes", True),
        ("leased_until", "9 minutes", False),
    ],
)
def test_unfreeze(lone_stage: Stage, column: str, ahead: str, *, frozen: bool) -> None:
    """Times that only a wrong clock can have set are brought back, others left alone."""
    stage = lone_stage
    ref, dead, done = stage.ref(), stage.ref(), stage.ref()
    for each in (ref, dead, done):
        stage.want(each)
    bury(stage, stage.leased(dead))
    settle(stage, stage.leased(done))
    stage.execute("UPDATE refetches SET due_at = now() + interval '1 hour'")
    stage.execute(f"UPDATE refetches SET {column} = now() + interval '{ahead}'")
    if column == "again_at":
        stage.execute("UPDATE refetches SET again_at = NULL WHERE id = :id", id=done.id)

    freed = stage.run(lambda c: refetches.unfreeze(c, lease=LEASE))

    [(due_now,)] = stage.query(f"SELECT {column} <= now() FROM refetches WHERE id = :id", id=ref.id)
    [(kept,)] = stage.query(
        f"SELECT count(*) FROM refetches WHERE id <> :id AND {column} <= now()",
        id=ref.id,
    )
    assert (freed, due_now) == (int(frozen), frozen)
    assert kept == 0


def test_unfreeze_a_reread_that_nothing_else_waits_for(lone_stage: Stage) -> None:
    """A settled refetch whose reread is frozen is brought back too; a time in reach keeps what is not frozen."""
    stage = lone_stage
    ref = stage.ref()
    stage.want(ref)
    settle(stage, stage.leased(ref))
    stage.execute("UPDATE refetches SET again_at = now() + interval '30 days', leased_until = now() + interval '1 min'")

    freed = stage.run(lambda c: refetches.unfreeze(c, lease=LEASE))

    found_now = stage.query("SELECT again_at <= now(), leased_until > now() FROM refetches")
    assert freed == 1
    assert [tuple(row) for row in found_now] == [(True, True)]


def test_reread_wants(stage: Stage) -> None:
    """A reread that wants draws a number and is due at its time; it brings a dead letter back with its reason."""
    ref = stage.ref()
    stage.want(ref)
    bury(stage, stage.leased(ref))

    number = again(stage, ref, 5, locator={"name": "x"})

    row = found(stage, ref)
    assert number == row.wanted
    assert (row.due_at, row.again_at, row.reason, row.dead_at) == (at(5), at(5), "webhook", None)
    assert row.locator == {"name": "x"}


def test_reread_that_only_looks(stage: Stage) -> None:
    """A reread that wants nothing draws no number and leaves reason, time and death as they are."""
    ref = stage.ref()
    stage.want(ref, Reason.TRIGGER)
    bury(stage, stage.leased(ref))
    before = found(stage, ref)

    number = again(stage, ref, 5, wants=False)

    row = found(stage, ref)
    assert number is None
    assert row.again_at == at(5)
    assert (row.wanted, row.reason, row.due_at, row.dead_at) == (
        before.wanted,
        before.reason,
        before.due_at,
        before.dead_at,
    )


def test_reread_beside_what_is_waiting(stage: Stage) -> None:
    """Where something else waits to be read anyway, its reason stays and the earlier time counts."""
    earlier, later = stage.ref(), stage.ref()
    for ref, wait in ((earlier, 3), (later, 30)):
        stage.want(ref, Reason.TRIGGER)
        postpone(stage, stage.leased(ref), seconds=wait)
        again(stage, ref, 10)

    assert (found(stage, earlier).due_at, found(stage, earlier).reason) == (at(3), "trigger")
    assert (found(stage, later).due_at, found(stage, later).reason) == (at(10), "trigger")


def test_reread_instead_of_the_read_that_asked(stage: Stage) -> None:
    """While a read is out, the reread takes its place: later than the want was, and for its own reason."""
    plain, edited, wanted_since = stage.ref(), stage.ref(), stage.ref()
    for ref, reason in ((plain, Reason.TRIGGER), (edited, Reason.HAND_EDIT), (wanted_since, Reason.TRIGGER)):
        stage.want(ref, reason)
        stage.leased(ref)
    stage.want(wanted_since, Reason.REPLAY)

    for ref in (plain, edited, wanted_since):
        again(stage, ref, 10)

    assert (found(stage, plain).due_at, found(stage, plain).reason) == (at(10), "tie")
    assert (found(stage, edited).due_at, found(stage, edited).reason) == (at(10), "hand_edit")
    assert (found(stage, wanted_since).due_at, found(stage, wanted_since).reason) == (at(0), "replay")


def test_reread_after_a_hand_edit_was_settled(stage: Stage) -> None:
    """Once settled, a hand edit's reason is not carried on."""
    ref = stage.ref()
    stage.want(ref, Reason.HAND_EDIT)
    settle(stage, stage.leased(ref))

    again(stage, ref, 0)

    assert found(stage, ref).reason == "tie"


def test_look_after_a_hand_edit_was_settled(stage: Stage) -> None:
    """A reread that nothing wants is a reread, whatever brought the object here before."""
    ref = stage.ref()
    stage.want(ref, Reason.HAND_EDIT)
    settle(stage, stage.leased(ref))
    again(stage, ref, 0, wants=False)

    reason = stage.leased(ref).reason

    assert reason is Reason.REREAD


def test_reread_of_nothing(stage: Stage) -> None:
    """What ladders have seen is kept only where there is something to keep it in."""
    ref = stage.ref()

    assert again(stage, ref, wants=False, seen=Seen(behind=1)) is None
    assert stage.refetch(ref) is None
    assert stage.run(lambda c: refetches.read_again(c, [], now=stage.clock)) == {}
    assert stage.run(lambda c: refetches.lock_seen(c, [])) == {}


def test_seen_is_replaced_or_kept(stage: Stage) -> None:
    """What is said to be seen replaces what was; where nothing is said, it stays."""
    ref = stage.ref()
    again(stage, ref, 50, seen=Seen(behind=2))
    again(stage, ref, 60)
    kept = found(stage, ref)
    stage.run(
        lambda c: refetches.read_again(
            c, [Again(ref, (), Reason.REREAD, Seen(), wants=False, began_at=at(55))], now=stage.clock
        )
    )

    assert kept.told == ('{"again": ["2026-11-30T03:10:50+00:00", "2026-11-30T03:11:00+00:00"], "behind": 2}')
    assert found(stage, ref).told == '{"again": ["2026-11-30T03:11:00+00:00"]}'


def test_ladders_stand_unless_the_row_moved(stage: Stage) -> None:
    """A reread that tells nothing of the ladders leaves them as they are; a row that moved ends the guard's own."""
    ref = stage.ref()
    note = Seen(older=Older(2, at(1), 30, at(2)), behind=1)
    again(stage, ref, 50, seen=note)
    again(stage, ref, 60)
    kept = stage.run(lambda c: refetches.seen(c, ref))

    again(stage, ref, moved=True)

    assert kept == note
    assert stage.run(lambda c: refetches.seen(c, ref)) == Seen(behind=1)
    assert stage.run(lambda c: refetches.seen(c, stage.ref())) == Seen()


def test_wakes_workers(stage: Stage) -> None:
    """Wanting and queueing a reread wake whoever listens, on commit; noting something does not."""
    ref = stage.ref()
    note = Again(ref, (), Reason.REREAD, Seen(behind=1), wants=False, began_at=None)
    told = []
    with stage.database.engine.connect() as listening:
        listening.exec_driver_sql("LISTEN reconciler_wanted")
        listening.commit()
        driver = listening.connection.driver_connection
        assert driver is not None
        for work in (
            lambda: stage.want(ref),
            lambda: again(stage, ref, 5),
            lambda: stage.run(lambda c: refetches.read_again(c, [note], now=stage.clock)),
        ):
            work()
            told.append(len(list(driver.notifies(timeout=0.2))))

    assert told == [1, 1, 0]


def set_back(stage: Stage, position: int) -> None:
    """Let the sequence stand at an earlier number, as after a restore."""
    stage.execute("SELECT setval('positions', :position)", position=position)


def test_want_after_the_sequence_was_set_back(lone_stage: Stage) -> None:
    """Numbers never fall: a want during a read from before is not settled by that read, and the sequence moves on."""
    stage = lone_stage
    ref, other = stage.ref(), stage.ref()
    stage.want(ref)
    leased = stage.leased(ref)
    set_back(stage, 10)

    later = stage.want(ref)
    settle(stage, leased)

    assert later > leased.wanted
    assert stage.lease(ref) is not None
    assert stage.position() > leased.wanted
    assert stage.want(other) > later


@pytest.mark.parametrize("queue", ["reread", "unread"])
def test_numbers_after_the_sequence_was_set_back(lone_stage: Stage, queue: str) -> None:
    """Rereads and dead letters never draw a number that was passed, open or done."""
    stage = lone_stage
    for state in ("open", "done"):
        ref = stage.ref()
        before = stage.want(ref)
        if state == "done":
            settle(stage, stage.leased(ref))
            stage.execute("UPDATE refetches SET done = done + 5 WHERE id = :id", id=ref.id)
            before += 5
        set_back(stage, 10)

        number = (
            again(stage, ref, 0)
            if queue == "reread"
            else stage.run(lambda c, ref=ref: refetches.bury_unread(c, ref, because="odd"))  # type: ignore[misc]
        )

        assert number is not None
        assert number > before


def test_want_beyond_what_is_done(lone_stage: Stage) -> None:
    """What is done never covers a later want, even where the numbers of a restore say so."""
    stage = lone_stage
    ref = stage.ref()
    stage.want(ref)
    stage.execute("UPDATE refetches SET done = wanted + 500")

    number = stage.want(ref)

    assert number > found(stage, ref).done
    assert stage.lease(ref) is not None


def test_outrun(lone_stage: Stage) -> None:
    """The sequence moves beyond a position by a margin, and never back."""
    stage = lone_stage
    drawn = stage.position()

    stage.run(lambda c: refetches.outrun(c, drawn - 1))
    unmoved = stage.position()
    stage.run(lambda c: refetches.outrun(c, unmoved))
    moved = stage.position()

    assert unmoved == drawn + 1
    assert moved == unmoved + 100_001


def test_highest_position(lone_stage: Stage) -> None:
    """The highest number that any row claims is found, whichever column holds it."""
    stage = lone_stage

    def highest() -> int:
        return int(stage.run(lambda c: statements.one(c, "highest_position")).position)

    assert highest() == 0
    ref = stage.ref()
    stage.apply(stage.reading(ref, alive(), (20, 10)))
    assert highest() == 20
    stage.apply(stage.reading(ref, alive(), (15, 30)))
    assert highest() == 30
    wanted = stage.want(ref)
    assert highest() == wanted
    stage.execute("UPDATE refetches SET done = 999999")
    assert highest() == 999999
    assert guard.REWOUND_READS == 4
