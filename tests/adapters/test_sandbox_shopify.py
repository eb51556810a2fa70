"""The stand-in for Shopify, seen through plain HTTP, and its schema beside the published one."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import tarfile
import threading
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    build_client_schema,
    build_schema,
    get_named_type,
    is_composite_type,
    print_ast,
    print_schema,
    validate_schema,
)

from adapters.sandbox import serving, stand_in
from adapters.sandbox.clock import Clock
from adapters.sandbox.deliveries import Backoff
from adapters.sandbox.shopify import ShopifySandbox
from adapters.sandbox.shopify.kinds import KINDS, SUBSCRIBABLE
from adapters.sandbox.shopify.schema import admin_schema
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from graphql import (
        GraphQLArgument,
    )
    from starlette.types import ASGIApp, Receive, Scope, Send

NOW = 1_790_000_000
STAMP = "2026-09-21T14:13:20Z"
DAY = 24 * 3600
SECRET = "shpss_standin"
KINDS_OF_MANY = [kind for kind in KINDS if kind != "shop"]
ROOTS = {
    "order": ("order", "orders"),
    "product": ("product", "products"),
    "product_variant": ("productVariant", "productVariants"),
    "customer": ("customer", "customers"),
}


class Stage:
    """One server for all tests of this module; each test puts a stand-in of its own on it."""

    def __init__(self) -> None:
        self.playing: ShopifySandbox | None = None

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


@dataclass
class Bench:
    """A stand-in that is being served, and the ways to reach it."""

    http: httpx.Client
    now: float = float(NOW)
    token: str = "shpat_standin"

    def clock(self) -> Clock:
        """Return a clock that goes on only when it is told to."""
        return Clock(lambda: self.now, ticks=lambda: self.now)

    def do(self, op: str, kind: str, id_: str | None = None, **more: Any) -> dict[str, Any]:
        """Carry out one operation."""
        return self.put("objects", {"op": op, "kind": kind, "id": id_, **more}, method="POST")  # type: ignore[no-any-return]

    def create(self, kind: str, count: int = 1, **more: Any) -> list[str]:
        """Create several objects and return their ids, oldest first."""
        return [self.do("create", kind, **more)["id"] for _ in range(count)]

    def put(self, path: str, asked: object = None, *, method: str = "PUT") -> Any:
        """Set something by a control route."""
        response = self.http.request(method, f"/_control/{path}", json=asked)
        assert response.status_code == 200, response.text
        return response.json()

    def ask(self, query: str, *, version: str = "2026-10", **variables: Any) -> httpx.Response:
        """Send a query."""
        return self.http.post(
            f"/admin/api/{version}/graphql.json",
            json={"query": query, "variables": variables},
            headers={"X-Shopify-Access-Token": self.token},
        )

    def answer(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return all of what a query was answered with."""
        response = self.ask(query, **variables)
        assert response.status_code == 200, response.text
        return parse(response.content)  # type: ignore[no-any-return]

    def shown(self, query: str, **variables: Any) -> Any:
        """Return the data of a query that has no errors."""
        answer = self.answer(query, **variables)
        assert "errors" not in answer, answer
        return answer["data"]

    def codes(self, query: str, **variables: Any) -> list[str]:
        """Return the codes of the errors that a query is answered with."""
        return [each["extensions"]["code"] for each in self.answer(query, **variables)["errors"]]

    def found(self, kind: str, query: str) -> list[str]:
        """Return the numbers of what a search finds, by id."""
        plural = ROOTS[kind][1]
        asked = "query($q: String) {LIST(first: 250, query: $q, sortKey: ID) {nodes {legacyResourceId}}}"
        return [
            each["legacyResourceId"] for each in self.shown(asked.replace("LIST", plural), q=query)[plural]["nodes"]
        ]

    def truth(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return what really is there, by id."""
        return {each["id"]: each for each in self.http.get(f"/_control/objects?kind={kind}").json()}


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[Stage, httpx.Client]]:
    """Run a server, and yield it with a client."""
    made = Stage()
    with serving(made) as running, httpx.Client(base_url=running.url, timeout=10) as http:
        yield made, http


@pytest.fixture
def bench(stage: tuple[Stage, httpx.Client], request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Serve a stand-in whose retries follow at once, with the settings that the test gives."""
    made = Bench(stage[1])
    settings = {"backoff": Backoff(first=0.01, most=0.02, attempts=9), **getattr(request, "param", {})}
    with closing(ShopifySandbox(7, clock=made.clock(), **settings)) as stage[0].playing:
        yield made


def with_settings(**settings: Any) -> pytest.MarkDecorator:
    """Return the mark of a test whose stand-in is made with *settings*."""
    return pytest.mark.parametrize("bench", [settings], indirect=True)


@dataclass
class Receiver:
    """Somebody's webhook endpoint: keeps what arrives and answers as it was told."""

    url: str = ""
    status: int = 200
    arrived: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def topics(self) -> list[str]:
        """Return the topics in the order they arrived."""
        return [headers["x-shopify-topic"] for headers, _ in self.arrived]


@pytest.fixture
def receiver(bench: Bench) -> Iterator[Receiver]:
    """Run a webhook endpoint on this machine, subscribed to everything."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.arrived.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hooks"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    bench.put("webhooks", {"url": found.url, "secret": SECRET, "id": "app_1"})
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def flush(bench: Bench) -> None:
    """Wait until no delivery is on its way."""
    assert bench.http.post("/_control/flush?timeout=8").json() == {"pending": 0}


def sole(receiver: Receiver) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the headers and the body of the only delivery."""
    [(headers, body)] = receiver.arrived
    return headers, parse(body)


def gid(type_: str, number: object) -> str:
    """Return the global id of an object."""
    return f"gid://shopify/{type_}/{number}"


NEEDED = {
    "metafield": '(key: "k")',
    "inventoryLevel": '(locationId: "gid://shopify/Location/1")',
    "quantities": '(names: ["available"])',
}
"""Arguments without which a field cannot be asked for."""


def gid_of(kind: str, id_: str) -> str:
    """Return the global id of an object of a kind."""
    thing, _, location = id_.rpartition(":")
    return gid(KINDS[kind].type, f"{location}?inventory_item_id={thing}" if thing else id_)


def everything_of(of: str, *, deep: int) -> str:
    """Return a selection of every field of a type, nested *deep* objects deep."""
    schema = admin_schema()

    def fields(type_: object, left: int) -> Iterator[str]:
        assert isinstance(type_, GraphQLObjectType | GraphQLInterfaceType)
        for name, each in type_.fields.items():
            named = get_named_type(each.type)
            needed = "(first: 2)" if "first" in each.args else NEEDED.get(name, "")
            if not is_composite_type(named):
                yield name
            elif left and isinstance(named, GraphQLObjectType | GraphQLInterfaceType):
                yield f"{name}{needed} {{{' '.join(fields(named, left - 1))}}}"

    return " ".join(fields(schema.get_type(of), deep))


# The schema


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_can_be_asked_for(bench: Bench, kind: str) -> None:
    """No field of the schema is promised and then missing, in the objects and in what they hold."""
    bench.create("refund", parts=3)
    bench.create("customer", parts=2)
    bench.create("product", parts=2)
    bench.create("fulfillment")
    bench.create("inventory_level")
    id_ = next(iter(bench.truth(kind) or bench.create(kind)))
    bench.put("bucket", {"restore": 1, "maximum": 100_000})

    type_ = KINDS[kind].type
    asked = f"query($id: ID!) {{node(id: $id) {{id ... on {type_} {{{everything_of(type_, deep=2)}}}}}}}"
    shown = bench.shown(asked, id=gid_of(kind, id_))["node"]

    assert shown["id"] == gid_of(kind, id_)


def test_schema_is_one() -> None:
    """The schema is a valid one, which is not looked at again each time it is read."""
    assert validate_schema(build_schema(print_schema(admin_schema()))) == []


def test_introspection(bench: Bench) -> None:
    """The schema tells of itself, as real ones do."""
    assert bench.shown("{__schema {queryType {name}} shop {__typename}}") == {
        "__schema": {"queryType": {"name": "QueryRoot"}},
        "shop": {"__typename": "Shop"},
    }


def test_schema_is_part_of_the_published_one(tmp_path: Path) -> None:
    """Each type, field, argument and default is Shopify's; skipped unless its schema may be fetched."""
    published = build_client_schema(_published(tmp_path), assume_valid=True)
    ours, wrong = admin_schema(), []

    for name, mine in ours.type_map.items():
        theirs = published.get_type(name)
        if isinstance(mine, GraphQLEnumType) and isinstance(theirs, GraphQLEnumType):
            wrong += [f"{name}.{value}" for value in mine.values.keys() - theirs.values.keys()]
        elif isinstance(mine, GraphQLObjectType | GraphQLInterfaceType) and not name.startswith("__"):
            assert isinstance(theirs, GraphQLObjectType | GraphQLInterfaceType), name
            for field_, each in mine.fields.items():
                real = theirs.fields.get(field_)
                if real is None or str(real.type) != str(each.type):
                    wrong.append(f"{name}.{field_}")
                    continue
                wrong += [
                    f"{name}.{field_}({argument})"
                    for argument, said in each.args.items()
                    if argument not in real.args
                    or (str(said.type), default_of(said))
                    != (str(real.args[argument].type), default_of(real.args[argument]))
                ]
                required = {key for key, value in real.args.items() if str(value.type).endswith("!")}
                wrong += [f"{name}.{field_}({key}) is missing" for key in required - each.args.keys()]
        elif theirs is None:
            wrong.append(name)

    assert wrong == []


def default_of(argument: GraphQLArgument) -> str:
    """Return what an argument is where nobody gives it, as GraphQL spells it."""
    literal = argument.default and argument.default.literal
    return print_ast(literal) if literal else ""


def _published(folder: Path) -> Any:
    npm = shutil.which("npm")
    if npm is None or not os.environ.get("RECONCILER_FETCH"):
        pytest.skip("set RECONCILER_FETCH=1, with npm at hand, to fetch the published schema and compare")
    got = subprocess.run(
        [npm, "pack", "--silent", "@shopify/dev-mcp@1.16.0"], cwd=folder, capture_output=True, text=True, check=False
    )
    if got.returncode:
        pytest.skip(f"the published schema cannot be fetched: {got.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        held = archive.extractfile("package/dist/data/admin_2026-10.json.gz")
        assert held is not None
        told = json.loads(gzip.decompress(held.read()))
    return told.get("data", told)


# Access


def test_tokens(bench: Bench) -> None:
    """Client credentials make a token that lives a day, and static ones are taken."""
    asked = {"client_id": "standin", "client_secret": SECRET, "grant_type": "client_credentials"}

    as_form = bench.http.post("/admin/oauth/access_token", data=asked).json()
    as_json = bench.http.post("/admin/oauth/access_token", json=asked).json()

    assert (as_form["expires_in"], as_form["scope"].split(",")[0]) == (86399, "read_all_orders")
    assert as_form["access_token"] != as_json["access_token"]
    for bench.token in (as_form["access_token"], as_json["access_token"], "shpat_any"):
        assert bench.ask("{shop {name}}").status_code == 200
    for bench.token in ("", "other", "shpua_unknown"):
        assert bench.ask("{shop {name}}").status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"client_secret": "other"}, {"client_id": "other"}, {"grant_type": "password"}, {"client_secret": None}]
)
def test_token_refused(bench: Bench, wrong: dict[str, str | None]) -> None:
    """Nobody else gets a token."""
    asked = {"client_id": "standin", "client_secret": SECRET, "grant_type": "client_credentials", **wrong}

    assert bench.http.post("/admin/oauth/access_token", json=asked).status_code == 400


def test_token_ends(bench: Bench) -> None:
    """A made token ends with its time, with being revoked, and with the app being uninstalled."""
    asked = {"client_id": "standin", "client_secret": SECRET, "grant_type": "client_credentials"}

    def token() -> str:
        return str(bench.http.post("/admin/oauth/access_token", json=asked).json()["access_token"])

    bench.token = token()
    bench.now += DAY - 1
    assert bench.ask("{shop {name}}").status_code == 200
    bench.now += 1
    assert bench.ask("{shop {name}}").status_code == 401
    bench.token = token()
    assert bench.put("revoke", method="POST") == {"revoked": 2}
    assert bench.ask("{shop {name}}").status_code == 401
    bench.token = token()
    bench.put("shop", {"state": "uninstalled"})
    bench.put("shop", {})
    assert bench.ask("{shop {name}}").status_code == 401


@with_settings(access_token="shpat_ours")
def test_own_token(bench: Bench) -> None:
    """With a token of its own, the stand-in takes no other."""
    assert bench.ask("{shop {name}}").status_code == 401
    bench.token = "shpat_ours"
    assert bench.ask("{shop {name}}").status_code == 200


@pytest.mark.parametrize(
    ("state", "status"), [("frozen", 402), ("forbidden", 403), ("gone", 404), ("locked", 423), ("uninstalled", 401)]
)
def test_closed_shop(bench: Bench, state: str, status: int) -> None:
    """A shop that is not open says so to everything, in a status and a text, until it opens again."""
    bench.put("shop", {"state": state})

    refused = bench.ask("{shop {name}}")

    assert (refused.status_code, type(refused.json()["errors"])) == (status, str)
    bench.put("shop", {})
    assert bench.ask("{shop {name}}").status_code == 200


@pytest.mark.parametrize("lost", ["401", "403", "404"])
def test_lost_access(bench: Bench, lost: str) -> None:
    """Access that is lost is told by the status."""
    bench.put("faults", {"lost_access": lost})

    assert bench.ask("{shop {name}}").status_code == int(lost)


def test_missing_scope(bench: Bench) -> None:
    """What the app may not read is an error of that field inside a 200, however it is asked for."""
    [customer] = bench.create("customer")
    [order] = bench.create("order", body={"customer": customer})
    bench.put("shop", {"scopes": ["read_orders"]})

    answer = bench.answer("query($id: ID!) {order(id: $id) {name customer {id}}}", id=gid("Order", order))

    [error] = answer["errors"]
    assert (error["path"], error["extensions"]["code"]) == (["order", "customer"], "ACCESS_DENIED")
    assert error["extensions"]["requiredAccess"] == "`read_customers` access scope."
    assert answer["data"]["order"]["name"]
    assert answer["data"]["order"]["customer"] is None
    assert bench.codes("{customers(first: 1) {nodes {id}}}") == ["ACCESS_DENIED"]
    assert bench.codes("query($id: ID!) {node(id: $id) {id}}", id=gid("Customer", customer)) == ["ACCESS_DENIED"]
    granted = bench.shown("{currentAppInstallation {accessScopes {handle}}}")["currentAppInstallation"]
    assert granted == {"accessScopes": [{"handle": "read_orders"}]}


def test_fields_that_nobody_approved(bench: Bench) -> None:
    """Customer data that was not approved is an error of its field, or null without a word."""
    bench.create("order")
    asked = "{orders(first: 1) {nodes {id email}}}"

    bench.put("shop", {"denied": ["Order.email"]})
    assert bench.codes(asked) == ["ACCESS_DENIED"]
    bench.put("shop", {"hidden": ["Order.email"]})

    assert bench.shown(asked)["orders"]["nodes"][0]["email"] is None


def test_old_orders(bench: Bench) -> None:
    """Without its own scope, an order of more than 60 days is null and in no list, and neither is its refund."""
    [old] = bench.create("order", at=NOW - 60 * DAY - 1)
    [refund] = bench.create("refund", body={"order": old})
    [young] = bench.create("order", at=NOW - 60 * DAY)
    asked = "query($id: ID!, $of: ID!) {order(id: $id) {id} refund(id: $of) {id} ordersCount {count}}"
    ids = {"id": gid("Order", old), "of": gid("Refund", refund)}

    assert bench.shown(asked, **ids)["order"] is not None
    bench.put("shop", {"scopes": ["read_orders"]})

    assert bench.shown(asked, **ids) == {"order": None, "refund": None, "ordersCount": {"count": 1}}
    assert bench.found("order", "") == [young]


# Fetching


@pytest.mark.parametrize("kind", KINDS_OF_MANY)
def test_fetch(bench: Bench, kind: str) -> None:
    """An object is shown as it is now, by its root field and as a node; one that is not there is null."""
    [id_] = bench.create(kind)
    type_ = KINDS[kind].type
    root = f"{type_[0].lower()}{type_[1:]}"
    asked = "query($id: ID!) {one: ROOT(id: $id) {id} node(id: $id) {id} nodes(ids: [$id]) {id}}"
    asked, there = asked.replace("ROOT", root), {"id": gid_of(kind, id_)}

    assert bench.shown(asked, id=there["id"]) == {"one": there, "node": there, "nodes": [there]}
    assert bench.shown(asked, id=gid(type_, 404)) == {"one": None, "node": None, "nodes": [None]}


@pytest.mark.parametrize(
    "id_", ["nobody_1", "gid://shopify/Order/", "gid://elsewhere/Order/1", "gid://shopify/Order/x"]
)
def test_wrong_ids(bench: Bench, id_: str) -> None:
    """What is no global id is an error without data, not an absence."""
    answer = bench.answer("query($id: ID!) {order(id: $id) {id}}", id=id_)

    assert "data" not in answer
    assert answer["errors"][0]["extensions"]["problems"][0]["message"] == f"Invalid global id '{id_}'"


def test_id_of_another_type(bench: Bench) -> None:
    """A global id of another type is an error, even where that object exists."""
    [product] = bench.create("product")

    assert bench.codes("query($id: ID!) {order(id: $id) {id}}", id=gid("Product", product)) == ["RESOURCE_NOT_FOUND"]


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("order", "tags"),
        ("product", "tags"),
        ("customer", "tags"),
        ("product_variant", "sku"),
        ("refund", "note"),
    ],
)
def test_version_is_in_the_body(bench: Bench, kind: str, read: str) -> None:
    """The hidden version of an object can be read from what the API shows."""
    [id_] = bench.create(kind)
    for _ in range(2):
        bench.do("change", kind, id_)

    type_ = KINDS[kind].type
    asked = f"query($id: ID!) {{node(id: $id) {{... on {type_} {{{read}}}}}}}"
    shown = bench.shown(asked, id=gid(type_, id_))["node"]
    version = bench.truth(kind)[id_]["version"]

    assert version == 3
    told = shown[read]
    assert f"v{version}" in told if isinstance(told, list) else told.endswith(f"-v{version}")


@pytest.mark.parametrize("kind", KINDS_OF_MANY)
def test_stamps(bench: Bench, kind: str) -> None:
    """A stamp moves with a change, in whole seconds of UTC, or stays, or goes back, as it was told."""
    [id_] = bench.create(kind)
    seen = []

    for seconds, stamp in ((1.7, "move"), (10, "keep"), (10, "back")):
        bench.now += seconds
        bench.do("change", kind, id_, stamp=stamp)
        body = bench.truth(kind)[id_]["body"]
        seen.append(body.get("discount", body)["updatedAt"])

    assert seen == ["2026-09-21T14:13:21Z", "2026-09-21T14:13:21Z", "2026-09-21T13:13:21Z"]


def test_order_of_a_customer(bench: Bench) -> None:
    """An order counts for its customer, and holds them there."""
    [customer] = bench.create("customer")
    [order] = bench.create("order", body={"customer": customer})
    asked = "query($id: ID!) {customer(id: $id) {numberOfOrders lastOrder {id} orders(first: 5) {nodes {id}}}}"

    shown = bench.shown(asked, id=gid("Customer", customer))["customer"]

    known = {"id": gid("Order", order)}
    assert shown == {"numberOfOrders": "1", "lastOrder": known, "orders": {"nodes": [known]}}
    refused = bench.http.post("/_control/objects", json={"op": "delete", "kind": "customer", "id": customer})
    assert (refused.status_code, "has orders" in refused.json()["error"]) == (400, True)


def test_refund_of_an_order(bench: Bench) -> None:
    """A refund stands in its order, moves the order's stamp and sum, and goes with it."""
    [order] = bench.create("order", parts=2)
    bench.now += 5
    [refund] = bench.create("refund", body={"order": order})
    asked = "query($id: ID!) {order(id: $id) {updatedAt displayFinancialStatus refunds {id order {id}}}}"

    shown = bench.shown(asked, id=gid("Order", order))["order"]

    assert shown == {
        "updatedAt": "2026-09-21T14:13:25Z",
        "displayFinancialStatus": "PARTIALLY_REFUNDED",
        "refunds": [{"id": gid("Refund", refund), "order": {"id": gid("Order", order)}}],
    }
    bench.do("delete", "order", order)
    assert bench.truth("refund")[refund]["deleted"]


def test_variants_of_a_product(bench: Bench) -> None:
    """Variants are objects of their own that move their product's stamp and go with it."""
    made = bench.do("create", "product", parts=3)
    [first, second, third] = [each["id"] for each in made["also"]]
    asked = "query($id: ID!) {product(id: $id) {updatedAt variantsCount {count} variants(first: 5) {nodes {id}}}}"
    bench.now += 5

    bench.do("change", "product_variant", first)
    bench.do("delete", "product_variant", second)
    shown = bench.shown(asked, id=gid("Product", made["id"]))["product"]

    assert shown["updatedAt"] == "2026-09-21T14:13:25Z"
    assert shown["variantsCount"] == {"count": 2}
    assert shown["variants"]["nodes"] == [{"id": gid("ProductVariant", each)} for each in (first, third)]
    bench.do("delete", "product", made["id"])
    assert all(each["deleted"] for each in bench.truth("product_variant").values())


def test_recreated(bench: Bench) -> None:
    """What was deleted may come back under its id, and a variant then belongs to its new product alone."""
    made = bench.do("create", "product")
    [variant] = [each["id"] for each in made["also"]]
    bench.do("delete", "product", made["id"])

    bench.do("recreate", "product", made["id"])
    bench.do("recreate", "product_variant", variant)

    asked = "query($id: ID!) {product(id: $id) {variants(first: 5) {nodes {id}}}}"
    shown = bench.shown(asked, id=gid("Product", made["id"]))["product"]["variants"]["nodes"]
    assert gid("ProductVariant", variant) not in [each["id"] for each in shown]
    assert bench.truth("product_variant")[variant]["version"] == 3


@pytest.mark.parametrize(
    ("kind", "part"), [("order", "lineItems"), ("refund", "refundLineItems"), ("customer", "addressesV2")]
)
def test_long_sub_lists(bench: Bench, kind: str, part: str) -> None:
    """A list inside an object takes pages, and grows and shrinks when it is told to."""
    [id_] = bench.create(kind, parts=213)
    type_ = KINDS[kind].type
    asked = (
        "query($id: ID!, $after: String) {node(id: $id) {... on TYPE "
        "{PART(first: 100, after: $after) {nodes {id} pageInfo {hasNextPage endCursor}}}}}"
    )
    asked = asked.replace("TYPE", type_).replace("PART", part)

    def pages() -> list[int]:
        after, sizes = None, []
        while True:
            page = bench.shown(asked, id=gid(type_, id_), after=after)["node"][part]
            sizes.append(len(page["nodes"]))
            after = page["pageInfo"]["endCursor"]
            if not page["pageInfo"]["hasNextPage"]:
                return sizes

    assert pages() == [100, 100, 13]
    bench.do("change", kind, id_, parts=101)
    assert pages() == [100, 1]
    bench.do("change", kind, id_, parts=120)
    assert pages() == [100, 20]


def test_numbers_and_texts_arrive_exactly(bench: Bench) -> None:
    """No number passes through a float and no character is lost."""
    odd = '{"n":9007199254740993,"m":0.10,"k":-1E+400}'
    note = "a\0b \u2028 \U0001f600"
    raw = '{"op":"create","kind":"order","body":{"note":%s,"metafields":[{"namespace":"a","key":"b","jsonValue":%s}]}}'
    [id_] = [bench.http.post("/_control/objects", content=raw % (json.dumps(note), odd)).json()["id"]]

    shown = bench.ask(
        'query($id: ID!) {order(id: $id) {note metafield(namespace: "a", key: "b") {jsonValue}}}', id=gid("Order", id_)
    )

    assert odd.encode() in shown.content
    assert shown.json()["data"]["order"]["note"] == note


# Lists


@pytest.mark.parametrize("kind", ROOTS)
def test_pages(bench: Bench, kind: str) -> None:
    """A list is walked forth and back by its cursors, each object once."""
    made = bench.create(kind, 7)
    plural = ROOTS[kind][1]
    asked = (
        "query($f: Int, $l: Int, $a: String, $b: String) "
        "{LIST(first: $f, last: $l, after: $a, before: $b, sortKey: ID) "
        "{edges {cursor node {legacyResourceId}} pageInfo {hasNextPage hasPreviousPage startCursor endCursor}}}"
    )
    asked = asked.replace("LIST", plural)

    def page(**asked_for: Any) -> tuple[list[str], dict[str, Any]]:
        shown = bench.shown(asked, **asked_for)[plural]
        assert [shown["edges"][0]["cursor"], shown["edges"][-1]["cursor"]] == [
            shown["pageInfo"]["startCursor"],
            shown["pageInfo"]["endCursor"],
        ]
        return [each["node"]["legacyResourceId"] for each in shown["edges"]], shown["pageInfo"]

    first, place = page(f=3)
    second, after = page(f=3, a=place["endCursor"])
    third, end = page(f=3, a=after["endCursor"])
    back, before = page(l=3, b=after["startCursor"])
    last, _ = page(l=2)

    assert [*first, *second, *third] == made
    assert (back, last) == (first, made[-2:])
    assert [each["hasNextPage"] for each in (place, after, end, before)] == [True, True, False, True]
    assert [each["hasPreviousPage"] for each in (place, after, end, before)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "you must provide one of first or last"),
        ("(first: 1, last: 1)", "providing both first and last"),
        ("(first: 251)", "first cannot exceed 250"),
        ("(last: 251)", "last cannot exceed 250"),
        ("(first: -1)", "first cannot be negative"),
        ('(first: 1, after: "x")', "Invalid cursor for current pagination sort."),
    ],
)
def test_wrong_pages(bench: Bench, arguments: str, message: str) -> None:
    """A page that makes no sense is an error inside a 200, with data null."""
    bench.create("order")

    answer = bench.answer(f"{{orders{arguments} {{nodes {{id}}}}}}")

    assert answer["data"] is None
    assert answer["errors"][0]["message"] == message


def test_lists_have_their_own_order(bench: Bench) -> None:
    """Orders come by when they were placed, other lists by id; a changed object moves to the end by its stamp."""
    [late] = bench.create("order")
    [early] = bench.create("order", at=NOW - 100)
    bench.now += 1
    bench.do("change", "order", late)
    asked = "query($r: Boolean) {orders(first: 9, reverse: $r) {nodes {legacyResourceId}}}"
    moved = "{orders(first: 9, sortKey: UPDATED_AT) {nodes {legacyResourceId}}}"

    def numbers(query: str, **variables: Any) -> list[str]:
        return [each["legacyResourceId"] for each in bench.shown(query, **variables)["orders"]["nodes"]]

    assert numbers(asked) == numbers(moved) == [early, late]
    assert numbers(asked, r=True) == [late, early]
    assert bench.found("order", "") == [late, early]


def test_keyset_over_moving_objects(bench: Bench) -> None:
    """By stamp, what changes between two pages is seen again and nothing is skipped."""
    made = [bench.create("product", at=NOW - 100 + turn)[0] for turn in range(6)]
    asked = (
        "query($a: String) {products(first: 2, after: $a, sortKey: UPDATED_AT) "
        "{nodes {legacyResourceId} pageInfo {hasNextPage endCursor}}}"
    )
    seen: list[str] = []
    after, more = None, True

    while more:
        page = bench.shown(asked, a=after)["products"]
        seen += [each["legacyResourceId"] for each in page["nodes"]]
        after, more = page["pageInfo"]["endCursor"], page["pageInfo"]["hasNextPage"]
        if len(seen) == 2:
            bench.do("change", "product", made[0])

    assert seen == [*made, made[0]]


@with_settings(ceiling=5)
def test_ceiling(bench: Bench) -> None:
    """A list ends without a word after so many objects, and counts say that there are more."""
    made = bench.create("customer", 7)
    asked = (
        "query($a: String) {customers(first: 3, after: $a) {nodes {legacyResourceId} pageInfo {hasNextPage endCursor}}}"
    )

    first = bench.shown(asked)["customers"]
    second = bench.shown(asked, a=first["pageInfo"]["endCursor"])["customers"]

    assert [each["legacyResourceId"] for each in (*first["nodes"], *second["nodes"])] == made[:5]
    assert second["pageInfo"]["hasNextPage"] is False
    counts = bench.shown(
        "{all: customersCount(limit: null) {count precision} few: customersCount(limit: 2) {count precision}}"
    )
    assert counts["all"] == {"count": 6, "precision": "AT_LEAST"}
    assert counts["few"] == {"count": 2, "precision": "AT_LEAST"}


def test_moving_pages(bench: Bench) -> None:
    """When told to, the shop changes something after each page that has more."""
    bench.create("order", 6)
    bench.put("faults", {"shift_pages": 1})
    before = bench.truth("order")

    bench.shown("{orders(first: 2) {nodes {id}}}")

    assert bench.truth("order") != before


def test_history(bench: Bench) -> None:
    """The shop's history tells what was destroyed and when."""
    [id_] = bench.create("product", at=NOW - 100)
    bench.do("delete", "product", id_)
    query = "action:destroy AND subject_type:PRODUCT AND created_at:>='2026-09-21T14:13:20Z'"
    asked = (
        "query($q: String) {events(first: 9, query: $q, sortKey: CREATED_AT) "
        "{nodes {action createdAt ... on BasicEvent {subjectId}}}}"
    )

    assert bench.shown(asked, q=query)["events"]["nodes"] == [
        {"action": "destroy", "createdAt": STAMP, "subjectId": gid("Product", id_)}
    ]


# Searching


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("updated_at:>='2026-09-21T14:13:20Z'", "bc"),
        ("updated_at:>'2026-09-21T14:13:20Z'", "c"),
        ("updated_at:>='2026-09-21T14:13:20.5Z'", "c"),
        ('updated_at:<"2026-09-21T14:13:20Z"', "a"),
        ("updated_at:<='2026-09-21T14:13:20Z' AND updated_at:>'2026-09-21T14:13:10Z'", "b"),
        ("updated_at:<='2026-09-21T14:13:20Z' updated_at:>'2026-09-21T14:13:10Z'", "b"),
        ("updated_at:'2026-09-21T14:13:20Z' OR tag:c", "bc"),
        ("tag:a OR tag:b tag:c", "a"),
        ("(tag:a OR tag:b) AND -tag:a", "b"),
        ("NOT tag:a", "bc"),
        ("NOT (tag:a OR tag:c)", "b"),
        ("tag:A", "a"),
        ("tag:'a'", "a"),
        ("updated_at:>2026-09-21", "abc"),
        ("updated_at:>=2026-09-22", ""),
        ("test:false AND status:open", "abc"),
        ("status:closed", ""),
        ("name:#100*", "abc"),
        ("#1002", "b"),
        ("", "abc"),
        ("  ", "abc"),
    ],
)
def test_search(bench: Bench, query: str, wanted: str) -> None:
    """A search finds what it says."""
    made = {
        tag: bench.create("order", at=NOW + at, body={"tags": [tag]})[0]
        for tag, at in zip("abc", (-100, 0, 1), strict=True)
    }

    assert bench.found("order", query) == [made[tag] for tag in wanted]
    assert (
        "search"
        not in bench.answer("query($q: String) {orders(first: 1, query: $q) {nodes {id}}}", q=query)["extensions"]
    )


def test_search_by_id(bench: Bench) -> None:
    """Ids are numbers to a search, so that a list can be continued from any of them."""
    made = bench.create("product", 3)

    assert bench.found("product", f"id:>{made[0]}") == made[1:]
    assert bench.found("product", f"id:{made[1]} OR id:{made[2]}") == made[1:]
    variants = list(bench.truth("product_variant"))
    assert bench.found("product_variant", f"product_id:{made[2]}") == variants[2:]


def test_search_unknown_field(bench: Bench) -> None:
    """A field that a list does not know is dropped: all objects are shown, and a warning says so."""
    made = bench.create("order", 2)
    asked = "query($q: String) {found: orders(first: 9, query: $q, sortKey: ID) {nodes {legacyResourceId}}}"

    answer = bench.answer(asked, q="updatedAt:>='2026-12-01T00:00:00Z'")

    assert [each["legacyResourceId"] for each in answer["data"]["found"]["nodes"]] == made
    [search] = answer["extensions"]["search"]
    assert (search["path"], search["query"]) == (["found"], "updatedAt:>='2026-12-01T00:00:00Z'")
    assert search["warnings"] == [
        {"field": "updatedAt", "message": "Invalid search field for this query.", "code": "invalid_field"}
    ]
    assert len(bench.found("order", "tag:v1 AND nothing:1")) == 2
    assert bench.found("order", "tag:none AND nothing:1") == []


def test_k43_unquoted_time(bench: Bench) -> None:
    """K43: a time without quotes falls apart at its colons: nothing is found, and warnings name the pieces."""
    bench.create("order")

    answer = bench.answer('{orders(first: 9, query: "updated_at:>=2020-01-01T19:45:00Z") {nodes {id}}}')

    assert answer["data"]["orders"]["nodes"] == []
    assert [each["field"] for each in answer["extensions"]["search"][0]["warnings"]] == ["19", "45"]


@pytest.mark.parametrize("time", ["2020-01-01T00:00:00+08:00", "2020-01-01T00:00:00", "2020-13-01T00:00:00Z", "soon"])
def test_k43_time_in_another_zone(bench: Bench, time: str) -> None:
    """K43: a time that is not in UTC, or none, finds nothing and says nothing."""
    bench.create("order")

    assert bench.found("order", f"updated_at:>='{time}'") == []


# Cost


@pytest.mark.parametrize(
    ("query", "requested", "actual"),
    [
        ("{shop {name}}", 1, 1),
        ("{shop {name plan {shopifyPlus}}}", 2, 2),
        ("{orders(first: 10) {nodes {id}}}", 12, 5),
        ("{orders(first: 10) {edges {cursor node {id}} pageInfo {hasNextPage}}}", 12, 5),
        ("{orders(last: 10) {nodes {totalPriceSet {shopMoney {amount}}}}}", 32, 11),
        ("{orders(first: 10) {nodes {lineItems(first: 5) {nodes {id}}}}}", 82, 14),
        ("{orders(first: 10) {nodes {...f}}} fragment f on Order {lineItems(first: 5) {nodes {id}}}", 82, 14),
        (
            '{node(id: "gid://shopify/Order/404") {id ... on Order {customer {id}} ... on Shop {plan {shopifyPlus}}}}',
            2,
            0,
        ),
    ],
)
def test_cost(bench: Bench, query: str, requested: int, actual: int) -> None:
    """An object costs a point and a connection two and its objects; the rest of what was asked for is given back."""
    bench.create("order", 3)
    bench.put("bucket", {"restore": 100})

    cost = bench.answer(query)["extensions"]["cost"]

    assert (cost["requestedQueryCost"], cost["actualQueryCost"]) == (requested, actual)
    assert cost["throttleStatus"] == {"maximumAvailable": 2000, "currentlyAvailable": 2000 - actual, "restoreRate": 100}


def test_cost_of_sizes_in_variables(bench: Bench) -> None:
    """A page size that is a variable counts like any other, and so does a change, which costs ten."""
    cost = bench.answer("query($n: Int!) {orders(first: $n) {nodes {id}}}", n=20)["extensions"]["cost"]
    asked = 'mutation {webhookSubscriptionDelete(id: "gid://shopify/WebhookSubscription/1") {userErrors {message}}}'

    assert cost["requestedQueryCost"] == 22
    assert bench.answer(asked)["extensions"]["cost"]["requestedQueryCost"] == 12


def test_too_dear(bench: Bench) -> None:
    """One query may not cost more than a thousand points, however full the bucket is."""
    dear = "{orders(first: 250) {nodes {lineItems(first: 1) {nodes {id}}}}}"

    answer = bench.answer(dear)

    assert "data" not in answer
    assert answer["errors"][0]["extensions"]["code"] == "MAX_COST_EXCEEDED"
    assert answer["errors"][0]["extensions"]["cost"] == 1002


def test_k53_throttled(bench: Bench) -> None:
    """K53: an empty bucket is a 200 with null data, an error code and what it would have cost; points come back."""
    bench.put("bucket", {"restore": 10, "maximum": 200, "left": 5})
    asked = "{orders(first: 50) {nodes {id}}}"

    answer = bench.answer(asked)

    assert answer["data"] is None
    assert [each["extensions"]["code"] for each in answer["errors"]] == ["THROTTLED"]
    assert answer["extensions"]["cost"] == {
        "requestedQueryCost": 52,
        "actualQueryCost": None,
        "throttleStatus": {"maximumAvailable": 200, "currentlyAvailable": 5, "restoreRate": 10},
    }
    bench.now += 4.5
    assert bench.codes(asked) == ["THROTTLED"]
    bench.now += 0.25
    assert bench.shown(asked) == {"orders": {"nodes": []}}


# What goes wrong


@pytest.mark.parametrize("status", [402, 423, 429, 500, 502, 503, 504])
def test_status_faults(bench: Bench, status: int) -> None:
    """A call is answered with the status that was told, and 429 says how long to wait."""
    bench.put("faults", {"status": {str(status): 1}})

    response = bench.ask("{shop {name}}")

    assert response.status_code == status
    assert ("Retry-After" in response.headers) is (status == 429)


def test_errors_inside_200(bench: Bench) -> None:
    """A share of calls fails inside a 200 with null data."""
    bench.put("shop", {"errors": {"INTERNAL_SERVER_ERROR": 0.5, "THROTTLED": 0.2}})

    answers = [bench.answer("{shop {name}}") for _ in range(60)]

    codes = [each["errors"][0]["extensions"]["code"] for each in answers if "errors" in each]
    assert {each["data"] is None for each in answers if "errors" in each} == {True}
    assert set(codes) == {"INTERNAL_SERVER_ERROR", "THROTTLED"}
    assert 25 < len(codes) < 58


@pytest.mark.parametrize(
    "query", ["{orders {", "{nothing}", "query($a: Int!) {shop {name}}", "query A {shop {name}} query B {shop {name}}"]
)
def test_queries_that_are_none(bench: Bench, query: str) -> None:
    """A query that cannot be executed is a 200 with errors and without data."""
    answer = bench.answer(query)

    assert answer["errors"][0]["message"]
    assert answer.get("data") is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"query":1}', b'{"query":""}'])
def test_bodies_that_are_none(bench: Bench, body: bytes) -> None:
    """A request without a query is refused."""
    response = bench.http.post(
        "/admin/api/2026-10/graphql.json", content=body, headers={"X-Shopify-Access-Token": "shpat_a"}
    )

    assert response.status_code == 400


@pytest.mark.parametrize(
    ("asked", "served"),
    [("2026-10", "2026-10"), ("2026-01", "2026-01"), ("2024-04", "2026-01"), ("unstable", "unstable")],
)
def test_versions(bench: Bench, asked: str, served: str) -> None:
    """A version that is no longer served is answered by the oldest that is, and the header says so."""
    response = bench.ask("{shop {name}}", version=asked)

    assert (response.status_code, response.headers["X-Shopify-API-Version"]) == (200, served)


@pytest.mark.parametrize("asked", ["2027-01", "2026-02", "2026", "v1"])
def test_versions_that_are_none(bench: Bench, asked: str) -> None:
    """There is nothing at a version that does not exist."""
    assert bench.ask("{shop {name}}", version=asked).status_code == 404


def test_dates(bench: Bench) -> None:
    """Each answer has the provider's time, which may be ahead of ours, and an id of the call."""
    bench.put("clock", {"skew": 3600})

    headers = bench.ask("{shop {name}}").headers

    assert parsedate_to_datetime(headers["Date"]).timestamp() == NOW + 3600
    assert len(headers["X-Request-Id"]) == 32


def test_stale_reads(bench: Bench) -> None:
    """A stale read shows the shop of some seconds ago, in a fetch and in a list."""
    [id_] = bench.create("order", body={"note": "before"})
    bench.now += 100
    bench.do("change", "order", id_, body={"note": "after"})
    bench.create("order")
    bench.now += 2
    bench.put("faults", {"stale_reads": 1, "stale_for": 5})

    asked = "query($id: ID!) {order(id: $id) {note} orders(first: 9) {nodes {note}}}"

    assert bench.shown(asked, id=gid("Order", id_)) == {
        "order": {"note": "before"},
        "orders": {"nodes": [{"note": "before"}]},
    }


def test_calls_are_counted(bench: Bench) -> None:
    """Calls are counted by what they ask for."""
    bench.ask("{shop {name} ordersCount {count}}")
    bench.ask("{shop {name}}")
    bench.ask("{")

    assert bench.http.get("/_control/calls").json()["operations"] == {
        "POST graphql.json shop": {"200": 1},
        "POST graphql.json shop+ordersCount": {"200": 1},
        "POST graphql.json unreadable": {"200": 1},
    }
    assert bench.http.get("/admin/api/2026-10/orders.json").status_code == 404


@pytest.mark.parametrize(
    "asked",
    [
        {"op": "create", "kind": "nothing"},
        {"op": "create", "kind": "order", "scope": "x"},
        {"op": "create", "kind": "order", "id": "abc"},
        {"op": "create", "kind": "shop"},
        {"op": "create", "kind": "order", "body": {"nothing": 1}},
        {"op": "create", "kind": "order", "body": {"id": "1"}},
        {"op": "create", "kind": "order", "body": {"tags": "a"}},
        {"op": "create", "kind": "order", "body": {"customer": "404"}},
        {"op": "create", "kind": "refund", "body": {"order": "404"}},
        {"op": "change", "kind": "order", "id": "404"},
        {"op": "delete", "kind": "order", "id": "404"},
    ],
)
def test_operations_that_make_no_sense(bench: Bench, asked: dict[str, Any]) -> None:
    """What Shopify would not have is refused with the reason, and changes nothing."""
    before = bench.http.get("/_control/objects").json()

    refused = bench.http.post("/_control/objects", json=asked)

    assert (refused.status_code, bool(refused.json()["error"])) == (400, True)
    assert bench.http.get("/_control/objects").json() == before


def test_operations_twice(bench: Bench) -> None:
    """Nothing is created or deleted twice, a refund never goes alone, and the shop stays."""
    [order] = bench.create("order")
    [refund] = bench.create("refund")
    [shop] = bench.truth("shop")
    bench.do("delete", "order", order)

    for op, kind, id_ in (
        ("create", "order", order),
        ("delete", "order", order),
        ("change", "order", order),
        ("delete", "refund", refund),
        ("delete", "shop", shop),
    ):
        assert bench.http.post("/_control/objects", json={"op": op, "kind": kind, "id": id_}).status_code == 400


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("shop", {"state": "closed"}),
        ("shop", {"other": 1}),
        ("shop", {"scopes": "read_orders"}),
        ("shop", {"errors": {"THROTTLED": -1}}),
        ("bucket", {"rate": 1}),
        ("bucket", {"left": "many"}),
        ("family", {"family": "other"}),
        ("family", []),
    ],
)
def test_settings_that_make_no_sense(bench: Bench, path: str, asked: object) -> None:
    """A setting that makes no sense is refused with the reason, and changes nothing."""
    before = bench.http.get(f"/_control/{path}").json()

    assert bench.http.put(f"/_control/{path}", json=asked).status_code == 400
    assert bench.http.get(f"/_control/{path}").json() == before


# Webhooks


def test_delivery(bench: Bench, receiver: Receiver) -> None:
    """A delivery has Shopify's headers and a signature over the body alone."""
    [id_] = bench.create("order")
    flush(bench)

    headers, body = sole(receiver)

    raw = receiver.arrived[0][1]
    signed = base64.b64encode(hmac.digest(SECRET.encode(), raw, hashlib.sha256)).decode()
    assert headers["x-shopify-hmac-sha256"] == signed
    assert headers["x-shopify-topic"] == "orders/create"
    assert headers["x-shopify-shop-domain"] == "standin.myshopify.com"
    assert headers["x-shopify-api-version"] == "2026-10"
    assert headers["x-shopify-triggered-at"] == "2026-09-21T14:13:20.000000Z"
    assert headers["x-shopify-webhook-id"] != headers["x-shopify-event-id"]
    assert (body["id"], body["admin_graphql_api_id"]) == (int(id_), gid("Order", id_))


def test_delivery_by_the_older_secret(bench: Bench, receiver: Receiver) -> None:
    """While a secret is being rolled, the one that was there first signs."""
    bench.put("webhooks", {"url": receiver.url, "secret": ["older", "newer"]})

    bench.create("customer")
    flush(bench)

    headers, _ = sole(receiver)
    signed = base64.b64encode(hmac.digest(b"older", receiver.arrived[0][1], hashlib.sha256)).decode()
    assert headers["x-shopify-hmac-sha256"] == signed


@pytest.mark.parametrize(
    ("kind", "did", "topics"),
    [
        ("order", {"op": "change"}, ["orders/updated"]),
        (
            "order",
            {"op": "change", "body": {"displayFulfillmentStatus": "FULFILLED"}},
            ["orders/updated", "orders/fulfilled"],
        ),
        ("order", {"op": "change", "body": {"cancelReason": "CUSTOMER"}}, ["orders/updated", "orders/cancelled"]),
        ("order", {"op": "delete"}, ["orders/delete"]),
        ("product", {"op": "change"}, ["products/update"]),
        ("product", {"op": "delete"}, ["products/delete"]),
        ("product_variant", {"op": "change"}, ["products/update"]),
        ("product_variant", {"op": "delete"}, ["products/update"]),
        ("customer", {"op": "change"}, ["customers/update"]),
        ("customer", {"op": "change", "body": {"state": "ENABLED"}}, ["customers/update", "customers/enable"]),
        ("customer", {"op": "delete"}, ["customers/delete"]),
        ("refund", {"op": "change"}, ["orders/updated"]),
    ],
)
def test_topics(bench: Bench, receiver: Receiver, kind: str, did: dict[str, Any], topics: list[str]) -> None:
    """Each change is told under the topics that Shopify has for it."""
    [id_] = bench.create(kind, announce=False)

    bench.do(kind=kind, id_=id_, **did)
    flush(bench)

    assert sorted(receiver.topics()) == sorted(topics)


@pytest.mark.parametrize(
    ("kind", "topics"),
    [
        ("order", ["orders/create"]),
        ("product", ["products/create"]),
        ("product_variant", ["products/create"]),
        ("customer", ["customers/create"]),
        ("refund", ["orders/create", "orders/updated", "refunds/create"]),
    ],
)
def test_topics_of_new_objects(bench: Bench, receiver: Receiver, kind: str, topics: list[str]) -> None:
    """A new object is told once, all topics of one act under one event id and each delivery under its own."""
    bench.create(kind)
    flush(bench)

    assert sorted(receiver.topics()) == topics
    assert len({headers["x-shopify-event-id"] for headers, _ in receiver.arrived}) == 1
    assert len({headers["x-shopify-webhook-id"] for headers, _ in receiver.arrived}) == len(topics)


def test_k23_offsets(bench: Bench, receiver: Receiver) -> None:
    """K23: bodies have the shop's offset, which changes with the season, for the instant that the API shows in UTC."""
    for at in (1_793_511_000, 1_793_514_600):  # half past one in New York, before and after the clocks go back
        bench.create("customer", at=at)
    flush(bench)

    stamps = sorted(parse(body)["updated_at"] for _, body in receiver.arrived)
    shown = [each["body"]["updatedAt"] for each in bench.truth("customer").values()]

    assert stamps == ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"]
    assert [datetime.fromisoformat(each) for each in stamps] == [datetime.fromisoformat(each) for each in shown]
    assert shown == ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]


@pytest.mark.parametrize("kind", ["order", "product", "customer"])
def test_k27_deletes_say_almost_nothing(bench: Bench, receiver: Receiver, kind: str) -> None:
    """K27: of what was deleted only the number is told."""
    [id_] = bench.create(kind, announce=False, id="9007199254740993")

    bench.do("delete", kind, id_)
    flush(bench)

    assert receiver.arrived[0][1] == b'{"id":9007199254740993}'


def test_product_names_its_variants(bench: Bench, receiver: Receiver) -> None:
    """A product's body shows a hundred variants and names all, each with its stamp."""
    bench.create("product", parts=120)
    flush(bench)

    _, body = sole(receiver)

    assert (len(body["variants"]), len(body["variant_gids"])) == (100, 120)
    assert body["variants"][0]["admin_graphql_api_id"] == body["variant_gids"][0]["admin_graphql_api_id"]
    assert body["variants"][0]["updated_at"] == body["variant_gids"][0]["updated_at"] == "2026-09-21T10:13:20-04:00"


def test_order_shows_its_refunds(bench: Bench, receiver: Receiver) -> None:
    """An order's body shows its customer, its lines and its refunds."""
    [customer] = bench.create("customer", announce=False)
    [order] = bench.create("order", parts=2, body={"customer": customer}, announce=False)
    [refund] = bench.create("refund", body={"order": order}, announce=False)
    bench.do("change", "order", order)
    flush(bench)

    _, body = sole(receiver)

    assert body["customer"]["id"] == int(customer)
    assert [each["id"] for each in body["refunds"]] == [int(refund)]
    assert len(body["line_items"]) == 2


def test_other_family(bench: Bench, receiver: Receiver) -> None:
    """The newer headers are lower case without `X-`, name the action, and have no event id."""
    bench.put("family", {"family": "events"})

    bench.create("product")
    flush(bench)

    headers = {name: value for name, value in receiver.arrived[0][0].items() if "shopify-" in name}
    assert sorted(headers) == [
        "shopify-action",
        "shopify-api-version",
        "shopify-handle",
        "shopify-hmac-sha256",
        "shopify-shop-domain",
        "shopify-topic",
        "shopify-triggered-at",
        "shopify-webhook-id",
    ]
    assert headers["shopify-action"] == "create"


def test_k17_copies_share_their_id(bench: Bench, receiver: Receiver) -> None:
    """K17: a copy has the id of its delivery; two subscriptions share the event's id only."""
    bench.put("webhooks", [{"url": receiver.url, "secret": SECRET}, {"url": receiver.url, "secret": SECRET}])
    bench.put("faults", {"duplicate": 1})

    bench.create("order")
    flush(bench)

    ids = [headers["x-shopify-webhook-id"] for headers, _ in receiver.arrived]
    assert (len(ids), len(set(ids))) == (4, 2)
    assert len({headers["x-shopify-event-id"] for headers, _ in receiver.arrived}) == 1


def test_retries_are_the_same_delivery(bench: Bench, receiver: Receiver) -> None:
    """A delivery that fails is tried eight times more, with the same bytes and headers, and then never again."""
    receiver.status = 500

    bench.create("order")
    flush(bench)

    assert len(receiver.arrived) == 9
    assert (
        len(
            {
                (body, headers["x-shopify-webhook-id"], headers["x-shopify-hmac-sha256"])
                for headers, body in receiver.arrived
            }
        )
        == 1
    )


def test_subscription_ends_after_eight_retries(bench: Bench, receiver: Receiver) -> None:
    """A subscription whose retries all failed is taken away; other topics of the same address stay."""
    receiver.status = 500
    bench.create("order")
    flush(bench)
    receiver.status = 200
    receiver.arrived.clear()

    bench.create("order")
    bench.create("customer")
    flush(bench)

    assert receiver.topics() == ["customers/create"]
    topics = bench.shown("{webhookSubscriptions(first: 99) {nodes {topic}}}")["webhookSubscriptions"]["nodes"]
    assert len(topics) == len(SUBSCRIBABLE) - 1
    assert {"topic": "ORDERS_CREATE"} not in topics


def test_subscriptions(bench: Bench, receiver: Receiver) -> None:
    """Subscriptions are listed, made, moved and ended through the API; those are signed with the client secret."""
    bench.put("webhooks", [])
    make = (
        "mutation($topic: WebhookSubscriptionTopic!, $uri: String!) {webhookSubscriptionCreate(topic: $topic, "
        "webhookSubscription: {uri: $uri}) {webhookSubscription {id topic uri} userErrors {field message}}}"
    )

    made = bench.shown(make, topic="ORDERS_CREATE", uri=receiver.url)["webhookSubscriptionCreate"]
    again = bench.shown(make, topic="ORDERS_CREATE", uri=receiver.url)["webhookSubscriptionCreate"]
    wrong = bench.shown(make, topic="ORDERS_CREATE", uri="ftp://x")["webhookSubscriptionCreate"]
    bench.create("order")
    flush(bench)

    assert made["userErrors"] == []
    assert (again["webhookSubscription"], wrong["webhookSubscription"]) == (None, None)
    assert receiver.topics() == ["orders/create"]
    known = bench.shown("{webhookSubscriptions(first: 9, topics: [ORDERS_CREATE]) {nodes {id topic uri}}}")
    assert known["webhookSubscriptions"]["nodes"] == [made["webhookSubscription"]]
    ended = bench.shown(
        "mutation($id: ID!) {webhookSubscriptionDelete(id: $id) {deletedWebhookSubscriptionId userErrors {message}}}",
        id=made["webhookSubscription"]["id"],
    )
    assert ended["webhookSubscriptionDelete"]["deletedWebhookSubscriptionId"] == made["webhookSubscription"]["id"]
    assert bench.shown("{webhookSubscriptionsCount {count}}") == {"webhookSubscriptionsCount": {"count": 0}}


def test_subscription_moves(bench: Bench, receiver: Receiver) -> None:
    """A subscription that is changed sends to its new address."""
    bench.put("webhooks", {"url": "http://127.0.0.1:9/old", "secret": SECRET, "events": ["orders/create"]})
    [known] = bench.shown("{webhookSubscriptions(first: 9) {nodes {id}}}")["webhookSubscriptions"]["nodes"]

    bench.shown(
        "mutation($id: ID!, $uri: String!) {webhookSubscriptionUpdate(id: $id, webhookSubscription: {uri: $uri}) "
        "{userErrors {message}}}",
        id=known["id"],
        uri=receiver.url,
    )
    bench.create("order")
    flush(bench)

    assert receiver.topics() == ["orders/create"]


def test_uninstalled_is_told(bench: Bench, receiver: Receiver) -> None:
    """When the app is taken off the shop, that is told, once."""
    bench.put("shop", {"state": "uninstalled"})
    bench.put("shop", {"state": "uninstalled"})
    flush(bench)

    headers, body = sole(receiver)

    assert (headers["x-shopify-topic"], body["myshopify_domain"]) == ("app/uninstalled", "standin.myshopify.com")


def test_any_webhook_can_be_sent(bench: Bench, receiver: Receiver) -> None:
    """A webhook of any topic and body can be sent by hand, under any event id."""
    asked = {"topic": "shop/redact", "body": {"shop_id": 1}, "event_id": "one"}

    assert bench.put("send", asked, method="POST") == {"sent": 1}
    flush(bench)

    headers, body = sole(receiver)
    assert (headers["x-shopify-topic"], headers["x-shopify-event-id"], body) == ("shop/redact", "one", {"shop_id": 1})


def test_nothing_is_sent_again(bench: Bench) -> None:
    """Shopify has no way to send a webhook again."""
    assert bench.http.post("/_control/resend", json={"event_id": "x"}).status_code == 400


def test_unannounced_changes(bench: Bench, receiver: Receiver) -> None:
    """A change that is not to be told of is not."""
    [id_] = bench.create("order", announce=False)
    bench.do("change", "order", id_, deliver=False)
    flush(bench)

    assert receiver.arrived == []
    assert bench.truth("order")[id_]["version"] == 2


def test_it_is_found_by_name() -> None:
    """The stand-in is made by the provider's name, and the same seed makes the same shop."""
    one, other = (stand_in("shopify", seed=3) for _ in range(2))
    assert isinstance(one, ShopifySandbox)
    assert isinstance(other, ShopifySandbox)

    assert one.truth(kind="shop")[0]["id"] == other.truth(kind="shop")[0]["id"]
