"""Shopify's own habits, each behind real HTTP: what it says of its objects, and what it says instead."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import shopify
from graphql import FragmentDefinitionNode, GraphQLEnumType, get_operation_ast, parse, validate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import shopify as shopify_adapter
from adapters.sandbox.shopify import ShopifySandbox
from adapters.sandbox.shopify.cost import SINGLE_QUERY, Cost
from adapters.sandbox.shopify.schema import admin_schema
from adapters.shopify import KINDS, AccessToken, ClientCredentials, Limits, Shopify, documents, limits, lists
from adapters.shopify.documents import Documents
from adapters.shopify.ignored import IGNORED, spelled, why_ignored
from adapters.shopify.rows import Walk
from adapters.shopify.webhooks import SECRETS
from reconciler import content
from reconciler.adapter import Issued
from reconciler.errors import (
    AccessLost,
    ConfigError,
    DeliveryMalformed,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from reconciler.model import Delivery, Named, ObjectRef, Proof
from tests.adapters.scripted import Said
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from reconciler.model import Hint, Notification, Page
    from tests.adapters.scripted import Asked, Scripted

    MakeShopify = Callable[..., Shopify]
    MakeScripted = Callable[[Callable[[Asked], Said]], Scripted]

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
TOKEN = "shpat_standinofatoken"
SECRET = "shpss_standinofasecret"
DAY = 24 * 3600
BIG = 9_007_199_254_740_993


@pytest.fixture
def shopify_at() -> Iterator[MakeShopify]:
    """Yield what makes an adapter for the provider at a URL."""
    with ExitStack() as stack:

        def made(url: str = "http://127.0.0.1:9", **given: Any) -> Shopify:
            asked: dict[str, Any] = {
                "shop": "standin.myshopify.com",
                "credential": AccessToken(TOKEN),
                "webhook_secrets": [SECRET],
                "kinds": None,
                "budget": Spent(),
                "api_version": "2026-10",
                "api_base": url,
                "clock": lambda: NOW,
                **given,
            }
            return stack.enter_context(closing(Shopify("shop-berlin", **asked)))

        yield made


class Shop:
    """A stand-in of Shopify."""

    def __init__(self, stack: ExitStack, **settings: Any) -> None:
        running = stack.enter_context(ShopifySandbox(7, **settings).serve())
        self.url = running.url
        self._control = stack.enter_context(httpx.Client(base_url=f"{running.url}/_control", timeout=30))

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object and return its id."""
        asked = {"op": op, "kind": kind, **({"id": id_} if id_ else {}), **more}
        return str(self.put("/objects", asked, method="POST")["id"])

    def put(self, path: str, asked: Any = None, *, method: str = "PUT") -> Any:
        """Ask something of the control routes."""
        answer = self._control.request(method, path, json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def shop() -> Iterator[Shop]:
    """Yield a stand-in that takes our token only."""
    with ExitStack() as stack:
        yield Shop(stack, access_token=TOKEN, client_secret=SECRET)


class Tokens:
    """Shares tokens within this test."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.issued: list[Issued] = []

    def current(self, issue: Callable[[], Issued]) -> str:
        """Return the token, or a new one."""
        if self.token is None:
            self.issued.append(issue())
            self.token = self.issued[-1].token
        return self.token

    def forget(self, token: str) -> None:
        """Drop it."""
        self.token = None if self.token == token else self.token


def ref(kind: str, id_: str | int) -> ObjectRef:
    """Return a ref of the source under test."""
    return ObjectRef("shop-berlin", "", kind, str(id_))


def delivered(body: Any, topic: str = "orders/updated", **headers: str) -> Delivery:
    """Return a delivery as Shopify would sign it; header names are short, with `_` for `-`."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    digest = base64.b64encode(hmac.digest(SECRET.encode(), raw, hashlib.sha256)).decode()
    told = {"topic": topic, "webhook_id": "w-1", "shop_domain": "standin.myshopify.com", **headers}
    named = {f"x-shopify-{name.replace('_', '-')}": value for name, value in told.items()}
    return Delivery({"x-shopify-hmac-sha256": digest, **named}, raw, NOW)


def read(adapter: Shopify, body: Any, topic: str = "orders/updated", **headers: str) -> Notification:
    """Return the one notification of a delivery."""
    [note] = adapter.read(delivered(body, topic, **headers))
    return note


def refs(note: Notification) -> list[tuple[str, str]]:
    """Return kind and id of what a notification names."""
    return [(each.ref.kind, each.ref.id) for each in note.named]


def asked_of(asked: Asked) -> tuple[str, dict[str, Any]]:
    """Return the name of a query and its variables."""
    body = json.loads(asked.body)
    return str(body["query"].split("(")[0].split(" ")[1]), body["variables"]


def connection(nodes: Sequence[Mapping[str, Any]], after: str | None = None) -> dict[str, Any]:
    """Return a page of a list, which goes on *after*."""
    return {"nodes": list(nodes), "pageInfo": {"hasNextPage": after is not None, "endCursor": after}}


def customer(number: int, updated_at: str = "2026-11-30T12:00:00Z", **more: Any) -> dict[str, Any]:
    """Return as much of a customer as the adapter looks at."""
    gid = f"gid://shopify/Customer/{number}"
    return {"id": gid, "updatedAt": updated_at, "addressesV2": connection([]), **more}


def ids(pages: Iterable[Page]) -> list[str]:
    """Return the ids of all snapshots."""
    return [each.ref.id for page in pages for each in page.snapshots]


def hints(pages: Iterable[Page]) -> list[Hint]:
    """Return all hints."""
    return [hint for page in pages for hint in page.hints]


# What a delivery says


@pytest.mark.parametrize(
    ("topic", "body", "named"),
    [
        ("orders/create", {"id": 1}, [("order", "1")]),
        ("orders/edited", {"order_edit": {"id": 5, "order_id": 1}}, [("order", "1")]),
        ("order_transactions/create", {"id": 5, "order_id": 1}, [("order", "1")]),
        ("fulfillments/update", {"id": 5, "order_id": 1}, [("order", "1")]),
        ("refunds/create", {"id": 5, "order_id": 1}, [("order", "1"), ("refund", "5")]),
        (
            "orders/updated",
            {"id": 1, "refunds": [{"id": 5}, {"id": 6}]},
            [("order", "1"), ("refund", "5"), ("refund", "6")],
        ),
        ("products/update", {"id": 2, "variants": [{"id": 7}]}, [("product", "2"), ("product_variant", "7")]),
        (
            "products/update",
            {
                "id": 2,
                "variants": [{"id": 7}],
                "variant_gids": [{"admin_graphql_api_id": "gid://shopify/ProductVariant/8"}],
            },
            [("product", "2"), ("product_variant", "7"), ("product_variant", "8")],
        ),
        ("products/delete", {"id": 2}, [("product", "2")]),
        ("variants/in_stock", {"id": 7, "product_id": 2}, [("product", "2"), ("product_variant", "7")]),
        ("customers/disable", {"id": 3}, [("customer", "3")]),
        (
            "customers/merge",
            {
                "admin_graphql_api_customer_kept_id": "gid://shopify/Customer/3",
                "admin_graphql_api_customer_deleted_id": "gid://shopify/Customer/4",
            },
            [("customer", "3"), ("customer", "4")],
        ),
        ("customer.tags_added", {"customerId": "gid://shopify/Customer/3", "tags": ["a"]}, [("customer", "3")]),
        ("customers_email_marketing_consent/update", {"customer_id": 3}, [("customer", "3")]),
        ("app/uninstalled", {"id": 9, "name": "shop"}, []),
        ("themes/publish", {"id": 9, "admin_graphql_api_id": "gid://shopify/OnlineStoreTheme/9"}, []),
        ("Order", {"order": {"id": "gid://shopify/Order/1"}}, [("order", "1")]),
        ("", {"admin_graphql_api_id": "gid://shopify/Product/2"}, [("product", "2")]),
        ("orders/updated", {"id": "x"}, []),
        ("orders/updated", {"id": True}, []),
        ("orders/updated", {"id": -1}, []),
        ("orders/updated", {"refunds": {"id": 5}}, []),
        ("orders/updated", {}, []),
    ],
)
def test_topics(shopify_at: MakeShopify, topic: str, body: dict[str, Any], named: list[tuple[str, str]]) -> None:
    """Each topic names the objects it concerns, by whatever its body calls them."""
    note = read(shopify_at(), body, topic)

    assert refs(note) == named
    assert note.event_type == topic


def test_secrets_of_a_webhook_are_not_handed_on(shopify_at: MakeShopify) -> None:
    """What opens a cart, an order's page or an account is left out, wherever it stands; nor are the bytes kept then."""
    planted = {name: f"planted-{name}" for name in SECRETS}
    body = {"id": 1, "note": "\0", "customer": {"id": 3, **planted}, "fulfillments": [{"id": 4, **planted}], **planted}

    note = read(shopify_at(), body)

    assert "planted" not in f"{note.payload} {note.raw!r}"
    assert note.payload["customer"] == {"id": 3}
    assert refs(note)[0] == ("order", "1")


@pytest.mark.parametrize("topic", ["customers/data_request", "customers/redact", "shop/redact"])
def test_compliance_topics_are_answered(shopify_at: MakeShopify, topic: str) -> None:
    """What every app must answer is authentic, kept, and about no object."""
    note = read(shopify_at(), {"shop_id": 1, "customer": {"id": 3}, "orders_to_redact": [1]}, topic)

    assert (note.named, note.skipped, note.event_type) == ((), "", topic)


def test_k17_one_act_of_the_merchant(shopify_at: MakeShopify) -> None:
    """Fifty products changed by one act are fifty events, of which each names its product."""
    adapter = shopify_at()

    notes = [
        read(adapter, {"id": number}, "products/update", webhook_id=f"w-{number}", event_id="one-act")
        for number in range(1, 51)
    ]

    assert len({note.event_id for note in notes}) == 50
    assert [refs(note) for note in notes] == [[("product", str(number))] for number in range(1, 51)]


def test_k17_one_delivery_again(shopify_at: MakeShopify) -> None:
    """A delivery that comes again is the same event, and another of the same object is not."""
    adapter = shopify_at()

    first, again = (read(adapter, {"id": 1}, webhook_id="w-1", event_id="one-act") for _ in range(2))
    other = read(adapter, {"id": 1}, webhook_id="w-2", event_id="one-act")

    assert first.event_id == again.event_id == "w-1"
    assert other.event_id == "w-2"


@pytest.mark.parametrize("unusable", ["", " ", "\udcff\0", "x" * 256])
def test_k17_no_webhook_id(shopify_at: MakeShopify, unusable: str) -> None:
    """Without an id that can be one, topic, time and body make it: the same for the same, another for any other."""
    adapter = shopify_at()
    said: dict[str, str] = {"webhook_id": unusable, "triggered_at": "2026-11-30T12:00:00.5Z"}

    first, again = (read(adapter, {"id": 1}, **said).event_id for _ in range(2))
    others = [
        read(adapter, {"id": 2}, **said).event_id,
        read(adapter, {"id": 1}, "orders/paid", **said).event_id,
        read(adapter, {"id": 1}, **{**said, "triggered_at": "2026-11-30T12:00:01Z"}).event_id,
    ]

    assert first == again
    assert len(first) == len("sha256:") + 64
    assert len({first, *others}) == 4


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("2026-11-01T01:30:00-04:00", datetime(2026, 11, 1, 5, 30, tzinfo=UTC)),
        ("2026-11-01T01:10:00-05:00", datetime(2026, 11, 1, 6, 10, tzinfo=UTC)),
        ("2026-11-01T06:10:00Z", datetime(2026, 11, 1, 6, 10, tzinfo=UTC)),
        ("2026-11-01T06:10:00.500Z", datetime(2026, 11, 1, 6, 10, 0, 500_000, tzinfo=UTC)),
        ("2026-11-01T06:10:00", datetime(2026, 11, 1, 6, 10, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        (1_790_000_000, None),
        (None, None),
    ],
)
def test_k23_stamps_are_instants(shopify_at: MakeShopify, written: object, instant: datetime | None) -> None:
    """A stamp is the instant that it names, whatever the shop's offset; what names none is none."""
    [named] = read(shopify_at(), {"id": 1, "updated_at": written}, "customers/update").named

    assert named.stamp == instant


def test_k23_one_instant_in_both_forms(shop: Shop, shopify_at: MakeShopify) -> None:
    """A webhook with the shop's offset and the Admin API with its Z tell the same stamp."""
    adapter = shopify_at(shop.url)
    id_ = shop.act("create", "customer", at=1_793_500_000)

    stamp = adapter.fetch(ref("customer", id_)).stamp

    assert stamp == datetime.fromtimestamp(1_793_500_000, UTC)
    local = stamp.astimezone(timezone(timedelta(hours=-4))).isoformat()
    assert read(adapter, {"id": int(id_), "updated_at": local}, "customers/update").named[0].stamp == stamp


def test_stamps_are_those_of_the_named(shopify_at: MakeShopify) -> None:
    """A variant has its own stamp, a refund none, and what is named by an id alone none."""
    adapter = shopify_at()
    variant = {"id": 7, "updated_at": "2026-11-30T11:00:00Z"}
    product = {"id": 2, "updated_at": "2026-11-30T12:00:00Z", "variants": [variant]}

    of_product = {each.ref.kind: each.stamp for each in read(adapter, product, "products/update").named}
    refund = {"id": 5, "order_id": 1, "updated_at": "2026-11-30T12:00:00Z"}
    of_refund = {each.ref.kind: each.stamp for each in read(adapter, refund, "refunds/create").named}

    assert of_product == {
        "product": datetime(2026, 11, 30, 12, tzinfo=UTC),
        "product_variant": datetime(2026, 11, 30, 11, tzinfo=UTC),
    }
    assert of_refund == {"order": None, "refund": None}


def test_k27_a_deletion_needs_an_id_only(shopify_at: MakeShopify) -> None:
    """What is deleted is named by its exact number, without a stamp, and told to be deleted."""
    note = read(shopify_at(), b'{"id":%d}' % BIG, "products/delete")

    assert note.named == (Named(ref("product", BIG), None, {"deleted": "products/delete"}),)


def test_a_captured_body_is_no_deletion(shopify_at: MakeShopify) -> None:
    """Headers are not signed: a body that shows an object was not sent to tell of its deletion."""
    [named] = read(shopify_at(), {"id": 1, "updated_at": "2026-11-30T12:00:00Z"}, "orders/delete").named

    assert named.locator is None


def test_rounded_ids(shopify_at: MakeShopify) -> None:
    """Where a body has the gid, the number is taken from it."""
    body = {"id": BIG - 1, "admin_graphql_api_id": f"gid://shopify/Order/{BIG}"}

    assert refs(read(shopify_at(), body)) == [("order", str(BIG))]
    assert refs(read(shopify_at(), {**body, "admin_graphql_api_id": "gid://shopify/Draft/1"})) == [
        ("order", str(BIG - 1))
    ]


def test_both_families_of_headers(shopify_at: MakeShopify) -> None:
    """The newer headers, which begin `shopify-`, say the same."""
    classic = delivered({"id": 1}, triggered_at="2026-11-30T07:00:00.25-05:00")
    events = Delivery({name.removeprefix("x-"): value for name, value in classic.headers.items()}, classic.body, NOW)

    [of_classic], [of_events] = shopify_at().read(classic), shopify_at().read(events)

    assert of_classic == of_events
    assert of_classic.occurred_at == datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("domain", ["other.myshopify.com", "STANDIN.myshopify.com.example.org"])
def test_another_shop(shopify_at: MakeShopify, domain: str) -> None:
    """A delivery for another shop of the same app is authentic, and names nothing here."""
    note = read(shopify_at(), {"id": 1}, shop_domain=domain)

    assert note.named == ()
    assert domain.lower() in note.skipped


@pytest.mark.parametrize("domain", ["standin.myshopify.com", "Standin.MyShopify.com", ""])
def test_our_shop(shopify_at: MakeShopify, domain: str) -> None:
    """Our domain may be spelled as it likes, and may be missing."""
    note = read(shopify_at(), {"id": 1}, shop_domain=domain)

    assert (refs(note), note.skipped) == ([("order", "1")], "")


def test_k47_another_version(shopify_at: MakeShopify) -> None:
    """A webhook in another API version is no error: it only names its object."""
    note = read(shopify_at(), {"id": 1, "gone_field": {}}, api_version="2023-01")

    assert refs(note) == [("order", "1")]
    assert shopify_at().shown(note.payload, ref("order", 1)) is None


def test_only_mirrored_kinds_are_named(shopify_at: MakeShopify) -> None:
    """Of kinds that are not mirrored nothing is named, nor looked for by other means."""
    adapter = shopify_at(kinds=["product"])

    assert read(adapter, {"id": 3, "last": {"id": "gid://shopify/Product/2"}}, "customers/update").named == ()
    assert refs(read(adapter, {"id": 2, "variants": [{"id": 7}]}, "products/update")) == [("product", "2")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    body=st.one_of(
        st.binary(max_size=50),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["id", "order_id", "refunds", "variants", "admin_graphql_api_id", "updated_at"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
    ),
    topic=st.sampled_from(sorted({topic for row in KINDS.values() for topic in row.topics})) | st.text(max_size=12),
    more=st.dictionaries(st.sampled_from(["webhook_id", "triggered_at", "shop_domain"]), st.text(max_size=30)),
)
def test_whatever_comes_is_read_or_refused(
    shopify_at: MakeShopify, body: object, topic: str, more: dict[str, str]
) -> None:
    """Whatever authentic bytes and headers hold, they are read or refused as malformed."""
    adapter = shopify_at()
    try:
        delivery = delivered(body, topic, **more)
    except UnicodeEncodeError:
        return

    with suppress(DeliveryMalformed):
        [note] = adapter.read(delivery)
        assert note.event_id
        assert all(each.ref.id.isdigit() for each in note.named)


# What an answer means


def answering(scripted: MakeScripted, said: Said) -> str:
    """Return the URL of a provider that always says so."""
    return scripted(lambda _: said).url


def refusal(code: str, message: str = "No.", **more: Any) -> Said:
    """Return an error as it stands inside a 200."""
    return Said({"errors": [{"message": message, "extensions": {"code": code}}], **more})


ERRORS: list[tuple[Said, type[SourceError]]] = [
    (Said({"errors": "[API] Invalid API key or access token"}, 401), AccessLost),
    (Said({"errors": "Unavailable Shop"}, 402), AccessLost),
    (Said({"errors": "[API] This action requires merchant approval"}, 403), AccessLost),
    (Said({"errors": "Not Found"}, 404), AccessLost),
    (Said({"errors": "Locked"}, 423), AccessLost),
    (Said(b"", 301, {"Location": "https://elsewhere.example/admin"}), AccessLost),
    (Said(b"", 302, {"Location": "/password"}), AccessLost),
    (Said({"errors": "?"}, 400), SourceRefused),
    (Said({"errors": {"query": "Required parameter missing or invalid"}}, 422), SourceRefused),
    (Said(b"slow down", 429), SourceBusy),
    (Said(b"<html>", 500), SourceUnavailable),
    (Said(b"<html>", 503), SourceUnavailable),
    (Said(b"", 408), SourceUnavailable),
    (Said(b"<html>"), SourceUnavailable),
    (Said(b"[]"), SourceUnavailable),
    (Said({}), SourceUnavailable),
    (Said({"data": None}), SourceUnavailable),
    (Said({"data": []}), SourceUnavailable),
    (Said({"data": {}}), SourceUnavailable),
    (refusal("THROTTLED"), SourceBusy),
    (refusal("THROTTLED", data=None), SourceBusy),
    (refusal("ACCESS_DENIED", data={"customer": None}), AccessLost),
    (refusal("SHOP_INACTIVE"), AccessLost),
    (refusal("INTERNAL_SERVER_ERROR", data=None), SourceUnavailable),
    (refusal("MAX_COST_EXCEEDED"), SourceRefused),
    (refusal("undefinedField"), SourceRefused),
    (refusal("", data={"customer": None}), SourceRefused),
    (refusal("", data={"customer": customer(1)}), SourceRefused),
    (Said({"errors": [None], "data": {"customer": None}}), SourceRefused),
    (Said({"errors": "strange", "data": {"customer": None}}), SourceRefused),
    (Said({"data": {"customer": customer(2)}}), SourceRefused),
    (Said({"data": {"customer": "no object"}}), SourceRefused),
    (Said({"data": {"customer": None}}, 200, {"X-Shopify-API-Version": "2027-01"}), SourceUnavailable),
]


@pytest.mark.parametrize(("said", "error"), ERRORS)
def test_a_failure_is_no_absence(
    scripted: MakeScripted, shopify_at: MakeShopify, said: Said, error: type[SourceError]
) -> None:
    """Whatever stands in the way of an answer is an error of its sort, and never an absence."""
    adapter = shopify_at(answering(scripted, said))

    with pytest.raises(SourceError) as raised:
        adapter.fetch(ref("customer", 1))

    assert type(raised.value) in {error, *error.__subclasses__()} - (
        {SourceBusy} if error is SourceUnavailable else set()
    )


@pytest.mark.parametrize(("said", "error"), [each for each in ERRORS if each[1] is not SourceBusy])
def test_a_failure_is_no_empty_list(
    scripted: MakeScripted, shopify_at: MakeShopify, said: Said, error: type[SourceError]
) -> None:
    """What is no list raises in a list, too."""
    del error
    adapter = shopify_at(answering(scripted, said))

    with pytest.raises(SourceError):
        list(adapter.crawl("customer", ""))


def test_the_gravest_error_decides(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """Of several errors the one that says most about what to do is raised."""
    errors = [{"message": "a"}, {"message": "b", "extensions": {"code": "ACCESS_DENIED"}}]
    adapter = shopify_at(answering(scripted, Said({"errors": errors, "data": {"customer": customer(1)}})))

    with pytest.raises(AccessLost, match="b"):
        adapter.fetch(ref("customer", 1))


def test_null_is_an_absence(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A plain null is the absence of what is readable at any age, with the time of the answer."""
    absent = shopify_at(answering(scripted, Said({"data": {"customer": None}}))).fetch(ref("customer", 1))

    assert (absent.body, absent.proof, absent.because) == (None, Proof.NOT_FOUND, "customer: null")
    assert absent.observed_at == datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_k53_throttled_once_in_a_list(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A list goes on after an answer that says to wait, and the budget is told how long."""
    said = iter(
        [
            refusal(
                "THROTTLED",
                data=None,
                extensions={
                    "cost": {
                        "requestedQueryCost": 500,
                        "throttleStatus": {"maximumAvailable": 2000, "currentlyAvailable": 100, "restoreRate": 100},
                    }
                },
            ),
            Said({"data": {"customers": connection([customer(1)])}}),
        ]
    )
    spent = Spent()
    adapter = shopify_at(scripted(lambda _: next(said)).url, budget=spent)

    assert ids(adapter.crawl("customer", "")) == ["1"]
    assert spent.holds == [(4.0, None)]
    assert spent.operations == ["customers", "customers"]


def test_k53_throttled_for_good(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A list that is never answered raises, and is no end of the list."""
    with pytest.raises(SourceBusy) as busy:
        list(shopify_at(answering(scripted, refusal("THROTTLED"))).crawl("customer", ""))

    assert busy.value.retry_after == 1.0


@pytest.mark.parametrize(
    ("cost", "left", "held"),
    [(50, 1950, []), (50, 150, [0.5]), (1000, 900, [1.0]), (10, 199, [0.01]), (10, 200, [])],
)
def test_a_low_bucket_holds_calls_back(
    scripted: MakeScripted, shopify_at: MakeShopify, cost: int, left: int, held: list[float]
) -> None:
    """Calls wait until the bucket holds what such a call asks for, and a tenth of what it may hold."""
    status = {"maximumAvailable": 2000.0, "currentlyAvailable": left, "restoreRate": 100.0}
    extensions = {"cost": {"requestedQueryCost": cost, "actualQueryCost": 3, "throttleStatus": status}}
    spent = Spent()
    url = answering(scripted, Said({"data": {"customer": customer(1)}, "extensions": extensions}))

    shopify_at(url, budget=spent).fetch(ref("customer", 1))

    assert [seconds for seconds, _ in spent.holds] == pytest.approx(held)


def test_retry_after(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A 429 says how long in its header, in seconds or as a time."""
    for asked, seconds in (("2.0", 2.0), ("Mon, 30 Nov 2026 12:00:09 GMT", 9.0), ("soon", 1.0)):
        spent = Spent()
        adapter = shopify_at(answering(scripted, Said(b"", 429, {"Retry-After": asked})), budget=spent)

        with pytest.raises(SourceBusy):
            adapter.fetch(ref("customer", 1))

        assert spent.holds == [(seconds, None)]


def test_a_page_too_dear_is_halved(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A list asks for half as many objects until a page may be had, and raises when one alone is too dear."""
    asked_for: list[int] = []

    def answer(asked: Asked) -> Said:
        _, variables = asked_of(asked)
        asked_for.append(variables["first"])
        dear = variables["first"] > 15
        return refusal("MAX_COST_EXCEEDED") if dear else Said({"data": {"customers": connection([customer(1)])}})

    assert ids(shopify_at(scripted(answer).url).crawl("customer", "")) == ["1"]
    assert asked_for == [40, 20, 10]
    with pytest.raises(SourceRefused):
        list(shopify_at(answering(scripted, refusal("MAX_COST_EXCEEDED"))).crawl("customer", ""))


def test_searches_that_are_not_understood(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A warning about the search is a failure, for the list beside it is not what was asked for."""
    warned = {
        "path": ["customers"],
        "warnings": [
            {"field": "updated_att", "message": "Invalid search field for this query.", "code": "invalid_field"}
        ],
    }
    said = Said({"data": {"customers": connection([customer(1)])}, "extensions": {"search": [warned]}})

    with pytest.raises(SourceRefused, match="updated_att: Invalid search field"):
        list(shopify_at(answering(scripted, said)).changed_since("customer", "", NOW - timedelta(hours=1)))


def test_the_window_is_checked(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A list that shows what did not change since then ignores what it was asked, and is not believed."""
    said = Said({"data": {"customers": connection([customer(1, "2026-11-30T10:59:59Z")])}})

    with pytest.raises(SourceUnavailable, match="did not change"):
        list(
            shopify_at(answering(scripted, said)).changed_since("customer", "", datetime(2026, 11, 30, 11, tzinfo=UTC))
        )


# What is asked


class Lists:
    """A provider whose lists have nothing, and what it was asked."""

    def __init__(self) -> None:
        self.searches: list[str] = []
        self.asked: list[Asked] = []

    def __call__(self, asked: Asked) -> Said:
        """Answer with an empty page."""
        self.asked.append(asked)
        name, variables = asked_of(asked)
        self.searches.append(variables.get("query", ""))
        name = "events" if name == "destroyed" else name
        return Said({"data": {name: connection([])}})


@pytest.mark.parametrize(
    "since",
    [
        datetime(2026, 11, 30, 11, 0, 0, 999_999, tzinfo=UTC),
        datetime(2026, 11, 30, 19, 0, tzinfo=timezone(timedelta(hours=8))),
        datetime(2026, 11, 30, 6, 30, tzinfo=timezone(timedelta(hours=-4, minutes=-30))),
    ],
)
def test_k43_times_are_quoted_and_in_utc(scripted: MakeScripted, shopify_at: MakeShopify, since: datetime) -> None:
    """Whatever zone a time is told in, the search has it quoted and in UTC, and no later than that."""
    lists = Lists()

    list(shopify_at(scripted(lists).url).changed_since("order", "", since))

    assert lists.searches == [
        "updated_at:>='2026-11-30T11:00:00Z'",
        "action:destroy AND subject_type:ORDER AND created_at:>='2026-11-30T11:00:00Z'",
    ]


def test_where_calls_go(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A call goes to the version's own address, with the token in its header and the SDK's name."""
    lists = Lists()

    list(shopify_at(scripted(lists).url, api_version="2026-07").crawl("customer", ""))

    [asked] = lists.asked
    assert asked.path == "/admin/api/2026-07/graphql.json"
    assert asked.headers["X-Shopify-Access-Token"] == TOKEN
    assert asked.headers["User-Agent"].startswith("ShopifyPythonAPI/12.7")
    assert asked.headers["Content-Type"] == "application/json"


def test_the_sdks_global_session(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """Whichever shop's session is active in whichever thread, calls go to ours with our token, and leave it alone."""
    lists = Lists()
    adapter = shopify_at(scripted(lists).url)
    shopify.ShopifyResource.activate_session(shopify.Session("other", "2024-10", "shpat_other"))
    try:
        list(adapter.crawl("customer", ""))
        thread = threading.Thread(target=lambda: list(adapter.crawl("customer", "")))
        thread.start()
        thread.join()

        assert shopify.ShopifyResource.site == "https://other.myshopify.com/admin/api/2024-10"
        assert shopify.ShopifyResource.headers["X-Shopify-Access-Token"] == "shpat_other"
    finally:
        shopify.ShopifyResource.clear_session()
    assert [asked.headers["X-Shopify-Access-Token"] for asked in lists.asked] == [TOKEN, TOKEN]


def test_the_environment_changes_nothing(
    scripted: MakeScripted, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies that the environment names are not used: they would see the token."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    lists = Lists()

    list(shopify_at(scripted(lists).url).crawl("customer", ""))

    assert len(lists.asked) == 1


def test_nobody_there(shopify_at: MakeShopify) -> None:
    """A refused connection is told as one, to the budget too."""
    spent = Spent()

    with pytest.raises(SourceUnavailable, match="ConnectError"):
        shopify_at(budget=spent).fetch(ref("customer", 1))

    assert spent.answers == [("customer(id)", "refused")]


def test_ids_are_numbers(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """What no object is called is absent, once the shop has shown itself, and is no part of a query."""
    url = answering(scripted, Said({"data": {"shop": {"id": "gid://shopify/Shop/1"}}}))

    absent = shopify_at(url).fetch(ref("order", "1 OR id:2"))

    assert (absent.body, absent.proof) == (None, Proof.NOT_FOUND)


# Lists


def test_a_list_is_begun_anew_from_its_last_stamp(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """Long before Shopify ends a connection it is begun anew, from the last stamp, that very second included."""
    first = [customer(number, f"2026-11-30T11:{number // 400:02}:00Z") for number in range(1, 20_001)]
    searches: list[tuple[str, str | None]] = []

    def answer(asked: Asked) -> Said:
        name, variables = asked_of(asked)
        if name == "destroyed":
            return Said({"data": {"events": connection([])}})
        searches.append((variables["query"], variables["after"]))
        if len(searches) == 1:
            return Said({"data": {"customers": connection(first, "c-1")}})
        return Said({"data": {"customers": connection([first[-1], customer(20_001)])}})

    adapter = shopify_at(scripted(answer).url)
    seen = ids(adapter.changed_since("customer", "", datetime(2026, 11, 30, 11, tzinfo=UTC)))

    assert set(seen) == {str(number) for number in range(1, 20_002)}
    assert searches == [("updated_at:>='2026-11-30T11:00:00Z'", None), ("updated_at:>='2026-11-30T11:50:00Z'", None)]


def test_a_second_with_too_many(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """Where one second holds more than a connection shows, that second is walked by id, and the list goes on after."""
    moment = "2026-11-30T11:00:00Z"
    searches: list[str] = []

    def answer(asked: Asked) -> Said:
        name, variables = asked_of(asked)
        if name == "destroyed":
            return Said({"data": {"events": connection([])}})
        search = variables["query"]
        searches.append(search)
        if search == f"updated_at:>='{moment}'" or search.endswith("id:>0"):
            page = connection([customer(number, moment) for number in range(1, 20_001)], "c-1")
        elif search.endswith("id:>20000"):
            page = connection([customer(20_001, moment)])
        else:
            page = connection([customer(20_002, "2026-11-30T11:00:01Z")])
        return Said({"data": {"customers": page}})

    adapter = shopify_at(scripted(answer).url)
    seen = ids(adapter.changed_since("customer", "", datetime(2026, 11, 30, 11, tzinfo=UTC)))

    assert set(seen) == {str(number) for number in range(1, 20_003)}
    assert searches[1:] == [
        f"updated_at:>='{moment}' AND updated_at:<'2026-11-30T11:00:01Z' AND id:>0",
        f"updated_at:>='{moment}' AND updated_at:<'2026-11-30T11:00:01Z' AND id:>20000",
        "updated_at:>='2026-11-30T11:00:01Z'",
    ]


def test_k36_equal_stamps(shop: Shop, shopify_at: MakeShopify) -> None:
    """Of many objects of one second none is lost at a page's edge, and a later one of that second is seen next time."""
    adapter = shopify_at(shop.url)
    at = 1_793_500_000
    since = datetime.fromtimestamp(at, UTC)
    first = {shop.act("create", "customer", at=at) for _ in range(85)}

    seen = ids(adapter.changed_since("customer", "", since))
    late = shop.act("create", "customer", at=at)

    assert sorted(seen) == sorted(first)
    assert late in ids(adapter.changed_since("customer", "", since))


def test_a_list_that_stands_still(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A cursor or an id that does not move on raises instead of going round in circles."""
    url = answering(scripted, Said({"data": {"customers": connection([customer(1)], "c-1")}}))

    with pytest.raises(SourceUnavailable, match="does not move on"):
        list(shopify_at(url).changed_since("customer", "", NOW - timedelta(hours=1)))
    with pytest.raises(SourceUnavailable, match="does not move on"):
        list(shopify_at(url).crawl("customer", ""))


def test_backfill(shop: Shop, shopify_at: MakeShopify) -> None:
    """No crawl shows what was created before the backfill begins, of kinds that cannot be searched by that, too."""
    begins = datetime(2026, 11, 1, tzinfo=UTC)
    adapter = shopify_at(shop.url, kinds=tuple(KINDS), backfill_since=begins)
    at = int(begins.timestamp())
    for kind in (name for name, row in KINDS.items() if row.kind.core or row.created):
        shop.act("create", kind, at=at - 1)
        new = shop.act("create", kind, at=at)

        seen = ids(adapter.crawl(kind, ""))

        assert new in seen
        bodies = [adapter.fetch(ref(kind, id_)).body or {} for id_ in seen]
        assert all(datetime.fromisoformat(body.get("discount", body)["createdAt"]) >= begins for body in bodies)


def test_deletions_are_hinted_at(shop: Shop, shopify_at: MakeShopify) -> None:
    """What was deleted is in no list, but in the shop's history: the feed hints at it, a product's variants too."""
    adapter = shopify_at(shop.url)
    since = datetime.now(UTC) - timedelta(minutes=1)
    for kind in ("order", "customer", "product", "product_variant"):
        kept, gone = shop.act("create", kind), shop.act("create", kind)
        shop.act("delete", kind, gone, deliver=False)

        [hint] = hints(adapter.changed_since(kind, "", since))

        assert (hint.ref, hint.event_id) == (ref(kind, gone), None)
        assert hint.changed_at is not None
        assert hint.locator is not None
        assert adapter.fetch(hint.ref, locator=hint.locator).body is None
        assert adapter.fetch(ref(kind, kept)).body is not None


def test_refunds_come_with_their_orders(shop: Shop, shopify_at: MakeShopify) -> None:
    """A refund is listed where its order changed, with the order's number as its locator."""
    adapter = shopify_at(shop.url)
    order = shop.act("create", "order")
    refund = shop.act("create", "refund", body={"order": order})

    [snapshot] = [each for page in adapter.crawl("refund", "") for each in page.snapshots]

    assert snapshot.ref == ref("refund", refund)
    assert snapshot.locator == {"order": order}
    assert snapshot.body is not None
    assert snapshot.body["order"] == {"id": f"gid://shopify/Order/{order}"}
    assert read(adapter, {"id": int(refund), "order_id": int(order)}, "refunds/create").named[1].locator == {
        "order": order
    }


# One object


def test_k41_own_lists_are_walked(shop: Shop, shopify_at: MakeShopify) -> None:
    """A list of an object's own is read to its end, and the head again; the stored form shows no places in it."""
    spent = Spent()
    adapter = shopify_at(shop.url, budget=spent)
    long, short = shop.act("create", "order", parts=13), shop.act("create", "order", parts=2)

    body = adapter.fetch(ref("order", long)).body

    assert body is not None
    assert len(body["lineItems"]["nodes"]) == len({each["id"] for each in body["lineItems"]["nodes"]}) == 13
    assert body["lineItems"].keys() == {"nodes"}
    assert spent.operations == ["order(id)", "order.lineItems", "order(id)"]
    pages = list(adapter.crawl("order", ""))
    assert [hint.ref.id for hint in hints(pages)] == [long]
    assert ids(pages) == [short]


def test_k41_an_object_that_changes_meanwhile(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """If the head has moved once its list is read, the read starts over, and is left for later after a while."""
    changes = iter(range(100))

    def answer(asked: Asked) -> Said:
        name, _ = asked_of(asked)
        if name == "addressesV2":
            page = connection([{"id": "gid://shopify/MailingAddress/2"}])
            return Said({"data": {"customer": {"addressesV2": page}}})
        page = connection([{"id": "gid://shopify/MailingAddress/1"}], "c-1")
        return Said({"data": {"customer": customer(1, note=f"v{min(next(changes), settled)}", addressesV2=page)}})

    settled = 2
    adapter = shopify_at(scripted(answer).url)
    body = adapter.fetch(ref("customer", 1)).body

    assert body is not None
    assert (body["note"], len(body["addressesV2"]["nodes"])) == ("v2", 2)
    settled, changes = 100, iter(range(100))
    with pytest.raises(SourceUnavailable, match="changed each time"):
        adapter.fetch(ref("customer", 1))


def test_k41_an_object_that_vanishes_meanwhile(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """What is gone when its list is read is absent, not cut short."""
    heads = iter([customer(1, addressesV2=connection([], "c-1")), None])

    def answer(asked: Asked) -> Said:
        name, _ = asked_of(asked)
        return Said({"data": {"customer": None if name == "addressesV2" else next(heads)}})

    assert shopify_at(scripted(answer).url).fetch(ref("customer", 1)).proof is Proof.NOT_FOUND


def test_k45_order_of_tags(shop: Shop, shopify_at: MakeShopify) -> None:
    """Tags in another order are the same tags; line items in another order are not."""
    form = content.Form(volatile=KINDS["order"].kind.volatile, unordered=KINDS["order"].kind.unordered)
    body = (
        shopify_at(shop.url).fetch(ref("order", shop.act("create", "order", parts=2, body={"tags": ["a", "b"]}))).body
    )
    assert body is not None
    lines = {"nodes": body["lineItems"]["nodes"][::-1]}

    assert form.digest({**body, "tags": body["tags"][::-1]}) == form.digest(body)
    assert form.digest({**body, "lineItems": lines}) != form.digest(body)


def test_money_is_exact(shop: Shop, shopify_at: MakeShopify) -> None:
    """Amounts are the texts that Shopify writes, with every digit."""
    adapter = shopify_at(shop.url)
    variant = shop.act("create", "product_variant", body={"price": "12345678901234567.10"})

    body = adapter.fetch(ref("product_variant", variant)).body

    assert body is not None
    assert body["price"] == "12345678901234567.10"
    assert Decimal(body["price"]) == Decimal("12345678901234567.10")


# Orders of any age


@pytest.mark.parametrize("granted", [True, False])
def test_k30_old_orders(shop: Shop, shopify_at: MakeShopify, granted: bool) -> None:  # noqa: FBT001 - a parameter of pytest's
    """Without the scope for all orders an old order's null is no absence; with it the order is shown."""
    adapter = shopify_at(shop.url)
    order = shop.act("create", "order", at=int(datetime.now(UTC).timestamp()) - 200 * DAY)
    refund = shop.act("create", "refund", body={"order": order}, at=int(datetime.now(UTC).timestamp()) - 199 * DAY)
    scopes = ["read_orders", "read_customers", "read_products", *(["read_all_orders"] if granted else [])]
    shop.put("/shop", {"scopes": scopes})

    for each in (ref("order", order), ref("refund", refund)):
        if granted:
            assert adapter.fetch(each).body is not None
        else:
            with pytest.raises(SourceRefused, match="read_all_orders"):
                adapter.fetch(each)
    assert adapter.identity()


@pytest.mark.parametrize("granted", [True, False])
def test_k30_deleted_orders(shop: Shop, shopify_at: MakeShopify, granted: bool) -> None:  # noqa: FBT001 - a parameter of pytest's
    """A null is believed with that scope, or where the shop said that it deleted the order."""
    adapter = shopify_at(shop.url)
    order = shop.act("create", "order")
    shop.act("delete", "order", order)
    scopes = ["read_orders", "read_customers", "read_products", *(["read_all_orders"] if granted else [])]
    shop.put("/shop", {"scopes": scopes})
    [named] = read(adapter, {"id": int(order)}, "orders/delete").named
    [hint] = hints(adapter.changed_since("order", "", datetime.now(UTC) - timedelta(minutes=1)))

    for locator in (named.locator, hint.locator):
        told = adapter.fetch(ref("order", order), locator=locator)
        assert (told.body, told.proof) == (None, Proof.NOT_FOUND)
        assert "deleted by" in told.because
    if granted:
        assert adapter.fetch(ref("order", order)).proof is Proof.NOT_FOUND
    else:
        with pytest.raises(SourceRefused, match="read_all_orders"):
            adapter.fetch(ref("order", order))


@pytest.mark.parametrize("state", ["frozen", "forbidden", "gone", "locked", "uninstalled"])
def test_k30_closed_shops(shop: Shop, shopify_at: MakeShopify, state: str) -> None:
    """A shop that is closed to us is lost access in every call, and no object's absence."""
    adapter = shopify_at(shop.url)
    id_ = shop.act("create", "product")
    shop.put("/shop", {"state": state})

    for call in (
        lambda: adapter.fetch(ref("product", id_)),
        lambda: list(adapter.crawl("product", "")),
        adapter.identity,
    ):
        with pytest.raises(AccessLost):
            call()


def test_denied_fields(shop: Shop, shopify_at: MakeShopify) -> None:
    """A field that the app may not see is lost access to its kind, however much stands beside it."""
    adapter = shopify_at(shop.url)
    id_ = shop.act("create", "order")
    shop.put("/shop", {"denied": ["Order.email"]})

    with pytest.raises(AccessLost, match="ACCESS_DENIED"):
        adapter.fetch(ref("order", id_))
    assert adapter.identity()


# Tokens


def test_client_credentials(shopify_at: MakeShopify) -> None:
    """A token is issued for the client's credentials once, used by all calls, and issued anew when it is refused."""
    with ExitStack() as stack:
        shop = Shop(stack, access_token="nobody's", client_id="app", client_secret=SECRET)
        tokens, spent = Tokens(), Spent()
        adapter = shopify_at(shop.url, credential=ClientCredentials("app", SECRET, tokens), budget=spent)

        assert adapter.identity() == adapter.identity()
        assert [1 < issued.seconds <= DAY for issued in tokens.issued] == [True]
        assert spent.operations == ["POST /admin/oauth/access_token", "shop", "shop"]

        shop.put("/revoke", method="POST")
        assert adapter.identity()
        assert len(tokens.issued) == 2
        assert spent.operations[3:] == ["shop", "POST /admin/oauth/access_token", "shop"]
        assert [operation for operation, _ in spent.answers] == spent.operations


@pytest.mark.parametrize("client", [("app", "shpss_wrong"), ("nobody", SECRET)])
def test_wrong_client_credentials(shop: Shop, shopify_at: MakeShopify, client: tuple[str, str]) -> None:
    """Credentials that are not the app's are lost access, told without them."""
    adapter = shopify_at(shop.url, credential=ClientCredentials(*client, Tokens()))

    with pytest.raises(AccessLost) as lost:
        adapter.identity()

    assert "invalid_client" in str(lost.value)
    assert client[1] not in str(lost.value)


@pytest.mark.parametrize(
    "said",
    [Said({}), Said({"access_token": ""}), Said({"access_token": "a\nb"}), Said(b"<html>"), Said(b"", 500)],
)
def test_no_token(scripted: MakeScripted, shopify_at: MakeShopify, said: Said) -> None:
    """What is no token is not used as one."""
    credential = ClientCredentials("app", SECRET, Tokens())

    with pytest.raises(SourceUnavailable):
        shopify_at(answering(scripted, said), credential=credential).identity()


def test_a_refused_token_is_renewed_once(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A shop that refuses the new token too is lost: nothing is asked for in circles."""
    numbers = iter(range(100))

    def answer(asked: Asked) -> Said:
        if asked.path.endswith("access_token"):
            return Said({"access_token": f"shpua_{next(numbers)}", "expires_in": 86399})
        return Said({"errors": f"[API] Invalid API key or access token shpua_1 {SECRET}"}, 401)

    server = scripted(answer)
    adapter = shopify_at(server.url, credential=ClientCredentials("app", SECRET, Tokens()))

    with pytest.raises(AccessLost) as lost:
        adapter.identity()

    assert len(server.asked) == 4
    assert SECRET not in str(lost.value)
    assert "shpua_" not in str(lost.value)


# Itself


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"kinds": ["order", "theme"]}, "theme"),
        ({"shop": "shop.example.com"}, "myshopify"),
        ({"shop": "evil.example/x.myshopify.com"}, "myshopify"),
        ({"shop": ""}, "myshopify"),
        ({"api_version": "1999-13"}, "api_version"),
        ({"api_version": "2026-11"}, "api_version"),
        ({"api_version": "2026-10/../x"}, "api_version"),
        ({"credential": AccessToken("")}, "access_token"),
        ({"credential": AccessToken("shpat_x\n")}, "access_token"),
        ({"credential": ClientCredentials("app", "sh hh", Tokens())}, "client_secret"),
    ],
)
def test_k05_what_cannot_be_used(shopify_at: MakeShopify, given: dict[str, Any], fault: str) -> None:
    """A kind, shop, version or secret that cannot be one is a fault before anything is done, and no secret is told."""
    with pytest.raises(ConfigError, match=fault) as faulty:
        shopify_at(**given)

    assert "sh hh" not in str(faulty.value)


@pytest.mark.parametrize("name", ["standin", "https://standin.myshopify.com/", "Standin.myshopify.com "])
def test_names_of_the_shop(shopify_at: MakeShopify, name: str) -> None:
    """The shop may be named by its name, its domain or its URL."""
    assert refs(read(shopify_at(shop=name), {"id": 1})) == [("order", "1")]


def test_limits() -> None:
    """There is a rate of calls, which the configuration overrides."""
    assert limits() == Limits(20.0)
    assert limits(3) == Limits(3.0)


def test_shape_tells_the_fields(shopify_at: MakeShopify) -> None:
    """The form of each kind's bodies is its own, and another in another version."""
    adapter, other = shopify_at(kinds=tuple(KINDS)), shopify_at(kinds=tuple(KINDS), api_version="2026-07")

    assert len({adapter.shape(kind)["fields"] for kind in KINDS}) == len(KINDS)
    assert all(adapter.shape(kind) != other.shape(kind) for kind in KINDS)


LEVEL = {"inventory_item_id": 5, "location_id": 6, "updated_at": "2026-11-30T13:00:00+01:00"}


@pytest.mark.parametrize(
    ("topic", "body", "named"),
    [
        ("inventory_levels/update", LEVEL, [("inventory_level", "5:6", NOW.replace(second=0))]),
        ("inventory_levels/disconnect", {"inventory_item_id": 5, "location_id": 6}, [("inventory_level", "5:6", None)]),
        ("inventory_levels/update", {"inventory_item_id": 5, "id": 6}, []),
        ("inventory_items/delete", {"id": 5}, [("inventory_item", "5", None)]),
        (
            "discounts/redeemcode_added",
            {"admin_graphql_api_id": "gid://shopify/DiscountCodeNode/8", "redeem_code": {"id": "x"}},
            [("discount", "8", None)],
        ),
        (
            "discounts/delete",
            {"admin_graphql_api_id": "gid://shopify/DiscountAutomaticNode/9"},
            [("discount", "9", None)],
        ),
        ("fulfillment_events/create", {"id": 1, "fulfillment_id": 3, "order_id": 4}, [("fulfillment", "3", None)]),
        (
            "fulfillment_orders/moved",
            {
                "original_fulfillment_order": {"id": "gid://shopify/FulfillmentOrder/1"},
                "moved_fulfillment_order": {"id": "gid://shopify/FulfillmentOrder/2"},
                "source_location": {"id": "gid://shopify/Location/3"},
            },
            [("fulfillment_order", "1", None), ("fulfillment_order", "2", None)],
        ),
        (
            "fulfillment_orders/merged",
            {
                "fulfillment_order_merges": [{"fulfillment_order": {"id": "gid://shopify/FulfillmentOrder/1"}}],
                "merge_intents": [{"fulfillment_order_id": 2}],
            },
            [("fulfillment_order", "1", None), ("fulfillment_order", "2", None)],
        ),
        ("app/uninstalled", {"id": 7}, [("shop", "7", None)]),
        ("orders/link_requested", {"admin_graphql_api_id": "gid://shopify/Order/1"}, []),
    ],
)
def test_topics_of_further_kinds(
    shopify_at: MakeShopify, topic: str, body: dict[str, Any], named: list[tuple[str, str, datetime | None]]
) -> None:
    """What further topics name: by two numbers, by an older type, by a gid wherever it stands, or nothing."""
    note = read(shopify_at(kinds=tuple(KINDS)), body, topic)

    assert sorted((each.ref.kind, each.ref.id, each.stamp) for each in note.named) == named


def test_every_topic_is_known() -> None:
    """Each topic of Shopify's names an object of some kind or is ignored for a reason, and no reason is left over."""
    enum = admin_schema().get_type("WebhookSubscriptionTopic")
    assert isinstance(enum, GraphQLEnumType)
    mapped = {spelled(topic) for row in KINDS.values() for topic in row.topics}
    ignored = {topic for topic in enum.values if why_ignored(topic)}

    assert mapped - enum.values.keys() == set()
    assert enum.values.keys() - mapped - ignored == set()
    assert mapped & ignored == set()
    assert all(any(fnmatchcase(topic, pattern) for topic in enum.values) for pattern in IGNORED)
    assert all(IGNORED.values())


# Fields asked for besides


def test_extra_fields_are_shown(shop: Shop, shopify_at: MakeShopify) -> None:
    """What is asked for besides is in a fetch and in a list alike, metafields under a name of their own."""
    asked = {"order": ["custom.gift-note", "shippingLine { id }"], "product": ["totalInventory"]}
    adapter, plain = shopify_at(shop.url, extra_fields=asked), shopify_at(shop.url)
    held = [{"namespace": "custom", "key": "gift-note", "type": "single_line_text_field", "value": "for you"}]
    id_ = shop.act("create", "order", body={"metafields": held})

    fetched = adapter.fetch(ref("order", id_)).body or {}
    [listed] = [each.body for page in adapter.crawl("order", "") for each in page.snapshots]

    assert fetched["metafield_custom_gift_note"] == {"type": "single_line_text_field", "value": "for you"}
    assert fetched["shippingLine"].keys() == {"id"}
    assert listed == fetched
    assert adapter.shape("order") != plain.shape("order")
    assert adapter.shape("customer") == plain.shape("customer")


def test_extra_fields_that_shopify_does_not_have(shop: Shop, shopify_at: MakeShopify) -> None:
    """A field that there is not is refused by name and kind before the first read, and other kinds are read."""
    adapter = shopify_at(shop.url, extra_fields={"order": ["colour"]})
    since = NOW - timedelta(hours=1)
    [order, customer_] = [shop.act("create", kind) for kind in ("order", "customer")]

    for call in (
        lambda: adapter.fetch(ref("order", order)),
        lambda: list(adapter.crawl("order", "")),
        lambda: list(adapter.changed_since("order", "", since)),
    ):
        with pytest.raises(
            SourceRefused, match=r"sources\[shop-berlin\]\.extra_fields\.order: .*colour.* on type 'Order'"
        ):
            call()
    assert adapter.fetch(ref("customer", customer_)).body is not None


def test_extra_fields_are_checked_against_the_schema(shop: Shop, shopify_at: MakeShopify) -> None:
    """Each wrong field is a sentence with its source, kind and place, and what the type has; right ones are none."""
    asked = {"order": ["colour", "note", "customer { id shoe }"], "product": ["totalInventory"]}
    wrong, right = shopify_at(shop.url, extra_fields=asked), shopify_at(shop.url, extra_fields={"order": ["note"]})

    faults = wrong.faults()

    assert right.faults() == []
    assert [each.split(" is refused: ")[0] for each in faults] == [
        "sources[shop-berlin].extra_fields.order: 'colour'",
        "sources[shop-berlin].extra_fields.order: 'customer { id shoe }'",
    ]
    assert "Order has " in faults[0]
    assert ", note, " in faults[0]
    assert "; Customer has " in faults[1]


def test_extra_fields_are_checked_only_where_they_are(shop: Shop, shopify_at: MakeShopify) -> None:
    """A shop that is asked for nothing besides costs no call; one whose app is off is not said to have faults."""
    plain, gone = shopify_at(shop.url), shopify_at(extra_fields={"order": ["colour"]})

    assert plain.faults() == []
    assert shop.put("/calls", method="GET")["last"] == []
    with pytest.raises(SourceUnavailable):
        gone.faults()


@pytest.mark.parametrize(
    "field",
    [
        "",
        "note }",
        "note { }}",
        "...orderLine",
        "note # more",
        "$id",
        "note)(",
        "a { nodes { id } }",
        "tags(first: 3)",
        '"',
    ],
)
def test_extra_fields_that_are_none(shopify_at: MakeShopify, field: str) -> None:
    """What could end our query, or would be cut short, is a fault that names the kind."""
    with pytest.raises(ConfigError, match=r"sources\[shop-berlin\]\.extra_fields\.order: "):
        shopify_at(extra_fields={"order": [field]})


def test_extra_fields_of_no_kind(shopify_at: MakeShopify) -> None:
    """Fields of a kind that there is not are a fault."""
    with pytest.raises(ConfigError, match="no such kind: ordr"):
        shopify_at(extra_fields={"ordr": ["note"]})


# In bulk


BULK = {"bulk_above": 2, "bulk_pause": 0.0}
IN_BULK = ("customer", "product", "product_variant", "collection", "order", "draft_order")


def large(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page of *kind* be full soon: only what fills a page is counted."""
    row = KINDS[kind]
    monkeypatch.setitem(KINDS, kind, replace(row, kind=replace(row.kind, page=2)))


def operations(shop: Shop) -> list[str]:
    """Return what was asked of the shop, without the method."""
    return [each["operation"].split()[-1] for each in shop.put("/calls", method="GET")["last"]]


def crawled(adapter: Shopify, kind: str) -> tuple[dict[str, Any], set[str], list[Page]]:
    """Return the bodies that a crawl shows, by id, the ids that it only hints at, and its pages."""
    pages = list(adapter.crawl(kind, ""))
    shown = {each.ref.id: each.body for page in pages for each in page.snapshots}
    return shown, {hint.ref.id for page in pages for hint in page.hints}, pages


@pytest.mark.parametrize("kind", IN_BULK)
def test_in_bulk_as_page_by_page(
    shop: Shop, shopify_at: MakeShopify, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large kind is shown by one operation, each object as its fetch shows it, and since the listing began."""
    more: dict[str, Any] = {"parts": 13} if kind == "order" else {}
    ids = [shop.act("create", kind, **more) for _ in range(5)]
    plain, _, paged = crawled(shopify_at(shop.url, kinds=[kind]), kind)
    large(kind, monkeypatch)
    adapter = shopify_at(shop.url, kinds=[kind], **BULK)

    shown, hinted, pages = crawled(adapter, kind)

    assert "bulkOperationRunQuery" in operations(shop)
    assert not any(page.hints for page in pages[1:])
    assert {id_: body for id_, body in shown.items() if id_ in plain} == plain
    assert shown.keys() | hinted >= set(ids)
    assert shown == {id_: adapter.fetch(ref(kind, id_)).body for id_ in shown}
    assert [page.since_begun for page in pages] == [False, *[True] * (len(pages) - 1)]
    assert len(shown) == sum(len(page.snapshots) for page in pages)
    assert not any(page.since_begun for page in paged)


def test_what_is_not_large_is_paged(shop: Shop, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind with fewer objects, or one that holds lists which are cut on purpose, begins no operation."""
    for kind in ("order", "discount"):
        large(kind, monkeypatch)
        for _ in range(4):
            shop.act("create", kind)

    crawled(shopify_at(shop.url, kinds=["order"], bulk_above=4), "order")
    crawled(shopify_at(shop.url, kinds=["discount"], **BULK), "discount")

    assert "bulkOperationRunQuery" not in operations(shop)


@pytest.mark.parametrize(
    "how",
    [{"fails": "TIMEOUT"}, {"fails": "INTERNAL_SERVER_ERROR"}, {"short": 1}, {"short": 4}, {"expired": True}],
    ids=str,
)
def test_no_result_is_no_list(
    shop: Shop, shopify_at: MakeShopify, how: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an operation fails, or its file is short or gone, nothing of it is believed: the kind is paged through."""
    large("customer", monkeypatch)
    ids = {shop.act("create", "customer") for _ in range(5)}
    shop.put("/bulk", {"looks": 1, **how})

    shown, hinted, pages = crawled(shopify_at(shop.url, kinds=["customer"], **BULK), "customer")

    assert "bulkOperationRunQuery" in operations(shop)
    assert shown.keys() | hinted == ids
    assert not any(page.since_begun for page in pages)


def test_others_operations_are_left_alone(shop: Shop, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many run as may, as after a program that was killed, the kind is paged through."""
    large("customer", monkeypatch)
    ids = {shop.act("create", "customer") for _ in range(3)}
    shop.put("/bulk", {"looks": 1_000})
    adapter = shopify_at(shop.url, kinds=["customer"], **BULK)
    run = {"query": "{ customers { edges { node { id } } } }"}
    for _ in range(5):
        adapter._calls.ask("bulkOperationRunQuery", documents.RUN, run)

    shown, _, pages = crawled(adapter, "customer")

    assert shown.keys() == ids
    assert not any(page.since_begun for page in pages)


def test_the_price_of_bulk(shop: Shop, shopify_at: MakeShopify) -> None:
    """A count says what a crawl takes where that is not page by page."""
    for _ in range(3):
        shop.act("create", "order")
    plain, adapter = shopify_at(shop.url), shopify_at(shop.url, **BULK)

    small, large_, unlisted = plain.count("order", ""), adapter.count("order", ""), adapter.count("refund", "")

    assert (small and small.pages, large_ and large_.pages) == (None, 6)
    assert unlisted is None


def test_lists_that_are_cut_in_bulk(shop: Shop, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fewer parts come than the operation counted, each object that has lists is read again, alone."""
    large("order", monkeypatch)
    ids = {shop.act("create", "order", parts=3) for _ in range(3)}
    shop.put("/bulk", {"cut": 1})

    shown, hinted, _ = crawled(shopify_at(shop.url, kinds=["order"], **BULK), "order")

    assert len(shown) == 2
    assert shown.keys() | hinted == ids


# Closed shops, levels, ceilings


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("uninstalled", "401 .*the app was uninstalled"),
        ("frozen", "402 .*frozen for its bills"),
        ("gone", "404 .*no such shop"),
        ("locked", "423 .*the shop is locked"),
    ],
)
def test_closed_shops_are_named(shop: Shop, shopify_at: MakeShopify, state: str, said: str) -> None:
    """How a shop is closed is said in words, and nothing in it is absent."""
    adapter = shopify_at(shop.url, kinds=tuple(KINDS))
    shop.put("/shop", {"state": state})

    for kind in KINDS:
        with pytest.raises(AccessLost, match=said):
            adapter.fetch(ref(kind, "1:1" if KINDS[kind].pair else "1"))


def test_another_shop_is_not_ours(shop: Shop, shopify_at: MakeShopify) -> None:
    """The shop is read by its own number, and no other number is a shop here."""
    adapter = shopify_at(shop.url, kinds=["shop"])

    ours, other = (adapter.fetch(ref("shop", id_)) for id_ in (adapter.identity(), "1"))

    assert (ours.body is not None, other.body) == (True, None)


def test_levels_of_many_locations(shop: Shop, shopify_at: MakeShopify) -> None:
    """An item that is kept at more places than a page of levels shows is crawled whole, those switched off too."""
    thing = shop.act("create", "inventory_item")
    places = [shop.act("create", "location") for _ in range(12)]
    levels = [
        shop.act("create", "inventory_level", body={"item": thing, "location": each, "isActive": number % 5 > 0})
        for number, each in enumerate(places)
    ]
    adapter = shopify_at(shop.url, kinds=["inventory_level"])

    seen = ids(adapter.crawl("inventory_level", ""))

    assert sorted(seen) == sorted(levels) == sorted(f"{thing}:{each}" for each in places)


def test_a_location_with_too_many_levels(shop: Shop, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch) -> None:
    """A location that has more than a list may show is left for the levels of each item, so that none is missed."""
    monkeypatch.setattr(lists, "_CONNECTION", 4)
    monkeypatch.setattr(lists, "_SMALL_PAGE", 2)
    levels = {shop.act("create", "inventory_level") for _ in range(7)}
    adapter = shopify_at(shop.url, kinds=["inventory_level"])

    seen = ids(adapter.changed_since("inventory_level", "", datetime.now(UTC) - timedelta(hours=1)))

    assert set(seen) == levels


def test_history_with_too_many_lines(shop: Shop, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch) -> None:
    """History that tells of more than a list may show is begun anew where it was left, and no deletion is missed."""
    monkeypatch.setattr(lists, "_CONNECTION", 3)
    monkeypatch.setattr(lists, "_SMALL_PAGE", 2)
    start = int(datetime.now(UTC).timestamp()) - 100
    gone = [shop.act("create", "customer") for _ in range(9)]
    for number, each in enumerate(gone):
        shop.act("delete", "customer", each, at=start + number // 2)
    adapter = shopify_at(shop.url)

    told = hints(adapter.changed_since("customer", "", datetime.fromtimestamp(start, UTC)))

    assert {each.ref.id for each in told} == set(gone)


def test_own_lists_with_too_many(
    scripted: MakeScripted, shopify_at: MakeShopify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object whose own list is longer than Shopify ever shows is refused, not cut short."""
    monkeypatch.setattr(shopify_adapter, "_PARTS", 2)
    cursors = iter(range(100))

    def answer(_: Asked) -> Said:
        page = connection([{"id": "gid://shopify/MailingAddress/1"}], str(next(cursors)))
        return Said({"data": {"customer": customer(1, addressesV2=page)}})

    with pytest.raises(SourceRefused, match="addressesV2 holds more"):
        shopify_at(scripted(answer).url).fetch(ref("customer", 1))


def thing(number: int) -> dict[str, Any]:
    """Return as much of an inventory item as the adapter looks at."""
    return {"id": f"gid://shopify/InventoryItem/{number}", "updatedAt": "2026-11-30T12:00:00Z"}


def test_lists_out_of_order(scripted: MakeScripted, shopify_at: MakeShopify) -> None:
    """A list that is not in the order of ids could hide what is beyond the last: it raises."""
    pages = iter([connection([thing(9), thing(5)], "c"), connection([thing(12)])])
    provider = scripted(lambda _: Said({"data": {"inventoryItems": next(pages)}}))

    with pytest.raises(SourceUnavailable, match="inventoryItems does not move on"):
        list(shopify_at(provider.url, kinds=["inventory_item"]).crawl("inventory_item", ""))


def every_document() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every document that the adapter may send, with variables as large as they get."""
    made = Documents()
    for row in KINDS.values():
        yield made.one(row), {"parts": row.fetched}
        for sort in (("UPDATED_AT",) if row.walk is Walk.STAMP else ()) + (("ID",) if row.list else ()):
            yield made.many(row, sort=sort), {"first": row.kind.page, "parts": row.listed}
        for part in row.parts:
            yield made.part(row, part), {"first": part.page}
        for of in ("inventoryItem", "location") if row.walk is Walk.LEVELS else ():
            yield made.levels(row, of=of), {"first": 100}
    for document in (documents.SHOP, documents.SCOPES, documents.DESTROYED, documents.LOCATIONS):
        yield document, {"first": 100}


@pytest.mark.parametrize(("document", "variables"), list(every_document()))
def test_documents(document: str, variables: dict[str, Any]) -> None:
    """Every document is valid, and costs less than a single one may."""
    schema, parsed = admin_schema(), parse(document)
    operation = get_operation_ast(parsed)
    assert operation is not None
    fragments = {each.name.value: each for each in parsed.definitions if isinstance(each, FragmentDefinitionNode)}

    assert validate(schema, parsed) == []
    assert Cost(schema, operation, fragments, variables).requested <= SINGLE_QUERY


def test_columns_show_what_is_there(shop: Shop, shopify_at: MakeShopify) -> None:
    """Every column of every kind points into what a fetch shows."""
    adapter = shopify_at(shop.url, kinds=tuple(KINDS))
    customer_ = shop.act("create", "customer")
    shop.act("create", "order", body={"customer": customer_})
    for name, row in KINDS.items():
        id_ = adapter.identity() if name == "shop" else shop.act("create", name)
        body = adapter.fetch(ref(name, id_)).body
        assert body is not None

        for column in row.kind.columns:
            assert column.pointers[0].split("/")[1] in body, (name, column.name)


def test_secrets_are_not_shown(shopify_at: MakeShopify) -> None:
    """No credential shows its secret."""
    told = repr([shopify_at(), AccessToken(TOKEN), ClientCredentials("app", SECRET, Tokens()), Issued(TOKEN, 1)])

    assert TOKEN not in told
    assert SECRET not in told
