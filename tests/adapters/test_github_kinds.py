"""The kinds of GitHub that are mirrored for a price, what its events name, and what is asked of many repositories."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from adapters.github import KINDS, App
from adapters.github.events import IGNORED
from adapters.sandbox.github import INSTALLATION
from adapters.sandbox.github.bodies import number_of
from reconciler.adapter import Probing, Standing
from reconciler.errors import AccessLost, SourceBusy, SourceRefused, SourceUnavailable
from reconciler.model import Named, Proof
from tests.adapters.hubs import AT, NOW, read, ref, repository, shown
from tests.adapters.scripted import Said
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from tests.adapters.hubs import Hub, MakeGitHub, MakeScripted
    from tests.adapters.scripted import Asked

WORDS = """
branch_protection_configuration branch_protection_rule check_run check_suite code_scanning_alert commit_comment create
custom_property custom_property_values delete dependabot_alert deploy_key deployment deployment_protection_rule
deployment_review deployment_status discussion discussion_comment fork github_app_authorization gollum installation
installation_repositories installation_target issue_comment issue_dependencies issues label marketplace_purchase member
membership merge_group meta milestone org_block organization package page_build personal_access_token_request ping
project project_card project_column projects_v2 projects_v2_item projects_v2_status_update public pull_request
pull_request_review pull_request_review_comment pull_request_review_thread push registry_package release repository
repository_advisory repository_dispatch repository_import repository_ruleset repository_vulnerability_alert
secret_scanning_alert secret_scanning_alert_location secret_scanning_scan security_advisory security_and_analysis
sponsorship star status sub_issues team team_add watch workflow_dispatch workflow_job workflow_run
"""
EVENTS = frozenset(WORDS.split())
"""All there are: https://docs.github.com/en/webhooks/webhook-events-and-payloads."""

ACME = {"id": 9, "login": "acme"}
STAMPED = {"id": 5, "updated_at": "2026-11-30T12:00:00Z"}
CHECK = {"id": 6, "check_suite": {"id": 5}}
API = "https://api.github.com/repos/acme/shop"


def test_every_event_is_named_or_ignored_on_purpose() -> None:
    """Each event of GitHub's names something of some kind, or there is a reason why it does not; never both."""
    named = {event for row in KINDS.values() for event in row.topics}

    assert named | IGNORED.keys() == EVENTS
    assert named & IGNORED.keys() == set()
    assert all(IGNORED.values())


@pytest.mark.parametrize(
    ("event", "payload", "kind", "wanted"),
    [
        (
            "pull_request_review",
            {"review": {"id": 5, "pull_request_url": f"{API}/pulls/8"}},
            "review",
            Named(ref("review", "5"), None, {"pull_request": "8"}),
        ),
        ("pull_request_review_comment", {"comment": STAMPED}, "review_comment", Named(ref("review_comment", "5"), AT)),
        ("commit_comment", {"comment": STAMPED}, "commit_comment", Named(ref("commit_comment", "5"), AT)),
        ("workflow_run", {"workflow_run": STAMPED}, "workflow_run", Named(ref("workflow_run", "5"), AT)),
        ("workflow_job", {"workflow_job": {"id": 6, "run_id": 5}}, "workflow_run", Named(ref("workflow_run", "5"))),
        ("workflow_job", {"workflow_job": {"id": 6, "run_id": 5}}, "workflow_job", Named(ref("workflow_job", "6"))),
        ("check_suite", {"check_suite": STAMPED}, "check_suite", Named(ref("check_suite", "5"), AT)),
        ("check_run", {"check_run": {"id": 6, "check_suite": {"id": 5}}}, "check_run", Named(ref("check_run", "6"))),
        (
            "check_run",
            {"check_run": {"id": 6, "check_suite": {"id": 5}}},
            "check_suite",
            Named(ref("check_suite", "5")),
        ),
        ("deployment_status", {"deployment": STAMPED}, "deployment", Named(ref("deployment", "5"), AT)),
        (
            "deployment_status",
            {"deployment_status": STAMPED | {"deployment_url": f"{API}/deployments/7"}},
            "deployment_status",
            Named(ref("deployment_status", "5"), AT, {"deployment": "7"}),
        ),
        ("push", {"ref": "refs/heads/a/b"}, "branch", Named(ref("branch", "a/b"))),
        ("create", {"ref": "a", "ref_type": "branch"}, "branch", Named(ref("branch", "a"))),
        ("delete", {"ref": "a", "ref_type": "branch"}, "branch", Named(ref("branch", "a"))),
        ("push", {"ref": "refs/tags/a"}, "branch", None),
        ("create", {"ref": "a", "ref_type": "tag"}, "branch", None),
        ("create", {"ref": None, "ref_type": "repository"}, "branch", None),
        ("team", {"organization": ACME, "team": STAMPED}, "team", Named(ref("team", "5", "9"), AT)),
        ("team_add", {"organization": ACME, "team": {"id": 5}}, "team", Named(ref("team", "5", "9"))),
        ("team", {"organization": {"id": 8, "login": "else"}, "team": STAMPED}, "team", None),
        ("team", {"team": STAMPED}, "team", None),
        (
            "organization",
            {"organization": ACME, "membership": {"user": {"id": 5, "login": "ann"}}},
            "member",
            Named(ref("member", "5", "9"), None, {"login": "ann"}),
        ),
        (
            "membership",
            {"organization": ACME, "member": {"id": 5, "login": "ann"}, "team": {"id": 4}},
            "member",
            Named(ref("member", "5", "9"), None, {"login": "ann"}),
        ),
        ("organization", {"organization": ACME}, "member", None),
    ],
)
def test_what_events_name(
    github_at: MakeGitHub, event: str, payload: dict[str, Any], kind: str, wanted: Named | None
) -> None:
    """An object is named by its id, in its repository or organization, with what calls need besides."""
    adapter = github_at(kinds=[kind], organizations=["acme"])

    note = read(adapter, event, {"repository": repository()} | payload)

    assert note.named == (() if wanted is None else (wanted,))


# What is under something, or is known by another name than its id


def test_an_object_is_found_without_its_locator(github_at: MakeGitHub, hub: Hub) -> None:
    """What nobody says the parent or the login of is looked for, and found as it is found with that."""
    adapter = github_at(hub.url, organizations=["acme"], kinds=list(KINDS))
    acme = str(number_of("acme"))

    for kind in ("review", "deployment_status", "member"):
        scope = acme if kind == "member" else hub.shop
        id_ = hub.act("create", kind, scope=scope)
        with_it = adapter.fetch(ref(kind, id_, scope))
        assert with_it.body is not None
        assert with_it.locator
        assert adapter.fetch(ref(kind, id_, scope), locator=with_it.locator).body == with_it.body


def test_a_login_may_be_anothers_by_now(github_at: MakeGitHub, hub: Hub) -> None:
    """A member is who has the number, whatever login an older event told; who left is absent."""
    adapter = github_at(hub.url, organizations=["acme"], kinds=["member"])
    acme = str(number_of("acme"))
    ann, bob = (hub.act("create", "member", scope=acme, body={"login": login}) for login in ("ann", "bob"))

    shown_as = adapter.fetch(ref("member", ann, acme), locator={"login": "bob"})
    hub.act("delete", "member", bob, scope=acme)
    gone = adapter.fetch(ref("member", bob, acme), locator={"login": "bob"})

    assert shown_as.body is not None
    assert shown_as.body["user"]["login"] == "ann"
    assert (gone.body, gone.proof) == (None, Proof.NOT_FOUND)


def test_teams_and_members_live_in_organizations(github_at: MakeGitHub, hub: Hub) -> None:
    """Their scope is the number of the organization, which can be seen or not like that of a repository."""
    adapter = github_at(hub.url, repositories=[], organizations=["acme", "gone"], kinds=["team", "member", "issue"])
    acme = str(number_of("acme"))

    assert adapter.scopes("team") == (acme, "gone")
    assert adapter.scopes("issue") == (hub.shop, "gone")
    assert adapter.identity(acme) == acme
    with pytest.raises(AccessLost):
        list(adapter.crawl("team", "gone"))
    assert github_at(hub.url, kinds=["team"]).scopes("team") == ()
    everything = github_at(hub.url, repositories=[], kinds=["team"])
    assert everything.scopes("team") == (acme,)


def test_a_branch_is_what_its_list_shows(github_at: MakeGitHub, hub: Hub) -> None:
    """A branch is its name, its commit and whether it is protected; one of the same name later is the same."""
    adapter = github_at(hub.url, kinds=["branch"])
    id_ = hub.act("create", "branch", body={"name": "a/b c"})

    fetched = adapter.fetch(ref("branch", id_, hub.shop)).body
    hub.act("delete", "branch", id_)
    absent = adapter.fetch(ref("branch", id_, hub.shop))
    hub.act("recreate", "branch", id_)

    assert id_ == "a/b c"
    assert fetched is not None
    assert fetched.keys() == {"name", "commit", "protected"}
    assert fetched["commit"].keys() == {"sha", "url"}
    assert (absent.body, absent.proof) == (None, Proof.NOT_FOUND)
    assert shown(adapter.crawl("branch", hub.shop)) == [id_]


def test_a_renamed_branch_is_gone(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """The old name of a branch leads to the new one, which is another."""
    led = Said({"message": "Moved"}, 301, {"Location": "/repositories/10/branches/new"})
    adapter = github_at(scripted(lambda _: led).url, kinds=["branch"])

    absent = adapter.fetch(ref("branch", "old"))

    assert (absent.body, absent.proof) == (None, Proof.STATED)


def test_reviews_of_what_changed(github_at: MakeGitHub, hub: Hub) -> None:
    """Only pull requests that changed are asked for their reviews; a crawl asks all of them."""
    now = datetime.now(UTC)
    long_ago = int(now.timestamp()) - 90_000
    old, new = (hub.act("create", "pull_request", at=long_ago) for _ in range(2))
    first = hub.act("create", "review", at=long_ago, body={"pull_request": int(old)})
    second = hub.act("create", "review", body={"pull_request": int(new)})
    spent = Spent()
    adapter = github_at(hub.url, budget=spent, kinds=["review"])

    changed = shown(adapter.changed_since("review", hub.shop, now - timedelta(hours=1)))
    asked = Counter(spent.operations)[f"GET {KINDS['review'].lists}"]

    assert (changed, asked) == ([second], 1)
    assert set(shown(adapter.crawl("review", hub.shop))) == {first, second}


# Ceilings


def runs_as(scripted: MakeScripted, made: list[datetime], *, most: int = 1000) -> Any:
    """Return a provider of workflow runs made at these times, whose searches show so many and count all."""

    def answer(asked: Asked) -> Said:
        begins, _, ends = asked.query["created"].partition("..")
        found = [
            number
            for number, at in enumerate(made, start=1)
            if datetime.fromisoformat(begins) <= at <= datetime.fromisoformat(ends)
        ]
        page, size = int(asked.query.get("page", "1")), int(asked.query["per_page"])
        runs = [{"id": number} for number in found[:most][(page - 1) * size : page * size]]
        further = page * size < min(len(found), most)
        link = {"Link": f'<{asked.path}?{asked_again(asked, page + 1)}>; rel="next"'} if further else {}
        return Said({"total_count": len(found), "workflow_runs": runs}, headers=link)

    return scripted(answer)


def asked_again(asked: Asked, page: int) -> str:
    """Return the query of another page."""
    return "&".join(f"{name}={value}" for name, value in {**asked.query, "page": str(page)}.items())


def test_k42_a_search_is_cut_until_it_shows_all(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """However many runs there are since, all are shown: no search is believed that has more results than it shows."""
    made = [NOW - timedelta(minutes=number) for number in range(2300)]
    server = runs_as(scripted, made)
    adapter = github_at(server.url, kinds=["workflow_run"])

    seen = shown(adapter.changed_since("workflow_run", "10", NOW - timedelta(days=30)))

    assert set(seen) == {str(number) for number in range(1, 2301)}
    assert len(server.asked) < 60


def test_k42_too_many_of_one_second(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """More of one second than a search shows is no complete list."""
    server = runs_as(scripted, [NOW.replace(microsecond=0)] * 21, most=20)
    adapter = github_at(server.url, kinds=["workflow_run"])

    too_many = scripted(lambda _: Said({"total_count": 1001, "workflow_runs": []}))

    assert shown(adapter.changed_since("workflow_run", "10", NOW - timedelta(hours=1)))
    with pytest.raises(SourceUnavailable, match="more than 1000 of one second"):
        list(github_at(too_many.url, kinds=["workflow_run"]).changed_since("workflow_run", "10", NOW))


def test_since_the_epoch_is_everything(github_at: MakeGitHub, hub: Hub) -> None:
    """A window from before there was a GitHub shows everything, where GitHub itself would show nothing."""
    id_ = hub.act("create", "issue")

    assert shown(github_at(hub.url).changed_since("issue", hub.shop, datetime.fromtimestamp(0, UTC))) == [id_]


# Many repositories


def crowd(hub: Hub, count: int) -> list[str]:
    """Make more repositories of one organization, unchanged for long, and return the numbers of all."""
    long_ago = int(datetime.now(UTC).timestamp()) - 10**6
    asked = [
        {"op": "create", "kind": "repository", "body": {"owner": "acme", "name": f"r{number}"}, "at": long_ago}
        for number in range(1, count)
    ]
    return [hub.shop, *(str(each["id"]) for each in hub.told("POST", "/objects", asked))]


def test_what_moved_is_told_of_many(github_at: MakeGitHub, hub: Hub) -> None:
    """What a query shows as unchanged stands still; what moved, is not seen or lives elsewhere is to be listed."""
    scopes = crowd(hub, 30)
    now = datetime.now(UTC)
    since = now - timedelta(minutes=10)
    hub.act("create", "issue", scope=scopes[3])
    hub.act("create", "milestone", scope=scopes[4])
    spent = Spent()
    adapter = github_at(hub.url, repositories=[], organizations=["acme"], budget=spent, kinds=list(KINDS))
    assert len(adapter.scopes("issue")) == 30
    hub.told("PUT", "/habits", {"hidden": [scopes[5]]})

    probed = adapter.probe()

    assert probed is not None
    assert isinstance(adapter, Probing)
    stands = {
        (kind, number): probed.standing(kind, scopes[number], since)
        for kind in ("issue", "pull_request", "issue_comment", "milestone", "label", "check_run")
        for number in (3, 4, 5, 6)
    }
    still, moved, unseen = Standing.STILL, Standing.MOVED, Standing.UNSEEN
    assert [stands["issue", number] for number in (3, 4, 5, 6)] == [moved, still, moved, still]
    assert [stands["pull_request", number] for number in (3, 4, 5, 6)] == [still, still, moved, still]
    assert [stands["issue_comment", number] for number in (3, 4, 5, 6)] == [moved, unseen, moved, unseen]
    assert [stands["milestone", number] for number in (3, 4, 5, 6)] == [unseen, moved, moved, unseen]
    assert {stands[kind, number] for kind in ("label", "check_run") for number in (3, 4, 6)} == {unseen}
    assert probed.standing("repository", "", since) is probed.standing("team", "9", since) is moved
    assert probed.standing("issue", scopes[3], now + timedelta(minutes=5)) is still
    assert spent.operations.count("POST /graphql") == 1


def test_few_repositories_are_listed_one_by_one(github_at: MakeGitHub, hub: Hub) -> None:
    """Where a question would spare little none is asked."""
    spent = Spent()

    assert github_at(hub.url, budget=spent).probe() is None
    assert "POST /graphql" not in spent.operations


@pytest.mark.parametrize(
    "shown_of_one",
    [
        None,
        {},
        {"databaseId": 11, "issues": {"nodes": []}},
        {"databaseId": 10, "issues": None},
        {"databaseId": 10, "issues": {"nodes": [{"updatedAt": None}]}},
        {"databaseId": 10, "issues": {"nodes": [None]}},
    ],
)
def test_what_is_not_shown_has_to_be_listed(
    github_at: MakeGitHub, scripted: MakeScripted, shown_of_one: dict[str, Any] | None
) -> None:
    """Null, another repository, a refused part or a thing without a time never stands for nothing changed."""
    listed = [repository(10 + number, f"acme/r{number}", node_id=f"R_{number}") for number in range(30)]

    def answer(asked: Asked) -> Said:
        if asked.path == "/graphql":
            errors = [{"type": "FORBIDDEN", "path": ["nodes", 0, "issues"]}]
            return Said({"data": {"nodes": [shown_of_one, *[None] * 29]}, "errors": errors})
        return Said(listed)

    probed = github_at(scripted(answer).url, repositories=[], organizations=["acme"]).probe()

    assert probed is not None
    assert probed.standing("issue", "10", AT) is Standing.MOVED


def test_many_configured_repositories_are_asked_for_together(github_at: MakeGitHub, hub: Hub) -> None:
    """Of many repositories configured by name those that changed are hints, for a call a hundred."""
    scopes = crowd(hub, 30)
    names = ["acme/shop", *(f"acme/r{number}" for number in range(1, 30))]
    spent = Spent()
    adapter = github_at(hub.url, repositories=names, budget=spent)
    adapter.scopes("issue")
    hub.act("change", "repository", scopes[7])
    spent.operations.clear()

    seen = shown(adapter.changed_since("repository", "", datetime.now(UTC) - timedelta(minutes=5)))

    assert scopes[7] in seen
    assert set(seen) <= {scopes[7], hub.shop}
    assert spent.operations == ["POST /graphql"]


def test_queries_have_an_allowance_of_their_own(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """Where no query is left only queries wait; where no call is left all do."""
    listed = [repository(10 + number, f"acme/r{number}", node_id=f"R_{number}") for number in range(30)]
    told: dict[str, dict[str, str]] = {"/graphql": {}, "/orgs/acme/repos": {}}
    none_left = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(AT.timestamp()) + 60)}

    def answer(asked: Asked) -> Said:
        body: Any = {"data": {"nodes": []}} if asked.path == "/graphql" else listed
        return Said(body, headers=told[asked.path])

    def holds() -> list[tuple[float, str | None]]:
        spent = Spent()
        adapter = github_at(scripted(answer).url, repositories=[], organizations=["acme"], budget=spent)
        assert adapter.probe() is not None
        return spent.holds

    told["/graphql"] = none_left | {"X-RateLimit-Resource": "graphql"}
    queried = holds()
    told["/graphql"], told["/orgs/acme/repos"] = {}, none_left | {"X-RateLimit-Resource": "core"}

    assert queried == [(60.0, "POST /graphql")]
    assert holds() == [(60.0, None)]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (Said({"data": None, "errors": [{"type": "RATE_LIMITED"}]}), SourceBusy),
        (Said({"data": None, "errors": [{"message": "Something went wrong"}]}), SourceUnavailable),
        (Said({"errors": [{"message": "Parse error"}]}), SourceUnavailable),
        (Said([]), SourceUnavailable),
        (Said({"message": "Not Found"}, 404), SourceRefused),
        (Said({"message": "Resource not accessible by integration"}, 403), AccessLost),
    ],
)
def test_k53_errors_inside_200(
    github_at: MakeGitHub, scripted: MakeScripted, said: Said, error: type[Exception]
) -> None:
    """An answer without data is a failure, whatever its status: never that nothing moved."""
    listed = [repository(10 + number, f"acme/r{number}", node_id=f"R_{number}") for number in range(30)]
    server = scripted(lambda asked: said if asked.path == "/graphql" else Said(listed))

    with pytest.raises(error):
        github_at(server.url, repositories=[], organizations=["acme"]).probe()


# Installations


@pytest.mark.parametrize(("became", "what"), [("suspended", "suspended"), ("no", "uninstalled")])
def test_what_became_of_an_installation(
    github_at: MakeGitHub, hub: Hub, private_key: str, became: str, what: str
) -> None:
    """An installation that is suspended or gone has lost access, says which, proves nothing absent, and may return."""
    app = App(77001, private_key, int(INSTALLATION))
    before, after = (github_at(hub.url, credential=app, repositories=[]) for _ in range(2))
    talk = hub.act("create", "issue")
    assert before.scopes("issue") == (hub.shop,)
    hub.told("PUT", "/habits", {"installed": became})

    for adapter in (before, after):
        for call in (adapter.identity, lambda each=adapter: each.fetch(ref("issue", talk, hub.shop))):
            with pytest.raises(AccessLost) as lost:
                call()
            assert lost.value.what == what

    hub.told("PUT", "/habits", {})
    assert before.fetch(ref("issue", talk, hub.shop)).body is not None


def test_a_repository_that_an_installation_was_given(github_at: MakeGitHub, hub: Hub) -> None:
    """Once an event tells that the repositories changed they are listed anew."""
    adapter = github_at(hub.url, repositories=[], organizations=["acme"])
    before = adapter.scopes("issue")
    [more] = crowd(hub, 2)[1:]
    kept = adapter.scopes("issue")

    read(adapter, "installation_repositories", {"action": "added", "repositories_added": [{"id": int(more)}]})

    assert before == kept == (hub.shop,)
    assert set(adapter.scopes("issue")) == {hub.shop, more}
