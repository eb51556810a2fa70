"""Reviews of pull requests, and comments on code: what they are when they are new, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.github.bodies import WEB, node, stamp
from adapters.sandbox.github.facts import made, sha

if TYPE_CHECKING:
    from adapters.sandbox.github.bodies import Views
    from adapters.sandbox.github.facts import Draft
    from adapters.sandbox.world import Body, Timeline


def new_review(draft: Draft) -> Body:
    """Return the facts of a review that was just submitted."""
    return {
        **made(draft),
        "_user": draft.author,
        "_parent": draft.related,
        "body": f"Review {draft.turn}",
        "state": "COMMENTED",
        "commit_id": sha(f"head {draft.turn}"),
    }


def new_review_comment(draft: Draft) -> Body:
    """Return the facts of a new comment on a line of a pull request."""
    return {
        **made(draft),
        "_user": draft.author,
        "_parent": draft.related,
        "body": f"Remark {draft.turn}",
        "path": f"file_{draft.turn}.py",
        "diff_hunk": "@@ -1 +1 @@",
        "line": 1,
        "original_line": 1,
        "start_line": None,
        "original_start_line": None,
        "start_side": None,
        "side": "RIGHT",
        "subject_type": "line",
        "position": 1,
        "original_position": 1,
        "commit_id": sha(f"head {draft.turn}"),
        "original_commit_id": sha(f"head {draft.turn}"),
        "pull_request_review_id": None,
    }


def new_commit_comment(draft: Draft) -> Body:
    """Return the facts of a new comment on a commit."""
    return {
        **made(draft),
        "_user": draft.author,
        "body": f"Note {draft.turn}",
        "path": None,
        "position": None,
        "line": None,
        "commit_id": sha(f"head {draft.turn}"),
    }


def review(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a review; it shows no time but that of its submission."""
    pull = f"{views.repository_url(timeline.scope)}/pulls/{facts['_parent']}"
    page = f"{WEB}/{views.full_name(timeline.scope)}/pull/{facts['_parent']}#pullrequestreview-{timeline.id}"
    return {
        "id": int(timeline.id),
        "node_id": node("review", int(timeline.id)),
        "user": views.user(facts["_user"]),
        "html_url": page,
        "pull_request_url": pull,
        "author_association": views.association(timeline.scope, facts["_user"]),
        "_links": {"html": {"href": page}, "pull_request": {"href": pull}},
        "submitted_at": stamp(facts["_created"]),
    }


def review_comment(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a comment on a line of a pull request."""
    repository = views.repository_url(timeline.scope)
    address, pull = f"{repository}/pulls/comments/{timeline.id}", f"{repository}/pulls/{facts['_parent']}"
    page = f"{WEB}/{views.full_name(timeline.scope)}/pull/{facts['_parent']}#discussion_r{timeline.id}"
    links = {"self": address, "html": page, "pull_request": pull}
    return {
        "url": address,
        "id": int(timeline.id),
        "node_id": node("review_comment", int(timeline.id)),
        "user": views.user(facts["_user"]),
        "html_url": page,
        "pull_request_url": pull,
        "author_association": views.association(timeline.scope, facts["_user"]),
        "_links": {name: {"href": each} for name, each in links.items()},
        **views.times(facts),
        "reactions": views.reactions(address),
    }


def commit_comment(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a comment on a commit."""
    address = f"{views.repository_url(timeline.scope)}/comments/{timeline.id}"
    commit = f"{WEB}/{views.full_name(timeline.scope)}/commit/{facts['commit_id']}"
    return {
        "url": address,
        "html_url": f"{commit}#commitcomment-{timeline.id}",
        "id": int(timeline.id),
        "node_id": node("commit_comment", int(timeline.id)),
        "user": views.user(facts["_user"]),
        "author_association": views.association(timeline.scope, facts["_user"]),
        **views.times(facts),
        "reactions": views.reactions(address),
    }
