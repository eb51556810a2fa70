"""Pages of a feed, listed ahead in a thread of its own, each with the interval of positions it took."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, TypeAlias

from reconciler.budgets import Lane
from reconciler.errors import SourceRefused, SourceUnavailable
from reconciler.model import Reading
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from reconciler.budgets import Budgets
    from reconciler.model import Body, Hint, Page
    from reconciler.store.database import Database

_AHEAD = 2
_LOOKS_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class Listed:
    """
    One page as it was listed.

    Attributes:
        validators: What marks it as it was then.
        calls: Provider calls spent on it.
    """

    readings: tuple[Reading, ...]
    hints: tuple[Hint, ...]
    validators: Mapping[str, Body]
    calls: int


_Ahead: TypeAlias = "Queue[Listed | BaseException | None]"


def drawn(database: Database) -> tuple[int, datetime]:
    """Draw a position and read the database's clock."""
    with database.transaction() as connection:
        row = statements.one(connection, "draw_position", {"now": None})
    return row.position, row.now


def listed(pages: Iterator[Page], *, database: Database, budgets: Budgets, ended: threading.Event) -> Iterator[Listed]:
    """
    Yield every page of *pages*, asking for the next ones meanwhile, a few ahead.

    Positions are drawn right before and right after each request; a page of what was read since the listing began has
    the one from before the first request. Whatever the feed raises is raised here, after the
    pages before it; so is `SourceUnavailable` when *ended* is set: never does a listing end early in silence.
    """
    ready: _Ahead = Queue(maxsize=_AHEAD)
    abandoned = threading.Event()
    walk = threading.Thread(
        target=_walk, args=(pages, ready, database, budgets, ended, abandoned), name="sweep-list", daemon=True
    )
    walk.start()
    try:
        while (found := _next(ready, walk)) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        abandoned.set()
        walk.join()


def _next(ready: _Ahead, walk: threading.Thread) -> Listed | BaseException | None:
    while True:
        try:
            return ready.get(timeout=_LOOKS_EVERY)
        except Empty:
            if not walk.is_alive() and ready.empty():
                return SourceUnavailable("the listing ended without a word")


def _walk(  # noqa: PLR0917 - a thread's target
    pages: Iterator[Page],
    ready: _Ahead,
    database: Database,
    budgets: Budgets,
    ended: threading.Event,
    abandoned: threading.Event,
) -> None:

    def go_on() -> None:
        if ended.is_set():
            raise SourceRefused("the run was ended before every page was seen")

    try:
        # Looked at before each call, so that a run that was ended is not patient with its provider.
        with budgets.calling(Lane.SWEEP, beat=go_on) as calls:
            spent = 0
            begun: tuple[int, datetime] | None = None
            while not abandoned.is_set():
                if ended.is_set():
                    _put(ready, SourceUnavailable("the run was ended before every page was seen"), abandoned)
                    return
                asked = drawn(database)
                begun = begun or asked
                page = next(pages, None)
                if page is None:
                    break
                read_from, began_at = begun if page.since_begun else asked
                read_until, _ = drawn(database)
                readings = tuple(Reading(each, read_from, read_until, began_at, listed=True) for each in page.snapshots)
                _put(ready, Listed(readings, page.hints, page.validators, calls.count - spent), abandoned)
                spent = calls.count
        _put(ready, None, abandoned)
    except BaseException as error:  # noqa: BLE001 - raised again where the pages are taken
        _put(ready, error, abandoned)


def _put(ready: _Ahead, what: Listed | BaseException | None, abandoned: threading.Event) -> None:
    while not abandoned.is_set():
        try:
            ready.put(what, timeout=_LOOKS_EVERY)
        except Full:
            continue
        return
