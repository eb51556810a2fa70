"""The kinds of GitHub that can be mirrored: one row describes one kind; here those that are, unless it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.github.besides import BESIDES
from adapters.github.rows import (
    ALL,
    FEED_LAG,
    LATEST_CHANGE_FIRST,
    OLDEST_CHANGE_FIRST,
    OLDEST_FIRST,
    Home,
    Probe,
    Row,
    Walk,
    columns,
)
from reconciler.adapter import Kind, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping

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

_CORE: Final = (
    Row(
        path="/repositories/{scope}/issues/{id}",
        lists="/repositories/{scope}/issues",
        walk=Walk.SINCE,
        crawl=ALL | OLDEST_CHANGE_FIRST,
        changes=ALL | OLDEST_CHANGE_FIRST,
        key="/number",
        topics=_ISSUE,
        part="/closed_by",
        probe=Probe(("issues",), exact=True),
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
            columns=columns("""
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
            feed_lag=FEED_LAG,
            blind="deletions; labels renamed or deleted, and reactions, which leave updated_at alone",
            worth="an event shows the state of then, and several may be on their way: one call shows that of now",
        ),
    ),
    Row(
        path="/repositories/{scope}/pulls/{id}",
        lists="/repositories/{scope}/pulls",
        walk=Walk.NEWEST,
        crawl=ALL | OLDEST_FIRST,
        changes=ALL | LATEST_CHANGE_FIRST,
        key="/number",
        topics=_PULL_REQUEST,
        probe=Probe(("pull_requests",), exact=True),
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
            columns=columns("""
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
            feed_lag=FEED_LAG,
            blind="labels renamed or deleted, which leave updated_at alone; mergeable is not compared",
            worth="no list shows whether it was merged, nor its size; one call does",
        ),
    ),
    Row(
        path="/repositories/{scope}/issues/comments/{id}",
        lists="/repositories/{scope}/issues/comments",
        walk=Walk.SINCE,
        crawl=OLDEST_CHANGE_FIRST,
        changes=OLDEST_CHANGE_FIRST,
        topics=_COMMENT,
        probe=Probe(("issues", "pull_requests")),
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
            columns=columns("""
                author text /user/login
                body text
                issue_url text
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="deletions; reactions, which leave updated_at alone",
            worth="edits follow one another within a second, and stamps are whole seconds",
        ),
    ),
    Row(
        path="/repositories/{scope}/releases/{id}",
        lists="/repositories/{scope}/releases",
        walk=Walk.WHOLE,
        topics=_RELEASE,
        probe=Probe(("releases",)),
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
            columns=columns("""
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
            feed_lag=FEED_LAG,
            blind="deletions; drafts, without the right to write",
            worth="one release makes three events, of which the last to come need not be the last that happened",
        ),
    ),
    Row(
        path="/repositories/{scope}/labels/{name}",
        called=("name", "/name", "/name"),
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
            columns=columns("""
                name text
                color text
                description text
                default boolean
            """),
            feed_lag=FEED_LAG,
            blind="deletions",
            worth="it has no stamp: which of two events is the later one, only a read tells",
        ),
    ),
    Row(
        path="/repositories/{scope}/milestones/{id}",
        lists="/repositories/{scope}/milestones",
        walk=Walk.WHOLE,
        crawl=ALL,
        changes=ALL,
        key="/number",
        topics=_MILESTONE,
        probe=Probe(("milestones",)),
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
            columns=columns("""
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
            feed_lag=FEED_LAG,
            blind="deletions",
            worth="its counters move with every issue, and no event of its own tells",
        ),
    ),
    Row(
        path="/repositories/{id}",
        lists="",
        walk=Walk.ACCOUNTS,
        home=Home.NOWHERE,
        topics=_REPOSITORY,
        kind=Kind(
            name="repository",
            topics=tuple(_REPOSITORY),
            stamp="/updated_at",
            list=Listing.HINT,
            feed="GET /orgs/{org}/repos, latest change first; each configured repository by itself",
            fetch="GET /repositories/{id}",
            deletion="404, which a repository that we may no longer see answers too",
            permission="Metadata: read",
            cost="1 call; 1 per 100 listed, 1 for each configured by name or, of more than 25, per 100",
            unordered=("/topics",),
            columns=columns("""
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
            feed_lag=FEED_LAG,
            blind="deletions; pushes and counters, which may leave updated_at alone",
            worth="an event shows less than a fetch, and may show it as it was before",
        ),
    ),
)

KINDS: Final[Mapping[str, Row]] = {row.kind.name: row for row in (*_CORE, *BESIDES)}
"""Every kind, by name."""
