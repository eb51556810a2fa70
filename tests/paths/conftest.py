"""What tests of whole paths ask for: a drain with all it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from tests.paths.draining import bench_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.store.database import Database
    from tests.paths.draining import Bench


@pytest.fixture
def bench(database: Database) -> Iterator[Bench]:
    """Yield a database, Stripe's stand-in over HTTP, and a drain between them; its log is kept."""
    with capture_logs() as lines, bench_on(database) as made:
        made.lines = lines
        yield made
