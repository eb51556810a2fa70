"""A first crawl in bulk: what an operation shows was read before it ended, and newer reads win."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.shopify import KINDS, bulk
from reconciler.errors import SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.paths.cases import Case, MakeCase

KIND = "customer"


def in_bulk(case: Case, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Let every list that goes on be read in bulk, and something happen once while the operation runs."""
    operations: Any = case.program.adapters[case.source]
    operations = operations._adapter._lists._bulk
    operations._above, operations._pause = 0, 0.0
    waiting = iter([meanwhile])
    operations._sleep = lambda _: next(waiting, lambda: None)()


@pytest.fixture
def case(case_of: MakeCase, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Return a shop whose pages are small, so that few customers are many."""
    row = KINDS[KIND]
    monkeypatch.setitem(KINDS, KIND, replace(row, kind=replace(row.kind, page=2)))
    monkeypatch.setattr(bulk, "_PAGE", 1)
    return case_of("shopify", more=f'kinds = ["{KIND}"]')


@pytest.mark.parametrize("stamp", ["move", "keep"])
def test_a_read_during_the_operation_wins(case: Case, stamp: str) -> None:
    """An object that changes while an operation runs, and is read, is not taken back by what the operation shows."""
    ids = [case.act("create", KIND) for _ in range(6)]
    last = ids[-1]
    case.quiet()

    def change() -> None:
        before = case.body(KIND, last)
        case.act("change", KIND, last, stamp=stamp)
        case.want(KIND, last)
        case.work(lambda: case.body(KIND, last) != before)  # by us, or by the run

    in_bulk(case, change)
    swept = case.sweep(full=True)

    assert "POST graphql.json bulkOperationRunQuery" in case.calls()
    assert swept.state == "complete", swept.report
    assert case.wrong(KIND) == []
    [(verdict, is_older)] = case.rows(
        "SELECT verdict, incoming_source_updated_at < stored_source_updated_at FROM declined_writes "
        "WHERE id = %s AND via = 'crawl'",
        last,
    )
    # Stamps are whole seconds: one that moved within its second is equal.
    assert verdict == ("declined" if is_older else "tied")
    assert stamp == "move" or not is_older
    history = case.rows("SELECT via FROM object_history WHERE id = %s ORDER BY seq DESC LIMIT 1", last)
    assert history[0][0] != "crawl"


def test_everything_comes_in_one_operation(case: Case) -> None:
    """A first crawl in bulk loads each object, once."""
    case.sandbox.machinery.deliveries.endpoints = ()
    for _ in range(7):
        case.act("create", KIND)
    in_bulk(case)

    swept = case.sweep()

    assert swept.state == "complete", swept.report
    assert swept.kinds[KIND]["listed"] == swept.kinds[KIND]["applied"] == 7
    assert case.wrong(KIND) == []
    assert case.calls().count("POST graphql.json customers") == 1


def test_a_run_that_ends_while_an_operation_runs(case: Case) -> None:
    """The next run begins an operation of its own, and does not believe one whose beginning nobody remembers."""
    ids = [case.act("create", KIND) for _ in range(5)]
    case.quiet()
    case.control("PUT", "/bulk", {"looks": 3})

    def end() -> None:
        raise SourceUnavailable("the process is gone")

    in_bulk(case, end)
    assert case.sweep(full=True).state == "incomplete"
    case.act("change", KIND, ids[-1])
    in_bulk(case)
    swept = case.sweep(full=True)

    assert swept.state == "complete", swept.report
    assert case.calls().count("POST graphql.json bulkOperationRunQuery") == 2
    assert case.wrong(KIND) == []
