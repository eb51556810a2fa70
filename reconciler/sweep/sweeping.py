"""Runs of this process: begun, carried out, and put on record."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import structlog

from reconciler.adapter import Listing, one_pass, patiently
from reconciler.errors import (
    AccessLost,
    ConfigError,
    DatabaseUnavailable,
    ReconcilerError,
    SourceBusy,
    SourceError,
    SourceRefused,
)
from reconciler.model import Hint, ObjectRef, Reason, Via
from reconciler.store import findings, forgetting, marks, pauses, refetches, runs, shares, sources, statements, turns
from reconciler.store.findings import Finding, What
from reconciler.store.refetches import Want
from reconciler.store.shares import Place
from reconciler.sweep.asked import Going, KindReport, Progress
from reconciler.sweep.pages import drawn, listed
from reconciler.sweep.sparing import Sparing
from reconciler.sweep.taking import Comparing, Repairing
from reconciler.sweep.windows import DAY, is_due, nights, put_off, window
from reconciler.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from sqlalchemy import Connection, Row

    from reconciler.adapter import Adapter, Kind
    from reconciler.budgets import Budgets
    from reconciler.config import ScheduleSettings
    from reconciler.drain import Drain
    from reconciler.metrics import Metrics
    from reconciler.model import Body, Page
    from reconciler.store.database import Database
    from reconciler.store.marks import Marks
    from reconciler.store.mirror import Mirror
    from reconciler.store.turns import Turn
    from reconciler.sweep.asked import Asked
    from reconciler.sweep.taking import Taking
    from reconciler.sweep.windows import Window

MOST_UNFINISHED = 2_000
"""So many unfinished objects of one kind and scope are read again each night."""

PATIENCE = timedelta(seconds=60)
"""How long a run waits for refetches that are not due yet before it calls them unfinished."""

_RENEW_EVERY = runs.HOLD.total_seconds() / 4
_SHOWN_EVERY, _LOOKS_EVERY = 1.0, 0.05
_PIECE = 500


@dataclass(slots=True)
class Standing:
    """
    How a source stands while a run lists it.

    Attributes:
        closed: Why nothing of it is listed: a person paused it, or it turned out to answer nobody; empty: it is.
        refused: The (scope, kind) pairs that could not be read the last time.
        paused: The scopes, '' for all, to which access was lost the last time.
        outrun: The places that were not swept for longer than their feeds remember.
    """

    closed: str
    refused: set[tuple[str, str]]
    paused: set[str]
    outrun: set[str]

    @classmethod
    def of(cls, connection: Connection, source: str) -> Standing:
        """Return how *source* stands before the run has asked it anything."""
        held = sources.held(connection).get(source)
        return cls(
            closed="" if held is None else str(held),
            refused={(each.scope, each.kind) for each in sources.refused(connection) if each.source == source},
            paused={
                each.scope
                for each in pauses.standing(connection)
                if each.source == source and each.what not in {"unavailable", "paused"}
            },
            outrun=findings.about(connection, source, What.FEED_OUTRUN),
        )


class Sweep:
    """Begins runs, carries them out, and keeps their records."""

    def __init__(
        self,
        database: Database,
        adapters: Mapping[str, Adapter],
        *,
        mirror: Mirror,
        drain: Drain,
        budgets: Budgets,
        schedule: ScheduleSettings,
        workers: int,
        metrics: Metrics,
        stop: Event,
        marks_of: Mapping[str, Marks] | None = None,
        most_unfinished: int = MOST_UNFINISHED,
    ) -> None:
        self._most_unfinished = most_unfinished
        self._marks = marks_of or {}
        self._database = database
        self._adapters = adapters
        self._mirror = mirror
        self._drain = drain
        self._budgets = budgets
        self._schedule = schedule
        self._workers = workers
        self._metrics = metrics
        self._stop = stop
        self._sparing = Sparing(database, budgets, overlap=schedule.overlap)
        self._going: dict[int, Going] = {}
        self._log = structlog.get_logger()

    def begin(self, asked: Asked) -> int:
        """
        Begin a run and return its id; it holds its kinds from now on and waits for `execute`.

        Raises `RunHeld` if another run holds one of them, and `ConfigError` for a source or kind that is not mirrored.
        """
        asked.check()
        pairs = self._pairs(asked)

        def begin(connection: Connection) -> tuple[runs.Begun, frozenset[tuple[str, str]]]:
            loading = _never_swept(connection, pairs)
            told = {
                "full": asked.full,
                "light": asked.light,
                "allow_deletes": asked.allow_deletes and not asked.dry_run,
                "loading": [{"source": source, "kind": kind} for source, kind in sorted(loading)],
            }
            begun = runs.begin(
                connection,
                pairs,
                trigger=asked.trigger,
                since=asked.since if isinstance(asked.since, datetime) else None,
                until=asked.until,
                dry_run=asked.dry_run,
                asked=told,
            )
            if not (asked.dry_run or asked.light):
                _look_at_held(connection, begun.run_id, pairs)
            return begun, loading

        begun, loading = self._database.commit(begin)
        reports = [
            KindReport(source, self._adapters[source].provider, "", kind, until=asked.until) for source, kind in pairs
        ]
        self._going[begun.run_id] = Going(begun.run_id, asked, begun.started_at, reports, loading)
        self._log.info("run.started", run_id=begun.run_id, trigger=asked.trigger, kinds=len(pairs))
        return begun.run_id

    def execute(self, run_id: int, *, progress: Callable[[Progress], None] = lambda _: None) -> str:
        """Carry out a run that was begun here and return the state it ended in; never raises for a source's sake."""
        going = self._going.pop(run_id)
        try:
            with self._renewed(going):
                self._carry_out(going, progress)
            state, because = self._judge(going)
        except ReconcilerError as error:
            state, because = "failed", str(error)
        except Exception as error:  # noqa: BLE001 - logged whole; a run always ends on record
            self._log.exception("run.failed", run_id=run_id)
            state, because = "failed", f"unexpected: {type(error).__name__}: {error}"
        for report in going.reports:
            if report.state == "running":
                report.state, report.error = "incomplete", report.error or because
        self._finish(going, state, because)
        return state

    # --- what is asked for ---

    def _pairs(self, asked: Asked) -> list[tuple[str, str]]:
        chosen = tuple(dict.fromkeys(asked.sources)) or tuple(self._adapters)
        known = [source for source in chosen if source in self._adapters]
        mirrored = {kind for source in known for kind in self._adapters[source].kinds}
        configured, there = ", ".join(sorted(self._adapters)) or "none", ", ".join(sorted(mirrored)) or "none"
        faults = [f"source {name!r} is not configured; there is: {configured}" for name in chosen if name not in known]
        faults += [
            f"kind {kind!r} is not mirrored by {', '.join(chosen)}; there is: {there}"
            for kind in asked.kinds
            if kind not in mirrored
        ]
        if faults:
            raise ConfigError(*faults)
        return [
            (source, kind)
            for source in chosen
            for kind in self._adapters[source].kinds
            if not asked.kinds or kind in asked.kinds
        ]

    # --- the run ---

    @contextmanager
    def _renewed(self, going: Going) -> Iterator[None]:
        """Keep the run's kinds held while the block runs; a run that loses them asks its providers no more."""
        over = Event()
        if self._stop.is_set():
            going.ended.set()

        def renew() -> None:
            since = time.monotonic()
            while not over.wait(_LOOKS_EVERY):
                if self._stop.is_set():
                    going.ended.set()
                if time.monotonic() - since < _RENEW_EVERY:
                    continue
                since = time.monotonic()
                if not self._is_held(going):
                    going.ended.set()

        thread = Thread(target=renew, name=f"run-{going.run_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _is_held(self, going: Going) -> bool:
        try:
            return self._database.commit(lambda connection: runs.renew(connection, going.run_id))
        except DatabaseUnavailable:
            return True  # a hold outlasts a short absence

    def _carry_out(self, going: Going, progress: Callable[[Progress], None]) -> None:
        sources = list(dict.fromkeys(report.source for report in going.reports))
        all_listed = Event()
        with ThreadPoolExecutor(len(sources) + self._workers + 1, thread_name_prefix="sweep") as pool:
            readers = (
                []
                if going.asked.dry_run
                else [pool.submit(self._work_off, going, all_listed, number) for number in range(self._workers)]
            )
            listings = [pool.submit(self._list_source, going, source) for source in sources]
            try:
                self._await(going, progress, "listing", listings)
            finally:
                all_listed.set()
            self._await(going, progress, "reading", readers)
            while readers and not going.ended.is_set() and self._decide(going):
                again = [pool.submit(self._work_off, going, all_listed, number) for number in range(self._workers)]
                self._await(going, progress, "reading", again)

    def _decide(self, going: Going) -> bool:
        """Say of all that is gone whether it may go, now that all is read; return whether more is to be read for it."""

        def decide(connection: Connection) -> tuple[list[shares.Decided], int]:
            now = statements.one(connection, "clock", {"now": None}).now
            decided = shares.decide(connection, going.run_id, rule=self._mirror.rules.share_stop, now=now)
            return decided, runs.count_left(connection, going.run_id)

        before = self._database.commit(lambda connection: runs.count_left(connection, going.run_id))
        decided, left = self._database.commit(decide)
        for each in decided:
            if each.because:
                self._log.error("deletions.stopped", place=str(each.place), held=each.objects, because=each.because)
        return left > before

    def _await(
        self, going: Going, progress: Callable[[Progress], None], doing: str, futures: Sequence[Future[None]]
    ) -> None:
        try:
            while wait(futures, timeout=_SHOWN_EVERY, return_when=FIRST_EXCEPTION).not_done:
                for future in futures:
                    if future.done():
                        future.result()
                self._show(going, progress, doing)
            for future in futures:
                future.result()
        except BaseException:
            going.ended.set()
            raise
        self._show(going, progress, doing)

    def _show(self, going: Going, progress: Callable[[Progress], None], doing: str) -> None:
        def keep(connection: Connection) -> int:
            runs.tally(connection, going.run_id, going.tallies())
            return runs.count_left(connection, going.run_id)

        progress(Progress(doing, sum(report.listed for report in going.reports), self._database.commit(keep)))

    def _judge(self, going: Going) -> tuple[str, str | None]:
        counted = self._database.commit(lambda connection: runs.verdicts(connection, going.run_id))
        told: dict[tuple[str, str, str], Counter[str]] = {}
        for (source, scope, kind), verdicts in counted.items():
            told.setdefault(going.report(source, kind, scope).key, Counter()).update(verdicts)
        for report in going.reports:
            report.answer(told.get(report.key, Counter()))
        wrong: dict[str, list[str]] = {}
        for report in going.reports:
            if report.error:
                wrong.setdefault(report.error, []).append("/".join(filter(None, report.key)))
        if wrong:
            return "incomplete", "; ".join(f"{', '.join(places)}: {error}" for error, places in wrong.items())
        return "complete", "; ".join(going.notes) or None

    def _finish(self, going: Going, state: str, because: str | None) -> None:
        def finish(connection: Connection) -> Sequence[Row[Any]]:
            return runs.finish(connection, going.run_id, state=state, tallies=going.tallies(), because=because)

        drift: Sequence[Row[Any]] = ()
        try:
            drift = self._database.commit(finish)
        except DatabaseUnavailable as error:
            # Nobody renews the hold from now on: the next run marks this one abandoned.
            self._log.error("run.unrecorded", run_id=going.run_id, state=state, because=str(error))
        self._metrics.ran(going.asked.trigger, state)
        causes: Counter[str] = Counter()
        for each in drift:
            causes[each.cause] += each.objects
            self._metrics.drifted(each.source, each.kind, each.cause, rows=each.repaired)
        found = {"drift": causes.total(), "causes": dict(causes)}
        self._log.info("run.finished", run_id=going.run_id, state=state, because=because, **found)

    # --- listing ---

    def _list_source(self, going: Going, source: str) -> None:
        reports = [report for report in going.reports if report.source == source]
        going.feeds[source] = one_pass(self._adapters[source], [report.kind for report in reports])
        standing = self._database.commit(partial(Standing.of, source=source))
        if not standing.closed:
            self._put_off(going, source)
        for report in reports:
            if standing.closed:
                report.error = standing.closed
            else:
                self._list_kind(going, report, standing)
        del going.feeds[source]

    def _list_kind(self, going: Going, report: KindReport, standing: Standing) -> None:
        adapter = self._adapters[report.source]
        try:
            self._refuse_older_shape(report)
            scopes = patiently(partial(adapter.scopes, report.kind)) or ("",)
            left = self._sparing.left(going, report, adapter, scopes)
        except SourceError as error:
            self._say_incomplete(report, error)
            self._note_lost(going, report, error, standing)
            return
        if not left:
            return
        first, *others = left
        report.scope = first
        for each in (report, *(going.beside(report, scope) for scope in others)):
            try:
                self._list_scope(going, each, adapter, each.scope)
            except SourceError as error:  # of one scope: the others are swept all the same
                self._say_incomplete(each, error)
                self._note_lost(going, each, error, standing)
            else:
                self._note_seen(going, each, standing)

    def _say_incomplete(self, report: KindReport, error: SourceError) -> None:
        report.error = str(error) or type(error).__name__
        told = {"scope": report.scope} if report.scope else {}
        self._log.warning("sweep.incomplete", source=report.source, kind=report.kind, because=report.error, **told)

    def _note_lost(self, going: Going, report: KindReport, error: SourceError, standing: Standing) -> None:
        """Where a list may not be read: find out whether the source or the scope is lost, or only this kind is."""
        if not isinstance(error, AccessLost) or going.asked.dry_run:
            return
        try:
            lost = self._drain.lost(ObjectRef(report.source, report.scope, report.kind, ""))
        except SourceBusy:
            return
        if lost is not None:
            standing.closed = "" if lost else report.error or ""
        elif self._database.commit(partial(_refused, report=report)):
            told = {"source": report.source, "scope": report.scope, "kind": report.kind}
            self._log.error("source.refused", **told, because=report.error)

    def _note_seen(self, going: Going, report: KindReport, standing: Standing) -> None:
        """Forget what the listing of a kind has shown to be over."""
        if going.asked.dry_run:
            return
        if (report.scope, report.kind) in standing.refused:
            self._database.commit(partial(_permitted, report=report, began_at=going.started_at))
            self._log.info("source.permitted", source=report.source, scope=report.scope, kind=report.kind)
        place = str(Place(*report.key))
        if place in standing.outrun:
            over = partial(
                findings.expire,
                source=report.source,
                what=What.FEED_OUTRUN,
                about=place,
                before=going.started_at - DAY,
            )
            self._database.commit(over)
        if {"", report.scope} & standing.paused:
            ended = partial(pauses.unpause, source=report.source, scope=report.scope, began_at=going.started_at)
            if self._database.commit(ended):
                self._log.info("source.resumed", source=report.source, scope=report.scope)
            standing.paused -= {"", report.scope}

    def _refuse_older_shape(self, report: KindReport) -> None:
        newest = self._database.commit(lambda c: runs.newest_shape(c, report.source, report.kind))
        if newest > self._mirror.of(report.source, report.kind).n:
            raise SourceRefused("a newer process stores this kind in another shape; sweep it with that one")

    def _list_scope(self, going: Going, report: KindReport, adapter: Adapter, scope: str) -> None:
        asked, kind = going.asked, adapter.kinds[report.kind]
        swept = self._database.commit(lambda c: runs.watermarks(c, report.source)).get((scope, kind.name))
        place = Place(report.source, scope, kind.name)
        turn = self._turn(going, place)
        chosen = window(
            asked,
            kind,
            swept=swept,
            now=going.started_at,
            overlap=self._schedule.overlap,
            turn=turn is not None,
        )
        report.since, report.note = chosen.since, chosen.note
        if chosen.outrun:
            self._say_outrun(going, place, swept, chosen)
        taking = self._taking(going, adapter)
        before, _ = drawn(self._database)
        seen: set[str] = set()
        validators: dict[str, Body] = {}
        for via, pages in self._feeds(going, adapter, kind, scope, chosen):
            for page in listed(pages, database=self._database, budgets=self._budgets, ended=going.ended):
                refs = [*(each.snapshot.ref for each in page.readings), *(hint.ref for hint in page.hints)]
                report.listed += len(refs)
                report.calls += page.calls
                validators |= page.validators
                seen.update(ref.id for ref in refs if via is Via.CRAWL)
                readings = [each for each in page.readings if not _is_beyond(asked, each.snapshot.stamp)]
                if readings:
                    taking.snapshots(report, readings, via)
                self._take_hints(going, report, taking, kind, page.hints)
        if chosen.whole:
            self._look_at(report, taking, scope, self._unlisted(report, scope, seen, before=before))
        elif turn is not None:
            self._take_turn(going, report, taking, place, turn)
        if kind.open_while is not None and not asked.light:
            self._look_at(report, taking, scope, self._unfinished(report, kind, scope, before=before))
        if not asked.dry_run and chosen.closes_at(swept):
            self._move_watermark(going, report, kind, scope, validators)
        if not asked.dry_run and chosen.whole:
            self._database.commit(partial(turns.had, place=place, now=going.started_at))

    def _turn(self, going: Going, place: Place) -> Turn | None:
        """Return how *place* stands in its turn, if it is its turn in this run."""
        every = self._schedule.full_every
        if every is None or not going.asked.in_turn:
            return None
        turn = self._database.commit(lambda connection: turns.of(connection, place, now=going.started_at))
        if place in going.put_off:
            return None
        return turn if self._is_due(going, place, turn.since, nights(every)) else None

    def _is_due(self, going: Going, place: Place, since: datetime, chosen: int) -> bool:
        kinds = self._adapters[place.source].kinds
        if kinds[place.kind].list is Listing.NONE:  # a share of its rows each night
            return is_due(since, going.started_at, place=0, nights=1)
        number = list(kinds).index(place.kind) + zlib.crc32(place.scope.encode())
        return is_due(since, going.started_at, place=number, nights=chosen)

    def _put_off(self, going: Going, source: str) -> None:
        """Put off the turns that were missed, where they are more than a run should make up for at once."""
        every = self._schedule.full_every
        if every is None or not going.asked.in_turn:
            return
        listed = {name for name, kind in self._adapters[source].kinds.items() if kind.list is not Listing.NONE}
        with self._database.transaction() as connection:
            known = {
                place: since for place, since in turns.standing(connection, source).items() if place.kind in listed
            }
        due = {place: since for place, since in known.items() if self._is_due(going, place, since, nights(every))}
        waiting = put_off(due, among=len(known), nights=nights(every))
        if not waiting:
            return
        told = f"{source}: {len(waiting)} of {len(due)} turns that were missed wait for the next nights"
        with going.lock:
            going.put_off |= waiting
            going.notes.append(told)
        self._log.warning("sweep.turns_put_off", source=source, due=len(due), put_off=len(waiting), because=told)

    def _take_turn(self, going: Going, report: KindReport, taking: Taking, place: Place, turn: Turn) -> None:
        """Look again at the share of our rows whose night it is; what was reached is kept once all of it is wanted."""
        every = self._schedule.full_every or DAY
        with self._database.transaction() as connection:
            ids = turns.share(connection, place, nights=nights(every), after=turn.reached)
            over = not ids or not turns.share(connection, place, nights=nights(every), after=ids[-1])
        self._look_at(report, taking, place.scope, ids)
        reached = "" if over else ids[-1]
        self._database.commit(lambda connection: turns.reach(connection, place, reached, now=going.started_at))

    def _say_outrun(self, going: Going, place: Place, swept: datetime | None, chosen: Window) -> None:
        """Say that this kind was not swept for longer than its feed remembers: an alarm for a day and until it is."""
        because = f"{place}: not swept since {swept and iso(swept)}, and {chosen.note}"
        with going.lock:
            going.notes.append(because)
        finding = Finding(place.source, What.FEED_OUTRUN, str(place), because)
        if going.asked.dry_run or self._database.commit(lambda connection: findings.find(connection, finding)):
            self._log.error("sweep.feed_outrun", place=str(place), swept_until=swept, because=chosen.note)

    def _taking(self, going: Going, adapter: Adapter) -> Taking:
        if going.asked.dry_run:
            return Comparing(
                going,
                database=self._database,
                mirror=self._mirror,
                adapter=adapter,
                budgets=self._budgets,
                in_flight=self._schedule.in_flight,
            )
        return Repairing(
            going,
            database=self._database,
            mirror=self._mirror,
            drain=self._drain,
            metrics=self._metrics,
            in_flight=self._schedule.in_flight,
        )

    def _take_hints(self, going: Going, report: KindReport, taking: Taking, kind: Kind, hints: Sequence[Hint]) -> None:
        """Take the hints that are worth a read: not those told by an event that our row has answered."""
        told = [hint for hint in hints if not _is_beyond(going.asked, hint.changed_at)]
        if not told:
            return
        with self._database.transaction() as connection:
            known = runs.known(connection, told)
            reached = _stamps(connection, told) if going.asked.light and kind.stamp else {}
        worth = [
            hint for hint in told if (hint.event_id, hint.ref) not in known and not _is_for_the_night(hint, reached)
        ]
        if worth:
            taking.hints(report, worth)

    def _look_at(self, report: KindReport, taking: Taking, scope: str, ids: Iterable[str]) -> None:
        hints = [Hint(ObjectRef(report.source, scope, report.kind, each)) for each in ids]
        for start in range(0, len(hints), _PIECE):
            taking.hints(report, hints[start : start + _PIECE])

    def _unlisted(self, report: KindReport, scope: str, seen: set[str], *, before: int) -> list[str]:
        """Return the living rows that the complete listing did not show: only a read proves that one is gone."""
        with self._database.transaction() as connection:
            living = runs.living(connection, report.source, scope, report.kind, before=before)
            return [each for each in living if each not in seen]

    def _unfinished(self, report: KindReport, kind: Kind, scope: str, *, before: int) -> list[str]:
        """
        Return the rows that are not finished: their changes need not show in any feed.

        Those that this run has read already are left out, and of very many all but those that were read longest ago.
        """
        if kind.open_while is None:
            return []
        pointer, values = kind.open_while
        with self._database.transaction() as connection:
            found = runs.unfinished(
                connection,
                report.source,
                scope,
                kind.name,
                pointer=pointer,
                values=values,
                before=before,
                limit=self._most_unfinished,
            )
        if len(found) == self._most_unfinished:
            report.note = f"{len(found)} unfinished ones, read longest ago, are read again; more the next night"
        return found

    def _feeds(
        self, going: Going, adapter: Adapter, kind: Kind, scope: str, chosen: Window
    ) -> Iterator[tuple[Via, Iterator[Page]]]:
        if chosen.crawl and kind.list is not Listing.NONE:
            yield Via.CRAWL, adapter.crawl(kind.name, scope)
        if chosen.since is not None:
            pages = going.feeds[adapter.source].changed_since(kind.name, scope, chosen.since)
            marks = self._marks.get(adapter.source)
            # Where rows are to be compared, or somebody asked for a window, every page has to be seen.
            spares = not (chosen.crawl or going.asked.dry_run or isinstance(going.asked.since, datetime))
            yield Via.SWEEP, pages if marks is None or not spares else _marked(pages, marks)

    def _move_watermark(
        self, going: Going, report: KindReport, kind: Kind, scope: str, validators: Mapping[str, Body]
    ) -> None:
        until = going.started_at - kind.feed_lag
        if going.asked.until is not None:
            until = min(until, going.asked.until)
        shape = self._mirror.of(report.source, report.kind).shape

        def move(connection: Connection) -> None:
            runs.move_watermark(connection, report.source, scope, kind.name, swept_until=until)
            # What lies beyond `until` was left out: its page must be seen again.
            seen = {} if going.asked.until is not None else validators
            marks.keep(connection, report.source, scope, kind.name, shape=shape, marks=seen)

        self._database.commit(move)

    # --- reading what was only hinted at ---

    def _work_off(self, going: Going, all_listed: Event, number: int) -> None:
        """Read what the run waits for until nothing is left that can be read soon."""
        while not going.ended.is_set():
            finished = all_listed.is_set()  # looked at before what is left: nothing is wanted after it
            left = self._database.commit(lambda connection: runs.left(connection, going.run_id))
            if finished and all(_is_hopeless(each) for each in left):
                return
            start = number % max(1, len(left))
            if not any(self._read(going, each) for each in (*left[start:], *left[:start])):
                time.sleep(_LOOKS_EVERY)

    def _read(self, going: Going, left: runs.Left) -> bool:
        """Read objects of one kind while some are due; return whether any was."""
        turned = False
        while not going.ended.is_set():
            looked = self._drain.turn_in_run(going.run_id, left.source, left.kind)
            if looked is None:
                break
            turned = True
            report = going.report(left.source, left.kind, looked.ref.scope)
            with going.lock:
                report.calls += looked.calls
        return turned


def _refused(connection: Connection, report: KindReport) -> bool:
    return sources.refuse(connection, report.source, report.scope, report.kind, because=report.error or "")


def _permitted(connection: Connection, report: KindReport, began_at: datetime) -> bool:
    return sources.permit(connection, report.source, report.scope, report.kind, began_at=began_at)


def _look_at_held(connection: Connection, run_id: int, pairs: Sequence[tuple[str, str]]) -> None:
    """Let the run look again at what is held back of its kinds: it may be there by now, or be allowed to go."""
    forgetting.among(connection, ())
    held = shares.refs(connection, pairs)
    wanted = refetches.want(connection, [Want(ref, Reason.SWEEP) for ref in held])
    runs.ask(connection, run_id, [Hint(ref) for ref in held], wanted)


def _never_swept(connection: Connection, pairs: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    swept = {
        (source, kind) for source in {source for source, _ in pairs} for _, kind in runs.watermarks(connection, source)
    }
    return frozenset(pair for pair in pairs if pair not in swept)


def _marked(pages: Iterator[Page], marks: Marks) -> Iterator[Page]:
    """Yield *pages*, those left out that are as they were; what marks them is handed out in the thread that lists."""
    with marks.handed_out():
        yield from pages


def _is_beyond(asked: Asked, changed_at: datetime | None) -> bool:
    return asked.until is not None and changed_at is not None and changed_at > asked.until


def _stamps(connection: Connection, hints: Sequence[Hint]) -> dict[ObjectRef, datetime]:
    rows = runs.stored(connection, [hint.ref for hint in hints])
    return {
        ref: row.source_updated_at
        for ref, row in rows.items()
        if row.digest is not None and row.source_updated_at is not None
    }


def _is_for_the_night(hint: Hint, reached: Mapping[ObjectRef, datetime]) -> bool:
    """Say whether a light pass leaves this hint: our row's stamp has reached it."""
    return hint.stamp is not None and hint.ref in reached and hint.stamp <= reached[hint.ref]


def _is_hopeless(left: runs.Left) -> bool:
    """Say whether nothing of this kind can be read soon: its source is paused, or its next read is far away."""
    return left.paused >= left.open or left.next_at is None or left.next_at - left.now > PATIENCE
