"""
The bench of the contract suite: an adapter, a stand-in of its provider, and what a test does to both.

A new provider is one more class here, and its name in `BENCHES`.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from adapters.sandbox import StripeSandbox
from adapters.stripe import KINDS, Stripe
from reconciler import content
from reconciler.model import Delivery
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    """

    @property
    def adapter(self) -> Adapter: ...  # noqa: D102 - the attributes are described above

    @property
    def spent(self) -> Spent: ...  # noqa: D102

    @property
    def secrets(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def losses(self) -> tuple[Mapping[str, Any], ...]: ...  # noqa: D102

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

    def __init__(self, seed: int = 7) -> None:
        key, secret, *_ = self.secrets
        self._stack = ExitStack()
        self._inbox = self._stack.enter_context(closing(Inbox()))
        running = self._stack.enter_context(StripeSandbox(seed, api_key=key).serve())
        self._control = self._stack.enter_context(httpx.Client(base_url=f"{running.url}/_control", timeout=30))
        self._put("/webhooks", {"url": self._inbox.url, "secret": secret})
        self.spent = Spent()
        self.adapter: Stripe = self._adapter(running.url, self.spent, (3.05, 20.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object at the provider and return its id."""
        asked = {"op": op, "kind": kind, **({"id": id_} if id_ else {}), **more}
        return str(_told(self._control.post("/objects", content=content.dumps(asked).encode()))["id"])

    def change(self, kind: str, id_: str) -> None:
        """Change an object in a way that Stripe announces: of payment intents only some moves are."""
        self.act("change", kind, id_, **({"body": {"status": "processing"}} if kind == "payment_intent" else {}))

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
            kinds=tuple(KINDS),
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


BENCHES = {"stripe": StripeBench}
"""Every provider that the contract suite is run for."""

EVERY_KIND = [(provider, kind) for provider, kinds in {"stripe": KINDS}.items() for kind in kinds]
"""Every kind of every provider."""

KINDS_WITH_PARTS = [("stripe", "invoice"), ("stripe", "subscription")]
"""Those whose objects hold a list of their own."""

KINDS_NEVER_DELETED = [("stripe", "charge"), ("stripe", "refund")]
"""Those whose objects cannot be deleted, canceled or deactivated when they are new."""


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
