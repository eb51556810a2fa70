"""One row for each kind: how its objects are made, changed, deleted and announced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.github import builds, crew, facts, reviews
from adapters.sandbox.github.bodies import Shapes

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
        action: Empty: the event has none.
        labels: Ids of labels that the payload names beside the object.
        event: Its name, where it is not that of the kind.
    """

    action: str
    labels: tuple[int, ...] = ()
    event: str = ""


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
        belongs: The kind of what it is under, whose number it holds; it goes with that.
        beside: Its events show that, too, whose stamp moves with it.
        home: What its scope is: a `repository`, an `organization`, or nothing.
        number: Returns its id where its facts tell it.
    """

    event: str
    key: str
    make: Callable[[Draft], Body]
    edit: Callable[[Body], Body]
    told: Announce
    numbered: str = ""
    stamped: bool = True
    stays: str = ""
    belongs: str = ""
    beside: bool = False
    home: str = "repository"
    number: Callable[[Body], str] | None = None


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


def _submitted(before: Body | None, after: Body | None) -> list[Told]:
    if before is None or after is None:
        return [Told("submitted")] if after else []
    gone = before["state"] != after["state"] == "DISMISSED"
    return [Told("dismissed" if gone else "edited")]


def _first(before: Body | None, _: Body | None) -> list[Told]:
    """Tell of nothing but the beginning."""
    return [Told("created")] if before is None else []


def _joined(before: Body | None, after: Body | None) -> list[Told]:
    return [] if before and after else [Told("member_added" if after else "member_removed")]


def _run_as(first: str, between: str = "in_progress") -> Announce:
    """Return what tells of something that is asked for, runs and ends; it tells of no deletion."""

    def told(before: Body | None, after: Body | None) -> list[Told]:
        if before is None or after is None:
            return [Told(first)] if after else []
        action = "completed" if after["status"] == "completed" else between
        return [Told(action)] if action else []

    return told


def _pushed(before: Body | None, after: Body | None) -> list[Told]:
    if before is None:
        return [Told("", event="create"), Told("", event="push")]
    if after is None:
        return [Told("", event="delete")]
    return [Told("", event="push")] if before["_head"] != after["_head"] else []


def _moved_on(body: Body) -> Body:
    return {"_head": facts.sha(f"{body['name']} {body['_version']}")}


KINDS: Mapping[str, Kind] = {
    "repository": Kind(
        event="repository",
        key="repository",
        home="",
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
        belongs="issue",
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
    "review": Kind(
        event="pull_request_review",
        key="review",
        make=reviews.new_review,
        edit=_retitled("body"),
        told=_submitted,
        stamped=False,
        stays="a review that was submitted cannot be deleted",
        belongs="pull_request",
        beside=True,
    ),
    "review_comment": Kind(
        event="pull_request_review_comment",
        key="comment",
        make=reviews.new_review_comment,
        edit=_retitled("body"),
        told=_plain,
        belongs="pull_request",
        beside=True,
    ),
    "commit_comment": Kind(
        event="commit_comment",
        key="comment",
        make=reviews.new_commit_comment,
        edit=_retitled("body"),
        told=_first,
    ),
    "team": Kind(
        event="team",
        key="team",
        make=crew.new_team,
        edit=_retitled("name"),
        told=_plain,
        home="organization",
    ),
    "member": Kind(
        event="organization",
        key="membership",
        make=crew.new_member,
        edit=lambda body: {"role": "admin" if body["role"] == "member" else "member"},
        told=_joined,
        stamped=False,
        home="organization",
        number=crew.number_of_member,
    ),
    "workflow_run": Kind(
        event="workflow_run",
        key="workflow_run",
        make=builds.new_workflow_run,
        edit=builds.further,
        told=_run_as("requested"),
    ),
    "workflow_job": Kind(
        event="workflow_job",
        key="workflow_job",
        make=builds.new_workflow_job,
        edit=builds.further,
        told=_run_as("queued"),
        stamped=False,
        stays="a job goes with its run only",
        belongs="workflow_run",
    ),
    "check_suite": Kind(
        event="check_suite",
        key="check_suite",
        make=builds.new_check_suite,
        edit=builds.further,
        told=_run_as("requested", ""),
        stays="suites stay",
    ),
    "check_run": Kind(
        event="check_run",
        key="check_run",
        make=builds.new_check_run,
        edit=builds.further,
        told=_run_as("created", ""),
        stamped=False,
        stays="checks stay",
        belongs="check_suite",
    ),
    "deployment": Kind(
        event="deployment",
        key="deployment",
        make=builds.new_deployment,
        edit=_retitled("description"),
        told=_first,
    ),
    "deployment_status": Kind(
        event="deployment_status",
        key="deployment_status",
        make=builds.new_deployment_status,
        edit=_retitled("description"),
        told=_first,
        stays="a status goes with its deployment only",
        belongs="deployment",
        beside=True,
    ),
    "branch": Kind(
        event="push",
        key="branch",
        make=builds.new_branch,
        edit=_moved_on,
        told=_pushed,
        stamped=False,
        number=lambda body: str(body["name"]),
    ),
}

SHAPES = Shapes(
    alone={
        "review": reviews.review,
        "review_comment": reviews.review_comment,
        "commit_comment": reviews.commit_comment,
        "team": crew.team,
        "member": crew.member,
        "workflow_run": builds.workflow_run,
        "workflow_job": builds.workflow_job,
        "check_suite": builds.check_suite,
        "check_run": builds.check_run,
        "deployment": builds.deployment,
        "deployment_status": builds.deployment_status,
        "branch": builds.branch,
    },
    listed={"member": crew.listed_member, "branch": builds.listed_branch},
)
"""How the kinds look that not every mirror has."""
