"""Whose mirror this is: the first start decides, a copy elsewhere is told from it, and a person may adopt it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from reconciler.store import environment

if TYPE_CHECKING:
    from reconciler.store.database import Database

_URL = "https://hooks.example.com"


def start(database: Database, url: str | None) -> str | None:
    """Start as the program does, and return why that is not possible."""
    estranged = database.commit(partial(environment.estranged, public_url=url))
    if estranged is None:
        database.commit(partial(environment.remember, public_url=url))
    return estranged


def put(database: Database, column: str, value: str) -> None:
    """Let the mirror remember something else."""
    with database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE environment SET {column} = {value}")


def test_the_first_start_decides(database: Database) -> None:
    """A mirror belongs where it was started first; a URL that is named later is remembered, and kept."""
    told = [start(database, url) for url in (None, None, _URL, _URL)]
    elsewhere = [start(database, url) for url in ("https://staging.example.com", None)]

    assert told == [None] * 4
    assert elsewhere[0] == (
        "this is a copy of a mirror that belongs elsewhere (public_url was https://hooks.example.com and is "
        "https://staging.example.com): it stays read-only until `reconcile adopt`"
    )
    assert "is not set" in str(elsewhere[1])
    assert start(database, _URL) is None


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("database", "'1'", "another database of the server"),
        ("server", "'1'", "another database server"),
        ("server", "NULL", None),
    ],
)
def test_a_copied_database(database: Database, column: str, value: str, said: str | None) -> None:
    """A copy in another database or server is told from the original; a server that tells nothing is believed."""
    start(database, _URL)
    put(database, column, value)

    told = start(database, _URL)

    assert (told is None) if said is None else (said in str(told))


def test_adopt(database: Database) -> None:
    """An adopted copy belongs where it is, and the place it came from is another one for it."""
    start(database, _URL)
    put(database, "server", "'1'")

    now = database.commit(partial(environment.adopt, public_url="https://new.example.com"))

    assert database.commit(environment.remembered) == now
    assert start(database, "https://new.example.com") is None
    assert start(database, _URL) is not None
