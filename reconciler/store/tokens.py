"""
Access tokens that providers issue for a while: one for each source, shared by all processes, renewed before it ends.

Whoever renews holds a lease in the token's row meanwhile, and no transaction: all others go on with the old token as
long as it is good, and wait for the new one when it is not. What a dead process held is free again after a time.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from reconciler.errors import SourceBusy, SourceError
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.adapter import Issued
    from reconciler.store.database import Database

HOLD: Final = timedelta(seconds=60)
"""How long a lease lasts; longer than a provider takes to issue a token."""

FRESH: Final = 0.75
"""The part of its life after which a token is renewed."""

SOON: Final = 5.0
"""Seconds; a token that ends sooner is as good as none."""

_REST = timedelta(seconds=10)  # after a renewal that failed while the old token was still good
_LOOKS_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Share:
    """
    What there is of a source's token.

    Attributes:
        token: None: there is none.
        renew_in: Seconds.
        ends_in: Seconds.
        ours: Whoever asked is to have a new one issued.
    """

    token: str | None = field(repr=False)
    renew_in: float
    ends_in: float
    ours: bool

    @property
    def good(self) -> str | None:
        """The token, unless it has ended or will in a moment."""
        return self.token if self.ends_in > SOON else None


def share(
    connection: Connection, source: str, *, credential: str, lease: uuid.UUID, now: datetime | None = None
) -> Share:
    """Return the token of *source* under *credential*, and take *lease* where that is free and a new one is due."""
    parameters = {"source": source, "credential": credential, "lease": lease, "hold": HOLD, "now": now}
    row = statements.one(connection, "share_token", parameters)
    return Share(row.token, row.renew_in or 0.0, row.ends_in or 0.0, bool(row.ours))


def keep(connection: Connection, source: str, issued: Issued, *, lease: uuid.UUID, now: datetime | None = None) -> bool:
    """Share what was issued under *lease*, and say whether that was still held."""
    parameters = {
        "source": source,
        "lease": lease,
        "token": issued.token,
        "fresh": timedelta(seconds=issued.seconds * FRESH),
        "good": timedelta(seconds=issued.seconds),
        "now": now,
    }
    return statements.run(connection, "keep_token", parameters) > 0


def release(
    connection: Connection, source: str, *, lease: uuid.UUID, rest: timedelta, now: datetime | None = None
) -> None:
    """End *lease*, which nobody takes for so long."""
    statements.run(connection, "release_token", {"source": source, "lease": lease, "rest": rest, "now": now})


def forget(connection: Connection, source: str, token: str) -> None:
    """Drop *token*, if it is still the one of *source*."""
    statements.run(connection, "forget_token", {"source": source, "token": token})


class SharedTokens:
    """The token of one source, as its adapter sees it; any number of threads may ask."""

    def __init__(self, database: Database, source: str, *, credential: str, patience: float = 30.0) -> None:
        """
        Ask nothing yet.

        *credential* is a digest that tells the credentials which tokens are issued for from others. Who waits for
        another process waits *patience* seconds.
        """
        self._database, self._source, self._credential = database, source, credential
        self._patience = patience
        self._turn = Lock()
        self._kept: tuple[str, float] | None = None

    def current(self, issue: Callable[[], Issued]) -> str:
        """Return a token that is good for a while yet, if need be a new one."""
        if (kept := self._in_hand()) is not None:
            return kept
        if not self._turn.acquire(timeout=self._patience):
            raise self._busy()
        try:
            return self._in_hand() or self._shared(issue)
        finally:
            self._turn.release()

    def forget(self, token: str) -> None:
        """Let nobody use *token* again."""
        kept = self._kept
        if kept is not None and kept[0] == token:
            self._kept = None
        self._database.commit(lambda connection: forget(connection, self._source, token))

    def _in_hand(self) -> str | None:
        kept = self._kept
        return kept[0] if kept is not None and monotonic() < kept[1] else None

    def _shared(self, issue: Callable[[], Issued]) -> str:
        lease, until = uuid.uuid4(), monotonic() + self._patience
        while True:
            found = self._database.commit(
                lambda connection: share(connection, self._source, credential=self._credential, lease=lease)
            )
            if found.ours:
                return self._renewed(issue, lease, found)
            if found.good is not None:
                return self._keep(found.good, found.renew_in, found.ends_in)
            if monotonic() > until:
                raise self._busy()
            time.sleep(_LOOKS_EVERY)

    def _renewed(self, issue: Callable[[], Issued], lease: uuid.UUID, old: Share) -> str:
        try:
            issued = issue()
        except SourceError:
            self._release(lease, _REST if old.good else timedelta(0))
            if old.good is None:
                raise
            return self._keep(old.good, 0.0, old.ends_in)
        except BaseException:
            self._release(lease, timedelta(0))
            raise
        self._database.commit(lambda connection: keep(connection, self._source, issued, lease=lease))
        return self._keep(issued.token, issued.seconds * FRESH, issued.seconds)

    def _release(self, lease: uuid.UUID, rest: timedelta) -> None:
        self._database.commit(lambda connection: release(connection, self._source, lease=lease, rest=rest))

    def _keep(self, token: str, renew_in: float, ends_in: float) -> str:
        """Have *token* at hand until it should be renewed, or for a moment where somebody else is about to."""
        self._kept = token, monotonic() + max(renew_in, min(SOON, ends_in - SOON))
        return token

    def _busy(self) -> SourceBusy:
        return SourceBusy(f"{self._source}: another process is having an access token issued", retry_after=1.0)
