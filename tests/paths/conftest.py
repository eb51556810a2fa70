"""What tests of whole paths ask for: a drain with all it needs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from tests.paths.cases import case_on
from tests.paths.draining import bench_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reconciler.store.database import Database
    from tests.paths.cases import Case, MakeCase
    from tests.paths.draining import Bench


@pytest.fixture
def bench(database: Database) -> Iterator[Bench]:
    """Yield a database, Stripe's stand-in over HTTP, and a drain between them; its log is kept."""
    with capture_logs() as lines, bench_on(database) as made:
        made.lines = lines
        yield made


@pytest.fixture
def case_of(database: Database, tmp_path: Path) -> Iterator[MakeCase]:
    """Yield what starts a provider and the program that mirrors it, end to end; the log is kept."""
    with capture_logs() as lines, ExitStack() as stack:

        def made(provider: str, **given: Any) -> Case:
            case = stack.enter_context(case_on(database.url, tmp_path, provider, **given))
            case.lines = lines
            return case

        yield made
