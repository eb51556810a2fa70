"""The connected accounts of a Stripe platform: each is a scope, and one that was taken away is lost, not gone."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from adapters.sandbox import deliveries
from adapters.sandbox.faults import faults_from
from adapters.sandbox.operations import operation_from
from adapters.sandbox.stripe import StripeSandbox
from adapters.sandbox.stripe.ledger import signature
from adapters.stripe import KINDS
from adapters.stripe.subscriptions import in_turn
from reconciler import content
from reconciler.endpoints import Endpoint
from reconciler.errors import AccessLost
from reconciler.model import Delivery, ObjectRef
from tests.adapters.bench import Inbox
from tests.adapters.scripted import Said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from adapters.stripe import Stripe
    from reconciler.model import Page
    from tests.adapters.scripted import Asked, Scripted

    MakeStripe = Callable[..., Stripe]
    MakeScripted = Callable[[Callable[[Asked], Said]], Scripted]

SECRET = "whsec_test"


@dataclass(slots=True)
class Platform:
    """A platform with two connected accounts, and what it sends."""

    sandbox: StripeSandbox
    url: str
    inbox: Inbox

    def act(self, op: str, kind: str, id_: str, scope: str = "") -> None:
        """Let something happen in an account."""
        self.sandbox.operate(operation_from({"op": op, "kind": kind, "id": id_, "scope": scope}))

    def sent(self) -> list[Delivery]:
        """Return what was sent so far."""
        assert self.sandbox.machinery.deliveries.flush(5) == 0
        return list(self.inbox.received)


@pytest.fixture
def platform() -> Iterator[Platform]:
    """Yield a platform."""
    with ExitStack() as stack:
        inbox = stack.enter_context(closing(Inbox()))
        sandbox = StripeSandbox(7, accounts=("acct_a", "acct_b"))
        running = stack.enter_context(sandbox.serve())
        endpoint = deliveries.Endpoint(id="we_connect", url=inbox.url, secrets=(SECRET,))
        sandbox.machinery.deliveries.endpoints = (endpoint,)
        yield Platform(sandbox, running.url, inbox)


def here(url: str, stripe_at: MakeStripe, **given: Any) -> Stripe:
    """Return an adapter by the real clock that mirrors both accounts, unless told otherwise."""
    settings = {"accounts": ("acct_a", "acct_b"), "kinds": tuple(KINDS), "clock": lambda: datetime.now(UTC)}
    return stripe_at(url, **(settings | given))


def ids(pages: Iterable[Page]) -> set[str]:
    """Return the ids of what pages show, whole or as hints."""
    refs = [[each.ref for each in page.snapshots] + [each.ref for each in page.hints] for page in pages]
    return {ref.id for shown in refs for ref in shown}


def account_of(asked: Asked) -> str:
    """Return the account that a call names."""
    return next((value for name, value in asked.headers.items() if name.lower() == "stripe-account"), "")


def test_k11_every_call_names_the_account(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """In the scope of a connected account no call is made without saying so, and in one's own none says it."""

    def answer(asked: Asked) -> Said:
        if asked.path == "/v1/account":
            return Said({"id": account_of(asked) or "acct_own", "object": "account"})
        return Said({"object": "list", "data": [], "has_more": False})

    provider = scripted(answer)
    adapter = here(provider.url, stripe_at, kinds=["customer", "price", "tax_id", "subscription_item", "topup"])
    since = datetime.now(UTC) - timedelta(hours=1)

    for scope in adapter.scopes():
        for kind in adapter.kinds:
            list(adapter.crawl(kind, scope))
            list(adapter.changed_since(kind, scope, since))
        adapter.identity(scope)

    told = [account_of(asked) for asked in provider.asked]
    assert len(told) == 3 * told.count("") > 30
    assert {each: told.count(each) for each in told} == dict.fromkeys(adapter.scopes(), len(told) // 3)


def test_objects_live_in_their_account(platform: Platform, stripe_at: MakeStripe) -> None:
    """The same id may stand in several accounts: each is listed, told of and fetched where it is."""
    adapter = here(platform.url, stripe_at)
    for scope in ("", "acct_a"):
        platform.act("create", "coupon", "SPRING", scope)
    platform.act("change", "coupon", "SPRING", "acct_a")
    since = datetime.now(UTC) - timedelta(minutes=1)

    crawled = {scope: ids(adapter.crawl("coupon", scope)) for scope in adapter.scopes()}
    told = {scope: ids(adapter.changed_since("coupon", scope, since)) for scope in adapter.scopes()}
    names = {
        scope: adapter.fetch(ObjectRef("stripe-eu", scope, "coupon", "SPRING")).body or {} for scope in ("", "acct_a")
    }
    named = [one.ref for each in platform.sent() for note in adapter.read(each) for one in note.named]

    assert crawled == told == {"": {"SPRING"}, "acct_a": {"SPRING"}, "acct_b": set()}
    assert names[""]["name"] != names["acct_a"]["name"]
    assert {(ref.scope, ref.id) for ref in named} == {("", "SPRING"), ("acct_a", "SPRING")}
    assert adapter.fetch(ObjectRef("stripe-eu", "acct_b", "coupon", "SPRING")).body is None


def test_an_account_that_is_not_mirrored(platform: Platform, stripe_at: MakeStripe) -> None:
    """An event of a connected account that is not mirrored is authentic and names nothing: it is for nobody here."""
    platform.act("create", "customer", "cus_1", "acct_b")
    adapter = here(platform.url, stripe_at, accounts=("acct_a",))

    [delivery] = platform.sent()
    [note] = adapter.read(delivery)

    assert (note.event_type, note.named, note.skipped) == ("customer.created", (), "")
    assert not adapter.addressed(note, delivery)
    assert here(platform.url, stripe_at).addressed(note, delivery)
    assert here(platform.url, stripe_at, accounts="all").addressed(note, delivery)


def test_an_endpoint_before_several_sources(platform: Platform, stripe_at: MakeStripe) -> None:
    """Behind one URL each source is told of its own accounts; what is about nobody's is nobody's."""
    for scope in ("acct_a", "acct_b", "acct_c"):
        platform.act("create", "customer", f"cus_{scope[-1]}", scope)
    one, other = (here(platform.url, stripe_at, accounts=(account,)) for account in ("acct_a", "acct_b"))
    endpoint = Endpoint("platform", [one, other], [SECRET])

    told = [note for each in platform.sent() for note in endpoint.read(each)]

    assert {(named.ref.scope, named.ref.id) for note in told for named in note.named} == {
        ("acct_a", "cus_a"),
        ("acct_b", "cus_b"),
    }
    assert len(told) == 2


def test_all_accounts(platform: Platform, stripe_at: MakeStripe) -> None:
    """Where all are mirrored they are listed, now and again; what was connected a moment ago is read at once."""
    now = [datetime.now(UTC)]
    adapter = here(platform.url, stripe_at, accounts="all", clock=lambda: now[0])
    assert adapter.scopes() == adapter.scopes("customer") == ("", "acct_a", "acct_b")
    assert platform.sandbox.machinery.calls.summary(100)["total"] == 1

    platform.act("create", "account", "acct_c")
    platform.act("delete", "account", "acct_a")
    named = [one.ref for each in platform.sent() for note in adapter.read(each) for one in note.named]

    assert {(ref.scope, ref.kind) for ref in named} == {("acct_c", "account"), ("acct_a", "account")}
    assert adapter.scopes() == ("", "acct_a", "acct_b")
    now[0] += timedelta(minutes=5)
    assert adapter.scopes() == ("", "acct_b", "acct_c")


def test_an_account_taken_away(platform: Platform, stripe_at: MakeStripe) -> None:
    """What a platform may see no more is access that is lost, for that account alone: nothing in it is absent."""
    adapter = here(platform.url, stripe_at)
    platform.act("create", "customer", "cus_1", "acct_a")
    platform.act("delete", "account", "acct_a")
    since = datetime.now(UTC) - timedelta(minutes=1)

    for attempt in (
        lambda: adapter.fetch(ObjectRef("stripe-eu", "acct_a", "customer", "cus_1")),
        lambda: adapter.fetch(ObjectRef("stripe-eu", "acct_a", "customer", "nobody_1")),
        lambda: adapter.fetch(ObjectRef("stripe-eu", "acct_a", "account", "acct_a")),
        lambda: list(adapter.crawl("customer", "acct_a")),
        lambda: list(adapter.crawl("account", "acct_a")),
        lambda: list(adapter.changed_since("customer", "acct_a", since)),
        lambda: adapter.identity("acct_a"),
    ):
        with pytest.raises(AccessLost, match="acct_a"):
            attempt()

    assert (adapter.identity(), adapter.identity("acct_b")) == ("acct_standin", "acct_b")
    told = [(note.event_type, one.ref) for each in platform.sent() for note in adapter.read(each) for one in note.named]
    assert ("account.application.deauthorized", ObjectRef("stripe-eu", "acct_a", "account", "acct_a")) in told


def test_undelivered_events_of_connected_accounts(platform: Platform, stripe_at: MakeStripe) -> None:
    """What no endpoint took is shown of every account; one that is lost does not hide those after it."""
    adapter = here(platform.url, stripe_at)
    platform.sandbox.machinery.mischief.faults = faults_from({"drop": 1})
    platform.act("create", "customer", "cus_1", "acct_b")
    platform.act("delete", "account", "acct_a")

    found = list(adapter.failed_deliveries([], datetime.now(UTC) - timedelta(hours=1)))

    assert ("acct_b", "cus_1") in {(hint.ref.scope, hint.ref.id) for each in found for hint in each.hints}


@pytest.mark.parametrize("count", [0, 1, 50, 51, 120, 2400, 5000])
def test_every_account_has_its_turn(count: int) -> None:
    """Within 48 looks in a row, wherever they begin, each account was asked, and no look asks more than it needs to."""
    accounts = [f"acct_{number}" for number in range(count)]

    for begins in (0, 7, 490_000):
        looks = [in_turn(accounts, begins + number) for number in range(48)]
        assert {each for look in looks for each in look} == set(accounts)
        assert max(map(len, looks)) <= max(50, -(-count // 48))


def test_an_account_is_an_object_in_itself(platform: Platform, stripe_at: MakeStripe) -> None:
    """Each scope shows the one account it is, whole as a fetch shows it, and its event names it there."""
    adapter = here(platform.url, stripe_at)
    platform.act("change", "account", "acct_a")
    since = datetime.now(UTC) - timedelta(minutes=1)

    for scope, id_ in (("", "acct_standin"), ("acct_a", "acct_a"), ("acct_b", "acct_b")):
        [page] = adapter.crawl("account", scope)
        [listed] = page.snapshots
        fetched = adapter.fetch(ObjectRef("stripe-eu", scope, "account", id_))
        assert (listed.ref, listed.body) == (fetched.ref, fetched.body)

    assert ids(adapter.changed_since("account", "acct_a", since)) == {"acct_a"}
    [delivery] = platform.sent()
    assert [one.ref.scope for note in adapter.read(delivery) for one in note.named] == ["acct_a"]


def test_a_key_that_answers_as_another(stripe_at: MakeStripe, scripted: MakeScripted) -> None:
    """A call for an account that another one answers is access that is lost: two accounts are never confused."""
    provider = scripted(lambda _: Said({"id": "acct_other", "object": "account"}))

    with pytest.raises(AccessLost, match="acct_other"):
        here(provider.url, stripe_at).identity("acct_a")


@pytest.mark.parametrize(("context", "scope"), [("acct_a", "acct_a"), ("org_1/acct_a", "acct_a"), ("acct_x", None)])
def test_a_thin_event_of_an_account(stripe_at: MakeStripe, context: str, scope: str | None) -> None:
    """A thin event says in its context whose it is."""
    related = {"id": "cus_1", "type": "customer", "url": "/v1/customers/cus_1"}
    thin = {
        "id": "evt_t1",
        "object": "v2.core.event",
        "type": "v1.customer.updated",
        "related_object": related,
        "context": context,
    }
    adapter = here("http://127.0.0.1:9", stripe_at)
    now = datetime.now(UTC)
    raw = content.dumps(thin).encode()

    [note] = adapter.read(Delivery({"stripe-signature": signature(raw, (SECRET,), at=int(now.timestamp()))}, raw, now))

    assert [one.ref.scope for one in note.named] == ([] if scope is None else [scope])
