"""
Sees to it that notifications come: subscriptions, deliveries that failed, silence, and what will not last.

Only the schedule's leader looks, at once and then at each part's own time. Nothing of it is needed for the mirror to be
right: sweeps see to that. It keeps the mirror fresh between them, and says what only a person can mend.
"""

from reconciler.watchdog.hearing import Hearing
from reconciler.watchdog.watched import Watched
from reconciler.watchdog.watching import Watchdog

__all__ = ["Hearing", "Watchdog", "Watched"]
