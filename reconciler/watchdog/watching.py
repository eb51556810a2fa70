"""When the watchdog looks at what: a table of looks, each with its own time, for each source."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from reconciler.budgets import Lane
from reconciler.errors import AccessLost, DatabaseUnavailable, SourceError, SourceUnavailable
from reconciler.store import findings, sources, statements
from reconciler.store.findings import What
from reconciler.watchdog.redelivering import Redelivering
from reconciler.watchdog.silence import Listening
from reconciler.watchdog.subscriptions import Checking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from reconciler.budgets import Budgets
    from reconciler.store.database import Database
    from reconciler.store.vouching import Vouching
    from reconciler.watchdog.watched import Watched

    Look: TypeAlias = "Callable[[Watched, datetime], datetime]"

_PATIENCE: Final = 1800.0  # seconds for the calls of one look: there may be a webhook for each of many repositories
_PUT_OFF: Final = timedelta(minutes=15)
_HOURLY: Final = timedelta(hours=1)
_OFTEN: Final = timedelta(minutes=10)
_SHORT_LIVED: Final = timedelta(days=2)  # what is still so is said again within a day
_LOOP: Final = "watchdog"


@dataclass(frozen=True, slots=True)
class _Part:
    """One sort of look: what it does, returning when it is due again."""

    name: str
    look: Look


class Watchdog:
    """
    Looks after how notifications of every source come, in this process as long as it leads.

    Attributes:
        failure: What ended it; None: nothing did.
    """

    def __init__(
        self,
        database: Database,
        watched: Iterable[Watched],
        *,
        vouching: Vouching,
        budgets: Budgets,
        wake: Callable[[], None],
        beat: Callable[[str], None] = lambda _: None,
        tick: float = 2.0,
    ) -> None:
        """Ask nothing yet; *wake* tells whoever works off what is wanted."""
        self.failure: BaseException | None = None
        self._database, self._budgets = database, budgets
        self._watched = tuple(watched)
        self._beat, self._tick = beat, tick
        self._checking = Checking(database, vouching, recently=timedelta(days=1))
        self._redelivering = Redelivering(database, wake=wake)
        self._listening = Listening(database)
        self._stop = threading.Event()
        self._due: dict[tuple[str, str], datetime] = {}
        self._said = False
        self._log = structlog.get_logger()
        self._thread: threading.Thread | None = None
        self._parts = (
            _Part("subscriptions", self._subscriptions),
            _Part("deliveries", self._deliveries),
            _Part("silence", self._silence),
            _Part("allotments", self._allotments),
        )

    def start(self, stop: threading.Event, leads: threading.Event) -> None:
        """Look, in a thread of its own, whenever *leads* is set, until *stop* is; then a look ends at its next call."""
        self._stop = stop
        self._thread = threading.Thread(target=self._run, args=(stop, leads), name=_LOOP, daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait at most so long until the thread has ended, and return whether it has."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def turn(self, now: datetime | None = None) -> None:
        """
        Do every look that is due, but for sources that a person paused: their looks are due once that is over.

        *now* is the database's clock where it is not given.
        """
        try:
            with self._database.transaction() as connection:
                moment = statements.one(connection, "clock", {"now": now}).now
                held = sources.held(connection)
        except DatabaseUnavailable as error:
            self._log.warning("watchdog.put_off", because=str(error))
            return
        for watched in (each for each in self._watched if each.source not in held):
            for part in self._parts:
                if moment >= self._due.get((watched.source, part.name), moment):
                    self._look(part, watched, moment)

    def _run(self, stop: threading.Event, leads: threading.Event) -> None:
        try:
            while not stop.wait(self._tick):
                self._beat(_LOOP)
                if leads.is_set():
                    self.turn()
                else:
                    self._due.clear()  # whoever leads next looks at once
        except BaseException as error:
            self.failure = error
            raise

    def _look(self, part: _Part, watched: Watched, now: datetime) -> None:
        """Do one look; whatever goes wrong is told, and that look is put off."""
        key = (watched.source, part.name)
        self._due[key] = now + _PUT_OFF
        try:
            with self._budgets.calling(Lane.SWEEP, _PATIENCE, beat=self._go_on):
                self._due[key] = part.look(watched, now)
        except AccessLost as lost:
            self._due[key] = now + _HOURLY  # the sweeps' own alarm says so; this need not be said often
            self._log.info("watchdog.put_off", source=watched.source, look=part.name, because=str(lost))
        except (SourceError, DatabaseUnavailable) as error:
            self._log.warning("watchdog.put_off", source=watched.source, look=part.name, because=str(error))
        except Exception as error:  # noqa: BLE001 - one source's look must not end the others'; it is told and tried again
            self._log.exception("watchdog.failed", source=watched.source, look=part.name, because=str(error))

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise SourceUnavailable("the process is stopping")
        self._beat(_LOOP)

    def _subscriptions(self, watched: Watched, now: datetime) -> datetime:
        if watched.addresses:
            self._checking.check(watched)
        elif not self._said:
            self._said = True
            self._log.info("subscription.unchecked", because="public_url is not set")
        return watched.night(now)

    def _deliveries(self, watched: Watched, now: datetime) -> datetime:
        self._redelivering.look(watched, now)
        self._database.commit(lambda c: findings.expire(c, watched.source, What.DEPRECATED, before=now - _SHORT_LIVED))
        return now + _HOURLY

    def _silence(self, watched: Watched, now: datetime) -> datetime:
        if watched.hears:
            self._listening.listen(watched.source, now)
        return now + _OFTEN

    def _allotments(self, watched: Watched, now: datetime) -> datetime:
        self._budgets.allot(watched.source, now)
        return watched.night(now)
