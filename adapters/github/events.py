"""What an event says: which objects it names, in which repository, and how old they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.github.calls import instant
from adapters.github.rows import Home
from reconciler import content
from reconciler.model import AccessWord, Named, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from adapters.github.rows import Row
    from reconciler.model import JSON, Body

# Objects that may live in another repository than the one that tells of them, and where that one is shown.
_HOMES: Final = {
    "/changes/new_issue": "/changes/new_repository",
    "/changes/old_issue": "/changes/old_repository",
    "/parent_issue": "/parent_issue_repo",
    "/sub_issue": "/sub_issue_repo",
    "/blocked_issue": "/blocked_issue_repo",
    "/blocking_issue": "/blocking_issue_repo",
}
_HERE: Final = "/repository"
_ACCOUNT: Final = "/organization"
_SUBJECTS: Final = {
    "issues": "/issue",
    "issue_comment": "/comment",
    "pull_request": "/pull_request",
    "pull_request_review": "/pull_request",
    "pull_request_review_comment": "/pull_request",
    "pull_request_review_thread": "/pull_request",
    "release": "/release",
    "label": "/label",
    "milestone": "/milestone",
    "repository": _HERE,
    "commit_comment": "/comment",
    "team": "/team",
    "workflow_run": "/workflow_run",
    "workflow_job": "/workflow_job",
    "check_suite": "/check_suite",
    "check_run": "/check_run",
    "deployment": "/deployment",
    "deployment_status": "/deployment_status",
}
_BRANCHES: Final = "refs/heads/"

IGNORED: Final[Mapping[str, str]] = {
    "branch_protection_configuration": "protection is shown by each branch, and the event names none",
    "branch_protection_rule": "a rule is a pattern, and names no branch; the list of branches shows what is protected",
    "code_scanning_alert": "alerts are not mirrored",
    "custom_property": "properties are not mirrored",
    "custom_property_values": "properties are not mirrored",
    "dependabot_alert": "alerts are not mirrored",
    "deploy_key": "keys are not mirrored",
    "deployment_protection_rule": "asks an app for leave: the deployment is as it was",
    "deployment_review": "what a workflow run waits for: its own event follows",
    "discussion": "discussions are not shown by REST, and not mirrored",
    "discussion_comment": "discussions are not shown by REST, and not mirrored",
    "github_app_authorization": "of a person, not of an account we mirror",
    "gollum": "wikis are not mirrored",
    "installation": "about what the app may see: our access is looked at at once, and is a state of its own",
    "installation_repositories": "which repositories there are is listed anew in the next pass",
    "installation_target": "an account was renamed: numbers identify",
    "marketplace_purchase": "of what is paid for the app",
    "member": "collaborators are not mirrored",
    "merge_group": "queues are not mirrored; what is merged makes its own events",
    "meta": "of the webhook itself, which the watchdog looks after",
    "org_block": "blocked people are not mirrored",
    "package": "packages are not mirrored",
    "page_build": "pages are not mirrored",
    "personal_access_token_request": "tokens are not mirrored",
    "ping": "of the webhook itself, which the watchdog looks after",
    "project": "projects of this sort are gone from GitHub",
    "project_card": "projects of this sort are gone from GitHub",
    "project_column": "projects of this sort are gone from GitHub",
    "projects_v2": "projects are not mirrored",
    "projects_v2_item": "projects are not mirrored",
    "projects_v2_status_update": "projects are not mirrored",
    "registry_package": "packages are not mirrored",
    "repository_advisory": "advisories are not mirrored",
    "repository_dispatch": "somebody asks workflows for something: nothing has changed yet",
    "repository_import": "the repository makes its own event once it is there",
    "repository_ruleset": "rules are not mirrored",
    "repository_vulnerability_alert": "alerts are not mirrored",
    "secret_scanning_alert": "alerts are not mirrored",
    "secret_scanning_alert_location": "alerts are not mirrored",
    "secret_scanning_scan": "alerts are not mirrored",
    "security_advisory": "advisories are not mirrored",
    "security_and_analysis": "settings of security are not mirrored",
    "sponsorship": "sponsors are not mirrored",
    "status": "of a commit, and commits are not mirrored",
    "watch": "the same as star, which names the repository",
    "workflow_dispatch": "somebody asks for a workflow: its run makes its own events",
}
"""Events that name nothing of any kind, and why."""
_LOSING: Final = {"deleted": "uninstalled", "suspend": "suspended"}
# After these an object's stamp is that of a state before; a payload's repository may be, too, but for its own event.
_LEAVING: Final = ("deleted", "transferred")


def named(
    event: str, payload: Body, rows: Mapping[str, Row], source: str, is_ours: Callable[[Body], bool]
) -> tuple[Named, ...]:
    """Return the objects of *rows* that an event concerns, in places that are ours; first what it is about."""
    found: dict[ObjectRef, Named] = {}
    mentions = [(pointer, row) for row in rows.values() for pointer in row.topics.get(event, ())]
    for pointer, row in sorted(mentions, key=lambda mention: mention[0] != _SUBJECTS.get(event)):
        for each in _shown(event, payload, row, pointer, source, is_ours):
            found.setdefault(each.ref, each)
    return tuple(found.values())


def access(event: str, payload: Body) -> AccessWord | None:
    """Return what an event says of the access of the installation it is about; None: nothing."""
    if event != "installation":
        return None
    return AccessWord(what=_LOSING.get(str(payload.get("action")), ""))


def occurred_at(event: str, payload: Body) -> datetime | None:
    """Return the stamp of the object that an event is about; None where it has none."""
    return instant(content.find(payload, f"{_SUBJECTS[event]}/updated_at")) if event in _SUBJECTS else None


def number_of(value: JSON) -> str | None:
    """Return a number of GitHub's, an id or one that is counted in its repository, as text; None if it is none."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def stamp_of(row: Row, body: Body) -> datetime | None:
    """Return the stamp that *body* carries; None for unstamped kinds."""
    return instant(content.find(body, row.kind.stamp)) if row.kind.stamp else None


def id_of(row: Row, body: Body, *, listed: bool = False) -> str | None:
    """Return the id of an object as a body, or a listed one, shows it; None where there is none."""
    value = content.find(body, (listed and row.listed_key) or row.key)
    return (value or None if isinstance(value, str) else None) if row.is_named else number_of(value)


def locator_of(row: Row, body: Body, *, listed: bool = False) -> Body | None:
    """Return what calls about the object need besides its id: a name, a login, the number of its parent."""
    if row.called is not None:
        name, alone, in_list = row.called
        told = content.find(body, in_list if listed else alone)
        return {name: told} if isinstance(told, str) else None
    if row.parent is None:
        return None
    url = content.find(body, row.parent.pointer)
    number = url.rpartition("/")[2] if isinstance(url, str) else ""
    return {row.parent.kind: number} if number.isdecimal() else None


def is_pull_request(body: Body) -> bool:
    """Say whether what looks like an issue is a pull request."""
    return body.get("pull_request") is not None


def _shown(  # noqa: PLR0917 - same as `named`
    event: str, payload: Body, row: Row, pointer: str, source: str, is_ours: Callable[[Body], bool]
) -> Iterator[Named]:
    shown, home = content.find(payload, pointer), _home(payload, row, pointer)
    if shown is None or home is None or not is_ours(home):
        return
    kind, scope = row.kind.name, number_of(home.get("id"))
    told = _told(payload, row, shown)
    if told is None or scope is None:
        return
    id_, locator = told
    if pointer.endswith("issue") and _is_pull_request(shown) is not (kind == "pull_request"):
        return
    stale = payload.get("action") in _LEAVING or (pointer == _HERE and event != "repository")
    ref = ObjectRef(source, scope if row.home else "", kind, id_)
    yield Named(ref, None if stale or not isinstance(shown, dict) else stamp_of(row, shown), locator)


def _is_pull_request(shown: JSON) -> bool:
    return isinstance(shown, dict) and is_pull_request(shown)


def _home(payload: Body, row: Row, pointer: str) -> Body | None:
    """Return the repository or organization that an object lives in."""
    places = (_ACCOUNT,) if row.home is Home.ORGANIZATION else (_HOMES.get(pointer, _HERE), _HERE)
    shown = (content.find(payload, place) for place in places)
    home = next((each for each in shown if each is not None), None)
    return home if isinstance(home, dict) else None


def _told(payload: Body, row: Row, shown: JSON) -> tuple[str, Body | None] | None:
    """Return the id and the locator of what is shown: an object, its number, or the name of a branch."""
    if isinstance(shown, dict) and not row.is_named:
        listed = bool(row.listed_key) and content.find(shown, row.key) is None
        id_ = id_of(row, shown, listed=listed)
        return None if id_ is None else (id_, locator_of(row, shown, listed=listed))
    id_ = _branch(payload, shown) if row.is_named else number_of(shown)
    return None if id_ is None else (id_, None)


def _branch(payload: Body, name: JSON) -> str | None:
    """Return the branch that is pushed to, made or deleted; None where it is a tag."""
    if not isinstance(name, str):
        return None
    if "ref_type" in payload:
        return name or None if payload["ref_type"] == "branch" else None
    return name.removeprefix(_BRANCHES) or None if name.startswith(_BRANCHES) else None
