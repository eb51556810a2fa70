"""
The kinds of GitHub that are mirrored only where the configuration names them, for each has its price.

Discussions are not among them: REST does not show them.
"""

from __future__ import annotations

from typing import Final

from adapters.github.rows import (
    ALL,
    FEED_LAG,
    LATEST_CHANGE_FIRST,
    OLDEST_CHANGE_FIRST,
    OLDEST_FIRST,
    Home,
    Parent,
    Probe,
    Row,
    Walk,
    columns,
)
from reconciler.adapter import Kind, Listing

_REVIEW: Final = {"pull_request_review": ("/review",)}
_REVIEW_COMMENT: Final = {"pull_request_review_comment": ("/comment",)}
_COMMIT_COMMENT: Final = {"commit_comment": ("/comment",)}
_TEAM: Final = {"team": ("/team",), "team_add": ("/team",), "membership": ("/team",)}
_MEMBER: Final = {"organization": ("/membership",), "membership": ("/member",)}
_WORKFLOW_RUN: Final = {
    "workflow_run": ("/workflow_run",),
    "workflow_job": ("/workflow_job/run_id",),
}
_WORKFLOW_JOB: Final = {"workflow_job": ("/workflow_job",)}
_CHECK_RUN: Final = {"check_run": ("/check_run",)}
_CHECK_SUITE: Final = {"check_suite": ("/check_suite",), "check_run": ("/check_run/check_suite",)}
_DEPLOYMENT: Final = {"deployment": ("/deployment",), "deployment_status": ("/deployment",)}
_DEPLOYMENT_STATUS: Final = {"deployment_status": ("/deployment_status",)}
_BRANCH: Final = dict.fromkeys(("push", "create", "delete"), ("/ref",))

_PULL_REQUESTS: Final = Parent(
    kind="pull_request",
    pointer="/pull_request_url",
    lists="/repositories/{scope}/pulls",
    crawl=ALL | OLDEST_FIRST,
    changes=ALL | LATEST_CHANGE_FIRST,
    key="/number",
)
_DEPLOYMENTS: Final = Parent(
    kind="deployment",
    pointer="/deployment_url",
    lists="/repositories/{scope}/deployments",
    crawl={},
    changes={},
    key="/id",
)
_UNFINISHED: Final = frozenset({"queued", "in_progress", "requested", "waiting", "pending"})

BESIDES: Final = (
    Row(
        path="/repositories/{scope}/pulls/{pull_request}/reviews/{id}",
        lists="/repositories/{scope}/pulls/{pull_request}/reviews",
        walk=Walk.PARENTS,
        parent=_PULL_REQUESTS,
        topics=_REVIEW,
        probe=Probe(("pull_requests",)),
        kind=Kind(
            name="review",
            core=False,
            topics=tuple(_REVIEW),
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/pulls/{pull_request}/reviews of each pull request that changed",
            fetch="GET /repositories/{scope}/pulls/{pull_request}/reviews/{id}",
            deletion="404, of a pending one only",
            permission="Pull requests: read",
            cost="1 call where its pull request is known, else 1 for each; 1 per pull request listed",
            columns=columns("""
                state text
                author text /user/login
                body text
                commit_id text
                pull_request_url text
                submitted_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="edits and dismissals where the pull request does not change with them",
            worth="it has no stamp, and whether it was dismissed decides what may be merged",
        ),
    ),
    Row(
        path="/repositories/{scope}/pulls/comments/{id}",
        lists="/repositories/{scope}/pulls/comments",
        walk=Walk.SINCE,
        crawl=OLDEST_CHANGE_FIRST,
        changes=OLDEST_CHANGE_FIRST,
        topics=_REVIEW_COMMENT,
        probe=Probe(("pull_requests",)),
        kind=Kind(
            name="review_comment",
            core=False,
            topics=tuple(_REVIEW_COMMENT),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/pulls/comments by since",
            fetch="GET /repositories/{scope}/pulls/comments/{id}",
            deletion="404",
            permission="Pull requests: read",
            cost="1 call; 1 per 100 listed",
            columns=columns("""
                author text /user/login
                body text
                path text
                line bigint
                commit_id text
                in_reply_to_id bigint
                pull_request_review_id bigint
                pull_request_url text
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="deletions; reactions, and lines that a push left behind, which leave updated_at alone",
            worth="edits follow one another within a second, and stamps are whole seconds",
        ),
    ),
    Row(
        path="/repositories/{scope}/comments/{id}",
        lists="/repositories/{scope}/comments",
        walk=Walk.WHOLE,
        topics=_COMMIT_COMMENT,
        kind=Kind(
            name="commit_comment",
            core=False,
            topics=tuple(_COMMIT_COMMENT),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/comments, all of them",
            fetch="GET /repositories/{scope}/comments/{id}",
            deletion="404",
            permission="Contents: read",
            cost="1 call; 1 per 100 listed",
            columns=columns("""
                author text /user/login
                body text
                commit_id text
                path text
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="deletions; in light passes over many repositories, edits, which no event tells",
            worth="only its creation makes an event; whoever replays one must not bring an old text back",
        ),
    ),
    Row(
        path="/organizations/{scope}/team/{id}",
        lists="/organizations/{scope}/teams",
        walk=Walk.WHOLE,
        home=Home.ORGANIZATION,
        topics=_TEAM,
        kind=Kind(
            name="team",
            core=False,
            topics=tuple(_TEAM),
            stamp="/updated_at",
            list=Listing.HINT,
            feed="GET /organizations/{scope}/teams, all of them",
            fetch="GET /organizations/{scope}/team/{id}",
            deletion="404",
            permission="Members: read (of the organization)",
            cost="1 call; 1 per 100 listed",
            volatile=("/organization",),
            columns=columns("""
                name text
                slug text
                description text
                privacy text
                permission text
                parent bigint /parent/id
                members_count bigint
                repos_count bigint
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="deletions; members and repositories, where no event tells of them",
            worth="no event and no list shows how many members and repositories it has",
        ),
    ),
    Row(
        path="/organizations/{scope}/memberships/{login}",
        lists="/organizations/{scope}/members",
        walk=Walk.WHOLE,
        home=Home.ORGANIZATION,
        key="/user/id",
        listed_key="/id",
        called=("login", "/user/login", "/login"),
        topics=_MEMBER,
        kind=Kind(
            name="member",
            core=False,
            topics=tuple(_MEMBER),
            list=Listing.HINT,
            feed="GET /organizations/{scope}/members, all of them",
            fetch="GET /organizations/{scope}/memberships/{login}",
            deletion="404 on the membership, or on the person",
            permission="Members: read (of the organization)",
            cost="1 call where the login is known, else 2; 1 per 100 listed",
            volatile=("/organization",),
            columns=columns("""
                login text /user/login
                role text
                state text
            """),
            feed_lag=FEED_LAG,
            blind="departures; roles, which no list shows; invitations, which are listed once they are accepted",
            worth="no list shows a role, and it has no stamp: only a read tells whether somebody still belongs here",
        ),
    ),
    Row(
        path="/repositories/{scope}/actions/runs/{id}",
        lists="/repositories/{scope}/actions/runs",
        walk=Walk.CREATED,
        topics=_WORKFLOW_RUN,
        kind=Kind(
            name="workflow_run",
            core=False,
            topics=tuple(_WORKFLOW_RUN),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/actions/runs by created, a thousand at a time",
            fetch="GET /repositories/{scope}/actions/runs/{id}",
            deletion="404",
            permission="Actions: read",
            cost="1 call; 1 per 100 listed",
            # Other objects: their own rows have them, or they come and go without it.
            volatile=("/repository", "/head_repository", "/pull_requests"),
            columns=columns("""
                name text
                display_title text
                event text
                status text
                conclusion text
                run_number bigint
                run_attempt bigint
                head_branch text
                head_sha text
                actor text /actor/login
                workflow_id bigint
                created_at timestamptz
                run_started_at timestamptz
                updated_at timestamptz
            """),
            open_while=("/status", _UNFINISHED),
            feed_lag=FEED_LAG,
            blind="deletions; older runs that are run again, of which no list by creation tells",
            worth="a run makes three events within seconds, which overtake one another",
        ),
    ),
    Row(
        path="/repositories/{scope}/actions/jobs/{id}",
        walk=Walk.NONE,
        topics=_WORKFLOW_JOB,
        kind=Kind(
            name="workflow_job",
            core=False,
            topics=tuple(_WORKFLOW_JOB),
            list=Listing.NONE,
            feed="none: a list for each attempt of each run; events, and rereads of those that are not finished",
            fetch="GET /repositories/{scope}/actions/jobs/{id}",
            deletion="404, with its run",
            permission="Actions: read",
            cost="1 call",
            columns=columns("""
                name text
                status text
                conclusion text
                run_id bigint
                run_attempt bigint
                head_sha text
                runner_name text
                created_at timestamptz
                started_at timestamptz
                completed_at timestamptz
            """),
            open_while=("/status", _UNFINISHED),
            feed_lag=FEED_LAG,
            blind="whatever no event told of: a call for each run would cost more than all other kinds together",
            worth="it has no stamp, and its events overtake one another",
        ),
    ),
    Row(
        path="/repositories/{scope}/check-suites/{id}",
        walk=Walk.NONE,
        topics=_CHECK_SUITE,
        kind=Kind(
            name="check_suite",
            core=False,
            topics=tuple(_CHECK_SUITE),
            stamp="/updated_at",
            list=Listing.NONE,
            feed="none: a list for each commit; events, and rereads of those that are not finished",
            fetch="GET /repositories/{scope}/check-suites/{id}",
            deletion="never; 404 would be believed",
            permission="Checks: read",
            cost="1 call",
            volatile=("/repository", "/app", "/pull_requests"),
            columns=columns("""
                status text
                conclusion text
                head_branch text
                head_sha text
                app text /app/slug
                latest_check_runs_count bigint
                created_at timestamptz
                updated_at timestamptz
            """),
            open_while=("/status", _UNFINISHED),
            feed_lag=FEED_LAG,
            blind="whatever no event told of: repositories and organizations hear less of checks than apps do",
            worth="its conclusion follows from runs whose events overtake one another",
        ),
    ),
    Row(
        path="/repositories/{scope}/check-runs/{id}",
        walk=Walk.NONE,
        topics=_CHECK_RUN,
        kind=Kind(
            name="check_run",
            core=False,
            topics=tuple(_CHECK_RUN),
            list=Listing.NONE,
            feed="none: a list for each commit; events, and rereads of those that are not finished",
            fetch="GET /repositories/{scope}/check-runs/{id}",
            deletion="never; 404 would be believed",
            permission="Checks: read",
            cost="1 call",
            volatile=("/app", "/pull_requests"),
            columns=columns("""
                name text
                status text
                conclusion text
                head_sha text
                external_id text
                check_suite bigint /check_suite/id
                app text /app/slug
                started_at timestamptz
                completed_at timestamptz
            """),
            open_while=("/status", _UNFINISHED),
            feed_lag=FEED_LAG,
            blind="whatever no event told of: repositories and organizations hear less of checks than apps do",
            worth="it has no stamp, and its events overtake one another",
        ),
    ),
    Row(
        path="/repositories/{scope}/deployments/{id}",
        lists="/repositories/{scope}/deployments",
        walk=Walk.WHOLE,
        topics=_DEPLOYMENT,
        probe=Probe(("deployments",)),
        kind=Kind(
            name="deployment",
            core=False,
            topics=tuple(_DEPLOYMENT),
            stamp="/updated_at",
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/deployments, all of them",
            fetch="GET /repositories/{scope}/deployments/{id}",
            deletion="404",
            permission="Deployments: read",
            cost="1 call; 1 per 100 listed",
            volatile=("/performed_via_github_app",),
            columns=columns("""
                ref text
                sha text
                task text
                environment text
                description text
                creator text /creator/login
                production_environment boolean
                transient_environment boolean
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="deletions, which no event tells",
            worth="its stamp moves with each status, and whole seconds do not order them",
        ),
    ),
    Row(
        path="/repositories/{scope}/deployments/{deployment}/statuses/{id}",
        lists="/repositories/{scope}/deployments/{deployment}/statuses",
        walk=Walk.NONE,
        parent=_DEPLOYMENTS,
        topics=_DEPLOYMENT_STATUS,
        kind=Kind(
            name="deployment_status",
            core=False,
            topics=tuple(_DEPLOYMENT_STATUS),
            stamp="/updated_at",
            list=Listing.NONE,
            feed="none: a list for each deployment; events",
            fetch="GET /repositories/{scope}/deployments/{deployment}/statuses/{id}",
            deletion="404, with its deployment",
            permission="Deployments: read",
            cost="1 call where its deployment is known, else 1 for each",
            volatile=("/performed_via_github_app",),
            columns=columns("""
                state text
                environment text
                description text
                creator text /creator/login
                deployment_url text
                environment_url text
                log_url text
                created_at timestamptz
                updated_at timestamptz
            """),
            feed_lag=FEED_LAG,
            blind="whatever no event told of, deletions among it: the list is of one deployment",
            worth="it never changes, so one call settles it; an event alone does not say that it is still there",
        ),
    ),
    Row(
        path="/repositories/{scope}/branches/{id}",
        lists="/repositories/{scope}/branches",
        walk=Walk.WHOLE,
        key="/name",
        topics=_BRANCH,
        probe=Probe(("pushed",)),
        # All that the list shows: what a fetch has besides is the commit's, or the protection's.
        only=("/name", "/commit/sha", "/commit/url", "/protected"),
        kind=Kind(
            name="branch",
            core=False,
            topics=tuple(_BRANCH),
            list=Listing.WHOLE,
            feed="GET /repositories/{scope}/branches, all of them",
            fetch="GET /repositories/{scope}/branches/{id}",
            deletion="404; 301 when it was renamed",
            permission="Contents: read",
            cost="1 call; 1 per 100 listed",
            columns=columns("""
                name text
                sha text /commit/sha
                protected boolean
            """),
            feed_lag=FEED_LAG,
            blind="deletions; in light passes over many repositories, protection",
            worth="a push tells where a branch went, not whether it is still there: pushes overtake one another",
        ),
    ),
)
"""A branch has no number: its name is its id."""
