"""
The guard: the one place where a row of `objects` changes, and the rule by which it only moves forward.

`judge` is the rule, a pure function; `apply` runs it under the rows' locks. Everything else about reads
(who asked, whether to look again for other reasons) is the drain's and the sweep's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from reconciler import content
from reconciler.model import Change, ObjectRef, Proof, Reason, Verdict
from reconciler.store import forgetting, refetches, shares, statements
from reconciler.store.database import sqlstate, without_values
from reconciler.store.refetches import Again, Ladders, Seen
from reconciler.store.shares import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from reconciler.model import Body, Origin, Reading, Snapshot
    from reconciler.store.database import Database
    from reconciler.store.mirror import Mirror, MirroredKind, Rules

REWOUND_READS = 4
"""A source is believed to have rewound after this many reads that agree."""

REWOUND_LOOKS = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
"""When a row that was set back is looked at again."""

_LADDER = (0.05, 0.25, 0.70)  # steps of the rewind ladder, as parts of `rewound_after`: they add up to one
_NOW = timedelta(0)
_FIRST_ABSENCE = "a first absence proves nothing"
_BEYOND_LIMITS = "54"  # PostgreSQL's class "program limit exceeded": a text too long for jsonb, a key for its index


class Standing(Enum):
    """Where one read lies against another, by positions."""

    AFTER = auto()
    OVERLAPPING = auto()
    BEFORE = auto()


class Age(Enum):
    """How one stamp lies against another."""

    NEWER = auto()
    EQUAL = auto()
    OLDER = auto()


@dataclass(frozen=True, slots=True)
class Stored:
    """Our row, as far as the rule looks at it."""

    source_updated_at: datetime | None
    read_from: int
    read_until: int
    digest: str | None
    n: int
    deleted: bool


@dataclass(frozen=True, slots=True)
class Incoming:
    """
    A snapshot, as far as the rule looks at it.

    Attributes:
        stamped: Its kind has a stamp that moves with the object.
        digest: Of its content; None: an absence.
        asked: An event asked for the read.
    """

    reading: Reading
    read_until: int
    stamped: bool
    stamp: datetime | None
    digest: str | None
    n: int
    asked: bool

    @property
    def alive(self) -> bool:
        """Whether the source still has the object."""
        return self.digest is not None

    @property
    def live(self) -> bool:
        """Whether it was fetched rather than listed: only fetches climb ladders."""
        return not self.reading.listed


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    What is to become of one snapshot.

    Attributes:
        verdict: None: a listing that cannot decide; the object is wanted instead, and nothing is on record.
        change: What applying it does to the row.
        because: Why it is declined or tied, in words.
        again: Whether and how long from now the object is to be read again.
        seen: What the object's ladders have seen, after this read.
        stamp: The stamp an applied or unchanged row carries from now on.
        held: It is an absence that is held back: too much of its kind is going at once.
        counted: It is an absence that counts against what else may go.
    """

    verdict: Verdict | None
    change: Change | None = None
    because: str = ""
    again: tuple[timedelta, ...] = ()
    seen: Seen = field(default_factory=Seen)
    stamp: datetime | None = None
    held: bool = False
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What `apply` did with one snapshot.

    Attributes:
        verdict: None: it was a listing that became a want.
        diff: Where an applied snapshot differs from the row it replaced.
        wanted: The number of the reread that was queued; None: none was.
        ladder: The reread belongs to a rewind ladder, which may take long.
        seen: What the object's ladders have seen, after this read; empty for listings.
        digest: Of the snapshot's content; None for an absence.
        held: An absence that is held back: whoever asked for the read goes on waiting.
        forgotten: The object was forgotten: nothing is kept of the read, and nothing was said of it.
    """

    reading: Reading
    verdict: Verdict | None
    change: Change | None
    because: str
    diff: list[Body]
    wanted: int | None
    ladder: bool
    seen: Seen
    digest: str | None
    had_row: bool
    was_deleted: bool
    positions: tuple[int, int]
    stored_stamp: datetime | None
    stored_positions: tuple[int, int] | None
    held: bool
    forgotten: bool

    @property
    def ref(self) -> ObjectRef:
        """The object it is about."""
        return self.reading.snapshot.ref


def standing(incoming: tuple[int, int], stored: tuple[int, int]) -> Standing:
    """Compare two intervals of positions."""
    if incoming[0] > stored[1]:
        return Standing.AFTER
    if incoming[1] < stored[0]:
        return Standing.BEFORE
    return Standing.OVERLAPPING


def age(incoming: datetime | None, stored: datetime | None) -> Age:
    """Compare two stamps; a missing one is the oldest there is."""
    if incoming == stored:
        return Age.EQUAL
    if stored is None:
        return Age.NEWER
    if incoming is None or incoming < stored:
        return Age.OLDER
    return Age.NEWER


_TABLE: Mapping[tuple[Standing, Age], tuple[Verdict, str]] = {
    (Standing.AFTER, Age.NEWER): (Verdict.APPLIED, ""),
    (Standing.AFTER, Age.EQUAL): (Verdict.APPLIED, ""),
    (Standing.AFTER, Age.OLDER): (Verdict.DECLINED, "its stamp is older, though it was read after"),
    (Standing.OVERLAPPING, Age.NEWER): (Verdict.TIED, "the two reads overlap"),
    (Standing.OVERLAPPING, Age.EQUAL): (Verdict.TIED, "the two reads overlap"),
    (Standing.OVERLAPPING, Age.OLDER): (Verdict.DECLINED, "its stamp is older, and the two reads overlap"),
    (Standing.BEFORE, Age.NEWER): (Verdict.TIED, "its stamp is newer, though it was read before"),
    (Standing.BEFORE, Age.EQUAL): (Verdict.DECLINED, "it was read before"),
    (Standing.BEFORE, Age.OLDER): (Verdict.DECLINED, "its stamp is older, and it was read before"),
}
# A read that ended before our row's began tells nothing new, unless its stamp says otherwise.
_SETTLED = {(Standing.BEFORE, Age.EQUAL), (Standing.BEFORE, Age.OLDER)}


def judge(  # noqa: PLR0911 - a return for each paragraph of the rule
    stored: Stored | None, incoming: Incoming, seen: Seen, *, rules: Rules, now: datetime
) -> Judgement:
    """
    Say what is to become of *incoming* over *stored*: the guard's table, and nothing but.

    Where *stored* is None, it must not be a first absence. *seen* is what earlier live reads of this object left for
    its ladders; *now* is the database's clock.
    """
    if incoming.alive:
        seen = replace(seen, absent=None)
    if stored is None:
        change = Change.CREATED if incoming.alive else Change.DELETED
        return Judgement(Verdict.APPLIED, change, seen=seen.climbed_down(), stamp=incoming.stamp)
    if incoming.n < stored.n:
        return Judgement(Verdict.TIED, because="the row has a newer shape than this process", again=(_NOW,), seen=seen)
    where = standing((incoming.reading.read_from, incoming.read_until), (stored.read_from, stored.read_until))
    if _same(stored, incoming):
        return _unchanged(stored, incoming, seen, where=where, rules=rules)
    if is_first_absence(incoming, seen):
        return Judgement(Verdict.TIED, because=_FIRST_ABSENCE, again=(_NOW,), seen=seen)
    if incoming.reading.listed and not incoming.stamped:
        return Judgement(None, because="a listing of an unstamped kind differs", again=(_NOW,), seen=seen)
    if stored.deleted and incoming.alive and where is Standing.AFTER:
        return _over_tombstone(stored, incoming, seen, rules=rules, now=now)
    ordered = incoming.stamped and incoming.alive and not stored.deleted
    older = age(incoming.stamp, stored.source_updated_at) if ordered else Age.EQUAL
    verdict, because = _TABLE[where, older]
    if verdict is Verdict.APPLIED:
        change = _change(stored, incoming, older)
        # A tombstone keeps the last known stamp.
        stamp = incoming.stamp if incoming.alive else stored.source_updated_at
        return Judgement(verdict, change, seen=seen.climbed_down(), stamp=stamp)
    if (where, older) == (Standing.AFTER, Age.OLDER) and incoming.live:
        return _older(incoming, seen, because, change=Change.REWOUND, kept=stored.source_updated_at, rules=rules)
    again = () if (where, older) in _SETTLED else (_NOW,)
    return Judgement(verdict, because=because, again=again, seen=seen)


def is_first_absence(incoming: Incoming, seen: Seen) -> bool:
    """
    Say whether it is a 404 that no other went before, as far as anybody knows now.

    Whoever read it may have known of one when the read began; what was read since may have cleared that.
    """
    if incoming.reading.snapshot.proof is not Proof.NOT_FOUND:
        return False
    return seen.absent is None or incoming.reading.read_from <= seen.absent.until


def _same(stored: Stored, incoming: Incoming) -> bool:
    if stored.deleted or not incoming.alive:
        return stored.deleted and not incoming.alive
    return stored.digest == incoming.digest


def _unchanged(stored: Stored, incoming: Incoming, seen: Seen, *, where: Standing, rules: Rules) -> Judgement:
    kept = replace(seen, alive=None, absent=None)
    if not (incoming.alive and incoming.stamped):
        return Judgement(Verdict.UNCHANGED, seen=kept, stamp=stored.source_updated_at)
    older = age(incoming.stamp, stored.source_updated_at)
    if older is Age.NEWER:
        return Judgement(Verdict.UNCHANGED, seen=replace(kept, older=None), stamp=incoming.stamp)
    if older is Age.EQUAL or where is not Standing.AFTER:
        seen_now = replace(kept, older=None) if older is Age.EQUAL and where is Standing.AFTER else kept
        return Judgement(Verdict.UNCHANGED, seen=seen_now, stamp=stored.source_updated_at)
    if not incoming.live:
        return Judgement(Verdict.UNCHANGED, again=(_NOW,), seen=seen, stamp=stored.source_updated_at)
    climbed = _older(incoming, kept, "", change=None, kept=stored.source_updated_at, rules=rules)
    return replace(climbed, verdict=Verdict.UNCHANGED)


def _over_tombstone(stored: Stored, incoming: Incoming, seen: Seen, *, rules: Rules, now: datetime) -> Judgement:
    """
    Believe life after death when two live reads show it, the second begun `read_lag` after the first ended.

    A first one that ended before the tombstone was last confirmed counts for nothing, nor does one from the future.
    """
    because = "a first live read over a tombstone"
    if not incoming.live:
        return Judgement(Verdict.TIED, because="a listing shows it alive over a tombstone", again=(_NOW,), seen=seen)
    first = seen.alive
    if first is None or first.ended_at > now or first.until <= stored.read_until:
        first = refetches.Alive(incoming.read_until, now)
    elif incoming.reading.read_from > first.until and incoming.reading.began_at >= first.ended_at + rules.read_lag:
        return Judgement(Verdict.APPLIED, Change.RESTORED, seen=seen.climbed_down(), stamp=incoming.stamp)
    wait = max(_NOW, first.ended_at + rules.read_lag - now)
    return Judgement(Verdict.TIED, because=because, again=(wait,), seen=replace(seen, alive=first))


def _older(
    incoming: Incoming, seen: Seen, because: str, *, change: Change | None, kept: datetime | None, rules: Rules
) -> Judgement:
    """Climb the rewind ladder by one read; at its top the source is believed."""
    began = incoming.reading.began_at
    ladder = seen.older
    if ladder is not None and incoming.reading.read_from <= ladder.until:
        climbed = ladder  # read while the one before was not over: it tells nothing more
    elif ladder is None or age(incoming.stamp, ladder.stamp) is Age.OLDER or began < ladder.began_at:
        climbed = refetches.Older(1, began, incoming.read_until, incoming.stamp)
    else:
        climbed = refetches.Older(ladder.reads + 1, ladder.began_at, incoming.read_until, incoming.stamp)
    if climbed.reads >= REWOUND_READS and began - climbed.began_at >= rules.rewound_after:
        return Judgement(
            Verdict.APPLIED,
            change,
            because="rewound",
            again=REWOUND_LOOKS,
            seen=seen.climbed_down(),
            stamp=incoming.stamp,
        )
    step = min(climbed.reads, len(_LADDER)) - 1
    due = climbed.began_at + rules.rewound_after * sum(_LADDER[: step + 1])
    wait = max(due - began, rules.rewound_after * _LADDER[0])
    return Judgement(Verdict.DECLINED, because=because, again=(wait,), seen=replace(seen, older=climbed), stamp=kept)


def _change(stored: Stored, incoming: Incoming, older: Age) -> Change:
    if not incoming.alive:
        return Change.DELETED
    if incoming.n > stored.n > 0 and older is Age.EQUAL and not incoming.asked:
        return Change.RESHAPED
    return Change.UPDATED


def apply(
    connection: Connection,
    readings: Sequence[Reading],
    *,
    origin: Origin,
    mirror: Mirror,
    loading: Iterable[tuple[str, str]] = (),
    now: datetime | None = None,
) -> list[Outcome]:
    """
    Write each snapshot over our row unless our row is newer, and say what happened, in the order given.

    Safe to repeat and to race: rows are locked in key order and every condition is looked at under the lock. A
    snapshot that cannot be ordered against our row is *tied*: nothing is written, and a fresh read is queued in this
    transaction. *loading* are the (source, kind) pairs that were never swept: what is new there is *loaded*. Repeats
    of a key are applied one after another in the order of their reads. Positions at or beyond the sequence come from
    before a failover or restore: such reads are tied, and the sequence is moved beyond them. What is forgotten is
    *unchanged*: there is no row, and there will be none.
    """
    kinds = ((each.snapshot.ref, mirror.of(each.snapshot.ref.source, each.snapshot.ref.kind).kind) for each in readings)
    forgotten = forgetting.among_bodies(
        connection, [(*known, each.snapshot.body) for known, each in zip(kinds, readings, strict=True)]
    )
    began = statements.one(connection, "begin_apply", {"now": now})
    applying = _Applying(connection, origin, mirror, frozenset(loading), began.position, began.now)
    outcomes: list[Outcome | None] = [
        _of_forgotten(each) if each.snapshot.ref in forgotten else None for each in readings
    ]
    left = [index for index, outcome in enumerate(outcomes) if outcome is None]
    left.sort(key=lambda index: readings[index].read_from)
    while left:
        once = list({readings[index].snapshot.ref: index for index in reversed(left)}.values())
        for index, outcome in zip(once, applying.round([readings[index] for index in once]), strict=True):
            outcomes[index] = outcome
        left = [index for index in left if outcomes[index] is None]
    return [outcome for outcome in outcomes if outcome is not None]


def apply_apart(
    database: Database,
    readings: Sequence[Reading],
    *,
    origin: Origin,
    mirror: Mirror,
    loading: Iterable[tuple[str, str]] = (),
    buried: Callable[[Connection, ObjectRef, int], None] | None = None,
    now: datetime | None = None,
) -> list[Outcome]:
    """
    Apply a batch in a transaction of its own, split where one snapshot spoils it until that one is alone.

    That one becomes a dead letter with the reason; *buried* is told its number in that transaction. The others are
    applied. Returns the outcomes of those, in order.
    """
    kinds = frozenset(loading)

    def applied(part: Sequence[Reading]) -> list[Outcome]:
        try:
            return database.commit(
                lambda connection: apply(connection, part, origin=origin, mirror=mirror, loading=kinds, now=now)
            )
        except (DBAPIError, ValueError, ArithmeticError, RecursionError) as error:
            if isinstance(error, DBAPIError) and not _is_about_values(error):
                raise
            if len(part) == 1:
                bury(part[0].snapshot.ref, f"cannot be stored: {without_values(error)}")
                return []
        half = len(part) // 2
        return applied(part[:half]) + applied(part[half:])

    def bury(ref: ObjectRef, because: str) -> None:
        def work(connection: Connection) -> None:
            if forgetting.among(connection, [ref]).refs:
                return
            number = refetches.bury_unread(connection, ref, because=because, now=now)
            if buried is not None:
                buried(connection, ref, number)

        database.commit(work)

    return applied(readings) if readings else []


def _is_about_values(error: DBAPIError) -> bool:
    """Whether the server, or the driver before it, refuses what it was given, rather than being unable to take it."""
    return isinstance(error, DataError | IntegrityError) or (sqlstate(error) or "").startswith(_BEYOND_LIMITS)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A reading made ready: its stored form, its digest, and its interval closed."""

    incoming: Incoming
    mirrored: MirroredKind
    body: Body | None

    @property
    def snapshot(self) -> Snapshot:
        return self.incoming.reading.snapshot

    @property
    def ref(self) -> ObjectRef:
        return self.snapshot.ref


@dataclass(frozen=True, slots=True)
class _Applying:
    """One transaction's apply."""

    connection: Connection
    origin: Origin
    mirror: Mirror
    loading: frozenset[tuple[str, str]]
    position: int
    now: datetime

    def round(self, readings: Sequence[Reading]) -> list[Outcome]:
        """Apply readings of different objects; return their outcomes in the same order."""
        weighed = [self._weigh(reading) for reading in readings]
        sound = [each for each in weighed if self._below(each) and not self._is_first_absence(each)]
        self._outrun(
            max(each.incoming.reading.read_from, each.incoming.read_until) for each in weighed if not self._below(each)
        )
        inserted = self._insert(sound)
        stored = self._lock([each for each in weighed if each.ref not in inserted])
        gone = [each for each in sound if each.ref not in inserted | stored.keys()]
        while gone:  # deleted by hand between the two statements
            inserted |= self._insert(gone)
            stored |= self._lock([each for each in gone if each.ref not in inserted])
            gone = [each for each in gone if each.ref not in inserted | stored.keys()]
        seen = refetches.lock_seen(self.connection, [each.ref for each in weighed if each.incoming.live])
        horizon = self._horizon(stored, seen)
        seen = {ref: replace(ladders, seen=ladders.seen.below(horizon)) for ref, ladders in seen.items()}
        judged = [
            self._judge(each, stored.get(each.ref), seen, horizon=horizon, is_new=each.ref in inserted)
            for each in weighed
        ]
        judged = self._hold_back(weighed, judged, stored, seen)
        self._update(weighed, judged, inserted)
        self._touch(weighed, judged, stored)
        self._decline(weighed, judged, stored)
        changes = self._remember(weighed, judged, stored)
        wanted = self._again(weighed, judged, seen)
        return [
            self._outcome(each, judgement, stored.get(each.ref), diff, wanted)
            for each, judgement, diff in zip(weighed, judged, changes, strict=True)
        ]

    def _weigh(self, reading: Reading) -> _Weighed:
        snapshot = reading.snapshot
        mirrored = self.mirror.of(snapshot.ref.source, snapshot.ref.kind)
        body = None if snapshot.body is None else mirrored.form.stored(snapshot.body)
        incoming = Incoming(
            reading=reading,
            read_until=self.position if reading.read_until is None else reading.read_until,
            stamped=mirrored.kind.stamp is not None,
            stamp=snapshot.stamp,
            digest=None if body is None else mirrored.form.digest(body),
            n=mirrored.n,
            asked=self.origin.event_id is not None,
        )
        return _Weighed(incoming, mirrored, body)

    def _below(self, each: _Weighed) -> bool:
        """Whether the read lies below this transaction's position, as every read of this number line must."""
        return each.incoming.reading.read_from < self.position >= each.incoming.read_until

    def _is_first_absence(self, each: _Weighed) -> bool:
        """Whether it must not make a row. No lock is needed: what clears a note where there is no row makes one."""
        if each.snapshot.proof is not Proof.NOT_FOUND:
            return False
        return is_first_absence(each.incoming, refetches.seen(self.connection, each.ref))

    def _insert(self, weighed: Sequence[_Weighed]) -> set[ObjectRef]:
        if not weighed:
            return set()
        columns = _columns(weighed, stamps=[_shown_stamp(each, each.incoming.stamp) for each in weighed])
        written = statements.rows(self.connection, "insert_objects", columns | {"now": self.now})
        return {ObjectRef(row.source, row.scope, row.kind, row.id) for row in written}

    def _lock(self, weighed: Sequence[_Weighed]) -> dict[ObjectRef, Row[Any]]:
        if not weighed:
            return {}
        keys = refetches.keys(each.ref for each in weighed) | {"digest": [each.incoming.digest for each in weighed]}
        found = statements.rows(self.connection, "lock_objects", keys)
        return {ObjectRef(row.source, row.scope, row.kind, row.id): row for row in found}

    def _horizon(self, stored: Mapping[ObjectRef, Row[Any]], seen: Mapping[ObjectRef, Ladders]) -> int:
        """
        Return a position that every row and every ladder of this number line is below.

        A row may have been written since this transaction drew its own: only a number drawn under the row's lock tells
        a later writer from a sequence that was set back.
        """
        tops = [row.read_until for row in stored.values()] + [ladders.seen.until for ladders in seen.values()]
        if all(top < self.position for top in tops):
            return self.position
        drawn = statements.one(self.connection, "draw_position", {"now": self.now})
        self._outrun(tops, drawn=drawn.position)
        return int(drawn.position)

    def _outrun(self, positions: Iterable[int], *, drawn: int | None = None) -> None:
        beyond = max(positions, default=0)
        if beyond >= (self.position if drawn is None else drawn):
            refetches.outrun(self.connection, beyond)

    def _judge(
        self, each: _Weighed, row: Row[Any] | None, seen: Mapping[ObjectRef, Ladders], *, horizon: int, is_new: bool
    ) -> Judgement:
        before = seen.get(each.ref, Ladders()).seen
        if not self._below(each) or (row is not None and row.read_until >= horizon):
            because = "positions from before a failover or restore"
            return Judgement(Verdict.TIED, because=because, again=(_NOW,), seen=before)
        if row is None and not is_new:
            return Judgement(Verdict.TIED, because=_FIRST_ABSENCE, again=(_NOW,), seen=before)
        stored = None
        if row is not None:
            ordering = row.source_updated_at if each.incoming.stamped else None
            stored = Stored(ordering, row.read_from, row.read_until, row.digest, row.n, row.deleted)
        judgement = judge(stored, each.incoming, before, rules=self.mirror.rules, now=self.now)
        if judgement.change is Change.CREATED and (each.ref.source, each.ref.kind) in self.loading:
            return replace(judgement, change=Change.LOADED)
        return judgement

    def _hold_back(
        self,
        weighed: Sequence[_Weighed],
        judged: Sequence[Judgement],
        stored: Mapping[ObjectRef, Row[Any]],
        seen: Mapping[ObjectRef, Ladders],
    ) -> list[Judgement]:
        """
        Let no more living rows go than may.

        What is held back is declined, and what a listing shows is wanted instead: the read is what can be held.
        """
        places: dict[Place, list[int]] = {}
        for index, (each, judgement) in enumerate(zip(weighed, judged, strict=True)):
            if judgement.change is Change.DELETED and each.ref in stored:
                places.setdefault(Place(each.ref.source, each.ref.scope, each.ref.kind), []).append(index)
        held = list(judged)
        for place in sorted(places):
            leave = shares.leave(
                self.connection, place, len(places[place]), rule=self.mirror.rules.share_stop, now=self.now
            )
            for index in places[place]:
                each = weighed[index]
                if not leave.because:
                    held[index] = replace(judged[index], counted=leave.counted)
                elif each.incoming.live:
                    before = seen.get(each.ref, Ladders()).seen
                    held[index] = Judgement(Verdict.DECLINED, because=leave.because, seen=before, held=True)
                else:
                    held[index] = Judgement(None, because=leave.because, again=(_NOW,))
        return held

    def _update(self, weighed: Sequence[_Weighed], judged: Sequence[Judgement], inserted: set[ObjectRef]) -> None:
        chosen = [
            (each, judgement)
            for each, judgement in zip(weighed, judged, strict=True)
            if judgement.verdict is Verdict.APPLIED and each.ref not in inserted
        ]
        if chosen:
            stamps = [_shown_stamp(each, judgement.stamp) for each, judgement in chosen]
            columns = _columns([each for each, _ in chosen], stamps=stamps)
            statements.run(self.connection, "update_objects", columns | {"now": self.now})

    def _touch(
        self, weighed: Sequence[_Weighed], judged: Sequence[Judgement], stored: Mapping[ObjectRef, Row[Any]]
    ) -> None:
        chosen = [
            (each, judgement)
            for each, judgement in zip(weighed, judged, strict=True)
            if judgement.verdict is Verdict.UNCHANGED
        ]
        if chosen:
            touched = [each for each, _ in chosen]
            reshaped = [each if each.body and each.incoming.n > stored[each.ref].n else None for each in touched]
            parameters = refetches.keys(each.ref for each in touched) | {
                "source_updated_at": [_later_stamp(each, told.stamp, stored[each.ref]) for each, told in chosen],
                "observed_at": [each.snapshot.observed_at for each in touched],
                "read_from": [each.incoming.reading.read_from for each in touched],
                "read_until": [each.incoming.read_until for each in touched],
                "shape": [None if each is None else each.mirrored.shape for each in reshaped],
                "body": [None if each is None else content.dumps(each.body) for each in reshaped],
            }
            statements.run(self.connection, "touch_objects", parameters)

    def _decline(
        self, weighed: Sequence[_Weighed], judged: Sequence[Judgement], stored: Mapping[ObjectRef, Row[Any]]
    ) -> None:
        chosen = [
            (each, judgement, stored.get(each.ref))
            for each, judgement in zip(weighed, judged, strict=True)
            if judgement.verdict in {Verdict.DECLINED, Verdict.TIED}
        ]
        if not chosen:
            return
        parameters = refetches.keys(each.ref for each, _, _ in chosen) | {
            "verdict": [str(judgement.verdict) for _, judgement, _ in chosen],
            "because": [judgement.because for _, judgement, _ in chosen],
            "incoming_source_updated_at": [_shown_stamp(each, each.incoming.stamp) for each, _, _ in chosen],
            "stored_source_updated_at": [None if row is None else row.source_updated_at for _, _, row in chosen],
            "incoming_read_from": [each.incoming.reading.read_from for each, _, _ in chosen],
            "incoming_read_until": [each.incoming.read_until for each, _, _ in chosen],
            "stored_read_from": [0 if row is None else row.read_from for _, _, row in chosen],
            "stored_read_until": [0 if row is None else row.read_until for _, _, row in chosen],
            "event_id": [self.origin.event_id] * len(chosen),
            "via": str(self.origin.via),
            "run_id": self.origin.run_id,
            "now": self.now,
        }
        statements.run(self.connection, "insert_declined", parameters)

    def _remember(
        self, weighed: Sequence[_Weighed], judged: Sequence[Judgement], stored: Mapping[ObjectRef, Row[Any]]
    ) -> list[list[Body]]:
        """Write the history of what was applied; return each one's differences from the row it replaced."""
        changes: list[list[Body]] = []
        chosen: list[tuple[_Weighed, Judgement, list[str]]] = []
        for each, judgement in zip(weighed, judged, strict=True):
            diff: list[Body] = []
            if judgement.change is not None:
                diff = _differences(each, stored.get(each.ref))
                chosen.append((each, judgement, [change["path"] for change in diff]))
            changes.append(diff)
        if chosen:
            parameters = refetches.keys(each.ref for each, _, _ in chosen) | {
                "what": [str(judgement.change) for _, judgement, _ in chosen],
                "source_updated_at": [_shown_stamp(each, judgement.stamp) for each, judgement, _ in chosen],
                "observed_at": [each.snapshot.observed_at for each, _, _ in chosen],
                "changed": [content.dumps(paths) for _, _, paths in chosen],
                "counted": [judgement.counted for _, judgement, _ in chosen],
                "via": str(self.origin.via),
                "event_id": self.origin.event_id,
                "run_id": self.origin.run_id,
                "now": self.now,
            }
            statements.run(self.connection, "insert_history", parameters)
        return changes

    def _again(
        self, weighed: Sequence[_Weighed], judged: Sequence[Judgement], seen: Mapping[ObjectRef, Ladders]
    ) -> dict[ObjectRef, int]:
        rereads: list[Again] = []
        for each, judgement in zip(weighed, judged, strict=True):
            began = each.incoming.reading.began_at if each.incoming.live else None
            before = seen.get(each.ref, Ladders())
            reached = began is not None and before.after(began, now=self.now) != before.again
            moved = judgement.verdict is Verdict.APPLIED
            if judgement.again or reached or (judgement.seen != before.seen if each.incoming.live else moved):
                rereads.append(
                    Again(
                        each.ref,
                        at=tuple(self.now + wait for wait in judgement.again),
                        reason=Reason.TIE if judgement.verdict is Verdict.TIED else Reason.REREAD,
                        seen=judgement.seen if each.incoming.live else None,
                        wants=judgement.verdict not in {Verdict.APPLIED, Verdict.UNCHANGED},
                        began_at=began,
                        locator=each.snapshot.locator,
                        moved=moved,
                    )
                )
        return refetches.read_again(self.connection, rereads, now=self.now)

    def _outcome(
        self,
        each: _Weighed,
        judgement: Judgement,
        row: Row[Any] | None,
        diff: list[Body],
        wanted: Mapping[ObjectRef, int],
    ) -> Outcome:
        return Outcome(
            reading=each.incoming.reading,
            verdict=judgement.verdict,
            change=judgement.change,
            because=judgement.because,
            diff=diff,
            wanted=wanted.get(each.ref),
            ladder=judgement.seen.older is not None or judgement.again == REWOUND_LOOKS,
            seen=judgement.seen,
            digest=each.incoming.digest,
            had_row=row is not None,
            was_deleted=row is not None and row.deleted,
            positions=(each.incoming.reading.read_from, each.incoming.read_until),
            stored_stamp=None if row is None else row.source_updated_at,
            stored_positions=None if row is None else (row.read_from, row.read_until),
            held=judgement.held,
            forgotten=False,
        )


def _of_forgotten(reading: Reading) -> Outcome:
    return Outcome(
        reading=reading,
        verdict=Verdict.UNCHANGED,
        change=None,
        because=forgetting.BECAUSE,
        diff=[],
        wanted=None,
        ladder=False,
        seen=Seen(),
        digest=None,
        had_row=False,
        was_deleted=False,
        positions=(reading.read_from, reading.read_from if reading.read_until is None else reading.read_until),
        stored_stamp=None,
        stored_positions=None,
        held=False,
        forgotten=True,
    )


def _shown_stamp(each: _Weighed, stamp: datetime | None) -> datetime | None:
    """Return what the stamp column holds: of an unstamped kind the time of the read, for people."""
    return stamp if each.incoming.stamped else each.snapshot.observed_at


def _later_stamp(each: _Weighed, stamp: datetime | None, row: Row[Any]) -> datetime | None:
    if each.incoming.stamped or row.source_updated_at is None:
        return _shown_stamp(each, stamp)
    held: datetime = row.source_updated_at
    return max(each.snapshot.observed_at, held)


def _differences(each: _Weighed, row: Row[Any] | None) -> list[Body]:
    if row is None or row.body is None or each.body is None:
        return []
    form = each.mirrored.form
    theirs = form.compared(each.body)
    try:
        return content.differences(form.compared(content.parse(row.body)), theirs)
    except (ValueError, RecursionError):  # edited by hand into something we would not have written
        return [{"path": "", "ours": None, "theirs": theirs, "absent": "ours"}]


def _columns(weighed: Sequence[_Weighed], *, stamps: Sequence[datetime | None]) -> dict[str, Any]:
    return refetches.keys(each.ref for each in weighed) | {
        "source_updated_at": list(stamps),
        "observed_at": [each.snapshot.observed_at for each in weighed],
        "read_from": [each.incoming.reading.read_from for each in weighed],
        "read_until": [each.incoming.read_until for each in weighed],
        "digest": [each.incoming.digest for each in weighed],
        "shape": [each.mirrored.shape for each in weighed],
        "body": [None if each.body is None else content.dumps(each.body) for each in weighed],
        "deleted_at": [None if each.incoming.alive else each.snapshot.observed_at for each in weighed],
    }
