"""One call of GitHub's API, and what every answer to one is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlencode

from adapters.sandbox.github import listing
from adapters.sandbox.github.answers import conditional
from adapters.sandbox.github.kinds import KINDS
from adapters.sandbox.github.listing import Ceilings, ordered, page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from adapters.sandbox.front import Asked
    from adapters.sandbox.github.access import Access, Visit
    from adapters.sandbox.github.bodies import Views
    from adapters.sandbox.github.ledger import Ledger
    from adapters.sandbox.github.listing import Order, Row
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import JSON, Body

Act: TypeAlias = "Callable[[Call], Response]"

Operations: TypeAlias = "dict[str, Act]"
"""What answers each operation; a path that begins with `~` is inside a repository."""


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call that was let in.

    Attributes:
        scope: The number of the repository it is about; empty: about none.
        facts: That repository's facts.
        address: The call's own address, by the repository's number where it has one.
    """

    asked: Asked
    visit: Visit
    views: Views
    scope: str = ""
    facts: Body | None = None
    address: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The query parameters, the last of each name."""
        return dict(self.asked.request.query_params)

    @property
    def sent(self) -> bytes:
        """The bytes that the call sent along."""
        return bytes(self.asked.request.state.sent)

    def named(self, name: str) -> str:
        """Return a variable part of the path."""
        return str(self.asked.request.path_params[name])

    @property
    def base(self) -> str:
        """The address under which we are called."""
        return str(self.asked.request.base_url).rstrip("/")

    def with_query(self, path: str) -> str:
        """Return *path* with the query of this call."""
        pairs = self.asked.request.query_params.multi_items()
        return f"{path}?{urlencode(pairs)}" if pairs else path


class Shelves:
    """
    What there is, as a call sees it.

    Attributes:
        ceilings: Where lists end for those who count pages.
    """

    def __init__(self, machinery: Machinery, ledger: Ledger, access: Access) -> None:
        self._mischief = machinery.mischief
        self._world = machinery.world
        self._ledger = ledger
        self._access = access
        self.ceilings = Ceilings()

    def standing(self, call: Call, kind: str, id_: str, *, scope: str | None = None) -> Row | None:
        """Return an object of the call's repository (or of *scope*), None where the call sees none."""
        timeline = self._world.find(call.scope if scope is None else scope, kind, id_)
        version = timeline.seen(call.asked.at) if timeline is not None else None
        return (timeline, version.body) if timeline is not None and version is not None and version.body else None

    def was(self, call: Call, kind: str, id_: str) -> bool:
        """Tell whether there ever was an object, as far as the call sees."""
        timeline = self._world.find(call.scope, kind, id_)
        return timeline is not None and timeline.seen(call.asked.at) is not None

    def rows(self, call: Call, kind: str) -> Iterator[Row]:
        """Yield the objects of a kind in the call's repository."""
        return self._rows(call, call.scope, kind)

    def rows_in(self, call: Call, scope: str, kind: str) -> Iterator[Row]:
        """Yield the objects of a kind in another scope than the call's."""
        return self._rows(call, scope, kind)

    def repository(self, call: Call, number: str) -> Row | None:
        """Return a repository, None where the call sees none."""
        row = self.standing(call, "repository", number, scope="")
        return row if row is not None and self._access.sees(call.visit, number, row[1]) else None

    def repositories(self, call: Call) -> Iterator[Row]:
        """Yield all repositories that the call sees."""
        for row in self._rows(call, "", "repository"):
            if self._access.sees(call.visit, row[0].id, row[1]):
                yield row

    def shown(self, call: Call, row: Row) -> Response:
        """Answer with one object."""
        timeline, facts = row
        return self.answered(call, call.views.alone(timeline, facts), row)

    def answered(self, call: Call, shown: Body, row: Row) -> Response:
        """Answer with one object that is shown so, and its validators."""
        stamped = KINDS[row[0].kind].stamped
        return conditional(call.asked, shown, who=call.visit.who, changed_at=row[1]["_updated"] if stamped else None)

    def listed(
        self,
        call: Call,
        rows: Sequence[Row],
        order: Order,
        *,
        kind: str,
        wrap: Callable[[list[Body]], JSON] = lambda shown: shown,
        shown_at_most: int | None = None,
    ) -> Response:
        """Answer with one page of *rows* in the order that is asked for."""
        query = call.query
        sorted_rows = ordered(rows, order, query, resource=KINDS[kind].key)
        sort = query.get("sort") or next(iter(order.keys))
        cursor = order.keys[sort] if order is listing.ISSUES and not wrap([]) else None
        found = page(sorted_rows[:shown_at_most], query, self.ceilings, cursor=cursor)
        shown = [_in_list(call, row, kind) for row in found.rows]
        response = conditional(call.asked, wrap(shown), who=call.visit.who, changed_at=None)
        if link := found.header(call.address):
            response.headers["Link"] = link
        if "next" in found.links and self._mischief.shifts(call.asked.operation):
            self._ledger.shift(kind, call.scope, [timeline for timeline, _ in found.rows])
        return response

    def _rows(self, call: Call, scope: str, kind: str) -> Iterator[Row]:
        for _, timeline, facts in self._world.shelf(scope, kind).newest(call.asked.at):
            yield timeline, facts


def _in_list(call: Call, row: Row, kind: str) -> Body:
    timeline, facts = row
    if (kind, timeline.kind) == ("issue", "pull_request"):
        return call.views.as_issue(timeline, facts)
    return call.views.listed(timeline, facts)


def rest_of(request: Request) -> str:
    """Return the path behind the repository's name or number, spelled as it came."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    parts = raw.partition(b"?")[0].decode("latin-1").split("/")
    named = 4 if parts[1] == "repos" else 3
    rest: list[str] = parts[named:]
    return "".join(f"/{part}" for part in rest)


def changed(row: Row, start: int | None) -> bool:
    """Tell whether an object has changed since *start*, that second included."""
    return start is None or row[1]["_updated"] >= start
