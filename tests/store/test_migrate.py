"""The schema comes to be once, whole, and only where nothing of somebody else's is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.store.migrate import check, migrate

if TYPE_CHECKING:
    from reconciler.store.database import Database


def test_migrate_brings_an_empty_database_up_to_date(empty_database: Database) -> None:
    """The first call runs every revision, the next one none, and check is content."""
    first, second = migrate(empty_database), migrate(empty_database)

    check(empty_database)
    assert first == ["0001"]
    assert second == []


def test_database_fixture_is_migrated(database: Database) -> None:
    """A test gets the schema without asking for it."""
    check(database)
