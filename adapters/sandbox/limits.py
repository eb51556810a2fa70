"""Rate limits: token buckets, one for all calls and one for each operation."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from adapters.sandbox.faults import Refused, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.world import JSON, Body

Limit: TypeAlias = Literal["global", "operation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """
    Calls a second; None: no limit. A bucket holds one second's worth.

    Attributes:
        every: For all calls together.
        each: For each operation.
        named: For single operations (`GET /v1/customers/{id}`), instead of *each*.
    """

    every: float | None = None
    each: float | None = None
    named: Mapping[str, float] = field(default_factory=dict)


class Bucket:
    """Tokens that come back at a steady rate."""

    def __init__(self, rate: float, *, now: float) -> None:
        self._rate = rate
        self._holds = max(rate, 1.0)
        self._left = self._holds
        self._at = now

    def full_enough(self, now: float) -> bool:
        """Tell whether a token may be taken."""
        self._left = min(self._holds, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left >= 1

    def take(self) -> None:
        """Take a token."""
        self._left -= 1


class Limits:
    """The rates in force; safe to use from several threads."""

    def __init__(self, ticks: Callable[[], float], rates: Rates) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self._buckets: dict[str, Bucket] = {}
        self._rates = rates

    @property
    def rates(self) -> Body:
        """The rates in force, as a control request spells them."""
        return asdict(self._rates)

    def set(self, rates: Rates) -> None:
        """Put *rates* in force, with full buckets."""
        with self._lock:
            self._rates = rates
            self._buckets.clear()

    def refuses(self, operation: str) -> Limit | None:
        """Take a token from both buckets of a call, or name the one that is empty; a refused call costs nothing."""
        rates = self._rates
        with self._lock:
            now = self._ticks()
            every = self._bucket("", rates.every, now)
            each = self._bucket(operation, rates.named.get(operation, rates.each), now)
            if every is not None and not every.full_enough(now):
                return "global"
            if each is not None and not each.full_enough(now):
                return "operation"
            for bucket in (every, each):
                if bucket is not None:
                    bucket.take()
        return None

    def _bucket(self, name: str, rate: float | None, now: float) -> Bucket | None:
        if rate is None:
            return None
        return self._buckets.setdefault(name, Bucket(rate, now=now))


def rates_from(settings: Body) -> Rates:
    """Return the rates that a control request asks for; raises `Refused` where it makes no sense."""
    unknown = sorted(settings.keys() - {"every", "each", "named"})
    if unknown:
        raise Refused(f"unknown limits {', '.join(unknown)}; there are every, each, named")
    named = settings.get("named") or {}
    if not isinstance(named, dict):
        raise Refused('named must be an object such as {"GET /v1/customers/{id}": 5}')
    return Rates(
        every=_rate("every", settings.get("every")),
        each=_rate("each", settings.get("each")),
        named={name: number(name, rate) for name, rate in named.items()},
    )


def _rate(name: str, value: JSON) -> float | None:
    return None if value is None else number(name, value)
