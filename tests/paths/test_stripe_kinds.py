"""Every kind and account of Stripe, from its API to our rows: what a night costs, and what an account leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.sandbox.stripe.kinds import KINDS
from tests.paths.cases import ago, at

if TYPE_CHECKING:
    from tests.paths.cases import Case, MakeCase

EVERYTHING = 'kinds = "all"\naccounts = ["acct_a"]'


def platform(case_of: MakeCase) -> Case:
    """Return a case that mirrors everything of a platform and the account connected to it."""
    return case_of("stripe", more=EVERYTHING, accounts=("acct_a",))


def made(case: Case) -> dict[str, str]:
    """Let there be one object of each kind in the platform's own account, told to nobody, and return their ids."""
    return {kind: case.act("create", kind, deliver=False) for kind in KINDS if kind != "account"}


def test_a_night_over_every_kind(case_of: MakeCase) -> None:
    """A night finds what changed of every kind, and reads the feed of events once for each account."""
    case = platform(case_of)
    ids = made(case)
    first = case.sweep()
    assert (first.state, first.report["because"]) == ("complete", None)
    for kind, id_ in ids.items():
        case.act("change", kind, id_, deliver=False)
    before = len(case.calls())

    night = case.sweep(since=at(ago(3600)))

    assert (night.state, night.report["because"]) == ("complete", None)
    assert case.calls()[before:].count("GET /v1/events") == 2
    blind = {"balance_transaction", "file", "invoiceitem"}  # of those only nightly rereads and lists show a change
    assert case.wrong(*(kind for kind in ids if kind not in blind)) == []
    items = case.rows("SELECT body->>'quantity' FROM objects WHERE kind = 'subscription_item'")
    assert items == [("2",)]


def test_an_account_that_goes(case_of: MakeCase) -> None:
    """What a platform may see no more stays as it was, and is incomplete for that account alone, said aloud."""
    case = platform(case_of)
    there: dict[str, Any] = {"scope": "acct_a", "deliver": False}
    case.act("create", "customer", "cus_own", deliver=False)
    case.act("create", "customer", "cus_theirs", **there)
    assert case.sweep().state == "complete"

    case.act("delete", "account", "acct_a")
    case.flush()
    case.work(lambda: any(scope == "acct_a" for scope, _ in case.pauses()))
    run = case.sweep("customer", since=at(ago(3600)))

    alive = case.rows("SELECT scope, id FROM objects WHERE kind = 'customer' AND deleted_at IS NULL ORDER BY scope")
    assert alive == [("", "cus_own"), ("acct_a", "cus_theirs")]
    assert run.state == "incomplete"
    assert {each["scope"]: each["state"] for each in run.report["kinds"]} == {"": "complete", "acct_a": "incomplete"}
