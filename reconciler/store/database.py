"""Connections and transactions: one engine a process, errors in our words, deadlocks tried again."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import psycopg
import sqlalchemy
import structlog
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from reconciler.errors import ConfigError, DatabaseUnavailable
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")

DEADLOCK = "40P01"
SERIALIZATION = "40001"
_TRIES = 5
# Classes of SQLSTATE by which the server says "not now": connection, resources, shutdown, read-only, and I/O faults.
_NOT_NOW = ("08", "53", "57", "58", "25006")
_NO_CONNECTION = "08000"
# What this program made is not there: somebody took a table or the schema away, or brings it back at this moment.
_GONE = ("42P01", "3F000")
_QUOTED = re.compile(r"""\"[^"]*"?|'[^']*'?""")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Database:
    """
    One mirror's database: where every transaction begins.

    Attributes:
        engine: SQLAlchemy's engine; its connections find our tables first.
        schema: The schema of our tables.
        url: As psycopg takes it, for the connection that listens.
    """

    engine: Engine
    schema: str
    url: str

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction, committed at the end of the block; raises `DatabaseUnavailable`."""
        with in_our_words(), self.engine.begin() as connection:
            yield connection

    def commit(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a transaction, again from its start if it was a deadlock's victim; return what it returned."""
        for left in reversed(range(_TRIES)):
            try:
                with self.transaction() as connection:
                    return work(connection)
            except OperationalError as error:
                if not left or sqlstate(error) not in {DEADLOCK, SERIALIZATION}:
                    raise
        raise AssertionError

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def connect(url: str, *, schema: str, connections: int) -> Database:
    """
    Return the database at *url*; nothing is asked of it yet.

    Transactions are READ COMMITTED, whatever the server's default is: what a statement finds behind a lock must be what
    the one before it committed. A new connection first sees whether the server is still the one that positions were
    drawn from: after a failover they go on far beyond what its last moments may have lost.

    Raises `ConfigError` for a URL or schema name that cannot be one.
    """
    if _NAME.fullmatch(schema) is None:
        message = f"database.schema: {schema!r} is not a plain lower-case name; use letters, digits and _"
        raise ConfigError(message)
    try:
        parsed = sqlalchemy.make_url(url)
    except sqlalchemy.exc.ArgumentError:
        message = "database.url: not a URL; write postgresql://USER@HOST:PORT/NAME"
        raise ConfigError(message) from None
    if parsed.get_backend_name() != "postgresql":
        message = (
            f"database.url: {parsed.get_backend_name()!r} is not PostgreSQL; write postgresql://USER@HOST:PORT/NAME"
        )
        raise ConfigError(message)
    engine = sqlalchemy.create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        pool_size=connections,
        max_overflow=4,
        pool_timeout=10,
        pool_pre_ping=False,
        isolation_level="READ COMMITTED",
        hide_parameters=True,  # errors are logged, and what was to be written is nobody's business
        connect_args={
            "options": f"-csearch_path={schema},pg_catalog",
            "connect_timeout": 5,
            "application_name": "reconciler",
        },
    )
    event.listen(engine, "connect", _follow_line)
    libpq = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    return Database(engine, schema, libpq)


@contextmanager
def in_our_words() -> Iterator[None]:
    """Turn what means "the database is not there now" into `DatabaseUnavailable`; let everything else pass."""
    try:
        yield
    except PoolTimeout as error:
        message = "every database connection of this process is busy"
        raise DatabaseUnavailable(message) from error
    except DBAPIError as error:
        state = sqlstate(error)
        if state is None and isinstance(error, OperationalError | InterfaceError):
            state = _NO_CONNECTION  # libpq said so itself; other errors without a state are about what was to be sent
        if error.connection_invalidated or (state or "").startswith(_NOT_NOW):
            raise DatabaseUnavailable(_sentence(error.orig)) from error
        if state in _GONE:
            missing = str(error.orig).partition("\n")[0]
            message = f"the database is not as this program made it: {missing}; bring it back, or restore a backup"
            raise DatabaseUnavailable(message) from error
        raise
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(_sentence(error)) from error


def _follow_line(raw: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Move positions on, before this connection draws one, if the server is not the one they were drawn from."""
    known = statements.statements()
    cursor = raw.cursor()
    moved = False
    for name in ("knows_lines", "follow_line"):
        cursor.execute(known[name])
        moved = bool(*(cursor.fetchone() or ()))
        if not moved:
            break
    cursor.close()
    raw.commit()
    if moved:
        structlog.get_logger().warning("positions.moved", because="the server is not the one they were drawn from")


def without_values(error: Exception) -> str:
    """
    Say what is wrong without what was written: messages quote it, and a server's details show whole rows.

    Of a server's words that leaves which rule was broken, and which constraint, by its name.
    """
    original: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    told: psycopg.errors.Diagnostic | None = getattr(original, "diag", None)
    said = str(original) if told is None else told.message_primary or ""
    constraint = told.constraint_name if told is not None else None
    words = _QUOTED.sub("...", " ".join(said.split())) if told is not None or not isinstance(error, DBAPIError) else ""
    name = f" ({constraint})" if constraint else ""
    return f"{type(original).__name__}{f': {words}' if words else ''}{name}"


def sqlstate(error: DBAPIError) -> str | None:
    """Return PostgreSQL's code for *error*, if it came from the server."""
    return error.orig.sqlstate if isinstance(error.orig, psycopg.Error) else None


def _sentence(error: BaseException | None) -> str:
    return " ".join(str(error).split())
