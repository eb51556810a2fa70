"""The stage that the store's tests play on: a database for each file, objects of its own for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from reconciler.store.database import connect
from tests.conftest import SCHEMA, _created, at
from tests.store.stage import stage_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.store.database import Database
    from tests.store.stage import Stage

_CONNECTIONS = 24


@pytest.fixture(scope="module")
def shared(server: str, names: Iterator[str], template: str) -> Iterator[Database]:
    """Yield a database that the tests of one file share."""
    with _created(server, next(names), template=template) as name:
        database = connect(at(server, name), schema=SCHEMA, connections=_CONNECTIONS)
        yield database
        database.close()


@pytest.fixture(scope="module")
def ids() -> Iterator[int]:
    """Yield ids that no other test of this file has."""
    return count(1)


@pytest.fixture
def stage(shared: Database, ids: Iterator[int]) -> Stage:
    """Return a stage with objects of this test alone, and a clock that begins anew."""
    return stage_on(shared, ids=ids)


@pytest.fixture
def lone_stage(database: Database) -> Stage:
    """Return a stage over a database of this test alone."""
    return stage_on(database, ids=count(1))
