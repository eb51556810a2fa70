"""What Prometheus reads is what the contract names, no more."""

from __future__ import annotations

import re

from reconciler.errors import DatabaseUnavailable
from reconciler.metrics import Gauges, Metrics

_CONTRACT = {
    "reconciler_deliveries_total": "counter",
    "reconciler_verdicts_total": "counter",
    "reconciler_fetches_total": "counter",
    "reconciler_provider_calls_total": "counter",
    "reconciler_freshness_seconds": "histogram",
    "reconciler_refetches": "gauge",
    "reconciler_drift_total": "counter",
    "reconciler_runs_total": "counter",
    "reconciler_watermark_age_seconds": "gauge",
    "reconciler_budget_left": "gauge",
    "reconciler_alarms": "gauge",
}


def test_names_and_types_are_the_contract() -> None:
    """Every metric of the contract is there with its type, and nothing else."""
    text = Metrics(Gauges).exposition().decode()

    assert dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)) == _CONTRACT


def test_counts_carry_their_labels() -> None:
    """Each method counts under the labels that the contract gives it."""
    metrics = Metrics()
    metrics.delivered("shop", "stored")
    metrics.delivered("shop", "stored")
    metrics.judged("shop", "order", "applied", "webhook")
    metrics.fetched("shop", "order", "live")
    metrics.called("shop", "GET /orders", "200")
    metrics.drifted("shop", "order", "other")
    metrics.ran("nightly", "complete")

    lines = metrics.exposition().decode().splitlines()

    assert 'reconciler_deliveries_total{outcome="stored",source="shop"} 2.0' in lines
    assert 'reconciler_verdicts_total{kind="order",source="shop",verdict="applied",via="webhook"} 1.0' in lines
    assert 'reconciler_fetches_total{kind="order",outcome="live",source="shop"} 1.0' in lines
    assert 'reconciler_provider_calls_total{operation="GET /orders",source="shop",status="200"} 1.0' in lines
    assert 'reconciler_drift_total{cause="other",kind="order",source="shop"} 1.0' in lines
    assert 'reconciler_runs_total{state="complete",trigger="nightly"} 1.0' in lines
    assert not [line for line in lines if "_created" in line]


def test_freshness_is_a_histogram_that_no_clock_turns_negative() -> None:
    """A step of the clock counts as no time at all."""
    metrics = Metrics()
    metrics.fresh("shop", 0.3)
    metrics.fresh("shop", -5)

    text = metrics.exposition().decode()

    assert 'reconciler_freshness_seconds_sum{source="shop"} 0.3' in text
    assert 'reconciler_freshness_seconds_bucket{le="0.1",source="shop"} 1.0' in text
    assert 'reconciler_freshness_seconds_count{source="shop"} 2.0' in text


def test_gauges_come_from_the_function_each_time() -> None:
    """The database's gauges are those of this moment, and are left out where another process shows them."""
    answers = iter((Gauges(alarms={("shop", "dead_letters"): 1.0}), None))
    metrics = Metrics(lambda: next(answers))

    first, second = metrics.exposition().decode(), metrics.exposition().decode()

    assert 'reconciler_alarms{source="shop",what="dead_letters"} 1.0' in first
    assert "reconciler_alarms" not in second


def test_counters_are_shown_while_the_database_is_away() -> None:
    """What cannot be read now is left out, and hides nothing else."""

    def away() -> Gauges:
        raise DatabaseUnavailable("no database")

    metrics = Metrics(away)
    metrics.ran("nightly", "failed")

    text = metrics.exposition().decode()

    assert 'trigger="nightly"' in text
    assert "reconciler_alarms" not in text


def test_two_metrics_share_nothing() -> None:
    """Two processes' worth of counters live in one interpreter."""
    one, other = Metrics(), Metrics()
    one.ran("cli", "complete")

    assert b'trigger="cli"' not in other.exposition()
