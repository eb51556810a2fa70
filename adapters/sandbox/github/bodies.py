"""What GitHub's objects look like: alone, in a list and in a webhook."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.world import Body, Timeline, World

Counts: TypeAlias = "Counter[tuple[str, int | None]]"
"""How many issues and pull requests a repository has, by state and milestone."""

WEB = "https://github.com"
STABLE_VERSION = "2022-11-28"

TEXT: Mapping[str, str] = {
    "repository": "description",
    "issue": "body",
    "pull_request": "body",
    "issue_comment": "body",
    "release": "body",
    "label": "description",
    "milestone": "description",
    "review": "body",
    "review_comment": "body",
    "commit_comment": "body",
    "team": "description",
    "workflow_run": "display_title",
    "workflow_job": "name",
    "check_run": "external_id",
    "deployment": "description",
    "deployment_status": "description",
}
"""The field of each kind that ends with the object's version, where it has a text."""

_REMOVED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "2026-03-10": {
        "issue": frozenset({"assignee"}),
        "pull_request": frozenset({"assignee", "merge_commit_sha"}),
        "repository": frozenset({"has_downloads", "use_squash_pr_title_as_default"}),
    },
}
_PULL_ALONE = (
    "merged",
    "mergeable",
    "rebaseable",
    "mergeable_state",
    "merged_by",
    "comments",
    "review_comments",
    "maintainer_can_modify",
    "commits",
    "additions",
    "deletions",
    "changed_files",
)
_REPOSITORY_ALONE: Body = {
    "temp_clone_token": "",
    "allow_squash_merge": True,
    "allow_merge_commit": True,
    "allow_rebase_merge": True,
    "allow_auto_merge": False,
    "delete_branch_on_merge": False,
    "allow_update_branch": False,
    "use_squash_pr_title_as_default": False,
    "squash_merge_commit_message": "COMMIT_MESSAGES",
    "squash_merge_commit_title": "COMMIT_OR_PR_TITLE",
    "merge_commit_message": "PR_TITLE",
    "merge_commit_title": "MERGE_MESSAGE",
    "network_count": 0,
    "subscribers_count": 1,
}
_ALONE: Mapping[str, frozenset[str]] = {
    "pull_request": frozenset(_PULL_ALONE),
    "repository": frozenset({*_REPOSITORY_ALONE, "organization"}),
    "team": frozenset({"members_count", "repos_count", "created_at", "updated_at", "organization"}),
}
"""Fields that only the single view has."""

_UNDELIVERED: Mapping[str, frozenset[str]] = {
    "issue": frozenset({"closed_by"}),
    "repository": frozenset({*_REPOSITORY_ALONE, "organization", "permissions"}),
}
"""Fields that webhooks lack."""

_REPOSITORY_PATHS = {
    "forks_url": "/forks",
    "keys_url": "/keys{/key_id}",
    "collaborators_url": "/collaborators{/collaborator}",
    "teams_url": "/teams",
    "hooks_url": "/hooks",
    "issue_events_url": "/issues/events{/number}",
    "events_url": "/events",
    "assignees_url": "/assignees{/user}",
    "branches_url": "/branches{/branch}",
    "tags_url": "/tags",
    "blobs_url": "/git/blobs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "trees_url": "/git/trees{/sha}",
    "statuses_url": "/statuses/{sha}",
    "languages_url": "/languages",
    "stargazers_url": "/stargazers",
    "contributors_url": "/contributors",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "commits_url": "/commits{/sha}",
    "git_commits_url": "/git/commits{/sha}",
    "comments_url": "/comments{/number}",
    "issue_comment_url": "/issues/comments{/number}",
    "contents_url": "/contents/{+path}",
    "compare_url": "/compare/{base}...{head}",
    "merges_url": "/merges",
    "archive_url": "/{archive_format}{/ref}",
    "downloads_url": "/downloads",
    "issues_url": "/issues{/number}",
    "pulls_url": "/pulls{/number}",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "labels_url": "/labels{/name}",
    "releases_url": "/releases{/id}",
    "deployments_url": "/deployments",
}
_USER_PATHS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}
_ORGANIZATION_PATHS = {
    "repos_url": "/repos",
    "events_url": "/events",
    "hooks_url": "/hooks",
    "issues_url": "/issues",
    "members_url": "/members{/member}",
    "public_members_url": "/public_members{/member}",
}
_REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
_INITIALS = {
    "repository": "R_kgDO",
    "issue": "I_kwDO",
    "pull_request": "PR_kwDO",
    "issue_comment": "IC_kwDO",
    "release": "RE_kwDO",
    "label": "LA_kwDO",
    "milestone": "MI_kwDO",
    "user": "U_kgDO",
    "organization": "O_kgDO",
    "review": "PRR_kwDO",
    "review_comment": "PRRC_kwDO",
    "commit_comment": "CC_kwDO",
    "team": "T_kwDO",
    "workflow_run": "WFR_kwLO",
    "workflow_job": "CR_kwDO",
    "check_suite": "CS_kwDO",
    "check_run": "CR_kwDO",
    "deployment": "DE_kwDO",
    "deployment_status": "DES_kwDO",
    "commit": "C_kwDO",
}


def stamp(seconds: int | None) -> str | None:
    """Return a time as GitHub writes it: whole seconds, UTC."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def number_of(login: str) -> int:
    """Return the id of a user or organization: always the same for one login."""
    return 10_000_000 + int.from_bytes(hashlib.sha256(login.lower().encode()).digest()[:3])


def full_name(repository: Body) -> str:
    """Return the `owner/name` of a repository's facts."""
    return f"{repository['_owner']}/{repository['name']}"


def last_facts(timeline: Timeline | None) -> Body:
    """Return the facts that an object had last, gone or not."""
    versions = reversed(timeline.versions) if timeline is not None else ()
    return next((each.body for each in versions if each.body is not None), {})


@dataclass(frozen=True, slots=True)
class Shapes:
    """
    How the kinds look that are not shown here.

    Attributes:
        alone: The single view.
        listed: What of it a list shows, where that is another form.
    """

    alone: Mapping[str, Callable[[Views, Timeline, Body], Body]]
    listed: Mapping[str, Callable[[Body], Body]]


class Views:
    """
    Shows objects as one caller sees them at one time.

    What an object shows of others (labels, milestone, counters, the repository's name) is as it is then, whether or
    not the object's own stamp moved with it.
    """

    def __init__(
        self,
        world: World,
        *,
        base: str,
        user: str,
        counts: Mapping[str, Counts],
        more: Shapes,
        at: float | None = None,
        version: str = STABLE_VERSION,
    ) -> None:
        self._more = more
        self._world = world
        self.base = base
        self._user = user
        self._at = at
        self._removed = _REMOVED.get(version, {})
        self._counts = dict(counts) if at is None else {}

    def alone(self, timeline: Timeline, facts: Body) -> Body:
        """Return the single view."""
        return self._without(timeline.kind, self._whole(timeline, facts), frozenset())

    def listed(self, timeline: Timeline, facts: Body) -> Body:
        """Return what a list shows, which for some kinds is less."""
        shown = self._more.listed.get(timeline.kind)
        if shown is not None:
            return shown(self._whole(timeline, facts))
        return self._without(timeline.kind, self._whole(timeline, facts), _ALONE.get(timeline.kind, frozenset()))

    def delivered(self, timeline: Timeline, facts: Body) -> Body:
        """Return what a webhook shows, whatever API version the caller likes."""
        shown = self._whole(timeline, facts)
        if timeline.kind == "pull_request":
            shown |= {"mergeable": None, "rebaseable": None, "mergeable_state": "unknown"}
        hidden = _UNDELIVERED.get(timeline.kind, frozenset())
        return {name: value for name, value in shown.items() if name not in hidden}

    def as_issue(self, timeline: Timeline, facts: Body) -> Body:
        """Return a pull request as the issues API shows it."""
        alone = {*_PULL_ALONE, "auto_merge"}
        talk = {name: value for name, value in facts.items() if name not in alone}
        shown = {**self._issue(timeline, talk), **self._plain("pull_request", talk)}
        pull = f"{self.repository_url(timeline.scope)}/pulls/{facts['_number']}"
        merged_at = stamp(facts["_merged"])
        part = {"url": pull, **self._pull_pages(timeline.scope, facts), "merged_at": merged_at}
        shown |= {"pull_request": part, "type": None, "state_reason": None}
        return self._without("issue", shown, frozenset())

    def repository_url(self, scope: str) -> str:
        """Return the address of a repository by the name it has."""
        return f"{self.base}/repos/{full_name(self._repository_facts(scope))}"

    def full_name(self, scope: str) -> str:
        """Return the name that a repository has."""
        return full_name(self._repository_facts(scope))

    def repository_in(self, scope: str) -> Body:
        """Return a repository as objects in it show it."""
        timeline = self._world.find("", "repository", scope)
        return self.listed(timeline, self._repository_facts(scope)) if timeline is not None else {}

    def login_of(self, number: str) -> str:
        """Return the login of the owner of this number."""
        return next((login for login in self.owners if str(number_of(login)) == number), "")

    def user(self, login: str) -> Body:
        """Return what is shown of a person or an organization wherever one is named."""
        sort = self._sort(login)
        address = f"{self.base}/users/{login}"
        return {
            "login": login,
            "id": number_of(login),
            "node_id": node("organization" if sort == "Organization" else "user", number_of(login)),
            "avatar_url": f"https://avatars.githubusercontent.com/u/{number_of(login)}?v=4",
            "gravatar_id": "",
            "url": address,
            "html_url": f"{WEB}/{login}",
            **{name: address + path for name, path in _USER_PATHS.items()},
            "type": sort,
            "user_view_type": "public",
            "site_admin": False,
        }

    def organization(self, login: str) -> Body:
        """Return an organization as webhooks and its own page begin."""
        address = f"{self.base}/orgs/{login}"
        return {
            "login": login,
            "id": number_of(login),
            "node_id": node("organization", number_of(login)),
            "url": address,
            **{name: address + path for name, path in _ORGANIZATION_PATHS.items()},
            "avatar_url": f"https://avatars.githubusercontent.com/u/{number_of(login)}?v=4",
            "description": "",
        }

    def is_organization(self, login: str) -> bool:
        """Tell whether *login* is an organization: all owners are but the person whose tokens there are."""
        return self._sort(login) == "Organization"

    @cached_property
    def owners(self) -> frozenset[str]:
        """Return the logins of all who have a repository."""
        shelf = self._world.shelf("", "repository")
        return frozenset(facts["_owner"] for _, _, facts in shelf.newest(None))

    def _sort(self, login: str) -> str:
        owns = login in self.owners or login.lower() in {each.lower() for each in self.owners}
        return "Organization" if owns and login.lower() != self._user.lower() else "User"

    def _without(self, kind: str, shown: Body, hidden: frozenset[str]) -> Body:
        gone = hidden | self._removed.get(kind, frozenset())
        return {name: value for name, value in shown.items() if name not in gone} if gone else shown

    def _whole(self, timeline: Timeline, facts: Body) -> Body:
        shapes: Mapping[str, Callable[[Timeline, Body], Body]] = {
            "repository": self._repository,
            "issue": self._issue,
            "pull_request": self._pull_request,
            "issue_comment": self._issue_comment,
            "release": self._release,
            "label": self._label,
            "milestone": self._milestone,
        }
        shape = shapes.get(timeline.kind)
        shown = shape(timeline, facts) if shape else self._more.alone[timeline.kind](self, timeline, facts)
        return {**shown, **self._plain(timeline.kind, facts)}

    def _plain(self, kind: str, facts: Body) -> Body:
        """Return the facts that are shown as they are, the version at the end of the text."""
        plain = {name: value for name, value in facts.items() if not name.startswith("_")}
        if kind not in TEXT:
            return plain
        text, mark = plain.get(TEXT[kind]), f"v{facts['_version']}"
        return {**plain, TEXT[kind]: f"{text} {mark}" if text else mark}

    def _seen(self, scope: str, kind: str, id_: str) -> Body | None:
        timeline = self._world.find(scope, kind, id_)
        version = timeline.seen(self._at) if timeline is not None else None
        return version.body if version is not None else None

    def _repository_facts(self, scope: str) -> Body:
        """Return a repository as it was then, or as it was last seen or will first be."""
        timeline = self._world.find("", "repository", scope)
        version = timeline.seen(self._at) if timeline is not None else None
        if version is not None and version.body is not None:
            return version.body
        return last_facts(timeline)

    def _count(self, scope: str) -> Counts:
        if scope not in self._counts:
            shelves = [self._world.shelf(scope, kind) for kind in ("issue", "pull_request")]
            standing = [facts for shelf in shelves for _, _, facts in shelf.newest(self._at)]
            self._counts[scope] = Counter((facts["state"], facts["_milestone"]) for facts in standing)
        return self._counts[scope]

    def _open(self, scope: str) -> int:
        return sum(count for (state, _), count in self._count(scope).items() if state == "open")

    def association(self, scope: str, login: str) -> str:
        """Return what somebody is to a repository."""
        return "OWNER" if login == self._repository_facts(scope)["_owner"] else "MEMBER"

    def _labels(self, scope: str, ids: list[int]) -> list[Body]:
        found = [(id_, self._seen(scope, "label", str(id_))) for id_ in ids]
        return [self._label_of(scope, id_, facts) for id_, facts in found if facts is not None]

    def _milestone_of(self, scope: str, number: int | None) -> Body | None:
        timeline = self._world.find(scope, "milestone", str(number))
        facts = self._seen(scope, "milestone", str(number))
        return None if timeline is None or facts is None else self._whole(timeline, facts)

    def _people(self, logins: list[str]) -> Body:
        people = [self.user(login) for login in logins]
        return {"assignee": people[0] if people else None, "assignees": people}

    def times(self, facts: Body) -> Body:
        """Return when an object was made and last changed."""
        return {"created_at": stamp(facts["_created"]), "updated_at": stamp(facts["_updated"])}

    def reactions(self, address: str) -> Body:
        """Return that nobody has reacted."""
        return {"url": f"{address}/reactions", "total_count": 0, **dict.fromkeys(_REACTIONS, 0)}

    def _repository(self, timeline: Timeline, facts: Body) -> Body:
        name, owner = full_name(facts), facts["_owner"]
        address, page = f"{self.base}/repos/{name}", f"{WEB}/{name}"
        openly = self._open(timeline.id)
        return {
            "id": int(timeline.id),
            "node_id": node("repository", int(timeline.id)),
            "full_name": name,
            "owner": self.user(owner),
            "html_url": page,
            "url": address,
            **{field: address + path for field, path in _REPOSITORY_PATHS.items()},
            **self.times(facts),
            "pushed_at": stamp(facts["_pushed"]),
            "git_url": f"git://github.com/{name}.git",
            "ssh_url": f"git@github.com:{name}.git",
            "clone_url": f"{page}.git",
            "svn_url": page,
            "mirror_url": None,
            "visibility": "private" if facts["private"] else "public",
            "watchers_count": facts["stargazers_count"],
            "watchers": facts["stargazers_count"],
            "forks": facts["forks_count"],
            "open_issues_count": openly,
            "open_issues": openly,
            "permissions": {"admin": True, "maintain": True, "push": True, "triage": True, "pull": True},
            **({"organization": self.user(owner)} if self.is_organization(owner) else {}),
            **_REPOSITORY_ALONE,
        }

    def _issue(self, timeline: Timeline, facts: Body) -> Body:
        scope, number = timeline.scope, facts["_number"]
        repository = self.repository_url(scope)
        address = f"{repository}/issues/{number}"
        sort = "pull" if timeline.kind == "pull_request" else "issues"
        return {
            "url": address,
            "repository_url": repository,
            "labels_url": f"{address}/labels{{/name}}",
            "comments_url": f"{address}/comments",
            "events_url": f"{address}/events",
            "html_url": f"{self.page(scope)}/{sort}/{number}",
            "id": facts["_id"],
            "node_id": node(timeline.kind, facts["_id"]),
            "number": number,
            "user": self.user(facts["_user"]),
            "labels": self._labels(scope, facts["_labels"]),
            **self._people(facts["_assignees"]),
            "milestone": self._milestone_of(scope, facts["_milestone"]),
            "comments": facts["_comments"],
            **self.times(facts),
            "closed_at": stamp(facts["_closed"]),
            "author_association": self.association(scope, facts["_user"]),
            "sub_issues_summary": {"total": 0, "completed": 0, "percent_completed": 0},
            "closed_by": self.user(facts["_closed_by"]) if facts.get("_closed_by") else None,
            "reactions": self.reactions(address),
            "timeline_url": f"{address}/timeline",
            "performed_via_github_app": None,
        }

    def _pull_request(self, timeline: Timeline, facts: Body) -> Body:
        scope, number = timeline.scope, facts["_number"]
        repository = self.repository_url(scope)
        address, talk = f"{repository}/pulls/{number}", f"{repository}/issues/{number}"
        addresses = {
            "review_comments": f"{address}/comments",
            "review_comment": f"{repository}/pulls/comments{{/number}}",
            "commits": f"{address}/commits",
            "statuses": f"{repository}/statuses/{facts['_head']}",
            "comments": f"{talk}/comments",
        }
        mergeable = True if facts["state"] == "open" else None
        links = {"self": address, "html": f"{self.page(scope)}/pull/{number}", "issue": talk, **addresses}
        return {
            "url": address,
            "id": facts["_id"],
            "node_id": node("pull_request", facts["_id"]),
            **self._pull_pages(scope, facts),
            "issue_url": talk,
            "number": number,
            "user": self.user(facts["_user"]),
            **self.times(facts),
            "closed_at": stamp(facts["_closed"]),
            "merged_at": stamp(facts["_merged"]),
            "merge_commit_sha": hashlib.sha256(facts["_head"].encode()).hexdigest()[:40],
            **self._people(facts["_assignees"]),
            "requested_reviewers": [],
            "requested_teams": [],
            "labels": self._labels(scope, facts["_labels"]),
            "milestone": self._milestone_of(scope, facts["_milestone"]),
            **{f"{name}_url": each for name, each in addresses.items()},
            "head": self._branch(scope, facts["_branch"], facts["_head"]),
            "base": self._branch(scope, "main", facts["_base"]),
            "_links": {name: {"href": each} for name, each in links.items()},
            "author_association": self.association(scope, facts["_user"]),
            "merged": facts["_merged"] is not None,
            "mergeable": mergeable,
            "rebaseable": mergeable,
            "mergeable_state": "clean" if mergeable else "unknown",
            "merged_by": self.user(facts["_merged_by"]) if facts["_merged_by"] else None,
            "comments": facts["_comments"],
        }

    def _pull_pages(self, scope: str, facts: Body) -> Body:
        page = f"{self.page(scope)}/pull/{facts['_number']}"
        return {"html_url": page, "diff_url": f"{page}.diff", "patch_url": f"{page}.patch"}

    def _branch(self, scope: str, name: str, sha: str) -> Body:
        facts = self._repository_facts(scope)
        return {
            "label": f"{facts['_owner']}:{name}",
            "ref": name,
            "sha": sha,
            "user": self.user(facts["_owner"]),
            "repo": self.repository_in(scope),
        }

    def _issue_comment(self, timeline: Timeline, facts: Body) -> Body:
        repository, scope = self.repository_url(timeline.scope), timeline.scope
        address = f"{repository}/issues/comments/{timeline.id}"
        sort = "issues" if self._world.find(scope, "issue", str(facts["_issue"])) is not None else "pull"
        return {
            "url": address,
            "html_url": f"{self.page(scope)}/{sort}/{facts['_issue']}#issuecomment-{timeline.id}",
            "issue_url": f"{repository}/issues/{facts['_issue']}",
            "id": int(timeline.id),
            "node_id": node("issue_comment", int(timeline.id)),
            "user": self.user(facts["_user"]),
            **self.times(facts),
            "author_association": self.association(scope, facts["_user"]),
            "reactions": self.reactions(address),
            "performed_via_github_app": None,
        }

    def _release(self, timeline: Timeline, facts: Body) -> Body:
        repository = self.repository_url(timeline.scope)
        address, tag = f"{repository}/releases/{timeline.id}", quote(facts["tag_name"])
        return {
            "url": address,
            "assets_url": f"{address}/assets",
            "upload_url": f"{address}/assets{{?name,label}}",
            "html_url": f"{self.page(timeline.scope)}/releases/tag/{tag}",
            "id": int(timeline.id),
            "author": self.user(facts["_user"]),
            "node_id": node("release", int(timeline.id)),
            **self.times(facts),
            "published_at": stamp(facts["_published"]),
            "tarball_url": f"{repository}/tarball/{tag}",
            "zipball_url": f"{repository}/zipball/{tag}",
        }

    def _label(self, timeline: Timeline, facts: Body) -> Body:
        return self._label_of(timeline.scope, int(timeline.id), facts)

    def _label_of(self, scope: str, id_: int, facts: Body) -> Body:
        return {
            "id": id_,
            "node_id": node("label", id_),
            "url": f"{self.repository_url(scope)}/labels/{quote(facts['name'], safe='')}",
            **self._plain("label", facts),
        }

    def _milestone(self, timeline: Timeline, facts: Body) -> Body:
        scope, number = timeline.scope, facts["_number"]
        address = f"{self.repository_url(scope)}/milestones/{number}"
        return {
            "url": address,
            "html_url": f"{self.page(scope)}/milestone/{number}",
            "labels_url": f"{address}/labels",
            "id": facts["_id"],
            "node_id": node("milestone", facts["_id"]),
            "number": number,
            "creator": self.user(facts["_user"]),
            "open_issues": self._count(scope)["open", number],
            "closed_issues": self._count(scope)["closed", number],
            **self.times(facts),
            "closed_at": stamp(facts["_closed"]),
        }

    def page(self, scope: str) -> str:
        """Return where people see a repository."""
        return f"{WEB}/{full_name(self._repository_facts(scope))}"


def node(kind: str, number: int) -> str:
    """Return the global id of an object, which GraphQL and REST share."""
    raw = number.to_bytes(max(6, -(-number.bit_length() // 8)))
    return _INITIALS[kind] + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def seconds(shown: str | None) -> int | None:
    """Return the seconds since 1970 of a time that a body shows; raises `ValueError` for one without a zone."""
    if shown is None:
        return None
    moment = datetime.fromisoformat(shown)
    if moment.tzinfo is None:
        raise ValueError(shown)
    return int(moment.timestamp())
