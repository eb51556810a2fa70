"""What a row says: everything there is to know of one kind, and how GitHub is asked about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from reconciler.adapter import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.adapter import Kind
    from reconciler.model import ObjectRef

FEED_LAG: Final = timedelta(minutes=5)
"""Lists are read from replicas, and nobody promises how far behind."""


class Walk(StrEnum):
    """How a kind's changes are listed."""

    SINCE = "since"  # the list begins at a stamp, oldest first
    NEWEST = "newest"  # it does not, but it can be sorted: newest first, until one is older
    WHOLE = "whole"  # it can be neither: all of it
    ACCOUNTS = "accounts"  # there is no one list: the configured repositories and those of accounts
    CREATED = "created"  # those made since; a search, which shows the first thousand only
    PARENTS = "parents"  # each list is of one parent: those of the parents that changed
    NONE = "none"  # nothing lists them, or not for a price that they are worth


class Home(StrEnum):
    """What the scope of a kind is."""

    REPOSITORY = "repositories"
    ORGANIZATION = "organizations"
    NOWHERE = ""


@dataclass(frozen=True, slots=True)
class Parent:
    """
    What an object is under, where calls about it need that.

    Attributes:
        kind: By which a locator names it.
        pointer: Where a body shows its address, whose last step is its number.
        lists: The list of them, with `{scope}`.
        crawl: The parameters of a list of all of them.
        changes: The parameters of the list that shows the latest change first; empty: there is none.
        key: Where it has that number.
    """

    kind: str
    pointer: str
    lists: str
    crawl: Mapping[str, str]
    changes: Mapping[str, str]
    key: str


@dataclass(frozen=True, slots=True)
class Probe:
    """
    What a question about many repositories shows of one kind's newest change.

    Attributes:
        shown: Which answers tell of it: `issues`, `pull_requests`, `milestones`, `releases`, `deployments`, `pushed`.
        exact: No change that the kind's own list shows is hidden from it: what did not move counts as listed.
    """

    shown: tuple[str, ...]
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    A kind, and how GitHub is asked about it.

    Attributes:
        path: What its fetch calls, with `{scope}` and `{id}`.
        lists: What its list calls, with `{scope}`.
        walk: How its changes are listed.
        crawl: The parameters of a list of everything, in an order that changes do not touch where there is one.
        changes: The parameters of the list of changes.
        key: Where its body holds its id.
        listed_key: Where a listed one does, if elsewhere.
        topics: Each event that names it, and where its payload shows it, or its id.
        home: What its scope is.
        called: What calls know it by instead of its id, and where its body and a listed one show that.
        parent: What it is under, where calls about it need that.
        only: Pointers to all of its body that is handed on; empty: all.
        part: What only its fetch shows of a finished one: a listed one without it is a hint.
        probe: What shows in a question about many repositories; None: nothing does.
    """

    kind: Kind
    path: str
    lists: str = ""
    walk: Walk
    crawl: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    key: str = "/id"
    listed_key: str = ""
    topics: Mapping[str, tuple[str, ...]]
    home: Home = Home.REPOSITORY
    called: tuple[str, str, str] | None = None
    parent: Parent | None = None
    only: tuple[str, ...] = ()
    part: str = ""
    probe: Probe | None = None

    @property
    def is_named(self) -> bool:
        """Whether its objects have no number, so that the name is the id."""
        return self.key == "/name"

    def path_of(self, ref: ObjectRef, **more: str) -> str:
        """Return what is called to fetch *ref*."""
        told = {"scope": ref.scope, "id": ref.id} | more
        return self.path.format(**{name: quoted(value) for name, value in told.items()})

    def list_of(self, scope: str, **more: str) -> str:
        """Return what is called to list the objects of *scope*."""
        return self.lists.format(scope=quoted(scope), **{name: quoted(value) for name, value in more.items()})


def quoted(text: str) -> str:
    """Return a text as one step of a path."""
    return quote(text, safe="", errors="replace")


def columns(text: str) -> tuple[Column, ...]:
    """Read columns from lines of name, type and pointers (by default the field of that name)."""
    words = (line.split() for line in text.strip().splitlines())
    return tuple(Column(name, tuple(pointers) or (f"/{name}",), type_) for name, type_, *pointers in words)


OLDEST_CHANGE_FIRST: Final = {"sort": "updated", "direction": "asc"}
LATEST_CHANGE_FIRST: Final = {"sort": "updated", "direction": "desc"}
OLDEST_FIRST: Final = {"sort": "created", "direction": "asc"}
ALL: Final = {"state": "all"}
