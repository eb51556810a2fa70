"""What one row of the table of kinds says, and how such rows are written down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reconciler.adapter import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.adapter import Kind

FEED_LAG: Final = timedelta(minutes=10)
"""How late a search may show a change is not published."""

ITSELF: Final = "/id"
"""Where a webhook about an object holds its number."""

ANYWHERE: Final = ""
"""It is named wherever its gid stands: of numbers nothing says what they are of."""


class Walk(StrEnum):
    """How the objects of a kind are listed."""

    STAMP = "stamp"  # changes by their stamp, all by id
    ID = "id"  # both by id
    WHOLE = "whole"  # no search knows their stamp: the whole list, for there are few
    LEVELS = "levels"  # changes at each location, all at each item
    ALONE = "alone"  # there is one


@dataclass(frozen=True, slots=True)
class Part:
    """
    A list of its own that an object has.

    Attributes:
        field: Where it stands in the object.
        fragment: What is asked of each part.
        page: Parts a call, such that it costs less than the 1,000 points that a query may.
    """

    field: str
    fragment: str
    page: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    A kind, and how Shopify is asked about it.

    Pages (`kind.page`) are such that one costs less than the 1,000 points that a query may.

    Attributes:
        type: In its gid.
        aliases: Other types in whose gids the same number stands for it.
        root: The field that reads one, or what it stands in.
        list: The field that lists it, or what it stands in; empty: none does.
        inside: The field of what `list` shows that holds the objects; empty: it shows them themselves.
        holder: The type of what `list` shows where it holds the objects.
        walk: How the list is gone through.
        given: Arguments without which the list hides some.
        sorted: The list takes a sort key.
        pair: What a webhook calls the numbers that make up its id; empty: it has one of its own.
        listed: How many of its parts a list shows; an object that has more is a hint there.
        fetched: How many of its parts the first call of a fetch shows.
        topics: Each topic that concerns it, and where (`*`: any element) the body holds the id of one.
        parts: Its own lists.
        destroyed: What the shop's history calls it; empty: history does not tell of its end.
        created: What a search calls the time it was made; empty: it cannot be searched by that.
        aged: It is hidden 60 days after its order was made, without the scope for all orders.
        count: The field that counts them all; empty: none does.
    """

    kind: Kind
    type: str
    aliases: tuple[str, ...] = ()
    root: str
    list: str = ""
    inside: str = ""
    holder: str = ""
    walk: Walk = Walk.STAMP
    given: str = ""
    sorted: bool = True
    pair: tuple[str, ...] = ()
    listed: int = 5
    fetched: int = 10
    topics: Mapping[str, str]
    parts: tuple[Part, ...] = ()
    destroyed: tuple[str, ...] = ()
    created: str = ""
    aged: bool = False
    count: str = ""

    @property
    def types(self) -> frozenset[str]:
        """Every type in whose gids its number stands."""
        return frozenset((self.type, *self.aliases))

    @property
    def holders(self) -> frozenset[str]:
        """The types in whose gids what `list` shows stands."""
        return frozenset((self.holder,)) if self.holder else self.types


def topics(prefix: str, endings: str, pointer: str = ITSELF) -> dict[str, str]:
    """Return topics that begin alike, with where their bodies hold an id."""
    return {f"{prefix}/{ending}": pointer for ending in endings.split()}


def columns(text: str) -> tuple[Column, ...]:
    """Read columns from lines of name, type and pointers."""
    words = (line.split() for line in text.strip().splitlines())
    return tuple(Column(name, tuple(pointers), type_) for name, type_, *pointers in words)
