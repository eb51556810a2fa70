"""What Stripe's list calls show of a kind, in the one or several passes that it takes to see all of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from adapters.stripe import events
from reconciler import content
from reconciler.adapter import patiently
from reconciler.errors import SourceRefused, SourceUnavailable
from reconciler.model import Hint, ObjectRef, Page, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from adapters.stripe.calls import Calls
    from adapters.stripe.kinds import Pass, Row
    from reconciler.model import JSON, Body


class Lists:
    """The lists of one source; an object whose own lists are cut short in them is a hint."""

    def __init__(self, calls: Calls, source: str) -> None:
        self._calls, self._source = calls, source

    def every(self, row: Row, scope: str, *, least: int | None) -> Iterator[Page]:
        """Yield every object of a kind that was created at *least* or later (None: ever)."""
        for each in row.passes:
            yield from self._passed(row, scope, each, least)

    def recent(self, row: Row, scope: str, *, least: int) -> Iterator[Page]:
        """Yield what was created at *least* or later, where a list can be asked for that."""
        for each in row.passes:
            if each.dated:
                yield from self._passed(row, scope, each, least)

    def _passed(self, row: Row, scope: str, each: Pass, least: int | None) -> Iterator[Page]:
        path = each.path or row.path
        if each.alone:
            answered = patiently(partial(self._calls.get, path, account=scope))
            yield self._page(row, scope, [answered.body], answered.observed_at)
            return
        bound = {"created": {"gte": least}} if each.dated and least is not None else {}
        for listed, observed_at in self._calls.pages(
            path, {**each.parameters, **bound}, account=scope, dated=each.dated
        ):
            held = [_held(body, each.inside) for body in listed] if each.inside else []
            shown = [body for node in held for body in node["data"]] if each.inside else listed
            yield self._page(row, scope, _since(shown, least), observed_at)
            for node in filter(is_cut_list, held):
                for more, then in self._calls.pages(own_url(node), {}, account=scope, dated=False):
                    yield self._page(row, scope, _since(more, least), then)

    def _page(self, row: Row, scope: str, listed: Sequence[Body], observed_at: datetime) -> Page:
        snapshots: list[Snapshot] = []
        hints: list[Hint] = []
        for body in listed:
            id_ = events.id_of(body)
            if id_ is None or events.kind_of(body) != row.kind.name:
                raise SourceUnavailable(f"{self._source}: the list of {row.kind.name} shows something else")
            ref = ObjectRef(self._source, scope, row.kind.name, id_)
            if body.get("deleted") is True or is_cut(body):
                hints.append(Hint(ref, stamp=events.stamp_of(row, body)))
            else:
                snapshots.append(Snapshot(ref, body, events.stamp_of(row, body), observed_at))
        return Page(tuple(snapshots), tuple(hints))


def is_cut(body: Body) -> bool:
    """Say whether a list anywhere in *body* goes on elsewhere."""
    todo: list[JSON] = [body]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if is_cut_list(node):
                return True
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    return False


def is_cut_list(node: Body) -> bool:
    """Say whether *node* is a list that goes on elsewhere."""
    return node.get("object") == "list" and node.get("has_more") is True


def own_url(cut: Body) -> str:
    """Return where a list goes on; raises `SourceRefused` where it does not say, or leads elsewhere."""
    url = cut.get("url")
    # The url comes from a body: it must not lead the key to another host.
    if not isinstance(url, str) or not url.startswith("/v1/") or urlsplit(url).netloc:
        raise SourceRefused("a list that is cut short does not say where it goes on")
    return url


def _held(body: Body, pointer: str) -> Body:
    node = content.find(body, pointer)
    if not isinstance(node, dict) or not isinstance(node.get("data"), list):
        raise SourceUnavailable(f"a listed {events.kind_of(body)} does not show its {pointer[1:]}")
    return node


def _since(listed: Sequence[Body], least: int | None) -> list[Body]:
    """Leave out what is known to have been created before *least*: not every list takes bounds."""
    return [body for body in listed if least is None or not _is_before(body, least)]


def _is_before(body: Body, least: int) -> bool:
    created = body.get("created")
    return isinstance(created, int) and created < least
