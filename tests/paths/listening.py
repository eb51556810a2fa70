"""A public listener on loopback, before a real database, with Stripe's own adapter behind it."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog
from structlog.testing import LogCapture

from adapters.stripe import Stripe
from reconciler.config.values import Listen
from reconciler.metrics import Metrics
from reconciler.model import Delivery, Named, Notification, ObjectRef
from reconciler.receive import DEFAULTS, Receiver
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import PATIENCE, Site, WebServer
from tests.adapters.spent import Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from structlog.typing import EventDict

    from reconciler.receive import Limits, Reader
    from reconciler.spool import Spool
    from reconciler.store.database import Database
    from reconciler.web.server import Patience

SOURCE = "stripe-eu"
SECRET = "whsec_standin"
API_VERSION = "2026-10-28.endive"
ANYWHERE = Listen("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class Heard:
    """A receiver, its metrics, and the lines it logged."""

    receiver: Receiver
    metrics: Metrics
    lines: list[EventDict]

    def told(self, event: str) -> list[EventDict]:
        """Return the lines of this event."""
        return [line for line in self.lines if line["event"] == event]


@dataclass(frozen=True, slots=True)
class Listening:
    """The same behind a listener at *address*."""

    heard: Heard
    port: int
    heartbeats: Heartbeats
    stop: Callable[[float], None]

    @property
    def url(self) -> str:
        """The beginning of its URLs."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def inbox(self) -> str:
        """The URL that Stripe would be given."""
        return f"{self.url}/webhooks/{SOURCE}"


def stripe(*secrets: str, api_key: str = "sk_test_standin") -> Stripe:
    """Return a Stripe source that would take these secrets, and calls nobody."""
    return Stripe(
        SOURCE,
        api_key=api_key,
        webhook_secrets=secrets or (SECRET,),
        kinds=None,
        budget=Spent(),
        tolerance=timedelta(minutes=5),
        api_version=API_VERSION,
        clock=now,
        api_base="http://127.0.0.1:9",
    )


class Plain:
    """A source without signatures whose bodies say what its notifications hold: what real ones hardly ever send."""

    provider = "shopify"

    def read(self, delivery: Delivery) -> tuple[Notification, ...]:
        """Return one notification for each object of the list in the body."""
        return tuple(
            Notification(
                "plain",
                each.get("event_id", "evt"),
                each.get("event_type", "order.updated"),
                None,
                each,
                named=tuple(
                    Named(ObjectRef("plain", "", "order", id_), datetime.fromisoformat(stamp) if stamp else None)
                    for id_, stamp in each.get("named", {}).items()
                ),
            )
            for each in json.loads(delivery.body)
        )


@contextmanager
def receiving(
    database: Database,
    readers: Mapping[str, Reader] | None = None,
    *,
    limits: Limits = DEFAULTS,
    spool: Spool | None = None,
) -> Iterator[Heard]:
    """Yield a receiver at work."""
    lines = LogCapture()
    log = structlog.wrap_logger(
        structlog.PrintLogger(), processors=[lines], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    metrics = Metrics()
    with Receiver(database, readers or {SOURCE: stripe()}, metrics, log=log, limits=limits, spool=spool) as receiver:
        yield Heard(receiver, metrics, lines.entries)


@contextmanager
def listening(
    database: Database,
    readers: Mapping[str, Reader] | None = None,
    *,
    limits: Limits = DEFAULTS,
    reception: Reception | None = None,
    patience: Patience = PATIENCE,
    connections: int = 1000,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[Listening]:
    """Yield a receiver at work behind a public listener."""
    with receiving(database, readers, limits=limits) as heard:
        heartbeats = Heartbeats(monotonic)
        reception = reception or Reception(max_body=25 * 1024 * 1024)
        app = public_app(heard.receiver, heartbeats, reception=reception, clock=now)
        server = WebServer(Site("web.listen", app, ANYWHERE, connections=connections), patience=patience)
        (address,) = server.start()
        try:
            yield Listening(heard, int(address.rpartition(":")[2]), heartbeats, server.stop)
        finally:
            server.stop(1)


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def held_up(database: Database) -> int:
    """Return how many transactions of this database wait for a table or sequence that another one has locked."""
    statement = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database"
        " WHERE NOT granted AND datname = current_database()"
    )
    return int(rows(database, statement)[0])


def eventually(holds: Callable[[], bool]) -> None:
    """Return once *holds* does; fails if that takes too long."""
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def delivery(body: bytes, headers: Mapping[str, str] | None = None) -> Delivery:
    """Return a delivery of *body*, received now."""
    return Delivery(headers or {}, body, now())


def signature(body: bytes, *, secret: str = SECRET, scheme: str = "v1", moved: float = 0) -> dict[str, str]:
    """Return the header by which Stripe vouches for *body*, signed *moved* seconds from now."""
    at = int(time.time() + moved)
    return {"Stripe-Signature": f"t={at},{scheme}={_hex(body, secret, at)}"}


def two_schemes(body: bytes, pairs: Sequence[str]) -> dict[str, str]:
    """Return a signature header of these pairs; `GOOD` stands for what the secret makes."""
    at = int(time.time())
    good = _hex(body, SECRET, at)
    return {"Stripe-Signature": ",".join((f"t={at}", *(pair.replace("GOOD", good) for pair in pairs)))}


def _hex(body: bytes, secret: str, at: int) -> str:
    return hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256).hexdigest()


def event(number: int = 1, **fields: Any) -> bytes:
    """Return the body of an event about one customer."""
    body = {
        "id": f"evt_{number}",
        "object": "event",
        "type": "customer.updated",
        "created": 1_790_000_000 + number,
        "livemode": False,
        "data": {"object": {"id": f"cus_{number}", "object": "customer", "name": "Grete Ünal"}},
    }
    return json.dumps(body | fields, ensure_ascii=False).encode()


def rows(database: Database, statement: str) -> list[Any]:
    """Return what *statement* shows; a column alone without its row."""
    with database.transaction() as connection:
        found = connection.exec_driver_sql(statement).all()
    return [row[0] if len(row) == 1 else tuple(row) for row in found]


def said(port: int, *parts: bytes, pause: float = 0.0, within: float = 10.0) -> bytes:
    """Send these bytes as they are, one after another, and return all that comes back until the other side closes."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=within)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answered = b""
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            while got := connection.recv(65536):
                answered += got
        except ConnectionError:
            pass
        return answered


def request(path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *, method: str = "POST") -> bytes:
    """Return a request that asks for the connection to be closed; it tells its length unless it is chunked."""
    given = {"Host": "localhost", "Connection": "close", "Content-Length": str(len(body))} | dict(headers or {})
    if "Transfer-Encoding" in given:
        del given["Content-Length"]
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def status(answer: bytes) -> int:
    """Return the status of the first answer."""
    return int(answer.split(b" ", 2)[1])
