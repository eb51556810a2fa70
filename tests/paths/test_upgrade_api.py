"""`reconcile upgrade-api`: a sample of the mirror read in two API versions of the stand-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciler import cli, content

if TYPE_CHECKING:
    from tests.paths.cases import Case, MakeCase


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what runs the command for a case and returns its exit code, result and what it said beside."""

    def run(case: Case, version: str, *more: str) -> tuple[int, str, str]:
        for name, value in {**case.environment, "RECONCILER_CONFIG": str(case.file)}.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = cli.main(["upgrade-api", case.source, version, *more])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_what_changes_is_listed(case_of: MakeCase, upgrade: Any) -> None:
    """Before 2025-03-31 a subscription has its period at its top: fields move, and the exit code says so."""
    case = case_of("stripe", more='kinds = ["customer", "subscription"]')
    for kind in ("customer", "subscription", "subscription"):
        case.act("create", kind)
    case.quiet()
    before = case.rows("SELECT * FROM shapes"), case.rows("SELECT digest FROM objects ORDER BY id")

    code, out, _ = upgrade(case, "2024-06-20", "--dry-run", "--format", "json")

    found = {(each["kind"], each["what"], each["where"]): each["objects"] for each in content.parse(out)}
    assert code == 3
    assert found["subscription", "field_new", "/current_period_end"] == 2
    assert found["subscription", "field_gone", "/items/data/*/current_period_end"] == 2
    assert {kind for kind, _, _ in found} == {"subscription"}
    assert (case.rows("SELECT * FROM shapes"), case.rows("SELECT digest FROM objects ORDER BY id")) == before


def test_where_nothing_changes(case_of: MakeCase, upgrade: Any) -> None:
    """Where both versions show the same that is said, with the kinds that had no row to compare."""
    case = case_of("stripe", more='kinds = ["customer", "product"]')
    case.act("create", "customer")
    case.quiet()

    code, out, err = upgrade(case, "2026-09-30.endive", "--dry-run")

    assert (code, out.strip()) == (0, "nothing changes; objects read: 1")
    assert "product" in err


def test_a_version_that_is_not_served(case_of: MakeCase, upgrade: Any) -> None:
    """A retired version shows no kind: each is named with what the provider says."""
    case = case_of("github")
    case.act("create", "issue")
    case.quiet()

    code, out, _ = upgrade(case, "2020-01-01", "--dry-run", "--format", "json")

    unreadable = [each for each in content.parse(out) if each["kind"] == "issue"]
    assert code == 3
    assert [(each["what"], "410" in each["because"]) for each in unreadable] == [("unreadable", True)]


def test_nothing_is_upgraded_by_a_command(case_of: MakeCase, upgrade: Any) -> None:
    """Without --dry-run, and for the version there is, a sentence says what to do; nobody is asked anything."""
    case = case_of("stripe")
    asked = len(case.calls())

    bare = upgrade(case, "2027-01-01.fir")
    same = upgrade(case, "2026-10-28.endive", "--dry-run")

    assert (bare[0], same[0]) == (2, 2)
    assert 'api_version = "2027-01-01.fir"' in bare[2]
    assert "already" in same[2]
    assert len(case.calls()) == asked
