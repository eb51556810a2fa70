"""
Light passes over many scopes: where its provider says in few calls that nothing moved, a scope is not listed.

What the provider showed as unmoved counts as listed, and its watermark moves; what it cannot show waits for the night.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from reconciler.adapter import Probing, Standing, patiently
from reconciler.budgets import Lane
from reconciler.errors import SourceError
from reconciler.store import runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter, Kind, Probed
    from reconciler.budgets import Budgets
    from reconciler.store.database import Database
    from reconciler.sweep.asked import Asked, Going, KindReport


class Sparing:
    """Finds out which scopes of a kind a light pass need not list."""

    def __init__(self, database: Database, budgets: Budgets, *, overlap: timedelta) -> None:
        self._database = database
        self._budgets = budgets
        self._overlap = overlap
        self._log = structlog.get_logger()

    def left(self, going: Going, report: KindReport, adapter: Adapter, scopes: Sequence[str]) -> Sequence[str]:
        """
        Return those of *scopes* that are to be listed: all, unless this is a light pass and its provider tells more.

        Puts on record what becomes of the others; *report* is of them where none is left.
        """
        probed = self._probed(going, report, adapter)
        if probed is None:
            return scopes
        kind = adapter.kinds[report.kind]
        swept = self._database.commit(lambda connection: runs.watermarks(connection, report.source))
        stands = {scope: self._standing(probed, kind, scope, swept.get((scope, kind.name))) for scope in scopes}
        still, unseen, left = (
            [scope for scope in scopes if stands[scope] is each]
            for each in (Standing.STILL, Standing.UNSEEN, Standing.MOVED)
        )
        if still:
            self._count_as_listed(going, report, kind, still)
        if still or unseen:
            beside = going.beside(report, "") if left else report
            told = f"{len(still)} scopes that did not change, {len(unseen)} that wait for the night"
            beside.note = f"not listed: {told}"
        return left

    def _probed(self, going: Going, report: KindReport, adapter: Adapter) -> Probed | None:
        """Return what moved in a source, asked once a run: never before it began, for its watermarks end there."""
        if not (_is_eligible(going.asked) and isinstance(adapter, Probing)):
            return None
        if report.source not in going.probed:
            try:
                with self._budgets.calling(Lane.SWEEP) as calls:
                    going.probed[report.source] = patiently(adapter.probe)
                report.calls += calls.count
            except SourceError as error:  # each scope is listed, then: that costs more, and shows as much
                self._log.warning("sweep.unprobed", source=report.source, because=str(error))
                going.probed[report.source] = None
        return going.probed[report.source]

    def _standing(self, probed: Probed, kind: Kind, scope: str, swept: datetime | None) -> Standing:
        if swept is None or kind.feed_history is not None:
            return Standing.MOVED
        return probed.standing(kind.name, scope, swept - self._overlap)

    def _count_as_listed(self, going: Going, report: KindReport, kind: Kind, scopes: Sequence[str]) -> None:
        def move(connection: Connection) -> None:
            until = going.started_at - kind.feed_lag
            for scope in scopes:
                runs.move_watermark(connection, report.source, scope, kind.name, swept_until=until)

        self._database.commit(move)


def _is_eligible(asked: Asked) -> bool:
    """Say whether a run wants what changed lately, and no more: nothing is compared, and nobody asked for a window."""
    return asked.light and not (asked.full or asked.dry_run or asked.until or isinstance(asked.since, datetime))
