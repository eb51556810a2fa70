"""Whose mirror this is: where it was started first, and what was configured when it was served last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler import content
from reconciler.store import statements

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Environment:
    """
    Where a mirror lives.

    Attributes:
        public_url: Where providers reach it; None: nobody said.
        server: What tells the database server's data from any other's; None: it does not tell.
        database: What tells the database from others of its server.
    """

    public_url: str | None
    server: str | None
    database: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What was configured, without secrets, and when that was applied."""

    at: datetime
    written: Mapping[str, Any]


def here(connection: Connection, *, public_url: str | None) -> Environment:
    """Return where we are."""
    permitted = statements.one(connection, "may_identify_server").permitted
    server = str(statements.one(connection, "server_identity").server) if permitted else None
    return Environment(public_url, server, str(statements.one(connection, "database_identity").database))


def remembered(connection: Connection) -> Environment | None:
    """Return where this mirror belongs; None: it was never started."""
    row = statements.row(connection, "environment")
    return None if row is None else Environment(row.public_url, row.server, row.database)


def estranged(connection: Connection, *, public_url: str | None) -> str | None:
    """
    Return, in a sentence, why this is a copy of a mirror that belongs elsewhere; None: it belongs here.

    The first start decides where it belongs. A copy may change nothing, here or at a provider.
    """
    ours, theirs = here(connection, public_url=public_url), remembered(connection)
    differs = "" if theirs is None else _difference(theirs, ours)
    if not differs:
        return None
    return f"this is a copy of a mirror that belongs elsewhere ({differs}): it stays read-only until `reconcile adopt`"


def remember(connection: Connection, *, public_url: str | None) -> None:
    """Let a mirror that was never started belong here, and note a public URL that is named for the first time."""
    statements.run(connection, "remember_environment", _told(here(connection, public_url=public_url)))


def adopt(connection: Connection, *, public_url: str | None) -> Environment:
    """Let this mirror belong here from now on, and return where that is."""
    ours = here(connection, public_url=public_url)
    statements.run(connection, "adopt_environment", _told(ours))
    return ours


def applied(connection: Connection) -> Applied | None:
    """Return what was configured when a daemon last applied its configuration; None: none ever did."""
    row = statements.row(connection, "applied_configuration")
    return None if row is None else Applied(row.applied_at, json.loads(row.written))


def apply(connection: Connection, written: Mapping[str, Any]) -> None:
    """Note what is configured from now on: *written* holds no secrets."""
    statements.run(connection, "apply_configuration", {"written": content.dumps(dict(written))})


def _difference(theirs: Environment, ours: Environment) -> str:
    """Return what differs; a URL that was never named and a server that does not tell who it is differ from nothing."""
    if theirs.public_url is not None and theirs.public_url != ours.public_url:
        return f"public_url was {theirs.public_url} and is {ours.public_url or 'not set'}"
    if None not in {theirs.server, ours.server} and theirs.server != ours.server:
        return "another database server"
    return "another database of the server" if theirs.database != ours.database else ""


def _told(environment: Environment) -> dict[str, str | None]:
    return {"public_url": environment.public_url, "server": environment.server, "database": environment.database}
