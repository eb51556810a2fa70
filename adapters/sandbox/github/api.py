"""GitHub's REST API as far as a mirror reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlencode

from starlette.routing import Route

from adapters.sandbox.github import listing
from adapters.sandbox.github.access import not_permitted, primary_limit
from adapters.sandbox.github.answers import (
    VERSION_HEADER,
    Denied,
    Moved,
    conditional,
    denied,
    missing,
    redirected,
    success,
)
from adapters.sandbox.github.bodies import STABLE_VERSION, Views, number_of, stamp
from adapters.sandbox.github.hooks import APP_ID
from adapters.sandbox.github.kinds import KINDS
from adapters.sandbox.github.listing import Ceilings, choice, ordered, page, since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from adapters.sandbox.front import Asked, Front
    from adapters.sandbox.github.access import Access, Visit
    from adapters.sandbox.github.ledger import Ledger
    from adapters.sandbox.github.listing import Order, Row
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import JSON, Body

VERSIONS = ("2022-11-28", "2026-03-10")
FOUNDED = 1_600_000_000

Act: TypeAlias = "Callable[[Call], Response]"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_STATES = ("open", "closed", "all")
_NO_ISSUES = "Issues has been disabled in this repository."


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call that was let in.

    Attributes:
        scope: The number of the repository it is about; empty: about none.
        facts: That repository's facts.
        address: The call's own address, by the repository's number where it has one.
    """

    asked: Asked
    visit: Visit
    views: Views
    scope: str = ""
    facts: Body | None = None
    address: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The query parameters, the last of each name."""
        return dict(self.asked.request.query_params)

    @property
    def sent(self) -> JSON:
        """What the call sent along, parsed."""
        return self.asked.request.state.sent

    def named(self, name: str) -> str:
        """Return a variable part of the path."""
        return str(self.asked.request.path_params[name])


class Api:
    """
    Answers the calls of GitHub's API from what is in the ledger.

    Attributes:
        ceilings: Where lists end for those who count pages.
    """

    def __init__(self, machinery: Machinery, ledger: Ledger, access: Access, *, user: str) -> None:
        self._machinery = machinery
        self._world = machinery.world
        self._ledger = ledger
        self._access = access
        self._user = user
        self.ceilings = Ceilings()
        self._looked_at: set[tuple[str, str, int]] = set()

    def routes(self, front: Front, more: Mapping[str, Act]) -> list[Route]:
        """Return a route for each operation, *more* ones too, and one that refuses all others."""
        routes = [self._route(front, operation, act) for operation, act in self._operations(more).items()]
        return [*routes, self._unknown(front)]

    def _operations(self, more: Mapping[str, Act]) -> dict[str, Act]:
        inside: dict[str, Act] = {
            "GET ": self._repository,
            "GET /issues": self._issues,
            "GET /issues/comments": self._comments,
            "GET /issues/comments/{id}": partial(self._one, "issue_comment"),
            "GET /issues/{number}": self._issue,
            "GET /issues/{number}/comments": self._issue_comments,
            "GET /issues/{number}/labels": self._issue_labels,
            "GET /pulls": self._pulls,
            "GET /pulls/{id}": self._pull,
            "GET /releases": self._releases,
            "GET /releases/latest": self._latest_release,
            "GET /releases/tags/{tag:path}": self._release_of_tag,
            "GET /releases/{id}": partial(self._one, "release"),
            "GET /labels": self._labels,
            "GET /labels/{name:path}": self._label,
            "GET /milestones": self._milestones,
            "GET /milestones/{id}": partial(self._one, "milestone"),
            "GET /installation": self._repository_installation,
        }
        outside: dict[str, Act] = {
            "GET /user": self._me,
            "GET /user/repos": self._my_repositories,
            "GET /users/{login}": self._person,
            "GET /users/{login}/repos": self._person_repositories,
            "GET /orgs/{login}": self._organization,
            "GET /orgs/{login}/repos": self._organization_repositories,
            "GET /app": self._app,
            "GET /app/installations": self._installations,
            "GET /app/installations/{id}": self._installation,
            "POST /app/installations/{id}/access_tokens": self._mint,
            "GET /installation/repositories": self._installation_repositories,
            "GET /rate_limit": self._rate_limit,
            "GET /versions": lambda _: success(list(VERSIONS)),
            "GET /meta": lambda _: success({"hooks": ["127.0.0.1/32"], "verifiable_password_authentication": False}),
        }
        found: dict[str, Act] = {}
        for operation, act in {**inside, **more}.items():
            method, _, path = operation.partition(" ")
            if path.startswith("!"):
                found[f"{method} {path[1:]}"] = act
                continue
            found[f"{method} /repos/{{owner}}/{{repo}}{path}"] = partial(self._inside, act)
            found[f"{method} /repositories/{{repository_id}}{path}"] = partial(self._inside, act)
        return found | outside

    def _route(self, front: Front, operation: str, act: Act) -> Route:
        method, _, path = operation.partition(" ")
        name = operation.replace(":path", "")

        async def endpoint(request: Request) -> Response:
            request.state.sent = await request.body()
            return await front.answer(request, name, partial(self._answer, act))

        return Route(path, endpoint, methods=[method])

    def _unknown(self, front: Front) -> Route:
        def refuse(_: Call) -> Response:
            raise missing()

        async def endpoint(request: Request) -> Response:
            return await front.answer(request, f"{request.method} unknown", partial(self._answer, refuse))

        return Route("/{path:path}", endpoint, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    def _answer(self, act: Act, asked: Asked) -> Response:
        """Answer one call; a 304 costs nothing of the hour's allowance."""
        request, base = asked.request, str(asked.request.base_url).rstrip("/")
        visit: Visit | None = None
        try:
            version = _version(request)
            visit = self._access.visit(request)
            self._spend(visit, request)
            with self._world.lock:
                views = Views(self._world, base=base, user=self._user, at=asked.at, version=version)
                response = act(Call(asked, visit, views, address=base + request.url.path))
        except Denied as refusal:
            response = denied(refusal)
        except Moved as moved:
            response = redirected(base, moved)
        if visit is not None:
            allowance = self._access.allowance(visit)
            if response.status_code == 304:
                allowance.used -= 1
            response.headers.update(allowance.headers())
        return response

    def _spend(self, visit: Visit, request: Request) -> None:
        if request.url.path == "/rate_limit":
            return
        allowance = self._access.allowance(visit)
        if allowance.used >= allowance.limit:
            raise primary_limit(self._user)
        allowance.used += 1

    def _inside(self, act: Act, call: Call) -> Response:
        """Answer a call about a repository, or lead it to where the repository is now."""
        named = call.asked.request.path_params
        base = str(call.asked.request.base_url).rstrip("/")
        number = named["repository_id"] if "repository_id" in named else self._called(call)
        facts = self._standing("", "repository", number, call)
        if facts is None or not self._access.sees(call.visit, number, facts):
            raise missing()
        rest = _rest(call.asked.request)
        address = f"{base}/repositories/{number}{rest}"
        return act(Call(call.asked, call.visit, call.views, number, facts, address))

    def _called(self, call: Call) -> str:
        name = f"{call.named('owner')}/{call.named('repo')}"
        number = self._ledger.names.has(name)
        if number is not None:
            return number
        former = self._ledger.names.had(name)
        facts = self._standing("", "repository", former, call) if former is not None else None
        if former is None or facts is None or not self._access.sees(call.visit, former, facts):
            raise missing()
        raise Moved(_with_query(f"/repositories/{former}{_rest(call.asked.request)}", call))

    def _standing(self, scope: str, kind: str, id_: str, call: Call) -> Body | None:
        """Return the facts of an object as the call sees it, None where it sees none."""
        timeline = self._world.find(scope, kind, id_)
        version = timeline.seen(call.asked.at) if timeline is not None else None
        return version.body if version is not None else None

    def _rows(self, call: Call, kind: str) -> Iterator[Row]:
        for _, timeline, facts in self._world.shelf(call.scope, kind).newest(call.asked.at):
            yield timeline, facts

    def _shown(self, call: Call, row: Row) -> Response:
        timeline, facts = row
        stamped = KINDS[timeline.kind].stamped
        shown = call.views.alone(timeline, facts)
        changed_at = facts["_updated"] if stamped else None
        return conditional(call.asked, shown, who=call.visit.who, changed_at=changed_at)

    def _one(self, kind: str, call: Call) -> Response:
        id_ = call.named("id")
        timeline, facts = self._world.find(call.scope, kind, id_), self._standing(call.scope, kind, id_, call)
        if timeline is None or facts is None or (facts.get("draft") and call.visit.sort == "anonymous"):
            raise missing()
        return self._shown(call, (timeline, facts))

    def _listed(
        self,
        call: Call,
        rows: Sequence[Row],
        order: Order,
        *,
        kind: str,
        wrap: Callable[[list[Body]], JSON] = lambda shown: shown,
    ) -> Response:
        """Answer with one page of *rows* in the order that is asked for."""
        query = call.query
        sorted_rows = ordered(rows, order, query, resource=KINDS[kind].key)
        sort = query.get("sort") or next(iter(order.keys))
        cursor = order.keys[sort] if order is listing.ISSUES and not wrap([]) else None
        found = page(sorted_rows, query, self.ceilings, cursor=cursor)
        shown = [self._in_list(call, row, kind) for row in found.rows]
        response = conditional(call.asked, wrap(shown), who=call.visit.who, changed_at=None)
        if link := found.header(call.address):
            response.headers["Link"] = link
        if "next" in found.links and self._machinery.mischief.shifts(call.asked.operation):
            self._ledger.shift(kind, call.scope, [timeline for timeline, _ in found.rows])
        return response

    def _in_list(self, call: Call, row: Row, kind: str) -> Body:
        timeline, facts = row
        if (kind, timeline.kind) == ("issue", "pull_request"):
            return call.views.as_issue(timeline, facts)
        return call.views.listed(timeline, facts)

    def _repository(self, call: Call) -> Response:
        timeline = self._world.find("", "repository", call.scope)
        if timeline is None or call.facts is None:
            raise missing()
        return self._shown(call, (timeline, call.facts))

    def _has_issues(self, call: Call) -> None:
        if call.facts is not None and not call.facts["has_issues"]:
            raise Denied(410, _NO_ISSUES, docs="v3/issues/")

    def _issue(self, call: Call) -> Response:
        number = call.named("number")
        pull = self._world.find(call.scope, "pull_request", number)
        facts = self._standing(call.scope, "pull_request", number, call)
        if pull is not None and facts is not None:
            shown = call.views.as_issue(pull, facts)
            return conditional(call.asked, shown, who=call.visit.who, changed_at=facts["_updated"])
        self._has_issues(call)
        timeline = self._world.find(call.scope, "issue", number)
        version = timeline.seen(call.asked.at) if timeline is not None else None
        if timeline is None or version is None:
            raise missing()
        if version.body is None:
            raise self._gone(call, number)
        return self._shown(call, (timeline, version.body))

    def _gone(self, call: Call, number: str) -> Denied | Moved:
        to, there = self._ledger.moved.get((call.scope, number), ("", ""))
        if not to:
            return Denied(410, "This issue was deleted", docs="v3/issues/#get-an-issue")
        facts = self._standing("", "repository", to, call)
        if facts is None or not self._access.sees(call.visit, to, facts):
            return missing()
        return Moved(_with_query(f"/repositories/{to}/issues/{there}", call))

    def _issues(self, call: Call) -> Response:
        self._has_issues(call)
        rows = [*self._rows(call, "issue"), *self._rows(call, "pull_request")]
        start = since(call.query, resource="Issue")
        if start is not None and start <= 0:  # a time before all times lists nothing
            rows = []
        return self._listed(
            call, [row for row in self._talk(call, rows) if _changed(row, start)], listing.ISSUES, kind="issue"
        )

    def _talk(self, call: Call, rows: Sequence[Row]) -> Iterator[Row]:
        """Yield those in the state that is asked for, which is open by default, and with the labels that are."""
        query = call.query
        state = choice(query, "state", _STATES, resource="Issue")
        names = [name for name in query.get("labels", "").split(",") if name]
        wanted = {int(timeline.id) for timeline, facts in self._rows(call, "label") if facts["name"] in names}
        for timeline, facts in rows:
            if state in {"all", facts["state"]} and (not names or wanted <= set(facts["_labels"])):
                yield timeline, facts

    def _comments(self, call: Call) -> Response:
        start = since(call.query, resource="IssueComment")
        rows = [row for row in self._rows(call, "issue_comment") if _changed(row, start)]
        return self._listed(call, rows, listing.COMMENTS, kind="issue_comment")

    def _issue_comments(self, call: Call) -> Response:
        number = self._talk_number(call)
        start = since(call.query, resource="IssueComment")
        rows = [row for row in self._rows(call, "issue_comment") if row[1]["_issue"] == number and _changed(row, start)]
        return self._listed(call, rows, listing.COMMENTS, kind="issue_comment")

    def _issue_labels(self, call: Call) -> Response:
        number = str(self._talk_number(call))
        talk = self._standing(call.scope, "issue", number, call) or self._standing(
            call.scope, "pull_request", number, call
        )
        held = talk["_labels"] if talk is not None else []
        rows = [row for row in self._rows(call, "label") if int(row[0].id) in held]
        return self._listed(call, rows, listing.LABELS, kind="label")

    def _talk_number(self, call: Call) -> int:
        number = call.named("number")
        if self._standing(call.scope, "pull_request", number, call) is None:
            self._issue(call)
        return int(number)

    def _pulls(self, call: Call) -> Response:
        state = choice(call.query, "state", _STATES, resource="PullRequest")
        rows = [row for row in self._rows(call, "pull_request") if state in {"all", row[1]["state"]}]
        head, base = call.query.get("head"), call.query.get("base")
        if head is not None:
            rows = [row for row in rows if row[1]["_branch"] == head.rpartition(":")[2]]
        return self._listed(call, rows if base in {None, "main"} else [], listing.PULLS, kind="pull_request")

    def _pull(self, call: Call) -> Response:
        """Answer with a pull request; whether it can be merged is worked out after somebody has asked."""
        id_ = call.named("id")
        timeline = self._world.find(call.scope, "pull_request", id_)
        facts = self._standing(call.scope, "pull_request", id_, call)
        if timeline is None or facts is None:
            raise missing()
        shown = call.views.alone(timeline, facts)
        looked_at = (call.scope, id_, facts["_version"])
        if looked_at not in self._looked_at:
            self._looked_at.add(looked_at)
            shown |= {"mergeable": None, "rebaseable": None, "mergeable_state": "unknown"}
        return conditional(call.asked, shown, who=call.visit.who, changed_at=facts["_updated"])

    def _releases(self, call: Call) -> Response:
        return self._listed(call, list(self._out(call, drafts=True)), listing.RELEASES, kind="release")

    def _out(self, call: Call, *, drafts: bool) -> Iterator[Row]:
        """Yield the releases that the caller sees: drafts only if it is one who could publish them."""
        for row in self._rows(call, "release"):
            if not row[1]["draft"] or (drafts and call.visit.sort != "anonymous"):
                yield row

    def _latest_release(self, call: Call) -> Response:
        final = [row for row in self._out(call, drafts=False) if not row[1]["prerelease"]]
        if not final:
            raise missing()
        return self._shown(call, max(final, key=lambda row: (row[1]["_created"], int(row[0].id))))

    def _release_of_tag(self, call: Call) -> Response:
        for row in self._out(call, drafts=False):
            if row[1]["tag_name"] == call.named("tag"):
                return self._shown(call, row)
        raise missing()

    def _labels(self, call: Call) -> Response:
        return self._listed(call, list(self._rows(call, "label")), listing.LABELS, kind="label")

    def _label(self, call: Call) -> Response:
        for row in self._rows(call, "label"):
            if row[1]["name"].lower() == call.named("name").lower():
                return self._shown(call, row)
        raise missing()

    def _milestones(self, call: Call) -> Response:
        state = choice(call.query, "state", _STATES, resource="Milestone")
        rows = [row for row in self._rows(call, "milestone") if state in {"all", row[1]["state"]}]
        return self._listed(call, rows, listing.MILESTONES, kind="milestone")

    def _me(self, call: Call) -> Response:
        if call.visit.sort == "anonymous":
            raise Denied(401, "Requires authentication")
        if call.visit.sort != "token":
            raise not_permitted("installation")
        return self._whole_person(call, self._user)

    def _person(self, call: Call) -> Response:
        return self._whole_person(call, self._owner(call))

    def _whole_person(self, call: Call, login: str) -> Response:
        shown = {
            **call.views.user(login),
            "name": login.title(),
            "company": None,
            "blog": "",
            "location": None,
            "email": None,
            "bio": None,
            "public_repos": len(list(self._owned(call, login))),
            "followers": 0,
            "following": 0,
            "created_at": stamp(FOUNDED),
            "updated_at": stamp(FOUNDED),
        }
        return conditional(call.asked, shown, who=call.visit.who, changed_at=FOUNDED)

    def _owner(self, call: Call) -> str:
        """Return the login that the path names, as its owner spells it."""
        wanted = call.named("login").lower()
        owners: list[str] = [facts["_owner"] for _, facts in self._everywhere(call)]
        found = next((login for login in [self._user, *owners] if login.lower() == wanted), None)
        if found is None:
            raise missing()
        return found

    def _everywhere(self, call: Call) -> Iterator[Row]:
        for _, timeline, facts in self._world.shelf("", "repository").newest(call.asked.at):
            yield timeline, facts

    def _visible(self, call: Call) -> Iterator[Row]:
        for timeline, facts in self._everywhere(call):
            if self._access.sees(call.visit, timeline.id, facts):
                yield timeline, facts

    def _owned(self, call: Call, login: str) -> Iterator[Row]:
        return (row for row in self._visible(call) if row[1]["_owner"].lower() == login.lower())

    def _organization(self, call: Call) -> Response:
        login = self._owner(call)
        if not call.views.is_organization(login):
            raise missing()
        shown = {**call.views.organization(login), "type": "Organization", "created_at": stamp(FOUNDED)}
        return conditional(call.asked, shown, who=call.visit.who, changed_at=None)

    def _organization_repositories(self, call: Call) -> Response:
        login = self._owner(call)
        if not call.views.is_organization(login):
            raise missing()
        sort = choice(
            call.query, "type", ("all", "public", "private", "forks", "sources", "member"), resource="Repository"
        )
        rows = [row for row in self._owned(call, login) if _of_type(row[1], sort)]
        return self._listed(call, rows, listing.ORGANIZATIONS, kind="repository")

    def _person_repositories(self, call: Call) -> Response:
        return self._listed(call, list(self._owned(call, self._owner(call))), listing.OWNED, kind="repository")

    def _my_repositories(self, call: Call) -> Response:
        if call.visit.sort != "token":
            raise (
                not_permitted("installation")
                if call.visit.sort != "anonymous"
                else Denied(401, "Requires authentication")
            )
        start = since(call.query, resource="Repository")
        rows = [row for row in self._visible(call) if _changed(row, start)]
        return self._listed(call, rows, listing.OWNED, kind="repository")

    def _installation_repositories(self, call: Call) -> Response:
        if call.visit.sort != "installation":
            raise Denied(403, "You must authenticate with an installation access token in order to list repositories.")
        rows = list(self._visible(call))

        def wrap(shown: list[Body]) -> JSON:
            return {"total_count": len(rows), "repository_selection": "all", "repositories": shown}

        return self._listed(call, rows, listing.ORGANIZATIONS, kind="repository", wrap=wrap)

    def _as_app(self, call: Call) -> None:
        if call.visit.sort != "app":
            raise Denied(401, "A JSON web token could not be decoded")

    def _app(self, call: Call) -> Response:
        self._as_app(call)
        return success(
            {
                "id": APP_ID,
                "slug": "standin",
                "client_id": "Iv1.standin",
                "node_id": "A_standin",
                "owner": call.views.user(self._user),
                "name": "Stand-in",
                "description": "",
                "external_url": "https://example.com",
                "html_url": "https://github.com/apps/standin",
                "created_at": stamp(FOUNDED),
                "updated_at": stamp(FOUNDED),
                "permissions": {"issues": "read", "metadata": "read"},
                "events": sorted({kind.event for kind in KINDS.values()}),
                "installations_count": len(self._access.installations),
            }
        )

    def _installations(self, call: Call) -> Response:
        self._as_app(call)
        return success([self._installed(call, id_) for id_ in self._access.installations])

    def _installation(self, call: Call) -> Response:
        self._as_app(call)
        if call.named("id") not in self._access.installations:
            raise missing()
        return success(self._installed(call, call.named("id")))

    def _repository_installation(self, call: Call) -> Response:
        raise missing() if call.visit.sort != "app" else not_permitted("installation")

    def _installed(self, call: Call, id_: str) -> Body:
        owner = self._access.installations[id_] or self._user
        base = str(call.asked.request.base_url).rstrip("/")
        sort = "Organization" if call.views.is_organization(owner) else "User"
        return {
            "id": int(id_),
            "account": call.views.user(owner),
            "access_tokens_url": f"{base}/app/installations/{id_}/access_tokens",
            "repositories_url": f"{base}/installation/repositories",
            "html_url": f"https://github.com/settings/installations/{id_}",
            "app_id": APP_ID,
            "app_slug": "standin",
            "target_id": number_of(owner),
            "target_type": sort,
            "permissions": {"issues": "read", "metadata": "read"},
            "events": sorted({kind.event for kind in KINDS.values()}),
            "repository_selection": "all",
            "created_at": stamp(FOUNDED),
            "updated_at": stamp(FOUNDED),
            "suspended_at": None,
        }

    def _mint(self, call: Call) -> Response:
        self._as_app(call)
        if call.named("id") not in self._access.installations:
            raise missing()
        return success(self._access.mint(call.named("id")), status=201)

    def _rate_limit(self, call: Call) -> Response:
        core = self._access.allowance(call.visit).shown()
        spare = {**core, "limit": 30, "used": 0, "remaining": 30}
        return success({"resources": {"core": core, "search": spare, "graphql": {**core, "used": 0}}, "rate": core})


def _version(request: Request) -> str:
    """Return the API version of a call; a retired one is gone, which says nothing of any object."""
    said = str(request.headers.get(VERSION_HEADER, STABLE_VERSION))
    if said in VERSIONS:
        return said
    if _DATE.fullmatch(said) and said < STABLE_VERSION:
        raise Denied(410, f"API version {said} is no longer supported.", docs="rest/about-the-rest-api/api-versions")
    message = f"{said} is not a supported API version; supported are {', '.join(VERSIONS)}"
    raise Denied(400, message, docs="rest/about-the-rest-api/api-versions")


def _rest(request: Request) -> str:
    """Return the path behind the repository's name or number, spelled as it came."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    parts = raw.partition(b"?")[0].decode("latin-1").split("/")
    named = 4 if parts[1] == "repos" else 3
    rest: list[str] = parts[named:]
    return "".join(f"/{part}" for part in rest)


def _with_query(path: str, call: Call) -> str:
    pairs = call.asked.request.query_params.multi_items()
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _changed(row: Row, start: int | None) -> bool:
    return start is None or row[1]["_updated"] >= start


def _of_type(facts: Body, sort: str) -> bool:
    tests = {"public": not facts["private"], "private": facts["private"], "forks": facts["fork"]}
    return bool(tests.get(sort, True))
