"""The provider's clock, which need not agree with ours."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """
    Real time plus a skew that may be set while the stand-in runs.

    Attributes:
        skew: Seconds by which the provider is ahead of us.
        ticks: Seconds that never step; orders what happened inside the stand-in.
    """

    def __init__(self, real: Callable[[], float] = time.time, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._real = real
        self.ticks = ticks
        self.skew = 0.0

    def now(self) -> float:
        """Return the provider's time as seconds since 1970."""
        return self._real() + self.skew

    def date(self) -> str:
        """Return the provider's time as a `Date` header writes it."""
        return formatdate(self.now(), usegmt=True)
