"""What is forgotten is nowhere any more, and does not come back, whoever reads, writes or dies in between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.adapter import Column
from reconciler.errors import DatabaseUnavailable
from reconciler.model import Hint, Named, ObjectRef, Origin, Reason, Via
from reconciler.store import events, forgetting, guard, refetches, runs, sources, statements
from reconciler.store.forgetting import forget
from reconciler.store.runs import Drift
from tests.store.stage import PATIENCE, SOURCE, STAMPED, UNSTAMPED, alive, kind, mirrored, together, wait_for_a_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from tests.store.stage import Stage

MARK = "planted-7f3a"
ORDER = kind(STAMPED, columns=(Column("customer", ("/customer/id", "/customer"), "text"),))
CUSTOMER = kind(UNSTAMPED)
KINDS = {each.name: each for each in (ORDER, CUSTOMER)}


@pytest.fixture
def stage(lone_stage: Stage) -> Stage:
    """Return a stage whose orders are linked to customers."""
    lone_stage.mirror = mirrored(kinds=(ORDER, CUSTOMER))
    return lone_stage


def customer(number: int = 1) -> ObjectRef:
    """Return a customer with an id that is one."""
    return ObjectRef(SOURCE, "", UNSTAMPED, f"cus_{MARK}_{number}")


def order(number: int = 1) -> ObjectRef:
    """Return an order."""
    return ObjectRef(SOURCE, "", STAMPED, f"ord_{MARK}_{number}")


def fill(stage: Stage, ref: ObjectRef, **more: Any) -> None:
    """Leave traces of *ref* wherever there can be any."""
    body = {"name": MARK, "email": f"{MARK}@example.com", **more}
    told = {"payload": {"id": ref.id, "object": body}, "raw": MARK.encode()}
    stage.record(f"evt_1_{ref.id[-1]}{ref.kind}", Named(ref), **told)
    stage.reread(ref, alive(**body))
    stage.tick(60)
    stage.record(f"evt_2_{ref.id[-1]}{ref.kind}", Named(ref, locator={"name": MARK}), **told)
    stage.reread(ref, alive(**{**body, "name": f"{MARK} again"}, stamp=5))
    kinds = [{"source": SOURCE, "scope": "", "kind": ref.kind, "state": "failed", "error": f"{ref.id}!"}]
    with stage.database.transaction() as connection:
        run = runs.begin(
            connection, [(SOURCE, ref.kind)], trigger="cli", since=None, until=None, dry_run=False, asked={}
        )
        runs.ask(connection, run.run_id, [Hint(ref)], {ref: 1})
        diff = [{"path": "/name", "ours": MARK, "theirs": f"{MARK} again"}]
        runs.drifted(connection, [Drift(ref, "differs", "other", diff)], run_id=run.run_id, repaired=True)
        runs.finish(connection, run.run_id, state="failed", tallies={"kinds": kinds}, because=f"{ref.id}?")
    position = stage.position()
    stage.apply(stage.reading(ref, alive("older"), (1, 2)))
    stage.execute("UPDATE refetches SET dead_at = now(), last_error = :mark WHERE id = :id", mark=MARK, id=ref.id)
    stage.execute("UPDATE webhook_events SET last_error = :mark WHERE event_id LIKE 'evt_2%'", mark=MARK)
    stage.execute(
        "INSERT INTO turns (source, kind, since, reached) VALUES (:source, :kind, now(), :id)"
        " ON CONFLICT (source, scope, kind) DO UPDATE SET reached = excluded.reached",
        source=SOURCE,
        kind=ref.kind,
        id=ref.id,
    )
    assert position


def found(stage: Stage, text: str = MARK) -> dict[str, int]:
    """Return in how many rows of each table *text* stands, in whatever column."""
    tables = stage.query("SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()")
    counted = {
        row.name: stage.query(
            f"SELECT count(*) AS n FROM {row.name} AS mine WHERE mine::text LIKE :text OR mine::text LIKE :hex",
            text=f"%{text}%",
            hex=f"%{text.encode().hex()}%",
        )[0].n
        for row in tables
    }
    return {name: count for name, count in counted.items() if count}


def erased(stage: Stage, *refs: ObjectRef, related: bool = False) -> forgetting.Receipt:
    """Forget these objects."""
    return forget(stage.database, dict.fromkeys(refs, related), KINDS)


def test_nothing_is_left(stage: Stage) -> None:
    """Every table and every column is searched: what was planted everywhere is nowhere, and others lost nothing."""
    ref, other = customer(), ObjectRef(SOURCE, "", UNSTAMPED, "cus_other")
    fill(stage, ref)
    stage.record("evt_other", Named(other))
    stage.reread(other, alive("other"))
    planted = found(stage)

    receipt = erased(stage, ref)

    assert planted.keys() == {
        "webhook_events",
        "event_objects",
        "objects",
        "refetches",
        "object_history",
        "declined_writes",
        "drift",
        "runs",
        "run_objects",
        "turns",
    }
    assert found(stage) == {}
    assert receipt.erased.keys() == planted.keys() - {"runs", "turns"}
    assert stage.row(other) is not None
    assert stage.event("evt_other").payload == {"id": "evt_other"}


def test_related(stage: Stage) -> None:
    """What is linked to it goes with it, however it says so, and what is linked to others stays."""
    ref = customer()
    fill(stage, ref)
    fill(stage, order(1), customer=ref.id)
    fill(stage, order(2), customer={"id": f"gid://shopify/Customer/{ref.id}"})
    stage.want(order(3))
    stage.reread(order(3), alive("another's", customer="cus_another"))

    receipt = erased(stage, ref, related=True)

    assert receipt.kinds == {UNSTAMPED: 1, STAMPED: 2}
    assert found(stage).keys() == {"objects", "refetches", "object_history"}
    assert stage.row(order(3)) is not None


def test_only_the_object(stage: Stage) -> None:
    """Without what is linked to it, that stays, with its own fields; but no event says anything of it any more."""
    ref = customer()
    stage.want(ref)
    stage.reread(ref, alive(MARK))
    stage.record("evt_order", Named(order()), payload={"id": "evt", "customer": {"id": ref.id, "email": MARK}})
    stage.reread(order(), alive("of hers", customer=ref.id))

    erased(stage, ref)

    assert stage.row(order()) is not None
    assert stage.event("evt_order").payload == {}
    assert stage.event("evt_order").outcome == "done"


WAYS: dict[str, Callable[[Stage, ObjectRef], Any]] = {
    "read": lambda stage, ref: stage.apply(stage.reading(ref, alive(MARK), (stage.position(), stage.position()))),
    "list": lambda stage, ref: stage.apply(
        stage.reading(ref, alive(MARK), (stage.position(), stage.position()), listed=True)
    ),
    "absence": lambda stage, ref: stage.apply(
        stage.reading(ref, alive(MARK), (1, 2)), origin=Origin(Via.SWEEP, run_id=1)
    ),
    "webhook": lambda stage, ref: stage.record("evt_new", Named(ref), payload={"id": ref.id, "email": MARK}),
    "mention": lambda stage, ref: stage.record(
        "evt_new", payload={"customer": f"gid://shopify/Customer/{ref.id}?x", "email": MARK}
    ),
    "repeat": lambda stage, ref: stage.record(f"evt_1_{ref.id[-1]}{ref.kind}", Named(ref), payload={"email": MARK}),
    "replay": lambda stage, _: stage.run(events.replay),
    "drift": lambda stage, ref: stage.run(
        lambda c: runs.drifted(c, [Drift(ref, "missing", "other", [])], run_id=None, repaired=True)
    ),
    "hint": lambda stage, ref: stage.run(lambda c: runs.ask(c, 1, [Hint(ref)], {ref: 1})),
    "poison": lambda stage, ref: guard.apply_apart(
        stage.database,
        [stage.reading(ref, alive(MARK, stamp=1), (stage.position(), stage.position()))],
        origin=Origin(Via.SWEEP),
        mirror=stage.mirror,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_does_not_come_back(stage: Stage, way: str) -> None:
    """Whatever reads, lists, delivers, repeats or replays it: nothing of it is stored."""
    ref = customer()
    fill(stage, ref)
    erased(stage, ref)

    WAYS[way](stage, ref)

    assert found(stage) == {}
    assert found(stage, ref.id) == {}


def test_what_is_linked_does_not_come_back(stage: Stage) -> None:
    """What was forgotten with all that is linked keeps out what is found to be linked later; nothing else does."""
    stage.want(customer(1))
    stage.want(customer(2))
    erased(stage, customer(1), related=True)
    erased(stage, customer(2))

    [kept_out] = stage.apply(stage.reading(order(1), alive(MARK, customer=customer(1).id), (1, 2)))
    [kept] = stage.apply(stage.reading(order(2), alive("hers", customer=customer(2).id), (1, 2)))

    assert (kept_out.forgotten, kept.forgotten) == (True, False)
    assert stage.row(order(1)) is None
    assert stage.row(order(2)) is not None


def test_a_read_that_was_under_way(stage: Stage) -> None:
    """Who had it leased when it was forgotten applies nothing, and leaves no refetch behind."""
    ref = customer()
    fill(stage, ref)
    stage.execute("UPDATE refetches SET dead_at = NULL")
    stage.want(ref)
    leased = stage.leased(ref)

    erased(stage, ref)
    outcome = stage.conclude(leased, alive(MARK))

    assert outcome.forgotten
    assert found(stage) == {}


def test_events_that_waited(stage: Stage) -> None:
    """An event that waited only for it is over; one that names others, too, waits for those."""
    ref, other = customer(), ObjectRef(SOURCE, "", UNSTAMPED, "cus_other")
    stage.record("evt_alone", Named(ref))
    stage.record("evt_both", Named(ref), Named(other))

    erased(stage, ref)
    waits = stage.event("evt_both").outcome
    stage.reread(other, alive("other"))

    assert stage.event("evt_alone").outcome == "skipped"
    assert (waits, stage.event("evt_both").outcome) == (None, "done")
    assert stage.record("evt_alone", Named(ref)).duplicate


@pytest.mark.parametrize("writing", ["apply", "receive", "want", "replay", "drain"])
@pytest.mark.parametrize("first", ["writer", "forget"])
def test_interleaved(stage: Stage, writing: str, first: str) -> None:
    """Whoever writes it while it is being forgotten has written before, and that is erased, or finds it forgotten."""
    ref = customer()
    fill(stage, ref)
    stage.execute("UPDATE refetches SET dead_at = NULL, due_at = :now", now=stage.clock)
    stage.want(ref)
    leased = stage.leased(ref)

    def write(connection: Connection) -> object:
        if writing == "apply":
            reading = stage.reading(ref, alive(MARK, n=2), (stage.position(), None))
            return guard.apply(connection, [reading], origin=Origin(Via.SWEEP), mirror=stage.mirror)
        if writing == "receive":
            return events.receive(connection, [stage.arrival("evt_new", Named(ref), payload={"email": MARK})])
        if writing == "want":
            gone = forgetting.among(connection, [ref]).refs
            return refetches.want(connection, [] if gone else [refetches.Want(ref, Reason.TRIGGER)])
        if writing == "replay":
            return events.replay(connection, source=SOURCE)
        return stage.conclude_in(connection, leased, alive(MARK, n=2))

    if first == "writer":
        with ThreadPoolExecutor(1) as pool:
            with stage.database.transaction() as connection:
                write(connection)
                forgets = pool.submit(erased, stage, ref)
                wait_for_a_lock(stage)
                assert not forgets.done()
            forgets.result(PATIENCE)
    else:
        with ThreadPoolExecutor(1) as pool:
            with stage.database.transaction() as connection:
                statements.rows(connection, "lock_forgetting")
                writes = pool.submit(stage.database.commit, write)
                wait_for_a_lock(stage)
                forget_within(connection, ref)
            writes.result(PATIENCE)

    assert found(stage) == {}


def forget_within(connection: Connection, ref: ObjectRef) -> None:
    """Erase *ref* in a transaction that keeps everybody out."""
    keys = {"scope": [ref.scope], "kind": [ref.kind], "id": [ref.id]}
    told: dict[str, Any] = keys | {"source": SOURCE, "now": None}
    told["now"] = statements.one(connection, "clock", {"now": None}).now
    statements.rows(connection, "give_way")
    statements.rows(connection, "forget_objects", told | {"event_ids": []})
    statements.rows(connection, "mark_forgotten", told | {"related": [False]})


def test_many_writers(stage: Stage) -> None:
    """Of four who write it again and again, and one who forgets it twice, nobody hangs, and nothing is left."""
    ref = customer()
    fill(stage, ref)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            stage.record("evt_1_1customer", Named(ref), payload={"email": MARK})
            stage.apply(stage.reading(ref, alive(MARK), (stage.position(), None)))
            if leased := stage.lease(ref):
                stage.conclude(leased, alive(MARK))

    def forgets() -> None:
        try:
            erased(stage, ref)
            erased(stage, ref)
        finally:
            stop.set()

    together(write, write, write, write, forgets)

    assert found(stage) == {}


def test_somebody_in_the_way(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a row for long is waited for, and then it is said; meanwhile others write."""
    ref = customer()
    fill(stage, ref)
    monkeypatch.setattr(forgetting, "_TRIES", 3)

    with stage.database.transaction() as connection:
        connection.exec_driver_sql("SELECT FROM objects FOR UPDATE")
        with pytest.raises(DatabaseUnavailable, match="stays in use"):
            erased(stage, ref)
        stage.record("evt_meanwhile", Named(order()))

    assert found(stage)
    assert erased(stage, ref).kinds == {UNSTAMPED: 1}
    assert found(stage, ref.id) == {}


@pytest.mark.parametrize("statement", ["forget_objects", "mark_forgotten"])
def test_all_or_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Who dies in between has erased nothing and marked nothing."""
    ref = customer()
    fill(stage, ref)
    before = found(stage)
    plain = statements.rows

    def dies(connection: Connection, name: str, *parameters: Any) -> Any:
        answer = plain(connection, name, *parameters)
        if name == statement:
            raise KeyboardInterrupt
        return answer

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the patch goes with it
        patched.setattr(statements, "rows", dies)
        erased(stage, ref)

    assert found(stage) == before
    assert stage.query("SELECT * FROM forgotten") == []


def test_receipt(stage: Stage) -> None:
    """A receipt names nobody, is the same when asked again, and holds only unchanged and in this mirror."""
    ref = customer()
    fill(stage, ref)

    told = erased(stage, ref).told()
    again = erased(stage, ref).told()

    def holds(**changed: Any) -> bool:
        return stage.run(lambda c: forgetting.holds(c, told | changed))

    assert MARK not in str(told)
    assert (again["markers"], again["erased"]) == (told["markers"], {})
    assert holds()
    assert not any(
        (holds(erased={}), holds(source="other"), holds(markers=[]), holds(markers=["0" * 64]), holds(proof=None))
    )
    stage.execute("DELETE FROM forgotten")
    assert not holds()


def test_markers_say_nothing(stage: Stage) -> None:
    """The same id has another marker in another mirror, and no hash without the key is one."""
    erased(stage, customer())
    [first] = stage.query("SELECT marker, mention FROM forgotten")
    stage.execute("DELETE FROM forgotten")
    stage.execute("DELETE FROM forgetting_key")
    erased(stage, customer())
    [second] = stage.query("SELECT marker, mention FROM forgotten")

    assert len({first.marker, first.mention, second.marker, second.mention}) == 4
    [key] = stage.query("SELECT inner_key, outer_key FROM forgetting_key")
    assert (len(key.inner_key), len(key.outer_key), key.inner_key == key.outer_key) == (64, 64, False)


def test_the_source_goes_and_comes(stage: Stage) -> None:
    """A source that is erased, or renamed, does not bring back what was forgotten of it."""
    ref = customer()
    stage.want(ref)
    erased(stage, ref)

    stage.run(lambda c: sources.rename(c, SOURCE, "new-name"))
    renamed = stage.run(lambda c: forgetting.among(c, [ObjectRef("new-name", *ref_of(ref))]).refs)
    stage.run(lambda c: sources.erase(c, "new-name"))
    later = stage.run(lambda c: forgetting.among(c, [ObjectRef("new-name", *ref_of(ref))]).refs)

    assert len(renamed) == len(later) == 1
    assert stage.run(lambda c: forgetting.among(c, [ref]).refs) == frozenset()


def ref_of(ref: ObjectRef) -> tuple[str, str, str]:
    """Return where in its source an object lives."""
    return ref.scope, ref.kind, ref.id


def test_short_ids_are_numbers(stage: Stage) -> None:
    """An id that may be any number keeps its object out, and no payload that shows such a number."""
    ref = ObjectRef(SOURCE, "7", STAMPED, "12")
    stage.want(ref)
    erased(stage, ref)

    stage.record("evt_twelve", payload={"number": 12})
    [outcome] = stage.apply(stage.reading(ref, alive(), (1, 2)))

    assert stage.event("evt_twelve").payload == {"number": 12}
    assert outcome.forgotten
    assert stage.run(lambda c: forgetting.among(c, [ObjectRef(SOURCE, "8", STAMPED, "12")]).refs) == frozenset()
