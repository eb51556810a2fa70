"""
Typed views: for each kind of each provider one, named `PROVIDER_KIND`, made from the table of kinds.

A view only ever gains columns, at its end: what was built on it goes on working. One whose kind is gone stays.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from psycopg import sql
from sqlalchemy.exc import DBAPIError

from reconciler.adapter import Column
from reconciler.errors import ConfigError
from reconciler.store import migrate, statements
from reconciler.store.database import sqlstate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import timedelta

    from sqlalchemy import Connection

    from reconciler.adapter import Kind
    from reconciler.store.database import Database

_LEADING: Final = frozenset({"source", "scope", "id", "source_updated_at", "observed_at"})
_TYPES: Final = frozenset({"text", "bigint", "numeric", "boolean", "timestamptz", "epoch", "date", "jsonb"})
# To who reads them, seconds and written times are of one type.
_SHOWN_AS: Final = {"epoch": "timestamptz"}
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# What the server says where something that is no view of ours has the name of one.
_IN_THE_WAY: Final = frozenset({"42809", "42P16"})


@dataclass(frozen=True, slots=True)
class Described:
    """
    What a source is, as far as its readers need to know.

    Attributes:
        production: It shows what is real, not what its provider keeps for tests.
        kinds: The names of those it mirrors.
    """

    source: str
    provider: str
    production: bool
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """
    The view of a kind.

    Attributes:
        columns: Those after the ones that every view has, in their order.
        definition: The statement that makes it; empty: it is not there any more.
    """

    name: str
    provider: str
    kind: str
    columns: tuple[Column, ...]
    definition: str


def describe(connection: Connection, described: Sequence[Described]) -> None:
    """Say what these sources are; of others nothing changes."""
    statements.run(connection, "describe_sources", {"sources": json.dumps([asdict(each) for each in described])})


def make(
    database: Database, kinds: Mapping[str, Mapping[str, Kind]], *, patience: timedelta = migrate.PATIENCE
) -> list[str]:
    """
    Make the view of each of *kinds*, given by provider and name, and return the names of those made or changed.

    The schema must be up to date. Each view is changed in a transaction of its own, which waits no longer than
    *patience* for whoever is reading it. Safe to start many times at once. Raises `ConfigError` for kinds that make no
    view, all at once, and for what is in the way of one; `DatabaseUnavailable` where one stays in use: those made by
    then stay.
    """
    faults = [fault for provider, kind in _each(kinds) for fault in _faults(provider, kind)]
    called = Counter(_name(provider, kind) for provider, kind in _each(kinds))
    faults += [f"{name} would be the view of several kinds" for name, times in called.items() if times > 1]
    if faults:
        raise ConfigError(*faults)
    with database.transaction() as connection:
        kept = _kept(connection)
    stale = [(provider, kind) for provider, kind in _each(kinds) if _is_stale(_drawn(provider, kind, kept), kept)]
    return [_name(provider, kind) for provider, kind in stale if _made(database, provider, kind, patience=patience)]


def _each(kinds: Mapping[str, Mapping[str, Kind]]) -> Iterator[tuple[str, Kind]]:
    for provider, known in kinds.items():
        for kind in known.values():
            yield provider, kind


def _name(provider: str, kind: Kind) -> str:
    return f"{provider}_{kind.name}"


def _faults(provider: str, kind: Kind) -> Iterator[str]:
    """Yield a sentence for whatever keeps *kind* from having a view."""
    named = [_name(provider, kind), *(column.name for column in kind.columns)]
    for name in named:
        if _NAME.fullmatch(name) is None:
            yield f"{provider}.{kind.name}: {name!r} is no name of a view or column; use up to 63 of a-z, 0-9 and _"
    for name, times in Counter(named[1:]).items():
        if times > 1:
            yield f"{provider}.{kind.name}: several columns are called {name}"
    for column in kind.columns:
        if column.type not in _TYPES:
            yield f"{provider}.{kind.name}.{column.name}: type {column.type!r} is none of {', '.join(sorted(_TYPES))}"


def _kept(connection: Connection) -> dict[str, View]:
    """Return the views that were made here, by name."""
    return {
        row.name: View(
            row.name,
            row.provider,
            row.kind,
            tuple(Column(each["name"], tuple(each["pointers"]), each["type"]) for each in json.loads(row.columns)),
            row.definition if row.stands else "",
        )
        for row in statements.rows(connection, "typed_views")
    }


def _is_stale(view: View, kept: Mapping[str, View]) -> bool:
    return kept.get(view.name) != view


def _made(database: Database, provider: str, kind: Kind, *, patience: timedelta) -> bool:
    """Make the view of *kind* unless somebody else has by now; return whether it was to be made."""
    with migrate.alone(database, patience=patience) as connection:
        kept = _kept(connection)
        view = _drawn(provider, kind, kept)
        if not _is_stale(view, kept):
            return False
        before = kept.get(view.name, replace(view, definition=""))
        taken = not before.definition and statements.one(connection, "stranger", {"name": view.name}).stands
        if taken or (before.provider, before.kind) != (provider, kind.name):
            raise _in_the_way(database, view.name)
        try:
            connection.exec_driver_sql(view.definition, execution_options={"no_parameters": True})
        except DBAPIError as error:
            if sqlstate(error) in _IN_THE_WAY:
                raise _in_the_way(database, view.name) from error
            raise
        if not before.definition:
            statements.run(connection, "share_view", {"name": view.name})
        columns = json.dumps([asdict(column) for column in view.columns])
        about = {"name": view.name, "provider": provider, "kind": kind.name}
        statements.run(connection, "keep_view", about | {"columns": columns, "definition": view.definition})
    return True


def _in_the_way(database: Database, name: str) -> ConfigError:
    return ConfigError(f"{database.schema}.{name} exists and is not ours; move it away, and run `reconcile migrate`")


def _drawn(provider: str, kind: Kind, kept: Mapping[str, View]) -> View:
    """Return the view of *kind* as it is to be, which keeps every column that it had."""
    name = _name(provider, kind)
    columns = {column.name: column for column in kept[name].columns} if name in kept else {}
    for column in kind.columns:
        called = _called(column, provider, columns)
        columns[called] = replace(column, name=called)
    chosen = tuple(columns.values())
    return View(name, provider, kind.name, chosen, _definition(name, provider, kind, chosen))


def _called(column: Column, provider: str, before: Mapping[str, Column]) -> str:
    """Return the name of *column* in its view: another where a name that came first has another meaning or type."""
    name = f"{provider}_{column.name}" if column.name in _LEADING else column.name
    if name in before and _shown_as(before[name].type) != _shown_as(column.type):
        return f"{name}_{_shown_as(column.type)}"
    return name


def _shown_as(type_: str) -> str:
    return _SHOWN_AS.get(type_, type_)


def _definition(name: str, provider: str, kind: Kind, columns: Sequence[Column]) -> str:
    parts: dict[str, sql.Composable] = {
        "view": sql.Identifier(name),
        "provider": sql.Literal(provider),
        "kind": sql.Literal(kind.name),
        "columns": sql.SQL("").join(map(_column, columns)),
        "test": sql.SQL("NULL::jsonb") if kind.test is None else _value(kind.test),
    }
    return sql.SQL(statements.statements()["make_view"]).format(**parts).as_string()


def _column(column: Column) -> sql.Composed:
    values = [_value(pointer) for pointer in column.pointers]
    chosen = values[0]
    if len(values) > 1:
        there = [sql.SQL("NULLIF({}, 'null')").format(value) for value in values]
        chosen = sql.SQL("COALESCE({})").format(sql.SQL(", ").join(there))
    fitted = {"fit": sql.Identifier(f"as_{column.type}"), "value": chosen, "name": sql.Identifier(column.name)}
    return sql.SQL(",\n       {fit}({value}) AS {name}").format(**fitted)


def _value(pointer: str) -> sql.Composed:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    if len(steps) == 1:
        return sql.SQL("mine.body -> {}").format(sql.Literal(steps[0]))
    return sql.SQL("mine.body #> {}::text[]").format(sql.Literal(steps))
