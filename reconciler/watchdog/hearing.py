"""What a provider says in passing about the way it is called, kept for people."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog

from reconciler.errors import DatabaseUnavailable
from reconciler.store import findings
from reconciler.store.findings import Finding, What

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.store.database import Database

_AGAIN: Final = 3600.0  # seconds in which one process keeps the same words once: every answer may say them


class Hearing:
    """What one source's provider says, from any thread; a word that cannot be kept now is said again soon."""

    def __init__(self, database: Database, source: str, *, clock: Callable[[], float] = monotonic) -> None:
        self._database, self._source, self._clock = database, source, clock
        self._heard: dict[tuple[str, str], float] = {}

    def __call__(self, what: str, about: str, because: str) -> None:
        """Keep what was said, and log it where it is new or was not logged for a day."""
        now = self._clock()
        if now < self._heard.get((what, about), now):
            return
        finding = Finding(self._source, What(what), about, f"{about}: {because}")
        try:
            say = self._database.commit(lambda connection: findings.find(connection, finding))
        except DatabaseUnavailable:
            return
        self._heard[what, about] = now + _AGAIN
        if say:
            structlog.get_logger().warning(f"source.{what}", source=self._source, about=about, because=because)
