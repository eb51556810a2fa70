"""The parts every stand-in is made of, whatever provider it stands in for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.sandbox.calls import CallLog
from adapters.sandbox.deliveries import Backoff, Deliveries
from adapters.sandbox.faults import Mischief
from adapters.sandbox.limits import Limits, Rates
from adapters.sandbox.world import World

if TYPE_CHECKING:
    from adapters.sandbox.clock import Clock


@dataclass(frozen=True, slots=True)
class Machinery:
    """
    One of each.

    Attributes:
        said: Headers that every answer of the API has besides its own.
    """

    clock: Clock
    world: World
    mischief: Mischief
    limits: Limits
    calls: CallLog
    deliveries: Deliveries
    said: dict[str, str] = field(default_factory=dict)


def build(
    seed: int,
    *,
    clock: Clock,
    rates: Rates | None = None,
    backoff: Backoff | None = None,
    senders: int = 4,
    delivery_timeout: float = 10.0,
) -> Machinery:
    """Return the parts of one stand-in: without rates there is no limit, and no fault is on."""
    mischief = Mischief(seed)
    deliveries = Deliveries(mischief, backoff=backoff or Backoff(), senders=senders, timeout=delivery_timeout)
    return Machinery(clock, World(seed), mischief, Limits(clock.ticks, rates or Rates()), CallLog(), deliveries)
