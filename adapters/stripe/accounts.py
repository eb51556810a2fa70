"""The connected accounts of a platform: each is a scope, seen with `Stripe-Account` on every call."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from adapters.stripe import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from adapters.stripe.calls import Calls

_FRESH: Final = timedelta(minutes=5)  # a run asks once for each kind


class Accounts:
    """Which connected accounts are mirrored: those that were named, or every one the platform has."""

    def __init__(self, calls: Calls, wanted: Sequence[str] | Literal["all"]) -> None:
        self._calls = calls
        self._wanted: tuple[str, ...] | None = None if wanted == "all" else tuple(dict.fromkeys(wanted))
        self._listed: tuple[datetime, tuple[str, ...]] | None = None

    @property
    def some(self) -> bool:
        """Whether any connected account is mirrored, now or once there is one; asks nobody."""
        return self._wanted is None or bool(self._wanted)

    def covers(self, account: str) -> bool:
        """Say whether *account* is mirrored; of a platform that mirrors all, each one that its events are about."""
        return self._wanted is None or account in self._wanted

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes to sweep, that of the platform itself first; raises a `SourceError`."""
        return ("", *(self._every() if self._wanted is None else self._wanted))

    def _every(self) -> tuple[str, ...]:
        now = self._calls.now()
        if self._listed is None or not timedelta(0) <= now - self._listed[0] < _FRESH:
            self._listed = (now, tuple(self._ask()))
        return self._listed[1]

    def _ask(self) -> Iterator[str]:
        for page, _ in self._calls.pages("/v1/accounts", {}):
            yield from (id_ for id_ in map(events.id_of, page) if id_ is not None)
