"""The schema comes to be once, whole, and only where nothing of somebody else's is in the way."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy

from reconciler import resources
from reconciler.errors import ConfigError, DatabaseUnavailable
from reconciler.store.database import connect
from reconciler.store.migrate import VERSION_TABLE, check, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.store.database import Database

_MIGRATE = """
import sys
from reconciler.store.database import connect
from reconciler.store.migrate import migrate
database = connect(sys.argv[1], schema="reconciler", connections=1)
print(*migrate(database), sep=",", end="")
database.close()
"""
_REVISIONS = sorted(path.stem.split("_")[0] for path in (resources.folder("migrations") / "versions").glob("*.sql"))


@pytest.fixture
def reader(empty_database: Database) -> Iterator[str]:
    """Yield the name of a role that may connect and do nothing else."""
    name = f"reader_of_{sqlalchemy.make_url(empty_database.url).database}"
    with psycopg.connect(empty_database.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'standin'".encode())
        yield name
        connection.execute(f"DROP ROLE {name}".encode())


def execute(database: Database, statement: str) -> None:
    """Execute *statement* in a transaction of its own."""
    with database.transaction() as connection:
        connection.exec_driver_sql(statement)


def relations(database: Database, schema: str) -> set[str]:
    """Return the names of all tables, sequences and indexes of *schema*."""
    with database.transaction() as connection:
        found = connection.execute(
            sqlalchemy.text("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(:schema)"),
            {"schema": schema},
        )
        return set(found.scalars())


def test_migrate_runs_every_revision_once(empty_database: Database, capfd: pytest.CaptureFixture[str]) -> None:
    """The first call brings an empty database up to date, the next one finds nothing to do, and neither prints."""
    first, second = migrate(empty_database), migrate(empty_database)

    check(empty_database)
    assert first == _REVISIONS
    assert second == []
    assert capfd.readouterr() == ("", "")


def test_migrate_makes_the_tables_that_others_rely_on(database: Database) -> None:
    """Every table of the contract is in the schema, and none is anywhere else."""
    promised = {
        "objects",
        "webhook_events",
        "event_objects",
        "refetches",
        "declined_writes",
        "object_history",
        "runs",
        "watermarks",
        "drift",
        VERSION_TABLE,
    }

    assert promised <= relations(database, "reconciler")
    assert relations(database, "public") == set()


def test_migrate_from_many_processes_at_once(empty_database: Database) -> None:
    """Of eight that start together one does the work, and all are content."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _MIGRATE, empty_database.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    outcomes = [each.communicate(timeout=60) for each in started]

    assert [each.returncode for each in started] == [0] * 8, outcomes
    assert sorted(said for said, _ in outcomes) == [""] * 7 + [",".join(_REVISIONS)]
    check(empty_database)


def test_schemas_in_one_database_stand_beside_each_other(empty_database: Database) -> None:
    """Each schema is a mirror of its own, with its own version."""
    other = connect(empty_database.url, schema="other", connections=1)

    assert migrate(empty_database) == migrate(other) == _REVISIONS
    assert relations(empty_database, "other") == relations(empty_database, "reconciler")
    check(other)
    other.close()


def test_a_schema_that_exists_and_is_empty_is_used(empty_database: Database) -> None:
    """An operator may make the schema, so that our role need not."""
    execute(empty_database, "CREATE SCHEMA reconciler")

    assert migrate(empty_database) == _REVISIONS


@pytest.mark.parametrize("name", ["objects", "positions", "drift"])
def test_a_table_of_somebody_else_is_not_touched(empty_database: Database, name: str) -> None:
    """A relation with one of our names stops the migration before it changes anything."""
    execute(empty_database, "CREATE SCHEMA reconciler")
    execute(empty_database, f"CREATE TABLE reconciler.{name} (theirs int)")

    with pytest.raises(ConfigError, match=rf"reconciler\.{name} exists and is not ours"):
        migrate(empty_database)

    assert relations(empty_database, "reconciler") == {name}


def test_every_stranger_is_named_at_once(empty_database: Database) -> None:
    """All tables in the way are one refusal."""
    execute(empty_database, "CREATE SCHEMA reconciler")
    execute(empty_database, "CREATE TABLE reconciler.runs (); CREATE TABLE reconciler.drift ()")

    with pytest.raises(ConfigError) as refusal:
        migrate(empty_database)

    assert len(refusal.value.faults) == 2


def test_a_version_table_of_somebody_else_is_not_believed(empty_database: Database) -> None:
    """Our version table's name on another table is refused."""
    execute(empty_database, "CREATE SCHEMA reconciler")
    execute(empty_database, f"CREATE TABLE reconciler.{VERSION_TABLE} (version int, by text)")

    with pytest.raises(ConfigError, match="is not ours"):
        migrate(empty_database)


def test_our_names_in_other_schemas_are_nobodys_business(empty_database: Database) -> None:
    """A table `objects` in public neither stops us nor is changed."""
    execute(empty_database, "CREATE TABLE public.objects (theirs int)")

    migrate(empty_database)

    with empty_database.transaction() as connection:
        columns = connection.exec_driver_sql("SELECT * FROM public.objects").keys()
    assert list(columns) == ["theirs"]


def test_check_names_the_command_where_nothing_was_migrated(empty_database: Database) -> None:
    """A database without our tables is refused with the way out."""
    with pytest.raises(ConfigError, match="run `reconcile migrate`"):
        check(empty_database)


def test_a_newer_schema_is_left_alone(database: Database) -> None:
    """A schema that a newer program made is neither served nor migrated."""
    execute(database, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")

    with pytest.raises(ConfigError, match="newer"):
        check(database)
    with pytest.raises(ConfigError, match="newer"):
        migrate(database)


def test_a_migration_that_fails_leaves_nothing(empty_database: Database) -> None:
    """What a revision did before it failed is undone with it."""
    execute(empty_database, "CREATE SCHEMA reconciler")
    # The first revision makes its tables first and this function last.
    execute(
        empty_database,
        "CREATE FUNCTION reconciler.notice_hand_edit() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )

    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        migrate(empty_database)

    assert relations(empty_database, "reconciler") == set()


def test_a_role_that_may_not_is_told_so(empty_database: Database, reader: str) -> None:
    """Missing rights are a sentence about the setting, not a traceback."""
    url = sqlalchemy.make_url(empty_database.url).set(username=reader, password="standin")
    powerless = connect(url.render_as_string(hide_password=False), schema="reconciler", connections=1)

    with pytest.raises(ConfigError, match="may not change schema"):
        migrate(powerless)
    powerless.close()


def test_a_server_that_is_not_there_is_not_a_fault_of_the_schema() -> None:
    """Nobody listening means later, for migrate and check alike."""
    nowhere = connect("postgresql://postgres@127.0.0.1:1/reconciler", schema="reconciler", connections=1)

    with pytest.raises(DatabaseUnavailable):
        migrate(nowhere)
    with pytest.raises(DatabaseUnavailable):
        check(nowhere)
    nowhere.close()
