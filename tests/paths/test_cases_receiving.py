"""Failures met in the field, by their numbers: what is delivered, how it is signed, and what becomes of repeats."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from reconciler import content
from reconciler.cli import main
from tests.paths.cases import EVERY, FIRST, HOOK, SECRET, ago

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.paths.cases import Case, MakeCase

REFUSED = {"stripe": 400, "github": 400, "shopify": 401}
MIB = 1024 * 1024
BIG = 9_007_199_254_740_993
AUTHORIZED = {"Authorization": "token ghp_standinofatoken"}


def odd(case: Case) -> bytes:
    """Return a body in a spelling that no serialiser of ours would choose."""
    said = rb'"note":"a\u2028b","url":"https:\/\/x\/y","t":"R\u0026D","name":"' + "Grete Ünal".encode()
    about = rb'{"id":"evt_1","type":"a.b",' if case.provider == "stripe" else rb'{ "id":1,'
    return about + said + b'" }\n'


def stored(case: Case) -> int:
    """Return how many events are stored."""
    [(count,)] = case.rows("SELECT count(*) FROM webhook_events")
    return int(count)


# --- A. Receiving and verifying ---


@pytest.mark.parametrize("provider", EVERY)
def test_k01_the_exact_bytes(case_of: MakeCase, provider: str) -> None:
    """What is signed is what was sent, byte by byte: the same JSON sorted, trimmed or spelled otherwise is refused."""
    case = case_of(provider)
    signed = case.signed(odd(case))
    others = [
        json.dumps(json.loads(signed.body), sort_keys=True).encode(),
        signed.body.rstrip(),
        signed.body.replace(rb"\/", b"/"),
        signed.body + b" ",
    ]

    refused = case.post(*(replace(signed, body=each) for each in others))
    kept = stored(case)
    [taken] = case.post(signed)

    assert [(each.status_code, each.json()) for each in refused] == [(REFUSED[provider], {"error": "signature"})] * 4
    assert (kept, taken.status_code, stored(case)) == (0, 200, 1)


@pytest.mark.parametrize("provider", EVERY)
def test_k02_characters_split_between_chunks(case_of: MakeCase, provider: str) -> None:
    """Wherever a body is cut into chunks, inside of characters too, it is the same delivery."""
    case = case_of(provider)
    signed = case.signed(odd(case))
    middle = signed.body.index("Ü".encode()) + 1

    def chunks(at: int) -> Iterator[bytes]:
        yield signed.body[:at]
        yield signed.body[at:]

    answers = [
        httpx.post(case.inbox, content=chunks(at), headers=dict(signed.headers), timeout=30)
        for at in (middle, 1, len(signed.body) - 1)
    ]

    assert [each.status_code for each in answers] == [200] * 3
    assert [each.json()["duplicate"] for each in answers] == [False, True, True]
    assert case.rows("SELECT payload ->> 'name' FROM webhook_events") == [("Grete Ünal",)]


@pytest.mark.parametrize("provider", ["github", "shopify"])
def test_k04_two_live_secrets(case_of: MakeCase, provider: str) -> None:
    """While a secret is changed both vouch, it is on record which one did, and the old one ends with its removal."""
    during, after = case_of(provider, secrets=("new-one", "old-one")), case_of(provider, secrets=("new-one",))

    taken = [during.say({"id": 1}, secret=secret).status_code for secret in ("old-one", "new-one")]
    refused = after.say({"id": 1}, secret="old-one")

    assert taken == [200, 200]
    assert during.rows("SELECT secret FROM webhook_events ORDER BY received_at") == [(2,), (1,)]
    assert refused.status_code == REFUSED[provider]


def test_k06_form_deliveries(case_of: MakeCase) -> None:
    """A form is verified as it came and read; plus signs, percent signs and what looks like a field survive."""
    case = case_of("github")
    case.control("PUT", "/hooks", {HOOK: {"content_type": "form"}})
    title = "1 + 1 = 2 & 100 % é %2B payload={}"
    for suffix in ("", "; charset=utf-8", " ;Charset=UTF-8"):
        made, [sent] = case.withheld("create", "issue", body={"title": title})
        kept = sent.headers["content-type"]
        assert sent.body.startswith(b"payload=%7B")
        assert b"%2B" in sent.body
        assert b"+" in sent.body

        [answer] = case.post(replace(sent, headers={**sent.headers, "content-type": f"{kept}{suffix}"}))
        case.quiet()

        assert (kept, answer.status_code) == ("application/x-www-form-urlencoded", 200)
        assert set(case.rows("SELECT payload #>> '{issue,title}', outcome FROM webhook_events")) == {(title, "done")}
        assert case.body("issue", made)["title"] == title


def test_k07_the_ping_of_an_organization(case_of: MakeCase) -> None:
    """A new hook is pinged; the ping names no repository, is answered 2xx, recorded, and nothing is fetched."""
    case = case_of("github")
    asked = {"name": "web", "config": {"url": case.inbox, "secret": SECRET, "content_type": "json"}}

    made = httpx.post(f"{case.url}/orgs/acme/hooks", json=asked, headers=AUTHORIZED, timeout=30)
    case.flush()

    assert made.status_code == 201
    [(event_type, outcome, payload)] = case.rows("SELECT event_type, outcome, payload FROM webhook_events")
    assert (event_type, outcome) == ("ping", "ignored")
    assert "repository" not in payload
    assert not case.program.drain.turn()
    assert {each for each in case.calls() if not each.startswith("POST")} == set()


ABOUT_NOTHING: Mapping[str, list[tuple[dict[str, str], dict[str, Any]]]] = {
    "stripe": [
        ({}, {"id": "evt_1", "type": "account.updated", "data": {"object": {"object": "account"}}}),
        ({}, {"id": "evt_2", "type": "customer.updated"}),
    ],
    "github": [
        ({"event": "ping"}, {"zen": "x", "hook_id": 1, "hook": {"type": "Organization"}}),
        ({"event": "installation"}, {"action": "created", "installation": {"id": 1}}),
        ({"event": "workflow_run"}, {"repository": {"id": 1, "full_name": "acme/shop"}}),
        ({"event": "issues"}, {}),
        ({"event": "something_new"}, {"issue": 7}),
    ],
    "shopify": [
        ({"topic": "themes/publish"}, {"id": 1}),
        ({"topic": "carts/update"}, {"id": 1}),
        ({"topic": "customers/redact"}, {"shop_id": 1, "customer": {"id": 3}}),
        ({"topic": "orders/updated"}, {}),
        ({"topic": ""}, {"id": 1}),
    ],
}


@pytest.mark.parametrize("provider", EVERY)
def test_k07_about_nothing_we_mirror(case_of: MakeCase, provider: str) -> None:
    """Whatever is authentic and names nothing of ours is a success, on record, and costs no call."""
    case = case_of(provider)

    answers = [case.say(body, **headers).status_code for headers, body in ABOUT_NOTHING[provider]]

    assert set(answers) == {200}
    assert case.outcomes() == ["ignored"] * len(answers)
    assert not case.program.drain.turn()
    assert case.calls() == []


def test_k08_large_deliveries(case_of: MakeCase) -> None:
    """All that GitHub sends is taken, up to its 25 MB; beyond that a refusal is on record, and nothing stored."""
    case = case_of("github")
    push = {"ref": "refs/heads/main", "repository": {"id": int(case.scope), "full_name": "acme/shop"}}

    taken = [
        case.say({**push, "commits": ["x" * size]}, event="push").status_code for size in (600_000, 25 * MIB - 4096)
    ]
    refused = case.say({**push, "commits": ["x" * (25 * MIB)]}, event="push")
    case.quiet()

    assert (taken, refused.status_code) == ([200, 200], 413)
    assert case.outcomes() == ["done", "done"]
    assert [line["reason"] for line in case.logged("delivery.refused")] == ["too_large"]
    assert case.stands("repository", case.scope)


@pytest.mark.parametrize("provider", EVERY)
def test_k08_what_never_arrived(case_of: MakeCase, provider: str) -> None:
    """What was changed, made and deleted without a delivery is found by the nightly run."""
    case, kind = case_of(provider), FIRST[provider]
    changed, gone = (case.act("create", kind, at=ago(7200)) for _ in range(2))
    case.sweep(full=True)
    case.faults(drop=1)
    case.act("change", kind, changed, at=ago(60))
    made = case.act("create", kind, at=ago(60))
    case.act("delete", kind, gone, at=ago(60))

    told = case.sweep(kind, full=True)

    assert told.state == "complete"
    assert case.wrong(kind) == []
    assert sorted((id_, what) for id_, what, _ in told.drift) == sorted(
        [(changed, "differs"), (made, "missing"), (gone, "extra")]
    )


def test_k10_a_delivery_for_another_shop(case_of: MakeCase) -> None:
    """What another shop of the same app sends here is recorded as skipped: no row is touched, no call is made."""
    case = case_of("shopify")
    made = case.act("create", "order")
    case.quiet()
    before, calls = case.row("order", made), len(case.calls())

    answer = case.say({"id": int(made)}, topic="orders/delete", shop_domain="other.myshopify.com")
    case.quiet()

    assert answer.status_code == 200
    assert case.outcomes()[-1] == "skipped"
    assert (case.row("order", made), len(case.calls())) == (before, calls)


def test_k11_the_event_says_whose_it_is(case_of: MakeCase) -> None:
    """An object of a connected account is read in its name, parts and all; one of the same id elsewhere stays."""
    case = case_of("stripe", accounts=("acct_7",), more='accounts = ["acct_7"]')
    for kind, parts in (("charge", None), ("invoice", 13)):
        made = case.act("create", kind, scope="acct_7", parts=parts, body={"description": "Theirs"})
        case.quiet()
        alone = case.rows("SELECT scope, deleted_at FROM objects WHERE kind = %s AND id = %s", kind, made)
        case.act("create", kind, made, body={"description": "Ours"})
        case.quiet()

        shown = (
            "SELECT scope, body ->> 'description', deleted_at FROM objects WHERE kind = %s AND id = %s ORDER BY scope"
        )
        assert alone == [("acct_7", None)]
        assert case.rows(shown, kind, made) == [("", "Ours", None), ("acct_7", "Theirs", None)]
    lines = "SELECT jsonb_array_length(body #> '{lines,data}') FROM objects WHERE kind = 'invoice' AND scope = 'acct_7'"
    assert case.rows(lines) == [(13,)]
    assert set(case.outcomes()) == {"done"}


# --- B. Duplicates and durability ---


@pytest.mark.parametrize("provider", ["github", "shopify"])
def test_k13_copies_that_race(case_of: MakeCase, provider: str) -> None:
    """Twenty copies at once are answered 2xx each, are one event, and one write."""
    case, kind = case_of(provider), FIRST[provider]
    made, [sent] = case.withheld("create", kind)
    start = threading.Barrier(20)

    def send(_: int) -> httpx.Response:
        start.wait(10)
        [answer] = case.post(sent)
        return answer

    with ThreadPoolExecutor(20) as senders:
        answers = list(senders.map(send, range(20)))
    case.quiet()

    assert {each.status_code for each in answers} == {200}
    assert sum("x-duplicate" in each.headers for each in answers) == 19
    assert case.rows("SELECT outcome, duplicates FROM webhook_events") == [("done", 19)]
    assert case.history(kind, made) == ["created"]


@pytest.mark.parametrize("provider", EVERY)
def test_k14_done_only_when_the_work_succeeded(case_of: MakeCase, provider: str) -> None:
    """A repeat while the work is not done lets it be done; a repeat after is answered, and nothing more."""
    case, kind = case_of(provider), FIRST[provider]
    made, [sent] = case.withheld("create", kind)
    case.faults(status={"503": 1})
    case.post(sent)
    assert case.program.drain.turn()
    open_still = case.outcomes()
    case.faults()

    [again] = case.post(sent)
    case.hasten()
    case.quiet()
    calls = len(case.calls())
    [third] = case.post(sent)

    assert (open_still, case.outcomes()) == ([None], ["done"])
    assert [each.headers.get("x-duplicate") for each in (again, third)] == ["1", "1"]
    assert case.wrong(kind) == []
    assert case.history(kind, made) == ["created"]
    assert (case.pending(), len([each for each in case.calls() if each]) - calls) == (0, 1)  # the one of `wrong`


@pytest.mark.parametrize(("status", "outcome"), [("422", "dead"), ("503", None), ("401", None)])
def test_k16_a_redelivery_by_hand(case_of: MakeCase, status: str, outcome: str | None) -> None:
    """Sent again under its old id, byte by byte, an event that failed is worked on after all."""
    case = case_of("github")
    case.faults(status={status: 1})
    made = case.act("create", "issue")
    case.flush()
    assert case.program.drain.turn()
    failed = case.outcomes()
    case.faults()

    redeliver(case)
    case.hasten()
    case.quiet()

    assert failed == [outcome]
    assert case.rows("SELECT outcome, duplicates FROM webhook_events") == [("done", 1)]
    assert case.wrong("issue") == []
    assert case.stands("issue", made)


def test_k16_a_redelivery_of_what_is_done(case_of: MakeCase) -> None:
    """It is answered, counted and told as a repeat, and nothing is fetched for it."""
    case = case_of("github")
    case.act("create", "issue")
    case.quiet()
    calls = [each for each in case.calls() if each.startswith("GET /repositories")]

    redeliver(case)
    case.quiet()

    assert case.rows("SELECT outcome, duplicates FROM webhook_events") == [("done", 1)]
    assert len(case.logged("delivery.duplicate")) == 1
    assert [each for each in case.calls() if each.startswith("GET /repositories")] == calls


def redeliver(case: Case) -> None:
    """Let GitHub send its last delivery again, as the owner of the hook would have it."""
    deliveries = f"{case.url}/orgs/acme/hooks/{HOOK}/deliveries"
    [last, *_] = httpx.get(deliveries, headers=AUTHORIZED, timeout=30).json()
    httpx.post(f"{deliveries}/{last['id']}/attempts", headers=AUTHORIZED, timeout=30).raise_for_status()
    case.flush()


def test_k17_one_act_of_the_merchant(case_of: MakeCase) -> None:
    """Fifty products changed by one act, which share its id, are fifty events and fifty objects looked at."""
    case = case_of("shopify", more='kinds = ["product"]')
    ids = [case.act("create", "product", deliver=False) for _ in range(50)]

    for number in ids:
        case.say({"id": int(number)}, topic="products/update", event_id="one-act")
    wanted = case.pending()
    case.quiet()

    assert (stored(case), wanted) == (50, 50)
    assert case.wrong("product") == []
    assert set(case.outcomes()) == {"done"}


def test_k17_one_delivery_twice(case_of: MakeCase) -> None:
    """The same Webhook-Id is the same event, and said to be; another of the same act and order is another."""
    case = case_of("shopify")
    made = case.act("create", "order", at=ago(100))
    case.quiet()
    _, [first] = case.withheld("change", "order", made, at=ago(50))
    _, [second] = case.withheld("change", "order", made, at=ago(40))
    shared = {"x-shopify-event-id": "one-act"}
    first, second = (replace(each, headers={**each.headers, **shared}) for each in (first, second))

    answers = case.post(first, first, second)
    case.quiet()

    assert [each.headers.get("x-duplicate") for each in answers] == [None, "1", None]
    assert stored(case) == 3
    assert case.wrong("order") == []


def test_k17_no_webhook_id(case_of: MakeCase) -> None:
    """Without an id the topic, the time and the body make one: the same for the same, another for any other."""
    case = case_of("shopify")
    made = case.act("create", "order", deliver=False)
    said: dict[str, str] = {"webhook_id": "", "triggered_at": "2026-11-30T12:00:00.5Z"}

    answers = [
        case.say({"id": int(made)}, **said),
        case.say({"id": int(made)}, **said),
        case.say({"id": int(made)}, **{**said, "triggered_at": "2026-11-30T12:00:01Z"}),
        case.say({"id": int(made)}, **{**said, "topic": "orders/paid"}),
        case.say({"id": int(made), "x": 1}, **said),
    ]
    case.quiet()

    assert [each.json()["duplicate"] for each in answers] == [False, True, False, False, False]
    assert (stored(case), set(case.outcomes())) == (4, {"done"})
    assert case.wrong("order") == []


@pytest.mark.parametrize("family", ["classic", "events"])
def test_k17_both_families_of_headers(case_of: MakeCase, family: str) -> None:
    """Deliveries of either family have an id of their own, and lead to the same row."""
    case = case_of("shopify")
    case.control("PUT", "/family", {"family": family})

    made = case.act("create", "order")
    case.act("change", "order", made)
    case.quiet()

    assert case.outcomes() == ["done", "done"]
    assert case.wrong("order") == []


# --- F. API versions ---


def test_k47_an_event_of_another_version(case_of: MakeCase) -> None:
    """A payload in the shape of an older version starts a read; the row has ours, and the nightly run finds it so."""
    case = case_of("stripe")
    made = case.act("create", "subscription", deliver=False)
    case.sweep("subscription")
    _, [sent] = case.withheld("change", "subscription", made)
    event = content.parse(sent.body)
    event["api_version"] = "2020-08-27"
    event["data"]["object"] = {"id": made, "object": "subscription", "current_period_end": 1, "plan": {"id": "x"}}

    answer = case.say(event)
    case.quiet()
    told = case.sweep("subscription", full=True)

    assert (answer.status_code, case.outcomes()) == (200, ["done"])
    assert case.wrong("subscription") == []
    assert "plan" not in case.body("subscription", made)
    assert told.drift == []
    assert case.history("subscription", made) == ["loaded", "updated"]


def test_k47_a_webhook_of_another_version(case_of: MakeCase) -> None:
    """Shopify writes webhooks in the version of their subscription: whichever that is, the row has ours."""
    case = case_of("shopify")
    for version in ("2020-01", "unstable", "2031-01"):
        made, [sent] = case.withheld("create", "order")

        case.post(replace(sent, headers={**sent.headers, "x-shopify-api-version": version}))
        case.quiet()
        told = case.sweep("order", full=True)

        assert set(case.outcomes()) == {"done"}
        assert case.wrong("order") == []
        assert (told.drift, case.history("order", made)) == ([], ["created"])


# --- G. PostgreSQL ---


@pytest.mark.parametrize(
    ("provider", "kind", "field"),
    [("stripe", "customer", "description"), ("github", "issue", "title"), ("shopify", "order", "note")],
)
def test_k48_nul_in_an_object(case_of: MakeCase, provider: str, kind: str, field: str) -> None:
    """What PostgreSQL cannot hold is cleaned alike in event, row and every later read; what only looks so survives."""
    case = case_of(provider)
    made, [sent] = case.withheld("create", kind, body={field: "x\0y \\u0000"})

    answers = case.post(sent, sent)
    case.quiet()
    told = case.sweep(kind, full=True)

    assert rb"\u0000" in sent.body
    assert [each.json()["duplicate"] for each in answers] == [False, True]
    assert case.body(kind, made)[field] == "x\N{REPLACEMENT CHARACTER}y \\u0000"
    assert case.rows("SELECT raw FROM webhook_events") == [(sent.body,)]
    assert (case.wrong(kind), told.drift, case.history(kind, made)) == ([], [], ["created"])


@pytest.mark.parametrize("provider", EVERY)
def test_k48_keys_and_surrogates(case_of: MakeCase, provider: str) -> None:
    """Keys are cleaned too and stay apart; the bytes are kept; a repeat is a repeat."""
    case = case_of(provider)
    body = rb'{"id":"evt_1","type":"a.b","a":"x\u0000y","b":"\\u0000","k\u0000":1,"k\ud800":2,"n":1e999999}'

    answers = [case.say(body, webhook_id="w-1", delivery="d-1") for _ in range(2)]

    assert [(each.status_code, each.json()["duplicate"]) for each in answers] == [(200, False), (200, True)]
    [(payload, raw)] = case.rows("SELECT payload, raw FROM webhook_events")
    assert (payload["a"], payload["b"]) == ("x\N{REPLACEMENT CHARACTER}y", r"\u0000")
    assert sorted(value for key, value in payload.items() if key.startswith("k")) == [1, 2]
    assert raw == body


@pytest.mark.parametrize(
    ("provider", "kind", "parent"),
    [
        ("stripe", "invoice", "customer"),
        ("github", "issue_comment", "issue"),
        ("shopify", "refund", "order"),
        ("shopify", "product_variant", "product"),
        ("stripe", "credit_note", "invoice"),
        ("github", "review", "pull_request"),
        ("github", "check_run", "check_suite"),
        ("github", "deployment_status", "deployment"),
        ("shopify", "fulfillment", "order"),
        ("shopify", "inventory_level", "inventory_item"),
    ],
)
def test_k50_child_before_parent(case_of: MakeCase, provider: str, kind: str, parent: str) -> None:
    """An object whose parent we do not have, and do not even mirror, is stored as any other."""
    case = case_of(provider, more=f'kinds = ["{kind}"]')

    made = case.act("create", kind)
    case.quiet()

    assert case.stands(kind, made)
    assert set(case.outcomes()) <= {"done", "ignored"}
    assert case.rows("SELECT count(*) FROM objects WHERE kind = %s", parent) == [(0,)]


@pytest.mark.parametrize(
    ("provider", "kind", "given", "shown"),
    [
        ("stripe", "customer", {"body": {"balance": BIG}}, f'"balance":{BIG}'),
        ("stripe", "customer", {"body": {"odd": Decimal("0.10")}}, '"odd":0.10'),
        ("github", "issue_comment", {"id_": str(BIG)}, f'"id":{BIG}'),
        ("shopify", "order", {"id_": str(BIG)}, f'"id":"gid://shopify/Order/{BIG}"'),
        ("shopify", "order", {"body": {"totalPriceSet": {"shopMoney": {"amount": "0.10"}}}}, '"amount":"0.10"'),
    ],
)
def test_k51_big_ids_and_money(
    case_of: MakeCase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    provider: str,
    kind: str,
    given: dict[str, Any],
    shown: str,
) -> None:
    """Numbers that a float cannot hold come through webhook, fetch, row and command line as they were."""
    case = case_of(provider)
    made = case.act("create", kind, **given)
    case.quiet()
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()

    code = main(["explain", case.source, kind, made, "--format", "json", "--config", str(case.file)])

    said = capsys.readouterr().out
    body = content.parse(said)["row"]["body"]
    assert code == 0
    assert body == case.body(kind, made)
    assert shown in content.dumps(body)
    assert case.wrong(kind) == []
