"""What tests of whole paths ask for: a drain with all it needs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from structlog.testing import capture_logs

from reconciler.store.database import connect
from tests.conftest import SCHEMA, at
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


@pytest.fixture(scope="session")
def cases_database(server: str, names: Iterator[str], template: str) -> Iterator[Database]:
    """Yield a migrated database for all cases of this session: to copy one for each took longer than most of them."""
    name = sql.Identifier(next(names))
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template)))
        database = connect(at(server, name.as_string().strip('"')), schema=SCHEMA, connections=2)
        yield database
        database.close()
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def emptied(cases_database: Database) -> Database:
    """Return that database with nothing in it, whatever the case before left."""
    listed = "SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname = %s AND tablename <> %s"
    with cases_database.transaction() as connection:
        tables = connection.exec_driver_sql(listed, (SCHEMA, "reconciler_version")).scalar()
        connection.exec_driver_sql("SET LOCAL lock_timeout = '10s'")
        connection.exec_driver_sql(f"TRUNCATE {tables} RESTART IDENTITY")
    return cases_database


@pytest.fixture
def case_of(emptied: Database, tmp_path: Path) -> Iterator[MakeCase]:
    """Yield what starts a provider and the program that mirrors it, end to end; the log is kept."""
    with capture_logs() as lines, ExitStack() as stack:

        def made(provider: str, **given: Any) -> Case:
            case = stack.enter_context(case_on(emptied.url, tmp_path, provider, **given))
            case.lines = lines
            return case

        yield made
