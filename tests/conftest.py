"""A migrated database for each test that asks for one: cloned from a template, dropped after."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy
import structlog
from hypothesis import HealthCheck, settings
from psycopg import sql

from reconciler.embedded import Embedded
from reconciler.store.database import connect
from reconciler.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.store.database import Database

SCHEMA = "reconciler"
_CONNECTIONS = 8
# What a crash would cost is nothing here.
_HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


def pytest_configure() -> None:
    """Let no example of hypothesis fail by the clock: the machine may be busy."""
    settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def unconfigured_log() -> Iterator[None]:
    """Let no test write its log as another one wished."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server: RECONCILER_TEST_DATABASE_URL, else an embedded one of this session."""
    if given := os.environ.get("RECONCILER_TEST_DATABASE_URL"):
        yield given
        return
    root = Path(tempfile.mkdtemp(prefix="reconciler-tests-"))
    try:
        with Embedded(root, settings=_HASTY) as embedded:
            yield embedded.url()
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    """Yield names of databases that no other test session on this server uses."""
    return (f"test_{os.getpid()}_{number}" for number in count())


@pytest.fixture(scope="session")
def template(server: str, names: Iterator[str]) -> Iterator[str]:
    """Yield the name of a migrated database that nobody is connected to: RECONCILER_TEST_TEMPLATE, else one of ours."""
    if given := os.environ.get("RECONCILER_TEST_TEMPLATE"):
        yield given
        return
    with _created(server, next(names), template="template0") as name:
        database = connect(at(server, name), schema=SCHEMA, connections=1)
        migrate(database)
        database.close()
        yield name


@pytest.fixture
def database(server: str, names: Iterator[str], template: str) -> Iterator[Database]:
    """Yield a migrated database of this test alone."""
    with _created(server, next(names), template=template) as name:
        database = connect(at(server, name), schema=SCHEMA, connections=_CONNECTIONS)
        yield database
        database.close()


@pytest.fixture
def empty_database(server: str, names: Iterator[str]) -> Iterator[Database]:
    """Yield a database of this test alone, with nothing in it."""
    with _created(server, next(names), template="template0") as name:
        database = connect(at(server, name), schema=SCHEMA, connections=_CONNECTIONS)
        yield database
        database.close()


def at(server: str, name: str) -> str:
    """Return the URL of database *name* on *server*."""
    return sqlalchemy.make_url(server).set(database=name).render_as_string(hide_password=False)


@contextmanager
def _created(server: str, name: str, *, template: str) -> Iterator[str]:
    """Create a database for the length of the block; whoever is still connected then is thrown out."""
    as_copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log").format(
        sql.Identifier(name), sql.Identifier(template)
    )
    dropped = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(as_copy)
        try:
            yield name
        finally:
            admin.execute(dropped)
