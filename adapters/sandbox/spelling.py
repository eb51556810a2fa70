"""JSON as the stand-ins write it: numbers exact, text as UTF-8 where UTF-8 can hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simplejson

if TYPE_CHECKING:
    from adapters.sandbox.world import JSON


def compact(tree: JSON) -> bytes:
    """Write *tree* without spaces."""
    return _encoded(tree, separators=(",", ":"))


def indented(tree: JSON) -> bytes:
    """Write *tree* on many lines: whoever writes it anew gets other bytes."""
    return _encoded(tree, indent=2)


def _encoded(tree: JSON, *, separators: tuple[str, str] | None = None, indent: int | None = None) -> bytes:
    try:
        return simplejson.dumps(
            tree, use_decimal=True, ensure_ascii=False, separators=separators, indent=indent
        ).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can say with an escape only
        return simplejson.dumps(tree, use_decimal=True, separators=separators, indent=indent).encode()
