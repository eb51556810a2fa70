"""How many objects of a kind an account has: Stripe counts nothing, so that it is drawn from one page of each list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reconciler.adapter import Count
from reconciler.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.stripe.calls import Calls
    from adapters.stripe.kinds import Row
    from reconciler.model import JSON

_PAGE: Final = 100


def drawn(calls: Calls, row: Row, scope: str, *, least: int | None) -> Count | None:
    """
    Return how many were created since *least*, or since the account was: from the span of the newest page.

    None for kinds that no list shows, or that stand in lists of something else.
    """
    if not row.passes or any(each.inside for each in row.passes):
        return None
    objects, exact = 0, True
    for each in row.passes:
        if each.alone:
            objects += 1
            continue
        bound = {"created": {"gte": least}} if each.dated and least is not None else {}
        asked = {**each.parameters, **bound, "limit": _PAGE}
        answered = calls.get(each.path or row.path, asked, account=scope)
        listed, whole = answered.body.get("data") or [], answered.body.get("has_more") is not True
        if not whole:
            begins = least if least is not None else _opened(calls, scope)
            found = _extended(listed, int(answered.observed_at.timestamp()), begins)
            if found is None:
                return None
            objects += found
        exact = exact and whole
        objects += len(listed) if whole else 0
    return Count(objects, exact)


def _extended(listed: Sequence[JSON], now: int, begins: int | None) -> int | None:
    """Return how many there are if they were made all the time as they were made lately; None where nothing tells."""
    times: list[int] = [
        each["created"] for each in listed if isinstance(each, dict) and isinstance(each.get("created"), int)
    ]
    if not times or begins is None:
        return None
    return max(len(listed), round(len(listed) * max(now - begins, 1) / max(now - min(times), 1)))


def _opened(calls: Calls, scope: str) -> int | None:
    """Return when the account was made; None where the key may not see it."""
    try:
        created: JSON = calls.get("/v1/account", account=scope).body.get("created")
    except SourceError:
        return None
    return int(created) if isinstance(created, int) else None
