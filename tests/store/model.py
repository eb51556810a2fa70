"""
A model of receive, want, lease, fetch, apply, settle, sweep and crash: small enough to look at all of it.

Its guard is the real one (`guard.judge`); the rest says in a few lines what the statements of `refetches.sql` and
`events.sql` promise, and `test_model.py` holds the two together. Nothing waits: whatever has a time has come. Reads
are honest: a provider shows what it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from reconciler.model import ObjectRef, Proof, Reading, Snapshot, Verdict
from reconciler.store import guard
from reconciler.store.guard import Incoming, Stored
from reconciler.store.mirror import Rules
from reconciler.store.refetches import Seen
from tests.store.stage import NO_STOP, SOURCE, STAMPED, UNSTAMPED, at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.store.guard import Judgement

AT_ONCE: Final = Rules(
    read_lag=timedelta(0), rewound_after=timedelta(0), absence_recheck=timedelta(0), share_stop=NO_STOP
)
"""Times that have always come."""

_NOW = at(0)
_UNSEEN = Seen()


@dataclass(frozen=True, slots=True)
class Size:
    """
    A world to be explored, and how much may happen in it.

    Attributes:
        lives: What each object is, state by state; None: it is not there.
        stamps: The stamp of each state; None: its kind has none.
        joint: All objects change at once, and one event names them all.
        copies: How often each event may arrive; it may arrive never.
        crashes: Workers that die with all they know.
        expiries: Leases that end while their worker works on.
    """

    lives: tuple[tuple[str | None, ...], ...]
    stamps: tuple[int, ...] | None = None
    joint: bool = False
    copies: int = 2
    workers: int = 2
    crashes: int = 1
    expiries: int = 1
    sweeps: int = 1

    @property
    def kind(self) -> str:
        """The kind of its objects."""
        return UNSTAMPED if self.stamps is None else STAMPED

    def stamp(self, level: int) -> int | None:
        """Return the stamp of a state."""
        return None if self.stamps is None else self.stamps[level]


class Event(NamedTuple):
    """One event: the states it tells of, by object; how many copies are on their way; how it stands here."""

    named: tuple[tuple[int, int], ...]
    copies: int
    state: str = "unknown"
    waits: tuple[int, ...] = ()


class Refetch(NamedTuple):
    """A row of `refetches`; a lease is known by where its read begins, and once over it stands until the next."""

    wanted: int = 0
    done: int = 0
    lease: int = 0
    over: bool = False
    remembered: int = 0
    again: int = 0
    seen: Seen = _UNSEEN

    @property
    def due(self) -> bool:
        """Whether there is something to read."""
        return self.wanted > self.done or self.again > 0


class Row(NamedTuple):
    """A row of `objects`, and the state that it was last seen to show."""

    level: int
    content: str | None
    stamp: int | None
    read_from: int
    read_until: int
    deleted: bool


class Worker(NamedTuple):
    """A worker with a lease of its own, or one that was; with what it fetched."""

    about: int
    read_from: int
    remembered: int
    level: int | None = None


class Page(NamedTuple):
    """A page that lists everything: asked for, then answered."""

    read_from: int
    read_until: int = 0
    levels: tuple[int, ...] = ()


class State(NamedTuple):
    """All there is; positions matter by their order only."""

    levels: tuple[int, ...]
    events: tuple[Event, ...]
    refetches: tuple[Refetch | None, ...]
    rows: tuple[Row | None, ...]
    workers: tuple[Worker | None, ...]
    page: Page | None
    crashes: int
    expiries: int
    sweeps: int
    last: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """
    The promises that a draft of the design had otherwise; each can be taken back to see that it is needed.

    Attributes:
        remembers: A settled read covers what was wanted when it was leased; else: all that is wanted by now.
        holds: Only the holder of a lease settles; else: whoever has read, as if it were.
        waits_for_all: An event is done when all its objects are; else: with the first.
        judges: The guard decides; else: the last writer.
        rereads: What is tied or declined is read again.
        draws: A page's interval begins before it is asked for; else: when it is handed on.
    """

    remembers: bool = True
    holds: bool = True
    waits_for_all: bool = True
    judges: bool = True
    rereads: bool = True
    draws: bool = True


class Model:
    """What can happen in a world of this size, and to what it leads."""

    def __init__(self, size: Size, rule: Rule | None = None) -> None:
        self.size = size
        self.rule = rule or Rule()
        self._judged = cache(self._judge)

    def first(self) -> State:
        """Return the world before anything happens."""
        size, objects = self.size, len(self.size.lives)
        return State(
            levels=(0,) * objects,
            events=(),
            refetches=(None,) * objects,
            rows=(None,) * objects,
            workers=(None,) * size.workers,
            page=None,
            crashes=size.crashes,
            expiries=size.expiries,
            sweeps=size.sweeps,
        )

    def next(self, state: State) -> Iterator[tuple[tuple[str, int], State]]:
        """Yield each thing that can happen now, and the world after it."""
        for name, numbers, act in (
            ("change", range(1 if self.size.joint else len(state.levels)), self._change),
            ("deliver", range(len(state.events)), self._deliver),
            ("lose", range(len(state.events)), self._lose),
            ("lease", range(len(state.levels)), self._lease),
            ("fetch", range(len(state.workers)), self._fetch),
            ("apply", range(len(state.workers)), self._apply),
            ("crash", range(len(state.workers)), self._crash),
            ("expire", range(len(state.levels)), self._expire),
            ("sweep", range(1), self._sweep),
        ):
            for number in numbers:
                after = act(state, number)
                if after is not None:
                    yield (name, number), after

    def after(self, state: State, action: tuple[str, int]) -> State:
        """Return the world after *action*, which can happen now."""
        return dict(self.next(state))[action]

    def wrong(self, before: State, after: State) -> str:
        """Return the law that a step has broken; empty: none."""
        for about, (old, new) in enumerate(zip(before.rows, after.rows, strict=True)):
            if old is not None and new is not None and new.level < old.level:
                return f"the row of object {about} went back from state {old.level} to {new.level}"
        for event in after.events:
            if event.state == "done":
                for about, level in event.named:
                    row = after.rows[about]
                    if row is None or row.level < level:
                        return (
                            f"an event that told of state {level} of object {about} is done, and the row is not there"
                        )
        return ""

    def stands(self, state: State) -> bool:
        """Whether every row shows what the provider has."""
        for life, level, row in zip(self.size.lives, state.levels, state.rows, strict=True):
            there = life[level]
            if row is None or row.deleted is not (there is None) or (there is not None and row.content != there):
                return False
        return True

    def told_of_all(self, state: State) -> bool:
        """Whether the last change of every object was told, once at least."""
        told = {named for event in state.events if event.state != "unknown" for named in event.named}
        return all((about, level) in told for about, level in enumerate(state.levels))

    def quieted(self, state: State) -> State:
        """Return the world after one full sweep and all that it asks for, nothing else happening."""
        state = self._sweep(self._sweep(self._sweep(state._replace(sweeps=1), 0), 0), 0) or state
        for _ in range(50):
            if all(refetch is None or not refetch.due for refetch in state.refetches):
                return state
            for about in range(len(state.levels)):
                leased = self._lease(state, about)
                if leased is not None:
                    fetched = self._fetch(leased, leased.workers.index(_working_on(leased, about)))
                    assert fetched is not None
                    state = self._apply(fetched, fetched.workers.index(_working_on(fetched, about))) or fetched
        message = "objects are read again and again"
        raise AssertionError(message)

    # --- what happens ---

    def _change(self, state: State, number: int) -> State | None:
        chosen = range(len(state.levels)) if self.size.joint else (number,)
        if any(state.levels[about] + 1 >= len(self.size.lives[about]) for about in chosen):
            return None
        levels = tuple(level + (about in chosen) for about, level in enumerate(state.levels))
        event = Event(tuple((about, levels[about]) for about in chosen), self.size.copies)
        return state._replace(levels=levels, events=(*state.events, event))

    def _lose(self, state: State, number: int) -> State | None:
        event = state.events[number]
        return None if not event.copies else _with_event(state, number, event._replace(copies=event.copies - 1))

    def _deliver(self, state: State, number: int) -> State | None:
        event = state.events[number]
        if not event.copies:
            return None
        event = event._replace(copies=event.copies - 1)
        if event.state == "done":
            return _with_event(state, number, event)
        waits = []
        for about, level in event.named:
            row, stamp = state.rows[about], self.size.stamp(level)
            if (
                stamp is not None
                and row is not None
                and not row.deleted
                and row.stamp is not None
                and row.stamp > stamp
            ):
                waits.append(0)
                continue
            state = self._want(state, about)
            waits.append(state.last)
        event = event._replace(state="open", waits=tuple(waits))
        return self._closed(_with_event(state, number, event), [number] if 0 in waits else [])

    def _lease(self, state: State, about: int) -> State | None:
        refetch = state.refetches[about]
        if refetch is None or not refetch.due or (refetch.lease and not refetch.over) or None not in state.workers:
            return None
        position = state.last + 1
        worker = Worker(about, position, refetch.wanted)
        state = _with_worker(state._replace(last=position), state.workers.index(None), worker)
        return _with_refetch(state, about, refetch._replace(lease=position, over=False, remembered=refetch.wanted))

    def _fetch(self, state: State, number: int) -> State | None:
        worker = state.workers[number]
        if worker is None or worker.level is not None:
            return None
        return _with_worker(state, number, worker._replace(level=state.levels[worker.about]))

    def _apply(self, state: State, number: int) -> State | None:
        worker = state.workers[number]
        if worker is None or worker.level is None:
            return None
        about = worker.about
        asked = self._asked(state, worker)
        state = state._replace(last=state.last + 1)
        interval = (worker.read_from, state.last)
        state, wanted = self._write(state, about, worker.level, interval, listed=False)
        state = _with_worker(state, number, None)
        refetch = state.refetches[about]
        assert refetch is not None
        if self.rule.holds and refetch.lease != worker.read_from:
            return state
        covered = refetch.remembered if self.rule.remembers else refetch.wanted
        done = max(refetch.done, covered)
        state = _with_refetch(state, about, refetch._replace(done=done, lease=0, over=False, remembered=0))
        if wanted:
            for index in asked:
                event = state.events[index]
                waits = tuple(
                    wanted if named == about else wait
                    for (named, _), wait in zip(event.named, event.waits, strict=True)
                )
                state = _with_event(state, index, event._replace(waits=waits))
        return self._closed(state, asked)

    def _crash(self, state: State, number: int) -> State | None:
        if state.workers[number] is None or not state.crashes:
            return None
        return _with_worker(state._replace(crashes=state.crashes - 1), number, None)

    def _expire(self, state: State, about: int) -> State | None:
        refetch = state.refetches[about]
        if refetch is None or not refetch.lease or refetch.over:
            return None
        if any(worker is not None and worker.read_from == refetch.lease for worker in state.workers):
            if not state.expiries:
                return None
            state = state._replace(expiries=state.expiries - 1)
        return _with_refetch(state, about, refetch._replace(over=True))

    def _sweep(self, state: State | None, _: int) -> State | None:
        """Ask for the page, have it answered, or apply it: whatever is next."""
        assert state is not None
        page = state.page
        if page is None:
            if not state.sweeps:
                return None
            last = state.last + 1
            return state._replace(page=Page(last), sweeps=state.sweeps - 1, last=last)
        if not page.levels:
            last = state.last + 1
            return state._replace(page=page._replace(read_until=last, levels=state.levels), last=last)
        state = state._replace(page=None, last=state.last + 1)
        interval = (page.read_from, page.read_until) if self.rule.draws else (state.last, state.last)
        for about, level in enumerate(page.levels):
            if self.size.lives[about][level] is not None:
                state, _wanted = self._write(state, about, level, interval, listed=True)
        for about, level in enumerate(page.levels):
            row = state.rows[about]
            if self.size.lives[about][level] is None and row is not None and not row.deleted:
                state = self._want(state, about)
        return state

    # --- what the statements promise ---

    def _want(self, state: State, about: int) -> State:
        refetch = state.refetches[about] or Refetch()
        position = state.last + 1
        return _with_refetch(state._replace(last=position), about, refetch._replace(wanted=position))

    def _asked(self, state: State, worker: Worker) -> list[int]:
        """Return the events that this read may close."""
        refetch = state.refetches[worker.about]
        assert refetch is not None
        return [
            index
            for index, event in enumerate(state.events)
            for (about, _), wait in zip(event.named, event.waits, strict=False)
            if about == worker.about and refetch.done < wait <= worker.remembered
        ]

    def _closed(self, state: State, numbers: list[int]) -> State:
        for number in numbers:
            event = state.events[number]
            read = [
                wait <= (refetch.done if (refetch := state.refetches[about]) is not None else 0)
                for (about, _), wait in zip(event.named, event.waits, strict=True)
            ]
            if all(read) if self.rule.waits_for_all else any(read):
                state = _with_event(state, number, event._replace(state="done"))
        return state

    def _write(
        self, state: State, about: int, level: int, interval: tuple[int, int], *, listed: bool
    ) -> tuple[State, int]:
        """Apply one snapshot; return the world, and the number of the reread that it asked for, or 0."""
        row, refetch = state.rows[about], state.refetches[about]
        content, stamp = self.size.lives[about][level], self.size.stamp(level)
        seen = refetch.seen if refetch is not None and not listed else _UNSEEN
        judged = self._judged(row, content, stamp, interval, seen, listed=listed)
        if judged.verdict is Verdict.APPLIED:
            kept = row.content if content is None and row is not None else content
            kept_stamp = row.stamp if content is None and row is not None else stamp
            row = Row(level, kept, kept_stamp, *interval, deleted=content is None)
        elif judged.verdict is Verdict.UNCHANGED and row is not None:
            newest = stamp if row.stamp is None or (stamp is not None and stamp > row.stamp) else row.stamp
            row = row._replace(
                level=max(row.level, level),
                stamp=row.stamp if content is None else newest,
                read_from=max(row.read_from, interval[0]),
                read_until=max(row.read_until, interval[1]),
            )
        state = state._replace(rows=(*state.rows[:about], row, *state.rows[about + 1 :]))
        return self._read_again(state, about, judged, began=interval[0], listed=listed)

    def _read_again(
        self, state: State, about: int, judged: Judgement, *, began: int, listed: bool
    ) -> tuple[State, int]:
        refetch = state.refetches[about]
        wants = bool(judged.again) and judged.verdict not in {Verdict.APPLIED, Verdict.UNCHANGED}
        if not self.rule.rereads and judged.verdict is not None:
            wants = False
        if refetch is None:
            if not judged.again:
                return state, 0
            refetch = Refetch()
        if not listed:
            again = 0 if began > refetch.again else refetch.again
            refetch = refetch._replace(seen=judged.seen, again=again)
        elif judged.verdict is Verdict.APPLIED:
            refetch = refetch._replace(seen=refetch.seen.climbed_down())
        if judged.again and not wants and self.rule.rereads:
            refetch = refetch._replace(again=state.last)
        state = _with_refetch(state, about, refetch)
        if not wants:
            return state, 0
        state = self._want(state, about)
        return state, state.last

    def _judge(
        self,
        row: Row | None,
        content: str | None,
        stamp: int | None,
        interval: tuple[int, int],
        seen: Seen,
        *,
        listed: bool,
    ) -> Judgement:
        if not self.rule.judges and row is not None:
            return guard.Judgement(Verdict.APPLIED, seen=seen)
        moment = None if stamp is None else at(stamp)
        body = None if content is None else {"name": content}
        proof = Proof.STATED if content is None else None
        snapshot = Snapshot(ObjectRef(SOURCE, "", self.size.kind, "1"), body, moment, _NOW, proof=proof)
        reading = Reading(snapshot, *interval, began_at=_NOW, listed=listed)
        incoming = Incoming(reading, interval[1], self.size.stamps is not None, moment, content, 1, asked=False)
        stored = None
        if row is not None:
            held = None if row.stamp is None else at(row.stamp)
            stored = Stored(held, row.read_from, row.read_until, row.content, 1, row.deleted)
        return guard.judge(stored, incoming, seen, rules=AT_ONCE, now=_NOW)


def ordered(state: State) -> State:
    """Return the same world, its positions numbered from 1 on and its workers in order: no more tells worlds apart."""
    found = {0}
    for event in state.events:
        found.update(event.waits)
    for refetch in state.refetches:
        if refetch is not None:
            found.update((refetch.wanted, refetch.done, refetch.lease, refetch.remembered, refetch.again))
            found.update({refetch.seen.until} - {-1})
    for row in state.rows:
        if row is not None:
            found.update((row.read_from, row.read_until))
    for worker in state.workers:
        if worker is not None:
            found.update((worker.read_from, worker.remembered))
    if state.page is not None:
        found.update((state.page.read_from, state.page.read_until))
    rank = {position: number for number, position in enumerate(sorted(found))}
    return renumbered(state, lambda position: rank[position], last=len(rank) - 1)


def renumbered(state: State, rank: Callable[[int], int], *, last: int) -> State:
    """Return the same world with every position replaced by its rank."""
    workers = [
        None if each is None else each._replace(read_from=rank(each.read_from), remembered=rank(each.remembered))
        for each in state.workers
    ]
    return state._replace(
        events=tuple(each._replace(waits=tuple(map(rank, each.waits))) for each in state.events),
        refetches=tuple(None if each is None else _ranked(each, rank) for each in state.refetches),
        rows=tuple(
            None if each is None else each._replace(read_from=rank(each.read_from), read_until=rank(each.read_until))
            for each in state.rows
        ),
        workers=tuple(sorted(workers, key=lambda each: (each is None, 0 if each is None else each.read_from))),
        page=None
        if state.page is None
        else state.page._replace(read_from=rank(state.page.read_from), read_until=rank(state.page.read_until)),
        last=last,
    )


def _ranked(refetch: Refetch, rank: Callable[[int], int]) -> Refetch:
    seen = refetch.seen
    if seen.alive is not None:
        seen = replace(seen, alive=replace(seen.alive, until=rank(seen.alive.until)))
    return refetch._replace(
        wanted=rank(refetch.wanted),
        done=rank(refetch.done),
        lease=rank(refetch.lease),
        remembered=rank(refetch.remembered),
        again=rank(refetch.again),
        seen=seen,
    )


def _working_on(state: State, about: int) -> Worker:
    return next(each for each in state.workers if each is not None and each.about == about)


def _with_event(state: State, number: int, event: Event) -> State:
    return state._replace(events=(*state.events[:number], event, *state.events[number + 1 :]))


def _with_refetch(state: State, about: int, refetch: Refetch) -> State:
    return state._replace(refetches=(*state.refetches[:about], refetch, *state.refetches[about + 1 :]))


def _with_worker(state: State, number: int, worker: Worker | None) -> State:
    return state._replace(workers=(*state.workers[:number], worker, *state.workers[number + 1 :]))


@dataclass(frozen=True, slots=True)
class Explored:
    """
    How many worlds there are, and the first that breaks a law.

    Attributes:
        story: What happened until then; empty: nothing is wrong.
    """

    worlds: int
    wrong: str = ""
    story: tuple[tuple[str, int], ...] = ()


def explore(model: Model) -> Explored:
    """Look at every world that can come about, the nearest first, and stop at the first that breaks a law."""
    first = ordered(model.first())
    came_from: dict[State, tuple[State, tuple[str, int]] | None] = {first: None}
    level = [first]
    while level:
        further: list[State] = []
        for state in level:
            wrong, is_last = "", True
            for action, after in model.next(state):
                is_last = False
                wrong = model.wrong(state, after)
                known = ordered(after)
                if known not in came_from:
                    came_from[known] = (state, action)
                    further.append(known)
                if wrong:
                    return Explored(len(came_from), wrong, _story(came_from, known))
            if is_last:
                wrong = _wrong_in_the_end(model, state)
                if wrong:
                    return Explored(len(came_from), wrong, _story(came_from, state))
        level = further
    return Explored(len(came_from))


def _wrong_in_the_end(model: Model, state: State) -> str:
    if any(event.state == "open" for event in state.events):
        return "an event stays open though nothing is left to read"
    if model.told_of_all(state) and not model.stands(state):
        return "every last change was told, and the mirror is not the provider"
    if not model.stands(model.quieted(state)):
        return "after a full sweep the mirror is not the provider"
    return ""


def _story(came_from: dict[State, tuple[State, tuple[str, int]] | None], state: State) -> tuple[tuple[str, int], ...]:
    story: list[tuple[str, int]] = []
    while (step := came_from[state]) is not None:
        state, action = step
        story.append(action)
    return tuple(reversed(story))
