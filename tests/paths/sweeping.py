"""A sweep over the drain's bench."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reconciler.config.settings import ScheduleSettings
from reconciler.store import runs, story
from reconciler.sweep import Asked, Sweep
from reconciler.times import Last
from tests.paths.draining import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciler.model import Body, Page
    from tests.paths.draining import Bench, Side


@dataclass(frozen=True, slots=True)
class Swept:
    """What a run came to: its state, its report, and the report of each kind."""

    state: str
    report: Body
    kinds: Mapping[str, Body]

    @property
    def drift(self) -> list[tuple[str, str, str]]:
        """Return id, what and cause of what it found, sorted."""
        return sorted((each["id"], each["what"], each["cause"]) for each in self.report["drift"])


def sweep_on(bench: Bench, side: Side | None = None, *, stop: threading.Event | None = None, **changed: Any) -> Sweep:
    """Return the sweep of a process; nothing is in flight unless *changed* says so."""
    chosen = side or bench.side(in_flight=changed.get("in_flight", timedelta(0)))
    settings: dict[str, Any] = {"in_flight": timedelta(0), "overlap": timedelta(seconds=2)}
    most = {"most_unfinished": changed.pop("most_unfinished")} if "most_unfinished" in changed else {}
    return Sweep(
        bench.database,
        {SOURCE: chosen.adapter},
        mirror=chosen.mirror,
        drain=chosen.drain,
        budgets=chosen.budgets,
        schedule=ScheduleSettings(**(settings | changed)),
        workers=2,
        metrics=chosen.metrics,
        stop=stop or threading.Event(),
        **most,
    )


def swept(bench: Bench, *kinds: str, sweep: Sweep | None = None, **asked: Any) -> Swept:
    """Carry out a run of these kinds (customers, if none is named) and return what it came to."""
    chosen = sweep or sweep_on(bench)
    given: dict[str, Any] = {"trigger": "cli", "since": Last.LAST, "kinds": kinds or ("customer",)}
    run_id = chosen.begin(Asked(**(given | asked)))
    state = chosen.execute(run_id)
    with bench.database.transaction() as connection:
        report = story.run_report(connection, run_id)
    assert report is not None
    return Swept(state, report, {each["kind"]: each for each in report["kinds"]})


def watermark(bench: Bench, kind: str = "customer") -> datetime | None:
    """Return up to when a kind is swept."""
    with bench.database.transaction() as connection:
        return runs.watermarks(connection, SOURCE).get(("", kind))


def ago(**span: float) -> datetime:
    """Return the instant so long ago."""
    return datetime.now(UTC) - timedelta(**span)


def listing_as(bench: Bench, made: Callable[[Iterator[Page]], Iterator[Page]]) -> Sweep:
    """Return a sweep whose listings are what *made* makes of the provider's."""
    crawl = bench.main.stripe.behind.crawl
    vars(bench.main.stripe)["crawl"] = lambda kind, scope: made(crawl(kind, scope))
    return sweep_on(bench, bench.main)
