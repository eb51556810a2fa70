"""The whole path of any provider: its stand-in sends to our listener, and what runs behind reads from it, over HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from adapters.sandbox.clock import Clock
from adapters.sandbox.faults import faults_from
from adapters.sandbox.github import GitHubSandbox
from adapters.sandbox.operations import operation_from
from adapters.sandbox.serving import Running
from adapters.sandbox.shopify import ShopifySandbox
from adapters.sandbox.stripe import StripeSandbox
from reconciler import config, content
from reconciler.bootstrap import program
from reconciler.config.values import Listen
from reconciler.model import Delivery, ObjectRef
from reconciler.store import pauses, refetches, runs, statements, story
from reconciler.sweep import Asked
from reconciler.times import Last
from reconciler.web.public import Heartbeats, Reception, public_app
from reconciler.web.server import PATIENCE, Site, WebServer
from tests.adapters.bench import Inbox
from tests.paths.draining import Ticks
from tests.paths.sweeping import Swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import Row

    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.operations import Operation
    from reconciler.adapter import Adapter
    from reconciler.bootstrap import Program
    from reconciler.model import Body

    MakeCase = Callable[..., "Case"]

EVERY = ("stripe", "github", "shopify")
FIRST = {"stripe": "customer", "github": "issue", "shopify": "order"}
"""A kind of each provider that shows its habits."""

DOMAIN = "standin.myshopify.com"
HOOK = "30001"
SECRET = "secretofastandin"
_CREDENTIALS = {"stripe": "sk_test_standinofakey", "github": "ghp_standinofatoken", "shopify": "shpat_standinofatoken"}
_NAMES = {"stripe": "stripe-eu", "github": "github-acme", "shopify": "shop-berlin"}
_ACCESS = {
    "stripe": 'api_key = "env:CREDENTIAL"',
    "github": 'token = "env:CREDENTIAL"\nrepositories = ["acme/shop"]',
    "shopify": f'shop = "{DOMAIN}"\naccess_token = "env:CREDENTIAL"',
}
_SENT_ANEW = {"host", "content-length", "connection", "accept-encoding", "transfer-encoding"}

_CONFIG = """
state_directory = "{state}"
[database]
url = "env:DATABASE_URL"
[drain]
workers = 2
poll = "50ms"
absence_recheck = "300ms"
read_lag = "200ms"
rewound_after = "1s"
attempts = 3
[schedule]
in_flight = "0s"
overlap = "2s"
light_every = "off"
[[sources]]
name = "{name}"
provider = "{provider}"
{access}
webhook_secrets = {secrets}
calls_per_second = 5000
api_base = "{url}"
{more}
"""


class Sandbox(Protocol):
    """What every stand-in can do."""

    machinery: Machinery

    @property
    def app(self) -> Any: ...  # noqa: D102 - as it says

    def operate(self, operation: Operation) -> Body: ...  # noqa: D102 - as it says

    def truth(self, *, kind: str | None = None, scope: str | None = None) -> list[Body]: ...  # noqa: D102 - same

    def close(self) -> None: ...  # noqa: D102 - same


def _stripe(clock: Clock, **given: Any) -> Sandbox:
    return StripeSandbox(7, api_key=_CREDENTIALS["stripe"], clock=clock, **given)


def _github(clock: Clock, **given: Any) -> Sandbox:
    return GitHubSandbox(7, token=_CREDENTIALS["github"], clock=clock, repositories=["acme/shop"], **given)


def _shopify(clock: Clock, **given: Any) -> Sandbox:
    return ShopifySandbox(7, access_token=_CREDENTIALS["shopify"], client_secret=SECRET, clock=clock, **given)


_SANDBOXES: Mapping[str, Callable[..., Sandbox]] = {"stripe": _stripe, "github": _github, "shopify": _shopify}


@dataclass(slots=True)
class Case:
    """
    One provider, the program that mirrors it, and what both say happened.

    Attributes:
        clock: The provider's.
        inbox: Where we take its deliveries.
        scope: Where its objects live, repositories apart.
        lines: What was logged.
        file: The configuration, for command lines.
    """

    provider: str
    sandbox: Sandbox
    clock: Clock
    url: str
    program: Program
    inbox: str
    environment: Mapping[str, str]
    file: Path
    scope: str = ""
    lines: Sequence[Mapping[str, Any]] = ()
    _ticks: Ticks = field(default_factory=Ticks)
    _http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    # --- the provider ---

    @property
    def source(self) -> str:
        """The name of our source."""
        return _NAMES[self.provider]

    @property
    def adapter(self) -> Adapter:
        """What speaks for it."""
        return self.program.adapters[self.source]

    def act(self, op: str, kind: str, id_: str = "", **more: Any) -> str:
        """Create, change, delete or recreate an object at the provider, which tells of it, and return its id."""
        scope = {} if kind == "repository" or not self.scope else {"scope": self.scope}
        asked = {"op": op, "kind": kind, **scope, **({"id": id_} if id_ else {}), **more}
        return str(self.sandbox.operate(operation_from(asked))["id"])

    def withheld(self, op: str, kind: str, id_: str = "", **more: Any) -> tuple[str, list[Delivery]]:
        """Let something happen, but keep what is sent of it from us; return the object's id and that."""
        with closing(Inbox()) as kept:
            before = self._send_to(kept.url)
            try:
                made = self.act(op, kind, id_, **more)
                self.flush()
            finally:
                self.sandbox.machinery.deliveries.endpoints = before
            return made, list(kept.received)

    def flush(self) -> None:
        """Return once the provider has nothing on its way."""
        assert self.sandbox.machinery.deliveries.flush(10) == 0

    def faults(self, **asked: Any) -> None:
        """Let the provider do these wrong, and nothing else."""
        self.sandbox.machinery.mischief.faults = faults_from(asked)

    def stale(self) -> None:
        """Let every read show the world as it was before now, until other faults are set."""
        self.leap()
        self.faults(stale_reads=1, stale_for=50)

    def leap(self) -> None:
        """Let what happened so far lie further back than a stale read looks."""
        self._ticks.leapt += 100

    def control(self, method: str, route: str, asked: object = None) -> Any:
        """Ask something of the control routes."""
        answer = self._http.request(method, f"{self.url}/_control{route}", json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def calls(self) -> list[str]:
        """Return the operations of all calls that the provider has seen."""
        return [each["operation"] for each in self.sandbox.machinery.calls.summary(100_000)["last"]]

    def _send_to(self, url: str) -> Any:
        """Send what happens from now on there, and return where it went before."""
        deliveries = self.sandbox.machinery.deliveries
        before = deliveries.endpoints
        self.control("PUT", "/webhooks", {"id": HOOK, "url": url, "secret": SECRET})
        return before

    # --- deliveries ---

    def post(self, *deliveries: Delivery) -> list[httpx.Response]:
        """Send these to us, byte by byte as they are, one after another."""
        return [
            self._http.post(
                self.inbox,
                content=each.body,
                headers={name: value for name, value in each.headers.items() if name.lower() not in _SENT_ANEW},
            )
            for each in deliveries
        ]

    def say(self, body: Body | bytes, *, secret: str = SECRET, **headers: str) -> httpx.Response:
        """Send us an authentic delivery of any body; names of headers are short, with `_` for `-`."""
        [answer] = self.post(self.signed(body, secret=secret, **headers))
        return answer

    def signed(self, body: Body | bytes, *, secret: str = SECRET, **headers: str) -> Delivery:
        """Return what `say` sends."""
        raw = body if isinstance(body, bytes) else content.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Delivery(_SIGNED[self.provider](raw, secret, named), raw, datetime.now(UTC))

    # --- the program ---

    def work(self, holds: Callable[[], bool], *, within: float = 15.0) -> None:
        """Work off what is wanted until *holds*, and fail if it takes longer."""
        end = time.monotonic() + within
        while not holds():
            assert time.monotonic() < end, "it took too long"
            if not self.program.drain.turn():
                time.sleep(0.01)

    def quiet(self, *, within: float = 15.0) -> None:
        """Return once nothing is on its way to us and nothing is to be read within a minute."""
        self.flush()
        self.work(lambda: not self.pending(), within=within)

    def pending(self) -> int:
        """Return how many objects are to be read within a minute, dead letters left out."""
        [(count,)] = self.rows(
            "SELECT count(*) FROM refetches WHERE dead_at IS NULL"
            " AND (wanted > done OR again_at < clock_timestamp() + interval '1 minute')"
        )
        return int(count)

    def hasten(self) -> None:
        """Let everything that waits for its back-off, its pause or its budget be due now."""
        self.edit("UPDATE refetches SET due_at = clock_timestamp() WHERE dead_at IS NULL AND wanted > done")
        self.edit("UPDATE pauses SET until = clock_timestamp()")
        self.edit("UPDATE budgets SET held_until = NULL")

    def want(self, kind: str, *ids: str) -> None:
        """Want these objects as the trigger does."""
        for id_ in ids:
            self.program.want(self.ref(kind, id_))

    def sweep(self, *kinds: str, **asked: Any) -> Swept:
        """Carry out a run of these kinds (of all, if none is named) and return what it came to."""
        given: dict[str, Any] = {"trigger": "cli", "since": Last.LAST, "kinds": kinds}
        sweep = self.program.sweep
        run_id = sweep.begin(Asked(**(given | asked)))
        state = sweep.execute(run_id)
        with self.program.database.transaction() as connection:
            report = story.run_report(connection, run_id)
        assert report is not None
        of_scope = {each["kind"]: each for each in report["kinds"] if each["scope"] in {"", self.scope}}
        return Swept(state, report, of_scope)

    # --- the mirror ---

    def ref(self, kind: str, id_: str) -> ObjectRef:
        """Return where an object lives."""
        return ObjectRef(self.source, "" if kind == "repository" else self.scope, kind, id_)

    def row(self, kind: str, id_: str) -> Row[Any] | None:
        """Return our row."""
        with self.program.database.transaction() as connection:
            return statements.row(connection, "object", refetches.key(self.ref(kind, id_)))

    def stands(self, kind: str, id_: str) -> bool | None:
        """Say whether our row is alive; False: a tombstone, None: there is none."""
        row = self.row(kind, id_)
        return None if row is None else row.deleted_at is None

    def body(self, kind: str, id_: str) -> Body:
        """Return what our row shows."""
        row = self.row(kind, id_)
        assert row is not None
        shown: Body = content.parse(row.body)
        return shown

    def stamp(self, kind: str, id_: str) -> datetime:
        """Return the stamp of our row."""
        row = self.row(kind, id_)
        assert row is not None
        stamp: datetime = row.source_updated_at
        return stamp

    def wrong(self, *kinds: str) -> list[str]:
        """Return the objects of these kinds that our rows do not show as the provider does now."""
        found = []
        for kind in kinds:
            form = self.program.mirror.of(self.source, kind).form
            truth = {each["id"]: each for each in self.sandbox.truth(kind=kind)}
            ours = {id_ for (id_,) in self.rows("SELECT id FROM objects WHERE kind = %s", kind)}
            for id_ in sorted(truth.keys() | ours):
                gone = truth.get(id_, {"deleted": True})["deleted"]
                row = self.row(kind, id_)
                if gone or row is None or row.deleted_at is not None:
                    right = bool(gone) and not self.stands(kind, id_)
                else:
                    shown = self.adapter.fetch(self.ref(kind, id_)).body
                    right = shown is not None and form.digest(form.stored(shown)) == row.digest
                found += [] if right else [f"{kind} {id_}"]
        return found

    def history(self, kind: str, id_: str) -> list[str]:
        """Return what was applied to our row, oldest first."""
        return [
            what
            for (what,) in self.rows(
                "SELECT what FROM object_history WHERE kind = %s AND id = %s ORDER BY seq", kind, id_
            )
        ]

    def outcomes(self) -> list[str | None]:
        """Return what became of each event, oldest first."""
        return [
            outcome for (outcome,) in self.rows("SELECT outcome FROM webhook_events ORDER BY received_at, event_id")
        ]

    def declined(self) -> list[tuple[str, str, str]]:
        """Return kind, id and way of every write that was declined."""
        return self.rows("SELECT kind, id, via FROM declined_writes WHERE verdict = 'declined' ORDER BY seq")

    def pauses(self) -> list[tuple[str, str]]:
        """Return the scope of each pause, and what it is about."""
        with self.program.database.transaction() as connection:
            return [(each.scope, each.what) for each in pauses.standing(connection)]

    def watermark(self, kind: str) -> datetime | None:
        """Return up to when a kind is swept."""
        with self.program.database.transaction() as connection:
            return runs.watermarks(connection, self.source).get(("" if kind == "repository" else self.scope, kind))

    def rows(self, statement: str, *parameters: Any) -> list[Any]:
        """Return what a statement shows."""
        with self.program.database.transaction() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement, parameters).all()]

    def edit(self, statement: str, *parameters: Any) -> None:
        """Do something to the database by hand."""
        with self.program.database.transaction() as connection:
            connection.exec_driver_sql(statement, parameters)

    def logged(self, event: str) -> list[Mapping[str, Any]]:
        """Return the lines of one event."""
        return [line for line in self.lines if line["event"] == event]


def ago(seconds: float) -> int:
    """Return the second so long ago, as the stand-ins take it."""
    return int(time.time() - seconds)


def at(second: int) -> datetime:
    """Return the instant of a second."""
    return datetime.fromtimestamp(second, UTC)


@contextmanager
def case_on(
    url: str,
    folder: Path,
    provider: str,
    *,
    secrets: Sequence[str] = (SECRET,),
    more: str = "",
    api_base: str | None = None,
    **sandbox: Any,
) -> Iterator[Case]:
    """
    Yield a provider that sends to us, and the program that mirrors it in the database at *url*.

    *more* are lines of the source's configuration; *api_base* is another provider to read from.
    """
    ticks = Ticks()
    clock = Clock(ticks=ticks)
    made = _SANDBOXES[provider](clock, **sandbox)
    environment = {"DATABASE_URL": url, "CREDENTIAL": _CREDENTIALS[provider]}
    environment |= {f"SECRET_{number}": each for number, each in enumerate(secrets)}
    file = folder / f"{provider}.toml"
    with ExitStack() as stack:
        running = Running(made)
        told = _CONFIG.format(
            state=folder,
            name=_NAMES[provider],
            provider=provider,
            access=_ACCESS[provider],
            secrets=[f"env:SECRET_{number}" for number, _ in enumerate(secrets)],
            url=api_base or running.url,
            more=more,
        )
        file.write_text(told)
        behind = stack.enter_context(program(config.load(file, environment)))
        stack.enter_context(behind.receiver)
        address, stop = _listening(behind)
        case = Case(
            provider,
            made,
            clock,
            running.url,
            behind,
            f"http://{address}/webhooks/{_NAMES[provider]}",
            environment,
            file,
            scope=_scope(made) if provider == "github" else "",
            _ticks=ticks,
        )
        stack.callback(_end, case._http.close, running.close, stop)
        case._send_to(case.inbox)
        yield case


def _listening(behind: Program) -> tuple[str, Callable[[], None]]:
    """Return where deliveries are taken from now on, and what ends that."""
    app = public_app(
        behind.receiver,
        Heartbeats(),
        reception=Reception(max_body=behind.settings.web.max_body),
        clock=lambda: datetime.now(UTC),
    )
    server = WebServer(Site("web.listen", app, Listen("127.0.0.1", 0), connections=100), patience=PATIENCE)
    (address,) = server.start()
    return address, partial(server.stop, 1)


def _end(*ends: Callable[[], None]) -> None:
    """Call these together: each waits for a while."""
    with ThreadPoolExecutor(len(ends)) as pool:
        for ended in [pool.submit(each) for each in ends]:
            ended.result()


def _scope(sandbox: Sandbox) -> str:
    """Return the number of the one repository there is."""
    [shop] = sandbox.truth(kind="repository")
    return str(shop["id"])


def _signed_by_stripe(raw: bytes, secret: str, named: Mapping[str, str]) -> Mapping[str, str]:
    when = int(time.time())
    digest = hmac.new(secret.encode(), b"%d.%b" % (when, raw), hashlib.sha256).hexdigest()
    return {"stripe-signature": f"t={when},v1={digest}", **named}


def _signed_by_github(raw: bytes, secret: str, named: Mapping[str, str]) -> Mapping[str, str]:
    told = {"event": "issues", "delivery": str(uuid.uuid4()), "hook-id": HOOK}
    digest = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return {
        "content-type": named.get("content-type", "application/json"),
        "x-hub-signature-256": f"sha256={digest}",
        **{f"x-github-{name}": named.get(name, value) for name, value in told.items()},
    }


def _signed_by_shopify(raw: bytes, secret: str, named: Mapping[str, str]) -> Mapping[str, str]:
    told = {"topic": "orders/updated", "webhook-id": str(uuid.uuid4()), "shop-domain": DOMAIN, **named}
    digest = base64.b64encode(hmac.digest(secret.encode(), raw, "sha256")).decode()
    return {"x-shopify-hmac-sha256": digest, **{f"x-shopify-{name}": value for name, value in told.items() if value}}


_SIGNED: Mapping[str, Callable[[bytes, str, Mapping[str, str]], Mapping[str, str]]] = {
    "stripe": _signed_by_stripe,
    "github": _signed_by_github,
    "shopify": _signed_by_shopify,
}
