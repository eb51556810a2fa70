"""GitHub's API for people, organizations, the app and its installations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adapters.sandbox.github import listing
from adapters.sandbox.github.access import no_jwt, not_permitted
from adapters.sandbox.github.answers import Denied, conditional, missing, success
from adapters.sandbox.github.bodies import number_of, stamp
from adapters.sandbox.github.calls import changed
from adapters.sandbox.github.hooks import APP_ID
from adapters.sandbox.github.kinds import KINDS
from adapters.sandbox.github.listing import choice, since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from adapters.sandbox.github.access import Access
    from adapters.sandbox.github.calls import Call, Operations, Shelves
    from adapters.sandbox.github.listing import Row
    from adapters.sandbox.world import JSON, Body

FOUNDED = 1_600_000_000
"""When people, organizations and the app came to GitHub."""

_TYPES = ("all", "public", "private", "forks", "sources", "member")
_PERMISSIONS = {"contents": "read", "issues": "read", "metadata": "read", "pull_requests": "read"}


class Owners:
    """Answers the calls about whoever has repositories, and about those who may see them."""

    def __init__(self, shelves: Shelves, access: Access) -> None:
        self._shelves = shelves
        self._access = access

    def operations(self) -> Operations:
        """Return what answers each operation."""
        return {
            "GET /user": self._me,
            "GET /user/repos": self._my_repositories,
            "GET /users/{login}": self._person,
            "GET /users/{login}/repos": self._person_repositories,
            "GET /orgs/{login}": self._organization,
            "GET /orgs/{login}/repos": self._organization_repositories,
            "GET /installation/repositories": self._installation_repositories,
            "GET /app": self._app,
            "GET /app/installations": self._installations,
            "GET /app/installations/{id}": self._installation,
            "POST /app/installations/{id}/access_tokens": self._mint,
            "GET /rate_limit": self._rate_limit,
            "GET /user/{number}": self._person_by_number,
            "GET /organizations/{number}": self._organization_by_number,
            "GET /organizations/{number}/repos": self._repositories_by_number,
            "GET /organizations/{number}/teams": partial(self._in_organization, "team"),
            "GET /organizations/{number}/team/{id}": self._team,
            "GET /organizations/{number}/members": partial(self._in_organization, "member"),
            "GET /organizations/{number}/memberships/{login}": self._membership,
        }

    def _me(self, call: Call) -> Response:
        self._as_person(call)
        return self._shown(call, self._access.user)

    def _as_person(self, call: Call) -> None:
        if call.visit.sort == "anonymous":
            raise Denied(401, "Requires authentication")
        if call.visit.sort != "token":
            raise not_permitted("installation")

    def _person(self, call: Call) -> Response:
        return self._shown(call, self._login(call))

    def _shown(self, call: Call, login: str) -> Response:
        """Answer with somebody's own page."""
        shown = {
            **call.views.user(login),
            "name": login.title(),
            "company": None,
            "blog": "",
            "location": None,
            "email": None,
            "hireable": None,
            "bio": None,
            "public_repos": self._public(call, login),
            "public_gists": 0,
            "followers": 0,
            "following": 0,
            "created_at": stamp(FOUNDED),
            "updated_at": stamp(FOUNDED),
        }
        return conditional(call.asked, shown, who=call.visit.who, changed_at=FOUNDED)

    def _login(self, call: Call) -> str:
        """Return the login that the path names, as its owner spells it."""
        wanted = call.named("login").lower()
        for login in (self._access.user, *call.views.owners):
            if login.lower() == wanted:
                return login
        raise missing()

    def _organization_login(self, call: Call) -> str:
        login = self._login(call)
        if not call.views.is_organization(login):
            raise missing()
        return login

    def _owned(self, call: Call, login: str) -> Iterator[Row]:
        return (row for row in self._shelves.repositories(call) if row[1]["_owner"].lower() == login.lower())

    def _person_by_number(self, call: Call) -> Response:
        number = call.named("number")
        members = (
            facts["_login"]
            for owner in call.views.owners
            for _, facts in self._shelves.rows_in(call, str(number_of(owner)), "member")
        )
        known = (self._access.user, *call.views.owners, *members)
        login = next((each for each in known if str(number_of(each)) == number), None)
        if login is None:
            raise missing()
        return self._shown(call, login)

    def _account(self, call: Call) -> str:
        """Return the login of the organization whose number the path names, where the caller sees any of it."""
        login = call.views.login_of(call.named("number"))
        if not login or call.visit.blind or not call.views.is_organization(login):
            raise missing()
        return login

    def _organization_by_number(self, call: Call) -> Response:
        return self._organization_shown(call, self._account(call))

    def _repositories_by_number(self, call: Call) -> Response:
        rows = list(self._owned(call, self._account(call)))
        return self._shelves.listed(call, rows, listing.ORGANIZATIONS, kind="repository")

    def _in_organization(self, kind: str, call: Call) -> Response:
        self._account(call)
        rows = list(self._shelves.rows_in(call, call.named("number"), kind))
        return self._shelves.listed(call, rows, listing.BY_AGE, kind=kind)

    def _team(self, call: Call) -> Response:
        self._account(call)
        return self._one(call, self._shelves.standing(call, "team", call.named("id"), scope=call.named("number")))

    def _membership(self, call: Call) -> Response:
        self._account(call)
        rows = self._shelves.rows_in(call, call.named("number"), "member")
        login = call.named("login").lower()
        return self._one(call, next((row for row in rows if row[1]["_login"].lower() == login), None))

    def _one(self, call: Call, row: Row | None) -> Response:
        if row is None:
            raise missing()
        return self._shelves.shown(call, row)

    def _public(self, call: Call, login: str) -> int:
        return sum(not row[1]["private"] for row in self._owned(call, login))

    def _organization(self, call: Call) -> Response:
        return self._organization_shown(call, self._organization_login(call))

    def _organization_shown(self, call: Call, login: str) -> Response:
        shown = {
            **call.views.organization(login),
            "html_url": f"https://github.com/{login}",
            "name": login.title(),
            "has_organization_projects": True,
            "has_repository_projects": True,
            "public_repos": self._public(call, login),
            "public_gists": 0,
            "followers": 0,
            "following": 0,
            "created_at": stamp(FOUNDED),
            "updated_at": stamp(FOUNDED),
            "archived_at": None,
            "type": "Organization",
        }
        return conditional(call.asked, shown, who=call.visit.who, changed_at=FOUNDED)

    def _organization_repositories(self, call: Call) -> Response:
        login = self._organization_login(call)
        wanted = choice(call.query, "type", _TYPES, resource="Repository")
        rows = [row for row in self._owned(call, login) if _of_type(row[1], wanted)]
        return self._shelves.listed(call, rows, listing.ORGANIZATIONS, kind="repository")

    def _person_repositories(self, call: Call) -> Response:
        rows = list(self._owned(call, self._login(call)))
        return self._shelves.listed(call, rows, listing.OWNED, kind="repository")

    def _my_repositories(self, call: Call) -> Response:
        self._as_person(call)
        start = since(call.query, resource="Repository")
        rows = [row for row in self._shelves.repositories(call) if changed(row, start)]
        return self._shelves.listed(call, rows, listing.OWNED, kind="repository")

    def _installation_repositories(self, call: Call) -> Response:
        if call.visit.sort != "installation":
            raise Denied(403, "You must authenticate with an installation access token in order to list repositories.")
        rows = list(self._shelves.repositories(call))

        def wrap(shown: list[Body]) -> JSON:
            return {"total_count": len(rows), "repository_selection": "all", "repositories": shown}

        return self._shelves.listed(call, rows, listing.ORGANIZATIONS, kind="repository", wrap=wrap)

    def _as_app(self, call: Call) -> None:
        if call.visit.sort != "app":
            raise no_jwt()

    def _app(self, call: Call) -> Response:
        self._as_app(call)
        return success(
            {
                "id": APP_ID,
                "slug": "standin",
                "client_id": "Iv1.standin",
                "node_id": "A_standin",
                "owner": call.views.user(self._access.user),
                "name": "Stand-in",
                "description": "",
                "external_url": "https://example.com",
                "html_url": "https://github.com/apps/standin",
                **_about(),
                "installations_count": len(self._access.installations),
            }
        )

    def _installations(self, call: Call) -> Response:
        self._as_app(call)
        return success([self._installed(call, id_) for id_ in self._access.installations])

    def _installation(self, call: Call) -> Response:
        return success(self._installed(call, self._named(call)))

    def _mint(self, call: Call) -> Response:
        installation = self._named(call)
        self._access.check_installed(404)
        return success(self._access.mint(installation), status=201)

    def _named(self, call: Call) -> str:
        """Return the id of the installation that the path names."""
        self._as_app(call)
        if call.named("id") not in self._access.installations:
            raise missing()
        return call.named("id")

    def _installed(self, call: Call, id_: str) -> Body:
        owner = self._access.installations[id_] or self._access.user
        return {
            "id": int(id_),
            "account": call.views.user(owner),
            "access_tokens_url": f"{call.base}/app/installations/{id_}/access_tokens",
            "repositories_url": f"{call.base}/installation/repositories",
            "html_url": f"https://github.com/settings/installations/{id_}",
            "app_id": APP_ID,
            "app_slug": "standin",
            "target_id": number_of(owner),
            "target_type": "Organization" if call.views.is_organization(owner) else "User",
            "repository_selection": "all",
            "single_file_name": None,
            "suspended_at": None,
            "suspended_by": None,
            **_about(),
        }

    def _rate_limit(self, call: Call) -> Response:
        core = self._access.allowance(call.visit).shown()
        search = {**core, "limit": 30, "used": 0, "remaining": 30}
        queries = self._access.allowance(call.visit, resource="graphql").shown()
        return success({"resources": {"core": core, "search": search, "graphql": queries}, "rate": core})


def _about() -> Body:
    """Return what an app and its installations have in common."""
    return {
        "permissions": dict(_PERMISSIONS),
        "events": sorted({kind.event for kind in KINDS.values()}),
        "created_at": stamp(FOUNDED),
        "updated_at": stamp(FOUNDED),
    }


def _of_type(facts: Body, wanted: str) -> bool:
    tests = {"public": not facts["private"], "private": facts["private"], "forks": facts["fork"]}
    return bool(tests.get(wanted, True))
