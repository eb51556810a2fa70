"""What others publish, once a session; without it nothing here can be shown, and that is a failure."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from tests.conformance.packages import Unfetched, fetched
from tests.paths.cases import case_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reconciler.store.database import Database
    from tests.conformance.packages import Package
    from tests.paths.cases import Case, MakeCase


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Package]:
    """Return what fetches a package, once."""
    folder = tmp_path_factory.mktemp("published")

    @cache
    def package(name: str) -> Package:
        try:
            return fetched(name, folder)
        except Unfetched as missing:
            pytest.exit(f"conformance cannot be shown: {missing}", returncode=1)

    return package


@pytest.fixture
def case_of(database: Database, tmp_path: Path) -> Iterator[MakeCase]:
    """Yield what starts the program that mirrors every kind of a provider, end to end."""
    with capture_logs(), ExitStack() as stack:

        def made(provider: str, *, more: str = "") -> Case:
            lines = f'kinds = "all"\n{more}'
            return stack.enter_context(case_on(database.url, tmp_path, provider, more=lines))

        yield made


def answered(case: Case) -> dict[str, Any]:
    """Return, of each stored event, its outcome and the objects that it names, as (kind, scope, id)."""
    found: dict[str, Any] = {}
    for event_id, kind, scope, id_ in case.rows(
        "SELECT event_id, kind, scope, id FROM webhook_events LEFT JOIN event_objects USING (source, event_id)"
    ):
        named = found.setdefault(event_id, set())
        if kind is not None:
            named.add((kind, scope, id_))
    return found
