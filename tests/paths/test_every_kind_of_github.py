"""Every kind of GitHub, whole path: what is told of is read, and what nobody told of is found as its row says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.github import KINDS
from adapters.github.rows import Home
from adapters.sandbox.github.bodies import number_of
from adapters.sandbox.github.kinds import KINDS as THERE
from adapters.sandbox.operations import operation_from
from reconciler.adapter import Listing
from reconciler.model import ObjectRef
from reconciler.store import refetches, statements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.paths.cases import Case, MakeCase

EVERYTHING = 'organizations = ["acme"]\nkinds = "all"'
UNLISTED = frozenset(kind for kind, row in KINDS.items() if row.kind.list is Listing.NONE)


def home(case: Case, kind: str) -> str:
    """Return the scope that objects of a kind live in."""
    return {Home.REPOSITORY: case.scope, Home.ORGANIZATION: str(number_of("acme")), Home.NOWHERE: ""}[KINDS[kind].home]


def done(case: Case, op: str, kind: str, id_: str = "", *, told: bool) -> str:
    """Let something happen that is told of, or not, and return the object's id."""
    asked = {"op": op, "kind": kind, "scope": home(case, kind), "deliver": told} | ({"id": id_} if id_ else {})
    return str(case.sandbox.operate(operation_from(asked))["id"])


def wrong(case: Case) -> set[str]:
    """Return the kinds of which a row does not show what a read shows, or is missing, or is no tombstone."""
    found = set()
    for each in case.sandbox.truth():
        ref = ObjectRef(case.source, each["scope"], each["kind"], each["id"])
        with case.program.database.transaction() as connection:
            row = statements.row(connection, "object", refetches.key(ref))
        alive = row is not None and row.deleted_at is None
        if each["deleted"] or row is None or not alive:
            found |= {ref.kind} if alive is not (not each["deleted"]) else set()
            continue
        body = case.adapter.fetch(ref, locator=None).body
        form = case.program.mirror.of(case.source, ref.kind).form
        found |= set() if body is not None and form.digest(form.stored(body)) == row.digest else {ref.kind}
    return found


def made(case: Case, *, told: bool) -> Mapping[str, str]:
    """Make one object of each kind."""
    return {kind: done(case, "create", kind, told=told) for kind in THERE if kind != "repository"}


def test_every_kind_follows_its_events(case_of: MakeCase) -> None:
    """What is made, changed and deleted in every kind is mirrored as soon as its events are worked off."""
    case = case_of("github", more=EVERYTHING)
    case.control("PUT", "/webhooks", {"url": case.inbox, "secret": "secretofastandin"})

    ids = made(case, told=True)
    case.quiet()
    once = wrong(case)
    for kind, id_ in ids.items():
        done(case, "change", kind, id_, told=True)
    case.quiet()

    # Their changes are told by no event of their own.
    untold = {"commit_comment", "member", "deployment", "deployment_status", "check_suite", "check_run"}
    assert once == set()
    assert wrong(case) == untold


def test_every_kind_is_found_by_a_full_sweep(case_of: MakeCase) -> None:
    """What nobody told of is loaded, changed and found gone by full sweeps; what no list shows was asked for."""
    case = case_of("github", more=EVERYTHING)
    ids = made(case, told=False)

    first = case.sweep(full=True)
    lacking = wrong(case)
    for kind, id_ in ids.items():
        done(case, "change", kind, id_, told=False)
    for kind in UNLISTED:
        case.want(kind, ids[kind])
    done(case, "delete", "branch", ids["branch"], told=False)
    done(case, "delete", "member", ids["member"], told=False)
    done(case, "delete", "workflow_run", ids["workflow_run"], told=False)
    second = case.sweep(full=True)

    assert (first.state, first.report["because"]) == ("complete", None)
    assert lacking == UNLISTED
    assert (second.state, second.report["because"]) == ("complete", None)
    assert wrong(case) == set()
