"""One source as the watchdog sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from reconciler.adapter import Adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """
    A source, and where its deliveries should go.

    Attributes:
        addresses: Where they may go, each with the name behind it; the first is where a subscription is made.
        secret: What a subscription that is made there signs with, where that is ours to say.
        manage: Make and mend subscriptions.
        version: The API version that we read in.
        hears: A delivery could be believed: there is a secret.
        night: When its next nightly look is, after a given time.
    """

    adapter: Adapter
    addresses: Mapping[str, str]
    secret: str | None = field(repr=False)
    manage: bool
    version: str
    hears: bool
    night: Callable[[datetime], datetime]

    @property
    def source(self) -> str:
        """The name of the source."""
        return self.adapter.source

    @property
    def urls(self) -> tuple[str, ...]:
        """Where its deliveries may go."""
        return tuple(self.addresses)

    @property
    def url(self) -> str:
        """Where a subscription is made."""
        return self.urls[0]

    @property
    def name(self) -> str:
        """The name behind that."""
        return self.addresses[self.url]
