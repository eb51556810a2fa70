"""Two ways to the same end, and what each takes."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Clocked: TypeAlias = "Callable[[], float]"


@dataclass(frozen=True, slots=True)
class Bench:
    """Two ways to the same end, each returning its figure: ours, and the least this machine takes."""

    name: str
    unit: str
    ours: Clocked
    limit: Clocked

    def line(self, runs: int) -> str:
        """Run both in turns and return the line of JSON."""
        pairs = [(self.ours(), self.limit()) for _ in range(runs)]
        ours, limit = (median(each) for each in zip(*pairs, strict=True))
        spread = (max(each for each, _ in pairs) - min(each for each, _ in pairs)) / ours
        figures = {"ours": round(ours, 3), "limit": round(limit, 3), "ratio": round(ours / limit, 3)}
        about = {"unit": self.unit, "runs": runs, "spread": round(spread, 3)}
        return json.dumps({"bench": self.name, **figures, **about})


def seconds(work: Callable[[], object]) -> float:
    """Return how long *work* takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began
