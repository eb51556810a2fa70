"""Secrets in what providers show are handed on by no adapter: they are in no row, no payload and no word of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.paths.sweeping import swept

if TYPE_CHECKING:
    from tests.paths.draining import Bench

MARK = "_secret_standin"  # how the stand-in's client secrets end


def tables(bench: Bench) -> list[str]:
    """Return every table of ours."""
    return [name for (name,) in bench.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")]


def test_client_secrets_are_kept_nowhere(bench: Bench) -> None:
    """Told by an event, fetched, listed and repaired, a payment intent leaves its client secret nowhere."""
    told = bench.act("create", "payment_intent", "pi_1")
    bench.tell(*told)
    bench.quiet()
    bench.act("create", "payment_intent", "pi_2", announce=False)
    swept(bench, "payment_intent")
    bench.edit("UPDATE objects SET body = body || jsonb '{\"amount\": 1}' WHERE id = 'pi_1'")
    bench.quiet()
    swept(bench, "payment_intent", full=True)

    shown = bench.event(told[0])["data"]["object"]["client_secret"]
    found = [
        name
        for name in tables(bench)
        if bench.rows(f"SELECT 1 FROM {name} AS whole WHERE whole::text LIKE %s LIMIT 1", f"%{MARK}%")
    ]

    assert shown.endswith(MARK)
    assert bench.versions("payment_intent") == bench.truth("payment_intent")
    assert len(bench.versions("payment_intent")) == 2
    assert found == []
    assert MARK not in str(bench.lines)
