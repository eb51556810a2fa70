"""
What the stand-in knows of GitHub's objects when they are new.

Facts are the part of a body that can be set. Names that begin with `_` say what a body shows in another form: stamps
as seconds since 1970, people by their login, labels by their id, the milestone by its number.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.sandbox.world import Body

COLORS = ("d73a4a", "a2eeef", "0075ca", "cfd3d7", "7057ff", "008672")


@dataclass(frozen=True, slots=True)
class Draft:
    """
    What a new object is made from.

    Attributes:
        turn: The how-many-th of its kind it is; makes objects differ.
        number: What it is called by in its repository, where its kind has that.
        author: Login of whoever makes it.
        related: The number of what it belongs to: the issue of a comment, the pull request of a review.
    """

    created: int
    turn: int
    number: int
    author: str
    related: int


def repository(draft: Draft) -> Body:
    """Return the facts of a new repository."""
    return {
        **made(draft),
        "_pushed": draft.created,
        "_owner": "acme",
        "name": f"repository-{draft.turn}",
        "private": False,
        "description": f"Repository {draft.turn}",
        "fork": False,
        "homepage": None,
        "size": 100 + draft.turn,
        "stargazers_count": 0,
        "language": "Python",
        "has_issues": True,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": True,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": 0,
        "archived": False,
        "disabled": False,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "default_branch": "main",
    }


def issue(draft: Draft) -> Body:
    """Return the facts of a new open issue."""
    return {
        **_talked(draft),
        "title": f"Issue {draft.turn}",
        "_closed": None,
        "_closed_by": None,
        "type": None,
        "state_reason": None,
    }


def pull_request(draft: Draft) -> Body:
    """Return the facts of a new open pull request."""
    return {
        **_talked(draft),
        "title": f"Change {draft.turn}",
        "_closed": None,
        "_merged": None,
        "_merged_by": None,
        "_branch": f"topic-{draft.turn}",
        "_head": sha(f"head {draft.turn}"),
        "_base": sha("base"),
        "draft": False,
        "auto_merge": None,
        "additions": 10 + draft.turn % 7,
        "deletions": draft.turn % 5,
        "changed_files": 1 + draft.turn % 3,
        "commits": 1,
        "review_comments": 0,
        "maintainer_can_modify": False,
    }


def issue_comment(draft: Draft) -> Body:
    """Return the facts of a new comment."""
    return {**made(draft), "_user": draft.author, "_issue": draft.related, "body": f"Comment {draft.turn}"}


def release(draft: Draft) -> Body:
    """Return the facts of a new release, published at once."""
    return {
        **made(draft),
        "_user": draft.author,
        "_published": draft.created,
        "tag_name": f"v0.{draft.turn}.0",
        "target_commitish": "main",
        "name": f"Release {draft.turn}",
        "draft": False,
        "immutable": False,
        "prerelease": False,
        "assets": [],
        "body": f"What is new in {draft.turn}",
    }


def label(draft: Draft) -> Body:
    """Return the facts of a new label."""
    return {
        **made(draft),
        "name": f"label {draft.turn}",
        "color": COLORS[draft.turn % len(COLORS)],
        "default": False,
        "description": f"Label {draft.turn}",
    }


def milestone(draft: Draft) -> Body:
    """Return the facts of a new open milestone."""
    return {
        **made(draft),
        "_number": draft.number,
        "_user": draft.author,
        "_closed": None,
        "title": f"Milestone {draft.turn}",
        "description": f"Milestone {draft.turn}",
        "state": "open",
        "due_on": None,
    }


def made(draft: Draft) -> Body:
    """Return what tells when a new object was made and last changed."""
    return {"_created": draft.created, "_updated": draft.created}


def _talked(draft: Draft) -> Body:
    """Return what issues and pull requests have in common."""
    return {
        **made(draft),
        "_number": draft.number,
        "_user": draft.author,
        "_assignees": [],
        "_labels": [],
        "_milestone": None,
        "_comments": 0,
        "state": "open",
        "locked": False,
        "active_lock_reason": None,
        "body": f"Text {draft.turn}",
    }


def sha(text: str) -> str:
    """Return the name of a commit, always the same for one text."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
