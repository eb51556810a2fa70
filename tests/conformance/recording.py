"""A way round to a stand-in on which everything that is asked and answered is kept."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from reconciler.errors import SourceRefused
from reconciler.model import ObjectRef
from tests.adapters.bench import KINDS_WITH_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.adapter import Adapter
    from tests.adapters.bench import GitHubBench, ShopifyBench, StripeBench

_HOOK = "https://hooks.example.com/webhooks/source"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    method: str
    path: str
    asked: bytes
    status: int
    answer: bytes


@dataclass(slots=True)
class Tape:
    """
    What passed a way round to a provider.

    Attributes:
        url: Where the way begins.
        exchanges: In the order they ended.
    """

    to: str
    url: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    _client: httpx.Client = field(init=False)
    _server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        kept, to = self.exchanges, self.to
        self._client = client = httpx.Client(base_url=to, timeout=30)

        class Handler(BaseHTTPRequestHandler):
            def _pass(self) -> None:
                asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                # The provider writes addresses as it is called: it has to be called as the caller calls us.
                headers = [(name, value) for name, value in self.headers.items() if name.lower() != "connection"]
                answer = client.request(self.command, self.path, content=asked, headers=headers)
                kept.append(Exchange(self.command, urlsplit(self.path).path, asked, answer.status_code, answer.content))
                self.send_response_only(answer.status_code)
                for name, value in answer.headers.items():
                    if name not in {"content-length", "transfer-encoding", "content-encoding", "connection"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _pass  # noqa: N815 - the names of the base class

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Let nothing pass any more."""
        self._server.shutdown()
        self._server.server_close()
        self._client.close()


@dataclass(slots=True)
class Exercised:
    """
    A provider of which every kind was read in every way.

    Attributes:
        fetched: A whole object of each kind.
        exchanges: All that was asked and answered for it.
    """

    adapter: Adapter
    exchanges: list[Exchange]
    fetched: dict[str, Any] = field(default_factory=dict)


@contextmanager
def exercised(make: type[GitHubBench | ShopifyBench | StripeBench]) -> Iterator[Exercised]:
    """Yield a provider whose every kind was created, fetched, listed and crawled, over a way that keeps it all."""
    with ExitStack() as stack:
        bench: GitHubBench | ShopifyBench | StripeBench = make()
        stack.enter_context(bench)
        tape = stack.enter_context(
            closing(Tape(str(bench._control.base_url).removesuffix("/").removesuffix("/_control")))
        )
        adapter = bench._adapter(tape.url, bench.spent, (3.05, 20.0))
        done = Exercised(adapter, tape.exchanges)
        for kind in adapter.kinds:
            ids = [id_ for id_, stands in bench.truth(kind).items() if stands][:1] or [bench.act("create", kind)]
            ids += [bench.long(kind)] if (adapter.provider, kind) in KINDS_WITH_PARTS else []
            for id_ in ids:
                done.fetched.setdefault(kind, adapter.fetch(ObjectRef("source", bench.scope(kind), kind, id_)).body)
        since = datetime.now(UTC) - timedelta(hours=1)
        for kind in adapter.kinds:
            for scope in adapter.scopes(kind):
                assert list(adapter.changed_since(kind, scope, since)) is not None
                assert list(adapter.crawl(kind, scope)) is not None
        adapter.identity()
        for subscription in adapter.subscriptions([_HOOK]):
            # A stand-in may not send all that its provider does.
            with suppress(SourceRefused):
                adapter.mend_subscription(subscription, _HOOK, secret="secretofastandin")
        assert list(adapter.failed_deliveries([_HOOK], since)) is not None
        yield done
