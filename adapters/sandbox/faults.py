"""What a provider does wrong, drawn from a seed: the same seed and the same calls give the same faults."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.world import JSON, Body

Span: TypeAlias = tuple[float, float]


class Refused(ValueError):
    """A control request that cannot be done as it is, with the reason in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """
    How often each fault happens, as a share of 1, and how it looks.

    Attributes:
        drop: A delivery is never sent.
        duplicate: A delivery is sent twice.
        delay: Seconds a delivery waits, drawn between the two.
        reorder: A delivery is sent after the next one to the same endpoint.
        status: An API call is answered so instead; `lock_timeout` is Stripe's 429 for a locked object.
        timeout: An API call is never answered.
        stale_reads: A GET or a list shows the world of `stale_for` seconds ago.
        shift_pages: After a page that has more, the provider changes something that moves the pages.
        lost_access: Empty, or the status by which the credential is refused; 404: it now opens another account.
        slow: Seconds an API call takes, drawn between the two.
        hold_for: Seconds a reordered delivery waits for a later one that may never come.
        hang_for: Seconds after which a call that was never answered ends in a 504.
    """

    drop: float = 0.0
    duplicate: float = 0.0
    delay: Span = (0.0, 0.0)
    reorder: float = 0.0
    status: Mapping[str, float] = field(default_factory=dict)
    timeout: float = 0.0
    stale_reads: float = 0.0
    shift_pages: float = 0.0
    lost_access: str = ""
    stale_for: float = 5.0
    slow: Span = (0.0, 0.0)
    hold_for: float = 2.0
    hang_for: float = 120.0


def faults_from(settings: Body) -> Faults:
    """Return the faults that a control request asks for, all others off; raises `Refused` where it makes no sense."""
    unknown = sorted(settings.keys() - _READERS.keys())
    if unknown:
        raise Refused(f"unknown faults {', '.join(unknown)}; there are {', '.join(_READERS)}")
    read: Body = {name: _READERS[name](name, value) for name, value in settings.items()}
    return Faults(**read)


def shown(faults: Faults) -> Body:
    """Return *faults* as a control request would spell them."""
    return {each.name: getattr(faults, each.name) for each in fields(faults)}


class Dice:
    """
    Chances that depend on the seed and on what is drawn for, never on who asked first.

    Safe to use from several threads.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._turns: Counter[str] = Counter()
        self._lock = threading.Lock()

    def at(self, key: str) -> float:
        """Return the number in [0, 1) that belongs to *key*."""
        digest = hashlib.blake2b(f"{self.seed}:{key}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest) >> 11) / 2**53

    def next(self, key: str) -> float:
        """Return the number for the next turn of *key*."""
        with self._lock:
            self._turns[key] += 1
            turn = self._turns[key]
        return self.at(f"{key}#{turn}")


@dataclass(frozen=True, slots=True)
class Fate:
    """
    What becomes of one delivery.

    Attributes:
        delays: Seconds to wait, one number for each copy that is sent; empty: it is dropped.
        reordered: It waits for the next delivery to the same endpoint.
    """

    delays: tuple[float, ...]
    reordered: bool


class Mischief:
    """
    The faults in force, and the dice that decide where they strike.

    Attributes:
        faults: May be replaced while the stand-in runs.
    """

    def __init__(self, seed: int) -> None:
        self.faults = Faults()
        self._dice = Dice(seed)

    @property
    def seed(self) -> int:
        """The seed in force."""
        return self._dice.seed

    def reseed(self, seed: int) -> None:
        """Start all draws again from *seed*."""
        self._dice = Dice(seed)

    def fate(self, delivery: str) -> Fate:
        """Return what becomes of the delivery named *delivery*."""
        faults, draw = self.faults, self._dice.at
        if draw(f"drop {delivery}") < faults.drop:
            return Fate((), reordered=False)
        copies = 2 if draw(f"duplicate {delivery}") < faults.duplicate else 1
        delays = tuple(_between(faults.delay, draw(f"delay {delivery} {copy}")) for copy in range(copies))
        return Fate(delays, reordered=draw(f"reorder {delivery}") < faults.reorder)

    def hangs(self, operation: str) -> bool:
        """Tell whether the next call of *operation* is never answered."""
        return self._strikes("timeout", operation, self.faults.timeout)

    def wait(self, operation: str) -> float:
        """Return the seconds the next call of *operation* takes."""
        span = self.faults.slow
        return _between(span, self._dice.next(f"slow {operation}")) if span[1] else 0.0

    def status(self, operation: str) -> str | None:
        """Return the status that the next call of *operation* is answered with, if it is a wrong one."""
        if not self.faults.status:
            return None
        left = self._dice.next(f"status {operation}")
        for status, share in self.faults.status.items():
            left -= share
            if left < 0:
                return status
        return None

    def lag(self, operation: str) -> float:
        """Return by how many seconds the next read of *operation* is behind."""
        return self.faults.stale_for if self._strikes("stale", operation, self.faults.stale_reads) else 0.0

    def shifts(self, operation: str) -> bool:
        """Tell whether the provider changes something after this page of *operation*."""
        return self._strikes("shift", operation, self.faults.shift_pages)

    def pick(self, what: str, choices: int) -> int:
        """Return a number below *choices* for the next turn of *what*."""
        return int(self._dice.next(f"pick {what}") * choices)

    def _strikes(self, fault: str, operation: str, share: float) -> bool:
        return share > 0 and self._dice.next(f"{fault} {operation}") < share


def _between(span: Span, drawn: float) -> float:
    return span[0] + (span[1] - span[0]) * drawn


def number(name: str, value: JSON) -> float:
    """Return *value* as a number of at least 0; raises `Refused` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or value < 0:
        raise Refused(f"{name} must be a number of at least 0, not {value!r}")
    return float(value)


def _share(name: str, value: JSON) -> float:
    share = number(name, value)
    if share > 1:
        raise Refused(f"{name} must be a share between 0 and 1, not {value!r}")
    return share


def _span(name: str, value: JSON) -> Span:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Refused(f"{name} must be [min, max] in seconds, not {value!r}")
    low, high = (number(name, each) for each in value)
    if low > high:
        raise Refused(f"{name} must be [min, max] in seconds, not {value!r}")
    return low, high


def _statuses(name: str, value: JSON) -> Mapping[str, float]:
    if not isinstance(value, dict):
        raise Refused(f'{name} must be an object such as {{"429": 0.05}}, not {value!r}')
    shares = {str(status): _share(f"{name}.{status}", share) for status, share in value.items()}
    for status in shares:
        if status != "lock_timeout" and not (status.isdecimal() and 400 <= int(status) <= 599):
            raise Refused(f"{name}.{status} is no status between 400 and 599, nor lock_timeout")
    if sum(shares.values()) > 1:
        raise Refused(f"the shares of {name} add up to more than 1")
    return shares


def _access(name: str, value: JSON) -> str:
    spelled = {False: "", True: "401"}[value] if isinstance(value, bool) else str(value)
    if spelled not in {"", "401", "403", "404"}:
        raise Refused(f"{name} must be true, false, 401, 403 or 404, not {value!r}")
    return spelled


_READERS: Mapping[str, Callable[[str, JSON], object]] = {
    "drop": _share,
    "duplicate": _share,
    "delay": _span,
    "reorder": _share,
    "status": _statuses,
    "timeout": _share,
    "stale_reads": _share,
    "shift_pages": _share,
    "lost_access": _access,
    "stale_for": number,
    "slow": _span,
    "hold_for": number,
    "hang_for": number,
}
