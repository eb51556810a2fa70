"""What is done with a page: repaired, or (dry run) only compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from reconciler import content
from reconciler.budgets import Lane
from reconciler.drain import is_in_flight, what_drifted
from reconciler.model import Change, Hint, Origin, Reason
from reconciler.store import forgetting, guard, refetches, runs
from reconciler.store.refetches import Want
from reconciler.telling import tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from sqlalchemy import Connection, Row

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.drain import Drain
    from reconciler.metrics import Metrics
    from reconciler.model import ObjectRef, Reading, Snapshot, Via
    from reconciler.store.database import Database
    from reconciler.store.guard import Outcome
    from reconciler.store.mirror import Mirror
    from reconciler.sweep.asked import Going, KindReport


class Taking(Protocol):
    """What a run does with what it lists."""

    def snapshots(self, report: KindReport, readings: Sequence[Reading], via: Via) -> None:
        """Take whole objects."""

    def hints(self, report: KindReport, hints: Sequence[Hint]) -> None:
        """Take objects to look at."""


class Repairing:
    """Apply snapshots, want hints, and put on record what had to be corrected."""

    def __init__(
        self,
        going: Going,
        *,
        database: Database,
        mirror: Mirror,
        drain: Drain,
        metrics: Metrics,
        in_flight: timedelta,
    ) -> None:
        self._going = going
        self._database = database
        self._mirror = mirror
        self._drain = drain
        self._metrics = metrics
        self._in_flight = in_flight
        self._log = structlog.get_logger()

    def snapshots(self, report: KindReport, readings: Sequence[Reading], via: Via) -> None:
        """Apply them, and wait for the rereads that the guard queued."""
        origin = Origin(via, run_id=self._going.run_id)
        outcomes = guard.apply_apart(
            self._database,
            readings,
            origin=origin,
            mirror=self._mirror,
            loading=self._going.loading,
            buried=self._wait_for_dead,
        )
        tell(outcomes, origin=origin, metrics=self._metrics)
        for outcome in outcomes:
            report.count(outcome)
            report.tombstones += outcome.change is Change.DELETED
        corrected = [outcome for outcome in outcomes if what_drifted(outcome)]
        drift = [_drift(outcome) for outcome in corrected if not self._is_in_flight(outcome)]
        report.in_flight += len(corrected) - len(drift)
        again = [outcome for outcome in outcomes if outcome.wanted is not None and not outcome.ladder]
        if drift or again:
            self._database.commit(lambda connection: self._keep(connection, drift, again))
        self._tell(drift)

    def hints(self, report: KindReport, hints: Sequence[Hint]) -> None:  # noqa: ARG002 - their reads are counted later
        """Want them, and wait for what reading them comes to."""

        def want(connection: Connection) -> None:
            forgotten = forgetting.among(connection, [hint.ref for hint in hints]).refs
            wants = [Want(hint.ref, Reason.SWEEP, hint.locator) for hint in hints if hint.ref not in forgotten]
            runs.ask(connection, self._going.run_id, hints, refetches.want(connection, wants))

        self._database.commit(want)
        self._drain.wake()

    def _wait_for_dead(self, connection: Connection, ref: ObjectRef, number: int) -> None:
        """Let the run know of an object that cannot be stored: it is not complete."""
        runs.ask(connection, self._going.run_id, [Hint(ref)], {ref: number})

    def _keep(self, connection: Connection, drift: Sequence[runs.Drift], again: Iterable[Outcome]) -> None:
        runs.drifted(connection, drift, run_id=self._going.run_id, repaired=True)
        numbers = {outcome.ref: outcome.wanted for outcome in again if outcome.wanted is not None}
        runs.ask(connection, self._going.run_id, [Hint(ref) for ref in numbers], numbers)

    def _tell(self, drift: Sequence[runs.Drift]) -> None:
        for each in drift:
            self._log.warning("drift.repaired", ref=str(each.ref), what=each.what, run_id=self._going.run_id)

    def _is_in_flight(self, outcome: Outcome) -> bool:
        return is_in_flight(outcome.reading.snapshot, (), within=self._in_flight)


class Comparing:
    """Put on record what differs, and leave everything as it is."""

    def __init__(
        self,
        going: Going,
        *,
        database: Database,
        mirror: Mirror,
        adapter: Adapter,
        budgets: Budgets,
        in_flight: timedelta,
    ) -> None:
        self._going = going
        self._database = database
        self._mirror = mirror
        self._adapter = adapter
        self._budgets = budgets
        self._in_flight = in_flight
        self._compared: set[ObjectRef] = set()

    def snapshots(self, report: KindReport, readings: Sequence[Reading], via: Via) -> None:  # noqa: ARG002 - nothing is written
        """Compare them with our rows."""
        self._compare(report, [reading.snapshot for reading in readings])

    def hints(self, report: KindReport, hints: Sequence[Hint]) -> None:
        """Read the objects and compare them with our rows."""
        with self._budgets.calling(Lane.SWEEP) as calls:
            read = [
                self._adapter.fetch(ref, locator=hint.locator)
                for ref, hint in {hint.ref: hint for hint in hints}.items()
                if ref not in self._compared
            ]
        report.calls += calls.count
        self._compare(report, read, hints)

    def _compare(self, report: KindReport, snapshots: Sequence[Snapshot], hints: Sequence[Hint] = ()) -> None:
        fresh = {snapshot.ref: snapshot for snapshot in snapshots if snapshot.ref not in self._compared}
        self._compared.update(fresh)
        with self._database.transaction() as connection:
            kinds = self._adapter.kinds
            forgotten = forgetting.among_bodies(
                connection, [(ref, kinds[ref.kind], snapshot.body) for ref, snapshot in fresh.items()]
            )
            fresh = {ref: snapshot for ref, snapshot in fresh.items() if ref not in forgotten}
            rows = runs.stored(connection, list(fresh))
            missed = runs.missed(connection, hints)
            told = runs.told(connection, list(fresh), hints)
        found = [self._differs(snapshot, rows.get(ref)) for ref, snapshot in fresh.items()]
        differing = [
            replace(each, cause="missed_notification") if each.ref in missed and each.what == "differs" else each
            for each in found
            if each is not None
        ]
        drift = [
            each for each in differing if not is_in_flight(fresh[each.ref], told[each.ref], within=self._in_flight)
        ]
        report.unchanged += len(found) - len(differing)
        report.in_flight += len(differing) - len(drift)
        run_id = self._going.run_id
        self._database.commit(lambda connection: runs.drifted(connection, drift, run_id=run_id, repaired=False))

    def _differs(self, snapshot: Snapshot, row: Row[Any] | None) -> runs.Drift | None:
        alive = row is not None and row.deleted_at is None
        if snapshot.body is None or row is None or not alive:
            what = "extra" if alive else "missing"
            return None if (snapshot.body is not None) == alive else runs.Drift(snapshot.ref, what, "other", [])
        form = self._mirror.of(snapshot.ref.source, snapshot.ref.kind).form
        theirs = form.stored(snapshot.body)
        if row.digest == form.digest(theirs):
            return None
        diff = content.differences(form.compared(content.parse(row.body)), form.compared(theirs))
        return runs.Drift(snapshot.ref, "differs", "other", diff) if diff else None


def _drift(outcome: Outcome) -> runs.Drift:
    return runs.Drift(outcome.ref, what_drifted(outcome) or "differs", "other", outcome.diff)
