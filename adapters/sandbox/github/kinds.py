"""One row for each kind: how its objects are made, changed, deleted and announced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.github import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.github.facts import Draft
    from adapters.sandbox.world import Body

Announce: TypeAlias = "Callable[[Body | None, Body | None], list[Told]]"
"""Given the facts before and after a change (None: it does not exist), returns what webhooks tell of it."""


@dataclass(frozen=True, slots=True)
class Told:
    """
    One event.

    Attributes:
        labels: Ids of labels that the payload names beside the object.
    """

    action: str
    labels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One sort of object.

    Attributes:
        event: The name of its webhook event.
        key: Where the payload holds it.
        make: Returns the facts of a new one.
        edit: Which facts a change sets that says nothing else.
        told: Which events a change makes.
        numbered: The sequence of its repository that its ids come from; empty: they are GitHub's own.
        stamped: It has `updated_at`.
        stays: Why it cannot be deleted; empty: it can.
    """

    event: str
    key: str
    make: Callable[[Draft], Body]
    edit: Callable[[Body], Body]
    told: Announce
    numbered: str = ""
    stamped: bool = True
    stays: str = ""


def _retitled(field: str) -> Callable[[Body], Body]:
    def edit(body: Body) -> Body:
        return {field: f"{str(body[field]).partition(', change')[0]}, change {body['_version'] + 1}"}

    return edit


def _recolored(body: Body) -> Body:
    """Leave the name, which is what calls know a label by."""
    following = facts.COLORS.index(body["color"]) + 1 if body["color"] in facts.COLORS else 0
    return {"color": facts.COLORS[following % len(facts.COLORS)]}


def _plain(before: Body | None, after: Body | None) -> list[Told]:
    return [Told("created" if before is None else "deleted" if after is None else "edited")]


def _labelled(before: Body, after: Body) -> list[Told]:
    was, now = before["_labels"], after["_labels"]
    gained = [Told("labeled", (id_,)) for id_ in now if id_ not in was]
    return [*gained, *(Told("unlabeled", (id_,)) for id_ in was if id_ not in now)]


_TALK_MOVES: tuple[tuple[str, Callable[[Body, Body], str]], ...] = (
    ("_milestone", lambda _, now: "milestoned" if now["_milestone"] else "demilestoned"),
    ("_assignees", lambda was, now: "assigned" if len(now["_assignees"]) > len(was["_assignees"]) else "unassigned"),
    ("locked", lambda _, now: "locked" if now["locked"] else "unlocked"),
    ("state", lambda _, now: "closed" if now["state"] == "closed" else "reopened"),
    ("draft", lambda _, now: "converted_to_draft" if now["draft"] else "ready_for_review"),
    ("_head", lambda _was, _now: "synchronize"),
)
_REPOSITORY_MOVES: tuple[tuple[str, Callable[[Body, Body], str]], ...] = (
    ("name", lambda _was, _now: "renamed"),
    ("_owner", lambda _was, _now: "transferred"),
    ("archived", lambda _, now: "archived" if now["archived"] else "unarchived"),
    ("private", lambda _, now: "privatized" if now["private"] else "publicized"),
)


def _moved(moves: tuple[tuple[str, Callable[[Body, Body], str]], ...], before: Body, after: Body) -> list[Told]:
    return [Told(action(before, after)) for field, action in moves if before.get(field) != after.get(field)]


def _talk(before: Body | None, after: Body | None) -> list[Told]:
    if before is None:
        return [Told("opened")]
    if after is None:
        return [Told("deleted")]
    return [*_moved(_TALK_MOVES, before, after), *_labelled(before, after)] or [Told("edited")]


def _repository(before: Body | None, after: Body | None) -> list[Told]:
    if before is None or after is None:
        return _plain(before, after)
    return _moved(_REPOSITORY_MOVES, before, after) or [Told("edited")]


def _milestone(before: Body | None, after: Body | None) -> list[Told]:
    if before is None or after is None or before["state"] == after["state"]:
        return _plain(before, after)
    return [Told("closed" if after["state"] == "closed" else "opened")]


def _release(before: Body | None, after: Body | None) -> list[Told]:
    """Return three events for a release that comes out: GitHub tells of it thrice."""
    if after is None:
        return [Told("deleted")]
    if before is None:
        return [Told("created"), *([] if after["draft"] else _out(after))]
    if before["draft"] != after["draft"]:
        return [Told("unpublished")] if after["draft"] else _out(after)
    return [Told("edited")]


def _out(release: Body) -> list[Told]:
    return [Told("published"), Told("prereleased" if release["prerelease"] else "released")]


KINDS: Mapping[str, Kind] = {
    "repository": Kind(
        event="repository",
        key="repository",
        make=facts.repository,
        edit=_retitled("description"),
        told=_repository,
    ),
    "issue": Kind(
        event="issues",
        key="issue",
        make=facts.issue,
        edit=_retitled("title"),
        told=_talk,
        numbered="talk",
    ),
    "pull_request": Kind(
        event="pull_request",
        key="pull_request",
        make=facts.pull_request,
        edit=_retitled("title"),
        told=_talk,
        numbered="talk",
        stays="a pull request can be closed, but not deleted",
    ),
    "issue_comment": Kind(
        event="issue_comment",
        key="comment",
        make=facts.issue_comment,
        edit=_retitled("body"),
        told=_plain,
    ),
    "release": Kind(
        event="release",
        key="release",
        make=facts.release,
        edit=_retitled("name"),
        told=_release,
    ),
    "label": Kind(
        event="label",
        key="label",
        make=facts.label,
        edit=_recolored,
        told=_plain,
        stamped=False,
    ),
    "milestone": Kind(
        event="milestone",
        key="milestone",
        make=facts.milestone,
        edit=_retitled("title"),
        told=_milestone,
        numbered="milestone",
    ),
}
