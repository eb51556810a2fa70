"""How the API shows an object: long lists cut short, and fields where an API version has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.sandbox.world import Body

SHOWN_PARTS = 10
"""A list inside an object shows so many; the rest has pages of its own."""

_PARTS = {
    "application_fee": "refunds",
    "credit_note": "lines",
    "invoice": "lines",
    "subscription": "items",
    "transfer": "reversals",
}
_PERIODS_MOVED = "2025-03-31"
_PERIOD = ("current_period_end", "current_period_start")
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(\.[a-z_]+)?")


def is_version(text: str) -> bool:
    """Tell whether *text* looks like an API version."""
    return _VERSION.fullmatch(text) is not None


def as_shown(body: Body, *, version: str, whole: bool = False) -> Body:
    """Return *body* as API version *version* shows it; *whole* leaves its lists uncut."""
    parts = _PARTS.get(body["object"])
    if parts is None:
        return body
    shown = body
    if body["object"] == "subscription" and version < _PERIODS_MOVED:
        shown = _with_periods_on_top(body)
    held = shown[parts]
    if whole or len(held["data"]) <= SHOWN_PARTS:
        return shown
    return {**shown, parts: {**held, "data": held["data"][:SHOWN_PARTS], "has_more": True}}


def _with_periods_on_top(body: Body) -> Body:
    """Return a subscription as it was before its billing periods moved to its items (2025-03-31)."""
    items = body["items"]["data"]
    period = {name: items[0][name] for name in _PERIOD} if items else {}
    bare = [{name: value for name, value in item.items() if name not in _PERIOD} for item in items]
    return {**body, **period, "items": {**body["items"], "data": bare}}
