"""
Bring the schema up to date, or say that it is not.

Alembic decides which revisions are missing; a revision is one file of plain SQL. All of them run in one transaction.
"""

from __future__ import annotations

import io
import re
import zlib
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from reconciler import resources
from reconciler.errors import ConfigError, DatabaseUnavailable
from reconciler.store.database import sqlstate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from reconciler.store.database import Database

VERSION_TABLE = "reconciler_version"
PATIENCE = timedelta(seconds=10)
"""How long a change waits for those who use what it changes: others wait behind it meanwhile."""

_MADE = re.compile(r"^CREATE (?:TABLE|SEQUENCE|VIEW|MATERIALIZED VIEW) (\w+)", re.MULTILINE)


def migrate(database: Database) -> list[str]:
    """
    Run every revision the schema lacks and return their names, oldest first.

    Safe to start many times at once: the others wait and find nothing to do. Raises `ConfigError` where the schema is
    newer than this program, or holds a table of ours that we did not make; then nothing is changed.
    """
    with alone(database) as connection:
        return _upgrade(connection, database.schema)


@contextmanager
def alone(database: Database, *, patience: timedelta = PATIENCE) -> Iterator[Connection]:
    """
    Yield a connection in a transaction that may change the schema: first in, first served.

    Raises `ConfigError` where our role may not, and `DatabaseUnavailable` where a table stays in use.
    """
    try:
        with database.transaction() as connection:
            # Whoever waits here sees the finished schema.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _lock_key(database.schema)})
            connection.execute(
                text("SELECT set_config('lock_timeout', :wait, true)"),
                {"wait": f"{patience // timedelta(milliseconds=1)}ms"},
            )
            yield connection
    except DBAPIError as error:
        raise _in_our_words(error, database.schema) from error


def check(database: Database) -> None:
    """Raise `ConfigError` with the way out unless the schema is exactly the one this program was written for."""
    head = _scripts(database.schema).get_current_head()
    with database.transaction() as connection:
        stands = _stands_at(connection, database.schema)
    if stands is None:
        message = f"schema {database.schema!r} holds no tables of ours yet; run `reconcile migrate`"
        raise ConfigError(message)
    _missing(database.schema, stands)
    if stands != head:
        message = f"schema {database.schema!r} is at {stands}, this program needs {head}; run `reconcile migrate`"
        raise ConfigError(message)


def _upgrade(connection: Connection, schema: str) -> list[str]:
    stands = _stands_at(connection, schema)
    missing = _missing(schema, stands)
    if not missing:
        return []
    _refuse_strangers(connection, schema, missing)
    if not _exists(connection, schema):
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    # Functions keep this path: named last, nobody's temporary tables stand before ours.
    path = f"{schema}, pg_catalog, pg_temp"
    connection.execute(text("SELECT set_config('search_path', :path, true)"), {"path": path})
    config = _config(schema)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return [name for name, _ in missing]


def _lock_key(schema: str) -> int:
    """Return a number that is the same in every process and another for every schema."""
    return zlib.crc32(f"reconciler.migrate.{schema}".encode())


def _config(schema: str) -> Config:
    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(resources.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes.update(schema=schema, version_table=VERSION_TABLE)
    return config


def _scripts(schema: str) -> ScriptDirectory:
    return ScriptDirectory.from_config(_config(schema))


def _missing(schema: str, stands: str | None) -> list[tuple[str, Path]]:
    """Return the name and the file of each revision after *stands*, oldest first."""
    known = list(_scripts(schema).walk_revisions())
    names = [script.revision for script in known]
    if stands is not None and stands not in names:
        message = (
            f"schema {schema!r} is at {stands}, which this program does not know: a newer one made it; "
            "install that version"
        )
        raise ConfigError(message)
    newer = names if stands is None else names[: names.index(stands)]
    return [(script.revision, Path(script.path)) for script in reversed(known[: len(newer)])]


def _stands_at(connection: Connection, schema: str) -> str | None:
    """Return the revision the schema is at; None where it was never migrated."""
    columns = connection.execute(
        text("SELECT column_name FROM information_schema.columns WHERE table_schema = :schema AND table_name = :name"),
        {"schema": schema, "name": VERSION_TABLE},
    ).scalars()
    found = list(columns)
    if not found:
        return None
    if found != ["version_num"]:
        message = f"{schema}.{VERSION_TABLE} is not ours; set database.schema to another name"
        raise ConfigError(message)
    return connection.exec_driver_sql(f"SELECT max(version_num) FROM {schema}.{VERSION_TABLE}").scalar()  # noqa: S608 - a checked name


def _exists(connection: Connection, schema: str) -> bool:
    found = connection.execute(text("SELECT FROM pg_namespace WHERE nspname = :schema"), {"schema": schema})
    return found.first() is not None


def _refuse_strangers(connection: Connection, schema: str, missing: list[tuple[str, Path]]) -> None:
    ours = [name for _, path in missing for name in _MADE.findall(path.with_suffix(".sql").read_text("utf-8"))]
    strangers = connection.execute(
        text(
            "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = :schema AND relname = ANY(:ours) ORDER BY relname"
        ),
        {"schema": schema, "ours": ours},
    ).scalars()
    faults = [
        f"{schema}.{name} exists and is not ours; move it away, or set database.schema to another name"
        for name in strangers
    ]
    if faults:
        raise ConfigError(*faults)


def _in_our_words(error: DBAPIError, schema: str) -> Exception:
    said = " ".join(str(error.orig).split())
    match sqlstate(error):
        case "42501":
            return ConfigError(f"database.url: this role may not change schema {schema!r} ({said})")
        case "55P03":
            return DatabaseUnavailable(f"another program holds a table of schema {schema!r} ({said}); try again")
        case _:
            return error
