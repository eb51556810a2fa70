"""The composition root: where everything a process needs is put together."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import structlog

from reconciler import installed
from reconciler.accounts import Pinned
from reconciler.adapter import Hands
from reconciler.bootstrap.checking import confirmed
from reconciler.bootstrap.watching import watched
from reconciler.budgets import Budgets
from reconciler.config.written import written
from reconciler.drain import Drain
from reconciler.embedded import Embedded
from reconciler.endpoints import Endpoint, Own
from reconciler.errors import ConfigError, DatabaseUnavailable, NotAdopted
from reconciler.metrics import Gauges, Metrics
from reconciler.model import Verdict
from reconciler.receive import Receiver
from reconciler.spool import FILE, Spool
from reconciler.store import database as databases
from reconciler.store import environment, refetches, sources, statements, story, views
from reconciler.store import migrate as migrations
from reconciler.store import mirror as mirrors
from reconciler.store.marks import Marks
from reconciler.store.mirror import Mirror, Rules
from reconciler.store.shares import FAR, ShareStop
from reconciler.store.tokens import SharedTokens
from reconciler.store.views import Described
from reconciler.store.vouching import Vouching
from reconciler.sweep import Sweep
from reconciler.watchdog import Hearing, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from reconciler.adapter import Adapter, Kind
    from reconciler.config import Settings, Source
    from reconciler.model import ObjectRef
    from reconciler.receive import Reader
    from reconciler.store.database import Database

# Connections beside those of the workers: receiving, listing, renewing, people's questions.
_OTHER_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Looked:
    """What a wanted object's read came to, for whoever waited for it."""

    ref: ObjectRef
    verdict: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Program:
    """
    Everything one process runs on.

    Attributes:
        settings: Without the sources that a person removed or renamed.
        readers: What stands behind each name that deliveries may be sent to, but for these sources.
        take_over: Takes deliveries, and shows gauges, for this program and no other that stands on the same ground.
        leads: Set while this process is the schedule's leader: only it shows gauges from the database.
    """

    settings: Settings
    database: Database
    listen_url: str
    adapters: Mapping[str, Adapter]
    mirror: Mirror
    budgets: Budgets
    metrics: Metrics
    receiver: Receiver
    drain: Drain
    sweep: Sweep
    watchdog: Watchdog
    readers: Callable[[Collection[str]], Mapping[str, Reader]]
    take_over: Callable[[Collection[str]], None]
    stop: Event
    leads: Event

    def want(self, ref: ObjectRef) -> int:
        """Make *ref* due at once and return its number; raises KeyError for a source or kind that is not mirrored."""
        self.mirror.of(ref.source, ref.kind)
        return self.drain.want(ref)

    def looked_at(self, ref: ObjectRef, wanted: int, seconds: float) -> Looked | None:
        """Wait until somebody has read *ref* as far as *wanted*, or given it up; None: not within so many seconds."""
        until = time.monotonic() + seconds
        while True:
            with self.database.transaction() as connection:
                row = statements.row(connection, "refetch", refetches.key(ref))
            if row is not None and row.dead_at is not None:
                return Looked(ref, None, row.last_error)
            if row is not None and row.done >= wanted:
                return Looked(ref, row.verdict, None)
            if row is not None and row.held_at is not None and row.due_at == FAR:
                return Looked(ref, str(Verdict.DECLINED), row.last_error)
            if time.monotonic() >= until:
                return None
            time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Ground:
    """
    What a process keeps while its configuration changes.

    Attributes:
        leads: As of `Program`.
    """

    database: Database
    listen_url: str
    metrics: Metrics
    gauges: _Gauges
    receiver: Receiver
    leads: Event


@contextmanager
def grounded(settings: Settings, *, takes_deliveries: bool = False) -> Iterator[Ground]:
    """
    Yield what a process keeps, with the database open and of the right schema; close it after.

    Where it *takes_deliveries*, the spool is opened, if one is configured.

    Raises `ConfigError` where the schema or the embedded server cannot be used, and `DatabaseUnavailable` where the
    database does not answer.
    """
    with ExitStack() as stack:
        database, listen_url = _open(settings, stack)
        leads = Event()
        gauges = _Gauges(database, leads)
        metrics = Metrics(gauges.now)
        spool = _spool(settings, stack) if takes_deliveries and settings.web.spool else None
        yield Ground(database, listen_url, metrics, gauges, Receiver(database, {}, metrics, spool=spool), leads)


@contextmanager
def program(
    settings: Settings, *, beat: Callable[[str], None] = lambda _: None, ground: Ground | None = None
) -> Iterator[Program]:
    """
    Yield what a process runs on: over *ground*, ready to take it over, else over one of its own; close it after.

    Raises `ConfigError` where the configuration, the schema or the embedded server cannot be used, or a provider does
    not have what a source is configured for, `NotAdopted` where the mirror belongs elsewhere, and
    `DatabaseUnavailable` where the database does not answer.
    """
    with ExitStack() as stack:
        if ground is None:
            made = stack.enter_context(program(settings, beat=beat, ground=stack.enter_context(grounded(settings))))
            made.take_over(())
            yield made
            return
        database, listen_url, metrics = ground.database, ground.listen_url, ground.metrics
        stop = Event()
        settings = database.commit(partial(_ours, settings))
        budgets = _budgets(settings.sources, database, metrics, stop=stop)
        shapes: dict[tuple[str, str], str] = {}
        marks = {source.name: _marks(database, source.name, shapes) for source in settings.sources}

        def hands(source: Source) -> Hands:
            return Hands(
                budget=budgets.of(source.name),
                validators=marks[source.name],
                tokens=partial(_tokens, database, source.name),
                notices=Hearing(database, source.name),
                tolerance=settings.web.tolerance,
                stack=stack,
            )

        adapters: dict[str, Adapter] = {name: Pinned(each, database) for name, each in _built(settings, hands).items()}
        for name, because in confirmed(settings, adapters, budgets).items():
            structlog.get_logger().warning("source.unconfirmed", source=name, because=because)
        mirror = database.commit(lambda connection: _mirror(connection, settings, adapters))
        database.commit(partial(views.describe, described=_described(settings, adapters)))
        shapes |= {pair: mirrored.shape for pair, mirrored in mirror.kinds.items()}
        drain = Drain(
            database,
            adapters,
            mirror=mirror,
            budgets=budgets,
            settings=settings.drain,
            in_flight=settings.schedule.in_flight,
            metrics=metrics,
            listen_url=listen_url,
            beat=beat,
        )
        sweep = Sweep(
            database,
            adapters,
            mirror=mirror,
            drain=drain,
            budgets=budgets,
            schedule=settings.schedule,
            workers=settings.drain.workers,
            metrics=metrics,
            stop=stop,
            marks_of=marks,
        )
        vouching = Vouching(database)
        vouching.look()
        turned = partial(
            _turned, beat, vouching if any(source.manage_webhooks for source in settings.sources) else None
        )

        def take_over(shut: Collection[str]) -> None:
            ground.receiver.listen(readers(shut), beat=turned)
            ground.gauges.budgets = budgets
            ground.gauges.kinds = {name: tuple(adapter.kinds) for name, adapter in adapters.items()}

        readers = partial(_readers, settings, adapters, vouching)
        watchdog = Watchdog(
            database, watched(settings, adapters), vouching=vouching, budgets=budgets, wake=drain.wake, beat=beat
        )
        yield Program(
            settings=settings,
            database=database,
            listen_url=listen_url,
            adapters=adapters,
            mirror=mirror,
            budgets=budgets,
            metrics=metrics,
            receiver=ground.receiver,
            drain=drain,
            sweep=sweep,
            watchdog=watchdog,
            readers=readers,
            take_over=take_over,
            stop=stop,
            leads=ground.leads,
        )


def applied(database: Database, settings: Settings) -> None:
    """Note that *settings* are served from now on: which sources, and what is configured, without secrets."""

    def note(connection: Connection) -> None:
        sources.serve(connection, {source.name: source.provider for source in settings.sources})
        environment.apply(connection, written(settings, mirrored(settings)))

    database.commit(note)


def mirrored(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the names of the kinds that each configured source mirrors."""
    return {source.name: _mirrored_kinds(source) for source in settings.sources}


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """Yield the configured database, whatever its schema is; an embedded one is brought up to date by itself."""
    with ExitStack() as stack:
        database, _ = _open(settings, stack, check=False)
        yield database


@dataclass(frozen=True, slots=True)
class View:
    """
    What it takes to tell people how things stand.

    Attributes:
        kinds: The names of the mirrored kinds of every source.
        estranged: Why this is a copy that is not adopted, in a sentence; None: the mirror belongs here.
    """

    database: Database
    budgets: Budgets
    kinds: Mapping[str, Sequence[str]]
    estranged: str | None = None


@contextmanager
def view(settings: Settings) -> Iterator[View]:
    """Yield what it takes to look, and to want objects: no provider is asked, and no shape becomes the current one."""
    with ExitStack() as stack:
        database, _ = _open(settings, stack)
        with database.transaction() as connection:
            estranged = environment.estranged(connection, public_url=settings.public_url)
        yield View(database, _budgets(settings.sources, database, Metrics()), mirrored(settings), estranged)


def every_kind() -> Mapping[str, Mapping[str, Kind]]:
    """Return every kind that the installed adapters know, by provider and name; needs no configuration."""
    return {name: installed.provider(name).kinds for name in installed.names()}


def _ours(settings: Settings, connection: Connection) -> Settings:
    """Return *settings* as they may be used on this mirror; raises `NotAdopted` where it belongs elsewhere."""
    estranged = environment.estranged(connection, public_url=settings.public_url)
    if estranged is not None:
        raise NotAdopted(estranged)
    environment.remember(connection, public_url=settings.public_url)
    shut = sources.shut(connection)
    sources.follow(connection, [source.name for source in settings.sources if source.name not in shut])
    for source in settings.sources:
        if source.name in shut:
            structlog.get_logger().warning("source.shut", source=source.name, because=shut[source.name].told())
    return _without(settings, shut)


def _without(settings: Settings, shut: Collection[str]) -> Settings:
    """Return *settings* but for these sources, and endpoints that have no other."""
    left = [
        replace(endpoint, sources=tuple(name for name in endpoint.sources if name not in shut))
        for endpoint in settings.endpoints
    ]
    return replace(
        settings,
        sources=tuple(source for source in settings.sources if source.name not in shut),
        endpoints=tuple(endpoint for endpoint in left if endpoint.sources),
    )


def _readers(
    settings: Settings, adapters: Mapping[str, Adapter], vouching: Vouching, shut: Collection[str]
) -> dict[str, Reader]:
    """Return what stands behind each name that deliveries may be sent to, but for these sources."""
    readers: dict[str, Reader] = {}
    settings = _without(settings, shut)
    for source in settings.sources:
        secrets = [secret.reveal() for secret in source.webhook_secrets]
        readers[source.name] = Own(adapters[source.name], secrets, partial(vouching.secrets, source.name))
    for endpoint in settings.endpoints:
        secrets = [secret.reveal() for secret in endpoint.webhook_secrets]
        behind = [adapters[each] for each in endpoint.sources]
        readers[endpoint.name] = Endpoint(endpoint.name, behind, secrets, kept=partial(vouching.secrets, endpoint.name))
    return readers


def _turned(beat: Callable[[str], None], vouching: Vouching | None) -> None:
    """Note that the writer of deliveries has turned; what vouches for them is looked up there, not when they come."""
    beat("receive-writer")
    if vouching is not None:
        vouching.look_now_and_then()


def _marks(database: Database, source: str, shapes: Mapping[tuple[str, str], str]) -> Marks:
    return Marks(database, source, shape=lambda kind: shapes[source, kind])


def _tokens(database: Database, source: str, credential: str) -> SharedTokens:
    return SharedTokens(database, source, credential=credential)


def _open(settings: Settings, stack: ExitStack, *, check: bool = True) -> tuple[Database, str]:
    given = settings.database.url
    connections = settings.drain.workers * 2 + _OTHER_CONNECTIONS
    if given is not None:
        url = given.reveal()
        database = databases.connect(url, schema=settings.database.schema, connections=connections)
        stack.callback(database.close)
        if check:
            migrations.check(database)
        direct = settings.database.direct_url
        return database, database.url if direct is None else direct.reveal()
    embedded = stack.enter_context(Embedded(settings.state_directory / "postgres"))
    database = databases.connect(embedded.url("reconciler"), schema=settings.database.schema, connections=connections)
    stack.callback(database.close)
    migrations.migrate(database)
    views.make(database, every_kind())
    return database, database.url


def _budgets(sources: Sequence[Source], database: Database, metrics: Metrics, *, stop: Event | None = None) -> Budgets:
    """Return the budgets of *sources*: those that their provider counts together share one, in every process."""
    speaks = {each.name: installed.provider(each.provider) for each in sources}
    return Budgets(
        database,
        {each.name: speaks[each.name].limits(each) for each in sources},
        metrics,
        stop=stop,
        shared={each.name: told for each in sources if (told := speaks[each.name].shared(each)) is not None},
        allotments={each.name: speaks[each.name].allotments for each in sources},
    )


def _spool(settings: Settings, stack: ExitStack) -> Spool:
    try:
        spool = Spool(settings.state_directory / FILE, most=settings.web.spool_max)
    except DatabaseUnavailable as error:
        message = f"web.spool: {error}; see to it that state_directory can be written, or set it to false"
        raise ConfigError(message) from error
    stack.callback(spool.close)
    return spool


def _built(settings: Settings, hands: Callable[[Source], Hands]) -> Mapping[str, Adapter]:
    """Return the adapter of every source, asking nobody; raises `ConfigError` with all that any of them refuses."""
    adapters: dict[str, Adapter] = {}
    faults: list[str] = []
    for source in settings.sources:
        try:
            adapters[source.name] = installed.provider(source.provider).adapter(source, hands(source))
        except ConfigError as error:
            faults += error.faults
    if faults:
        raise ConfigError(*faults)
    return adapters


def _mirrored_kinds(source: Source) -> tuple[str, ...]:
    if isinstance(source.kinds, tuple):
        return source.kinds
    known = installed.provider(source.provider).kinds
    return tuple(name for name, kind in known.items() if source.kinds == "all" or kind.core)


class _Gauges:
    """What the database says now, for `/metrics`: only the schedule's leader tells, so that sums stay right."""

    def __init__(self, database: Database, leads: Event) -> None:
        self._database = database
        self._leads = leads
        self.budgets: Budgets | None = None
        self.kinds: Mapping[str, Sequence[str]] = {}

    def now(self) -> Gauges | None:
        if not self._leads.is_set() or self.budgets is None:
            return None
        with self._database.transaction() as connection:
            now = statements.one(connection, "clock", {"now": None}).now
            queues = story.queues(connection, now=now)
            swept = story.swept(connection)
            alarms = story.alarms(connection, self.kinds, now=now)
            standing = self.budgets.standing(connection, now=now)
        return Gauges(
            refetches={
                (source, state): float(getattr(queue, state))
                for source, queue in queues.items()
                for state in ("due", "leased", "dead", "held")
            },
            watermark_age={pair: (now - until).total_seconds() for pair, until in swept.items()},
            budget_left={(each.source, each.name): float(each.left) for each in standing},
            alarms={(alarm.source, alarm.what): 1.0 for alarm in alarms},
        )


def _described(settings: Settings, adapters: Mapping[str, Adapter]) -> list[Described]:
    return [
        Described(
            source.name,
            source.provider,
            production=not installed.provider(source.provider).tests(source),
            kinds=tuple(sorted(adapters[source.name].kinds)),
        )
        for source in settings.sources
    ]


def _mirror(connection: Connection, settings: Settings, adapters: Mapping[str, Adapter]) -> Mirror:
    """Activate the shape of every mirrored kind, and see to it that positions run ahead of every row."""
    highest = statements.one(connection, "highest_position").position
    drawn = statements.one(connection, "draw_position", {"now": None}).position
    if highest >= drawn:
        refetches.outrun(connection, highest)
    omit = {source.name: source.omit for source in settings.sources}
    kinds = {
        (name, kind.name): mirrors.activate(
            connection, name, kind, facts=adapter.shape(kind.name), omit=omit[name].get(kind.name, ())
        )
        for name, adapter in sorted(adapters.items())
        for kind in sorted(adapter.kinds.values(), key=lambda each: each.name)
    }
    rules = Rules(
        read_lag=settings.drain.read_lag,
        rewound_after=settings.drain.rewound_after,
        absence_recheck=settings.drain.absence_recheck,
        share_stop=ShareStop(share=settings.drain.deletes_stop.share, above=settings.drain.deletes_stop.above),
    )
    return Mirror(kinds, rules)
