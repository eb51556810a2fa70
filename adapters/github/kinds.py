"""The kinds of GitHub that can be mirrored: one row describes one kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from reconciler.adapter import Column, Kind, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.model import ObjectRef

_FEED_LAG = timedelta(minutes=5)  # lists are read from replicas, and nobody promises how far behind


class Walk(StrEnum):
    """How a kind's changes are listed."""

    SINCE = "since"  # the list begins at a stamp, oldest first
    NEWEST = "newest"  # it does not, but it can be sorted: newest first, until one is older
    WHOLE = "whole"  # it can be neither: all of it
    ACCOUNTS = "accounts"  # there is no one list: the configured repositories and those of accounts


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
        topics: Each event that names it, and where its payload shows it.
        never: Fields of its body that are never handed on.
        part: What only its fetch shows of a finished one: a listed one without it is a hint.
    """

    kind: Kind
    path: str
    lists: str
    walk: Walk
    crawl: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    key: str = "/id"
    topics: Mapping[str, tuple[str, ...]]
    never: tuple[str, ...] = ()
    part: str = ""

    def path_of(self, ref: ObjectRef) -> str:
        """Return what is called to fetch *ref*."""
        return self.path.format(scope=_quoted(ref.scope), id=_quoted(ref.id))

    def list_of(self, scope: str) -> str:
        """Return what is called to list the objects of *scope*."""
        return self.lists.format(scope=_quoted(scope))


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _columns(text: str) -> tuple[Column, ...]:
    """Read columns from lines of name, type and pointers (by default the field of that name)."""
    words = (line.split() for line in text.strip().splitlines())
    return tuple(Column(name, tuple(pointers) or (f"/{name}",), type_) for name, type_, *pointers in words)


_OLDEST_CHANGE_FIRST: Final = {"sort": "updated", "direction": "asc"}
_LATEST_CHANGE_FIRST: Final = {"sort": "updated", "direction": "desc"}
_OLDEST_FIRST: Final = {"sort": "created", "direction": "asc"}
_ALL: Final = {"state": "all"}

_COUNTERS_OF_MILESTONE: Final = ("/milestone/open_issues", "/milestone/closed_issues", "/milestone/updated_at")

_ISSUE: Final = {
    "issues": ("/issue", "/changes/new_issue", "/changes/old_issue"),
    "issue_comment": ("/issue",),
    "sub_issues": ("/parent_issue", "/sub_issue"),
    "issue_dependencies": ("/blocked_issue", "/blocking_issue"),
}
_PULL_REQUEST: Final = {
    "pull_request": ("/pull_request",),
    "pull_request_review": ("/pull_request",),
    "pull_request_review_comment": ("/pull_request",),
    "pull_request_review_thread": ("/pull_request",),
    "issues": ("/issue",),
    "issue_comment": ("/issue",),
}
_COMMENT: Final = {"issue_comment": ("/comment",)}
_RELEASE: Final = {"release": ("/release",)}
_LABEL: Final = {"label": ("/label",)}
_MILESTONE: Final = {
    "milestone": ("/milestone",),
    "issues": ("/milestone",),
    "pull_request": ("/milestone",),
}
_REPOSITORY: Final = dict.fromkeys(("repository", "public", "star", "fork", "push"), ("/repository",))

_ROWS = (
    Row(
        path="/repositories/{scope}/issues/{id}",
        lists="/repositories/{scope}/issues",
        walk=Walk.SINCE,
        crawl=_ALL | _OLDEST_CHANGE_FIRST,
        changes=_ALL | _OLDEST_CHANGE_FIRST,
        key="/number",
        topics=_ISSUE,
        part="/closed_by",
        kind=Kind(
            name="issue",
            topics=tuple(_ISSUE),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/issues by since",
            fetch="GET /repositories/{scope}/issues/{id}",
            deletion="410 that says so; 404; 301 when it was transferred",
            permission="Issues: read",
            cost="1 call; 1 per 100 listed, pull requests among them",
            unordered=("/labels", "/assignees"),
            # The list has no `closed_by`; what moves in an embedded milestone is the milestone's.
            volatile=("/closed_by", *_COUNTERS_OF_MILESTONE),
            columns=_columns("""
                number bigint
                title text
                state text
                state_reason text
                author text /user/login
                assignee text /assignees/0/login /assignee/login
                milestone bigint /milestone/number
                comments bigint
                locked boolean
                created_at timestamptz
                updated_at timestamptz
                closed_at timestamptz
            """),
            feed_lag=_FEED_LAG,
            blind="deletions; labels renamed or deleted, and reactions, which leave updated_at alone",
        ),
    ),
    Row(
        path="/repositories/{scope}/pulls/{id}",
        lists="/repositories/{scope}/pulls",
        walk=Walk.NEWEST,
        crawl=_ALL | _OLDEST_FIRST,
        changes=_ALL | _LATEST_CHANGE_FIRST,
        key="/number",
        topics=_PULL_REQUEST,
        kind=Kind(
            name="pull_request",
            topics=tuple(_PULL_REQUEST),
            stamp="/updated_at",
            list=Listing.HINT,
            feed="GET /repositories/{scope}/pulls, latest change first",
            fetch="GET /repositories/{scope}/pulls/{id}",
            deletion="never; 404 would be believed",
            permission="Pull requests: read",
            cost="1 call; 1 per 100 listed",
            unordered=("/labels", "/assignees", "/requested_reviewers", "/requested_teams"),
            # Computed after the fact, or another object's (the repositories of either end).
            volatile=(
                "/mergeable",
                "/mergeable_state",
                "/rebaseable",
                "/base/repo",
                "/head/repo",
                *_COUNTERS_OF_MILESTONE,
            ),
            columns=_columns("""
                number bigint
                title text
                state text
                draft boolean
                merged boolean
                author text /user/login
                base text /base/ref
                head text /head/ref
                head_sha text /head/sha
                merge_commit_sha text
                merged_by text /merged_by/login
                commits bigint
                changed_files bigint
                additions bigint
                deletions bigint
                created_at timestamptz
                updated_at timestamptz
                closed_at timestamptz
                merged_at timestamptz
            """),
            feed_lag=_FEED_LAG,
            blind="labels renamed or deleted, which leave updated_at alone; mergeable is not compared",
        ),
    ),
    Row(
        path="/repositories/{scope}/issues/comments/{id}",
        lists="/repositories/{scope}/issues/comments",
        walk=Walk.SINCE,
        crawl=_OLDEST_CHANGE_FIRST,
        changes=_OLDEST_CHANGE_FIRST,
        topics=_COMMENT,
        kind=Kind(
            name="issue_comment",
            topics=tuple(_COMMENT),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/issues/comments by since",
            fetch="GET /repositories/{scope}/issues/comments/{id}",
            deletion="404",
            permission="Issues and Pull requests: read",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                author text /user/login
                body text
                issue_url text
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=_FEED_LAG,
            blind="deletions; reactions, which leave updated_at alone",
        ),
    ),
    Row(
        path="/repositories/{scope}/releases/{id}",
        lists="/repositories/{scope}/releases",
        walk=Walk.WHOLE,
        topics=_RELEASE,
        kind=Kind(
            name="release",
            topics=tuple(_RELEASE),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/releases, all of them",
            fetch="GET /repositories/{scope}/releases/{id}",
            deletion="404",
            permission="Contents: read (drafts: write)",
            cost="1 call; 1 per 100 listed",
            unordered=("/assets",),
            volatile=("/assets/*/download_count",),
            columns=_columns("""
                tag_name text
                name text
                draft boolean
                prerelease boolean
                author text /author/login
                target_commitish text
                created_at timestamptz
                updated_at timestamptz
                published_at timestamptz
            """),
            feed_lag=_FEED_LAG,
            blind="deletions; drafts, without the right to write",
        ),
    ),
    Row(
        path="/repositories/{scope}/labels/{id}",
        lists="/repositories/{scope}/labels",
        walk=Walk.WHOLE,
        topics=_LABEL,
        kind=Kind(
            name="label",
            topics=tuple(_LABEL),
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/labels, all of them",
            fetch="GET /repositories/{scope}/labels/{name}",
            deletion="no longer in the list of labels",
            permission="Issues: read",
            cost="1 call where its name is known, else that of a list; 1 per 100 listed",
            columns=_columns("""
                name text
                color text
                description text
                default boolean
            """),
            feed_lag=_FEED_LAG,
            blind="deletions",
        ),
    ),
    Row(
        path="/repositories/{scope}/milestones/{id}",
        lists="/repositories/{scope}/milestones",
        walk=Walk.WHOLE,
        crawl=_ALL,
        changes=_ALL,
        key="/number",
        topics=_MILESTONE,
        kind=Kind(
            name="milestone",
            topics=tuple(_MILESTONE),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/milestones, all of them",
            fetch="GET /repositories/{scope}/milestones/{id}",
            deletion="404",
            permission="Issues: read",
            cost="1 call; 1 per 100 listed",
            columns=_columns("""
                number bigint
                title text
                state text
                description text
                open_issues bigint
                closed_issues bigint
                due_on timestamptz
                created_at timestamptz
                updated_at timestamptz
                closed_at timestamptz
            """),
            feed_lag=_FEED_LAG,
            blind="deletions",
        ),
    ),
    Row(
        path="/repositories/{id}",
        lists="",
        walk=Walk.ACCOUNTS,
        topics=_REPOSITORY,
        # Opens a private repository to whoever holds it, and comes anew with each read.
        never=("temp_clone_token",),
        kind=Kind(
            name="repository",
            topics=tuple(_REPOSITORY),
            stamp="/updated_at",
            list=Listing.HINT,
            feed="GET /orgs/{org}/repos, latest change first; each configured repository by itself",
            fetch="GET /repositories/{id}",
            deletion="404, which a repository that we may no longer see answers too",
            permission="Metadata: read",
            cost="1 call; 1 per 100 listed, 1 for each configured by name",
            unordered=("/topics",),
            columns=_columns("""
                full_name text
                name text
                owner text /owner/login
                private boolean
                visibility text
                archived boolean
                default_branch text
                language text
                open_issues_count bigint
                stargazers_count bigint
                forks_count bigint
                created_at timestamptz
                updated_at timestamptz
                pushed_at timestamptz
            """),
            feed_lag=_FEED_LAG,
            blind="deletions; pushes and counters, which may leave updated_at alone",
        ),
    ),
)

KINDS: Final[Mapping[str, Row]] = {row.kind.name: row for row in _ROWS}
"""Every kind, by name."""
