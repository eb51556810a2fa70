"""A drain at work: Stripe's stand-in behind HTTP, Stripe's own adapter, and a database, with nothing in between."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from adapters.sandbox.clock import Clock
from adapters.sandbox.faults import faults_from
from adapters.sandbox.operations import operation_from
from adapters.sandbox.stripe import StripeSandbox
from adapters.stripe import Stripe
from reconciler import content
from reconciler.accounts import Pinned
from reconciler.adapter import Limit
from reconciler.budgets import Budgets
from reconciler.config.settings import DrainSettings
from reconciler.drain import Drain
from reconciler.metrics import Metrics
from reconciler.model import Delivery, ObjectRef
from reconciler.store import events, mirror, pauses, refetches, statements, story
from reconciler.store.events import Arrival
from reconciler.store.mirror import Mirror, Rules
from reconciler.store.shares import ShareStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from sqlalchemy import Row

    from reconciler.adapter import Adapter
    from reconciler.model import Body, Snapshot
    from reconciler.store.database import Database

SOURCE = "stripe-eu"
SECRET = "whsec_standin"
KEY = "sk_test_standinofakey"
API_VERSION = "2026-10-28.endive"
PLENTY = (Limit("calls", 5000, 5000),)
FETCH = "GET /v1/{}s/{{id}}"

LEASE = timedelta(seconds=30)
READ_LAG = timedelta(seconds=0.5)
ABSENCE_RECHECK = timedelta(seconds=0.4)
REWOUND_AFTER = timedelta(seconds=0.8)


def settings(**changed: Any) -> DrainSettings:
    """Return how refetches are worked off in a hurry."""
    hasty: dict[str, Any] = {
        "workers": 4,
        "lease": LEASE,
        "poll": timedelta(seconds=0.05),
        "read_lag": READ_LAG,
        "absence_recheck": ABSENCE_RECHECK,
        "rewound_after": REWOUND_AFTER,
    }
    return DrainSettings(**(hasty | changed))


def customer(id_: str, kind: str = "customer") -> ObjectRef:
    """Return where an object of the account itself lives."""
    return ObjectRef(SOURCE, "", kind, id_)


def until(holds: Callable[[], bool], *, within: float = 10.0) -> None:
    """Return once *holds*, and fail if it takes longer."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


class Hands:
    """A provider's clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = float(int(time.time()))

    def __call__(self) -> float:
        """Return the seconds since 1970."""
        return self.now


class Ticks:
    """
    What orders things inside the provider: real time, with leaps.

    Attributes:
        leapt: Seconds that passed in leaps; a stale read may look back over one.
    """

    def __init__(self) -> None:
        self.leapt = 0.0

    def __call__(self) -> float:
        """Return seconds that never step back."""
        return time.monotonic() + self.leapt


class Watched:
    """
    An adapter that keeps count of its fetches and lets a test step in between.

    Attributes:
        before: Called with the ref before a fetch asks the provider.
        after: Called with what was read before it is handed on.
        at_once: The most fetches of one object that ever went on together.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._lock = threading.Lock()
        self._going: Counter[ObjectRef] = Counter()
        self.before: Callable[[ObjectRef], object] = lambda _: None
        self.after: Callable[[Snapshot], object] = lambda _: None
        self.at_once = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    @property
    def behind(self) -> Adapter:
        """The adapter itself."""
        return self._adapter

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """Fetch as the adapter does."""
        with self._lock:
            self._going[ref] += 1
            self.at_once = max(self.at_once, self._going[ref])
        try:
            self.before(ref)
            snapshot = self._adapter.fetch(ref, locator=locator)
            self.after(snapshot)
            return snapshot
        finally:
            with self._lock:
                self._going[ref] -= 1


@dataclass(slots=True)
class Side:
    """
    What one process works with.

    Attributes:
        stripe: The adapter itself, watched.
    """

    database: Database
    stripe: Watched
    adapter: Adapter
    mirror: Mirror
    budgets: Budgets
    metrics: Metrics
    drain: Drain

    def work(self, holds: Callable[[], bool], *, within: float = 10.0) -> None:
        """Work in this thread until *holds*, and fail if it takes longer."""
        end = time.monotonic() + within
        while not holds():
            assert time.monotonic() < end, "it took too long"
            if not self.drain.turn():
                time.sleep(0.01)

    @contextmanager
    def running(self) -> Iterator[threading.Event]:
        """Let the drain's own threads work while the block runs; a thread that failed fails the test."""
        stop = threading.Event()
        self.drain.start(stop)
        try:
            yield stop
        finally:
            stop.set()
            ended = self.drain.join(10)
        assert ended
        assert self.drain.failure is None


@contextmanager
def side(
    database: Database,
    url: str,
    *,
    timeout: tuple[float, float] = (2.0, 5.0),
    limits: Sequence[Limit] = PLENTY,
    listen_url: str | None = None,
    in_flight: timedelta = timedelta(minutes=5),
    **changed: Any,
) -> Iterator[Side]:
    """Yield a process's drain for the provider at *url*; what else is given changes its settings."""
    chosen, metrics = settings(**changed), Metrics()
    budgets = Budgets(database, {SOURCE: limits}, metrics)
    adapter = Stripe(
        SOURCE,
        api_key=KEY,
        webhook_secrets=[SECRET],
        kinds=None,
        budget=budgets.of(SOURCE),
        tolerance=timedelta(minutes=5),
        api_version=API_VERSION,
        api_base=url,
        timeout=timeout,
        clock=_now,
    )
    with closing(adapter):
        watched = Watched(adapter)
        pinned = Pinned(cast("Adapter", watched), database)
        mirrored = _mirror(database, pinned, chosen)
        drain = Drain(
            database,
            {SOURCE: pinned},
            mirror=mirrored,
            budgets=budgets,
            settings=chosen,
            in_flight=in_flight,
            metrics=metrics,
            listen_url=listen_url or database.url,
        )
        yield Side(database, watched, pinned, mirrored, budgets, metrics, drain)


def _mirror(database: Database, adapter: Adapter, chosen: DrainSettings) -> Mirror:
    rules = Rules(
        read_lag=chosen.read_lag,
        rewound_after=chosen.rewound_after,
        absence_recheck=chosen.absence_recheck,
        share_stop=ShareStop(share=chosen.deletes_stop.share, above=chosen.deletes_stop.above),
    )
    with database.transaction() as connection:
        kinds = {
            (SOURCE, name): mirror.activate(connection, SOURCE, kind, facts=adapter.shape(name))
            for name, kind in adapter.kinds.items()
        }
    return Mirror(kinds, rules)


@dataclass(slots=True)
class Bench:
    """
    Everything: the provider, the process, and what both say happened.

    Attributes:
        hands: The provider's clock.
        ticks: Its order of things.
        lines: What was logged.
    """

    database: Database
    sandbox: StripeSandbox
    hands: Hands
    ticks: Ticks
    url: str
    lines: Sequence[Mapping[str, Any]] = ()
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _main: Side | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- processes ---

    def side(self, **given: Any) -> Side:
        """Return another process for this mirror."""
        return self._stack.enter_context(side(self.database, self.url, **given))

    @property
    def main(self) -> Side:
        """The process of tests that need only one."""
        if self._main is None:
            self._main = self.side()
        return self._main

    @property
    def drain(self) -> Drain:
        """Its drain."""
        return self.main.drain

    def quiet(self, *, within: float = 10.0) -> None:
        """Work until nothing is wanted, and no reread is near."""
        self.main.work(lambda: not self.pending(), within=within)

    # --- the provider ---

    def act(self, op: str, kind: str = "customer", id_: str = "", **more: Any) -> list[str]:
        """Create, change, delete or recreate an object at the provider and return the events that tell of it."""
        asked = {"op": op, "kind": kind, "deliver": False, **({"id": id_} if id_ else {}), **more}
        told: list[str] = self.sandbox.operate(operation_from(asked))["events"]
        return told

    def faults(self, **asked: Any) -> None:
        """Let the provider do these wrong, and nothing else."""
        self.sandbox.machinery.mischief.faults = faults_from(asked)

    def truth(self, kind: str = "customer") -> dict[str, int | None]:
        """Return the version each object of a kind is at; None: it is gone."""
        return {each["id"]: None if each["deleted"] else each["version"] for each in self.sandbox.truth(kind=kind)}

    def calls(self, operation: str | None = None) -> int:
        """Return how many calls the provider has seen, of one operation if it is given."""
        seen = self.sandbox.machinery.calls.summary(0)
        if operation is None:
            return int(seen["total"])
        return sum(seen["operations"].get(operation, {}).values())

    def fetches(self, kind: str = "customer") -> int:
        """Return how many fetches of a kind the provider has seen."""
        return self.calls(FETCH.format(kind))

    def event(self, event_id: str) -> Body:
        """Return an event as the provider shows it."""
        timeline = self.sandbox.machinery.world.find("", "event", event_id)
        assert timeline is not None
        assert timeline.latest.body is not None
        return timeline.latest.body

    def stale(self) -> None:
        """Let every read show the world as it was before now, until other faults are set."""
        self.ticks.leapt += 100
        self.faults(stale_reads=1, stale_for=50)

    # --- notifications ---

    def tell(self, *event_ids: str) -> None:
        """Deliver these events, one after another."""
        self.deliver(*(self.event(event_id) for event_id in event_ids))

    def deliver(self, *bodies: Body) -> None:
        """Deliver events of any content, one after another, each as an authentic delivery."""
        for body in bodies:
            read = self.main.adapter.read(signed(body))
            self.database.commit(partial(events.receive, arrivals=[Arrival(each, {}, _now()) for each in read]))

    def want(self, *ids: str, kind: str = "customer") -> None:
        """Want these objects as the trigger does."""
        for id_ in ids:
            self.drain.want(customer(id_, kind))

    # --- the mirror ---

    def row(self, id_: str, kind: str = "customer") -> Row[Any] | None:
        """Return our row."""
        with self.database.transaction() as connection:
            return statements.row(connection, "object", refetches.key(customer(id_, kind)))

    def body(self, id_: str, kind: str = "customer") -> Body:
        """Return what our row shows."""
        row = self.row(id_, kind)
        assert row is not None
        shown: Body = content.parse(row.body)
        return shown

    def versions(self, kind: str = "customer") -> dict[str, int | None]:
        """Return the version each row of a kind shows; None: a tombstone."""
        found = self.rows("SELECT id, deleted_at, body #>> '{metadata,version}' FROM objects WHERE kind = %s", kind)
        return {id_: None if deleted_at or version is None else int(version) for id_, deleted_at, version in found}

    def refetch(self, id_: str, kind: str = "customer") -> Row[Any]:
        """Return the refetch of an object."""
        with self.database.transaction() as connection:
            return statements.one(connection, "refetch", refetches.key(customer(id_, kind)))

    def pending(self) -> int:
        """Return how many objects are to be read within a minute, dead letters left out."""
        [(count,)] = self.rows(
            "SELECT count(*) FROM refetches WHERE dead_at IS NULL"
            " AND (wanted > done OR again_at < clock_timestamp() + interval '1 minute')"
        )
        return int(count)

    def outcomes(self) -> dict[str, str | None]:
        """Return what became of each event."""
        return dict(self.rows("SELECT event_id, outcome FROM webhook_events"))

    def history(self, id_: str) -> list[str]:
        """Return what was applied to our row, oldest first."""
        return [what for (what,) in self.rows("SELECT what FROM object_history WHERE id = %s ORDER BY seq", id_)]

    def drift(self) -> list[tuple[str, str, str]]:
        """Return the drift on record: id, what and cause."""
        return self.rows("SELECT id, what, cause FROM drift ORDER BY seq")

    def pauses(self) -> list[tuple[str, str]]:
        """Return the scope of each pause, and what it is about."""
        with self.database.transaction() as connection:
            return [(each.scope, each.what) for each in pauses.standing(connection)]

    def alarms(self) -> list[str]:
        """Return which alarms stand; nothing was ever swept here."""
        with self.database.transaction() as connection:
            found = story.alarms(connection, {SOURCE: ("customer",)})
        return [alarm.what for alarm in found if alarm.what != "never_swept"]

    def rows(self, statement: str, *parameters: Any) -> list[Any]:
        """Return what a statement shows."""
        with self.database.transaction() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement, parameters).all()]

    def edit(self, statement: str, *parameters: Any) -> None:
        """Do something to the database by hand."""
        with self.database.transaction() as connection:
            connection.exec_driver_sql(statement, parameters)

    def hasten(self) -> None:
        """Let everything that waits for its back-off or its pause be due now."""
        self.edit("UPDATE refetches SET due_at = clock_timestamp() WHERE dead_at IS NULL AND wanted > done")
        self.edit("UPDATE pauses SET until = clock_timestamp()")

    def expire(self) -> None:
        """Let every lease end now."""
        self.edit("UPDATE refetches SET leased_until = clock_timestamp() WHERE leased_until IS NOT NULL")

    def logged(self, event: str) -> list[Mapping[str, Any]]:
        """Return the lines of one event."""
        return [line for line in self.lines if line["event"] == event]


def _now() -> datetime:
    return datetime.now(UTC)


def signed(body: Body) -> Delivery:
    """Return an authentic delivery of *body*."""
    raw, now = content.dumps(body).encode(), _now()
    at = int(now.timestamp())
    digest = hmac.new(SECRET.encode(), b"%d.%b" % (at, raw), hashlib.sha256).hexdigest()
    return Delivery({"stripe-signature": f"t={at},v1={digest}"}, raw, now)


def over(process: Side) -> Bench:
    """Return a bench for a process whose provider is none of ours."""
    bench = Bench(process.database, cast("StripeSandbox", None), Hands(), Ticks(), "")
    bench._main = process
    return bench


@contextmanager
def bench_on(database: Database, **sandbox: Any) -> Iterator[Bench]:
    """Yield a bench over *database* with a provider of its own."""
    hands, ticks = Hands(), Ticks()
    provider = StripeSandbox(7, clock=Clock(hands, ticks=ticks), **sandbox)
    with provider.serve(0) as running, Bench(database, provider, hands, ticks, running.url) as bench:
        yield bench
