"""What every adapter must know of how deliveries come, shown against a stand-in of its provider over real HTTP."""

from __future__ import annotations

from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from adapters.github import App, GitHub
from adapters.sandbox.github import INSTALLATION, GitHubSandbox
from adapters.sandbox.stripe import StripeSandbox
from adapters.stripe import Stripe
from reconciler.errors import AccessLost, SignatureInvalid, SourceRefused, SourceUnavailable
from tests.adapters.bench import BENCHES, Inbox
from tests.adapters.grudging import Grudging
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.adapter import Mended, Subscription
    from reconciler.model import Delivery
    from tests.adapters.bench import Bench

every_provider = pytest.mark.parametrize("bench", BENCHES, indirect=True)
ELSEWHERE = "https://hooks.example.com/webhooks/source"


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Yield the bench of one provider."""
    with BENCHES[request.param]() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Inbox]:
    """Yield a second place where deliveries are taken."""
    with closing(Inbox()) as made:
        yield made


def ask(bench: Any, method: str, route: str, asked: object = None) -> Any:
    """Ask something of the control routes."""
    answer = bench._control.request(method, route, json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def address(bench: Any) -> str:
    """Return where the bench's provider sends."""
    return str(bench._inbox.url).rstrip("/")


def mended(bench: Bench, broken: Subscription, url: str) -> Mended | None:
    """Mend a subscription as far as the stand-in knows its topics; None: it knows not all."""
    try:
        return bench.adapter.mend_subscription(broken, url, secret=bench.secrets[1])
    except SourceRefused:
        if bench.adapter.provider != "shopify":
            raise
        return None


def first_kind(bench: Bench) -> str:
    """Return a kind that every provider tells of."""
    return next(iter(bench.adapter.kinds))


@every_provider
def test_what_points_at_us_is_sound(bench: Bench) -> None:
    """A subscription that sends everything to one of our addresses is shown as it is, and lacks nothing."""
    standing = bench.adapter.subscriptions([ELSEWHERE, address(bench)])

    known = [each for each in standing if bench.adapter.provider != "shopify" or each.topics]
    assert [(bool(each.id), each.url.rstrip("/"), each.wrong) for each in known] == [(True, address(bench), ())]
    assert all(each.sound for each in known if bench.adapter.provider != "shopify")


@every_provider
def test_what_points_elsewhere_is_not_shown(bench: Bench) -> None:
    """Where nothing points at us there is one without an id, which says what is needed, not where others point."""
    for each in bench.adapter.subscriptions([ELSEWHERE]):
        assert (each.id, each.url, each.sound) == ("", "", False)
        assert each.missing
        assert each.place


@every_provider
def test_mend_makes_one_and_leaves_others_alone(bench: Bench, other: Inbox) -> None:
    """What is missing is made: it delivers, signed with a secret that we know; the others stay as they were."""
    url, before = other.url.rstrip("/"), ask(bench, "GET", "/webhooks")
    [broken] = bench.adapter.subscriptions([url])

    made = mended(bench, broken, url)

    [after] = bench.adapter.subscriptions([url], held=[made.id] if made else [])
    assert after.id
    assert after.sound or bench.adapter.provider == "shopify"
    assert set(after.topics) > set(broken.topics)
    assert [each for each in ask(bench, "GET", "/webhooks") if each["url"] != url][: len(before)] == before
    id_ = bench.act("create", first_kind(bench))
    bench.deliveries()
    secret = made.secret if made and made.secret else None
    secrets = [secret or ("shpss_standin" if made is None else bench.secrets[1])]
    told = [note for each in other.received for note in bench.adapter.read(each, secrets=secrets)]
    assert id_ in {named.ref.id for note in told for named in note.named}


@pytest.mark.parametrize("bench", ["stripe", "github"], indirect=True)
def test_mend_puts_right_what_is_there(bench: Bench) -> None:
    """One that is switched off and sends little is named so, and mended in place: it keeps what it sent besides."""
    [topic] = bench.adapter.kinds[first_kind(bench)].topics[:1]
    hook = {"id": "30009", "url": address(bench), "secret": bench.secrets[1]}
    ask(bench, "PUT", "/webhooks", hook | {"events": [topic, "ping"], "enabled": False})
    [broken] = bench.adapter.subscriptions([address(bench)])

    made = bench.adapter.mend_subscription(broken, address(bench), secret=bench.secrets[1])

    [after] = bench.adapter.subscriptions([address(bench)])
    assert (broken.sound, topic in broken.missing, bool(broken.missing), len(broken.wrong)) == (False, False, True, 1)
    assert (made.id, made.secret) == (broken.id, None) == (after.id, None)
    assert after.sound
    assert "ping" in after.topics


def test_a_lost_secret_makes_an_endpoint_anew() -> None:
    """Stripe shows a secret once: an endpoint of ours whose secret nobody keeps is replaced."""
    with BENCHES["stripe"]() as bench, closing(Inbox()) as inbox:
        url = inbox.url.rstrip("/")
        [broken] = bench.adapter.subscriptions([url])
        first = bench.adapter.mend_subscription(broken, url, secret=None)
        [orphan] = bench.adapter.subscriptions([url])

        second = bench.adapter.mend_subscription(orphan, url, secret=None)

        assert (orphan.id, orphan.sound) == (first.id, False)
        assert second.id != first.id
        assert [each.sound for each in bench.adapter.subscriptions([url], held=[second.id])] == [True]
        assert [each["id"] for each in ask(bench, "GET", "/webhooks") if each["url"] == url] == [second.id]


def test_no_webhook_without_a_secret() -> None:
    """GitHub would send what nobody signed: without a secret none is made, and one that has none is not sound."""
    with BENCHES["github"]() as bench:
        [broken] = bench.adapter.subscriptions([ELSEWHERE])

        with pytest.raises(SourceRefused, match="webhook_secrets"):
            bench.adapter.mend_subscription(broken, ELSEWHERE, secret=None)


def test_failed_deliveries_of_github() -> None:
    """What failed is named as its delivery is, once for all attempts, and keeps its id when it is sent again."""
    with BENCHES["github"]() as bench, closing(Grudging(500)) as grudging:
        url, since = grudging.url, datetime.now(UTC) - timedelta(hours=1)
        ask(bench, "PUT", "/webhooks", {"id": "30001", "url": url, "secret": bench.secrets[1]})
        bench.act("create", "issue")
        bench.deliveries()
        [failed] = bench.adapter.failed_deliveries([url], since)
        bench.adapter.redeliver(failed)
        bench.deliveries()
        [still] = bench.adapter.failed_deliveries([url], since)
        grudging.answer = 200

        bench.adapter.redeliver(still)
        bench.deliveries()

        sent = [note.event_id for each in grudging.received for note in bench.adapter.read(each)]
        assert sent == [failed.event_id] * 3 == [still.event_id] * 3
        assert list(bench.adapter.failed_deliveries([ELSEWHERE], since)) == []
        assert list(bench.adapter.failed_deliveries([url], datetime.now(UTC) + timedelta(minutes=1))) == []


def test_undelivered_events_of_stripe() -> None:
    """Events that no endpoint took come with what they are about, under the id that a delivery of them has."""
    with BENCHES["stripe"]() as bench:
        bench.faults(drop=1)
        missed = bench.act("create", "customer")
        bench.faults()
        bench.act("create", "customer")
        [taken] = bench.deliveries()
        since = datetime.now(UTC) - timedelta(hours=1)

        [undelivered] = bench.adapter.failed_deliveries([], since)

        assert [(hint.ref.id, hint.event_id) for hint in undelivered.hints] == [(missed, undelivered.event_id)]
        assert undelivered.event_id != bench.adapter.read(taken)[0].event_id
        with pytest.raises(SourceRefused):
            bench.adapter.redeliver(undelivered)


@every_provider
def test_looking_is_paid_for_and_fails_as_calls_do(bench: Bench) -> None:
    """Each call is in the budget; a failure of the provider is no answer, and lost access is said so."""
    url, since = address(bench), datetime.now(UTC) - timedelta(hours=1)

    bench.adapter.subscriptions([url])
    list(bench.adapter.failed_deliveries([url], since))

    assert len(bench.spent.operations) == bench.calls()
    for faults, error in (({"status": {"500": 1}}, SourceUnavailable), (bench.losses[0], AccessLost)):
        bench.faults(**faults)
        with pytest.raises(error):
            bench.adapter.subscriptions([url])


@pytest.mark.parametrize(
    ("bench", "headers"),
    [
        ("github", {"Deprecation": "Tue, 10 Mar 2026 00:00:00 GMT", "Sunset": "Fri, 10 Mar 2028 00:00:00 GMT"}),
        ("shopify", {"X-Shopify-API-Deprecated-Reason": "https://shopify.dev/changelog"}),
    ],
    indirect=["bench"],
)
def test_words_of_deprecation_are_passed_on(bench: Any, headers: dict[str, str]) -> None:
    """An answer that says it will not be given for ever is heard, with the call it was given to."""
    heard: list[tuple[str, str, str]] = []
    bench.adapter._calls._notices = lambda *told: heard.append(told)
    bench.adapter.identity()
    assert heard == []

    ask(bench, "PUT", "/headers", headers)
    bench.adapter.identity()

    [(what, about, because)] = heard
    assert (what, about) == ("deprecated", bench.spent.operations[-1])
    assert all(value in because for value in headers.values())


def test_the_version_of_an_event() -> None:
    """Stripe's events say in which version they are; of the others' it means nothing."""
    for name, expected in (("stripe", "2026-10-28.endive"), ("github", None), ("shopify", None)):
        with BENCHES[name]() as bench:
            bench.act("create", first_kind(bench))
            [delivery, *_] = bench.deliveries()

            assert [bench.adapter.spoken(note.payload) for note in bench.adapter.read(delivery)] == [expected]


def test_connected_accounts_have_an_endpoint_of_their_own() -> None:
    """A platform that mirrors connected accounts needs two: what happens in those goes to the second only."""
    with StripeSandbox(7, accounts=["acct_1"]).serve() as running, closing(Grudging()) as inbox, ExitStack() as stack:
        adapter = Stripe(
            "source",
            api_key="sk_test_standinofakey",
            webhook_secrets=[],
            kinds=["customer"],
            accounts=["acct_1"],
            budget=Spent(),
            tolerance=timedelta(minutes=5),
            api_version="2026-10-28.endive",
            api_base=running.url,
            clock=lambda: datetime.now(UTC),
        )
        stack.callback(adapter.close)
        broken = adapter.subscriptions([inbox.url])
        made = [adapter.mend_subscription(each, inbox.url, secret=None) for each in broken]

        after = adapter.subscriptions([inbox.url], held=[each.id for each in made])
        with httpx.Client(base_url=f"{running.url}/_control") as control:
            for scope in ("", "acct_1"):
                control.post("/objects", json={"op": "create", "kind": "customer", "scope": scope}).raise_for_status()
            assert control.post("/flush").json()["pending"] == 0

        assert len({each.place for each in broken}) == 2
        assert [each.sound for each in after] == [True, True]
        told = [[_scopes(adapter, each, [one.secret or ""]) for one in made] for each in inbox.received]
        assert sorted(told, key=str) == [[None, {"acct_1"}], [{""}, None]]


def _scopes(adapter: Stripe, delivery: Delivery, secrets: list[str]) -> set[str] | None:
    """Return the scopes that a delivery names; None: these secrets did not sign it."""
    try:
        return {named.ref.scope for note in adapter.read(delivery, secrets=secrets) for named in note.named}
    except SignatureInvalid:
        return None


def test_the_webhook_of_an_app() -> None:
    """An app has one webhook, which no call can mend; what it failed to deliver is sent again, by its own id."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    with GitHubSandbox(7).serve() as running, closing(Grudging(500)) as inbox, ExitStack() as stack:
        control = stack.enter_context(httpx.Client(base_url=f"{running.url}/_control"))
        control.put("/webhooks", json={"id": "30001", "url": inbox.url, "secret": "standin"}).raise_for_status()
        control.put("/hooks", json={"30001": {"target": "integration"}}).raise_for_status()
        adapter = GitHub(
            "source",
            credential=App(77001, pem, int(INSTALLATION)),
            repositories=[],
            organizations=[],
            webhook_secrets=["standin"],
            kinds=["issue"],
            budget=Spent(),
            validators=lambda _kind, _scope: {},
            api_version="2022-11-28",
            api_base=running.url,
            clock=lambda: datetime.now(UTC),
        )
        stack.callback(adapter.close)
        since = datetime.now(UTC) - timedelta(hours=1)

        [standing] = adapter.subscriptions([inbox.url])
        with pytest.raises(SourceRefused, match="settings"):
            adapter.mend_subscription(standing, inbox.url, secret="standin")
        scope = control.post("/objects", json={"op": "create", "kind": "repository", "deliver": False}).json()["id"]
        control.post("/objects", json={"op": "create", "kind": "issue", "scope": scope}).raise_for_status()
        assert control.post("/flush").json()["pending"] == 0
        [failed] = adapter.failed_deliveries([inbox.url], since)
        adapter.redeliver(failed)
        assert control.post("/flush").json()["pending"] == 0

        assert (standing.place, standing.url) == ("the app", inbox.url)
        sent = [note.event_id for each in inbox.received for note in adapter.read(each)]
        assert sent == [failed.event_id] * 2
