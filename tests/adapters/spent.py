"""A budget that allows what it is told to and remembers what it was told."""

from __future__ import annotations

import threading


class Spent:
    """
    What an adapter spent, was answered, and was told to hold.

    Attributes:
        operations: In the order of `spend`.
        answers: Operation and status, in the order of `answered`.
        holds: Seconds and operation, in the order of `hold`.
        refusal: What `spend` raises; None: it allows everything.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.operations: list[str] = []
        self.answers: list[tuple[str, str]] = []
        self.holds: list[tuple[float, str | None]] = []
        self.refusal: Exception | None = None

    def spend(self, operation: str) -> None:
        """Remember a call about to be made."""
        if self.refusal is not None:
            raise self.refusal
        with self._lock:
            self.operations.append(operation)

    def answered(self, operation: str, status: str) -> None:
        """Remember an answer."""
        with self._lock:
            self.answers.append((operation, status))

    def hold(self, seconds: float, *, operation: str | None = None) -> None:
        """Remember a pause."""
        with self._lock:
            self.holds.append((seconds, operation))
