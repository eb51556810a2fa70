"""Deliveries that failed: asked for again, or their objects wanted, a few times and not for ever."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from reconciler.errors import SourceRefused
from reconciler.model import Reason
from reconciler.store import forgetting, redeliveries, refetches
from reconciler.store.refetches import Want

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Undelivered
    from reconciler.store.database import Database
    from reconciler.store.redeliveries import Asked
    from reconciler.watchdog.watched import Watched

REACH: Final = timedelta(days=3)
"""How far back a delivery can be sent again."""

AN_HOUR: Final = 300
"""Events of one source that are asked for again in one look."""

_SEEN_AT_ONCE: Final = 5000
_TIMES: Final = 3
_REST: Final = timedelta(minutes=50)  # after which an event may be asked for again; twice as long each time
_ON_ITS_WAY: Final = timedelta(minutes=1)  # an event that is newer may be coming by itself
_KEPT: Final = timedelta(days=7)


class Redelivering:
    """Looks after what providers could not deliver."""

    def __init__(self, database: Database, *, wake: Callable[[], None]) -> None:
        self._database, self._wake = database, wake
        self._log = structlog.get_logger()

    def look(self, watched: Watched, now: datetime) -> None:
        """Have what failed sent again, the oldest first, or want what it is about; raises a `SourceError`."""
        found = list(islice(watched.adapter.failed_deliveries(watched.urls, now - REACH), _SEEN_AT_ONCE))
        chosen = sorted(self._chosen(watched.source, found, now), key=lambda each: each.at)[:AN_HOUR]
        self._want(watched.source, [each for each in chosen if each.hints], now)
        for each in chosen:
            if not each.hints:
                self._redeliver(watched, each, now)
        self._database.commit(lambda c: redeliveries.forget(c, watched.source, before=now - _KEPT))

    def _chosen(self, source: str, found: Sequence[Undelivered], now: datetime) -> Iterator[Undelivered]:
        """Yield what did not arrive in any way, and was not asked for lately or too often."""
        with self._database.transaction() as connection:
            stands = redeliveries.asked(connection, source, [each.event_id for each in found])
        for each in found:
            if _is_due(each, stands[each.event_id], now):
                yield each

    def _want(self, source: str, undelivered: Sequence[Undelivered], now: datetime) -> None:
        """Want the objects that these events are about, once for each event."""
        if not undelivered:
            return
        wants = {hint.ref: Want(hint.ref, Reason.SWEEP, hint.locator) for each in undelivered for hint in each.hints}

        def want(connection: Connection) -> None:
            forgotten = forgetting.among(connection, wants).refs
            refetches.want(connection, [each for ref, each in wants.items() if ref not in forgotten])
            redeliveries.ask(connection, source, [each.event_id for each in undelivered], now=now)

        self._database.commit(want)
        self._wake()
        self._log.warning("delivery.missed", source=source, events=len(undelivered), objects=len(wants))

    def _redeliver(self, watched: Watched, undelivered: Undelivered, now: datetime) -> None:
        refused = ""
        try:
            watched.adapter.redeliver(undelivered)
        except SourceRefused as error:
            refused = str(error)
        self._database.commit(lambda c: redeliveries.ask(c, watched.source, [undelivered.event_id], now=now))
        told = {"source": watched.source, "event_id": undelivered.event_id, "place": undelivered.place}
        if refused:
            self._log.warning("delivery.not_redelivered", **told, because=refused)
        else:
            self._log.info("delivery.redelivered", **told)


def _is_due(undelivered: Undelivered, stands: Asked, now: datetime) -> bool:
    if stands.arrived:
        return False
    if undelivered.hints:
        return not stands.times and undelivered.at <= now - _ON_ITS_WAY
    rested = stands.last_at is None or stands.last_at + _REST * (1 << stands.times - 1) <= now
    return stands.times < _TIMES and rested
