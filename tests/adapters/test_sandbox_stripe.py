"""The stand-in for Stripe, seen through the real SDK and plain HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import typing
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import stripe
from stripe._object_classes import get_object_class

from adapters.sandbox import StripeSandbox, serving, stand_in
from adapters.sandbox.clock import Clock
from adapters.sandbox.deliveries import Backoff
from adapters.sandbox.stripe import API_VERSION
from adapters.sandbox.stripe.kinds import KINDS
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

NOW = 1_790_000_000
KEY = "sk_test_standin"
SECRET = "whsec_standin"


@dataclass
class Hands:
    """A clock that goes on only when it is told to."""

    now: float = float(NOW)

    def tick(self, seconds: float) -> None:
        """Go on."""
        self.now += seconds

    def clock(self) -> Clock:
        """Return the clock these hands show."""
        return Clock(lambda: self.now, ticks=lambda: self.now)


@dataclass
class Bench:
    """A stand-in that is being served, and the ways to reach it."""

    hands: Hands
    url: str
    http: httpx.Client

    def client(self, key: str = KEY, **options: Any) -> stripe.StripeClient:
        """Return the real SDK, pointed at the stand-in."""
        return stripe.StripeClient(
            key,
            base_addresses={"api": self.url},
            http_client=stripe.RequestsClient(timeout=10),
            max_network_retries=0,
            **options,
        )

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Call the API."""
        return self.http.get(path, headers={"Authorization": f"Bearer {KEY}", **headers})

    def ids(self, path: str) -> list[str]:
        """Return the ids on one page of a list, in its order."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        return [each["id"] for each in response.json()["data"]]

    def do(self, op: str, kind: str, id_: str | None = None, **more: object) -> dict[str, Any]:
        """Carry out one operation."""
        response = self.http.post("/_control/objects", json={"op": op, "kind": kind, "id": id_, **more})
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    def create(self, kind: str, count: int = 1, **more: Any) -> list[str]:
        """Create several objects and return their ids, oldest first."""
        return [self.do("create", kind, **more)["id"] for _ in range(count)]

    def put(self, path: str, content: object) -> None:
        """Set something by a control route."""
        response = self.http.put(f"/_control/{path}", json=content)
        assert response.status_code == 200, response.text

    def flush(self, timeout: int = 20) -> int:
        """Wait until no delivery is on its way."""
        return int(self.http.post(f"/_control/flush?timeout={timeout}", timeout=60).json()["pending"])

    def deliveries(self) -> dict[str, Any]:
        """Return what became of the deliveries."""
        return self.http.get("/_control/deliveries").json()  # type: ignore[no-any-return]


class Stage:
    """One server for all tests of this module; each test puts a stand-in of its own on it."""

    def __init__(self) -> None:
        self.playing: StripeSandbox | None = None

    @property
    def app(self) -> ASGIApp:
        """Whoever plays."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let whoever plays answer."""
        assert self.playing is not None
        await self.playing.app(scope, receive, send)

    def close(self) -> None:
        """Nothing runs besides."""


@dataclass(frozen=True)
class Theatre:
    """The stage and where it is."""

    stage: Stage
    url: str

    @contextmanager
    def plays(self, sandbox: StripeSandbox, hands: Hands) -> Iterator[Bench]:
        """Let *sandbox* answer while the block runs."""
        self.stage.playing = sandbox
        with httpx.Client(base_url=self.url, timeout=10) as http:
            yield Bench(hands, self.url, http)
        sandbox.close()


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    """Run a server."""
    stage = Stage()
    with serving(stage) as running:
        yield Theatre(stage, running.url)


@pytest.fixture
def hands() -> Hands:
    """Return a clock of this test's own."""
    return Hands()


@pytest.fixture
def bench(theatre: Theatre, hands: Hands) -> Iterator[Bench]:
    """Serve a stand-in whose retries follow at once."""
    backoff = Backoff(first=0.01, most=0.02, attempts=5)
    with theatre.plays(StripeSandbox(7, clock=hands.clock(), backoff=backoff), hands) as served:
        yield served


@dataclass
class Receiver:
    """Somebody's webhook endpoint: keeps what arrives and answers as it was told."""

    url: str
    answers: list[int] = field(default_factory=list)
    arrived: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self) -> int:
        """Return the next answer; 200 once they are used up."""
        with self.lock:
            return self.answers.pop(0) if self.answers else 200

    def ids(self) -> list[str]:
        """Return the ids of the events in the order they arrived."""
        return [json.loads(body)["id"] for _, body in self.arrived]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Run a webhook endpoint on this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with found.lock:
                found.arrived.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.answer())
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_port}/hooks?from=stripe")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def truth(bench: Bench, kind: str) -> dict[str, dict[str, Any]]:
    """Return what really is there, by id."""
    return {each["id"]: each for each in bench.http.get(f"/_control/objects?kind={kind}").json()}


SPELLED = {"checkout_session": "checkout.sessions", "invoiceitem": "invoice_items"}
"""What the SDK calls the calls of a kind, where that is not their path."""

WITHOUT_METADATA = {"tax_id", "mandate", "balance_transaction", "application_fee", "file"}


class TestRetrieve:
    """Reading one object."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_sdk_reads_what_is_there(self, bench: Bench, kind: str) -> None:
        """The SDK gets the body that the control routes show, as an instance of the kind's own class."""
        [id_] = bench.create(kind)

        calls = attrgetter(SPELLED.get(kind, KINDS[kind].plural))(bench.client().v1)
        found = calls.retrieve(id_)

        assert kind == type(found).OBJECT_NAME.replace(".", "_")
        assert truth(bench, kind)[id_]["body"] == found.to_dict(for_json=True)

    @pytest.mark.parametrize("kind", KINDS)
    def test_body_has_the_fields_that_the_sdk_promises(self, bench: Bench, kind: str) -> None:
        """No field that is never null in the SDK's class is missing, and none is unknown to it."""
        [id_] = bench.create(kind)
        known = get_object_class("V1", {"checkout_session": "checkout.session"}.get(kind, kind))
        hints = vars(known)["__annotations__"]
        needed = {name for name, hint in hints.items() if type(None) not in typing.get_args(hint)}

        body = truth(bench, kind)[id_]["body"]

        assert {name for name in needed if name.islower()} <= body.keys()
        assert body.keys() <= hints.keys()

    @pytest.mark.parametrize("kind", KINDS)
    def test_hidden_version_grows_with_each_change(self, bench: Bench, kind: str) -> None:
        """Each change counts, and the body says which one it shows."""
        [id_] = bench.create(kind)

        answer = bench.do("change", kind, id_)

        assert answer["version"] == truth(bench, kind)[id_]["version"] >= 2
        shown = bench.get(f"/v1/{KINDS[kind].plural}/{id_}").json()
        assert shown.get("metadata", {"version": str(answer["version"])})["version"] == str(answer["version"])
        assert ("metadata" in shown) is (kind not in WITHOUT_METADATA)

    @pytest.mark.parametrize("kind", ["customer", "product"])
    def test_deleted_one_is_a_stub(self, bench: Bench, kind: str) -> None:
        """A deleted customer or product answers 200, says so, and is listed no more."""
        [id_] = bench.create(kind)

        bench.do("delete", kind, id_)

        path = f"/v1/{KINDS[kind].plural}"
        assert bench.get(f"{path}/{id_}").json() == {"id": id_, "object": kind, "deleted": True}
        assert bench.ids(path) == []
        assert truth(bench, kind)[id_]["deleted"]

    def test_deleted_draft_invoice_is_missing(self, bench: Bench) -> None:
        """A deleted draft is a 404; an invoice that was sent is voided and stays."""
        draft, sent = bench.create("invoice", 2)
        bench.do("change", "invoice", sent, body={"status": "open"})

        bench.do("delete", "invoice", draft)
        bench.do("delete", "invoice", sent)

        with pytest.raises(stripe.InvalidRequestError) as caught:
            bench.client().v1.invoices.retrieve(draft)
        assert (caught.value.http_status, caught.value.code) == (404, "resource_missing")
        assert bench.client().v1.invoices.retrieve(sent).status == "void"

    def test_canceled_subscription_stays(self, bench: Bench) -> None:
        """Deleting a subscription cancels it."""
        [id_] = bench.create("subscription")

        answer = bench.do("delete", "subscription", id_)

        assert not answer["deleted"]
        assert bench.client().v1.subscriptions.retrieve(id_).status == "canceled"

    def test_unknown_one_is_missing(self, bench: Bench) -> None:
        """The refusal has the fields that Stripe's has."""
        response = bench.get("/v1/customers/cus_nobody")

        assert response.status_code == 404
        assert response.json()["error"].keys() == {"message", "type", "code", "doc_url", "param"}
        assert response.json()["error"]["message"] == "No such customer: 'cus_nobody'"

    def test_recreated_one_begins_anew_and_counts_on(self, bench: Bench) -> None:
        """The same id lives again with new content; its version goes on growing."""
        bench.do("create", "product", "prod_gold", body={"name": "Gold"})
        bench.do("delete", "product", "prod_gold")
        bench.hands.tick(5)

        answer = bench.do("recreate", "product", "prod_gold", body={"name": "New gold"})

        found = bench.client().v1.products.retrieve("prod_gold")
        assert answer["version"] == 3
        assert (found.name, found.created) == ("New gold", NOW + 5)
        assert bench.ids("/v1/products") == ["prod_gold"]

    def test_expand_puts_the_object_in_place_of_its_id(self, bench: Bench) -> None:
        """References are expanded in a retrieve and in a list; a charge shows its refunds only then."""
        [customer] = bench.create("customer")
        [charge] = bench.create("charge")
        [refund] = bench.create("refund")
        client = bench.client().v1

        retrieved = bench.get(f"/v1/charges/{charge}?expand[]=customer&expand[]=refunds").json()

        [listed] = client.charges.list({"expand": ["data.customer"]}).data
        assert listed.to_dict(for_json=True)["customer"]["id"] == retrieved["customer"]["id"] == customer
        assert [each["id"] for each in retrieved["refunds"]["data"]] == [refund]
        assert "refunds" not in client.charges.retrieve(charge).to_dict(for_json=True)
        assert bench.get(f"/v1/charges/{charge}?expand[]=amount").status_code == 400

    def test_numbers_and_text_are_exact(self, bench: Bench) -> None:
        """Whatever JSON can say comes back digit by digit, out-of-the-way text included."""
        [id_] = bench.create("customer")
        said = r'{"metadata": {"n": 9007199254740993, "d": 0.10, "t": "x\u0000y \ud83d â"}}'
        asked = f'{{"op": "change", "kind": "customer", "id": "{id_}", "body": {said}}}'

        answer = bench.http.post("/_control/objects", content=asked.encode())

        assert answer.status_code == 200, answer.text
        shown = parse(bench.get(f"/v1/customers/{id_}").content)["metadata"]
        assert {name: shown[name] for name in "ndt"} == parse(said)["metadata"]
        assert b"0.10" in bench.get(f"/v1/customers/{id_}").content

    def test_older_api_version_has_its_fields_elsewhere(self, bench: Bench) -> None:
        """Before 2025-03-31 a subscription has its periods on top, since then on its items."""
        [id_] = bench.create("subscription")

        old = bench.get(f"/v1/subscriptions/{id_}", **{"Stripe-Version": "2020-08-27"})
        new = bench.get(f"/v1/subscriptions/{id_}")

        assert old.headers["Stripe-Version"] == "2020-08-27"
        assert old.json()["current_period_end"] == new.json()["items"]["data"][0]["current_period_end"]
        assert "current_period_end" not in new.json().keys() | old.json()["items"]["data"][0].keys()


class TestLists:
    """Listing objects."""

    def test_newest_first_within_one_second_too(self, bench: Bench) -> None:
        """Later created comes first, the second notwithstanding, on whatever page."""
        first = bench.create("customer", 3)
        bench.hands.tick(1)
        second = bench.create("customer", 4)

        paged = bench.client().v1.customers.list({"limit": 2}).auto_paging_iter()

        assert [each.id for each in paged] == [*second[::-1], *first[::-1]]

    def test_backwards_paging_reaches_the_newest(self, bench: Bench) -> None:
        """`ending_before` gives the next newer ones, still newest first."""
        made = bench.create("customer", 5)

        page = bench.get(f"/v1/customers?limit=2&ending_before={made[1]}").json()

        assert ([each["id"] for each in page["data"]], page["has_more"]) == ([made[3], made[2]], True)
        assert bench.ids(f"/v1/customers?limit=2&ending_before={made[3]}") == [made[4]]

    def test_ten_by_default(self, bench: Bench) -> None:
        """A page has ten objects unless another limit is named, and says whether there are more."""
        bench.create("customer", 11)

        page = bench.get("/v1/customers").json()

        assert (len(page["data"]), page["has_more"], page["url"]) == (10, True, "/v1/customers")
        assert not bench.get("/v1/customers?limit=11").json()["has_more"]

    @pytest.mark.parametrize(
        ("bounds", "expected"),
        [
            ("created[gte]={1}", [3, 2, 1]),
            ("created[gt]={1}", [3, 2]),
            ("created[lt]={2}", [1, 0]),
            ("created[lte]={2}", [2, 1, 0]),
            ("created[gt]={0}&created[lt]={3}", [2, 1]),
            ("created={2}", [2]),
        ],
    )
    def test_created_bounds(self, bench: Bench, bounds: str, expected: Sequence[int]) -> None:
        """Each comparison means what it says, at the very edge."""
        made = bench.create("customer")
        for _ in range(3):
            bench.hands.tick(1)
            made += bench.create("customer")
        asked = bounds.format(*range(NOW, NOW + 4))

        paged = [bench.ids(f"/v1/customers?{asked}&limit=100"), bench.ids(f"/v1/customers?{asked}")]

        assert paged == [[made[index] for index in expected]] * 2

    @pytest.mark.parametrize(
        "query",
        [
            "since=1",
            "limit=0",
            "limit=101",
            "limit=x",
            "created[after]=1",
            "created[gte]=today",
            "starting_after=cus_x",
            "starting_after=a&ending_before=b",
        ],
    )
    def test_what_stripe_does_not_know_is_refused(self, bench: Bench, query: str) -> None:
        """Unknown parameters, values out of bounds and a cursor that names nothing are a 400 with the parameter."""
        bench.create("customer")

        response = bench.get(f"/v1/customers?{query}")

        assert response.status_code == 400
        assert response.json()["error"]["param"]

    def test_vanished_cursor_is_refused(self, bench: Bench) -> None:
        """A cursor whose object was deleted meanwhile no longer leads anywhere."""
        made = bench.create("customer", 3)
        bench.do("delete", "customer", made[1])

        response = bench.get(f"/v1/customers?starting_after={made[1]}")

        assert response.status_code == 400
        assert (response.json()["error"]["code"], response.json()["error"]["param"]) == (
            "resource_missing",
            "starting_after",
        )

    def test_canceled_subscriptions_are_hidden_unless_asked_for(self, bench: Bench) -> None:
        """The default leaves them out; all, canceled and ended bring them back."""
        kept, gone = bench.create("subscription", 2)
        bench.do("delete", "subscription", gone)

        shown = {
            status: bench.ids(f"/v1/subscriptions{status and f'?status={status}'}")
            for status in ("", "all", "canceled", "ended", "active")
        }

        assert shown == {"": [kept], "all": [gone, kept], "canceled": [gone], "ended": [gone], "active": [kept]}
        assert bench.get("/v1/subscriptions?status=gone").status_code == 400

    def test_inactive_prices_are_hidden_unless_asked_for(self, bench: Bench) -> None:
        """No one call lists active and inactive prices together."""
        kept, gone = bench.create("price", 2)
        bench.do("delete", "price", gone)

        assert bench.ids("/v1/prices") == bench.ids("/v1/prices?active=true") == [kept]
        assert bench.ids("/v1/prices?active=false") == [gone]

    def test_filters_look_at_the_field(self, bench: Bench) -> None:
        """A list by customer, by status or by ids holds those objects only."""
        one, other = bench.create("customer", 2)
        mine = bench.create("invoice", body={"customer": one})
        paid = bench.create("invoice", body={"customer": other, "status": "paid"})
        products = bench.create("product", 3)

        assert bench.ids(f"/v1/invoices?customer={one}") == mine
        assert bench.ids("/v1/invoices?status=paid") == paid
        assert bench.ids(f"/v1/products?ids[]={products[0]}&ids[1]={products[2]}") == [products[2], products[0]]

    def test_long_inner_lists_are_cut_at_ten(self, bench: Bench) -> None:
        """Lines and items beyond the tenth are on pages of their own; the truth shows them all."""
        [invoice] = bench.create("invoice", parts=13)
        [subscription] = bench.create("subscription", parts=12)
        client = bench.client().v1

        lines = client.invoices.retrieve(invoice).lines
        items = client.subscription_items.list({"subscription": subscription, "limit": 5})

        assert (len(lines.data), lines.has_more) == (10, True)
        assert len({line.id for line in lines.auto_paging_iter()}) == 13
        assert len({line.id for line in client.invoices.line_items.list(invoice).auto_paging_iter()}) == 13
        assert len({item.id for item in items.auto_paging_iter()}) == 12
        whole = truth(bench, "invoice")[invoice]["body"]["lines"]
        assert (len(whole["data"]), whole["has_more"], whole["total_count"]) == (13, False, 13)

    def test_parts_come_and_go(self, bench: Bench) -> None:
        """A change may add lines or take them away; those that stay are the same."""
        [invoice] = bench.create("invoice", parts=3)
        before = bench.ids(f"/v1/invoices/{invoice}/lines")

        bench.do("change", "invoice", invoice, parts=12)
        more = bench.ids(f"/v1/invoices/{invoice}/lines?limit=100")
        bench.do("change", "invoice", invoice, parts=2)

        assert (more[:3], len(more)) == (before, 12)
        assert bench.ids(f"/v1/invoices/{invoice}/lines") == before[:2]

    def test_refunds_of_a_charge(self, bench: Bench) -> None:
        """A refund shows at its charge, which changes with it."""
        one, other = bench.create("charge", 2)
        refunds = bench.create("refund", 2, body={"charge": one, "amount": 100})

        assert bench.ids(f"/v1/charges/{one}/refunds") == bench.ids(f"/v1/refunds?charge={one}") == refunds[::-1]
        assert bench.ids(f"/v1/refunds?charge={other}") == []
        assert truth(bench, "charge")[one]["body"]["amount_refunded"] == 200
        assert bench.ids("/v1/events?type=charge.refunded&limit=100")


class TestEvents:
    """The feed of events."""

    def test_sdk_knows_each_type_that_is_made(self, bench: Bench) -> None:
        """No event has a type that Stripe does not have."""
        for kind in KINDS:
            [id_] = bench.create(kind)
            for _ in range(5):
                bench.do("change", kind, id_)
            bench.http.post("/_control/objects", json={"op": "delete", "kind": kind, "id": id_})

        found = {event.type for event in bench.client().v1.events.list({"limit": 100}).auto_paging_iter()}

        assert len(found) > 15
        assert found <= set(typing.get_args(typing.get_type_hints(stripe.Event)["type"]))

    @pytest.mark.parametrize(
        ("kind", "family"),
        [
            ("customer", "customer"),
            ("product", "product"),
            ("invoice", "invoice"),
            ("subscription", "customer.subscription"),
        ],
    )
    def test_life_of_an_object(self, bench: Bench, kind: str, family: str) -> None:
        """Creation, change and deletion are announced in this order, newest first."""
        [id_] = bench.create(kind)
        bench.do("change", kind, id_)
        bench.do("delete", kind, id_)

        found = [each["type"] for each in bench.get("/v1/events").json()["data"]]

        assert found == [f"{family}.deleted", f"{family}.updated", f"{family}.created"]

    def test_event_shows_the_object_as_it_was(self, bench: Bench) -> None:
        """The snapshot stays as it was, with the earlier values of what changed."""
        [id_] = bench.create("customer", body={"name": "Ada"})
        bench.do("change", "customer", id_, body={"name": "Grace", "address": {"city": "Ulm"}})
        bench.do("change", "customer", id_, body={"name": "Edsger"})

        events = bench.client().v1.events.list().data

        assert [event.data.object["name"] for event in events] == ["Edsger", "Grace", "Ada"]
        previous = events[1].to_dict(for_json=True)["data"]["previous_attributes"]
        assert previous == {"name": "Ada", "address": None, "metadata": {"version": "1"}}
        assert {event.api_version for event in events} == {API_VERSION}
        assert "previous_attributes" not in events[2].to_dict(for_json=True)["data"]

    def test_payment_intent_edits_are_silent(self, bench: Bench) -> None:
        """A status makes an event, a description does not: Stripe has no `payment_intent.updated`."""
        [id_] = bench.create("payment_intent")

        edited = bench.do("change", "payment_intent", id_, body={"description": "new"})
        moved = bench.do("change", "payment_intent", id_, body={"status": "succeeded"})

        assert edited["events"] == []
        assert [bench.get(f"/v1/events/{each}").json()["type"] for each in moved["events"]] == [
            "payment_intent.succeeded"
        ]

    def test_types_and_wildcards(self, bench: Bench) -> None:
        """`type` takes a star, `types` up to twenty names, and never both."""
        bench.create("customer")
        bench.create("subscription")
        client = bench.client().v1

        by_star = [each.type for each in client.events.list({"type": "customer.*"}).data]
        by_names = [each.type for each in client.events.list({"types": ["customer.created", "price.created"]}).data]

        assert by_star == ["customer.subscription.created", "customer.created"]
        assert by_names == ["customer.created"]
        many = "&".join(f"types[]=t{number}" for number in range(21))
        assert bench.get(f"/v1/events?{many}").status_code == 400
        assert bench.get("/v1/events?type=a&types[]=b").status_code == 400

    def test_history_ends_after_thirty_days(self, bench: Bench) -> None:
        """An event older than that is neither listed nor found; its object is."""
        old = bench.do("create", "customer", at=NOW - 30 * 86400 - 1)
        kept = bench.do("create", "customer", at=NOW - 30 * 86400)

        assert bench.ids("/v1/events") == kept["events"]
        assert bench.get(f"/v1/events/{old['events'][0]}").status_code == 404
        assert bench.ids("/v1/customers") == [kept["id"], old["id"]]

    def test_unannounced_change_has_no_event(self, bench: Bench, receiver: Receiver) -> None:
        """Without announcement there is no event, without delivery it stands in the feed only."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        silent = bench.do("create", "customer", announce=False)
        listed = bench.do("create", "customer", deliver=False)

        assert (silent["events"], bench.ids("/v1/events")) == ([], listed["events"])
        assert (bench.flush(), receiver.arrived) == (0, [])

    def test_deleted_customer_ends_its_subscriptions(self, bench: Bench) -> None:
        """What a customer subscribed to is canceled with it, and announced."""
        [customer] = bench.create("customer")
        [subscription] = bench.create("subscription")

        answer = bench.do("delete", "customer", customer)

        assert [each["id"] for each in answer["also"]] == [subscription]
        assert truth(bench, "subscription")[subscription]["body"]["status"] == "canceled"
        types = [each["type"] for each in bench.get("/v1/events?limit=2").json()["data"]]
        assert types == ["customer.deleted", "customer.subscription.deleted"]

    @pytest.mark.parametrize(("stamp", "moved"), [("move", 9), ("keep", 0), ("back", -3600)])
    def test_stamp_of_a_product(self, bench: Bench, stamp: str, moved: int) -> None:
        """`updated` moves, stays or goes back as asked, whatever else changes."""
        [id_] = bench.create("product")
        bench.hands.tick(9)

        bench.do("change", "product", id_, stamp=stamp)

        assert bench.client().v1.products.retrieve(id_).updated == NOW + moved


class TestDeliveries:
    """Webhooks."""

    def test_sdk_believes_the_signature(self, bench: Bench, receiver: Receiver) -> None:
        """The exact bytes are signed, and show the event of the feed."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        made = bench.do("create", "customer", body={"name": "Zoë"})
        assert bench.flush() == 0

        [(headers, body)] = receiver.arrived

        assert stripe.WebhookSignature.verify_header(body.decode(), headers["stripe-signature"], SECRET, None)
        with pytest.raises(stripe.SignatureVerificationError):
            stripe.WebhookSignature.verify_header(body.decode(), headers["stripe-signature"], "whsec_other", None)
        assert headers["stripe-signature"].startswith(f"t={NOW},v1=")
        assert json.loads(body) == {**bench.get(f"/v1/events/{made['events'][0]}").json(), "pending_webhooks": 1}

    def test_each_active_secret_signs(self, bench: Bench, receiver: Receiver) -> None:
        """While a secret is being rolled, a receiver that holds either one is served."""
        bench.put("webhooks", [{"url": receiver.url, "secret": ["whsec_new", "whsec_old"]}])
        bench.create("customer")
        assert bench.flush() == 0

        [(headers, body)] = receiver.arrived

        for secret in ("whsec_new", "whsec_old"):
            assert stripe.WebhookSignature.verify_header(body.decode(), headers["stripe-signature"], secret, None)

    def test_sent_again_until_it_is_taken(self, bench: Bench, receiver: Receiver) -> None:
        """Anything but a 2xx, redirects included, is followed by another attempt with the same bytes."""
        receiver.answers[:] = [500, 302, 410]
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        bench.create("customer")

        assert bench.flush() == 0
        assert len(receiver.arrived) == 4
        assert len({body for _, body in receiver.arrived}) == 1
        report = bench.deliveries()
        assert (report["delivered"], report["answers"]) == (1, {"200": 1, "302": 1, "410": 1, "500": 1})

    def test_attempts_end(self, bench: Bench, receiver: Receiver) -> None:
        """After the last attempt a delivery has failed, and the feed can list its event as such."""
        receiver.answers[:] = [500] * 5
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        failed, taken = bench.do("create", "customer"), None
        assert bench.flush() == 0
        taken = bench.do("create", "customer")
        assert bench.flush() == 0

        assert (len(receiver.arrived), bench.deliveries()["failed"]) == (6, 1)
        assert bench.ids("/v1/events?delivery_success=false") == failed["events"]
        assert bench.ids("/v1/events?delivery_success=true") == taken["events"]

    def test_nobody_there(self, bench: Bench) -> None:
        """An endpoint that cannot be reached counts as refused."""
        bench.put("webhooks", {"url": "http://127.0.0.1:9/hooks", "secret": SECRET})

        bench.create("customer")

        assert bench.flush() == 0
        assert bench.deliveries()["answers"] == {"refused": 5}

    def test_endpoints_get_what_they_want(self, bench: Bench, receiver: Receiver) -> None:
        """Types, scope and being enabled decide; the API lists the endpoints without their secrets."""
        wants = {"url": receiver.url, "secret": SECRET, "events": ["customer.created"], "scope": "acct_7"}
        bench.put("webhooks", [wants, {"url": receiver.url, "secret": SECRET, "enabled": False}])

        bench.create("product", scope="acct_7")
        bench.create("customer")
        made = bench.do("create", "customer", scope="acct_7")

        assert bench.flush() == 0
        assert receiver.ids() == made["events"]
        assert json.loads(receiver.arrived[0][1])["account"] == "acct_7"
        listed = bench.client().v1.webhook_endpoints.list().data
        assert [each.status for each in listed] == ["enabled", "disabled"]
        assert SECRET not in bench.get("/v1/webhook_endpoints").text

    def test_resend(self, bench: Bench, receiver: Receiver) -> None:
        """An event of the feed can be sent again by hand: the same id, the same bytes."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        [event] = bench.do("create", "customer")["events"]

        sent = bench.http.post("/_control/resend", json={"event_id": event}).json()

        assert (sent, bench.flush()) == ({"sent_to": 1}, 0)
        assert receiver.ids() == [event, event]


class TestFaults:
    """What goes wrong on demand."""

    def test_drop(self, bench: Bench, receiver: Receiver) -> None:
        """A dropped delivery is never sent; its event is in the feed, as not delivered."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        bench.put("faults", {"drop": 1})

        made = bench.do("create", "customer")

        assert (bench.flush(), receiver.arrived, bench.deliveries()["dropped"]) == (0, [], 1)
        assert bench.ids("/v1/events?delivery_success=false") == made["events"]

    def test_duplicate(self, bench: Bench, receiver: Receiver) -> None:
        """A duplicate is the same event once more."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        bench.put("faults", {"duplicate": 1})

        made = bench.do("create", "customer")

        assert (bench.flush(), receiver.ids()) == (0, made["events"] * 2)
        assert bench.deliveries()["duplicates"] == 1

    def test_delay(self, bench: Bench, receiver: Receiver) -> None:
        """A delayed delivery arrives, but not before its time."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        bench.put("faults", {"delay": [0.3, 0.4]})
        began = time.monotonic()

        bench.create("customer")

        assert bench.deliveries()["pending"] == 1
        assert (bench.flush(), len(receiver.arrived)) == (0, 1)
        assert time.monotonic() - began >= 0.3

    def test_reorder(self, bench: Bench, receiver: Receiver) -> None:
        """A reordered delivery comes after the next one."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        bench.put("faults", {"reorder": 1})

        first, second = bench.do("create", "customer"), bench.do("create", "customer")

        assert bench.flush() == 0
        assert receiver.ids() == [*second["events"], *first["events"]]

    def test_reordered_last_one_is_not_kept_for_ever(self, bench: Bench, receiver: Receiver) -> None:
        """Where no later one comes, it is sent all the same, after its time or when all is flushed."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        bench.put("faults", {"reorder": 1, "hold_for": 0.01})
        first = bench.do("create", "customer")
        deadline = time.monotonic() + 10
        while not receiver.arrived:
            assert time.monotonic() < deadline
        bench.put("faults", {"reorder": 1, "hold_for": 60})

        second = bench.do("create", "customer")

        assert bench.flush() == 0
        assert receiver.ids() == [*first["events"], *second["events"]]

    def test_reordered_one_waits_for_a_late_one(self, bench: Bench, receiver: Receiver) -> None:
        """Once there is a later one, it is sent after that one, once, however long that takes."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        bench.put("faults", {"reorder": 1, "hold_for": 0, "delay": [1, 1]})
        told: dict[str, object] = {"op": "create", "kind": "customer"}
        quiet = [{**told, "announce": False}] * 500

        made = bench.http.post("/_control/objects", json=[told, *quiet, told]).json()

        assert bench.flush() == 0
        assert receiver.ids() == [*made[-1]["events"], *made[0]["events"]]

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            ("429", stripe.RateLimitError),
            ("lock_timeout", stripe.RateLimitError),
            ("500", stripe.APIError),
            ("503", stripe.APIError),
            ("401", stripe.AuthenticationError),
        ],
    )
    def test_status(self, bench: Bench, status: str, error: type[stripe.StripeError]) -> None:
        """An API call is answered so instead of being done; only a rate limit names its reason."""
        bench.put("faults", {"status": {status: 1.0}})

        with pytest.raises(error) as caught:
            bench.client().v1.customers.list()

        reasons = {"429": "global-rate"}
        assert caught.value.headers is not None
        assert caught.value.headers.get("stripe-rate-limited-reason") == reasons.get(status)
        assert "retry-after" not in caught.value.headers

    def test_timeout(self, bench: Bench) -> None:
        """An unanswered call hangs until the caller gives up, and is counted."""
        bench.put("faults", {"timeout": 1})

        with pytest.raises(httpx.ReadTimeout):
            bench.http.get("/v1/customers", headers={"Authorization": f"Bearer {KEY}"}, timeout=0.2)

        assert bench.http.get("/_control/calls").json()["statuses"] == {"timeout": 1}

    def test_hanging_call_does_not_hold_the_end(self) -> None:
        """Closing the stand-in lets go of a call that is never answered."""
        answers: list[int] = []

        with StripeSandbox().serve() as running, httpx.Client(base_url=running.url) as http:
            http.put("/_control/faults", json={"timeout": 1})
            caller = threading.Thread(
                target=lambda: answers.append(httpx.get(f"{running.url}/v1/customers", timeout=60).status_code)
            )
            caller.start()
            deadline = time.monotonic() + 10
            while not http.get("/_control/calls").json()["total"]:
                assert time.monotonic() < deadline
        caller.join(10)

        assert answers == [504]

    def test_slow(self, bench: Bench) -> None:
        """A slow call takes its time."""
        bench.put("faults", {"slow": [0.2, 0.3]})
        began = time.monotonic()

        assert bench.get("/v1/customers").status_code == 200

        assert time.monotonic() - began >= 0.2

    def test_stale_read_shows_an_older_version(self, bench: Bench) -> None:
        """A GET and a list show what was there some seconds ago, and only that long."""
        [id_] = bench.create("customer", body={"name": "old"})
        bench.hands.tick(60)
        bench.do("change", "customer", id_, body={"name": "new"})
        bench.put("faults", {"stale_reads": 1, "stale_for": 3})

        def shown() -> list[str]:
            listed = bench.get("/v1/customers").json()["data"]
            return [bench.get(f"/v1/customers/{id_}").json()["name"], *(each["name"] for each in listed)]

        at_once = shown()
        bench.hands.tick(4)

        assert (at_once, shown()) == (["old", "old"], ["new", "new"])

    def test_stale_read_does_not_know_what_is_new(self, bench: Bench) -> None:
        """What was created a moment ago is missing, what was deleted a moment ago is still there."""
        [gone] = bench.create("customer")
        bench.hands.tick(60)
        bench.do("delete", "customer", gone)
        [new] = bench.create("customer")
        bench.put("faults", {"stale_reads": 1})

        assert bench.get(f"/v1/customers/{new}").status_code == 404
        assert bench.get(f"/v1/customers/{gone}").json()["name"]
        assert bench.ids("/v1/customers") == [gone]
        assert bench.ids("/v1/events?type=customer.deleted") == []

    def test_stale_read_of_what_changed_very_often(self, bench: Bench) -> None:
        """Versions that are forgotten do not make an object disappear."""
        [id_] = bench.create("customer")
        for _ in range(40):
            bench.do("change", "customer", id_)
        bench.hands.tick(3)
        bench.put("faults", {"stale_reads": 1, "stale_for": 5})

        assert bench.get(f"/v1/customers/{id_}").json()["id"] == id_

    def test_pages_shift(self, bench: Bench) -> None:
        """Between two pages the provider creates one or deletes the very cursor, for real."""
        made = bench.create("customer", 20)
        bench.put("faults", {"shift_pages": 1})

        statuses = {bench.get(f"/v1/customers?limit=3&ending_before={made[0]}").status_code for _ in range(8)}
        cursors = [bench.ids("/v1/customers?limit=2")[-1] for _ in range(8)]
        bench.put("faults", {})

        follow = {bench.get(f"/v1/customers?starting_after={cursor}").status_code for cursor in cursors}
        assert (statuses, follow) == ({200}, {200, 400})
        now = truth(bench, "customer")
        assert sum(each["deleted"] for each in now.values()) > 0
        assert len(now) > 20

    def test_inner_pages_shift(self, bench: Bench) -> None:
        """Between two pages of lines the invoice gets another one, and a new version."""
        [invoice] = bench.create("invoice", parts=5)
        bench.put("faults", {"shift_pages": 1})

        bench.get(f"/v1/invoices/{invoice}/lines?limit=2")

        found = truth(bench, "invoice")[invoice]
        assert (found["version"], found["body"]["lines"]["total_count"]) == (2, 6)

    @pytest.mark.parametrize(
        ("lost", "status", "error"),
        [
            (True, 401, stripe.AuthenticationError),
            ("401", 401, stripe.AuthenticationError),
            (403, 403, stripe.PermissionError),
        ],
    )
    def test_lost_access(self, bench: Bench, lost: object, status: int, error: type[stripe.StripeError]) -> None:
        """A credential that no longer opens the account is refused everywhere."""
        [id_] = bench.create("customer")
        bench.put("faults", {"lost_access": lost})

        with pytest.raises(error):
            bench.client().v1.customers.retrieve(id_)

        assert {bench.get(path).status_code for path in ("/v1/account", "/v1/events", "/v1/prices")} == {status}

    def test_lost_access_may_look_like_absence(self, bench: Bench) -> None:
        """A key that opens another account finds nothing, and only the account's id tells."""
        [id_] = bench.create("customer")
        ours = bench.get("/v1/account").json()["id"]
        bench.put("faults", {"lost_access": "404"})

        assert bench.get(f"/v1/customers/{id_}").json()["error"]["code"] == "resource_missing"
        assert bench.ids("/v1/customers") == []
        assert bench.get("/v1/account").json()["id"] != ours

    def test_same_seed_draws_the_same_faults(self, bench: Bench) -> None:
        """The seed and the calls decide, nothing else; another seed draws others."""
        bench.put("faults", {"status": {"429": 0.3, "500": 0.2}})

        def drawn(seed: int) -> list[int]:
            assert bench.http.post("/_control/seed", json={"seed": seed}).json() == {"seed": seed}
            return [bench.get("/v1/customers").status_code for _ in range(60)]

        first, again, other = drawn(1), drawn(1), drawn(2)

        assert first == again != other
        assert 6 < first.count(429) < 30

    @pytest.mark.parametrize(
        "faults",
        [
            {"dorp": 1},
            {"drop": 1.5},
            {"drop": -1},
            {"drop": True},
            {"delay": 3},
            {"delay": [2, 1]},
            {"status": {"teapot": 1}},
            {"status": {"429": 0.6, "500": 0.6}},
            {"lost_access": 500},
            [],
        ],
    )
    def test_faults_that_make_no_sense_are_refused(self, bench: Bench, faults: object) -> None:
        """A misspelt or impossible fault is a 400 with a sentence, and changes nothing."""
        bench.put("faults", {"drop": 0.5})

        response = bench.http.put("/_control/faults", json=faults)

        assert (response.status_code, bool(response.json()["error"])) == (400, True)
        assert bench.http.get("/_control/faults").json()["drop"] == 0.5


class TestLimits:
    """Rates."""

    def test_bucket_of_one_operation(self, bench: Bench) -> None:
        """An operation has a second's worth of calls, whatever the ids; others are not affected; it fills again."""
        made = bench.create("customer", 3)
        bench.put("limits", {"each": 2})
        paths = [f"/v1/customers/{id_}" for id_ in made]

        answers = [bench.get(path) for path in paths]

        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[2].headers["Stripe-Rate-Limited-Reason"] == "endpoint-rate"
        assert "Retry-After" not in answers[2].headers
        assert bench.get("/v1/customers").status_code == 200
        bench.hands.tick(0.5)
        assert [bench.get(path).status_code for path in paths] == [200, 429, 429]

    def test_bucket_of_all_calls(self, bench: Bench) -> None:
        """All operations share one; a call refused by one bucket takes nothing from the other."""
        bench.put("limits", {"every": 3, "named": {"GET /v1/events": 1}})

        statuses = [bench.get(f"/v1/{path}").status_code for path in ("events", "events", "prices", "charges")]
        last = bench.get("/v1/refunds")

        assert statuses == [200, 429, 200, 200]
        assert (last.status_code, last.headers["Stripe-Rate-Limited-Reason"]) == (429, "global-rate")

    def test_off_by_default(self, bench: Bench) -> None:
        """Without being told, nothing is limited, and the control routes never are."""
        assert {bench.get("/v1/customers").status_code for _ in range(60)} == {200}

        bench.put("limits", {"every": 1})

        assert {bench.http.get("/_control/calls").status_code for _ in range(5)} == {200}


class TestAccess:
    """Keys and accounts."""

    @pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer pk_test_x"}, {"Authorization": "Basic !"}])
    def test_no_key_no_answer(self, bench: Bench, headers: dict[str, str]) -> None:
        """A call without a secret key is a 401."""
        response = bench.http.get("/v1/customers", headers=headers)

        assert response.status_code == 401

    def test_only_the_given_key_opens(self, theatre: Theatre, hands: Hands) -> None:
        """Where a key is given, no other opens, and none is repeated in the answer."""
        with theatre.plays(StripeSandbox(api_key="sk_test_right"), hands) as bench:
            assert bench.client("sk_test_right").v1.accounts.retrieve_current().id == "acct_standin"

            with pytest.raises(stripe.AuthenticationError) as caught:
                bench.client("sk_test_wrong_one_here").v1.customers.list()

            assert "sk_test_wrong_one_here" not in str(caught.value)
            assert bench.http.get("/v1/account", auth=("sk_test_right", "")).status_code == 200

    def test_restricted_key_lacks_a_kind(self, bench: Bench) -> None:
        """It is refused for that kind, reads and lists alike, and opens all others."""
        bench.put("keys", {"rk_test_reader": ["invoice"]})
        client = bench.client("rk_test_reader").v1

        for call in (client.invoices.list, lambda: client.invoices.retrieve("in_1")):
            with pytest.raises(stripe.PermissionError):
                call()

        assert client.customers.list().data == []

    def test_connected_account_has_its_own_objects(self, bench: Bench) -> None:
        """Only the header leads to them; an account that is not connected is refused."""
        [id_] = bench.create("customer", scope="acct_7")

        def read(account: str | None) -> str:
            options: stripe.RequestOptions = {"stripe_account": account} if account else {}
            return bench.client().v1.customers.retrieve(id_, options=options).id

        assert read("acct_7") == id_
        for account, error in ((None, stripe.InvalidRequestError), ("acct_8", stripe.PermissionError)):
            with pytest.raises(error):
                read(account)
        assert bench.client().v1.accounts.retrieve("acct_7").id == "acct_7"

    def test_answers_carry_stripes_headers(self, bench: Bench) -> None:
        """Every answer has one request id, one date of the provider's clock, and the version that was asked for."""
        bench.put("clock", {"skew": 90})

        answers = [bench.get("/v1/customers"), bench.get("/v1/customers/cus_x"), bench.get("/v1/nothing")]

        assert [each.status_code for each in answers] == [200, 404, 404]
        assert len({each.headers["Request-Id"] for each in answers}) == 3
        assert {parsedate_to_datetime(each.headers["Date"]).timestamp() for each in answers} == {NOW + 90}
        assert {each.headers["Stripe-Version"] for each in answers} == {API_VERSION}

    def test_version_is_the_one_the_sdk_pins(self) -> None:
        """The default version of the account is that of the installed SDK."""
        assert stripe.api_version == API_VERSION


class TestControl:
    """The control routes."""

    def test_calls_are_counted_by_operation(self, bench: Bench) -> None:
        """Counts go by operation and status, whatever the id; the last calls are kept."""
        [id_] = bench.create("customer")
        for path in (id_, id_, "cus_x"):
            bench.get(f"/v1/customers/{path}")
        bench.get("/v1/events?limit=3")

        calls = bench.http.get("/_control/calls?last=2").json()

        assert calls["operations"] == {
            "GET /v1/customers/{id}": {"200": 2, "404": 1},
            "GET /v1/events": {"200": 1},
        }
        assert (calls["total"], [each["path"] for each in calls["last"]]) == (4, ["/v1/customers/cus_x", "/v1/events"])
        bench.http.delete("/_control/calls")
        assert bench.http.get("/_control/calls").json()["total"] == 0

    def test_many_operations_in_one_request(self, bench: Bench) -> None:
        """A list is carried out in order, and says of each what came of it."""
        asked = [
            {"op": "create", "kind": "customer", "id": "cus_bulk"},
            {"op": "change", "kind": "customer", "id": "cus_bulk"},
            {"op": "change", "kind": "customer", "id": "cus_nobody"},
            {"op": "delete", "kind": "customer", "id": "cus_bulk"},
        ]

        answers = bench.http.post("/_control/objects", json=asked).json()

        assert [each.get("version") for each in answers] == [1, 2, None, 3]
        assert "cus_nobody" in answers[2]["error"]

    @pytest.mark.parametrize(
        "asked",
        [
            {"op": "erase", "kind": "customer"},
            {"op": "create", "kind": "unicorn"},
            {"op": "create"},
            {"op": "change", "kind": "customer"},
            {"op": "change", "kind": "customer", "id": "cus_x"},
            {"op": "create", "kind": "customer", "deliver": "yes"},
            {"op": "create", "kind": "customer", "stamp": "sideways"},
            {"op": "create", "kind": "customer", "colour": "red"},
            {"op": "create", "kind": "customer", "scope": "elsewhere"},
            {"op": "create", "kind": "customer", "body": {"id": "cus_other"}},
            {"op": "create", "kind": "subscription", "body": {"items": []}},
            {"op": "change", "kind": "charge", "id": "ch_kept", "parts": 3},
            {"op": "delete", "kind": "charge", "id": "ch_kept"},
            {"op": "recreate", "kind": "charge", "id": "ch_kept"},
            {"op": "create", "kind": "charge", "id": "ch_kept"},
            "create",
        ],
    )
    def test_operations_that_make_no_sense_are_refused(self, bench: Bench, asked: object) -> None:
        """Each is a 400 with a sentence, and changes nothing."""
        bench.do("create", "charge", "ch_kept")
        before = bench.http.get("/_control/objects").json()

        response = bench.http.post("/_control/objects", json=asked)

        assert (response.status_code, bool(response.json()["error"])) == (400, True)
        assert bench.http.get("/_control/objects").json() == before
        assert [(each["kind"], each["version"]) for each in before] == [("account", 1), ("charge", 1)]

    @pytest.mark.parametrize(
        "asked",
        [{"url": "ftp://x", "secret": "s"}, {"url": "http://x"}, {"url": "http://x", "secret": "s", "name": "x"}, 3],
    )
    def test_webhooks_that_make_no_sense_are_refused(self, bench: Bench, asked: object) -> None:
        """An endpoint needs an address and a secret; there is no unsigned delivery."""
        assert bench.http.put("/_control/webhooks", json=asked).status_code == 400

    def test_unknown_control_route_names_the_others(self, bench: Bench) -> None:
        """It is a 404 of its own, and no API call."""
        response = bench.http.get("/_control/object")

        assert (response.status_code, "/faults" in response.json()["error"]) == (404, True)
        assert bench.http.get("/_control/calls").json()["total"] == 0

    def test_writers_at_once_lose_nothing(self, bench: Bench) -> None:
        """Operations from several threads give each change its own version and event."""
        [id_] = bench.create("customer")

        def change() -> None:
            with httpx.Client(base_url=bench.url) as http:
                asked = [{"op": "change", "kind": "customer", "id": id_}] * 25
                assert http.post("/_control/objects", json=asked).status_code == 200

        writers = [threading.Thread(target=change) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()

        assert truth(bench, "customer")[id_]["version"] == 101
        events = list(bench.client().v1.events.list({"limit": 100}).auto_paging_iter())
        assert [each.data.object["metadata"]["version"] for each in events] == [str(n) for n in range(101, 0, -1)]


class TestServing:
    """Running it."""

    @pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104 - to be refused
    def test_loopback_only(self, host: str) -> None:
        """No other machine can reach it, whatever it is told."""
        with pytest.raises(ValueError, match="this machine only"), serving(StripeSandbox(), host=host):
            pass

    def test_unknown_provider(self) -> None:
        """A provider without a stand-in is named with those that have one."""
        with pytest.raises(ValueError, match="stripe"):
            stand_in("initech")

    @pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
    def test_runs_until_it_is_told_to_end(self, ending: signal.Signals) -> None:
        """It says where it listens, and ends in peace."""
        program = "import adapters.sandbox as s; s.run('stripe', port=0, announce=lambda url: print(url, flush=True))"

        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            url = running.stdout.readline().strip()
            status = httpx.get(f"{url}/v1/account", auth=(KEY, "")).status_code
            running.send_signal(ending)
            code = running.wait(10)

        assert (url.startswith("http://127.0.0.1:"), status, code) == (True, 200, 0)
