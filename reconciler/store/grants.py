"""Who may do what: the SQL that gives each role what it needs, to be read and run by whoever may."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from importlib import resources
from typing import Final

from psycopg import sql

from reconciler.errors import ConfigError

_LONGEST: Final = 63  # bytes of a name


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the roles: whose the schema is, who writes rows, who reads them."""

    owner: str
    writer: str
    reader: str


def grants(schema: str, roles: Roles) -> str:
    """
    Return the SQL that gives each of *roles* what it needs in *schema*, to be run by who may create roles.

    Safe to run again, and before the first migration; then once more after it, for what the reader may see. Raises
    `ConfigError` for names that cannot be those of roles.
    """
    faults = [f"role {name!r} cannot be a role's name; choose another" for name in astuple(roles) if not _is_name(name)]
    if faults:
        raise ConfigError(*faults)
    words = {"schema": schema, "owner": roles.owner, "writer": roles.writer, "reader": roles.reader}
    parts: dict[str, sql.Composable] = {word: sql.Identifier(name) for word, name in words.items()}
    parts |= {f"{word}_name": sql.Literal(name) for word, name in words.items()}
    script = resources.files(__package__) / "scripts" / "grants.sql"
    return sql.SQL(script.read_text(encoding="utf-8")).format(**parts).as_string()


def _is_name(name: str) -> bool:
    """Say whether *name* may stand inside what the server quotes with `$`."""
    return 0 < len(name.encode()) <= _LONGEST and name.isprintable() and not set(name) & {"$", "\\"}
