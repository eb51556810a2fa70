"""
Verified deliveries kept on this machine's disk while the database is away.

Whoever says `[web] spool = true` declares the state directory to be durable: what is kept here is acknowledged. It
is moved into the database in the order in which it came, each delivery once, whatever crashes in between.
"""

from __future__ import annotations

import base64
import sqlite3
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reconciler import content
from reconciler.errors import DatabaseUnavailable
from reconciler.model import Named, Notification, ObjectRef
from reconciler.store.events import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reconciler.model import Body

FILE = "spool.sqlite"
"""Its name in the state directory."""

_SCHEMA = """\
CREATE TABLE IF NOT EXISTS spools (name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spooled (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    source   TEXT NOT NULL,
    event_id TEXT NOT NULL,
    arrival  TEXT NOT NULL,
    refused  TEXT
);
CREATE INDEX IF NOT EXISTS spooled_events ON spooled (source, event_id);
"""
_HELD = "SELECT count(*), COALESCE(sum(length(arrival)), 0) FROM spooled WHERE refused IS NULL"
_OLDEST = "SELECT number, arrival FROM spooled WHERE refused IS NULL ORDER BY number LIMIT ?"


@dataclass(frozen=True, slots=True)
class Part:
    """
    The oldest deliveries of a spool.

    Attributes:
        numbers: One for each arrival, rising.
    """

    numbers: tuple[int, ...]
    arrivals: tuple[Arrival, ...]


class Spool:
    """
    One file of deliveries; safe from any thread, and from several processes.

    Attributes:
        name: Tells it from every other spool, for the database to note how far it has been moved.
    """

    def __init__(self, place: Path, *, most: int) -> None:
        """Open the spool at *place*, which takes *most* bytes; raises `DatabaseUnavailable` where it cannot be used."""
        self._place, self._most = place, most
        self._lock = threading.Lock()
        with self._told():
            place.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=5)
            place.chmod(0o600)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript(_SCHEMA)
            self.name = self._named()
            held, size = self._one(_HELD)
        self._waiting, self._size = int(held), int(size)

    @property
    def waiting(self) -> int:
        """How many deliveries this process knows to wait here."""
        return self._waiting

    def close(self) -> None:
        """Close the file; what waits in it is moved by the next process."""
        with self._lock:
            self._file.close()

    def keep(self, arrivals: Sequence[Arrival], *, behind_others: bool = False) -> list[bool] | None:
        """
        Return, once these are durable, which of them are repeats of what waits here.

        With *behind_others*, keep them only where others wait, and return None where none do. Raises
        `DatabaseUnavailable` where the file cannot take them.
        """
        with self._lock:
            if behind_others and not self._waiting:
                return None
            written = [content.dumps(_written(each)) for each in arrivals]
            size = sum(map(len, written))
            if self._size + size > self._most:
                message = f"the spool {self._place} is full: it holds {self._size} bytes (web.spool_max)"
                raise DatabaseUnavailable(message)
            with self._told(), self._transaction():
                repeats = [self._keep(each, text) for each, text in zip(arrivals, written, strict=True)]
            self._waiting += len(arrivals)
            self._size += size
        return repeats

    def first(self, most: int) -> Part:
        """Return the oldest that wait, *most* at a time."""
        with self._lock, self._told():
            rows = self._file.execute(_OLDEST, (most,)).fetchall()
            if not rows:
                self._waiting = 0
        return Part(tuple(number for number, _ in rows), tuple(_read(content.parse(text)) for _, text in rows))

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget what is in the database now."""
        with self._lock, self._told(), self._transaction():
            for number in numbers:
                gone = self._file.execute("DELETE FROM spooled WHERE number = ? RETURNING length(arrival)", (number,))
                self._let_go(gone.fetchone())

    def refuse(self, number: int, because: str) -> None:
        """Set aside for good what the database will not hold; it stays in the file, with the reason."""
        with self._lock, self._told():
            told = self._file.execute(
                "UPDATE spooled SET refused = ? WHERE number = ? RETURNING length(arrival)", (because, number)
            )
            self._let_go(told.fetchone())

    def hindrance(self) -> str | None:
        """Return why nothing could be kept now, in words; None: it could."""
        if self._size >= self._most:
            return f"the spool {self._place} is full"
        try:
            with self._lock, self._told(), self._transaction():
                self._file.execute("UPDATE spools SET name = name")
        except DatabaseUnavailable as error:
            return str(error)
        return None

    def _keep(self, arrival: Arrival, text: str) -> bool:
        told = arrival.notification
        key = (told.source, told.event_id)
        known = self._file.execute("SELECT 1 FROM spooled WHERE (source, event_id) = (?, ?)", key).fetchone()
        self._file.execute("INSERT INTO spooled (source, event_id, arrival) VALUES (?, ?, ?)", (*key, text))
        return known is not None

    def _let_go(self, row: tuple[int] | None) -> None:
        if row is not None:
            self._waiting = max(0, self._waiting - 1)
            self._size = max(0, self._size - row[0])

    def _named(self) -> str:
        with self._transaction():
            self._file.execute("INSERT INTO spools SELECT ? WHERE NOT EXISTS (SELECT 1 FROM spools)", (str(uuid4()),))
        [name] = self._one("SELECT name FROM spools")
        return str(name)

    def _one(self, statement: str) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._file.execute(statement).fetchone()
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what is wrong with the file into a sentence."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            message = f"the spool {self._place} cannot be used: {error}"
            raise DatabaseUnavailable(message) from error


def _written(arrival: Arrival) -> Body:
    told = arrival.notification
    return {
        "source": told.source,
        "event_id": told.event_id,
        "event_type": told.event_type,
        "occurred_at": _spelled(told.occurred_at),
        "payload": told.payload,
        "raw": None if told.raw is None else base64.b64encode(told.raw).decode("ascii"),
        "named": [
            [each.ref.source, each.ref.scope, each.ref.kind, each.ref.id, _spelled(each.stamp), each.locator]
            for each in told.named
        ],
        "skipped": told.skipped,
        "secret": told.secret,
        "headers": content.clean(dict(arrival.headers))[0],
        "received_at": _spelled(arrival.received_at),
    }


def _read(written: Body) -> Arrival:
    named = tuple(
        Named(ObjectRef(source, scope, kind, id_), _moment(stamp), locator)
        for source, scope, kind, id_, stamp, locator in written["named"]
    )
    raw = written["raw"]
    notification = Notification(
        source=written["source"],
        event_id=written["event_id"],
        event_type=written["event_type"],
        occurred_at=_moment(written["occurred_at"]),
        payload=written["payload"],
        raw=None if raw is None else base64.b64decode(raw),
        named=named,
        skipped=written["skipped"],
        secret=written["secret"],
    )
    return Arrival(notification, written["headers"], datetime.fromisoformat(written["received_at"]))


def _spelled(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
