"""`reconcile plan`: what it forecasts of each provider, against what is there and what loading it then takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciler import content
from reconciler.cli import main
from tests.paths.cases import EVERY, FIRST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.paths.cases import Case, MakeCase

    Plan = Callable[..., tuple[int, str]]

_UNWRITTEN = ("objects", "refetches", "runs", "webhook_events", "watermarks", "shapes")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Return what runs `reconcile plan` for a case, and returns its exit code and result."""

    def run(case: Case, *arguments: str) -> tuple[int, str]:
        for name, value in case.environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = main(["--config", str(case.file), "plan", *arguments])
        return code, capsys.readouterr().out

    return run


def rows(case: Case) -> dict[str, int]:
    """Return how many rows each table holds that a forecast must leave alone."""
    return {table: case.rows(f"SELECT count(*) FROM {table}")[0][0] for table in _UNWRITTEN}


@pytest.mark.parametrize("provider", EVERY)
def test_a_forecast_comes_true(case_of: MakeCase, plan: Plan, provider: str) -> None:
    """It counts what is there and writes nothing; loading then takes the calls that it said, give or take a few."""
    case, kind = case_of(provider), FIRST[provider]
    for _ in range(3):
        case.withheld("create", kind)
    before, there = rows(case), sum(not each["deleted"] for each in case.sandbox.truth(kind=kind))

    code, said = plan(case, "--kind", kind, "--format", "json")
    [told] = content.parse(said)
    left, loaded = rows(case), case.sweep(kind, full=True)

    assert (code, told["source"], told["kind"], told["missing"], told["because"]) == (0, case.source, kind, None, None)
    assert told["objects"] == there >= 3
    assert told["gigabytes"] > 0
    assert left == before
    assert loaded.kinds[kind]["listed"] == told["objects"]
    assert told["calls"] <= loaded.kinds[kind]["calls"] <= told["calls"] + 3
    [held] = loaded.report["forecasts"]
    assert held | {"at": ""} == {
        "source": case.source,
        "kind": kind,
        "at": "",
        "objects": there,
        "exact": told["exact"],
        "listed": there,
        "calls": told["calls"],
        "spent": loaded.kinds[kind]["calls"],
    }


@pytest.mark.parametrize("provider", EVERY)
def test_every_kind_has_a_forecast(case_of: MakeCase, plan: Plan, provider: str) -> None:
    """Any kind can be asked about, mirrored or not; what no call lists says so."""
    case = case_of(provider)

    code, said = plan(case, "--kind", "all", "--format", "json")
    told: list[Any] = content.parse(said)

    assert code == 0
    assert [each["kind"] for each in told if (each["calls"] is None) is not (each["list"] == "none")] == []
    assert {each["kind"] for each in told} > set(case.adapter.kinds) or len(told) == len(case.adapter.kinds)


def test_a_missing_permission_is_a_line(case_of: MakeCase, plan: Plan) -> None:
    """What the credential may not read is named with the permission that it lacks, and the exit code is 1."""
    case = case_of("stripe")
    case.faults(lost_access="403")

    code, said = plan(case, "--kind", "customer")

    assert code == 1
    assert "MISSING stripe-eu: customer needs the permission Customers: read" in said


def test_unknown_names(case_of: MakeCase, plan: Plan) -> None:
    """A source or kind that there is not is a usage error, before anybody is asked."""
    case = case_of("stripe")

    assert plan(case, "--source", "nobody") == (2, "")
    assert plan(case, "--kind", "nothing") == (2, "")
    assert case.calls() == []
