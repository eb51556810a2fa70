"""GitHub's own habits, each behind real HTTP: what it says of its objects, and what it says instead."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from adapters.github import KINDS, App, Limits, limits
from adapters.github.rows import Walk
from adapters.sandbox.github import INSTALLATION
from reconciler.adapter import Listing
from reconciler.errors import (
    AccessLost,
    ConfigError,
    DeliveryMalformed,
    DeliveryRejected,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from reconciler.model import Named, Proof
from tests.adapters.hubs import AT, NOW, TOKEN, delivered, issue, read, ref, repository, shown
from tests.adapters.scripted import Said
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.model import Body, Page
    from tests.adapters.hubs import Hub, MakeGitHub, MakeScripted
    from tests.adapters.scripted import Asked

# The table


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_describes_its_kind(kind: str) -> None:
    """A kind's row agrees with itself."""
    row = KINDS[kind]

    assert row.kind.name == kind
    assert row.kind.topics == tuple(row.topics)
    assert row.kind.fetch == f"GET {row.path}"
    assert (row.kind.list is Listing.NONE) is (row.walk is Walk.NONE)
    assert row.kind.list is Listing.NONE or row.kind.feed.startswith(f"GET {row.lists}") or kind == "repository"
    assert (row.kind.list is Listing.HINT) is (kind in {"repository", "pull_request", "team", "member"})
    assert row.kind.worth
    names = [column.name for column in row.kind.columns]
    assert len(set(names)) == len(names)
    assert {column.type for column in row.kind.columns} <= {"text", "bigint", "boolean", "timestamptz"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"kinds": ["issue", "gist"]}, "no such kind: gist"),
        ({"credential": ""}, "sources.github-acme..token"),
        ({"credential": "ghp_a\nb"}, "sources.github-acme..token"),
        ({"credential": App(1, "no key", 2)}, "sources.github-acme..private_key"),
        ({"repositories": ["shop"]}, "not of the form owner/name: shop"),
    ],
)
def test_what_cannot_be_used_is_said_at_once(github_at: MakeGitHub, given: Mapping[str, Any], fault: str) -> None:
    """A wrong kind, credential or name is a fault of the configuration, told without the secret."""
    with pytest.raises(ConfigError, match=fault) as told:
        github_at(**given)

    assert "ghp_a" not in str(told.value)


def test_limits() -> None:
    """The secondary limit is 900 points a minute, unless the configuration says otherwise."""
    assert limits() == Limits(15.0, 5000, 100, 800)
    assert limits(3).calls_per_second == 3


# Reading


def test_an_event_names_its_object(github_at: MakeGitHub) -> None:
    """Id, type, time and object are those that the contract says."""
    note = read(github_at(), "issues", {"action": "opened", "issue": issue(7), "repository": repository()})

    assert note.event_id == "72d3162e-cc78-11e3-81ab-4c9367dc0958/292430182"
    assert note.event_type == "issues.opened"
    assert note.occurred_at == AT
    assert note.named == (Named(ref("issue", "7"), AT),)


def test_an_event_id_without_a_hook(github_at: MakeGitHub) -> None:
    """Where no hook is named the GUID alone is the event's id."""
    note = read(github_at(), "issues", {"issue": issue(7), "repository": repository()}, x_github_hook_id="")

    assert note.event_id == "72d3162e-cc78-11e3-81ab-4c9367dc0958"
    assert note.event_type == "issues"


@pytest.mark.parametrize("missing", ["x-github-delivery", "x-github-event"])
def test_a_delivery_without_its_headers(github_at: MakeGitHub, missing: str) -> None:
    """A delivery that names no event or no id is malformed."""
    with pytest.raises(DeliveryMalformed, match=missing):
        github_at().read(delivered(b"{}", **{missing: ""}))


@pytest.mark.parametrize("suffix", ["", "; charset=utf-8", " ;Charset=UTF-8"])
def test_k06_form_deliveries(github_at: MakeGitHub, suffix: str) -> None:
    """A form is verified as it came and its payload read, plus signs and percent signs included."""
    payload = {"action": "opened", "issue": issue(7, title="1 + 1 = 2 & 100 % \u00e9"), "repository": repository()}
    body = f"payload={quote_plus(json.dumps(payload))}".encode()
    assert b"%2B" in body
    assert b"+" in body

    [note] = github_at().read(delivered(body, content_type=f"application/x-www-form-urlencoded{suffix}"))

    assert note.payload == payload
    assert note.named == (Named(ref("issue", "7"), AT),)


@pytest.mark.parametrize("body", [b"", b"payload=", b"other=1", b"payload=%7B", b"payload=%ff", b"payload=[]", b"\xff"])
def test_k06_forms_that_hold_no_payload(github_at: MakeGitHub, body: bytes) -> None:
    """A form without a JSON object is malformed."""
    with pytest.raises(DeliveryMalformed):
        github_at().read(delivered(body, content_type="application/x-www-form-urlencoded"))


@pytest.mark.parametrize(
    "event", ["ping", "installation", "installation_repositories", "workflow_run", "meta", "x" * 99]
)
def test_k07_events_about_nothing_we_mirror(github_at: MakeGitHub, event: str) -> None:
    """A ping of an organization's hook, and whatever we do not know, is authentic and names nothing."""
    payload = {"zen": "x", "hook_id": 1, "hook": {"type": "Organization"}, "organization": {"id": 9}}

    note = read(github_at(), event, payload)

    assert (note.event_type, note.named, note.occurred_at) == (event, (), None)


def test_k16_a_redelivery_is_the_same_event(github_at: MakeGitHub) -> None:
    """Sent again by hand an event has the id that it had."""
    adapter, payload = github_at(), {"issue": issue(7), "repository": repository()}

    assert read(adapter, "issues", payload) == read(adapter, "issues", payload)
    assert read(adapter, "issues", payload, x_github_hook_id="5").event_id.endswith("/5")


def test_comments_name_what_they_are_on(github_at: MakeGitHub) -> None:
    """A comment comes with its issue, or with the pull request that the issue really is."""
    comment = {"id": 55, "updated_at": "2026-11-30T12:00:09Z"}
    on_issue = {"action": "created", "comment": comment, "issue": issue(7, at=9), "repository": repository()}
    on_pull = on_issue | {"issue": issue(8, at=9, pull_request={"url": "x"})}
    adapter, then = github_at(), AT + timedelta(seconds=9)

    assert read(adapter, "issue_comment", on_issue).named == (
        Named(ref("issue_comment", "55"), then),
        Named(ref("issue", "7"), then),
    )
    assert read(adapter, "issue_comment", on_pull).named == (
        Named(ref("issue_comment", "55"), then),
        Named(ref("pull_request", "8"), then),
    )
    assert read(adapter, "issue_comment", on_pull).occurred_at == then


@pytest.mark.parametrize(
    ("event", "field", "kind", "body"),
    [
        ("pull_request", "pull_request", "pull_request", issue(8)),
        ("pull_request_review", "pull_request", "pull_request", issue(8)),
        ("release", "release", "release", issue(3) | {"id": 8}),
        ("milestone", "milestone", "milestone", issue(8)),
    ],
)
def test_events_of_other_kinds(github_at: MakeGitHub, event: str, field: str, kind: str, body: dict[str, Any]) -> None:
    """Each kind is named by its own events, with the id that the contract gives it."""
    note = read(github_at(), event, {"action": "edited", field: body, "repository": repository()})

    assert note.named == (Named(ref(kind, "8"), AT),)


def test_a_label_is_named_by_its_id(github_at: MakeGitHub) -> None:
    """A label's name is a locator only, and it has no stamp."""
    payload = {"action": "edited", "label": {"id": 208, "name": "a bug"}, "repository": repository()}

    note = read(github_at(), "label", payload)

    assert note.named == (Named(ref("label", "208"), None, {"name": "a bug"}),)
    assert github_at().shown(note.payload, ref("label", "208")) == {"id": 208, "name": "a bug"}
    assert github_at().shown(note.payload, ref("label", "208", "11")) is None
    assert github_at().shown(note.payload | {"action": "deleted"}, ref("label", "208")) is None
    assert github_at().shown(note.payload | {"issue": issue(7)}, ref("label", "208")) is None


@pytest.mark.parametrize("action", ["deleted", "transferred"])
def test_leaving_has_no_stamp(github_at: MakeGitHub, action: str) -> None:
    """What was deleted or transferred is looked at whatever its last stamp was."""
    note = read(github_at(), "issues", {"action": action, "issue": issue(7), "repository": repository()})

    assert note.named == (Named(ref("issue", "7")),)
    assert note.occurred_at == AT


def test_a_transfer_names_both_places(github_at: MakeGitHub) -> None:
    """Where an issue was and where it is now are looked at, each in its own repository."""
    payload = {
        "action": "transferred",
        "issue": issue(7),
        "repository": repository(),
        "changes": {"new_issue": issue(1), "new_repository": repository(11, "acme/other")},
    }

    adapter = github_at(repositories=["acme/shop", "acme/other"])

    assert {each.ref for each in read(adapter, "issues", payload).named} == {
        ref("issue", "7"),
        ref("issue", "1", "11"),
    }


def test_repositories_are_named_by_what_concerns_them(github_at: MakeGitHub) -> None:
    """Only its own events tell a repository's stamp; a push or a star says that it moved."""
    home = repository(updated_at="2026-11-30T12:00:00Z")

    own = read(github_at(), "repository", {"action": "renamed", "repository": home}).named
    pushed = read(github_at(), "push", {"ref": "refs/heads/main", "repository": home}).named

    assert own == (Named(ref("repository", "10", ""), AT),)
    assert pushed == (Named(ref("repository", "10", "")),)


def test_other_repositories_are_not_ours(github_at: MakeGitHub) -> None:
    """An organization's hook tells of repositories that are not mirrored: they are named by nobody."""
    elsewhere = {"action": "opened", "issue": issue(7), "repository": repository(12, "acme/secret")}

    assert read(github_at(), "issues", elsewhere).named == ()
    assert read(github_at(repositories=["ACME/Secret"]), "issues", elsewhere).named
    assert read(github_at(repositories=[], organizations=["Acme"]), "issues", elsewhere).named
    assert read(github_at(repositories=[], organizations=[]), "issues", elsewhere).named


def test_kinds_that_are_not_mirrored_are_not_named(github_at: MakeGitHub) -> None:
    """An event names only what this source mirrors."""
    adapter = github_at(kinds=["label"])

    assert read(adapter, "issues", {"issue": issue(7), "repository": repository()}).named == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["action", "issue", "repository", "id", "number", "pull_request", "changes", "comment"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(["issues", "issue_comment", "label", "repository", "sub_issues", "ping"]),
    st.sampled_from(["application/json", "application/x-www-form-urlencoded", ""]),
)
@example({"action": ["deleted"], "issue": issue(7), "repository": repository()}, "issues", "application/json")
def test_any_payload_is_read_or_refused(github_at: MakeGitHub, tree: Any, event: str, content_type: str) -> None:
    """Whatever an authentic delivery holds, it is read or is malformed, and nothing else happens."""
    delivery = delivered(json.dumps(tree).encode(), event, content_type=content_type)

    try:
        [note] = github_at().read(delivery)
    except DeliveryRejected:
        return

    assert note.event_type.startswith(event)


# Fetching


def test_k23_stamps_are_instants(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A stamp with an offset, or with none, is the instant that it tells."""
    told = iter(["2026-11-30T07:00:00-05:00", "2026-11-30T12:00:00Z", "2026-11-30T12:00:00"])
    server = scripted(lambda _: Said(issue(7) | {"updated_at": next(told)}))
    adapter = github_at(server.url)

    assert [adapter.fetch(ref("issue", "7")).stamp for _ in range(3)] == [AT, AT, AT]


def test_requests_say_who_and_what(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """Each call carries the token, the pinned version and a user agent, under the path of the base."""
    server = scripted(lambda _: Said(issue(7)))

    github_at(f"{server.url}/api/v3").fetch(ref("issue", "7"))

    [asked] = server.asked
    assert asked.path == "/api/v3/repositories/10/issues/7"
    assert asked.headers["Authorization"] == f"token {TOKEN}"
    assert asked.headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert asked.headers["User-Agent"] == "reconciler"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("issue", issue(8)),
        ("issue", {}),
        ("pull_request", issue(7) | {"base": {"repo": {"id": 11}}}),
        ("release", {"id": 8}),
        ("milestone", issue(8)),
    ],
)
def test_another_object_is_refused(
    github_at: MakeGitHub, scripted: MakeScripted, kind: str, body: dict[str, Any]
) -> None:
    """An answer that shows another object, or one of another repository, is not believed."""
    server = scripted(lambda _: Said(body))

    with pytest.raises(SourceRefused, match="another object"):
        github_at(server.url).fetch(ref(kind, "7"))


def test_a_pull_request_is_no_issue(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """An issue that was made a pull request is an issue no more."""
    server = scripted(lambda _: Said(issue(7, pull_request={"url": "x"})))

    absent = github_at(server.url).fetch(ref("issue", "7"))

    assert (absent.body, absent.proof) == (None, Proof.STATED)


def test_a_private_token_is_not_handed_on(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A repository's clone token opens it to whoever holds it: it is left out."""
    server = scripted(lambda _: Said(repository(temp_clone_token="AAAA")))

    body = github_at(server.url).fetch(ref("repository", "10", "")).body

    assert body is not None
    assert "temp_clone_token" not in body
    assert github_at().shape("repository")["without"] == ["secret", "temp_clone_token"]


def test_private_tokens_within_others_are_not_handed_on(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A pull request shows both repositories it is between, and so do events."""
    planted = {"repo": {"id": 10, "temp_clone_token": "planted"}}
    pull = issue(7, base=planted, head=planted)
    server = scripted(lambda _: Said(pull))

    body = github_at(server.url).fetch(ref("pull_request", "7")).body
    note = read(github_at(), "pull_request", {"action": "opened", "pull_request": pull, "repository": repository()})

    assert body is not None
    assert body["base"] == {"repo": {"id": 10}}
    assert "planted" not in f"{body} {note.payload}"


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (404, "Not Found", Proof.NOT_FOUND),
        (410, "This issue was deleted", Proof.STATED),
        (410, "Issues are disabled for this repo", SourceRefused),
        (410, "This API version is no longer supported", SourceRefused),
        (410, "", SourceRefused),
        (401, "Bad credentials", AccessLost),
        (403, "Resource not accessible by personal access token", AccessLost),
        (451, "Repository access blocked", AccessLost),
        (202, "", SourceUnavailable),
        (304, "", SourceRefused),
        (400, "Bad Request", SourceRefused),
        (422, "Validation Failed", SourceRefused),
        (500, "Server Error", SourceUnavailable),
        (503, "", SourceUnavailable),
    ],
)
def test_k31_what_a_status_means(
    github_at: MakeGitHub, scripted: MakeScripted, status: int, message: str, expected: Any
) -> None:
    """Only a 404, and a 410 that says so, is an absence; nothing sleeps, nothing is tried again."""
    server = scripted(lambda _: Said({"message": message} if status != 304 else b"", status))
    adapter = github_at(server.url)

    if isinstance(expected, Proof):
        absent = adapter.fetch(ref("issue", "7"))
        assert (absent.body, absent.proof) == (None, expected)
        assert str(status) in absent.because
    else:
        with pytest.raises(expected):
            adapter.fetch(ref("issue", "7"))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "told", "wait"),
    [
        (403, ("You have exceeded a secondary rate limit", {"Retry-After": "17"}), 17.0),
        (429, ("", {"Retry-After": "Mon, 30 Nov 2026 12:00:40 GMT"}), 40.0),
        (403, ("Limit", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(AT.timestamp()) + 90)}), 90.0),
        (403, ("API rate limit exceeded", {"X-RateLimit-Remaining": "0"}), 60.0),
        (403, ("You have exceeded a secondary rate limit. Please wait a few minutes", {}), 60.0),
        (403, ("You have triggered an abuse detection mechanism", {}), 60.0),
        (429, ("", {}), 60.0),
    ],
)
def test_k52_limits_are_waited_for_by_all(
    github_at: MakeGitHub, scripted: MakeScripted, status: int, told: tuple[str, dict[str, str]], wait: float
) -> None:
    """A limit, with or without headers, holds every call as long as it says; it is no lost access and no absence."""
    message, headers = told
    server, spent = scripted(lambda _: Said({"message": message}, status, headers)), Spent()

    with pytest.raises(SourceBusy) as busy:
        github_at(server.url, budget=spent).fetch(ref("issue", "7"))

    assert busy.value.retry_after == wait
    assert spent.holds == [(wait, None)]
    assert len(server.asked) == 1


def test_k52_silence_grows_where_nobody_says_how_long(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """Refused again and again, each silence is twice the last, until an answer comes."""
    told = iter([429, 429, 429, 200, 429])
    server, spent = scripted(lambda _: Said(issue(7), next(told))), Spent()
    adapter = github_at(server.url, budget=spent)

    for _ in range(5):
        try:
            adapter.fetch(ref("issue", "7"))
        except SourceBusy:
            continue

    assert [seconds for seconds, _ in spent.holds] == [60.0, 120.0, 240.0, 60.0]


def test_the_last_call_of_the_hour_holds_the_next(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """When an answer says that no call is left, nobody calls until the reset."""
    reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(AT.timestamp()) + 600)}
    server, spent = scripted(lambda _: Said(issue(7), headers=reset)), Spent()

    assert github_at(server.url, budget=spent).fetch(ref("issue", "7")).body

    assert spent.holds == [(600.0, None)]


def test_one_client_for_each_thread(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """Under load every call gets its own answer."""
    server = scripted(lambda asked: Said(issue(int(asked.path.rpartition("/")[2]))))
    adapter = github_at(server.url)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda number: adapter.fetch(ref("issue", str(number))).ref.id, range(1, 301)))

    assert found == [str(number) for number in range(1, 301)]


def test_a_connection_that_was_closed_meanwhile(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """An answer that ends its connection is read whole, and the next call opens another."""
    server = scripted(lambda _: Said(issue(7, body="x" * 100_000), headers={"Connection": "close"}))
    adapter = github_at(server.url)

    assert [adapter.fetch(ref("issue", "7")).ref.id for _ in range(3)] == ["7", "7", "7"]


def test_the_sdk_logs_nothing(github_at: MakeGitHub, scripted: MakeScripted, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the root logger lets through, the SDK's request log stays silent."""
    caplog.set_level(logging.DEBUG)
    server = scripted(lambda _: Said(issue(7)))

    github_at(server.url).fetch(ref("issue", "7"))

    assert caplog.text == ""


# Redirects


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("place", ["/repositories/10/issues/7?x=1", "/repos/acme/renamed/issues/7"])
def test_a_redirect_to_the_same_object_is_followed(
    github_at: MakeGitHub, scripted: MakeScripted, status: int, place: str
) -> None:
    """Another address of the same repository and number is the same object."""

    def answer(asked: Asked) -> Said:
        if asked.path == "/repos/acme/renamed":
            return Said(repository(name="acme/renamed"))
        if asked.path == "/repositories/10/issues/7" and "x" not in asked.query:
            return Said({"message": "Moved"}, status, {"Location": f"{server.url}{place}"})
        return Said(issue(7))

    server = scripted(answer)

    assert github_at(server.url).fetch(ref("issue", "7")).body


@pytest.mark.parametrize(
    "place", ["/repositories/11/issues/7", "/repositories/10/issues/8", "/repos/acme/other/issues/7"]
)
def test_k32_a_transferred_issue_is_gone_from_here(github_at: MakeGitHub, scripted: MakeScripted, place: str) -> None:
    """A permanent redirect to another repository or number is the absence of the old, and the new is not read."""

    def answer(asked: Asked) -> Said:
        if asked.path == "/repos/acme/other":
            return Said(repository(11, "acme/other"))
        return Said({"message": "Moved Permanently"}, 301, {"Location": f"{server.url}{place}"})

    server = scripted(answer)

    absent = github_at(server.url).fetch(ref("issue", "7"))

    assert (absent.body, absent.proof) == (None, Proof.STATED)
    assert place in absent.because


@pytest.mark.parametrize(
    ("status", "place"),
    [
        (302, "{own}/repositories/11/issues/7"),
        (301, "http://127.0.0.1:1/repositories/10/issues/7"),
        (301, "https://api.github.com/repositories/10/issues/7"),
        (301, ""),
        (301, "{own}/repositories/10/issues/7"),
    ],
)
def test_other_redirects_prove_nothing(github_at: MakeGitHub, scripted: MakeScripted, status: int, place: str) -> None:
    """A detour, another host and a circle are passing faults, and the token goes nowhere else."""
    server = scripted(lambda _: Said({}, status, {"Location": place.format(own=server.url)}))

    with pytest.raises(SourceUnavailable):
        github_at(server.url).fetch(ref("issue", "7"))


def test_a_list_keeps_its_query_through_a_redirect(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A redirect without a query does not make a list forget what it was asked for."""

    def answer(asked: Asked) -> Said:
        if asked.path == "/repositories/10/milestones":
            return Said({}, 307, {"Location": "/repositories/10/milestones/"})
        return Said([issue(1)])

    server = scripted(answer)

    assert shown(github_at(server.url).crawl("milestone", "10")) == ["1"]
    assert server.asked[-1].query == {"state": "all", "per_page": "100"}


def test_a_list_is_not_led_to_another_repository(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A list that is redirected to another repository shows nothing of ours."""
    server = scripted(lambda _: Said({}, 301, {"Location": "/repositories/11/milestones"}))

    with pytest.raises(SourceUnavailable, match="another repository"):
        list(github_at(server.url).crawl("milestone", "10"))


# Labels


def test_a_label_is_read_by_its_name(github_at: MakeGitHub, hub: Hub) -> None:
    """A label whose name is known takes one call, whatever is in the name."""
    id_ = hub.act("create", "label", body={"name": "b c?#%"})
    spent = Spent()

    label = github_at(hub.url, budget=spent).fetch(ref("label", id_, hub.shop), locator={"name": "b c?#%"})

    assert label.body is not None
    assert label.locator == {"name": "b c?#%"}
    assert spent.operations == ["GET /repositories/{scope}/labels/{name}"]


def test_a_label_is_found_under_whatever_name(github_at: MakeGitHub, hub: Hub) -> None:
    """Renamed, its name used by another, or never known: a label is found by its id, or is not there."""
    first = hub.act("create", "label", body={"name": "old"})
    hub.act("change", "label", first, body={"name": "new"})
    second = hub.act("create", "label", body={"name": "old"})
    adapter = github_at(hub.url)

    found = [adapter.fetch(ref("label", first, hub.shop), locator=locator) for locator in ({"name": "old"}, None, {})]
    hub.act("delete", "label", first)
    absent = adapter.fetch(ref("label", first, hub.shop), locator={"name": "old"})

    assert {(each.body or {})["name"] for each in found} == {"new"}
    assert (absent.body, absent.proof) == (None, Proof.NOT_FOUND)
    assert adapter.fetch(ref("label", second, hub.shop), locator={"name": "old"}).body


# Lists


def test_k35_pages_that_shift(github_at: MakeGitHub, hub: Hub) -> None:
    """An issue that changes or goes while pages are read makes no other one fall through."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    issues = [hub.act("create", "issue", at=start + number, deliver=False) for number in range(250)]
    pages = github_at(hub.url).crawl("issue", hub.shop)

    seen = set(shown([next(pages)]))
    hub.act("change", "issue", issues[0])
    hub.act("delete", "issue", issues[1])
    seen.update(shown(pages))

    assert seen == set(issues)


@pytest.mark.parametrize("kind", ["label", "milestone", "release"])
def test_k35_lists_without_a_stamp_start_over(github_at: MakeGitHub, hub: Hub, kind: str) -> None:
    """Where something goes while pages are read by number, they are read again until they stand."""
    made = [hub.act("create", kind, deliver=False) for _ in range(230)]
    pages = github_at(hub.url).crawl(kind, hub.shop)

    first = shown([next(pages)])
    hub.act("delete", kind, first[0])
    seen = set(shown(pages)) | set(first)

    assert seen == set(made)


def test_k36_many_of_one_second(github_at: MakeGitHub, hub: Hub) -> None:
    """More objects of one stamp than a page holds are all shown, and those of the edge are included."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    early = [hub.act("create", "issue", at=start - 1, deliver=False) for _ in range(3)]
    same = [hub.act("create", "issue", at=start, deliver=False) for _ in range(230)]
    late = [hub.act("create", "issue", at=start + 1, deliver=False) for _ in range(3)]

    since = datetime.fromtimestamp(start, UTC)
    seen = set(shown(github_at(hub.url).changed_since("issue", hub.shop, since)))

    assert seen == {*same, *late}
    assert not seen & set(early)


def test_k42_no_ceiling_is_reached(github_at: MakeGitHub, hub: Hub) -> None:
    """Lists that can begin at a stamp never get to pages that may not be counted to; others say so."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    issues = [hub.act("create", "issue", at=start + number, deliver=False) for number in range(330)]
    for _ in range(330):
        hub.act("create", "milestone", deliver=False)
    hub.told("PUT", "/habits", {"ceiling": 200})
    adapter = github_at(hub.url)

    assert set(shown(adapter.crawl("issue", hub.shop))) == set(issues)
    with pytest.raises(SourceRefused, match="422"):
        list(adapter.crawl("milestone", hub.shop))


def test_cursors_are_followed(github_at: MakeGitHub, hub: Hub) -> None:
    """Where links hold cursors instead of numbers, they are followed."""
    start = int(datetime.now(UTC).timestamp()) - 1000
    issues = [hub.act("create", "issue", at=start, deliver=False) for _ in range(230)]
    hub.told("PUT", "/habits", {"cursors": True})

    assert set(shown(github_at(hub.url).crawl("issue", hub.shop))) == set(issues)


def test_pull_requests_among_issues(github_at: MakeGitHub, hub: Hub) -> None:
    """The list of issues shows pull requests, which are no issues; their own list hints at them."""
    now = datetime.now(UTC)
    talk = hub.act("create", "issue")
    pull = hub.act("create", "pull_request")
    adapter = github_at(hub.url)

    def everything(kind: str) -> list[str]:
        return shown(adapter.crawl(kind, hub.shop))

    def lately(kind: str) -> list[str]:
        return shown(adapter.changed_since(kind, hub.shop, now - timedelta(minutes=1)))

    assert (everything("issue"), lately("issue")) == ([talk], [talk])
    assert (everything("pull_request"), lately("pull_request")) == ([pull], [pull])


def test_a_listed_part_is_a_hint(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A closed issue that the list shows without who closed it is fetched; others are whole."""
    server = scripted(
        lambda _: Said([issue(1), issue(2, state="closed"), issue(3, state="closed", closed_by={"login": "a"})])
    )

    [page] = github_at(server.url).crawl("issue", "10")

    assert [each.ref.id for each in page.snapshots] == ["1", "3"]
    assert [hint.ref.id for hint in page.hints] == ["2"]


def test_k44_labels_that_leave_the_stamp_alone(github_at: MakeGitHub, hub: Hub) -> None:
    """An issue whose label is deleted shows other content under the same stamp."""
    label = hub.act("create", "label", body={"name": "p1"})
    id_ = hub.act("create", "issue", body={"labels": ["p1"]})
    adapter = github_at(hub.url)
    before = adapter.fetch(ref("issue", id_, hub.shop))
    hub.act("delete", "label", label)

    after = adapter.fetch(ref("issue", id_, hub.shop))

    assert before.stamp == after.stamp
    assert ((before.body or {})["labels"], (after.body or {})["labels"])[1] == []
    assert (before.body or {})["labels"]


def test_k31_issues_that_are_switched_off(github_at: MakeGitHub, hub: Hub) -> None:
    """Switched off, issues are neither listed nor deleted: the list is empty, and each of them is refused."""
    id_ = hub.act("create", "issue")
    hub.act("change", "repository", hub.shop, body={"has_issues": False})
    adapter = github_at(hub.url)

    assert shown(adapter.crawl("issue", hub.shop)) == []
    with pytest.raises(SourceRefused, match="410"):
        adapter.fetch(ref("issue", id_, hub.shop))


def test_k31_a_retired_version_is_no_empty_list(github_at: MakeGitHub, scripted: MakeScripted) -> None:
    """A list that is gone for any other reason raises."""

    def answer(asked: Asked) -> Said:
        if asked.path == "/repositories/10":
            return Said(repository(has_issues=True))
        return Said({"message": "This version is no longer supported"}, 410)

    with pytest.raises(SourceRefused, match="410"):
        list(github_at(scripted(answer).url).crawl("issue", "10"))


@pytest.mark.parametrize(
    "link", ['<{own}/repositories/10/milestones?page=1>; rel="next"', '<http://127.0.0.1:1/x>; rel="next"']
)
def test_links_that_lead_nowhere(github_at: MakeGitHub, scripted: MakeScripted, link: str) -> None:
    """A list that goes round in circles, or on to another host, raises."""
    server = scripted(lambda _: Said([issue(1)], headers={"Link": link.format(own=server.url)}))

    with pytest.raises(SourceUnavailable):
        list(github_at(server.url).crawl("milestone", "10"))


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"data": []}', b'[{"title": "x"}]', b"<html>"])
def test_no_list_is_not_an_empty_list(github_at: MakeGitHub, scripted: MakeScripted, body: bytes) -> None:
    """An answer that is no list of such objects raises."""
    server = scripted(lambda _: Said(body))

    with pytest.raises(SourceUnavailable):
        list(github_at(server.url).crawl("milestone", "10"))


def test_nothing_of_a_kind_is_where_it_does_not_live(github_at: MakeGitHub) -> None:
    """Repositories live in no scope, and all else in one: elsewhere nothing is asked for."""
    adapter = github_at()

    assert list(adapter.crawl("issue", "")) == list(adapter.changed_since("repository", "10", NOW)) == []


# Validators


def kept(pages: Iterable[Page]) -> dict[str, Body]:
    """Return the validators of *pages*."""
    return {at: mark for page in pages for at, mark in page.validators.items()}


@pytest.mark.parametrize("kind", ["label", "release", "milestone", "pull_request"])
def test_unchanged_pages_are_free(github_at: MakeGitHub, hub: Hub, kind: str) -> None:
    """What is as its marks say is asked for with them, shows nothing, costs no allowance, and keeps its marks."""
    start = datetime.now(UTC) - timedelta(hours=1)
    for _ in range(130):
        hub.act("create", kind, deliver=False)
    known: dict[str, Body] = {}
    spent = Spent()
    adapter = github_at(hub.url, budget=spent, validators=lambda *_: known)
    first = list(adapter.changed_since(kind, hub.shop, start))
    known = kept(first)

    again = list(adapter.changed_since(kind, hub.shop, start))

    assert len(shown(first)) == 130
    assert shown(again) == []
    assert kept(again) == known
    assert [status for _, status in spent.answers] == ["200", "200", "304", "304"]


@pytest.mark.parametrize("kind", ["label", "pull_request"])
def test_changed_pages_are_shown(github_at: MakeGitHub, hub: Hub, kind: str) -> None:
    """A change shows in spite of the marks, which are then others."""
    start = datetime.now(UTC) - timedelta(hours=1)
    ids = [hub.act("create", kind, deliver=False) for _ in range(3)]
    known: dict[str, Body] = {}
    adapter = github_at(hub.url, validators=lambda *_: known)
    known = kept(adapter.changed_since(kind, hub.shop, start))
    hub.act("change", kind, ids[1])

    again = list(adapter.changed_since(kind, hub.shop, start))

    assert ids[1] in shown(again)
    assert kept(again).keys() == known.keys()
    assert kept(again) != known


def test_a_mark_counts_for_no_wider_window(github_at: MakeGitHub, hub: Hub) -> None:
    """What a narrow window left out is shown by a wider one, marks or not."""
    now = datetime.now(UTC)
    old = hub.act("create", "pull_request", at=int(now.timestamp()) - 7200)
    known: dict[str, Body] = {}
    adapter = github_at(hub.url, validators=lambda *_: known)
    narrow = list(adapter.changed_since("pull_request", hub.shop, now - timedelta(hours=1)))
    known = kept(narrow)

    assert shown(narrow) == []
    assert shown(adapter.changed_since("pull_request", hub.shop, now - timedelta(hours=3))) == [old]


def test_a_crawl_uses_no_marks(github_at: MakeGitHub, hub: Hub) -> None:
    """Everything is shown when everything is asked for."""
    id_ = hub.act("create", "label")
    known: dict[str, Body] = {}
    adapter = github_at(hub.url, validators=lambda *_: known)
    known = kept(adapter.changed_since("label", hub.shop, NOW))

    assert id_ in shown(adapter.crawl("label", hub.shop))


def test_an_unchanged_repository_is_free(github_at: MakeGitHub, hub: Hub) -> None:
    """A repository configured by name is hinted at when it changed, and costs nothing when it did not."""
    since = datetime.now(UTC) - timedelta(minutes=1)
    known: dict[str, Body] = {}
    spent = Spent()
    adapter = github_at(hub.url, budget=spent, validators=lambda *_: known)
    first = list(adapter.changed_since("repository", "", since))
    known = kept(first)

    again = list(adapter.changed_since("repository", "", since))
    hub.act("change", "repository", hub.shop)
    third = list(adapter.changed_since("repository", "", since))

    assert (shown(first), shown(again), shown(third)) == ([hub.shop], [], [hub.shop])
    assert ("GET /repositories/{id}", "304") in spent.answers


# Scopes and identity


def test_scopes_are_numbers(github_at: MakeGitHub, hub: Hub) -> None:
    """Configured names, in any case, and the repositories of organizations are their numbers, each once."""
    other = hub.act("create", "repository", body={"name": "other", "owner": "acme"})
    alien = hub.act("create", "repository", body={"name": "alien", "owner": "else"})
    adapter = github_at(hub.url, repositories=["Else/Alien", "acme/SHOP"], organizations=["Acme"])

    assert set(adapter.scopes("issue")) == {hub.shop, other, alien}
    assert len(adapter.scopes("issue")) == 3
    assert adapter.scopes("repository") == ("",)
    assert adapter.scopes() == ("", *adapter.scopes("issue"))
    assert set(shown(adapter.crawl("repository", ""))) == {hub.shop, other, alien}


def test_k32_a_name_used_again(github_at: MakeGitHub, hub: Hub) -> None:
    """A renamed repository stays the one that was meant, and whoever took its name is another."""
    adapter = github_at(hub.url)
    before = adapter.scopes("issue")
    talk = hub.act("create", "issue")
    hub.act("change", "repository", hub.shop, body={"name": "renamed"})
    new = hub.act("create", "repository", body={"name": "shop", "owner": "acme"})

    assert adapter.scopes("issue") == before == (hub.shop,)
    assert adapter.fetch(ref("issue", talk, hub.shop)).body
    renamed = {"issue": issue(7), "repository": repository(int(hub.shop), "acme/renamed")}
    taken = {"issue": issue(7), "repository": repository(int(new), "acme/shop")}
    assert [each.ref.scope for each in read(adapter, "issues", renamed).named] == [hub.shop]
    assert read(adapter, "issues", taken).named == ()


def test_a_renamed_repository_is_found_by_its_old_name(github_at: MakeGitHub, hub: Hub) -> None:
    """While nobody else has it, the old name leads to the repository."""
    hub.act("change", "repository", hub.shop, body={"name": "renamed"})

    assert github_at(hub.url).scopes("issue") == (hub.shop,)


def test_k30_a_repository_that_is_not_seen(github_at: MakeGitHub, hub: Hub) -> None:
    """A missing repository is lost access to it, for identity, lists and crawl, and no other's sweep is stopped."""
    adapter = github_at(hub.url, repositories=["acme/gone", "acme/shop"])

    assert adapter.scopes("issue") == (hub.shop, "acme/gone")
    assert adapter.identity(hub.shop) == hub.shop
    for call in (
        lambda: list(adapter.crawl("issue", "acme/gone")),
        lambda: list(adapter.crawl("repository", "")),
        lambda: list(adapter.changed_since("repository", "", NOW)),
        lambda: adapter.identity("99999"),
    ):
        with pytest.raises(AccessLost):
            call()


def test_k30_an_organization_that_is_not_seen(github_at: MakeGitHub, hub: Hub) -> None:
    """A missing organization stops nobody else's sweep, and its own is incomplete."""
    adapter = github_at(hub.url, repositories=[], organizations=["gone", "acme"])

    assert adapter.scopes("issue") == adapter.scopes("issue") == (hub.shop, "gone")
    for kind, scope in (("issue", "gone"), ("repository", "")):
        with pytest.raises(AccessLost):
            list(adapter.crawl(kind, scope))


def test_k30_hidden_is_not_gone(github_at: MakeGitHub, hub: Hub) -> None:
    """When a repository is hidden its issues are 404, and so is it: its identity says that access is lost."""
    id_ = hub.act("create", "issue")
    adapter = github_at(hub.url)
    hub.told("PUT", "/habits", {"hidden": [hub.shop]})

    assert adapter.fetch(ref("issue", id_, hub.shop)).proof is Proof.NOT_FOUND
    assert adapter.identity()
    with pytest.raises(AccessLost):
        adapter.identity(hub.shop)
    with pytest.raises(AccessLost):
        list(adapter.crawl("label", hub.shop))


def test_a_deleted_issue_says_so(github_at: MakeGitHub, hub: Hub) -> None:
    """With access, a deleted issue is stated to be gone."""
    id_ = hub.act("create", "issue")
    hub.act("delete", "issue", id_)

    absent = github_at(hub.url).fetch(ref("issue", id_, hub.shop))

    assert absent.proof is Proof.STATED
    assert absent.because.startswith("410")


def test_a_transferred_issue_moves(github_at: MakeGitHub, hub: Hub) -> None:
    """Transferred, an issue is gone from where it was and is read where it went."""
    other = hub.act("create", "repository", body={"name": "other", "owner": "acme"})
    id_ = hub.act("create", "issue")
    moved = str(hub.told("POST", "/transfer", {"scope": hub.shop, "id": id_, "to": other})["id"])
    adapter = github_at(hub.url)

    assert adapter.fetch(ref("issue", id_, hub.shop)).proof is Proof.STATED
    assert adapter.fetch(ref("issue", moved, other)).body


def test_without_a_configuration_all_that_is_given(github_at: MakeGitHub, hub: Hub) -> None:
    """A token that is told no repositories mirrors those that it sees."""
    adapter = github_at(hub.url, repositories=[])

    assert hub.shop in adapter.scopes("issue")


# Apps


def test_an_installation(github_at: MakeGitHub, hub: Hub, private_key: str) -> None:
    """An app's installation gets one token for all threads, and sees the repositories it was given."""
    app, spent = App(77001, private_key, int(INSTALLATION)), Spent()
    adapter = github_at(hub.url, credential=app, repositories=[], budget=spent)
    ids = [hub.act("create", "issue", deliver=False) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda id_: adapter.fetch(ref("issue", id_, hub.shop)).body is not None, ids))

    assert all(found)
    assert spent.operations.count("POST /app/installations/{id}/access_tokens") == 1
    assert adapter.identity() == INSTALLATION
    assert adapter.scopes("issue") == (hub.shop,)
    assert shown(adapter.crawl("repository", "")) == shown(adapter.changed_since("repository", "", NOW)) == [hub.shop]
    assert private_key not in repr(app)


def test_an_installation_that_is_no_more(github_at: MakeGitHub, hub: Hub, private_key: str) -> None:
    """Without the installation access is lost, and nothing is absent."""
    adapter = github_at(hub.url, credential=App(77001, private_key, 999))

    for call in (adapter.identity, lambda: adapter.fetch(ref("issue", "1", hub.shop))):
        with pytest.raises(AccessLost):
            call()


def test_a_token_that_was_revoked_is_renewed_once(github_at: MakeGitHub, hub: Hub, private_key: str) -> None:
    """A 401 makes an installation ask for another token, once for each call; a personal token has no other."""
    spent = Spent()
    adapter = github_at(hub.url, credential=App(77001, private_key, int(INSTALLATION)), budget=spent)
    assert adapter.identity() == INSTALLATION
    hub.told("PUT", "/faults", {"status": {"401": 1}})

    with pytest.raises(AccessLost):
        adapter.identity()

    assert [status for _, status in spent.answers] == ["201", "200", "401", "401"]
    hub.told("PUT", "/faults", {})
    assert adapter.identity() == INSTALLATION


@pytest.mark.parametrize("status", [200, 201, 202, 301, 403, 404, 410, 429, 500])
def test_every_failure_is_a_source_error(github_at: MakeGitHub, scripted: MakeScripted, status: int) -> None:
    """Nothing but the errors of the seam leaves the adapter, whatever the headers of an answer are."""
    odd = {
        "X-RateLimit-Remaining": "many",
        "X-RateLimit-Limit": "",
        "X-RateLimit-Reset": "soon",
        "Retry-After": "later",
        "Date": "yesterday",
        "Link": "<",
        "Location": "http://[",
    }
    adapter = github_at(scripted(lambda _: Said(b"\xff", status, odd)).url)

    for call in (
        lambda: adapter.fetch(ref("release", "7")),
        lambda: list(adapter.crawl("issue", "10")),
        adapter.scopes,
        adapter.identity,
    ):
        with pytest.raises(SourceError) if status != 404 or call is adapter.identity else suppress(SourceError):
            call()
