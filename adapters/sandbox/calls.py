"""What was asked of the stand-in, so that a test or a demo can count calls."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sandbox.world import Body

KEPT_CALLS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    One API call and how it ended.

    Attributes:
        at: The provider's clock when it was answered.
        operation: The method and the path with its variable parts unfilled.
        status: The HTTP status, or `timeout` where it was never answered.
        fault: The fault that struck it; empty: none.
    """

    at: float
    operation: str
    method: str
    path: str
    query: Sequence[tuple[str, str]] = field(repr=False)
    status: str
    request_id: str
    fault: str = ""


class CallLog:
    """Counts by operation and status, and the last calls; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._last: deque[Call] = deque(maxlen=KEPT_CALLS)

    def note(self, call: Call) -> None:
        """Add *call*."""
        with self._lock:
            self._counts[call.operation, call.status] += 1
            self._last.append(call)

    def clear(self) -> None:
        """Count from nothing again."""
        with self._lock:
            self._counts.clear()
            self._last.clear()

    def summary(self, last: int) -> Body:
        """Return totals, counts by operation and by status, and the *last* calls, oldest first."""
        with self._lock:
            counts, calls = dict(self._counts), list(self._last)
        operations: dict[str, dict[str, int]] = {}
        statuses: Counter[str] = Counter()
        for (operation, status), count in sorted(counts.items()):
            operations.setdefault(operation, {})[status] = count
            statuses[status] += count
        shown = calls[len(calls) - min(last, len(calls)) :]
        return {
            "total": sum(counts.values()),
            "statuses": dict(sorted(statuses.items())),
            "operations": operations,
            "last": [asdict(call) for call in shown],
        }
