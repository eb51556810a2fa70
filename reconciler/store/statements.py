"""
Named SQL statements, read from the `.sql` files of this folder.

A statement begins with `-- name: NAME` and the comment lines that follow it are its promise. Parameters are
psycopg's (`%(name)s`, or `%(name)b` for arrays, whose binary form is four times faster).
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements() -> dict[str, str]:
    """Return every statement by name; raises RuntimeError if two share one."""
    found: dict[str, str] = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda each: each.name):
        if not file.name.endswith(".sql"):
            continue
        for name, statement in read(file.read_text(encoding="utf-8")):
            if name in found:
                message = f"two statements are called {name}"
                raise RuntimeError(message)
            found[name] = statement
    return found


def read(text: str) -> Iterator[tuple[str, str]]:
    """Yield each statement of one file's *text* with its name, without comments."""
    _, *parts = _HEAD.split(text)
    for name, statement in zip(parts[::2], parts[1::2], strict=True):
        yield name, "\n".join(line for line in statement.splitlines() if not line.lstrip().startswith("--")).strip()


def run(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> int:
    """Execute statement *name* for its effect; return how many rows it touched."""
    return connection.exec_driver_sql(statements()[name], dict(parameters or {})).rowcount


def rows(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
    """Execute statement *name* and return all its rows."""
    return connection.exec_driver_sql(statements()[name], dict(parameters or {})).all()


def row(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> Row[Any] | None:
    """Execute statement *name* and return its first row, or None."""
    return connection.exec_driver_sql(statements()[name], dict(parameters or {})).first()


def one(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> Row[Any]:
    """Execute statement *name*, which always has a row, and return it."""
    return connection.exec_driver_sql(statements()[name], dict(parameters or {})).one()
