"""A source that changes and says nothing: sweeps find what no notification told of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from reconciler import times
from reconciler.store import findings
from reconciler.store.findings import Finding, What

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.store.database import Database
    from reconciler.store.findings import Silence

LEAST: Final = 3
"""So many changes must have been missed: one may be an event that is made late."""

KNOWN: Final = 20
"""After so many events a source's usual silence is known."""

_SPAN: Final = timedelta(days=7)
_SHORTEST: Final = timedelta(hours=1)
_UNKNOWN: Final = timedelta(hours=24)
_ABOUT: Final = "notifications"


class Listening:
    """Compares what came with what sweeps had to find."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._log = structlog.get_logger()

    def listen(self, source: str, now: datetime | None = None) -> None:
        """Raise the alarm where *source* changes and has been silent for longer than it ever is; lift it else."""

        def keep(connection: Connection) -> str:
            because = why(findings.silence(connection, source, span=_SPAN, now=now))
            finding = Finding(source, What.SILENCE, _ABOUT, because)
            if because:
                return because if findings.find(connection, finding, now=now) else ""
            findings.lose(connection, source, What.SILENCE)
            return ""

        if because := self._database.commit(keep):
            self._log.warning("source.silence", source=source, because=because)


def why(silence: Silence) -> str:
    """Return why a source is too silent, in words; empty: it is not."""
    begun = silence.last_at or silence.since
    if silence.missed < LEAST or begun is None or silence.now - begun <= usual(silence):
        return ""
    ever = "nothing ever came" if silence.last_at is None else f"nothing has come since {times.iso(silence.last_at)}"
    return (
        f"sweeps found {silence.missed} changes that no notification told of, and {ever}: "
        "see whether the subscription is there, and whether its deliveries reach the public listener"
    )


def usual(silence: Silence) -> timedelta:
    """Return how long a source may be silent: twice as long as it ever was, a day where that is not known yet."""
    if silence.events < KNOWN or silence.usual is None:
        return _UNKNOWN
    return max(_SHORTEST, silence.usual * 2)
