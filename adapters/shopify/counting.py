"""How many objects of a kind a shop has, by the fields that count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reconciler import content
from reconciler.adapter import Count
from reconciler.errors import SourceUnavailable

if TYPE_CHECKING:
    from datetime import datetime

    from adapters.shopify.calls import Calls
    from adapters.shopify.rows import Row

_EXACT: Final = "EXACT"


def counted(calls: Calls, row: Row, *, begins: datetime | None) -> Count | None:
    """Return what the shop counts, those made before *begins* among them; None for a kind that no field counts."""
    if not row.count:
        return None
    told = calls.ask(row.count, f"query count {{ {row.count}(limit: null) {{ count precision }} }}").data
    objects = content.find(told, f"/{row.count}/count")
    if not isinstance(objects, int):
        raise SourceUnavailable(f"{row.count}: the answer holds no number")
    return Count(objects, content.find(told, f"/{row.count}/precision") == _EXACT and begins is None)
