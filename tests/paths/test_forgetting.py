"""What is forgotten, end to end: of every kind, by whoever may ask for it, and for good."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adapters.sandbox.github.kinds import KINDS as OF_GITHUB
from adapters.sandbox.operations import operation_from
from adapters.sandbox.shopify.kinds import KINDS as OF_SHOPIFY
from adapters.sandbox.stripe.kinds import KINDS as OF_STRIPE
from reconciler.errors import Forgotten
from reconciler.model import Hint, Named, Notification, ObjectRef, Origin, Reading, Via
from reconciler.store import events, forgetting, guard, runs, statements
from reconciler.store.events import Arrival
from reconciler.store.runs import Drift
from tests.paths.cases import DOMAIN
from tests.paths.test_every_kind_of_github import home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from reconciler.model import JSON, Body, Snapshot
    from tests.paths.cases import Case, MakeCase

MARK = "planted7f3a"
EVERYTHING: Mapping[str, str] = {
    "stripe": 'kinds = "all"',
    "shopify": 'kinds = "all"',
    "github": 'organizations = ["acme"]\nkinds = "all"',
}
KINDS: Mapping[str, Sequence[str]] = {
    "stripe": [kind for kind in OF_STRIPE if kind != "account"],
    "shopify": [kind for kind in OF_SHOPIFY if kind != "shop"],
    "github": [kind for kind in OF_GITHUB if kind != "repository"],
}


def planted(tree: JSON) -> JSON:
    """Return *tree* with the mark in every text of it, and in every name of a field."""
    if isinstance(tree, dict):
        return {**{key: planted(value) for key, value in tree.items()}, **{f"{MARK}_{key}": MARK for key in tree}}
    if isinstance(tree, list):
        return [planted(each) for each in tree]
    return f"{MARK} {tree}" if isinstance(tree, str) else tree


def made(case: Case) -> None:
    """Let there be one object of each kind, told to nobody."""
    for kind in KINDS[case.provider]:
        scope = {"scope": home(case, kind)} if case.provider == "github" else {}
        case.sandbox.operate(operation_from({"op": "create", "kind": kind, "deliver": False, **scope}))


def every(case: Case) -> list[Snapshot]:
    """Return what the provider shows of all it has."""
    refs = [
        ObjectRef(case.source, each["scope"], each["kind"], each["id"])
        for each in case.sandbox.truth()
        if not each["deleted"] and each["kind"] in case.adapter.kinds
    ]
    return [shown for ref in refs if (shown := case.adapter.fetch(ref)).body is not None]


def plant(case: Case, shown: Snapshot) -> None:
    """Leave traces of one object, with the mark in all of its fields, wherever we keep any."""
    ref, database, mirror = shown.ref, case.program.database, case.program.mirror
    body = planted(shown.body)

    def deliver(connection: Connection) -> None:
        told = Notification(
            ref.source,
            f"evt_{ref.scope}_{ref.kind}_{ref.id}".replace(ref.id, str(abs(hash(ref.id)))),
            "changed",
            datetime.now(UTC),
            {"object": body},
            raw=MARK.encode(),
            named=(Named(ref, locator={"name": MARK}),),
        )
        events.receive(connection, [Arrival(told, {"from": MARK}, datetime.now(UTC))])

    def read(connection: Connection, fields: Body) -> None:
        drawn = statements.one(connection, "draw_position", {"now": None})
        reading = Reading(replace(shown, body=fields, locator={"name": MARK}), drawn.position, None, drawn.now)
        guard.apply(connection, [reading], origin=Origin(Via.WEBHOOK), mirror=mirror)

    def note(connection: Connection) -> None:
        runs.ask(connection, 1, [Hint(ref)], {ref: 1})
        diff = [{"path": f"/{MARK}", "ours": MARK, "theirs": body}]
        runs.drifted(connection, [Drift(ref, "differs", "other", diff)], run_id=1, repaired=True)

    database.commit(deliver)
    database.commit(lambda connection: read(connection, body))
    database.commit(lambda connection: read(connection, {**body, f"{MARK}_more": MARK}))
    database.commit(note)


def searched(case: Case, text: str) -> dict[str, int]:
    """Return in how many rows of each table *text* stands, in whatever column."""
    tables = [name for (name,) in case.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")]
    counted = {
        name: case.rows(
            f"SELECT count(*) FROM {name} AS mine WHERE strpos(mine::text, %s) > 0 OR strpos(mine::text, %s) > 0",
            text,
            text.encode().hex(),
        )[0][0]
        for name in tables
    }
    return {name: count for name, count in counted.items() if count}


def said_by_the_server(case: Case) -> str:
    """Return the log of the database's server, where it is one of this test session."""
    [(folder,)] = case.rows("SHOW data_directory")
    log = Path(folder).parent / "postgres.log"
    return log.read_text("utf-8", errors="replace") if log.exists() else ""


@pytest.mark.parametrize("provider", ["stripe", "shopify", "github"])
def test_every_field_of_every_kind(case_of: MakeCase, provider: str) -> None:
    """Planted in every field of every kind and forgotten: no table, column or log has it, and no sweep finds it."""
    case = case_of(provider, more=EVERYTHING[provider])
    made(case)
    shown = every(case)
    for each in shown:
        plant(case, each)
    before = searched(case, MARK)

    for each in shown:
        forgetting.forget(case.program.database, {each.ref: False}, case.adapter.kinds)
    after = searched(case, MARK)
    swept = case.sweep(full=True)
    case.work(lambda: not case.program.drain.turn())

    assert {each.ref.kind for each in shown} >= set(KINDS[provider])
    assert before.keys() == {"webhook_events", "objects", "object_history", "drift", "refetches"}
    assert after == {}
    assert (swept.state, swept.report["drift"]) == ("complete", [])
    forgotten = {each.ref for each in shown}
    kept = {ObjectRef(*row) for row in case.rows("SELECT source, scope, kind, id FROM objects")}
    assert kept & forgotten == set()
    assert searched(case, MARK) == {}
    assert MARK not in json.dumps([str(line) for line in case.lines])
    assert MARK not in said_by_the_server(case)


def test_no_way_back(case_of: MakeCase) -> None:
    """Events, refetches, light passes and dry runs of what was forgotten store nothing of it and find no drift."""
    case = case_of("stripe")
    id_ = case.act("create", "customer")
    case.quiet()
    forgetting.forget(case.program.database, {case.ref("customer", id_): True}, case.adapter.kinds)

    case.act("change", "customer", id_)
    case.quiet()
    with pytest.raises(Forgotten, match="was forgotten, and is not read again"):
        case.want("customer", id_)
    dry = case.sweep("customer", full=True, dry_run=True)
    case.sweep("customer")

    assert searched(case, id_) == {}
    assert (dry.state, dry.report["drift"]) == ("complete", [])
    assert set(case.outcomes()) <= {"done", "ignored", "skipped"}
    assert case.rows("SELECT payload::text FROM webhook_events WHERE outcome = 'ignored'") == [("{}",)]


# --- what Shopify asks for ---


def shop(case_of: MakeCase) -> tuple[Case, str, str, str]:
    """Return a shop with a customer who has an order that is to be forgotten, and one that is not."""
    case = case_of("shopify")
    customer, old, young = (case.act("create", kind, deliver=False) for kind in ("customer", "order", "order"))
    assert case.sweep(full=True).state == "complete"
    return case, customer, old, young


def redact(case: Case, customer: str, *orders: str, **headers: str) -> int:
    """Have Shopify ask us to forget a customer and orders; return how we answered."""
    body = {
        "shop_id": 1,
        "shop_domain": DOMAIN,
        "customer": {"id": int(customer), "email": f"{MARK}@example.com", "phone": "555"},
        "orders_to_redact": [int(each) for each in orders],
    }
    return case.say(body, topic="customers/redact", **headers).status_code


def tidy(case: Case) -> None:
    """Let the drain keep house, as it does every half minute."""
    case.program.drain._tidy()


def test_customers_redact(case_of: MakeCase) -> None:
    """It is answered at once and stored without what it says; then the drain forgets the customer and those orders."""
    case, customer, old, young = shop(case_of)

    answered = redact(case, customer, old, webhook_id="w-1")
    again = redact(case, customer, old, webhook_id="w-1")
    stored = case.rows("SELECT outcome, payload::text, headers::text FROM webhook_events")
    waiting = case.stands("customer", customer)
    tidy(case)

    assert (answered, again) == (200, 200)
    assert stored == [(None, "{}", "{}")]
    assert waiting is True
    assert [case.row("customer", customer), case.row("order", old)] == [None, None]
    assert case.stands("order", young) is True
    assert case.rows("SELECT outcome, duplicates FROM webhook_events WHERE event_id = 'w-1'") == [("done", 1)]
    assert case.rows("SELECT * FROM erasures") == []
    assert searched(case, MARK) == {}
    [line] = case.logged("erasure.done")
    assert forgetting_holds(case, line["receipt"])
    assert redact(case, customer, old, webhook_id="w-1") == 200
    assert searched(case, MARK) == {}


def forgetting_holds(case: Case, told: Mapping[str, Any]) -> bool:
    """Say whether a receipt holds."""
    return case.program.database.commit(lambda connection: forgetting.holds(connection, told))


def test_redact_of_somebody_unknown(case_of: MakeCase) -> None:
    """Whom we never had is kept from coming in, and the wish is done."""
    case, *_ = shop(case_of)

    assert redact(case, "999999999") == 200
    tidy(case)

    assert case.outcomes() == ["done"]
    assert case.rows("SELECT kind FROM forgotten") == [("customer",)]


def test_unsigned_redact(case_of: MakeCase) -> None:
    """Nobody but the provider has anything forgotten."""
    case, customer, old, _ = shop(case_of)

    assert redact(case, customer, old, secret="another") == 401
    tidy(case)

    assert case.stands("customer", customer) is True


def test_data_request(case_of: MakeCase) -> None:
    """A request for a customer's data is answered 200 and stays on record for the shop's owner; nothing is erased."""
    case, customer, *_ = shop(case_of)
    body = {"shop_id": 1, "customer": {"id": int(customer)}, "orders_requested": [], "data_request": {"id": 9}}

    answered = case.say(body, topic="customers/data_request").status_code
    tidy(case)

    assert (answered, case.outcomes()) == (200, ["ignored"])
    assert case.stands("customer", customer) is True


SHOP_REDACT = {"shop_id": 1, "shop_domain": DOMAIN}


def test_shop_redact(case_of: MakeCase) -> None:
    """A shop that has put us out is erased with all its rows, and served no more."""
    case, *_ = shop(case_of)
    case.faults(lost_access="401")

    answered = case.say(SHOP_REDACT, topic="shop/redact").status_code
    tidy(case)

    assert answered == 200
    assert case.rows("SELECT state FROM sources") == [("erased",)]
    assert case.rows("SELECT id FROM objects") == case.rows("SELECT event_id FROM webhook_events") == []


def test_shop_redact_of_a_shop_that_lets_us_in(case_of: MakeCase) -> None:
    """The topic is not signed: while the shop lets us in, a person is asked, and nothing is erased."""
    case, customer, *_ = shop(case_of)

    case.say(SHOP_REDACT, topic="shop/redact")
    tidy(case)

    assert case.rows("SELECT outcome, last_error FROM webhook_events") == [
        (
            "skipped",
            "its provider still lets us in; if it is to be erased: `reconcile source remove shop-berlin --delete-data`",
        )
    ]
    assert case.stands("customer", customer) is True
    assert case.logged("erasure.refused")


@pytest.mark.parametrize(
    ("topic", "body"),
    [
        ("shop/redact", {**SHOP_REDACT, "customer": {"id": 1}, "orders_to_redact": []}),
        ("shop/redact", {**SHOP_REDACT, "shop_domain": "other.myshopify.com"}),
        ("customers/redact", SHOP_REDACT),
        ("customers/redact", {**SHOP_REDACT, "customer": {"id": 1}, "data_request": {"id": 9}}),
        ("customers/redact", {**SHOP_REDACT, "customer": {}, "orders_to_redact": []}),
    ],
)
def test_topic_and_body_must_agree(case_of: MakeCase, topic: str, body: Body) -> None:
    """An authentic body under another topic than its own has nothing forgotten."""
    case, customer, *_ = shop(case_of)

    assert case.say(body, topic=topic).status_code == 200
    tidy(case)

    assert case.outcomes() == ["ignored"]
    assert case.stands("customer", customer) is True
    assert case.rows("SELECT * FROM forgotten") == []
