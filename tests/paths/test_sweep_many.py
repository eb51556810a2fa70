"""Light passes over many scopes cost what moved, not what there is."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from adapters.sandbox.operations import operation_from
from tests.paths.cases import ago

if TYPE_CHECKING:
    from tests.paths.cases import Case, MakeCase

REPOSITORIES = 600
LIMIT = 500
"""Calls that a light pass over so many may cost."""


def many(case: Case, count: int) -> list[str]:
    """Make so many old repositories of one organization, all kinds swept two hours ago, and return their numbers."""
    made = [case.scope]
    for number in range(1, count):
        asked = {
            "op": "create",
            "kind": "repository",
            "body": {"owner": "acme", "name": f"r{number}"},
            "at": ago(10**6),
        }
        made.append(str(case.sandbox.operate(operation_from(asked | {"deliver": False}))["id"]))
    case.act("change", "repository", case.scope, body={"updated_at": "2020-01-01T00:00:00Z"}, deliver=False)
    case.edit(
        "INSERT INTO watermarks (source, scope, kind, swept_until)"
        " SELECT %s, CASE kind WHEN 'repository' THEN '' ELSE scope END, kind, clock_timestamp() - interval '2 hours'"
        " FROM unnest(%s::text[]) AS scope, unnest(%s::text[]) AS kind ON CONFLICT DO NOTHING",
        case.source,
        made,
        list(case.adapter.kinds),
    )
    return made


def in_scope(case: Case, scope: str, kind: str) -> str:
    """Make an object somewhere that nobody tells of, and return its id."""
    return str(
        case.sandbox.operate(operation_from({"op": "create", "kind": kind, "scope": scope, "deliver": False}))["id"]
    )


def moved_to(case: Case, kind: str) -> Counter[bool]:
    """Return how many scopes of a kind have a watermark of now, and how many do not."""
    lately = datetime.now(UTC) - timedelta(minutes=30)
    return Counter(until > lately for (until,) in case.rows("SELECT swept_until FROM watermarks WHERE kind = %s", kind))


def test_a_light_pass_costs_what_moved(case_of: MakeCase) -> None:
    """Of 600 repositories the few that moved are listed; the others cost a call a hundred, and count as listed."""
    case = case_of("github", more='organizations = ["acme"]')
    scopes = many(case, REPOSITORIES)
    talk, change = in_scope(case, scopes[7], "issue"), in_scope(case, scopes[599], "pull_request")
    label = in_scope(case, scopes[300], "label")
    case.sandbox.machinery.calls.clear()

    swept = case.sweep(trigger="light", light=True)

    calls = Counter(case.calls())
    found = set(case.rows("SELECT scope, kind, id FROM objects"))
    assert swept.state == "complete", swept.report["because"]
    assert calls.total() < LIMIT / 5, calls
    assert calls["POST /graphql"] == REPOSITORIES // 100
    assert {(scopes[7], "issue", talk), (scopes[599], "pull_request", change)} <= found
    assert (scopes[300], "label", label) not in found
    assert moved_to(case, "issue") == moved_to(case, "pull_request") == Counter({True: REPOSITORIES})
    assert moved_to(case, "label") == Counter({False: REPOSITORIES})
    assert moved_to(case, "issue_comment") == Counter({False: REPOSITORIES - 2, True: 2})
    assert [each["note"] for each in swept.report["kinds"] if each["kind"] == "label"] == [
        f"not listed: 0 scopes that did not change, {REPOSITORIES} that wait for the night"
    ]


def test_what_was_not_seen_is_listed(case_of: MakeCase) -> None:
    """A repository that the provider does not show is no unmoved one: it is listed, or the pass is incomplete."""
    case = case_of("github", more='organizations = ["acme"]')
    scopes = many(case, 30)
    assert case.adapter.scopes("issue")
    case.control("PUT", "/habits", {"hidden": [scopes[9]]})

    swept = case.sweep("issue", trigger="light", light=True)

    of_scope = {each["scope"]: each for each in swept.report["kinds"]}
    assert swept.state == "incomplete"
    assert of_scope[scopes[9]]["state"] == "incomplete"
    assert moved_to(case, "issue") == Counter({True: 29, False: 1})


def test_a_question_that_fails_spares_nothing(case_of: MakeCase) -> None:
    """Where the provider does not answer what moved, each scope is listed as ever."""
    case = case_of("github", more='organizations = ["acme"]')
    scopes = many(case, 30)
    talk = in_scope(case, scopes[7], "issue")
    case.control("PUT", "/habits", {"queries": False})

    swept = case.sweep("issue", trigger="light", light=True)

    assert swept.state == "complete", swept.report["because"]
    assert case.rows("SELECT scope, id FROM objects") == [(scopes[7], talk)]
    assert Counter(case.calls())["GET /repositories/{repository}/issues"] == len(scopes)
    assert case.logged("sweep.unprobed")


def test_other_passes_spare_nothing(case_of: MakeCase) -> None:
    """Only a light pass goes by what moved: at night every scope is listed."""
    case = case_of("github", more='organizations = ["acme"]')
    scopes = many(case, 30)

    swept = case.sweep("milestone", trigger="nightly")

    assert swept.state == "complete", swept.report["because"]
    calls = Counter(case.calls())
    assert calls["GET /repositories/{repository}/milestones"] == len(scopes)
    assert calls["POST /graphql"] == 0
