"""What this process counts, and what the database says now, as Prometheus reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from reconciler.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client import Metric

_FRESHNESS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
"""Seconds from received to applied: a live fetch takes parts of one, a night waits for most of a day."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """
    What the database says now.

    Attributes:
        refetches: How many, by source and state (`due`, `leased`, `dead`).
        watermark_age: Seconds since a kind was known to be fully swept, by source and kind.
        budget_left: Calls, by source and budget.
        alarms: 1 while it stands, by source and what it is about.
    """

    refetches: Mapping[tuple[str, str], float] = field(default_factory=dict)
    watermark_age: Mapping[tuple[str, str], float] = field(default_factory=dict)
    budget_left: Mapping[tuple[str, str], float] = field(default_factory=dict)
    alarms: Mapping[tuple[str, str], float] = field(default_factory=dict)


class Metrics:
    """
    The counters of one process, in a registry of their own; safe from any thread.

    *gauges* is asked at each exposition. Where it returns None (another process shows them) or raises
    `DatabaseUnavailable`, the gauges are left out, never shown as zero, and the counters are shown all the same.
    """

    def __init__(self, gauges: Callable[[], Gauges | None] = lambda: None) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._deliveries = self._counter("deliveries", "Deliveries answered", "source", "outcome")
        self._verdicts = self._counter("verdicts", "Snapshots judged", "source", "kind", "verdict", "via")
        self._fetches = self._counter("fetches", "Objects fetched", "source", "kind", "outcome")
        self._calls = self._counter("provider_calls", "Answers of providers", "source", "operation", "status")
        self._drift = self._counter("drift", "Rows a sweep had to correct", "source", "kind", "cause")
        self._runs = self._counter("runs", "Runs ended", "trigger", "state")
        self._freshness = Histogram(
            "reconciler_freshness_seconds",
            "From received to applied",
            ("source",),
            buckets=_FRESHNESS,
            registry=self._registry,
        )
        self._registry.register(_FromDatabase(gauges))

    def delivered(self, source: str, outcome: str) -> None:
        """Count a delivery: `stored`, `duplicate`, `ignored`, `refused` or `unavailable`."""
        self._deliveries.labels(source, outcome).inc()

    def judged(self, source: str, kind: str, verdict: str, via: str) -> None:
        """Count the verdict on one snapshot."""
        self._verdicts.labels(source, kind, verdict, via).inc()

    def fetched(self, source: str, kind: str, outcome: str) -> None:
        """Count one fetch by what came of it."""
        self._fetches.labels(source, kind, outcome).inc()

    def called(self, source: str, operation: str, status: str) -> None:
        """Count one call to a provider by its answer."""
        self._calls.labels(source, operation, status).inc()

    def fresh(self, source: str, seconds: float) -> None:
        """Note how long a notification took from received to applied."""
        self._freshness.labels(source).observe(max(seconds, 0.0))

    def drifted(self, source: str, kind: str, cause: str, *, rows: int = 1) -> None:
        """Count rows that had drifted and were put right."""
        self._drift.labels(source, kind, cause).inc(rows)

    def ran(self, trigger: str, state: str) -> None:
        """Count a run that ended."""
        self._runs.labels(trigger, state).inc()

    def exposition(self) -> bytes:
        """Return all of it in Prometheus' text format; waits for the database where this process shows its gauges."""
        return generate_latest(_WithoutCreated(self._registry))

    def _counter(self, name: str, promise: str, *labels: str) -> Counter:
        return Counter(f"reconciler_{name}", promise, labels, registry=self._registry)


class _FromDatabase(Collector):
    """The gauges of the contract, from one call."""

    def __init__(self, gauges: Callable[[], Gauges | None]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """Yield each gauge with its samples, or nothing."""
        try:
            now = self._gauges()
        except DatabaseUnavailable:
            return
        if now is None:
            return
        yield _family("refetches", "Refetches by state", ("source", "state"), now.refetches)
        yield _family("watermark_age_seconds", "Since fully swept", ("source", "kind"), now.watermark_age)
        yield _family("budget_left", "Calls that may still be made", ("source", "budget"), now.budget_left)
        yield _family("alarms", "Alarms that stand", ("source", "what"), now.alarms)


class _WithoutCreated(Collector):
    """A registry without the `_created` series that prometheus_client adds to each counter and histogram."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        """Yield each metric with the samples that the contract names."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _family(name: str, promise: str, labels: tuple[str, str], values: Mapping[tuple[str, str], float]) -> Metric:
    family = GaugeMetricFamily(f"reconciler_{name}", promise, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(list(key), value)
    return family
