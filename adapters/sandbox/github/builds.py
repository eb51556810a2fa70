"""Branches, and what is run and deployed from them: what they are when they are new, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.github.bodies import WEB, node, stamp
from adapters.sandbox.github.facts import made, sha

if TYPE_CHECKING:
    from adapters.sandbox.github.bodies import Views
    from adapters.sandbox.github.facts import Draft
    from adapters.sandbox.world import Body, Timeline


def new_workflow_run(draft: Draft) -> Body:
    """Return the facts of a run that was just asked for."""
    return {
        **made(draft),
        **_queued(draft),
        "_user": draft.author,
        "name": "Build",
        "display_title": f"Run {draft.turn}",
        "event": "push",
        "head_branch": "main",
        "path": ".github/workflows/build.yml",
        "run_number": draft.turn,
        "run_attempt": 1,
        "workflow_id": 7001,
        "check_suite_id": 9_000_000_000 + draft.turn,
        "previous_attempt_url": None,
        "referenced_workflows": [],
    }


def new_workflow_job(draft: Draft) -> Body:
    """Return the facts of a job that waits for a runner."""
    return {
        **made(draft),
        **_queued(draft),
        "_parent": draft.related,
        "name": f"job {draft.turn}",
        "head_branch": "main",
        "workflow_name": "Build",
        "run_attempt": 1,
        "labels": ["ubuntu-latest"],
        "steps": [],
        "runner_id": None,
        "runner_name": None,
        "runner_group_id": None,
        "runner_group_name": None,
    }


def new_check_suite(draft: Draft) -> Body:
    """Return the facts of a new suite."""
    return {
        **made(draft),
        **_queued(draft),
        "head_branch": "main",
        "before": sha("base"),
        "after": sha(f"head {draft.turn}"),
        "latest_check_runs_count": 0,
    }


def new_check_run(draft: Draft) -> Body:
    """Return the facts of a check that was just asked for."""
    return {
        **made(draft),
        **_queued(draft),
        "_parent": draft.related,
        "name": f"check {draft.turn}",
        "external_id": f"check-{draft.turn}",
        "details_url": "https://example.com/checks",
    }


def new_deployment(draft: Draft) -> Body:
    """Return the facts of a new deployment."""
    return {
        **made(draft),
        "_user": draft.author,
        "ref": "main",
        "sha": sha(f"head {draft.turn}"),
        "task": "deploy",
        "payload": {},
        "environment": "production",
        "original_environment": "production",
        "description": f"Deployment {draft.turn}",
        "transient_environment": False,
        "production_environment": True,
    }


def new_deployment_status(draft: Draft) -> Body:
    """Return the facts of a new status of a deployment."""
    return {
        **made(draft),
        "_user": draft.author,
        "_parent": draft.related,
        "state": "success",
        "environment": "production",
        "description": f"Status {draft.turn}",
        "target_url": "",
        "environment_url": "",
        "log_url": "",
    }


def new_branch(draft: Draft) -> Body:
    """Return the facts of a new branch."""
    return {**made(draft), "_head": sha(f"branch {draft.turn}"), "name": f"feature/{draft.turn}", "protected": False}


def further(facts: Body) -> Body:
    """Return what comes next of something that is run."""
    done = facts["status"] == "in_progress"
    return {"status": "completed", "conclusion": "success"} if done else {"status": "in_progress", "conclusion": None}


def workflow_run(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a run."""
    scope = timeline.scope
    repository, page = views.repository_url(scope), f"{WEB}/{views.full_name(scope)}"
    address = f"{repository}/actions/runs/{timeline.id}"
    parts = ("jobs", "logs", "artifacts", "cancel", "rerun")
    return {
        "id": int(timeline.id),
        "node_id": node("workflow_run", int(timeline.id)),
        "check_suite_node_id": node("check_suite", facts["check_suite_id"]),
        "url": address,
        "html_url": f"{page}/actions/runs/{timeline.id}",
        "check_suite_url": f"{repository}/check-suites/{facts['check_suite_id']}",
        "workflow_url": f"{repository}/actions/workflows/{facts['workflow_id']}",
        **{f"{part}_url": f"{address}/{part}" for part in parts},
        "actor": views.user(facts["_user"]),
        "triggering_actor": views.user(facts["_user"]),
        "run_started_at": stamp(facts["_created"]),
        **views.times(facts),
        "pull_requests": [],
        "head_commit": _commit(facts),
        "repository": views.repository_in(scope),
        "head_repository": views.repository_in(scope),
    }


def workflow_job(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a job."""
    repository, page = views.repository_url(timeline.scope), f"{WEB}/{views.full_name(timeline.scope)}"
    return {
        "id": int(timeline.id),
        "node_id": node("workflow_job", int(timeline.id)),
        "run_id": facts["_parent"],
        "run_url": f"{repository}/actions/runs/{facts['_parent']}",
        "url": f"{repository}/actions/jobs/{timeline.id}",
        "html_url": f"{page}/actions/runs/{facts['_parent']}/job/{timeline.id}",
        "check_run_url": f"{repository}/check-runs/{timeline.id}",
        "created_at": stamp(facts["_created"]),
        **_ran(facts),
    }


def check_suite(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a suite."""
    address = f"{views.repository_url(timeline.scope)}/check-suites/{timeline.id}"
    return {
        "id": int(timeline.id),
        "node_id": node("check_suite", int(timeline.id)),
        "url": address,
        "check_runs_url": f"{address}/check-runs",
        "pull_requests": [],
        "app": None,
        "head_commit": _commit(facts),
        "repository": views.repository_in(timeline.scope),
        **views.times(facts),
    }


def check_run(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a check."""
    address = f"{views.repository_url(timeline.scope)}/check-runs/{timeline.id}"
    return {
        "id": int(timeline.id),
        "node_id": node("check_run", int(timeline.id)),
        "url": address,
        "html_url": f"{WEB}/{views.full_name(timeline.scope)}/runs/{timeline.id}",
        "check_suite": {"id": facts["_parent"]},
        "app": None,
        "pull_requests": [],
        "output": {
            "title": None,
            "summary": None,
            "text": None,
            "annotations_count": 0,
            "annotations_url": f"{address}/annotations",
        },
        **_ran(facts),
    }


def deployment(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a deployment."""
    repository = views.repository_url(timeline.scope)
    address = f"{repository}/deployments/{timeline.id}"
    return {
        "id": int(timeline.id),
        "node_id": node("deployment", int(timeline.id)),
        "url": address,
        "statuses_url": f"{address}/statuses",
        "repository_url": repository,
        "creator": views.user(facts["_user"]),
        "performed_via_github_app": None,
        **views.times(facts),
    }


def deployment_status(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a status of a deployment."""
    repository = views.repository_url(timeline.scope)
    above = f"{repository}/deployments/{facts['_parent']}"
    return {
        "id": int(timeline.id),
        "node_id": node("deployment_status", int(timeline.id)),
        "url": f"{above}/statuses/{timeline.id}",
        "deployment_url": above,
        "repository_url": repository,
        "creator": views.user(facts["_user"]),
        "performed_via_github_app": None,
        **views.times(facts),
    }


def branch(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a branch as it is shown alone, its commit whole."""
    repository, page = views.repository_url(timeline.scope), f"{WEB}/{views.full_name(timeline.scope)}"
    address, name = f"{repository}/branches/{facts['name']}", facts["_head"]
    commit = f"{repository}/commits/{name}"
    return {
        "commit": {
            "sha": name,
            "url": commit,
            "node_id": node("commit", int(timeline.latest.number)),
            "html_url": f"{page}/commit/{name}",
            "comments_url": f"{commit}/comments",
            "commit": {
                **_commit({"head_sha": name, "_created": facts["_updated"]}),
                "url": f"{repository}/git/commits/{name}",
                "tree": {"sha": name, "url": f"{repository}/git/trees/{name}"},
                "comment_count": 0,
            },
            "author": None,
            "committer": None,
            "parents": [],
        },
        "_links": {"self": address, "html": f"{page}/tree/{facts['name']}"},
        "protection": {"enabled": facts["protected"]},
        "protection_url": f"{address}/protection",
    }


def listed_branch(shown: Body) -> Body:
    """Return what the list of branches shows of one."""
    commit = {name: shown["commit"][name] for name in ("sha", "url")}
    return {"name": shown["name"], "commit": commit, "protected": shown["protected"]}


def _queued(draft: Draft) -> Body:
    return {"head_sha": sha(f"head {draft.turn}"), "status": "queued", "conclusion": None}


def _ran(facts: Body) -> Body:
    ended = stamp(facts["_updated"]) if facts["status"] == "completed" else None
    return {"started_at": stamp(facts["_created"]), "completed_at": ended}


def _commit(facts: Body) -> Body:
    person = {"name": "Stand-in", "email": "standin@example.com", "date": stamp(facts["_created"])}
    return {
        "id": facts["head_sha"],
        "tree_id": facts["head_sha"],
        "message": "Change",
        "timestamp": stamp(facts["_created"]),
        "author": person,
        "committer": person,
    }
