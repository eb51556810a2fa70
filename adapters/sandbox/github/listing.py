"""GitHub's lists: pages by number, `Link` headers, and each list's filters, orders and defaults."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar
from urllib.parse import urlencode

from adapters.sandbox.github.answers import Denied, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.sandbox.world import Body, Timeline

DEFAULT_PER_PAGE = 30
MAX_PER_PAGE = 100

Row: TypeAlias = "tuple[Timeline, Body]"
Key: TypeAlias = "tuple[int | str, ...]"
Query: TypeAlias = "Mapping[str, str]"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """
    How a list is sorted.

    Attributes:
        keys: By the names that `sort` may have; the first is the default.
        downwards: Whether a sort runs from high to low where `direction` is not given.
    """

    keys: Mapping[str, Callable[[Row], Key]]
    downwards: Callable[[str | None], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """
    One page of a list.

    Attributes:
        links: The queries of other pages, by `rel`.
    """

    rows: Sequence[T]
    links: Mapping[str, Query]

    def header(self, address: str) -> str:
        """Return the `Link` header, empty where there is one page only."""
        return ", ".join(f'<{address}?{urlencode(query)}>; rel="{rel}"' for rel, query in self.links.items())


@dataclass(slots=True)
class Ceilings:
    """
    Where lists end for those who count pages.

    Attributes:
        results: No page that ends beyond so many can be asked for by its number.
        cursors: Issue lists hand out cursors in `Link`, which know no ceiling.
    """

    results: int = 10_000
    cursors: bool = False
    message: str = field(default="Only the first {results} results are available.", repr=False)


def _by_stamp(name: str) -> Callable[[Row], Key]:
    return lambda row: (row[1][name], row[1].get("_id", 0) or int(row[0].id))


def _by_number(name: str) -> Callable[[Row], Key]:
    return lambda row: (row[1].get(name) or 0, int(row[0].id))


def _by_name(row: Row) -> Key:
    return (f"{row[1].get('_owner', '')}/{row[1]['name']}".lower(), row[0].id)


def _by_due(row: Row) -> Key:
    return (str(row[1]["due_on"] or "9999"), int(row[0].id))


def _upwards(_: str | None) -> bool:
    return False


def _unless_other(sort: str | None) -> bool:
    """Pull requests run downwards by creation and upwards by anything else."""
    return sort in {None, "created"}


def _unless_by_name(sort: str | None) -> bool:
    return sort not in {None, "full_name"}


_CREATED, _UPDATED = _by_stamp("_created"), _by_stamp("_updated")

ISSUES = Order(keys={"created": _CREATED, "updated": _UPDATED, "comments": _by_number("_comments")})
PULLS = Order(
    keys={
        "created": _CREATED,
        "updated": _UPDATED,
        "popularity": _by_number("_comments"),
        "long-running": _CREATED,
    },
    downwards=_unless_other,
)
COMMENTS = Order(keys={"created": _CREATED, "updated": _UPDATED}, downwards=lambda sort: sort is not None)
RELEASES = Order(keys={"created": _CREATED})
BY_AGE = Order(keys={"created": _CREATED}, downwards=_upwards)
LABELS = Order(keys={"name": _by_name}, downwards=_upwards)
MILESTONES = Order(keys={"due_on": _by_due, "completeness": _by_number("_number")}, downwards=_upwards)
OWNED = Order(
    keys={"full_name": _by_name, "created": _CREATED, "updated": _UPDATED, "pushed": _by_stamp("_pushed")},
    downwards=_unless_by_name,
)
ORGANIZATIONS = Order(
    keys={"created": _CREATED, "updated": _UPDATED, "pushed": _by_stamp("_pushed"), "full_name": _by_name},
    downwards=lambda sort: sort != "full_name",
)


def ordered(rows: Sequence[Row], order: Order, query: Query, *, resource: str) -> list[Row]:
    """Return *rows* in the order a call asks for; raises `Denied` for one there is not."""
    sort, direction = query.get("sort"), query.get("direction")
    if sort is not None and sort not in order.keys:
        raise invalid(resource, "sort")
    if direction not in {None, "asc", "desc"}:
        raise invalid(resource, "direction")
    key = order.keys[sort or next(iter(order.keys))]
    downwards = order.downwards(sort) if direction is None else direction == "desc"
    if order is COMMENTS and sort is None:  # "ignored without the sort parameter"
        downwards = False
    return sorted(rows, key=key, reverse=downwards)


def choice(query: Query, name: str, choices: Sequence[str], *, resource: str) -> str:
    """Return a parameter that has few values, the first of *choices* by default."""
    value = query.get(name, choices[0])
    if value not in choices:
        raise invalid(resource, name)
    return value


def since(query: Query, *, resource: str) -> int | None:
    """Return the time from which on, inclusive, changes are wanted; None: all."""
    said = query.get("since")
    if said is None:
        return None
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        raise invalid(resource, "since") from None
    if moment.tzinfo is None:
        moment = datetime.fromisoformat(f"{said}+00:00")
    return int(-(-moment.timestamp() // 1))


def span(query: Query, name: str) -> tuple[int | None, int | None]:
    """Return the first and the last second that a search is about, as `A..B`, `>=A` or `<=B` say it."""
    said = query.get(name, "")
    begins, _, ends = said.partition("..") if ".." in said else ("", "", "")
    if said.startswith(">="):
        begins = said[2:]
    if said.startswith("<="):
        ends = said[2:]
    return _second(begins, name), _second(ends, name)


def _second(said: str, name: str) -> int | None:
    if said in {"", "*"}:
        return None
    try:
        return int(datetime.fromisoformat(said).timestamp())
    except ValueError:
        raise invalid("WorkflowRun", name) from None


def per_page(query: Query) -> int:
    """Return how many a page holds: what GitHub does not like it corrects in silence."""
    said = query.get("per_page", "")
    return min(MAX_PER_PAGE, int(said)) if said.isdecimal() and int(said) > 0 else DEFAULT_PER_PAGE


def page(rows: Sequence[T], query: Query, ceilings: Ceilings, *, cursor: Callable[[T], Key] | None = None) -> Page[T]:
    """
    Return the page that a call asks for; one beyond the end is empty.

    With *cursor*, `Link` leads on by the last row's key instead of its place, so nothing moves from under the caller.
    """
    size = per_page(query)
    said = query.get("page", "")
    number = int(said) if said.isdecimal() and int(said) > 0 else 1
    after = query.get("after")
    if after is not None and cursor is not None:
        rest = _after(rows, after, cursor)
        return Page(rest[:size], _onwards(rest, query, size, number, cursor))
    if number * size > ceilings.results:
        raise Denied(422, _ceiling(ceilings))
    start = (number - 1) * size
    found = rows[start : start + size]
    if cursor is not None and ceilings.cursors:
        return Page(found, _onwards(rows[start:], query, size, number, cursor))
    last = max(1, -(-len(rows) // size))
    return Page(found, _numbers(query, number, last))


def _ceiling(ceilings: Ceilings) -> str:
    if ceilings.cursors:
        return (
            "Pagination with the page parameter is not supported for large datasets, "
            "please use cursor based pagination (after/before)"
        )
    return ceilings.message.format(results=ceilings.results)


def _numbers(query: Query, number: int, last: int) -> Mapping[str, Query]:
    numbers: dict[str, int] = {}
    if number > 1:
        numbers["prev"] = min(number - 1, last)
    if number < last:
        numbers |= {"next": number + 1, "last": last}
    if number > 1:
        numbers["first"] = 1
    return {rel: {**query, "page": str(each)} for rel, each in numbers.items()}


def _onwards(
    rest: Sequence[T], query: Query, size: int, number: int, cursor: Callable[[T], Key]
) -> Mapping[str, Query]:
    if len(rest) <= size:
        return {}
    rising = cursor(rest[0]) < cursor(rest[-1])
    mark = base64.urlsafe_b64encode("|".join(map(str, (int(rising), *cursor(rest[size - 1])))).encode()).decode()
    return {"next": {**query, "after": mark, "page": str(number + 1)}}


def _after(rows: Sequence[T], mark: str, cursor: Callable[[T], Key]) -> Sequence[T]:
    """Return the rows behind the one that *mark* names, or behind where it stood if it has moved."""
    try:
        rising, *last = (int(each) for each in base64.urlsafe_b64decode(mark).decode().split("|"))
    except (ValueError, binascii.Error):
        raise Denied(422, "Invalid cursor") from None
    stood = tuple(last)
    return [row for row in rows if (stood < cursor(row) if rising else cursor(row) < stood)]
