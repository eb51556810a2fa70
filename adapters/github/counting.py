"""How many objects a list of GitHub's has, by the link to its last page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reconciler.adapter import Count

if TYPE_CHECKING:
    from adapters.github.calls import Calls
    from adapters.github.lists import Shelf

_LAST: Final = re.compile(r'[?&]page=([0-9]{1,12})[^>]*>\s*;\s*rel="last"')


def counted(calls: Calls, shelf: Shelf) -> Count | None:
    """Return how many a list shows, one to a page; None where it does not tell, or is not seen by this way."""
    answer = calls.ask(shelf.operation, shelf.target, {**shelf.parameters, "per_page": "1"})
    if answer.status != 200:
        return None
    link = answer.headers.get("link", "")
    if found := _LAST.search(link):
        return Count(int(found[1]), exact=True)
    return None if link else Count(len(calls.listed(shelf.operation, answer).objects), exact=True)
