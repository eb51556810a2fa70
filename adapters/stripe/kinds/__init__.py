"""
The kinds of Stripe that can be mirrored: one row describes one kind.

What an event type is about is in the rows; what none of them is about stands in `IGNORED`, and says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.stripe.kinds import billing, catalogue, customers, money, payments
from adapters.stripe.kinds.ignored import IGNORED, NAMELESS
from adapters.stripe.kinds.rows import FEED_HISTORY, ITSELF, OUTSIDE, Pass, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FEED_HISTORY", "IGNORED", "ITSELF", "KINDS", "NAMELESS", "OUTSIDE", "Pass", "Row"]

_ROWS = (*customers.ROWS, *catalogue.ROWS, *billing.ROWS, *payments.ROWS, *money.ROWS)

KINDS: Final[Mapping[str, Row]] = {row.kind.name: row for row in sorted(_ROWS, key=lambda each: not each.kind.core)}
"""Every kind, by name; those of the core set first."""
