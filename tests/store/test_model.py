"""Every world of a small size, looked at whole; and that the statements do what the model says they do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.model import Named, ObjectRef, Origin, Reason, Via
from reconciler.store import guard, refetches, statements
from reconciler.store.refetches import Alive, Seen, Want
from tests.store.model import AT_ONCE, Model, Page, Refetch, Row, Rule, Size, explore, ordered
from tests.store.stage import SOURCE, Shown, at

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.store.refetches import Leased
    from tests.store.model import Event, State, Worker
    from tests.store.stage import Stage

_CHANGING = Size(lives=(("a", "b", "c"),), copies=1, crashes=0)
_TWICE_TOLD = Size(lives=(("a", "b"),))
_STAMPED = Size(lives=(("a", "b", "c"),), stamps=(0, 0, 1), copies=1, crashes=0)
_GOING = Size(lives=(("a", None, "b"),), copies=1, crashes=0, expiries=0)
_TOGETHER = Size(lives=(("a", "b"), ("a", "b")), joint=True, copies=1, sweeps=0)
_TOGETHER_TWICE = replace(_TOGETHER, copies=2, crashes=0, expiries=0)
SIZES = {
    "changing": _CHANGING,
    "twice told": _TWICE_TOLD,
    "stamped": _STAMPED,
    "going": _GOING,
    "together": _TOGETHER,
    "together, twice told": _TOGETHER_TWICE,
}
NEEDED = {
    "remembers": _TWICE_TOLD,
    "holds": _TWICE_TOLD,
    "waits_for_all": _TOGETHER,
    "judges": _TWICE_TOLD,
    "rereads": _STAMPED,
    "draws": _STAMPED,
}
"""A world in which each promise is missed."""

_STEPS = 40


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
def test_every_world_is_right(size: Size) -> None:
    """Whatever the order: no row goes back, no event is done too early or never, and the mirror ends right."""
    found = explore(Model(size))
    assert (found.wrong, found.story) == ("", ())
    assert found.worlds > 100


@pytest.mark.parametrize(("promise", "size"), NEEDED.items(), ids=NEEDED.keys())
def test_every_promise_is_needed(promise: str, size: Size) -> None:
    """Without it a law is broken, as it was in a draft of the design."""
    assert explore(Model(size, Rule(**{promise: False}))).wrong


class Played:
    """The same world on real statements: its workers, pages and leases are known by the model's positions."""

    def __init__(self, stage: Stage, size: Size) -> None:
        self.stage = replace(stage, mirror=replace(stage.mirror, rules=AT_ONCE))
        self.size = size
        self._number = stage.ref().id
        self.refs = [ObjectRef(SOURCE, "", size.kind, f"{self._number}-{about}") for about in range(len(size.lives))]
        self._leases: dict[int, Leased] = {}
        self._page: Page | None = None

    def do(self, action: tuple[str, int], before: State, after: State) -> None:
        """Do here what the model did to come from *before* to *after*."""
        self.stage.tick(1)
        match action:
            case "deliver", number:
                told = before.events[number].named
                named = [Named(self.refs[about], self._moment(level)) for about, level in told]
                self.stage.record(self._event_id(number), *named)
            case "lease", about:
                [worker] = {*after.workers} - {*before.workers}
                assert worker is not None
                self._leases[worker.read_from] = self.stage.leased(self.refs[about])
            case "apply", number:
                worker = before.workers[number]
                assert worker is not None
                assert worker.level is not None
                self.stage.conclude(self._leases[worker.read_from], self._shown(worker.about, worker.level))
            case "expire", about:
                self._expire(self.refs[about])
            case "sweep", _:
                self._sweep(before)

    def state(self, model: State) -> State:
        """Return the world as it stands here; what only the model knows is taken from there."""
        return model._replace(
            events=tuple(self._event(number, each) for number, each in enumerate(model.events)),
            refetches=tuple(map(self._refetch, self.refs)),
            rows=tuple(self._row(ref, each) for ref, each in zip(self.refs, model.rows, strict=True)),
            workers=tuple(None if each is None else self._worker(each) for each in model.workers),
            page=self._page,
        )

    def _shown(self, about: int, level: int) -> Shown:
        content = self.size.lives[about][level]
        return Shown(None if content is None else {"name": content}, self._moment(level))

    def _moment(self, level: int) -> datetime | None:
        stamp = self.size.stamp(level)
        return None if stamp is None else at(stamp)

    def _event_id(self, number: int) -> str:
        return f"{self._number}/{number}"

    def _expire(self, ref: ObjectRef) -> None:
        statement = "UPDATE refetches SET leased_until = :now WHERE (scope, kind, id) = (:scope, :kind, :id)"
        self.stage.execute(statement, now=self.stage.clock, scope=ref.scope, kind=ref.kind, id=ref.id)

    def _sweep(self, before: State) -> None:
        if self._page is None:
            self._page = Page(self.stage.position())
        elif not self._page.levels:
            self._page = self._page._replace(read_until=self.stage.position(), levels=before.levels)
        else:
            page, self._page = self._page, None
            self.stage.run(lambda connection: self._take(connection, page))

    def _take(self, connection: Connection, page: Page) -> None:
        """Apply what is on a page, and want what is not on it any more."""
        shown = {self.refs[about]: self._shown(about, level) for about, level in enumerate(page.levels)}
        span = (page.read_from, page.read_until)
        listed = [self.stage.reading(ref, each, span, listed=True) for ref, each in shown.items() if each.body]
        stage = self.stage
        guard.apply(connection, listed, origin=Origin(Via.CRAWL), mirror=stage.mirror, now=stage.clock)
        for ref in [ref for ref, each in shown.items() if each.body is None]:
            row = statements.row(connection, "object", refetches.key(ref))
            if row is not None and row.deleted_at is None:
                refetches.want(connection, [Want(ref, Reason.SWEEP)], now=stage.clock)

    def _event(self, number: int, model: Event) -> Event:
        found = self.stage.query("SELECT outcome FROM webhook_events WHERE event_id = :id", id=self._event_id(number))
        if not found:
            return model._replace(state="unknown", waits=())
        waits = self.stage.query(
            "SELECT wanted FROM event_objects WHERE event_id = :id ORDER BY id", id=self._event_id(number)
        )
        return model._replace(state=found[0].outcome or "open", waits=tuple(each.wanted for each in waits))

    def _refetch(self, ref: ObjectRef) -> Refetch | None:
        found = self.stage.query(
            "SELECT * FROM refetches WHERE (scope, kind, id) = (:scope, :kind, :id)",
            scope=ref.scope, kind=ref.kind, id=ref.id,
        )  # fmt: skip
        if not found:
            return None
        [row] = found
        tokens = {leased.token: leased.read_from for leased in self._leases.values()}
        seen = self.stage.run(lambda connection: refetches.seen(connection, ref))
        return Refetch(
            wanted=row.wanted,
            done=row.done,
            lease=tokens.get(row.lease_token, 0),
            over=row.leased_until is not None and row.leased_until <= self.stage.clock,
            remembered=row.leased_wanted or 0,
            again=int(row.again_at is not None),
            seen=seen,
        )

    def _row(self, ref: ObjectRef, model: Row | None) -> Row | None:
        found = self.stage.row(ref)
        if found is None:
            return None
        stamp = None
        if self.size.stamps is not None and found.source_updated_at is not None:
            stamp = round((found.source_updated_at - at(0)).total_seconds())
        content = None if found.body is None else json.loads(found.body)["name"]
        level = -1 if model is None else model.level
        return Row(level, content, stamp, found.read_from, found.read_until, found.deleted_at is not None)

    def _worker(self, model: Worker) -> Worker:
        leased = self._leases[model.read_from]
        return model._replace(read_from=leased.read_from, remembered=leased.wanted)


def plain(state: State) -> State:
    """Return a world as far as both sides tell it alike: here times say when a reread is due and a ladder began."""
    refetches_plain = [
        None
        if each is None
        else each._replace(again=0, seen=Seen(alive=each.seen.alive and Alive(each.seen.alive.until, at(0))))
        for each in state.refetches
    ]
    return ordered(state._replace(refetches=tuple(refetches_plain), last=0))


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.integers(0, 10**6), max_size=_STEPS))
def test_statements_keep_step(stage: Stage, size: Size, turns: list[int]) -> None:
    """Whatever happens, in whatever order: the tables stand as the model says."""
    model, played = Model(size), Played(stage, size)
    state = model.first()
    for turn in turns:
        possible = list(model.next(state))
        if not possible:
            break
        action, after = possible[turn % len(possible)]
        played.do(action, state, after)
        state = after
        assert plain(played.state(state))._asdict() == plain(state)._asdict(), action
