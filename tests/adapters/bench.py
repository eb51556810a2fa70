"""
The bench of the contract suite: an adapter, a stand-in of its provider, and what a test does to both.

A new provider is one more class here, and its name in `BENCHES`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from adapters import github, shopify
from adapters.github import GitHub
from adapters.github.rows import Home
from adapters.sandbox import GitHubSandbox, StripeSandbox
from adapters.sandbox.github.bodies import number_of
from adapters.sandbox.shopify import ShopifySandbox
from adapters.shopify import AccessToken, Shopify
from adapters.stripe import KINDS, Stripe
from reconciler import content
from reconciler.model import Delivery
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from reconciler.adapter import Adapter


class Bench(Protocol):
    """
    What the contract suite needs to know of a provider.

    Attributes:
        adapter: Under test, with every kind it knows.
        spent: Its budget.
        secrets: Texts that nobody may be told.
        losses: The faults that take access away, told by an error.
        dated: A delivery's signature covers when it was made.
        eventful: Its hints come from events.
        unfiltered: The kinds whose change feed is a list of everything.
        spare: A field of objects of the first kind that takes any text.
        typed: Objects have the fields of a schema and no others; else that field takes any JSON.
    """

    @property
    def adapter(self) -> Adapter: ...  # noqa: D102 - the attributes are described above

    @property
    def spent(self) -> Spent: ...  # noqa: D102

    @property
    def secrets(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def losses(self) -> tuple[Mapping[str, Any], ...]: ...  # noqa: D102

    @property
    def dated(self) -> bool: ...  # noqa: D102

    @property
    def eventful(self) -> bool: ...  # noqa: D102

    @property
    def unfiltered(self) -> frozenset[str]: ...  # noqa: D102

    @property
    def spare(self) -> str: ...  # noqa: D102

    @property
    def typed(self) -> bool: ...  # noqa: D102

    def scope(self, kind: str) -> str:
        """Return where the objects of a kind live."""

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object at the provider and return its id."""

    def change(self, kind: str, id_: str) -> None:
        """Change an object in a way that the provider announces."""

    def finished(self, kind: str) -> str | None:
        """Create an object that lists hide by default; None where this kind has none."""

    def long(self, kind: str) -> str:
        """Create an object whose sub-list takes pages, 213 parts in all."""

    def faults(self, **faults: Any) -> None:
        """Let the provider do these wrong, and nothing else."""

    def forge(self, body: bytes) -> Delivery:
        """Return an authentic delivery of any bytes."""

    def deliveries(self) -> list[Delivery]:
        """Return what the provider has sent, once nothing is pending."""

    def truth(self, kind: str) -> dict[str, bool]:
        """Return the ids of a kind that ever were, and whether each still exists."""

    def calls(self) -> int:
        """Return how many API calls the provider has seen."""

    def trickling(self, url: str) -> Adapter:
        """Return an adapter of short patience for the provider at *url*."""


class StripeBench:
    """Stripe and its stand-in."""

    losses: tuple[Mapping[str, Any], ...] = ({"lost_access": "401"}, {"lost_access": "403"})
    secrets: tuple[str, ...] = ("sk_test_standinofakey", "whsec_standinofasecret")
    dated = True
    eventful = True
    unfiltered: frozenset[str] = frozenset()
    spare = "odd"
    typed = False

    def __init__(self, seed: int = 7) -> None:
        key, secret, *_ = self.secrets
        self._stack = ExitStack()
        self._inbox = self._stack.enter_context(closing(Inbox()))
        running = self._stack.enter_context(StripeSandbox(seed, api_key=key).serve())
        self._control = self._stack.enter_context(httpx.Client(base_url=f"{running.url}/_control", timeout=30))
        self._put("/webhooks", {"url": self._inbox.url, "secret": secret})
        self.spent = Spent()
        self.adapter: Stripe = self._adapter(running.url, self.spent, (3.05, 20.0))
        self._items: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def scope(self, kind: str) -> str:  # noqa: ARG002 - all live in one
        """Return where the objects of a kind live."""
        return ""

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object at the provider and return its id."""
        if kind == "subscription_item":
            return self._act_on_item(op, id_, **more)
        if kind == "tax_id" and not self.truth("customer"):
            self.act("create", "customer")
        asked = {"op": op, "kind": kind, **({"id": id_} if id_ else {}), **more}
        return str(_told(self._control.post("/objects", content=content.dumps(asked).encode()))["id"])

    def _act_on_item(self, op: str, id_: str, **more: Any) -> str:
        """Do it to the subscription that has the item: only there can it be done."""
        if op == "create":
            id_ = self.act("create", "subscription", **more)
            [told] = [each for each in _told(self._control.get("/objects")) if each["id"] == id_]
            item = str(told["body"]["items"]["data"][0]["id"])
            self._items[item] = id_
            return item
        self.act("change", "subscription", self._items[id_], **({"parts": 0} if op == "delete" else {}), **more)
        return id_

    def change(self, kind: str, id_: str) -> None:
        """Change an object in a way that Stripe announces: of some kinds only some moves are."""
        status = {
            "payment_intent": "processing",
            "setup_intent": "requires_action",
            "checkout_session": "complete",
            "quote": "open",
            "topup": "succeeded",
        }.get(kind)
        self.act("change", kind, id_, **({"body": {"status": status}} if status else {}))

    def finished(self, kind: str) -> str | None:
        """Create an object that lists hide by default; None where this kind has none."""
        hidden = {"price": {"active": False}, "subscription": {"status": "canceled"}}
        return self.act("create", kind, body=hidden[kind]) if kind in hidden else None

    def long(self, kind: str) -> str:
        """Create an object whose sub-list takes pages, 213 parts in all."""
        return self.act("create", kind, parts=213)

    def faults(self, **faults: Any) -> None:
        """Let the provider do these wrong, and nothing else."""
        self._put("/faults", faults)

    def forge(self, body: bytes) -> Delivery:
        """Return an authentic delivery of any bytes."""
        now = datetime.now(UTC)
        signed = b"%d.%b" % (int(now.timestamp()), body)
        digest = hmac.new(self.secrets[1].encode(), signed, hashlib.sha256).hexdigest()
        return Delivery({"stripe-signature": f"t={int(now.timestamp())},v1={digest}"}, body, now)

    def deliveries(self) -> list[Delivery]:
        """Return what the provider has sent, once nothing is pending."""
        assert _told(self._control.post("/flush"))["pending"] == 0
        return list(self._inbox.received)

    def truth(self, kind: str) -> dict[str, bool]:
        """Return the ids of a kind that ever were, and whether each still exists."""
        if kind == "subscription_item":
            told = [each["body"] for each in _told(self._control.get("/objects", params={"kind": "subscription"}))]
            there = {item["id"] for body in told for item in body["items"]["data"]}
            return {id_: id_ in there for id_ in {*self._items, *there}}
        return {each["id"]: not each["deleted"] for each in _told(self._control.get("/objects", params={"kind": kind}))}

    def calls(self) -> int:
        """Return how many API calls the provider has seen."""
        return int(_told(self._control.get("/calls"))["total"])

    def trickling(self, url: str) -> Adapter:
        """Return an adapter of short patience for the provider at *url*."""
        return self._adapter(url, Spent(), (0.3, 0.4))

    def _adapter(self, url: str, spent: Spent, timeout: tuple[float, float]) -> Stripe:
        adapter = Stripe(
            "source",
            api_key=self.secrets[0],
            webhook_secrets=[self.secrets[1]],
            kinds=_STRIPE_KINDS,
            budget=spent,
            tolerance=timedelta(minutes=5),
            api_version="2026-10-28.endive",
            api_base=url,
            timeout=timeout,
            clock=lambda: datetime.now(UTC),
        )
        return self._stack.enter_context(closing(adapter))

    def _put(self, path: str, asked: Mapping[str, Any]) -> None:
        _told(self._control.put(path, json=asked))


class GitHubBench:
    """GitHub and its stand-in: an organization whose repositories are mirrored, in one of which the rest lives."""

    losses: tuple[Mapping[str, Any], ...] = ({"lost_access": "401"}, {"lost_access": "403"})
    secrets: tuple[str, ...] = ("ghp_standinofatoken", "standinofasecret")
    dated = False
    eventful = False
    unfiltered: frozenset[str] = frozenset(
        {"release", "label", "milestone", "review", "commit_comment", "team", "member", "deployment", "branch"}
    )
    spare = "odd"
    typed = False

    def __init__(self, seed: int = 7) -> None:
        token, secret = self.secrets
        self._stack = ExitStack()
        self._inbox = self._stack.enter_context(closing(Inbox()))
        running = self._stack.enter_context(GitHubSandbox(seed, token=token).serve())
        self._control = self._stack.enter_context(httpx.Client(base_url=f"{running.url}/_control", timeout=30))
        self._put("/webhooks", {"url": self._inbox.url, "secret": secret})
        long_ago = int(datetime.now(UTC).timestamp()) - 10**7
        self._scope = self.act("create", "repository", at=long_ago, deliver=False)
        self.spent = Spent()
        self.adapter: GitHub = self._adapter(running.url, self.spent, (3.05, 20.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def scope(self, kind: str) -> str:
        """Return where the objects of a kind live: in no repository, the one that is always there, or its owner."""
        if github.KINDS[kind].home is Home.ORGANIZATION:
            return str(number_of("acme"))
        return self._scope if github.KINDS[kind].home else ""

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object at the provider and return its id."""
        asked = {"op": op, "kind": kind, "scope": self.scope(kind), **({"id": id_} if id_ else {}), **more}
        return str(_told(self._control.post("/objects", content=content.dumps(asked).encode()))["id"])

    def change(self, kind: str, id_: str) -> None:
        """Change an object in a way that GitHub announces."""
        self.act("change", kind, id_)

    def finished(self, kind: str) -> str | None:
        """Create an object that lists hide by default; None where this kind has none."""
        hidden = {"issue", "pull_request", "milestone"}
        return self.act("create", kind, body={"state": "closed"}) if kind in hidden else None

    def long(self, kind: str) -> str:
        """Create an object: none of GitHub's has a sub-list of its own."""
        return self.act("create", kind)

    def faults(self, **faults: Any) -> None:
        """Let the provider do these wrong, and nothing else."""
        self._put("/faults", faults)

    def forge(self, body: bytes) -> Delivery:
        """Return an authentic delivery of any bytes."""
        digest = hmac.new(self.secrets[1].encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/json",
            "x-github-event": "issues",
            "x-github-delivery": "00000000-0000-4000-8000-000000000000",
            "x-github-hook-id": "1",
            "x-hub-signature-256": f"sha256={digest}",
        }
        return Delivery(headers, body, datetime.now(UTC))

    def deliveries(self) -> list[Delivery]:
        """Return what the provider has sent, once nothing is pending."""
        assert _told(self._control.post("/flush"))["pending"] == 0
        return list(self._inbox.received)

    def truth(self, kind: str) -> dict[str, bool]:
        """Return the ids of a kind that ever were, and whether each still exists."""
        return {each["id"]: not each["deleted"] for each in _told(self._control.get("/objects", params={"kind": kind}))}

    def calls(self) -> int:
        """Return how many API calls the provider has seen."""
        return int(_told(self._control.get("/calls"))["total"])

    def trickling(self, url: str) -> Adapter:
        """Return an adapter of short patience for the provider at *url*."""
        return self._adapter(url, Spent(), (0.3, 0.4))

    def _adapter(self, url: str, spent: Spent, timeout: tuple[float, float]) -> GitHub:
        adapter = GitHub(
            "source",
            credential=self.secrets[0],
            repositories=[],
            organizations=["acme"],
            webhook_secrets=[self.secrets[1]],
            kinds=tuple(github.KINDS),
            budget=spent,
            validators=lambda _kind, _scope: {},
            api_version="2022-11-28",
            api_base=url,
            timeout=timeout,
            clock=lambda: datetime.now(UTC),
        )
        return self._stack.enter_context(closing(adapter))

    def _put(self, path: str, asked: Mapping[str, Any]) -> None:
        _told(self._control.put(path, json=asked))


class ShopifyBench:
    """Shopify and its stand-in: one shop, that no app was told to keep from anything."""

    losses: tuple[Mapping[str, Any], ...] = ({"lost_access": "401"}, {"lost_access": "403"})
    secrets: tuple[str, ...] = ("shpat_standinofatoken", "shpss_standinofasecret")
    dated = False
    eventful = False
    unfiltered: frozenset[str] = frozenset({"location", "shop"})
    spare = "note"
    typed = True

    def __init__(self, seed: int = 7) -> None:
        token, secret = self.secrets
        self._stack = ExitStack()
        self._inbox = self._stack.enter_context(closing(Inbox()))
        running = self._stack.enter_context(ShopifySandbox(seed, access_token=token).serve())
        self._control = self._stack.enter_context(httpx.Client(base_url=f"{running.url}/_control", timeout=30))
        self._put("/webhooks", {"url": self._inbox.url, "secret": secret})
        self.spent = Spent()
        self.adapter: Shopify = self._adapter(running.url, self.spent, (3.05, 20.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def scope(self, kind: str) -> str:  # noqa: ARG002 - all live in one
        """Return where the objects of a kind live."""
        return ""

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object at the provider and return its id; there is always one shop."""
        if (op, kind) == ("create", "shop"):
            [only] = self.truth("shop")
            return only
        asked = {"op": op, "kind": kind, **({"id": id_} if id_ else {}), **more}
        return str(_told(self._control.post("/objects", content=content.dumps(asked).encode()))["id"])

    def change(self, kind: str, id_: str) -> None:
        """Change an object in a way that Shopify announces."""
        self.act("change", kind, id_)

    def finished(self, kind: str) -> str | None:
        """Create an object that lists of the older API hide by default; None where this kind has none."""
        hidden: Mapping[str, Any] = {
            "order": {"closed": True},
            "product": {"status": "ARCHIVED"},
            "draft_order": {"status": "COMPLETED"},
            "fulfillment_order": {"status": "CLOSED"},
            "inventory_level": {"isActive": False},
            "location": {"isActive": False},
        }
        return self.act("create", kind, body=hidden[kind]) if kind in hidden else None

    def long(self, kind: str) -> str:
        """Create an object whose own list takes pages, 213 parts in all."""
        return self.act("create", kind, parts=213)

    def faults(self, **faults: Any) -> None:
        """Let the provider do these wrong, and nothing else."""
        self._put("/faults", faults)

    def forge(self, body: bytes) -> Delivery:
        """Return an authentic delivery of any bytes."""
        digest = hmac.digest(self.secrets[1].encode(), body, hashlib.sha256)
        headers = {
            "x-shopify-hmac-sha256": base64.b64encode(digest).decode(),
            "x-shopify-topic": "orders/updated",
            "x-shopify-webhook-id": "00000000-0000-4000-8000-000000000000",
        }
        return Delivery(headers, body, datetime.now(UTC))

    def deliveries(self) -> list[Delivery]:
        """Return what the provider has sent, once nothing is pending."""
        assert _told(self._control.post("/flush"))["pending"] == 0
        return list(self._inbox.received)

    def truth(self, kind: str) -> dict[str, bool]:
        """Return the ids of a kind that ever were, and whether each still exists."""
        return {each["id"]: not each["deleted"] for each in _told(self._control.get("/objects", params={"kind": kind}))}

    def calls(self) -> int:
        """Return how many API calls the provider has seen."""
        return int(_told(self._control.get("/calls"))["total"])

    def trickling(self, url: str) -> Adapter:
        """Return an adapter of short patience for the provider at *url*."""
        return self._adapter(url, Spent(), (0.3, 0.4))

    def _adapter(self, url: str, spent: Spent, timeout: tuple[float, float]) -> Shopify:
        adapter = Shopify(
            "source",
            shop="standin.myshopify.com",
            credential=AccessToken(self.secrets[0]),
            webhook_secrets=[self.secrets[1]],
            kinds=tuple(shopify.KINDS),
            budget=spent,
            api_version="2026-10",
            api_base=url,
            timeout=timeout,
            clock=lambda: datetime.now(UTC),
        )
        return self._stack.enter_context(closing(adapter))

    def _put(self, path: str, asked: Mapping[str, Any]) -> None:
        _told(self._control.put(path, json=asked))


BENCHES: Mapping[str, Callable[[], AbstractContextManager[Bench]]] = {
    "stripe": StripeBench,
    "github": GitHubBench,
    "shopify": ShopifyBench,
}
"""Every provider that the contract suite is run for."""

_STRIPE_KINDS = tuple(kind for kind in KINDS if kind != "account")
"""An account is a scope, of which it is the only object: it has tests of its own."""

EVERY_KIND = [
    (provider, kind)
    for provider, kinds in {"stripe": _STRIPE_KINDS, "github": github.KINDS, "shopify": shopify.KINDS}.items()
    for kind in kinds
]
"""Every kind of every provider."""

_DECLARED = {
    "stripe": {name: row.kind for name, row in KINDS.items()},
    "github": {name: row.kind for name, row in github.KINDS.items()},
    "shopify": {name: row.kind for name, row in shopify.KINDS.items()},
}

CORE_KINDS = [(provider, name) for provider, kinds in _DECLARED.items() for name, kind in kinds.items() if kind.core]
"""Those that are mirrored where nobody says which: looked at one by one, the others of a provider all at once."""

KINDS_WITH_PARTS = [
    ("stripe", "invoice"),
    ("stripe", "subscription"),
    ("shopify", "order"),
    ("shopify", "product"),
    ("shopify", "refund"),
    ("shopify", "fulfillment"),
    ("shopify", "fulfillment_order"),
    ("shopify", "draft_order"),
]
"""Those whose objects hold a list of their own."""

KINDS_NEVER_DELETED = [
    ("stripe", "charge"),
    ("stripe", "refund"),
    *(("stripe", kind) for kind in ("dispute", "mandate", "balance_transaction", "transfer", "application_fee")),
    ("github", "pull_request"),
    *(("github", kind) for kind in ("review", "workflow_job", "check_suite", "check_run", "deployment_status")),
    ("shopify", "refund"),
    ("shopify", "fulfillment"),
    ("shopify", "fulfillment_order"),
    ("shopify", "shop"),
]
"""Those whose objects cannot be deleted, canceled or deactivated when they are new."""


KINDS_ALONE = [("shopify", "shop")]
"""Those of which there is one, always."""

KINDS_UNTOLD: Mapping[tuple[str, str], frozenset[str]] = {
    ("stripe", "balance_transaction"): frozenset({"delivered", "changed"}),
    ("stripe", "file"): frozenset({"changed"}),
    ("stripe", "invoiceitem"): frozenset({"changed"}),
    ("stripe", "mandate"): frozenset({"made"}),
    ("github", "workflow_run"): frozenset({"changed"}),
    **{
        ("github", kind): frozenset({"made", "changed"})
        for kind in ("workflow_job", "check_suite", "check_run", "deployment_status")
    },
}
"""Those of which no event tells everything: nothing at all, or not that one was made, or not that one was changed."""

KINDS_TOLD_BARELY = [
    ("shopify", "fulfillment_order"),
    *(("github", kind) for kind in ("commit_comment", "check_suite", "deployment", "deployment_status")),
]
"""Those that are stamped, and whose deliveries do not tell the stamp, or not that of each change."""


@dataclass(slots=True)
class Inbox:
    """
    Takes webhooks.

    Attributes:
        received: In the order they came.
    """

    received: list[Delivery] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.append(Delivery(headers, body, datetime.now(UTC)))
                self.send_response_only(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    _server: ThreadingHTTPServer = field(init=False)
    _thread: threading.Thread = field(init=False)

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _told(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return content.parse(answer.content)
