"""
The sweep: list what changed (or everything), compare, repair, and say what drifted and why.

A run is complete only when every page of every kind it was asked for was seen and everything on them is applied or
read. The pages of a kind are listed in one thread and written in another; what a page only hints at becomes refetches
that the run works off itself, daemon or not.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import structlog

from reconciler import content
from reconciler.adapter import Listing
from reconciler.budgets import Lane
from reconciler.drain import what_drifted
from reconciler.errors import ConfigError, DatabaseUnavailable, ReconcilerError, SourceError
from reconciler.model import Change, Hint, ObjectRef, Origin, Reading, Reason, Verdict, Via
from reconciler.store import guard, refetches, runs, statements
from reconciler.store.refetches import Want
from reconciler.telling import tell
from reconciler.times import Last, iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter, Kind
    from reconciler.budgets import Budgets, Calls
    from reconciler.config import ScheduleSettings
    from reconciler.drain import Drain
    from reconciler.metrics import Metrics
    from reconciler.model import Page, Snapshot
    from reconciler.store.database import Database
    from reconciler.store.mirror import Mirror

DAY = timedelta(hours=24)
PATIENCE = timedelta(seconds=60)
"""How long a run waits for refetches that are not due yet before it calls them unfinished."""

_RENEW = runs.HOLD / 4
_SHOWN_EVERY, _LOOKS_EVERY = 1.0, 0.05
_PAGES_AHEAD = 2
_PIECE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    What a run is asked to do.

    Attributes:
        trigger: nightly, light, catch_up, cli or http.
        since: Where each kind's window begins; `Last`: at its watermark.
        until: Where it ends; None: it is open to now.
        sources: By name; empty: all.
        kinds: Empty: all that are mirrored.
        full: Compare every object, and prove each missing one gone.
        light: A cheap pass over the feeds: the overlap only, nothing that is not newer than our row.
    """

    trigger: str
    since: datetime | Last | None
    until: datetime | None = None
    sources: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    full: bool = False
    dry_run: bool = False
    light: bool = False


@dataclass(slots=True)
class KindReport:
    """What a run has seen of one kind in one scope; the keys of the run report."""

    source: str
    provider: str
    scope: str
    kind: str
    state: str = "running"
    since: datetime | None = None
    until: datetime | None = None
    listed: int = 0
    applied: int = 0
    unchanged: int = 0
    declined: int = 0
    tied: int = 0
    tombstones: int = 0
    in_flight: int = 0
    calls: int = 0
    error: str | None = None
    note: str | None = None
    drift: int = 0

    def told(self) -> dict[str, Any]:
        """Return it as the run report shows it."""
        return {
            "source": self.source,
            "provider": self.provider,
            "scope": self.scope,
            "kind": self.kind,
            "state": self.state,
            "since": None if self.since is None else iso(self.since),
            "until": None if self.until is None else iso(self.until),
            "listed": self.listed,
            "applied": self.applied,
            "unchanged": self.unchanged,
            "declined": self.declined,
            "tied": self.tied,
            "tombstones": self.tombstones,
            "in_flight": self.in_flight,
            "calls": self.calls,
            "error": self.error,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, for a progress bar: objects listed and applied so far, and what it is doing."""

    doing: str
    listed: int
    left: int


@dataclass(frozen=True, slots=True)
class _Window:
    """How one kind is to be listed: its feed from `since` on, all of it, or both."""

    since: datetime | None
    crawl: bool
    loading: bool
    note: str | None = None


@dataclass(slots=True)
class _Going:
    """A run under way."""

    run_id: int
    asked: Asked
    started_at: datetime
    reports: list[KindReport]
    loading: frozenset[tuple[str, str]]
    lost: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    compared: set[ObjectRef] = field(default_factory=set)


class Sweep:
    """Runs of this process: begins them, executes them, and keeps their records."""

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
        backfill_since: Mapping[str, datetime] | None = None,
    ) -> None:
        self._database = database
        self._adapters = adapters
        self._mirror = mirror
        self._drain = drain
        self._budgets = budgets
        self._schedule = schedule
        self._workers = workers
        self._metrics = metrics
        self._backfill_since = backfill_since or {}
        self._going: dict[int, _Going] = {}
        self._log = structlog.get_logger()

    def begin(self, asked: Asked) -> int:
        """
        Begin a run and return its id; it holds its kinds from now on and waits for `execute`.

        Raises `RunHeld` if another run holds one of them, and `ConfigError` for a source or kind that is not mirrored.
        """
        pairs = self._pairs(asked)
        since = None if isinstance(asked.since, Last) else asked.since
        told = {"since": "last" if isinstance(asked.since, Last) else None, "full": asked.full, "light": asked.light}

        def begin(connection: Connection) -> tuple[runs.Begun, frozenset[tuple[str, str]]]:
            loading = frozenset(pair for pair in pairs if self._is_new(connection, *pair))
            shown = [{"source": source, "kind": kind} for source, kind in sorted(loading)]
            begun = runs.begin(
                connection,
                pairs,
                trigger=asked.trigger,
                since=since,
                until=asked.until,
                dry_run=asked.dry_run,
                asked=told | {"loading": shown},
            )
            return begun, loading

        begun, loading = self._database.commit(begin)
        reports = [
            KindReport(source, self._adapters[source].provider, "", kind, until=asked.until) for source, kind in pairs
        ]
        self._going[begun.run_id] = _Going(begun.run_id, asked, begun.started_at, reports, loading)
        self._log.info("run.started", run_id=begun.run_id, trigger=asked.trigger, kinds=len(pairs))
        return begun.run_id

    def execute(self, run_id: int, *, progress: Callable[[Progress], None] = lambda _: None) -> str:
        """Carry out a run that was begun here and return the state it ended in; never raises for a source's sake."""
        going = self._going.pop(run_id)
        state, because = "failed", "unexpected"
        try:
            with self._renewed(going):
                state, because = self._carry_out(going, progress)
        except ReconcilerError as error:
            because = str(error)
        except Exception as error:
            self._log.exception("run.failed", run_id=run_id)
            because = f"unexpected: {type(error).__name__}: {error}"
        for report in going.reports:
            if report.state == "running":
                report.state, report.error = "incomplete", report.error or because
        self._finish(going, state, because)
        return state

    # --- what is asked for ---

    def _pairs(self, asked: Asked) -> list[tuple[str, str]]:
        unknown = [name for name in asked.sources if name not in self._adapters]
        known = ", ".join(sorted(self._adapters)) or "none"
        faults = [f"source {name!r} is not configured; there is: {known}" for name in unknown]
        chosen = asked.sources or tuple(self._adapters)
        mirrored = {kind for source in chosen if source in self._adapters for kind in self._adapters[source].kinds}
        faults += [
            f"kind {kind!r} is not mirrored by {', '.join(chosen)}; mirrored are: {', '.join(sorted(mirrored))}"
            for kind in asked.kinds
            if kind not in mirrored
        ]
        if faults:
            raise ConfigError(*faults)
        return [
            (source, kind)
            for source in dict.fromkeys(chosen)
            for kind in self._adapters[source].kinds
            if not asked.kinds or kind in asked.kinds
        ]

    def _is_new(self, connection: Connection, source: str, kind: str) -> bool:
        return all(name != kind for _, name in runs.watermarks(connection, source))

    # --- the run ---

    @contextmanager
    def _renewed(self, going: _Going) -> Iterator[None]:
        """Keep the run's kinds held while the block runs; a run that loses them stops asking its providers."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(_RENEW.total_seconds()):
                try:
                    held = self._database.commit(lambda connection: runs.renew(connection, going.run_id))
                except DatabaseUnavailable:
                    continue
                if not held:
                    going.lost.set()

        thread = threading.Thread(target=renew, name=f"run-{going.run_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _carry_out(self, going: _Going, progress: Callable[[Progress], None]) -> tuple[str, str | None]:
        listed = threading.Event()
        sources = list(dict.fromkeys(report.source for report in going.reports))
        threads = len(sources) + self._workers + 1
        with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="sweep") as pool, _ended_early(going):
            listings = [pool.submit(self._list_source, going, source) for source in sources]
            workers = (
                []
                if going.asked.dry_run
                else [pool.submit(self._work_off, going, listed, number) for number in range(self._workers)]
            )
            try:
                self._watch(going, progress, "listing", listings)
                for listing in listings:
                    listing.result()
            finally:
                listed.set()
            self._watch(going, progress, "reading", workers)
            for worker in workers:
                worker.result()
        self._show(going, progress, "done")
        return self._judge(going)

    def _judge(self, going: _Going) -> tuple[str, str | None]:
        counted = self._database.commit(lambda connection: runs.verdicts(connection, going.run_id))
        for report in going.reports:
            verdicts = Counter[str]()
            for (source, _, kind), each in counted.items():
                if (source, kind) == (report.source, report.kind):
                    verdicts.update(each)
            report.applied += verdicts["applied"] + verdicts["in_flight"] + verdicts["tombstone"]
            report.tombstones += verdicts["tombstone"]
            report.in_flight += verdicts["in_flight"]
            report.unchanged += verdicts["unchanged"]
            report.declined += verdicts["declined"]
            report.tied += verdicts["tied"]
            unread = {what: verdicts[what] for what in ("dead", "unfinished") if verdicts[what]}
            if unread and report.error is None:
                report.error = ", ".join(f"{count} {what}" for what, count in unread.items())
            report.state = "incomplete" if report.error else "complete"
        wrong = [f"{report.source}/{report.kind}: {report.error}" for report in going.reports if report.error]
        return ("incomplete", "; ".join(wrong)) if wrong else ("complete", None)

    def _finish(self, going: _Going, state: str, because: str | None) -> None:
        tallies = {"kinds": [report.told() for report in going.reports]}
        try:
            self._database.commit(
                lambda connection: runs.finish(connection, going.run_id, state=state, tallies=tallies, because=because)
            )
        except DatabaseUnavailable as error:
            self._log.error("run.unrecorded", run_id=going.run_id, state=state, because=str(error))
        self._metrics.ran(going.asked.trigger, state)
        drift = sum(report.drift for report in going.reports)
        self._log.info("run.finished", run_id=going.run_id, state=state, because=because, drift=drift)

    def _watch(
        self, going: _Going, progress: Callable[[Progress], None], doing: str, futures: Sequence[Future[None]]
    ) -> None:
        while wait(futures, timeout=_SHOWN_EVERY, return_when=FIRST_EXCEPTION).not_done:
            self._show(going, progress, doing)
            if any(future.done() and future.exception() for future in futures):
                return

    def _show(self, going: _Going, progress: Callable[[Progress], None], doing: str) -> None:
        with self._database.transaction() as connection:
            left = runs.count_left(connection, going.run_id)
            runs.tally(connection, going.run_id, {"kinds": [report.told() for report in going.reports]})
        progress(Progress(doing, sum(report.listed for report in going.reports), left))

    # --- listing ---

    def _list_source(self, going: _Going, source: str) -> None:
        for report in [report for report in going.reports if report.source == source]:
            self._list_kind(going, report)

    def _list_kind(self, going: _Going, report: KindReport) -> None:
        adapter = self._adapters[report.source]
        kind = adapter.kinds[report.kind]
        try:
            self._refuse_older_shape(report)
            for scope in adapter.scopes():
                self._list_scope(going, report, adapter, kind, scope)
        except SourceError as error:
            report.error = str(error) or type(error).__name__
            self._log.warning("sweep.incomplete", source=report.source, kind=report.kind, because=report.error)

    def _refuse_older_shape(self, report: KindReport) -> None:
        ours = self._mirror.of(report.source, report.kind).n
        newest = self._database.commit(lambda c: runs.newest_shape(c, report.source, report.kind))
        if newest > ours:
            message = "a newer process stores this kind in another shape; sweep it with that one"
            raise SourceError(message)

    def _list_scope(self, going: _Going, report: KindReport, adapter: Adapter, kind: Kind, scope: str) -> None:
        window = self._window(going, report, kind, scope)
        report.since, report.note = window.since, window.note
        before = self._draw()
        seen: set[str] = set()
        for via, pages in self._feeds(going, adapter, kind, scope, window):
            for page, (read_from, read_until, began_at) in self._pages(going, report, pages):
                report.listed += len(page.snapshots) + len(page.hints)
                if via is Via.CRAWL:
                    seen.update(each.ref.id for each in (*page.snapshots, *page.hints))
                readings = [
                    Reading(each, read_from, read_until, began_at, listed=True)
                    for each in page.snapshots
                    if going.asked.until is None or each.stamp is None or each.stamp <= going.asked.until
                ]
                self._take(going, report, kind, readings, page.hints, via)
        if going.asked.full:
            self._prove_missing(going, report, kind, scope, seen, before=before)
        if not going.asked.light:
            self._reread_open(going, report, kind, scope)
        if not going.asked.dry_run:
            self._move_watermark(going, report, kind, scope, window)

    def _window(self, going: _Going, report: KindReport, kind: Kind, scope: str) -> _Window:
        asked, now = going.asked, going.started_at
        swept = self._database.commit(lambda c: runs.watermarks(c, report.source)).get((scope, report.kind))
        loading = swept is None
        if asked.full:
            since = None if isinstance(asked.since, Last) else asked.since
            if kind.list is Listing.NONE and since is None:
                since = now - DAY
            return _Window(since, crawl=True, loading=loading)
        if isinstance(asked.since, Last) or asked.since is None:
            if swept is None:
                return _Window(None, crawl=True, loading=True, note="never swept: listed whole")
            since = swept - self._schedule.overlap
            since = since if asked.light else min(since, now - DAY)
        else:
            since = asked.since
        note = "never fully swept" if loading else None
        if kind.feed_history is not None and since < now - kind.feed_history:
            days = kind.feed_history.days
            note = f"the feed reaches back {days} days only: everything is listed"
            return _Window(since, crawl=True, loading=loading, note=note)
        return _Window(since, crawl=False, loading=loading, note=note)

    def _feeds(
        self, going: _Going, adapter: Adapter, kind: Kind, scope: str, window: _Window
    ) -> Iterator[tuple[Via, Iterator[Page]]]:
        if window.crawl and kind.list is not Listing.NONE:
            yield Via.CRAWL, adapter.crawl(kind.name, scope)
        if window.since is not None:
            reach = window.since
            if kind.feed_history is not None:
                reach = max(reach, going.started_at - kind.feed_history + timedelta(minutes=5))
            yield Via.SWEEP, adapter.changed_since(kind.name, scope, reach)

    def _pages(
        self, going: _Going, report: KindReport, pages: Iterator[Page]
    ) -> Iterator[tuple[Page, tuple[int, int, datetime]]]:
        """Yield pages with the interval of positions that each took, listing ahead in a thread of its own."""
        ready: Queue[tuple[Page, tuple[int, int, datetime]] | BaseException | None] = Queue(maxsize=_PAGES_AHEAD)
        stopped = threading.Event()

        def put(what: tuple[Page, tuple[int, int, datetime]] | BaseException | None) -> None:
            while not stopped.is_set():
                try:
                    ready.put(what, timeout=0.2)
                except Exception:  # noqa: BLE001, S112 - Full: look whether anybody still reads
                    continue
                return

        def walk() -> None:
            calls: Calls | None = None
            try:
                with self._budgets.calling(Lane.SWEEP) as calls:
                    while not stopped.is_set() and not going.lost.is_set():
                        position, began_at = self._draw_with_clock()
                        page = next(pages, None)
                        if page is None:
                            break
                        put((page, (position, self._draw(), began_at)))
                    if going.lost.is_set():
                        message = "the run was stopped, or another took this kind over"
                        raise SourceError(message)
                put(None)
            except BaseException as error:  # noqa: BLE001 - raised where the pages are read
                put(error)
            finally:
                with going.lock:
                    report.calls += 0 if calls is None else calls.count

        thread = threading.Thread(target=walk, name=f"list-{report.source}-{report.kind}", daemon=True)
        thread.start()
        try:
            while True:
                try:
                    found = ready.get(timeout=0.5)
                except Empty:
                    continue
                if found is None:
                    return
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            stopped.set()
            thread.join()

    def _draw_with_clock(self) -> tuple[int, datetime]:
        with self._database.transaction() as connection:
            drawn = statements.one(connection, "draw_position", {"now": None})
        return drawn.position, drawn.now

    def _draw(self) -> int:
        return self._draw_with_clock()[0]

    # --- one page ---

    def _take(
        self,
        going: _Going,
        report: KindReport,
        kind: Kind,
        readings: Sequence[Reading],
        hints: Sequence[Hint],
        via: Via,
    ) -> None:
        if going.asked.dry_run:
            self._compare(going, report, readings, hints)
            return
        if readings:
            self._apply(going, report, readings, via)
        chosen = self._worth_reading(going, kind, hints)
        if chosen:
            self._want(going, chosen)

    def _apply(self, going: _Going, report: KindReport, readings: Sequence[Reading], via: Via) -> None:
        origin = Origin(via, run_id=going.run_id)
        outcomes = guard.apply_apart(
            self._database, readings, origin=origin, mirror=self._mirror, loading=going.loading
        )
        tell(outcomes, origin=origin, metrics=self._metrics)
        found: list[runs.Drift] = []
        again: list[Hint] = []
        for outcome in outcomes:
            what = what_drifted(outcome)
            report.tombstones += outcome.change is Change.DELETED
            if outcome.verdict is Verdict.APPLIED:
                report.applied += 1
            elif outcome.verdict is Verdict.UNCHANGED:
                report.unchanged += 1
            elif outcome.verdict is Verdict.DECLINED:
                report.declined += 1
            elif outcome.verdict is Verdict.TIED:
                report.tied += 1
            if outcome.wanted is not None and not outcome.ladder:
                again.append(Hint(outcome.ref, stamp=outcome.reading.snapshot.stamp))
            if what is None:
                continue
            snapshot = outcome.reading.snapshot
            if snapshot.stamp is not None and snapshot.observed_at - snapshot.stamp < self._schedule.in_flight:
                report.in_flight += 1
            else:
                found.append(runs.Drift(outcome.ref, what, "other", outcome.diff))
        report.drift += len(found)
        numbers = {outcome.ref: outcome.wanted for outcome in outcomes if outcome.wanted is not None}

        def keep(connection: Connection) -> None:
            runs.drifted(connection, found, run_id=going.run_id, repaired=True)
            runs.ask(connection, going.run_id, again, numbers)

        if found or again:
            self._database.commit(keep)
        for each in found:
            self._metrics.drifted(report.source, report.kind, each.cause)
            self._log.warning("drift.repaired", ref=str(each.ref), what=each.what, run_id=going.run_id)

    def _worth_reading(self, going: _Going, kind: Kind, hints: Sequence[Hint]) -> list[Hint]:
        """Leave out what costs nothing: told by an event that is done, or (light) no newer than a stamped row."""
        until = going.asked.until
        told = [hint for hint in hints if until is None or hint.changed_at is None or hint.changed_at <= until]
        if not told:
            return []
        with self._database.transaction() as connection:
            known = runs.known(connection, told)
            rows = runs.stored(connection, [hint.ref for hint in told]) if going.asked.light and kind.stamp else {}

        def waits_for_the_night(hint: Hint) -> bool:
            row = rows.get(hint.ref)
            return (
                row is not None
                and row.digest is not None
                and row.source_updated_at is not None
                and hint.stamp is not None
                and hint.stamp <= row.source_updated_at
            )

        return [hint for hint in told if (hint.event_id, hint.ref) not in known and not waits_for_the_night(hint)]

    def _want(self, going: _Going, hints: Sequence[Hint]) -> None:
        def want(connection: Connection) -> None:
            wants = [Want(hint.ref, Reason.SWEEP, hint.locator) for hint in hints]
            runs.ask(connection, going.run_id, hints, refetches.want(connection, wants))

        self._database.commit(want)
        self._drain.wake()

    def _prove_missing(
        self, going: _Going, report: KindReport, kind: Kind, scope: str, seen: set[str], *, before: int
    ) -> None:
        """Look at every living row that the complete listing did not show: only a read proves that it is gone."""
        if kind.list is Listing.NONE:
            return
        with self._database.transaction() as connection:
            living = list(runs.living(connection, report.source, scope, kind.name, before=before))
        missing = [Hint(ObjectRef(report.source, scope, kind.name, each)) for each in living if each not in seen]
        for start in range(0, len(missing), _PIECE):
            self._look_at(going, report, missing[start : start + _PIECE])

    def _reread_open(self, going: _Going, report: KindReport, kind: Kind, scope: str) -> None:
        """Look at every object that is not finished: its changes need not show in any feed."""
        if kind.open_while is None:
            return
        pointer, values = kind.open_while
        with self._database.transaction() as connection:
            ids = runs.unfinished(connection, report.source, scope, kind.name, pointer=pointer, values=values)
        hints = [Hint(ObjectRef(report.source, scope, kind.name, each)) for each in ids]
        for start in range(0, len(hints), _PIECE):
            self._look_at(going, report, hints[start : start + _PIECE])

    def _look_at(self, going: _Going, report: KindReport, hints: Sequence[Hint]) -> None:
        if going.asked.dry_run:
            self._compare(going, report, (), hints)
        else:
            self._want(going, hints)

    def _move_watermark(self, going: _Going, report: KindReport, kind: Kind, scope: str, window: _Window) -> None:
        """Say how far the kind is swept, if nothing before this window is left out."""
        swept = self._database.commit(lambda c: runs.watermarks(c, report.source)).get((scope, kind.name))
        if not window.crawl and (swept is None or window.since is None or window.since > swept):
            return
        until = going.started_at - kind.feed_lag
        if going.asked.until is not None:
            until = min(until, going.asked.until)
        self._database.commit(lambda c: runs.move_watermark(c, report.source, scope, kind.name, swept_until=until))

    # --- working off ---

    def _work_off(self, going: _Going, listed: threading.Event, number: int) -> None:
        """Read what the run waits for until nothing is left that can be read soon."""
        reports = {(report.source, report.kind): report for report in going.reports}
        while not going.lost.is_set():
            finished = listed.is_set()  # looked at before what is left: nothing is wanted after it
            left = self._database.commit(lambda connection: runs.left(connection, going.run_id))
            if finished and not left:
                return
            turned = 0
            for each in [*left[number % len(left) :], *left[: number % len(left)]] if left else []:
                while (looked := self._drain.turn_in_run(going.run_id, each.source, each.kind)) is not None:
                    turned += 1
                    with going.lock:
                        reports[each.source, each.kind].calls += looked.calls
            if turned:
                continue
            if finished and all(_is_hopeless(each) for each in left):
                return
            time.sleep(_LOOKS_EVERY)

    # --- comparing without writing ---

    def _compare(self, going: _Going, report: KindReport, readings: Sequence[Reading], hints: Sequence[Hint]) -> None:
        """Find drift and leave it as it is: the dry run's way through a page."""
        listed = {reading.snapshot.ref: reading.snapshot for reading in readings}
        snapshots = [snapshot for ref, snapshot in listed.items() if ref not in going.compared]
        adapter = self._adapters[report.source]
        worth = self._worth_reading(going, adapter.kinds[report.kind], hints)
        with self._budgets.calling(Lane.SWEEP) as calls:
            snapshots += [
                adapter.fetch(hint.ref, locator=hint.locator)
                for hint in {hint.ref: hint for hint in worth}.values()
                if hint.ref not in going.compared and hint.ref not in listed
            ]
        report.calls += calls.count
        with going.lock:
            going.compared.update(snapshot.ref for snapshot in snapshots)
        with self._database.transaction() as connection:
            rows = runs.stored(connection, [snapshot.ref for snapshot in snapshots])
        found = [drift for snapshot in snapshots if (drift := self._differs(snapshot, rows.get(snapshot.ref)))]
        report.unchanged += len(snapshots) - len(found)
        report.drift += len(found)
        self._database.commit(lambda connection: runs.drifted(connection, found, run_id=going.run_id, repaired=False))

    def _differs(self, snapshot: Snapshot, row: Any) -> runs.Drift | None:  # noqa: ANN401 - a database row
        form = self._mirror.of(snapshot.ref.source, snapshot.ref.kind).form
        alive = row is not None and row.deleted_at is None
        if snapshot.body is None:
            return runs.Drift(snapshot.ref, "extra", "other", []) if alive else None
        if not alive:
            return runs.Drift(snapshot.ref, "missing", "other", [])
        theirs = form.stored(snapshot.body)
        if row.digest == form.digest(theirs):
            return None
        diff = content.differences(form.compared(content.parse(row.body)), form.compared(theirs))
        return runs.Drift(snapshot.ref, "differs", "other", diff) if diff else None


@contextmanager
def _ended_early(going: _Going) -> Iterator[None]:
    """Let the run's threads end at their next step where the block fails: its pool waits for them."""
    try:
        yield
    except BaseException:
        going.lost.set()
        raise


def _is_hopeless(left: runs.Left) -> bool:
    """Whether nothing of this kind can be read soon: its source is paused, or its next read is far away."""
    return left.paused >= left.open or left.next_at is None or left.next_at - left.now > PATIENCE
