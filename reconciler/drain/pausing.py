"""Sources that answer nobody and kinds that may not be read are left alone for a while; whoever is answered ends it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from reconciler.budgets import Lane
from reconciler.errors import AccessLost, SourceBusy, SourceError, SourceUnavailable
from reconciler.store import pauses, sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.model import ObjectRef
    from reconciler.store.database import Database
    from reconciler.store.refetches import Leased

FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=10)
LONGEST_ASKED = timedelta(hours=24)
"""A provider that asks us to wait longer is asked again after this."""

_ASKS_WITHIN = 30.0
_LOST = AccessLost().what


@dataclass(frozen=True, slots=True)
class Probe:
    """
    Whether a source answers at all.

    Attributes:
        away: It answers nobody, or has no call left: the object that failed is not to blame.
        calls: Provider calls spent on finding out.
    """

    away: bool
    calls: int


class Pausing:
    """Pauses and resumes the sources of this process."""

    def __init__(self, database: Database, adapters: Mapping[str, Adapter], budgets: Budgets) -> None:
        self._database = database
        self._adapters = adapters
        self._budgets = budgets
        self._paused: set[str] = set()
        self._log = structlog.get_logger()

    def refresh(self) -> None:
        """See which sources any process has paused, and end pauses that only a wrong clock can have set."""
        if self._database.commit(lambda connection: pauses.unfreeze(connection, longest=LONGEST_ASKED)):
            self._log.warning("source.unfrozen", because="a pause that ends far ahead of the clock")
        self._paused = {each.source for each in self._database.commit(pauses.standing)}

    def probe(self, ref: ObjectRef) -> Probe:
        """Ask who we are, in the source and in the scope: where not even that is answered, pause it."""
        with self._budgets.calling(Lane.LIVE, deadline=_ASKS_WITHIN) as calls:
            away = any(self._asked(ref.source, scope) is not None for scope in dict.fromkeys(("", ref.scope)))
        return Probe(away, calls.count)

    def lost(self, ref: ObjectRef) -> str | None:
        """
        Ask who we are where a list was refused: return the scope that answers nobody, now paused; None: it answers.

        Empty: all of the source. Raises `SourceBusy` where that cannot be asked now.
        """
        with self._budgets.calling(Lane.SWEEP, deadline=_ASKS_WITHIN):
            for scope in dict.fromkeys(("", ref.scope)):
                error = self._asked(ref.source, scope)
                if isinstance(error, SourceBusy):
                    raise error
                if error is not None:
                    return scope
        return None

    def answered(self, leased: Leased) -> None:
        """Take the source and the scope up again: a read that began after their pause was answered."""
        ref = leased.ref
        if not leased.attempts and ref.source not in self._paused:
            return
        resumed = self._database.commit(
            lambda connection: pauses.unpause(connection, ref.source, ref.scope, began_at=leased.began_at)
        )
        if resumed:
            self._resumed(ref.source, ref.scope)

    def refuse(self, leased: Leased, error: AccessLost) -> bool:
        """
        Let the kind of what was leased wait: its source answers, but not for it; return whether it does.

        It does not where others of it were read since this object was refused likewise: then the object is to blame.
        """
        ref = leased.ref

        def refuse(connection: Connection) -> bool | None:
            is_new = sources.refuse(connection, ref.source, ref.scope, ref.kind, because=str(error))
            if is_new and leased.last_error == str(error):
                sources.permit(connection, ref.source, ref.scope, ref.kind, began_at=None)
                return None
            return is_new

        is_new = self._database.commit(refuse)
        if is_new:
            told = {"source": ref.source, "scope": ref.scope, "kind": ref.kind}
            self._log.error("source.refused", **told, because=str(error))
        return is_new is not None

    def seen(self, leased: Leased) -> None:
        """Take the source, the scope and the kind up again: a read told what is there, or that it is not."""
        self.answered(leased)
        ref = leased.ref
        if leased.refused and self._database.commit(
            lambda connection: sources.permit(connection, ref.source, ref.scope, ref.kind, began_at=leased.began_at)
        ):
            self._log.info("source.permitted", source=ref.source, scope=ref.scope, kind=ref.kind)

    def look(self, *, beat: Callable[[], None]) -> bool:
        """
        Look at our access where a provider said that it has changed; return whether it did anywhere.

        What is lost is paused, what is back goes on at once; while nobody answers the look stays due.
        """
        look = self._database.commit(lambda connection: pauses.lease_look(connection, list(self._adapters)))
        if look is None:
            return False
        with self._budgets.calling(Lane.LIVE, deadline=_ASKS_WITHIN, beat=beat):
            asked = (self._asked(look.source, scope, told=look.what) for scope in dict.fromkeys(("", look.scope)))
            error = next((each for each in asked if each is not None), None)
        if isinstance(error, SourceUnavailable):
            return True

        def settle(connection: Connection) -> bool:
            pauses.settle_look(connection, look)
            if error is not None:
                return False
            sources.retry(connection, look.source)
            return pauses.unpause(connection, look.source, look.scope, began_at=look.began_at)

        if self._database.commit(settle):
            self._resumed(look.source, look.scope)
        return True

    def _resumed(self, source: str, scope: str) -> None:
        self._paused.discard(source)
        self._log.info("source.resumed", source=source, scope=scope)

    def _asked(self, source: str, scope: str, *, told: str = "") -> SourceError | None:
        """
        Ask who we are; return why that was not answered, and pause what answers nobody.

        *told* is what the provider said of a lost access, where its answer does not say.
        """
        try:
            self._adapters[source].identity(scope)
        except SourceBusy as busy:
            return busy
        except AccessLost as lost:
            self._pause(source, scope, told if told and lost.what == _LOST else lost.what, lost)
            return lost
        except SourceError as away:
            self._pause(source, scope, "unavailable", away)
            return away
        return None

    def _pause(self, source: str, scope: str, what: str, error: SourceError) -> None:
        first = max(FIRST_PAUSE, asked_to_wait(error) or FIRST_PAUSE)
        until = self._database.commit(
            lambda connection: pauses.pause(
                connection,
                source,
                scope,
                what=what,
                because=str(error),
                first=first,
                longest=max(LONGEST_PAUSE, first),
            )
        )
        self._paused.add(source)
        if until is not None:
            self._log.error("source.paused", source=source, scope=scope, what=what, because=str(error), until=until)


def asked_to_wait(error: SourceError) -> timedelta | None:
    """Return how long the provider asked us to wait, if it did."""
    seconds = error.retry_after if isinstance(error, SourceUnavailable) else None
    return None if seconds is None else min(timedelta(seconds=seconds), LONGEST_ASKED)
