"""What it takes to forecast: adapters of kinds that may not be mirrored yet, and nothing that writes."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from reconciler.adapter import Hands, unheard
from reconciler.bootstrap import _budgets, _built, _mirrored_kinds, _open, _tokens
from reconciler.bootstrap.checking import confirmed
from reconciler.budgets import Lane
from reconciler.errors import ConfigError
from reconciler.installed import provider
from reconciler.metrics import Metrics
from reconciler.plan import forecast
from reconciler.store import database as databases
from reconciler.store import forecasts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from reconciler.adapter import Adapter, Limit
    from reconciler.budgets import Budgets
    from reconciler.config import Settings, Source
    from reconciler.plan import Forecast
    from reconciler.store.database import Database

EVERY = "all"
"""Stands for every kind that a provider has."""


@dataclass(frozen=True, slots=True)
class Planning:
    """
    The sources that are asked, each with the adapter of the kinds that are asked about.

    Attributes:
        limits: Of each source.
    """

    database: Database
    adapters: Sequence[Adapter]
    limits: dict[str, Sequence[Limit]]
    budgets: Budgets

    def forecasts(self) -> Iterator[Forecast]:
        """Yield one forecast after another, kept for the run that loads the kind; calls go behind live work."""
        for adapter in self.adapters:
            with self.budgets.calling(Lane.SWEEP) as spent:
                for kind in adapter.kinds:
                    found = forecast(adapter, kind, limits=self.limits[adapter.source], spent=spent)
                    self._keep(found)
                    yield found

    def _keep(self, found: Forecast) -> None:
        objects, calls, hours, gigabytes = found.objects, found.calls, found.hours, found.gigabytes
        if found.least or objects is None or calls is None or hours is None or gigabytes is None:
            return
        self.database.commit(
            lambda connection: forecasts.keep(
                connection,
                found.source,
                kind=found.kind.name,
                objects=objects,
                exact=found.exact,
                calls=calls,
                hours=hours,
                gigabytes=gigabytes,
            )
        )


@contextmanager
def planning(settings: Settings, *, sources: Collection[str], kinds: Collection[str]) -> Iterator[Planning]:
    """
    Yield what forecasts *kinds* (none: those configured) of *sources* (none: all); no shape becomes the current one.

    Raises `ConfigError` for a source or kind that there is not, and where the database cannot be used.
    """
    chosen = [_with(source, kinds) for source in _chosen(settings, sources)]
    asked = [source for source in chosen if source.kinds]
    if not asked:
        raise ConfigError(f"no such kind: {', '.join(kinds)}; see `reconcile kinds`")
    with ExitStack() as stack:
        database, _ = _open(settings, stack)
        limits: dict[str, Sequence[Limit]] = {each.name: provider(each.provider).limits(each) for each in asked}
        budgets = _budgets(asked, database, Metrics())
        adapters = [
            provider(each.provider).adapter(each, _hands(each, settings, database, budgets, stack)) for each in asked
        ]
        yield Planning(database, adapters, limits, budgets)


def check(settings: Settings) -> None:
    """Raise `ConfigError` with every fault that only an adapter knows; neither a provider nor the database is asked."""
    with ExitStack() as stack:
        unasked = databases.connect("postgresql://", schema=settings.database.schema, connections=1)
        stack.callback(unasked.close)
        budgets = _budgets(settings.sources, unasked, Metrics())
        _built(settings, lambda source: _hands(source, settings, unasked, budgets, stack))


def confirm(settings: Settings) -> Mapping[str, str]:
    """Do as `confirmed` does, with adapters of its own; without sources to ask about no database is opened."""
    asked = replace(
        settings,
        sources=tuple(each for each in settings.sources if provider(each.provider).checked(each)),
        endpoints=(),
    )
    if not asked.sources:
        return {}
    with planning(asked, sources=(), kinds=()) as made:
        return confirmed(asked, {each.source: each for each in made.adapters}, made.budgets)


def _hands(source: Source, settings: Settings, database: Database, budgets: Budgets, stack: ExitStack) -> Hands:
    """Return what an adapter is handed that only asks."""
    return Hands(
        budget=budgets.of(source.name),
        validators=lambda _kind, _scope: {},
        tokens=partial(_tokens, database, source.name),
        notices=unheard,
        tolerance=settings.web.tolerance,
        stack=stack,
    )


def _chosen(settings: Settings, names: Collection[str]) -> list[Source]:
    known = {source.name: source for source in settings.sources}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"no such source: {', '.join(unknown)}; configured: {', '.join(known) or 'none'}")
    return [known[name] for name in names or known]


def _with(source: Source, kinds: Collection[str]) -> Source:
    """Return a source with those of *kinds* that its provider has; with its own where none are named."""
    known = provider(source.provider)
    if not kinds:
        return replace(source, kinds=_mirrored_kinds(source))
    return replace(source, kinds=tuple(name for name in known.kinds if name in kinds or EVERY in kinds))
