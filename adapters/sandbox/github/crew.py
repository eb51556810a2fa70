"""Teams and members of organizations: what they are when they are new, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.github.bodies import WEB, node, number_of, stamp
from adapters.sandbox.github.facts import made

if TYPE_CHECKING:
    from adapters.sandbox.github.bodies import Views
    from adapters.sandbox.github.facts import Draft
    from adapters.sandbox.world import Body, Timeline

_FOUNDED = 1_600_000_000


def new_team(draft: Draft) -> Body:
    """Return the facts of a new team."""
    return {
        **made(draft),
        "name": f"Team {draft.turn}",
        "slug": f"team-{draft.turn}",
        "description": f"Team {draft.turn}",
        "privacy": "closed",
        "notification_setting": "notifications_enabled",
        "permission": "pull",
        "parent": None,
        "members_count": 0,
        "repos_count": 0,
    }


def new_member(draft: Draft) -> Body:
    """Return the facts of a new member."""
    return {**made(draft), "_login": f"person-{draft.turn}", "role": "member", "state": "active"}


def number_of_member(facts: Body) -> str:
    """Return the number of the person."""
    return str(number_of(facts["_login"]))


def team(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a team as it is shown alone."""
    address = f"{views.base}/organizations/{timeline.scope}/team/{timeline.id}"
    login = views.login_of(timeline.scope)
    return {
        "id": int(timeline.id),
        "node_id": node("team", int(timeline.id)),
        "url": address,
        "html_url": f"{WEB}/orgs/{login}/teams/{facts['slug']}",
        "members_url": f"{address}/members{{/member}}",
        "repositories_url": f"{address}/repos",
        "type": "organization",
        "organization_id": int(timeline.scope),
        **views.times(facts),
        "organization": {
            **views.organization(login),
            "html_url": f"{WEB}/{login}",
            "name": login.title(),
            "has_organization_projects": True,
            "has_repository_projects": True,
            "public_repos": 1,
            "public_gists": 0,
            "followers": 0,
            "following": 0,
            "created_at": stamp(_FOUNDED),
            "updated_at": stamp(_FOUNDED),
            "archived_at": None,
            "type": "Organization",
        },
    }


def member(views: Views, timeline: Timeline, facts: Body) -> Body:
    """Return a membership, as only a call about one person shows it."""
    address, login = f"{views.base}/organizations/{timeline.scope}", facts["_login"]
    return {
        "url": f"{address}/memberships/{login}",
        "direct_membership": True,
        "organization_url": address,
        "organization": views.organization(views.login_of(timeline.scope)),
        "user": views.user(login),
    }


def listed_member(shown: Body) -> Body:
    """Return what the list of members shows: people."""
    user: Body = shown["user"]
    return user
