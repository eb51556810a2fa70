"""What providers ask us to forget: noted with the delivery, done here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from reconciler.errors import AccessLost, DatabaseUnavailable, SourceError
from reconciler.store import forgetting, sources
from reconciler.store.sources import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter
    from reconciler.store.database import Database
    from reconciler.store.forgetting import Wish

_STILL_LET_IN = "its provider still lets us in; if it is to be erased: `reconcile source remove {} --delete-data`"


class Erasing:
    """
    Forgets what the providers of these sources ask for.

    A whole source goes only once its provider lets us in no more: what a delivery asks for is not all signed.
    """

    def __init__(self, database: Database, adapters: Mapping[str, Adapter]) -> None:
        self._database = database
        self._adapters = adapters
        self._log = structlog.get_logger()

    def turn(self) -> None:
        """Do what is asked for and due; what cannot be done now is tried again. Raises `DatabaseUnavailable`."""
        for wish in self._database.commit(partial(forgetting.wishes, sources=list(self._adapters))):
            try:
                self._grant(wish)
            except DatabaseUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - one wish that cannot be done must not keep the others
                because = str(error) if isinstance(error, SourceError) else type(error).__name__
                self._log.exception("erasure.postponed", source=wish.source, event_id=wish.event_id)
                self._database.commit(
                    partial(forgetting.postpone_erasure, source=wish.source, event_id=wish.event_id, because=because)
                )

    def _grant(self, wish: Wish) -> None:
        if wish.whole:
            self._erase(wish)
            return
        kinds = self._adapters[wish.source].kinds
        receipt = forgetting.forget(self._database, wish.objects, kinds, event_id=wish.event_id)
        told = receipt.told()
        self._log.warning("erasure.done", source=wish.source, event_id=wish.event_id, receipt=told)

    def _erase(self, wish: Wish) -> None:
        """Erase all there is of a source that its provider has shut to us; else leave it to a person."""
        try:
            self._adapters[wish.source].identity()
        except AccessLost:
            rows = self._database.commit(partial(_remove, wish.source))
            self._log.warning("erasure.done", source=wish.source, event_id=wish.event_id, rows=rows)
            return
        because = _STILL_LET_IN.format(wish.source)
        self._database.commit(
            partial(
                forgetting.end_erasure,
                source=wish.source,
                event_id=wish.event_id,
                outcome="skipped",
                because=because,
            )
        )
        self._log.error("erasure.refused", source=wish.source, event_id=wish.event_id, because=because)


def _remove(source: str, connection: Connection) -> int:
    sources.mark(connection, source, State.ERASED, because="its provider asked for that")
    return sources.erase(connection, source)
