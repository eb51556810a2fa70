"""Stripe's own habits, each behind real HTTP: what it says of its objects, and what it says instead."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import logging
import re
import socket
import threading
import time
import traceback
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from importlib import import_module
from inspect import getsource
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import stripe
import stripe._event
import stripe.params.checkout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stripe._object_classes import get_object_class

import adapters.stripe as subject
from adapters.sandbox.clock import Clock
from adapters.sandbox.operations import operation_from
from adapters.sandbox.stripe import StripeSandbox
from adapters.stripe import KINDS, Limits, Stripe, limits
from adapters.stripe.calls import SECRETS
from adapters.stripe.kinds import IGNORED, NAMELESS
from reconciler import content
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
from reconciler.model import Delivery, Named, ObjectRef, Proof
from tests.adapters.scripted import Said, failure
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.model import Notification
    from tests.adapters.scripted import Asked, Scripted
    from tests.adapters.trickle import Trickle

    MakeStripe = Callable[..., Stripe]
    MakeScripted = Callable[[Callable[[Asked], Said]], Scripted]

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
AT = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
API_VERSION = "2026-10-28.endive"


def ref(kind: str, id_: str) -> ObjectRef:
    """Return a ref of the source under test."""
    return ObjectRef("stripe-eu", "", kind, id_)


def delivered(body: bytes) -> Delivery:
    """Return a delivery of these bytes as Stripe would sign it now."""
    signed_at = int(NOW.timestamp())
    digest = hmac.new(b"whsec_test", b"%d.%b" % (signed_at, body), hashlib.sha256).hexdigest()
    return Delivery({"stripe-signature": f"t={signed_at},v1={digest}"}, body, NOW)


def event(type_: str, shown: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a snapshot event."""
    return {
        "id": "evt_1",
        "object": "event",
        "type": type_,
        "created": 1_790_000_000,
        "livemode": False,
        "api_version": API_VERSION,
        "data": {"object": shown},
        **fields,
    }


def read(adapter: Stripe, body: dict[str, Any]) -> Notification:
    """Return the one notification in a delivery of *body*."""
    [notification] = adapter.read(delivered(json.dumps(body).encode()))
    return notification


def test_secrets_are_not_handed_on(scripted: MakeScripted, stripe_at: MakeStripe) -> None:
    """What completes a payment or signs is in no payload and no body, but for what an owner calls so in metadata."""
    planted = dict.fromkeys(SECRETS, "planted")
    intent = {"id": "pi_1", "object": "payment_intent", "next_action": {"x": [planted]}, **planted}
    shown = intent | {"metadata": {"secret": "santa"}}
    server = scripted(lambda _: Said(shown))

    body = stripe_at(server.url).fetch(ref("payment_intent", "pi_1")).body
    note = read(stripe_at(), event("payment_intent.succeeded", shown | {"description": "\0"}))

    assert body == {
        "id": "pi_1",
        "object": "payment_intent",
        "next_action": {"x": [{}]},
        "metadata": {"secret": "santa"},
    }
    assert "planted" not in f"{note.payload} {note.raw!r}"
    assert content.find(note.payload, "/data/object/metadata") == {"secret": "santa"}


def page(*objects: dict[str, Any], more: bool = False) -> Said:
    """Return a page of a list."""
    return Said({"object": "list", "data": list(objects), "has_more": more})


# The table


def _known_to_the_sdk() -> tuple[set[str], set[str]]:
    """Return the types of the SDK's snapshot events, and those of its thin ones without their `v1.`."""
    source = getsource(stripe._event)
    listed = source[source.index("type: Literal[") :]
    classes = Path(stripe.__file__).parent.joinpath("events").glob("_v*_event.py")
    thin = {re.findall(r'LOOKUP_TYPE = [(\s]*"([^"]+)"', each.read_text("utf-8"))[0] for each in classes}
    return set(re.findall(r'"([a-z0-9_.]+)"', listed[: listed.index("]")])), {each.removeprefix("v1.") for each in thin}


def test_every_event_type_is_mapped_or_ignored() -> None:
    """Each type of event that the SDK knows names something, or stands among those ignored, and not both."""
    known, thin = _known_to_the_sdk()
    topics = {topic for row in KINDS.values() for topic in row.topics}
    ignored = {type_ for type_ in known | thin if any(fnmatchcase(type_, pattern) for pattern in IGNORED)}
    families = {topic.rpartition(".")[0] for topic in topics}

    assert len(known) > 270
    assert len(thin) > 300
    assert known - topics - ignored == set(NAMELESS)
    assert topics <= known
    assert not topics & (set(NAMELESS) | ignored)
    # A thin event of a type that has no snapshot twin names the object it is related to.
    assert {type_ for type_ in thin - known - ignored if type_.rpartition(".")[0] not in families} == set()
    assert [pattern for pattern in IGNORED if not any(fnmatchcase(type_, pattern) for type_ in known | thin)] == []
    assert all(reason.startswith("about ") for reason in IGNORED.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_describes_its_kind(kind: str) -> None:
    """A kind's row agrees with itself, and is worth something."""
    row = KINDS[kind]

    assert row.kind.name == kind
    assert row.kind.topics == tuple(row.topics)
    assert row.kind.fetch == f"GET {row.path}/{{id}}"
    assert row.kind.feed_history == (timedelta(days=30) if row.topics else None)
    assert bool(row.passes) is (row.kind.list is not Listing.NONE)
    assert row.topics or row.recent
    assert row.kind.feed
    assert row.kind.worth
    names = [column.name for column in row.kind.columns]
    assert len(set(names)) == len(names)
    assert all(column.pointers and column.pointers[0].startswith("/") for column in row.kind.columns)
    assert {column.type for column in row.kind.columns} <= {"text", "bigint", "boolean", "numeric", "epoch"}


def test_the_core_comes_first() -> None:
    """Where nobody chooses, the eight kinds that nobody can do without are mirrored."""
    core = [name for name, row in KINDS.items() if row.kind.core]

    assert core == list(KINDS)[:8]
    assert set(core) == {
        *("customer", "product", "price", "subscription", "invoice"),
        *("payment_intent", "charge", "refund"),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_agrees_with_the_sdk(kind: str) -> None:
    """The SDK knows the object, the path, every field that is shown or watched, and every parameter that is sent."""
    row, name = KINDS[kind], api_name(kind)
    known: Any = get_object_class("V1", name)
    fields = {column.pointers[0].split("/")[1] for column in row.kind.columns}
    fields |= {pointer.split("/")[1] for pointer in row.kind.volatile}
    fields |= {row.kind.open_while[0].split("/")[1]} if row.kind.open_while else set()

    assert fields - _FORMER.get(kind, set()) <= set(known.__annotations__)
    assert f'"{row.path}/{{' in getsource(import_module(f"{known.__module__}_service"))
    for each in row.passes:
        holder = known if each.path in {"", row.path} else _HOLDERS.get(each.path)
        if holder is None:
            continue
        [parameters] = [
            getattr(place, f"{holder.__name__}ListParams")
            for place in (stripe.params, stripe.params.checkout)
            if hasattr(place, f"{holder.__name__}ListParams")
        ]
        taken = set(parameters.__annotations__)
        assert set(each.parameters) <= taken
        assert not each.dated or "created" in taken
        assert "created" not in taken or each.dated or each.inside
        assert not each.inside or each.inside[1:] in holder.__annotations__


_FORMER = {"charge": {"invoice"}}  # until 2025-03-31.basil
_HOLDERS = {"/v1/customers": stripe.Customer, "/v1/subscriptions": stripe.Subscription}


def api_name(kind: str) -> str:
    """Return what the API calls the objects of a kind."""
    return {"checkout_session": "checkout.session"}.get(kind, kind)


def _column(kind: str, name: str, body: dict[str, Any]) -> object:
    [column] = [each for each in KINDS[kind].kind.columns if each.name == name]
    found = (content.find(body, pointer) for pointer in column.pointers)
    return next((value for value in found if value is not None), None)


@pytest.mark.parametrize(
    ("kind", "name", "old", "new"),
    [
        (
            "subscription",
            "current_period_end",
            {"current_period_end": 1_800_000_000, "items": {"data": [{}]}},
            {"items": {"data": [{"current_period_end": 1_800_000_000}]}},
        ),
        ("subscription", "price", {"plan": {"id": "p"}}, {"items": {"data": [{"price": {"id": "p"}}]}}),
        (
            "invoice",
            "subscription",
            {"subscription": "sub_1"},
            {"parent": {"subscription_details": {"subscription": "sub_1"}}},
        ),
        ("payment_intent", "latest_charge", {"charges": {"data": [{"id": "ch_1"}]}}, {"latest_charge": "ch_1"}),
    ],
)
def test_columns_know_old_and_new_shapes(kind: str, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """A field that moved between API versions fills the same column from either place."""
    assert _column(kind, name, old) == _column(kind, name, new) is not None


def test_the_docstring_has_its_headings() -> None:
    """The module says, under fixed headings, what a reviewer checks against Stripe's documentation."""
    lines = (subject.__doc__ or "").splitlines()

    assert [line for line in lines if line in _HEADINGS] == _HEADINGS


_HEADINGS = ["Signature", "Event id", "Stamp", "Changed since", "Gone", "Limits"]


def test_limits_follow_the_mode() -> None:
    """A live key may call a hundred times a second, a test key 25 times; the operator may say otherwise."""
    assert limits("sk_live_" + "standin") == Limits(100.0, 25.0)
    assert limits("rk_test_standin") == Limits(25.0, 25.0)
    assert limits("sk_test_standin", 80) == Limits(80.0, 25.0)
    assert limits("sk_test_standin", 400) == Limits(400.0, 100.0)


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"kinds": ["customer", "costumer"]}, "costumer"),
        ({"api_key": "sk_test standin"}, "api_key"),
        ({"api_key": ""}, "api_key"),
    ],
)
def test_settings_that_cannot_be_used(stripe_at: MakeStripe, given: dict[str, Any], because: str) -> None:
    """A kind we do not know, or a key that no header can hold, is a fault at once."""
    with pytest.raises(ConfigError, match=because):
        stripe_at(**given)


# Reading deliveries


@pytest.mark.parametrize("kind", KINDS)
def test_each_topic_names_its_object(stripe_at: MakeStripe, kind: str) -> None:
    """Every event type of a kind names what it concerns, whether it shows it or something that belongs to it."""
    adapter = stripe_at(kinds=[kind], accounts="all")

    for topic, pointers in KINDS[kind].topics.items():
        told = event(topic, {"object": api_name(kind) if pointers == "/id" else "other", "id": "o_1"})
        for number, pointer in enumerate(pointers.split()):
            start = told if pointer.startswith("^") else told["data"]["object"]
            _put(start, pointer.removeprefix("^").split("/")[1:], f"x_{number}")

        notification = read(adapter, told)

        scope = "x_0" if pointers == "^/account" else ""
        wanted = [ObjectRef("stripe-eu", scope, kind, f"x_{number}") for number in range(len(pointers.split()))]
        assert notification.named == tuple(map(Named, wanted)), topic
        assert (notification.event_type, notification.skipped) == (topic, "")


def _put(node: Any, steps: list[str], id_: str) -> None:
    """Let the way of *steps* lead to *id_*, through lists where any step will do."""
    step, *rest = steps
    if not rest:
        node[step] = id_
    elif rest[0] == "*":
        node[step] = [{"id": "y_1"}, {"id": id_}][1:] if len(rest) == 1 else [{}]
    else:
        _put(node.setdefault(step, {}), rest, id_)


def test_read_tells_what_an_event_says(stripe_at: MakeStripe) -> None:
    """Id, type, time, payload and which secret matched are taken from the delivery."""
    adapter = stripe_at(webhook_secrets=["whsec_new", "whsec_test"])
    body = event("customer.updated", {"object": "customer", "id": "cus_1", "balance": 9007199254740993})

    notification = read(adapter, body)

    assert (notification.source, notification.event_id, notification.event_type) == (
        "stripe-eu",
        "evt_1",
        "customer.updated",
    )
    assert notification.occurred_at == datetime.fromtimestamp(1_790_000_000, UTC)
    assert (notification.payload, notification.raw, notification.secret) == (body, None, 2)


def test_a_product_event_carries_its_stamp(stripe_at: MakeStripe) -> None:
    """An event about a kind with a stamp of its own tells it; `created` of the event is none."""
    notification = read(
        stripe_at(), event("product.updated", {"object": "product", "id": "p", "updated": 1_790_000_001})
    )

    assert notification.named == (Named(ref("product", "p"), datetime.fromtimestamp(1_790_000_001, UTC)),)


def test_a_discount_concerns_customer_and_subscription(stripe_at: MakeStripe) -> None:
    """An event about something two objects share names both."""
    shown = {
        "object": "discount",
        "id": "di_1",
        "customer": {"object": "customer", "id": "cus_1"},
        "subscription": "sub_1",
    }

    notification = read(stripe_at(), event("customer.discount.created", shown))

    assert {each.ref for each in notification.named} == {ref("customer", "cus_1"), ref("subscription", "sub_1")}


def test_an_item_that_was_taken_off_is_named(stripe_at: MakeStripe) -> None:
    """An event names the items that a subscription has and those that it had: of these one may be gone."""

    def items(*ids: str) -> dict[str, Any]:
        return {"items": {"object": "list", "data": [{"object": "subscription_item", "id": id_} for id_ in ids]}}

    told = event("customer.subscription.updated", {"object": "subscription", "id": "sub_1", **items("si_1")})
    told["data"]["previous_attributes"] = items("si_1", "si_2")

    notification = read(stripe_at(kinds=["subscription", "subscription_item"]), told)

    assert [each.ref for each in notification.named] == [
        ref("subscription", "sub_1"),
        ref("subscription_item", "si_1"),
        ref("subscription_item", "si_2"),
    ]


def test_kinds_that_are_not_mirrored_are_not_named(stripe_at: MakeStripe) -> None:
    """An event about a kind that the source leaves out is authentic and names nothing."""
    adapter = stripe_at(kinds=["customer"])

    notification = read(adapter, event("charge.refund.updated", {"object": "refund", "id": "re_1", "charge": "ch_1"}))

    assert notification.named == ()
    assert list(adapter.kinds) == ["customer"]


@pytest.mark.parametrize(
    "body",
    [
        event("payout.paid", {"object": "payout", "id": "po_1"}),
        event("something.new", {"object": "something", "id": "so_1"}),
        event("invoice.upcoming", {"object": "invoice", "customer": "cus_1"}),
        event("invoice.upcoming", {"object": "invoice", "id": "upcoming_in_1"}),
        event("customer.updated", {"object": "customer"}),
        event("customer.updated", {"object": "customer", "id": ""}),
        event("customer.updated", {"object": "customer", "id": 7}),
        event("customer.updated", {"object": "customer", "id": "c" * 256}),
        event("charge.updated", {"object": "charge", "id": "ch_1"}, account="acct_7"),
        {"id": "evt_1", "data": None},
        {"id": "evt_1", "type": ["x"], "data": {"object": [1]}, "created": 10**30},
        {"id": "evt_1", "object": "v2.core.event", "type": "v1.customer.updated", "related_object": None},
    ],
)
def test_about_nothing_we_mirror(stripe_at: MakeStripe, body: dict[str, Any]) -> None:
    """An authentic event about nothing that can be fetched here is taken and names nothing."""
    notification = read(stripe_at(), body)

    assert notification.named == ()
    assert notification.skipped == ""


@pytest.mark.parametrize(
    ("key", "livemode", "skipped"),
    [
        ("sk_test_standin", True, True),
        ("sk_test_standin", False, False),
        ("rk_live_" + "standin", False, True),
        ("rk_live_" + "standin", True, False),
        ("unknown", True, False),
    ],
)
def test_the_other_mode_is_skipped(stripe_at: MakeStripe, key: str, livemode: bool, skipped: bool) -> None:  # noqa: FBT001
    """An event of the mode that our key is not for is recorded with the reason, and nothing is looked at."""
    budget = Spent()
    adapter = stripe_at(api_key=key, budget=budget)

    notification = read(adapter, event("customer.updated", {"object": "customer", "id": "c"}, livemode=livemode))

    assert bool(notification.skipped) is skipped
    assert bool(notification.named) is not skipped
    assert budget.operations == []


def test_a_thin_event_is_a_trigger(stripe_at: MakeStripe) -> None:
    """A thin event names its related object where that is of a kind of ours; its time is a text."""
    related = {"id": "sub_1", "type": "subscription", "url": "/v1/subscriptions/sub_1"}
    thin = {
        "id": "evt_t1",
        "object": "v2.core.event",
        "type": "v1.customer.subscription.item_added",
        "created": "2026-11-30T00:00:00.123Z",
        "livemode": False,
        "related_object": related,
    }

    notification = read(stripe_at(), thin)

    assert notification.named == (Named(ref("subscription", "sub_1")),)
    assert notification.occurred_at == datetime(2026, 11, 30, 0, 0, 0, 123_000, UTC)


@pytest.mark.parametrize(
    "change",
    [
        {"related_object": {"id": "acct_1", "type": "v2.core.account", "url": "/v2/core/accounts/acct_1"}},
        {"context": "acct_7"},
        {
            "type": "v1.invoice.upcoming",
            "related_object": {"id": "in_1", "type": "invoice", "url": "/v1/invoices/in_1"},
        },
    ],
)
def test_a_thin_event_about_something_else(stripe_at: MakeStripe, change: dict[str, Any]) -> None:
    """A thin event about a kind, an account or a preview that is not mirrored names nothing."""
    related = {"id": "cus_1", "type": "customer", "url": "/v1/customers/cus_1"}
    thin = {"id": "evt_t1", "object": "v2.core.event", "type": "v1.customer.updated", "related_object": related}

    assert read(stripe_at(), thin | change).named == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"evt_1"',
        b"null",
        b"{}",
        b'{"id":""}',
        b'{"id":7}',
        b'{"id":"%b"}' % (b"e" * 256),
        b"\xff",
        b"[" * 10**5,
    ],
)
def test_authentic_but_malformed(stripe_at: MakeStripe, body: bytes) -> None:
    """Signed bytes that are no JSON object with an id are malformed, not a crash."""
    with pytest.raises(DeliveryMalformed):
        stripe_at().read(delivered(body))


def test_an_unsigned_delivery_is_refused_before_it_is_read(stripe_at: MakeStripe) -> None:
    """Without a signature even malformed bytes are refused for the signature."""
    with pytest.raises(DeliveryRejected, match="Signature"):
        stripe_at().read(Delivery({}, b"{", NOW))


@pytest.fixture(scope="module")
def quiet() -> Iterator[Stripe]:
    """Yield an adapter that nothing is asked of but to read."""
    adapter = Stripe(
        "stripe-eu",
        api_key="sk_test_standin",
        webhook_secrets=["whsec_test"],
        kinds=None,
        budget=Spent(),
        tolerance=timedelta(minutes=5),
        api_version=API_VERSION,
        clock=lambda: NOW,
    )
    yield adapter
    adapter.close()


json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "object", "type", "data", "related_object", "created", "account", "livemode", "customer"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
).map(lambda tree: json.dumps(tree).encode())


@given(st.binary(max_size=80) | json_texts)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_signed_bytes(quiet: Stripe, body: bytes) -> None:
    """Whatever bytes are signed, reading ends in notifications or a rejection, and nothing else."""
    try:
        [notification] = quiet.read(delivered(body))
    except DeliveryRejected:
        return

    assert notification.event_id


@pytest.mark.parametrize("depth", [90, 200, 700, 850, 900, 950, 1000, 5000])
def test_any_signed_depth(quiet: Stripe, depth: int) -> None:
    """However deep the JSON is nested, it is read or refused."""
    body = b'{"id":"evt_1","data":' + b"[" * depth + b"]" * depth + b"}"

    try:
        [notification] = quiet.read(delivered(body))
    except DeliveryMalformed:
        return

    assert (notification.raw is None) is (depth < content.MAX_DEPTH)


def test_nul_is_cleaned_and_the_bytes_are_kept(quiet: Stripe) -> None:
    """What PostgreSQL cannot hold is replaced in the payload, and the exact bytes stay with it."""
    body = rb'{"id":"evt_1","a":"x\u0000y","b":"\\u0000","k\u0000":1,"n":9007199254740993,"m":0.10}'

    [notification] = quiet.read(delivered(body))

    assert notification.raw == body
    assert notification.payload["a"] == "x\ufffdy"
    assert notification.payload["b"] == "\\u0000"
    assert content.dumps(notification.payload).endswith('"n":9007199254740993,"m":0.10}')


# Fetching


def test_fetch_reads_exactly(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A body arrives digit for digit, with the provider's date, in our API version, for our key."""
    raw = b'{"id":"cus_1","object":"customer","balance":9007199254740993,"rate":0.10,"big":1E+400,"t":"a\\u0000"}'
    provider = scripted(lambda _: Said(raw))

    snapshot = stripe_at(provider.url).fetch(ref("customer", "cus_1"))

    assert content.dumps(snapshot.body) == content.dumps(content.parse(raw))
    assert snapshot.body is not None
    assert snapshot.body["rate"] == Decimal("0.10")
    assert (snapshot.observed_at, snapshot.stamp, snapshot.proof) == (AT, None, None)
    [asked] = provider.asked
    assert asked.path == "/v1/customers/cus_1"
    assert asked.headers["Stripe-Version"] == API_VERSION
    assert asked.headers["Authorization"] == "Bearer sk_test_standin"


def test_fetch_shows_the_stamp_of_a_stamped_kind(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A product's `updated` is its stamp."""
    provider = scripted(lambda _: Said({"id": "p", "object": "product", "updated": 1_790_000_001}))

    assert stripe_at(provider.url).fetch(ref("product", "p")).stamp == datetime.fromtimestamp(1_790_000_001, UTC)


def test_fetch_of_a_deleted_stub(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A stub that says `deleted: true` is an absence that was stated, not a body."""
    provider = scripted(lambda _: Said({"id": "cus_1", "object": "customer", "deleted": True}))

    snapshot = stripe_at(provider.url).fetch(ref("customer", "cus_1"))

    assert (snapshot.body, snapshot.stamp, snapshot.proof) == (None, None, Proof.STATED)
    assert (snapshot.because, snapshot.observed_at) == ("200 deleted: true", AT)


def test_fetch_of_what_is_missing(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """404 `resource_missing` is an absence that was not found."""
    provider = scripted(lambda _: failure(404, "resource_missing", "No such product: 'p'", param="id"))

    snapshot = stripe_at(provider.url).fetch(ref("product", "p"))

    assert (snapshot.body, snapshot.proof, snapshot.because) == (None, Proof.NOT_FOUND, "404 resource_missing")
    assert snapshot.observed_at == AT


_OTHER_MODE = (
    "No such customer: 'c'; a similar object exists in live mode, but a test mode key was used to make this request."
)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (failure(400), SourceRefused),
        (failure(400, "resource_missing", param="customer"), SourceRefused),
        (failure(401), AccessLost),
        (failure(402, "card_declined"), SourceRefused),
        (failure(403), AccessLost),
        (failure(404), SourceRefused),
        (failure(404, "url_invalid"), SourceRefused),
        (failure(404, "resource_missing", _OTHER_MODE), AccessLost),
        (Said(b"<html>not found</html>", 404), SourceRefused),
        (failure(408), SourceUnavailable),
        (failure(409, "lock_timeout"), SourceUnavailable),
        (failure(410), SourceRefused),
        (failure(418), SourceRefused),
        (failure(425), SourceUnavailable),
        (failure(429, "rate_limit"), SourceBusy),
        (failure(429, "lock_timeout"), SourceBusy),
        (failure(500), SourceUnavailable),
        (Said(b"<html>bad gateway</html>", 502), SourceUnavailable),
        (Said(b"", 503), SourceUnavailable),
        (failure(504), SourceUnavailable),
        (failure(599), SourceUnavailable),
        (Said(b"", 204), SourceRefused),
        (Said(b"", 301, {"Location": "/v1/customers/other"}), SourceRefused),
        (Said(b"", 307, {"Location": "/v1/customers/other"}), SourceRefused),
        (Said(b"", 200), SourceUnavailable),
        (Said(b"<html>login</html>", 200), SourceUnavailable),
        (Said([], 200), SourceUnavailable),
        (Said(b'{"id":"c","object":"customer","a":NaN}', 200), SourceUnavailable),
        (Said({"id": "other", "object": "customer"}), SourceRefused),
        (Said({"id": "c", "object": "account"}), SourceRefused),
        (Said({"object": "list", "data": []}), SourceRefused),
        (Said({"id": "other", "object": "customer", "deleted": True}), SourceRefused),
    ],
)
def test_no_other_answer_is_an_absence(
    stripe_at: MakeStripe, scripted: MakeScripted, said: Said, error: type[SourceError]
) -> None:
    """Any other answer raises by what should be done about it, is asked once, and follows no redirect."""
    provider, budget = scripted(lambda _: said), Spent()

    with pytest.raises(SourceError) as raised:
        stripe_at(provider.url, budget=budget).fetch(ref("customer", "c"))

    assert type(raised.value) in {error, *([] if error is not SourceRefused else SourceRefused.__subclasses__())}
    assert len(provider.asked) == 1
    assert budget.operations == ["GET /v1/customers/{id}"]
    assert budget.answers == [("GET /v1/customers/{id}", str(said.status))]


@pytest.mark.parametrize("id_", ["", ".", "..", "a/b", "a?b=c#d", "ä ", "%2e", "a\r\nX: y", "\ud800"])
def test_odd_ids_stay_in_their_place(stripe_at: MakeStripe, scripted: MakeScripted, id_: str) -> None:
    """An id is one step of the path whatever is in it, and an answer about something else is no answer."""
    provider = scripted(lambda _: Said({"object": "list", "data": [], "has_more": False}))

    with pytest.raises(SourceRefused):
        stripe_at(provider.url).fetch(ref("product", id_))

    assert re.fullmatch(r"/v1/products/[^/?#\s]*", provider.asked[0].path)
    assert provider.asked[0].query == {}


OPERATION = "GET /v1/customers/{id}"


@pytest.mark.parametrize(
    ("headers", "code", "held"),
    [
        ({"Stripe-Rate-Limited-Reason": "global-rate"}, "rate_limit", (1.0, None)),
        ({"Stripe-Rate-Limited-Reason": "global-concurrency"}, "rate_limit", (0.5, None)),
        ({"Stripe-Rate-Limited-Reason": "endpoint-rate"}, "rate_limit", (1.0, OPERATION)),
        ({"Stripe-Rate-Limited-Reason": "endpoint-concurrency"}, "rate_limit", (0.5, OPERATION)),
        ({"Stripe-Rate-Limited-Reason": "resource-specific"}, "rate_limit", (0.5, OPERATION)),
        ({"Stripe-Rate-Limited-Reason": "something-new"}, "rate_limit", (1.0, None)),
        ({}, "lock_timeout", (0.5, OPERATION)),
        ({}, "rate_limit", (1.0, None)),
        ({"Retry-After": "7", "Stripe-Rate-Limited-Reason": "endpoint-rate"}, "rate_limit", (7.0, OPERATION)),
    ],
)
def test_a_rate_limit_holds_what_it_limits(
    stripe_at: MakeStripe, scripted: MakeScripted, headers: dict[str, str], code: str, held: tuple[float, str | None]
) -> None:
    """A 429 pauses everything or that operation, as Stripe says why, and tells how long."""
    said = failure(429, code)
    provider, budget = scripted(lambda _: Said(said.body, 429, headers)), Spent()

    with pytest.raises(SourceBusy) as raised:
        stripe_at(provider.url, budget=budget).fetch(ref("customer", "c"))

    assert budget.holds == [held]
    assert raised.value.retry_after == held[0]


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("120", 120.0),
        ("1.5", 1.5),
        ("Mon, 30 Nov 2026 12:02:00 GMT", 120.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_is_read(stripe_at: MakeStripe, scripted: MakeScripted, asked: str, seconds: float | None) -> None:
    """Retry-After counts seconds or names a time by the provider's clock; anything else is none."""
    provider = scripted(lambda _: Said(b"<html>", 503, {"Retry-After": asked}))

    with pytest.raises(SourceUnavailable) as raised:
        stripe_at(provider.url).fetch(ref("customer", "c"))

    assert raised.value.retry_after == seconds


def _invoice(lines: int, *, shown: int = 10, **fields: Any) -> dict[str, Any]:
    data = [{"id": f"il_{number}", "object": "line_item", "amount": number} for number in range(lines)]
    listed = {"object": "list", "data": data[:shown], "has_more": lines > shown, "url": "/v1/invoices/in_1/lines"}
    return {"id": "in_1", "object": "invoice", "total": sum(range(lines)), "lines": listed, **fields}


class Invoices:
    """Stripe with one invoice whose lines take several pages; *turn* sees it before each answer."""

    def __init__(self, lines: int, turn: Callable[[Invoices], None] = lambda _: None) -> None:
        self.lines, self.fields, self.turn, self.turns = lines, dict[str, Any](), turn, 0
        self.page = 2

    def __call__(self, asked: Asked) -> Said:
        """Answer for the invoice or a page of its lines."""
        self.turns += 1
        self.turn(self)
        whole = _invoice(self.lines, **self.fields)
        if asked.path == "/v1/invoices/in_1":
            return Said(whole)
        data = _invoice(self.lines, shown=self.lines)["lines"]["data"]
        after = asked.query.get("starting_after")
        start = 0 if after is None else next(place for place, line in enumerate(data, 1) if line["id"] == after)
        return page(*data[start : start + self.page], more=start + self.page < len(data))


def test_sub_lists_are_walked(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A list that is cut at ten inside an object is read to its end, and the head once more."""
    provider = scripted(Invoices(13))

    snapshot = stripe_at(provider.url).fetch(ref("invoice", "in_1"))

    assert snapshot.body is not None
    assert snapshot.body["lines"]["data"] == _invoice(13, shown=13)["lines"]["data"]
    assert snapshot.body["lines"]["has_more"] is False
    assert snapshot.body == {**_invoice(13), "lines": snapshot.body["lines"]}
    assert [asked.path for asked in provider.asked] == ["/v1/invoices/in_1"] + ["/v1/invoices/in_1/lines"] * 7 + [
        "/v1/invoices/in_1"
    ]
    assert provider.asked[1].query["limit"] == "100"


def test_short_sub_lists_take_one_call(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """An object whose lists are whole is read in one call and compares equal to its long form."""
    provider = scripted(Invoices(10))

    snapshot = stripe_at(provider.url).fetch(ref("invoice", "in_1"))

    assert snapshot.body == _invoice(10)
    assert len(provider.asked) == 1


def test_a_head_that_moves_starts_the_read_over(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """If the object changed while its sub-list was walked, parts of two states are never put together."""

    def turn(invoices: Invoices) -> None:
        if invoices.turns == 4:
            invoices.lines, invoices.fields = 14, {"number": "A-2"}

    snapshot = stripe_at(scripted(Invoices(13, turn)).url).fetch(ref("invoice", "in_1"))

    assert snapshot.body is not None
    assert snapshot.body["number"] == "A-2"
    assert len(snapshot.body["lines"]["data"]) == 14


def test_a_head_that_never_rests(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """An object that changes at every look is left for later, after a bounded number of looks."""
    provider = scripted(Invoices(13, lambda invoices: invoices.fields.update(number=str(invoices.turns))))

    with pytest.raises(SourceUnavailable, match="changed"):
        stripe_at(provider.url).fetch(ref("invoice", "in_1"))

    assert len(provider.asked) < 50


def test_a_link_that_is_renewed_is_no_change(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A link that is another at every look does not keep an object with a long sub-list from being read."""
    provider = scripted(Invoices(13, lambda invoices: invoices.fields.update(hosted_invoice_url=str(invoices.turns))))

    snapshot = stripe_at(provider.url).fetch(ref("invoice", "in_1"))

    assert snapshot.body is not None
    assert len(snapshot.body["lines"]["data"]) == 13


def test_a_part_deleted_while_it_marks_the_place(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """If the place in a sub-list is lost the read starts over: a sub-list cannot be asked by time."""
    lost = iter([True])

    def answer(asked: Asked) -> Said:
        if "starting_after" in asked.query and next(lost, False):
            return failure(400, "resource_missing", param="starting_after")
        assert not any(name.startswith("created") for name in asked.query)
        return invoices(asked)

    invoices = Invoices(13)

    snapshot = stripe_at(scripted(answer).url).fetch(ref("invoice", "in_1"))

    assert snapshot.body is not None
    assert len(snapshot.body["lines"]["data"]) == 13


def test_an_object_deleted_while_it_is_walked(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """If the object goes while its sub-list is walked, its absence is what the read shows."""
    heads = count()

    def answer(asked: Asked) -> Said:
        if asked.path == "/v1/invoices/in_1" and next(heads) == 0:
            return Said(_invoice(13))
        return failure(404, "resource_missing", param="id")

    snapshot = stripe_at(scripted(answer).url).fetch(ref("invoice", "in_1"))

    assert (snapshot.body, snapshot.proof) == (None, Proof.NOT_FOUND)


@pytest.mark.parametrize(
    "url", [None, "https://evil.invalid/v1/x", "//evil.invalid/v1/x", "@evil.invalid/", "/v2/x", 7]
)
def test_a_sub_list_leads_nowhere_else(stripe_at: MakeStripe, scripted: MakeScripted, url: object) -> None:
    """The address of a sub-list never takes the key to another host; without one the object is refused, not cut."""
    body = _invoice(13)
    body["lines"]["url"] = url
    provider = scripted(lambda _: Said(body))

    with pytest.raises(SourceRefused):
        stripe_at(provider.url).fetch(ref("invoice", "in_1"))

    assert len(provider.asked) == 1


def test_a_sub_list_with_a_query(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """The items of a subscription are listed by a query, which paging keeps."""
    items = [{"id": f"si_{number}", "object": "subscription_item"} for number in range(12)]
    cut = {"object": "list", "data": items[:10], "has_more": True, "url": "/v1/subscription_items?subscription=sub_1"}
    provider = scripted(
        lambda asked: (
            page(*items)
            if asked.path == "/v1/subscription_items"
            else Said({"id": "sub_1", "object": "subscription", "items": cut})
        )
    )
    budget = Spent()

    snapshot = stripe_at(provider.url, budget=budget).fetch(ref("subscription", "sub_1"))

    assert snapshot.body is not None
    assert snapshot.body["items"]["data"] == items
    assert provider.asked[1].query == {"subscription": "sub_1", "limit": "100"}
    assert budget.operations[1] == "GET /v1/subscription_items"


# Time


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    ],
    ids=["status", "headers", "length", "chunks", "close"],
)
def test_a_trickling_answer_ends_at_the_deadline(
    stripe_at: MakeStripe, trickle: Callable[[bytes], Trickle], start: bytes
) -> None:
    """One deadline holds for the whole answer, headers too, however little each socket read waits."""
    server, budget = trickle(start), Spent()
    began = time.monotonic()

    with pytest.raises(SourceUnavailable, match="complete"):
        stripe_at(server.url, budget=budget, timeout=(0.3, 0.4)).fetch(ref("customer", "c"))

    assert 0.3 < time.monotonic() - began < 2
    assert budget.answers == [("GET /v1/customers/{id}", "timeout")]


def test_nobody_listens(stripe_at: MakeStripe) -> None:
    """A refused connection is a reason to ask later, and is counted as such."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    budget = Spent()

    with pytest.raises(SourceUnavailable, match="ConnectionRefusedError"):
        stripe_at(url, budget=budget).fetch(ref("customer", "c"))

    assert budget.answers == [("GET /v1/customers/{id}", "refused")]


def test_an_answer_cut_short(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A body that ends before its length is no body."""
    provider = scripted(lambda _: Said(b'{"id":"c"}', 200, {"Content-Length": "100", "Connection": "close"}))

    with pytest.raises(SourceUnavailable):
        stripe_at(provider.url).fetch(ref("customer", "c"))


def test_a_connection_is_used_again_and_replaced(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Calls share a connection; one that the provider closed at rest costs no failure and no second call."""
    provider = scripted(lambda asked: Said({"id": asked.path.rsplit("/", 1)[1], "object": "customer"}))
    adapter, ports = stripe_at(provider.url), list[int]()
    wire = adapter._calls._wire

    for number in range(3):
        adapter.fetch(ref("customer", f"c{number}"))
        ports += [connection.sock.getsockname()[1] for _, _, connection in wire._idle]
    wire._idle[0][2].sock.shutdown(socket.SHUT_RDWR)
    adapter.fetch(ref("customer", "c3"))

    assert len(ports) == 3
    assert len(set(ports)) == 1
    assert [asked.path for asked in provider.asked] == [f"/v1/customers/c{number}" for number in range(4)]


def test_many_threads_share_an_adapter(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Answers never get mixed up between threads."""
    provider = scripted(lambda asked: Said({"id": asked.path.rsplit("/", 1)[1], "object": "customer"}))
    adapter, wrong = stripe_at(provider.url), list[object]()

    def ask(name: int) -> None:
        for number in range(20):
            body = adapter.fetch(ref("customer", f"c{name}-{number}")).body
            if body is None or body["id"] != f"c{name}-{number}":
                wrong.append(body)

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert len(provider.asked) == 160


def test_the_environment_changes_nothing(
    stripe_at: MakeStripe, scripted: MakeScripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Neither proxies nor a .netrc from the environment redirect a call or replace the key."""
    provider = scripted(lambda _: Said({"id": "c", "object": "customer"}))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("default login a password b\n")
    (tmp_path / ".netrc").chmod(0o600)

    stripe_at(provider.url).fetch(ref("customer", "c"))

    assert provider.asked[0].headers["Authorization"] == "Bearer sk_test_standin"


# Lists


def customers(*numbers: int) -> list[dict[str, Any]]:
    """Return customers, each created in the second of its number."""
    return [{"id": f"cus_{number}", "object": "customer", "created": number} for number in numbers]


class Listed:
    """
    Stripe's list of customers, newest first.

    Attributes:
        there: What exists now; a test may change it between calls.
    """

    def __init__(self, *numbers: int, size: int = 2) -> None:
        self.there, self.size = customers(*sorted(numbers, reverse=True)), size
        self.turn: Callable[[Asked], Said | None] = lambda _: None

    def __call__(self, asked: Asked) -> Said:
        """Answer a page."""
        said = self.turn(asked)
        if said is not None:
            return said
        most = int(asked.query.get("created[lte]", 10**12))
        least = int(asked.query.get("created[gte]", 0))
        shown = [each for each in self.there if least <= each["created"] <= most]
        after = asked.query.get("starting_after")
        if after is not None:
            ids = [each["id"] for each in self.there]
            if after not in ids:
                return failure(400, "resource_missing", f"No such customer: '{after}'", param="starting_after")
            shown = [each for each in shown if ids.index(each["id"]) > ids.index(after)]
        return page(*shown[: self.size], more=len(shown) > self.size)


def crawled(adapter: Stripe, kind: str = "customer") -> list[str]:
    """Return the ids that a crawl shows, in order."""
    pages = adapter.crawl(kind, "")
    return [
        ref.id for page in pages for ref in (*(each.ref for each in page.snapshots), *(hint.ref for hint in page.hints))
    ]


def test_a_crawl_sees_every_page(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Pages are followed by cursor to the end, a hundred at a time, each asked for only when it is wanted."""
    provider = scripted(Listed(*range(7)))
    adapter = stripe_at(provider.url)

    pages = adapter.crawl("customer", "")
    next(pages)

    assert len(provider.asked) == 1
    assert provider.asked[0].query["limit"] == "100"
    assert crawled(adapter) == [f"cus_{number}" for number in (6, 5, 4, 3, 2, 1, 0)]


def test_a_cursor_that_vanished_ends_nothing(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """If the last object of a page is gone, the list goes on from its time, and repeats rather than leaves out."""
    listed = Listed(*range(9))
    adapter = stripe_at(scripted(listed).url)

    seen: list[str] = []
    for shown in adapter.crawl("customer", ""):
        seen += [each.ref.id for each in shown.snapshots]
        listed.there = [each for each in listed.there if each["id"] not in {seen[-1], "cus_0"}]

    assert set(seen) >= {f"cus_{number}" for number in range(1, 9)}


def test_every_cursor_vanishes_within_one_second(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """If the place cannot be found again, the list is not complete, and says so."""
    listed = Listed(1, 2, 3, 4)
    listed.there = [{**each, "created": 1} for each in listed.there]
    listed.turn = lambda asked: (
        failure(400, "resource_missing", param="starting_after") if "starting_after" in asked.query else None
    )

    with pytest.raises(SourceUnavailable, match="place"):
        crawled(stripe_at(scripted(listed).url))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (failure(500), SourceUnavailable),
        (failure(429, "rate_limit"), SourceBusy),
        (failure(401), AccessLost),
        (failure(403), AccessLost),
        (failure(404, "resource_missing"), SourceRefused),
        (failure(400), SourceRefused),
        (page(more=True), SourceUnavailable),
        (page({"id": "cus_3", "object": "customer", "created": 3}, more=True), SourceUnavailable),
        (page({"object": "customer"}, more=True), SourceUnavailable),
        (page({"id": "x", "object": "account"}), SourceUnavailable),
        (Said({"object": "list", "data": None}), SourceUnavailable),
        (Said({"object": "list", "data": [1]}), SourceUnavailable),
        (Said({"id": "cus_1", "object": "customer"}), SourceUnavailable),
        (Said(b"{", 200), SourceUnavailable),
    ],
)
def test_a_list_that_breaks_off_raises(
    stripe_at: MakeStripe, scripted: MakeScripted, said: Said, error: type[SourceError]
) -> None:
    """Whatever goes wrong on a later page, the list raises; it never ends early, and never goes round in circles."""
    listed = Listed(*range(5))
    listed.turn = lambda asked: said if "starting_after" in asked.query else None
    provider = scripted(listed)
    pages = stripe_at(provider.url).crawl("customer", "")

    assert len(next(pages).snapshots) == 2
    with pytest.raises(error):
        list(pages)

    assert len(provider.asked) < 10


@pytest.mark.parametrize(
    ("kind", "queries"),
    [
        ("customer", [{}]),
        ("product", [{}]),
        ("price", [{"active": "true"}, {"active": "false"}]),
        ("subscription", [{"status": "all"}]),
        ("invoice", [{}]),
        ("subscription_item", [{"status": "all"}]),
        ("tax_id", [{}, {"expand[0]": "data.tax_ids"}]),
        ("payment_link", [{}]),
    ],
)
def test_defaults_that_hide_are_overridden(
    stripe_at: MakeStripe, scripted: MakeScripted, kind: str, queries: list[dict[str, str]]
) -> None:
    """A crawl asks for finished and inactive objects too."""
    provider = scripted(lambda _: page())

    crawled(stripe_at(provider.url, kinds=[kind]), kind)

    assert [asked.query for asked in provider.asked] == [{"limit": "100", **query} for query in queries]


def test_a_list_without_dates_goes_on_from_the_one_before(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Where a list takes no bounds on `created`, an object before the vanished one marks the place."""

    def answer(asked: Asked) -> Said:
        after = asked.query.get("starting_after")
        if after in {"pm_3", "pm_2"}:
            return failure(400, "resource_missing", param="starting_after")
        return page(*methods(4, 5)) if after == "pm_1" else page(*methods(1, 2, 3), more=True)

    provider = scripted(answer)

    assert crawled(stripe_at(provider.url, kinds=["payment_method"]), "payment_method") == [
        *("pm_1", "pm_2", "pm_3", "pm_4", "pm_5"),
    ]
    assert not [asked.query for asked in provider.asked if any(name.startswith("created") for name in asked.query)]


def test_a_list_without_dates_whose_page_vanished(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Where no object of the last page is left to mark the place, the crawl raises rather than stopping early."""
    provider = scripted(
        lambda asked: (
            failure(400, "resource_missing", param="starting_after")
            if "starting_after" in asked.query
            else page(*methods(1, 2, 3), more=True)
        )
    )

    with pytest.raises(SourceUnavailable, match="lost its place"):
        crawled(stripe_at(provider.url, kinds=["payment_method"]), "payment_method")
    assert len(provider.asked) == 4


def methods(*numbers: int) -> list[dict[str, Any]]:
    """Return payment methods, which have a time of creation that their list takes no bounds on."""
    return [{"id": f"pm_{number}", "object": "payment_method", "created": number} for number in numbers]


def test_objects_listed_by_whom_they_belong_to(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Items stand in the lists of subscriptions: those that are cut short there are walked to their end."""

    def items(*numbers: int) -> list[dict[str, Any]]:
        return [{"id": f"si_{number}", "object": "subscription_item", "created": number} for number in numbers]

    def subscription(id_: str, *numbers: int, more: bool) -> dict[str, Any]:
        url = f"/v1/subscription_items?subscription={id_}"
        held = {"object": "list", "data": items(*numbers), "has_more": more, "url": url}
        return {"id": id_, "object": "subscription", "created": 1, "items": held}

    def answer(asked: Asked) -> Said:
        if asked.path == "/v1/subscription_items":
            assert asked.query["subscription"] == "sub_2"
            return page(*items(4)) if "starting_after" in asked.query else page(*items(2, 3), more=True)
        return page(subscription("sub_1", 1, more=False), subscription("sub_2", 2, more=True))

    provider = scripted(answer)
    settings = {"kinds": ["subscription_item"], "backfill_since": datetime.fromtimestamp(2, UTC)}
    pages = list(stripe_at(provider.url, **settings).crawl("subscription_item", ""))

    assert [[each.ref.id for each in shown.snapshots] for shown in pages] == [["si_2"], ["si_2", "si_3"], ["si_4"]]


def test_a_holder_that_hides_what_it_holds(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A customer that does not show its tax ids, though asked to, ends the crawl: nothing says that it has none."""
    provider = scripted(lambda asked: page(*customers(1)) if asked.path == "/v1/customers" else page())

    with pytest.raises(SourceUnavailable, match="does not show its tax_ids"):
        crawled(stripe_at(provider.url, kinds=["tax_id"]), "tax_id")


def test_what_no_call_lists(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A kind without a list is followed by its events, and one without events by its list: nothing else is asked."""
    provider = scripted(lambda _: page())
    adapter = stripe_at(provider.url, kinds=["mandate", "balance_transaction"])

    assert crawled(adapter, "mandate") == []
    list(adapter.changed_since("balance_transaction", "", SINCE))
    list(adapter.changed_since("balance_transaction", "", NOW - timedelta(days=300)))

    assert [asked.path for asked in provider.asked] == ["/v1/balance_transactions"] * 2


def test_a_listed_object_that_is_cut_short_is_a_hint(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A list shows an object whole or hints at it: one whose sub-list is cut is fetched later."""
    provider = scripted(
        lambda _: page(
            _invoice(13), {**_invoice(3), "id": "in_2"}, {"id": "in_3", "object": "invoice", "deleted": True}
        )
    )

    [shown] = stripe_at(provider.url).crawl("invoice", "")

    assert [each.ref.id for each in shown.snapshots] == ["in_2"]
    assert [each.ref.id for each in shown.hints] == ["in_1", "in_3"]
    assert shown.snapshots[0].observed_at == AT


SINCE = datetime(2026, 11, 29, 12, 0, 0, 999_000, tzinfo=UTC)


def test_changed_since_reads_the_event_feed(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Every event of the kind's types since then, inclusive, becomes a hint with its id, type and time."""
    happened = [
        event("customer.discount.created", {"object": "discount", "id": "di_1", "customer": "cus_2"}, id="evt_3"),
        event("customer.updated", {"object": "customer", "id": "cus_1"}, id="evt_2"),
        event("customer.created", {"object": "customer", "id": "cus_1"}, id="evt_1"),
    ]

    def answer(asked: Asked) -> Said:
        return page(happened[2]) if "starting_after" in asked.query else page(*happened[:2], more=True)

    provider = scripted(answer)

    hints = [hint for shown in stripe_at(provider.url).changed_since("customer", "", SINCE) for hint in shown.hints]

    assert [(hint.ref.id, hint.event_id, hint.event_type) for hint in hints] == [
        ("cus_2", "evt_3", "customer.discount.created"),
        ("cus_1", "evt_2", "customer.updated"),
        ("cus_1", "evt_1", "customer.created"),
    ]
    assert {hint.changed_at for hint in hints} == {datetime.fromtimestamp(1_790_000_000, UTC)}
    first, second = provider.asked
    assert (first.path, first.query["created[gte]"]) == ("/v1/events", str(int(SINCE.timestamp())))
    assert {value for name, value in first.query.items() if name.startswith("types[")} == set(KINDS["customer"].topics)
    assert second.query == {**first.query, "starting_after": "evt_2"}


@pytest.mark.parametrize("kind", KINDS)
def test_changed_since_asks_for_every_topic(stripe_at: MakeStripe, scripted: MakeScripted, kind: str) -> None:
    """All types of a kind alone are asked for, no more than the twenty in a call that Stripe allows."""
    provider = scripted(lambda _: page())

    list(stripe_at(provider.url, kinds=[kind]).changed_since(kind, "", SINCE))

    asked = [[value for name, value in each.query.items() if name.startswith("types[")] for each in provider.asked]
    assert {topic for types in asked for topic in types} == set(KINDS[kind].topics)
    assert all(len(types) <= 20 for types in asked)


def test_one_pass_reads_the_feed_once(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """However many kinds of a pass ask, the feed is read once, whole, and each is told what is about it."""
    happened = [
        event("invoice.paid", {"object": "invoice", "id": "in_1"}, id="evt_3"),
        event("review.opened", {"object": "review", "id": "prv_1"}, id="evt_2"),
        event("customer.created", {"object": "customer", "id": "cus_1"}, id="evt_1"),
    ]
    provider = scripted(
        lambda asked: page(happened[2]) if "starting_after" in asked.query else page(*happened[:2], more=True)
    )
    adapter = stripe_at(provider.url)
    kinds = ("customer", "invoice", "subscription", "charge")

    feed = adapter.one_pass(kinds)
    told = {kind: [hint for page in feed.changed_since(kind, "", SINCE) for hint in page.hints] for kind in kinds}

    shown = {kind: [(hint.ref.id, hint.event_id) for hint in hints] for kind, hints in told.items()}
    assert shown == {
        "customer": [("cus_1", "evt_1")],
        "invoice": [("in_1", "evt_3")],
        "subscription": [],
        "charge": [],
    }
    assert [each.query for each in provider.asked] == [
        {"limit": "100", "created[gte]": str(int(SINCE.timestamp()))},
        {"limit": "100", "created[gte]": str(int(SINCE.timestamp())), "starting_after": "evt_2"},
    ]
    list(adapter.one_pass(kinds).changed_since("customer", "", SINCE))
    assert len(provider.asked) == 4


def test_one_pass_reaches_back_as_far_as_it_must(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A kind whose window begins earlier adds what is older; one whose window begins later is told no more."""
    times = {"evt_new": 1_790_000_100, "evt_old": 1_790_000_000}

    def answer(asked: Asked) -> Said:
        least, most = int(asked.query["created[gte]"]), int(asked.query.get("created[lt]", 10**12))
        return page(
            *(
                event("customer.updated", {"object": "customer", "id": id_}, id=id_, created=at)
                for id_, at in times.items()
                if least <= at < most
            )
        )

    provider = scripted(answer)
    feed = stripe_at(provider.url, clock=lambda: datetime.fromtimestamp(1_790_000_200, UTC)).one_pass(tuple(KINDS)[:8])

    def told(second: int) -> list[str]:
        pages = feed.changed_since("customer", "", datetime.fromtimestamp(second, UTC))
        return [hint.ref.id for page in pages for hint in page.hints]

    assert told(1_790_000_050) == ["evt_new"]
    assert told(1_789_999_000) == ["evt_new", "evt_old"]
    assert told(1_790_000_100) == ["evt_new"]
    assert told(1_790_000_101) == []
    assert len(provider.asked) == 2


def test_a_pass_that_broke_off_begins_anew(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A feed that failed for one kind of a pass is never taken for all there is by the next."""
    happened = event("invoice.paid", {"object": "invoice", "id": "in_1"}, id="evt_1")
    broken = [True]
    provider = scripted(lambda _: failure(401, "", "no") if broken else page(happened))
    feed = stripe_at(provider.url).one_pass(("customer", "invoice"))

    with pytest.raises(AccessLost):
        list(feed.changed_since("customer", "", SINCE))
    broken.clear()
    hints = [hint for page in feed.changed_since("invoice", "", SINCE) for hint in page.hints]

    assert [hint.ref.id for hint in hints] == ["in_1"]


def test_changed_since_lists_what_events_do_not_tell(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Payment intents created since then are listed too: an edit of one makes no event."""
    intent = {"id": "pi_1", "object": "payment_intent", "created": int(SINCE.timestamp())}
    provider = scripted(lambda asked: page(intent) if asked.path == "/v1/payment_intents" else page())

    pages = list(stripe_at(provider.url).changed_since("payment_intent", "", SINCE))

    assert [each.body for shown in pages for each in shown.snapshots] == [intent]
    assert provider.asked[-1].query == {"limit": "100", "created[gte]": str(int(SINCE.timestamp()))}


def test_changed_since_keeps_its_bound_when_a_cursor_vanishes(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Going on from the last time seen keeps the window's lower edge and its other parameters."""
    times = iter([5, 4])

    def answer(asked: Asked) -> Said:
        if "starting_after" in asked.query:
            return failure(400, "resource_missing", param="starting_after")
        if "created[lte]" in asked.query:
            return page(event("customer.updated", {"object": "customer", "id": "cus_1"}, id="evt_0", created=3))
        moment = next(times)
        return page(
            event("customer.updated", {"object": "customer", "id": "cus_2"}, id=f"evt_{moment}", created=moment),
            more=True,
        )

    provider = scripted(answer)

    hints = [hint for shown in stripe_at(provider.url).changed_since("customer", "", SINCE) for hint in shown.hints]

    assert [hint.event_id for hint in hints] == ["evt_5", "evt_0"]
    last = provider.asked[-1].query
    assert (last["created[lte]"], last["created[gte]"]) == ("5", str(int(SINCE.timestamp())))
    assert "types[0]" in last


def test_changed_since_does_not_pretend_to_remember(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Further back than events reach, nothing is shown as if it were everything."""
    provider = scripted(lambda _: page())
    adapter = stripe_at(provider.url)

    with pytest.raises(SourceRefused, match="crawl"):
        list(adapter.changed_since("customer", "", NOW - timedelta(days=30, seconds=1)))
    assert provider.asked == []
    assert list(adapter.changed_since("customer", "", NOW - timedelta(days=30))) != []


# Who we are


def test_identity_is_the_account(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """The account behind the key is told by its id."""
    provider = scripted(lambda _: Said({"id": "acct_1", "object": "account"}))

    assert stripe_at(provider.url).identity() == "acct_1"
    assert provider.asked[0].path == "/v1/account"


_NO_PERMISSION = (
    "The provided key 'rk_test_*****ndin' does not have the required permissions for this endpoint on account "
    "'acct_9'. Having the 'rak_accounts_kyc_basic_read' permission would allow this request to continue."
)


def test_identity_of_a_restricted_key(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A key that may not read its account is still good if it reads events: the refusal names the account."""
    provider = scripted(lambda asked: page() if asked.path == "/v1/events" else failure(403, "", _NO_PERMISSION))

    assert stripe_at(provider.url).identity() == "acct_9"


@pytest.mark.parametrize(
    ("account", "feed", "way_out"),
    [
        (failure(401), page(), r"name a key that is valid in sources\[stripe-eu\].api_key"),
        (failure(403), page(), "needs to read Events"),
        (failure(403, "", _NO_PERMISSION), failure(403), "GET /v1/events"),
        (failure(401), failure(401), "name a key"),
    ],
)
def test_identity_of_a_key_that_is_good_for_nothing(
    stripe_at: MakeStripe, scripted: MakeScripted, account: Said, feed: Said, way_out: str
) -> None:
    """A key that reads neither its account nor events has lost its access, and the message says what it needs."""
    provider = scripted(lambda asked: feed if asked.path == "/v1/events" else account)

    with pytest.raises(AccessLost, match=way_out):
        stripe_at(provider.url).identity()


def test_one_scope_and_one_shape(stripe_at: MakeStripe) -> None:
    """There is one scope, and bodies depend on the API version."""
    adapter = stripe_at()

    assert adapter.scopes() == ("",)
    assert adapter.shape("customer") == {
        "adapter": "1",
        "api_version": API_VERSION,
        "without": sorted(SECRETS),
    }
    assert adapter.shape("customer") != stripe_at(api_version="2025-03-31.basil").shape("customer")


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        ({}, True),
        ({"api_version": "2020-08-27"}, False),
        ({"api_version": None}, False),
        ({"account": "acct_7"}, False),
        ({"data": {"object": {"object": "customer", "id": "cus_2"}}}, False),
        ({"data": {"object": {"object": "account", "id": "cus_1"}}}, False),
        ({"data": {"object": {"object": "customer", "id": "cus_1", "deleted": True}}}, False),
        ({"data": {"object": {"object": "customer", "id": "cus_1", "x": _invoice(13)["lines"]}}}, False),
        ({"data": {}}, False),
        ({"object": "v2.core.event", "data": None}, False),
    ],
)
def test_shown_is_whole_and_of_our_version(stripe_at: MakeStripe, change: dict[str, Any], whole: bool) -> None:  # noqa: FBT001
    """A payload shows an object only if it is that one, whole, and in the shape that a fetch has."""
    body = {"object": "customer", "id": "cus_1", "name": "A"}

    shown = stripe_at().shown({**event("customer.updated", body), **change}, ref("customer", "cus_1"))

    assert shown == (body if whole else None)


# Secrets


def test_secrets_are_told_nobody(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """Neither key nor webhook secret appears in what is shown, raised, or logged, even if the provider repeats them."""
    key, secret = "sk_test_standin", "whsec_test"
    provider = scripted(lambda asked: failure(400, "", f"Invalid {asked.headers['Authorization']} {secret}"))
    adapter = stripe_at(provider.url)
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)

    told = [repr(adapter), str(adapter)]
    for attempt in (
        lambda: adapter.fetch(ref("customer", "c")),
        lambda: stripe_at("http://127.0.0.1:1").fetch(ref("customer", "c")),
        lambda: stripe_at(api_key=f"{key} {key}"),
        lambda: adapter.read(Delivery({"stripe-signature": "t=1,v1=x"}, b"", NOW)),
    ):
        try:
            attempt()
        except Exception as error:  # noqa: BLE001 - whatever is raised is looked at
            told += [str(error), repr(error), *traceback.format_exception(error)]
    logging.getLogger().setLevel(before)
    logging.getLogger().removeHandler(handler)
    told.append(log.getvalue())

    told = [re.sub(r"^\s*File .*\n.*", "", text, flags=re.MULTILINE) for text in told]
    assert len(told) > 10
    assert not [text for text in told if key in text or secret in text]


def test_a_backfill_begins_where_it_is_told(stripe_at: MakeStripe) -> None:
    """A crawl shows nothing that was created before `backfill_since`, and everything from its very second on."""
    moment = [1_700_000_000.0]
    sandbox = StripeSandbox(clock=Clock(lambda: moment[0]))
    with sandbox.serve(0) as running:
        for second in (0, 10, 20):
            moment[0] = 1_700_000_000.0 + second
            sandbox.operate(operation_from({"op": "create", "kind": "customer", "id": f"cus_at_{second}"}))
        adapter = stripe_at(running.url, backfill_since=datetime.fromtimestamp(1_700_000_010, UTC))

        shown = [each.ref.id for page in adapter.crawl("customer", "") for each in page.snapshots]

    assert sorted(shown) == ["cus_at_10", "cus_at_20"]
