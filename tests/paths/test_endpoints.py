"""One URL for several sources, from the provider's delivery over real HTTP to the row of the source it is about."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from structlog.testing import capture_logs

from adapters.github import App, GitHub
from adapters.sandbox.github import GitHubSandbox
from adapters.sandbox.shopify import ShopifySandbox
from reconciler.bootstrap import program
from reconciler.config import load
from reconciler.config.values import Listen
from reconciler.model import Delivery, Notification
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import PATIENCE, Site, WebServer
from tests.adapters.spent import Spent
from tests.paths.listening import eventually, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from structlog.typing import EventDict

    from reconciler.bootstrap import Program
    from reconciler.store.database import Database

APP_SECRET, OWN_SECRET = "shpss_standinofanapp", "standinofasource"
SHOP_TOKEN, HUB_TOKEN = "shpat_standinofatoken", "ghp_standinofatoken"
STORED = "SELECT source, event_type, outcome FROM webhook_events ORDER BY 1, 2"
LIVING = "SELECT source, kind, id FROM objects WHERE deleted_at IS NULL ORDER BY 1, 2, 3"
WANTED = "SELECT source, id FROM refetches ORDER BY 1, 2"

_COMMON = """
[database]
url = "env:DATABASE_URL"
[drain]
workers = 2
poll = "50ms"
read_lag = "100ms"
"""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A provider's stand-in."""

    url: str

    def control(self, method: str, route: str, asked: object = None) -> Any:
        """Ask something of the control routes."""
        answer = httpx.request(method, f"{self.url}/_control/{route}", json=asked, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def sends_to(self, url: str, secret: str, **more: object) -> None:
        """Let it send its webhooks to *url*, each once."""
        self.control("PUT", "webhooks", {"url": url, "secret": secret, **more})
        self.control("PUT", "retries", {"attempts": 1})

    def create(self, kind: str, **more: object) -> str:
        """Create an object and return its id, once its webhooks were answered."""
        made = self.control("POST", "objects", {"op": "create", "kind": kind, **more})
        assert self.control("POST", "flush")["pending"] == 0
        return str(made["id"])

    def answers(self) -> dict[str, int]:
        """Return how often each status was answered to its webhooks."""
        found: dict[str, int] = self.control("GET", "deliveries")["answers"]
        return found

    def calls(self) -> int:
        """Return how many API calls it has seen."""
        return int(self.control("GET", "calls")["total"])


@dataclass(frozen=True, slots=True)
class Front:
    """A program that receives and drains, behind its public listener."""

    running: Program
    url: str
    lines: list[EventDict]

    def inbox(self, name: str) -> str:
        """Return the URL that a provider would be given."""
        return f"{self.url}/webhooks/{name}"

    def counted(self, source: str, outcome: str) -> float:
        """Return how many deliveries were counted so."""
        told = self.running.metrics.exposition().decode()
        line = f'reconciler_deliveries_total{{outcome="{outcome}",source="{source}"}} '
        return sum(float(each.removeprefix(line)) for each in told.splitlines() if each.startswith(line))


@contextmanager
def front(database: Database, folder: Path, text: str, **more: str) -> Iterator[Front]:
    """Yield a program of this configuration at work; *more* are secrets besides the usual ones."""
    file = folder / "reconciler.toml"
    file.write_text(_COMMON + text)
    secrets = {"APP_SECRET": APP_SECRET, "OWN_SECRET": OWN_SECRET, "SHOP_TOKEN": SHOP_TOKEN, "HUB_TOKEN": HUB_TOKEN}
    settings = load(file, {"HOME": str(folder), "DATABASE_URL": database.url, **secrets, **more})
    with capture_logs() as lines, program(settings) as running, running.receiver:
        running.drain.start(running.stop)
        reception = Reception(max_body=settings.web.max_body)
        app = public_app(running.receiver, Heartbeats(), reception=reception, clock=lambda: datetime.now(UTC))
        server = WebServer(Site("web.listen", app, Listen("127.0.0.1", 0), connections=100), patience=PATIENCE)
        (address,) = server.start()
        try:
            yield Front(running, f"http://127.0.0.1:{address.rpartition(':')[2]}", lines)
        finally:
            server.stop(1)
            running.stop.set()
            running.drain.join(10)


# Shopify: one app, many shops


class Shops:
    """Berlin and Paris, which are ours, and Oslo, which is not; all three have the same app."""

    def __init__(self, stack: ExitStack) -> None:
        def opened(seed: int, name: str) -> StandIn:
            sandbox = ShopifySandbox(seed, domain=f"{name}.myshopify.com", access_token=SHOP_TOKEN)
            return StandIn(stack.enter_context(sandbox.serve()).url)

        self.berlin, self.paris, self.oslo = opened(1, "berlin"), opened(2, "paris"), opened(3, "oslo")

    def configuration(self) -> str:
        """Return both sources behind one endpoint; Berlin has a URL and a secret of its own, too."""
        return "".join(
            f'[[sources]]\nname = "shop-{name}"\nprovider = "shopify"\nshop = "{name}.myshopify.com"\n'
            f'access_token = "env:SHOP_TOKEN"\napi_base = "{at.url}"\n{more}'
            for name, at, more in (
                ("berlin", self.berlin, 'webhook_secrets = ["env:OWN_SECRET"]\n'),
                ("paris", self.paris, ""),
            )
        ) + ('[[endpoints]]\nname = "shop-app"\nprovider = "shopify"\nwebhook_secrets = ["env:APP_SECRET"]\n')


@pytest.fixture
def shops() -> Iterator[Shops]:
    """Yield three shops."""
    with ExitStack() as stack:
        yield Shops(stack)


@pytest.fixture
def shop_app(database: Database, tmp_path: Path, shops: Shops) -> Iterator[Front]:
    """Yield a program with two of the shops behind one endpoint."""
    with front(database, tmp_path, shops.configuration()) as made:
        yield made


def from_shopify(body: bytes, domain: str, *, secret: str = APP_SECRET, webhook_id: str = "w-1") -> dict[str, str]:
    """Return the headers of a delivery as Shopify would sign it; without a *domain*, without its header."""
    digest = base64.b64encode(hmac.digest(secret.encode(), body, hashlib.sha256)).decode()
    return {
        "X-Shopify-Hmac-SHA256": digest,
        "X-Shopify-Topic": "customers/update",
        "X-Shopify-Webhook-Id": webhook_id,
        **({"X-Shopify-Shop-Domain": domain} if domain else {}),
    }


@pytest.mark.parametrize("family", ["classic", "events"])
def test_two_shops_behind_one_url(database: Database, shops: Shops, shop_app: Front, family: str) -> None:
    """What each shop sends becomes rows of its own source, read from that shop, whatever the headers are called."""
    for shop in (shops.berlin, shops.paris):
        shop.sends_to(shop_app.inbox("shop-app"), APP_SECRET)
        shop.control("PUT", "family", {"family": family})

    ours, theirs = shops.berlin.create("customer"), shops.paris.create("customer")
    eventually(lambda: len(rows(database, LIVING)) == 2)

    assert rows(database, LIVING) == [("shop-berlin", "customer", ours), ("shop-paris", "customer", theirs)]
    eventually(lambda: {outcome for _, _, outcome in rows(database, STORED)} == {"done"})
    assert {source for source, _, _ in rows(database, STORED)} == {"shop-berlin", "shop-paris"}
    assert shop_app.counted("shop-berlin", "stored") == shop_app.counted("shop-paris", "stored") == 1
    assert shop_app.counted("shop-app", "ignored") == 0


def test_a_shop_that_is_not_ours(database: Database, shops: Shops, shop_app: Front) -> None:
    """It is answered 200 and counted; nothing is stored, wanted or asked, and the log names the delivery."""
    shops.oslo.sends_to(shop_app.inbox("shop-app"), APP_SECRET)

    shops.oslo.create("customer")

    assert set(shops.oslo.answers()) == {"200"}
    assert rows(database, STORED) == rows(database, WANTED) == []
    assert shops.berlin.calls() == shops.paris.calls() == 0
    assert shop_app.counted("shop-app", "ignored") == 1
    [line] = [line for line in shop_app.lines if line["event"] == "delivery.ignored"]
    assert (line["source"], line["event_type"], line["vouched_by"]) == ("shop-app", "customers/create", 1)


@pytest.mark.parametrize("secret", [OWN_SECRET, "shpss_ofsomebodyelse"])
def test_another_secret(database: Database, shops: Shops, shop_app: Front, secret: str) -> None:
    """Nothing but the endpoint's own secrets opens it, not even that of a source behind it: 401, and kept nowhere."""
    shops.berlin.sends_to(shop_app.inbox("shop-app"), secret)

    shops.berlin.create("customer")

    assert set(shops.berlin.answers()) == {"401"}
    assert rows(database, STORED) == rows(database, WANTED) == []
    assert shop_app.counted("shop-app", "refused") == 1


@pytest.mark.parametrize(("secret", "status"), [(OWN_SECRET, 200), (APP_SECRET, 401)])
def test_a_source_keeps_its_own_url(shops: Shops, shop_app: Front, secret: str, status: int) -> None:
    """A source behind an endpoint still has its own URL, which the endpoint's secret does not open."""
    shops.berlin.sends_to(shop_app.inbox("shop-berlin"), secret)

    shops.berlin.create("customer")

    assert set(shops.berlin.answers()) == {str(status)}


def test_a_source_without_a_secret_of_its_own(shops: Shops, shop_app: Front) -> None:
    """What only an endpoint vouches for is refused at the source's own URL: no secret there, no way in."""
    shops.paris.sends_to(shop_app.inbox("shop-paris"), APP_SECRET)

    shops.paris.create("customer")

    assert set(shops.paris.answers()) == {"401"}


@pytest.mark.parametrize(
    ("domain", "source"),
    [
        ("berlin.myshopify.com", "shop-berlin"),
        ("Paris.MyShopify.com", "shop-paris"),
        ("berlin", ""),
        ("berlin.myshopify.com.example.com", ""),
        ("berlin.myshopify.com, paris.myshopify.com", ""),
        ("", ""),
    ],
)
def test_the_domain_only_chooses(database: Database, shop_app: Front, domain: str, source: str) -> None:
    """The header that no signature covers chooses among the endpoint's sources; without a signature it does nothing."""
    body = b'{"id": 7, "email": "grete@example.com"}'
    told = from_shopify(body, domain)
    unsigned = told | {"X-Shopify-Hmac-SHA256": "AAAA"}

    refused = httpx.post(shop_app.inbox("shop-app"), content=body, headers=unsigned)
    nothing = rows(database, STORED)
    answer = httpx.post(shop_app.inbox("shop-app"), content=body, headers=told)

    assert (refused.status_code, refused.json()) == (401, {"error": "signature"})
    assert nothing == []
    assert (answer.status_code, answer.json()) == (200, {"event_id": "w-1" if source else None, "duplicate": False})
    assert [stored for stored, _, _ in rows(database, STORED)] == ([source] if source else [])


def test_a_repeat(database: Database, shop_app: Front) -> None:
    """A repeat is told and counted as at a source's own URL; the same id from another shop is another event."""
    body = b'{"id": 7}'
    sent = ["berlin.myshopify.com", "berlin.myshopify.com", "paris.myshopify.com"]

    answers = [
        httpx.post(shop_app.inbox("shop-app"), content=body, headers=from_shopify(body, domain)) for domain in sent
    ]

    assert [answer.headers.get("X-Duplicate") for answer in answers] == [None, "1", None]
    assert [source for source, _, _ in rows(database, STORED)] == ["shop-berlin", "shop-paris"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_what_is_no_object(database: Database, shop_app: Front, body: bytes) -> None:
    """Authentic bytes that are no JSON object are 400 behind an endpoint, too."""
    headers = from_shopify(body, "berlin.myshopify.com")

    answer = httpx.post(shop_app.inbox("shop-app"), content=body, headers=headers)

    assert (answer.status_code, answer.json()) == (400, {"error": "malformed"})
    assert rows(database, STORED) == []


def test_no_secret_at_all(database: Database, tmp_path: Path, shops: Shops) -> None:
    """An endpoint without a secret refuses everything, what its sources' own secrets sign included."""
    text = shops.configuration().replace('["env:APP_SECRET"]', "[]")
    body = b'{"id": 7}'

    with front(database, tmp_path, text) as made:
        answers = [
            httpx.post(
                made.inbox("shop-app"), content=body, headers=from_shopify(body, "berlin.myshopify.com", secret=secret)
            )
            for secret in (OWN_SECRET, APP_SECRET, "")
        ]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert rows(database, STORED) == []


# GitHub: one app, many installations and repositories

ACME, UMBRELLA, STRANGE = 51001, 51002, 51003


@pytest.fixture(scope="module")
def private_key() -> str:
    """Return a key made for this run."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@dataclass(frozen=True, slots=True)
class Hub:
    """GitHub, where an app is installed by acme, umbrella and a stranger."""

    at: StandIn
    repositories: Mapping[str, str]

    def app_sends_to(self, url: str, secret: str = APP_SECRET, *, content_type: str = "json") -> None:
        """Let the app's hook send everything to *url*."""
        self.at.sends_to(url, secret, id="600")
        self.at.control("PUT", "hooks", {"600": {"target": "integration", "content_type": content_type}})

    def opens(self, repository: str) -> str:
        """Open an issue and return its number."""
        return self.at.create("issue", scope=self.repositories[repository])


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Yield a stand-in of GitHub."""
    installations = {str(ACME): "acme", str(UMBRELLA): "umbrella", str(STRANGE): "stranger"}
    with GitHubSandbox(5, installations=installations).serve() as running:
        at = StandIn(running.url)
        owned = [("acme", "shop"), ("acme", "blog"), ("umbrella", "site"), ("stranger", "shop")]
        made = {
            f"{owner}/{name}": at.create("repository", body={"name": name, "owner": owner}) for owner, name in owned
        }
        yield Hub(at, made)


def installed(folder: Path, name: str, installation: int, key: str, **more: str) -> str:
    """Return a source that is an installation of the app."""
    (folder / "app.pem").write_text(key)
    access = f'app_id = 77001\nprivate_key = "file:{folder / "app.pem"}"\ninstallation_id = {installation}\n'
    return github(name, access, **more)


def github(name: str, access: str, **more: str) -> str:
    """Return a source of GitHub's."""
    given = "".join(f"{key} = {value}\n" for key, value in more.items())
    return f'[[sources]]\nname = "{name}"\nprovider = "github"\nkinds = ["repository", "issue"]\n{access}{given}'


def app_of(*sources: str) -> str:
    """Return an endpoint before these sources."""
    return (
        f'[[endpoints]]\nname = "github-app"\nsources = {json.dumps(sources)}\nwebhook_secrets = ["env:APP_SECRET"]\n'
    )


def from_github(body: bytes, event: str) -> dict[str, str]:
    """Return the headers of a delivery as GitHub would sign it."""
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-GitHub-Hook-ID": "600",
        "X-Hub-Signature-256": f"sha256={hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()}",
    }


@pytest.mark.parametrize("content_type", ["json", "form"])
def test_two_installations(database: Database, tmp_path: Path, hub: Hub, private_key: str, content_type: str) -> None:
    """Each installation's events go to its own source, forms as well; a stranger's are answered and kept nowhere."""
    base = json.dumps(hub.at.url)
    text = (
        installed(tmp_path, "acme", ACME, private_key, api_base=base)
        + installed(tmp_path, "umbrella", UMBRELLA, private_key, api_base=base)
        + app_of("acme", "umbrella")
    )
    with front(database, tmp_path, text) as made:
        hub.app_sends_to(made.inbox("github-app"), content_type=content_type)

        ours, theirs = hub.opens("acme/shop"), hub.opens("umbrella/site")
        hub.opens("stranger/shop")
        eventually(lambda: {outcome for _, _, outcome in rows(database, STORED)} == {"done"})

        assert set(hub.at.answers()) == {"200"}
        assert rows(database, LIVING) == [("acme", "issue", ours), ("umbrella", "issue", theirs)]
        assert rows(database, STORED) == [("acme", "issues.opened", "done"), ("umbrella", "issues.opened", "done")]
        assert made.counted("github-app", "ignored") == 1


def test_repositories_of_one_installation(database: Database, tmp_path: Path, hub: Hub, private_key: str) -> None:
    """Sources are told apart by repository; one that both mirror goes to both, and never outside the endpoint."""
    base = json.dumps(hub.at.url)
    token = 'token = "env:HUB_TOKEN"\n'
    text = (
        installed(tmp_path, "shop", ACME, private_key, api_base=base, repositories='["Acme/Shop"]')
        + github("both", token, api_base=base, repositories='["acme/shop", "acme/blog"]')
        + github("outside", token, api_base=base, organizations='["acme", "stranger"]')
        + app_of("shop", "both")
    )
    with front(database, tmp_path, text) as made:
        hub.app_sends_to(made.inbox("github-app"))

        shop, blog = hub.opens("acme/shop"), hub.opens("acme/blog")
        hub.opens("stranger/shop")
        eventually(lambda: len(rows(database, LIVING)) == 3)

        assert sorted(rows(database, LIVING)) == sorted(
            [("both", "issue", blog), ("both", "issue", shop), ("shop", "issue", shop)]
        )
        assert [source for source, _, _ in rows(database, STORED)] == ["both", "both", "shop"]
        assert made.counted("github-app", "ignored") == 1


def test_sources_of_one_token_share_its_budget(database: Database, tmp_path: Path, hub: Hub) -> None:
    """What GitHub counts by token is one budget, whose name in the database does not tell the token."""
    base, token = json.dumps(hub.at.url), 'token = "env:HUB_TOKEN"\n'
    text = github("shop", token, api_base=base, repositories='["acme/shop"]') + github(
        "blog", token, api_base=base, repositories='["acme/blog"]'
    )
    with front(database, tmp_path, text) as made:
        for _ in range(3):
            made.running.adapters["shop"].identity()
        with database.transaction() as connection:
            standing = {(each.source, each.name): each.left for each in made.running.budgets.standing(connection)}

    assert standing["shop", "hour"] == standing["blog", "hour"] < 2500
    [key] = rows(database, "SELECT DISTINCT source FROM budgets")
    assert key.startswith("github:")
    assert HUB_TOKEN not in key


def test_wrong_secret_of_an_app(database: Database, tmp_path: Path, hub: Hub) -> None:
    """GitHub is told 400, and nothing of it is kept."""
    text = github("acme", 'token = "env:HUB_TOKEN"\n', organizations='["acme"]') + app_of("acme")
    with front(database, tmp_path, text) as made:
        hub.app_sends_to(made.inbox("github-app"), "standinofanothersecret")

        hub.opens("acme/shop")

    assert set(hub.at.answers()) == {"400"}
    assert rows(database, STORED) == rows(database, WANTED) == []


def test_events_of_the_app_itself(database: Database, tmp_path: Path, hub: Hub, private_key: str) -> None:
    """What tells of an installation is on record with its source; a ping and a stranger's are kept nowhere: all 200."""
    text = installed(tmp_path, "acme", ACME, private_key, api_base=json.dumps(hub.at.url)) + app_of("acme")
    account = {"login": "acme", "id": 9}
    told: list[tuple[str, dict[str, Any]]] = [
        ("ping", {"zen": "x", "hook_id": 600, "hook": {"type": "App", "app_id": 77001}}),
        ("installation", {"action": "created", "installation": {"id": ACME, "account": account}, "repositories": []}),
        ("installation", {"action": "created", "installation": {"id": STRANGE, "account": {"login": "stranger"}}}),
        ("installation_repositories", {"action": "added", "installation": {"id": ACME, "account": account}}),
        ("github_app_authorization", {"action": "revoked", "sender": account}),
    ]
    with front(database, tmp_path, text) as made:
        answers = []
        for event, payload in told:
            body = json.dumps(payload).encode()
            answers.append(httpx.post(made.inbox("github-app"), content=body, headers=from_github(body, event)))
        ignored = [made.counted(source, "ignored") for source in ("github-app", "acme")]

    assert [answer.status_code for answer in answers] == [200] * len(told)
    assert ignored == [3, 1]
    assert rows(database, STORED) == [
        ("acme", "installation.created", "done"),
        ("acme", "installation_repositories.added", "ignored"),
    ]
    assert rows(database, WANTED) == []


def test_form_that_is_none(database: Database, tmp_path: Path) -> None:
    """A form is verified as it comes, encoded, and its payload read after: no other field of it can choose a source."""
    text = github("acme", 'token = "env:HUB_TOKEN"\n', organizations='["acme"]') + app_of("acme")
    payload = {"action": "opened", "repository": {"id": 10, "full_name": "acme/a+b"}, "issue": {"number": 1}}
    good = f"payload={quote_plus(json.dumps(payload))}".encode()
    bad = f"repository={quote_plus(json.dumps(payload))}".encode()
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    with front(database, tmp_path, text) as made:
        answers = [
            httpx.post(made.inbox("github-app"), content=body, headers=from_github(signed, "issues") | form)
            for body, signed in ((good, good), (bad, bad), (good, bad))
        ]

    assert [answer.status_code for answer in answers] == [200, 400, 400]
    assert rows(database, STORED)[0][:2] == ("acme", "issues.opened")


# Whose an event of GitHub's is


def repository(full_name: str, installation: int | None = None) -> dict[str, Any]:
    """Return as much of a payload as says whose it is."""
    told = {} if installation is None else {"installation": {"id": installation, "node_id": "MDIz"}}
    return {"repository": {"id": 10, "full_name": full_name}, **told}


NOTHING: dict[str, Any] = {"repositories": [], "organizations": []}
SHOP: dict[str, Any] = {"repositories": ["acme/shop"], "organizations": []}
ALL_OF_ACME: dict[str, Any] = {"repositories": [], "organizations": ["Acme"]}


@pytest.mark.parametrize(
    ("app", "places", "payload", "ours"),
    [
        (True, NOTHING, repository("acme/shop", ACME), True),
        (True, NOTHING, repository("acme/shop", STRANGE), False),
        (True, NOTHING, repository("acme/shop"), False),
        (True, NOTHING, {"installation": {"id": ACME}}, True),
        (True, NOTHING, {"installation": {"id": str(ACME)}}, False),
        (True, NOTHING, {}, False),
        (True, SHOP, repository("ACME/Shop", ACME), True),
        (True, SHOP, repository("acme/blog", ACME), False),
        (True, SHOP, repository("acme/shop", STRANGE), False),
        (True, SHOP, repository("acme/shop"), True),
        (True, SHOP, {"installation": {"id": ACME}}, True),
        (True, SHOP, {"organization": {"login": "acme"}}, True),
        (False, SHOP, repository("acme/shop", ACME), True),
        (False, SHOP, repository("acme/shop-2"), False),
        (False, SHOP, {"installation": {"id": ACME, "account": {"login": "Acme"}}}, True),
        (False, SHOP, {"installation": {"id": STRANGE, "account": {"login": "stranger"}}}, False),
        (False, SHOP, {"installation": {"id": ACME}}, False),
        (False, ALL_OF_ACME, repository("acme/anything"), True),
        (False, ALL_OF_ACME, repository("acme-2/shop"), False),
        (False, ALL_OF_ACME, {"organization": {"login": "acme"}}, True),
        (False, ALL_OF_ACME, {"account": {"login": "acme"}, "changes": {"login": {"from": "akme"}}}, True),
        (False, ALL_OF_ACME, {"zen": "x"}, False),
        (False, NOTHING, repository("acme/shop", ACME), False),
        (False, NOTHING, {}, False),
        (True, SHOP, {"repository": [], "installation": 5, "organization": "acme", "account": None}, False),
        (False, ALL_OF_ACME, {"repository": {"full_name": {"acme/": 1}, "id": []}}, False),
    ],
)
def test_whose_an_event_is(
    private_key: str,
    app: bool,  # noqa: FBT001 - a parameter of the table
    places: Mapping[str, Any],
    payload: dict[str, Any],
    ours: bool,  # noqa: FBT001 - same
) -> None:
    """An event is ours by its installation, then by its repository or account, and by nothing that is not signed."""
    credential = App(77001, private_key, ACME) if app else HUB_TOKEN
    adapter = GitHub(
        "acme",
        credential=credential,
        webhook_secrets=[],
        kinds=None,
        budget=Spent(),
        validators=lambda _kind, _scope: {},
        api_version="2022-11-28",
        clock=lambda: datetime.now(UTC),
        api_base="http://127.0.0.1:9",
        **places,
    )
    delivery = Delivery({"x-github-hook-installation-target-id": str(ACME)}, b"", datetime.now(UTC))

    assert adapter.addressed(Notification("other", "1", "issues.opened", None, payload), delivery) is ours
