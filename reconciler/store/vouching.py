"""
Secrets of subscriptions that this program made: their provider shows each once, so the database keeps it.

They vouch for deliveries besides the configured ones. Whoever takes deliveries has them in hand and asks nobody.
"""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from reconciler.errors import DatabaseUnavailable
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection

    from reconciler.store.database import Database

AGED: Final = timedelta(days=4)
"""Longer than any provider goes on sending for a subscription that is no more."""

_LOOKS_EVERY: Final = 5.0  # seconds


class Vouching:
    """The kept secrets of every name that deliveries are sent to, as of a few seconds ago."""

    def __init__(self, database: Database) -> None:
        """Ask nothing yet."""
        self._database = database
        self._kept: Mapping[str, Mapping[str, str]] = {}
        self._lock = Lock()
        self._next = 0.0

    def secrets(self, name: str) -> tuple[str, ...]:
        """Return the secrets that vouch for deliveries to *name*, the latest first; asks nobody."""
        return tuple(self._kept.get(name, {}).values())

    def held(self, name: str) -> tuple[str, ...]:
        """Return the subscriptions whose secrets those are; asks nobody."""
        return tuple(self._kept.get(name, {}))

    def look(self) -> None:
        """Learn what other processes kept; raises `DatabaseUnavailable`."""
        with self._lock, self._database.transaction() as connection:
            self._next = monotonic() + _LOOKS_EVERY
            self._kept = _kept(connection)

    def look_now_and_then(self) -> None:
        """Learn what other processes kept, if the last look was a while ago; what was known stands meanwhile."""
        if monotonic() >= self._next:
            self._next = monotonic() + _LOOKS_EVERY
            try:
                self.look()
            except DatabaseUnavailable:
                return  # whoever writes deliveries finds that out, and says so

    def keep(self, name: str, subscription: str, secret: str) -> None:
        """Let *secret* vouch for deliveries to *name*, in every process."""
        told = {"name": name, "subscription": subscription, "secret": secret}
        self._database.commit(lambda connection: statements.run(connection, "keep_secret", told))
        self.look()

    def drop_others(self, name: str, *, but: Collection[str]) -> None:
        """Let nothing vouch any more for a name's other subscriptions, once they are aged."""
        if set(self.held(name)) - set(but):
            told = {"name": name, "subscription": list(but), "age": AGED}
            self._database.commit(lambda connection: statements.run(connection, "drop_secrets", told))
            self.look()


def _kept(connection: Connection) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in statements.rows(connection, "kept_secrets"):
        found.setdefault(row.name, {})[row.subscription] = row.secret
    return found
