"""What a run is asked to do, how far it has come, and what it reports."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciler.errors import ConfigError
from reconciler.model import Verdict
from reconciler.store.shares import Held, Place
from reconciler.times import iso

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from reconciler.adapter import Feed, Probed
    from reconciler.store.guard import Outcome
    from reconciler.times import Last


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    What a run is asked to do.

    Attributes:
        trigger: nightly, light, catch_up, cli or http.
        since: Where each kind's window begins; `Last`, or None: at its watermark.
        until: Where it ends; None: it is open to now.
        sources: By name; empty: all.
        kinds: Empty: all that are mirrored.
        full: Compare every object, and prove each missing one gone.
        dry_run: Find drift and leave everything as it is.
        light: A cheap pass over the feeds: the overlap only, nothing that is not newer than our row.
        in_turn: Compare, besides, all of what has its turn this night.
        allow_deletes: Let go whatever is gone of the sources or kinds that are named, however much that is.
    """

    trigger: str
    since: datetime | Last | None
    until: datetime | None = None
    sources: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    full: bool = False
    dry_run: bool = False
    light: bool = False
    in_turn: bool = False
    allow_deletes: bool = False

    def check(self) -> None:
        """Raise `ConfigError` where what is asked must not be done."""
        if self.allow_deletes and not (self.sources or self.kinds):
            raise ConfigError("--allow-deletes: name whose objects may go; add --source, --kind or both")


@dataclass(slots=True)
class KindReport:
    """What a run has seen of one kind; its public fields are the keys of the run report, in that order."""

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
    held: int = 0
    calls: int = 0
    error: str | None = None
    note: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is about: source, scope and kind."""
        return self.source, self.scope, self.kind

    def told(self) -> dict[str, Any]:
        """Return it as the run report shows it."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return told | {name: None if told[name] is None else iso(told[name]) for name in ("since", "until")}

    def count(self, outcome: Outcome) -> None:
        """Count the verdict of one listed snapshot."""
        if outcome.verdict is Verdict.APPLIED:
            self.applied += 1
        elif outcome.verdict is Verdict.UNCHANGED:
            self.unchanged += 1
        elif outcome.verdict is Verdict.DECLINED:
            self.declined += 1
        elif outcome.verdict is Verdict.TIED:
            self.tied += 1

    def answer(self, verdicts: Mapping[str, int]) -> None:
        """Add what became of the objects that were read for this run, and say whether all of it was seen."""
        self.applied += sum(verdicts.get(each, 0) for each in ("applied", "in_flight", "tombstone"))
        self.tombstones += verdicts.get("tombstone", 0)
        self.in_flight += verdicts.get("in_flight", 0)
        self.unchanged += verdicts.get("unchanged", 0)
        self.declined += verdicts.get("declined", 0)
        self.tied += verdicts.get("tied", 0)
        self.held += verdicts.get("held", 0)
        left = {
            "dead": verdicts.get("dead", 0),
            "unfinished": verdicts.get("unfinished", 0) + verdicts.get("absent", 0),
        }
        unread = [f"{count} {what}" for what, count in left.items() if count]
        if self.held:
            unread.append(Held(Place(*self.key), self.held, None).told())
        if unread and self.error is None:
            self.error = ", ".join(unread)
        self.state = "incomplete" if self.error else "complete"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come: what it is doing, how much it has listed, and how many objects it still has to read."""

    doing: str
    listed: int
    left: int


@dataclass(slots=True)
class Going:
    """
    A run under way.

    Attributes:
        feeds: What shows the changes of each source, by its name, for as long as its kinds are listed.
        probed: What moved in each source, by its name, as far as it tells that in few calls.
        loading: The (source, kind) pairs that were never swept before: what is new there is no drift.
        ended: Set when the run must stop asking its providers: another took its kinds over, or the process stops.
        notes: What the reader of the run should know, in words: which kinds were not swept for longer than their feeds
            remember, how many turns were put off.
        put_off: The places whose turn waits for the next nights.
        compared: What a dry run has looked at.
    """

    run_id: int
    asked: Asked
    started_at: datetime
    reports: list[KindReport]
    loading: frozenset[tuple[str, str]]
    feeds: dict[str, Feed] = field(default_factory=dict)
    probed: dict[str, Probed | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    put_off: set[Place] = field(default_factory=set)
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def beside(self, report: KindReport, scope: str) -> KindReport:
        """Return a report of the same kind in another scope, put on record after *report*."""
        made = KindReport(report.source, report.provider, scope, report.kind, until=report.until)
        with self.lock:
            self.reports.append(made)
        return made

    def report(self, source: str, kind: str, scope: str) -> KindReport:
        """Return the report of a kind in *scope*; the first of the kind, if that scope is not swept."""
        of_kind = [report for report in self.reports if (report.source, report.kind) == (source, kind)]
        return next((report for report in of_kind if report.scope == scope), of_kind[0])

    def tallies(self) -> dict[str, Any]:
        """Return what `runs.tallies` holds."""
        return {"kinds": [report.told() for report in self.reports]}
