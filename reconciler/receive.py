"""
Deliveries in, receipts out: a receipt exists only for what the database, or a spool, has committed.

Whatever arrives while one transaction commits is written together in the next one, by one thread.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import structlog
from sqlalchemy.exc import DBAPIError

from reconciler.errors import (
    DatabaseUnavailable,
    DeliveryMalformed,
    DeliveryRejected,
    ReconcilerError,
    SignatureInvalid,
)
from reconciler.model import Verdict, Via
from reconciler.store import declined, events, ready, spooled
from reconciler.store.database import sqlstate
from reconciler.store.events import Arrival, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from sqlalchemy import Connection
    from structlog.typing import FilteringBoundLogger

    from reconciler.metrics import Metrics
    from reconciler.model import Delivery, Notification
    from reconciler.spool import Spool
    from reconciler.store.database import Database
    from reconciler.store.declined import Decline

_VOUCHING = re.compile(r"signature|hmac|authori[sz]ation|cookie|token|secret|password|api-?key", re.IGNORECASE)
"""Headers that prove something to whoever holds them are not kept."""

_UNSTORABLE = ("22", "54")
"""Classes of SQLSTATE that are about what is written, not about who holds the database."""

_READ_ASIDE = 64 * 1024
"""Bytes beyond which reading a body would hold up the event loop."""

_LINES = {"stored": "delivery.stored", "duplicate": "delivery.duplicate", "ignored": "delivery.ignored"}
_NAMED = 64  # characters of a name that anybody may make up
_IDLE = 5.0  # seconds between two signs of life of a writer that has nothing to write
_MOVED_TOGETHER = 256
_MOVES_AGAIN = 1.0  # seconds until a database that was away is tried again

Outcome: TypeAlias = tuple[Receipt, ...] | ReconcilerError


class Reader(Protocol):
    """What stands behind a name that deliveries are sent to: an adapter, or an endpoint before several of them."""

    @property
    def provider(self) -> str:
        """Return the provider's name."""

    def read(self, delivery: Delivery) -> tuple[Notification, ...]:
        """Verify and parse in one step; raises `SignatureInvalid` or `DeliveryMalformed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    How much waits, and for how long.

    Attributes:
        waiting: Deliveries that may wait for the writer; more are refused for now.
        waiting_bytes: The same in bytes of their bodies.
        together: Deliveries written in one transaction, at most.
        together_bytes: The same in bytes; a larger one is written alone.
        patience: Seconds until a sender is told to come again. The least patient provider waits for 5.
    """

    waiting: int = 4096
    waiting_bytes: int = 128 * 1024 * 1024
    together: int = 256
    together_bytes: int = 8 * 1024 * 1024
    patience: float = 4.0


DEFAULTS = Limits()


class Receiver:
    """
    What answers deliveries, from any number of threads and event loops.

    Start it before the first delivery and close it after the last; *beat* is called whenever its writer turns. With a
    *spool*, what the database cannot take now is kept there, and all that comes after it, until it has been moved.
    """

    def __init__(
        self,
        database: Database,
        readers: Mapping[str, Reader],
        metrics: Metrics,
        *,
        log: FilteringBoundLogger | None = None,
        limits: Limits = DEFAULTS,
        beat: Callable[[], None] = lambda: None,
        spool: Spool | None = None,
    ) -> None:
        self._database, self._readers, self._metrics = database, dict(readers), metrics
        self._log: FilteringBoundLogger = log or structlog.get_logger()
        self._limits, self._beat = limits, beat
        self._queue = _Queue(limits)
        self._writer = Thread(target=self._run, name="receive-writer", daemon=True)
        self._spool = spool
        self._mover = Thread(target=self._move, name="receive-mover", daemon=True)
        self._listening, self._closing = Event(), Event()
        if readers:
            self._listening.set()
        self._retired = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(self._limits.patience)

    def start(self) -> None:
        """Begin to write."""
        self._writer.start()
        if self._spool is not None:
            self._mover.start()

    def retire(self) -> None:
        """Say from now on that no more should be sent here; what comes is still stored."""
        self._retired = True

    def listen(self, readers: Mapping[str, Reader], *, beat: Callable[[], None]) -> None:
        """Take deliveries for these names from now on, and for no others; what was taken before is still written."""
        self._readers, self._beat = dict(readers), beat
        self._listening.set()

    @property
    def retired(self) -> bool:
        """Say whether `retire` was called."""
        return self._retired

    def close(self, grace: float) -> None:
        """Take nothing more, and return once what was taken is written, or after *grace* seconds."""
        self.retire()
        self._queue.close()
        self._closing.set()
        for thread in (self._writer, self._mover):
            if thread.ident is not None:
                thread.join(grace)

    def provider(self, name: str) -> str | None:
        """Return the provider behind *name*; None where nobody listens there."""
        reader = self._readers.get(name)
        return None if reader is None else reader.provider

    def receive(self, name: str, delivery: Delivery) -> Receipt:
        """
        Return once what *delivery* tells is durable.

        Raises `DeliveryRejected` for what nobody vouches for or cannot be stored, `DatabaseUnavailable` while nothing
        can be, KeyError for a name where nobody listens.
        """
        told: SimpleQueue[Outcome] = SimpleQueue()
        arrivals = self._read(name, delivery)
        if not arrivals:
            return self._answer(name, ())
        try:
            self._queue.put(_Waiting(arrivals, len(delivery.body), told.put))
            outcome = told.get(timeout=self._limits.patience)
        except Empty:
            raise self._unavailable(name, _TOO_SLOW) from None
        except DatabaseUnavailable as error:
            raise self._unavailable(name, error) from error
        return self._answer(name, outcome)

    async def received(self, name: str, delivery: Delivery) -> Receipt:
        """Do what `receive` does without holding up the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        if len(delivery.body) > _READ_ASIDE:
            arrivals = await asyncio.to_thread(self._read, name, delivery)
        else:
            arrivals = self._read(name, delivery)
        if not arrivals:
            return self._answer(name, ())
        try:
            self._queue.put(_Waiting(arrivals, len(delivery.body), partial(_tell, loop, future)))
            async with asyncio.timeout(self._limits.patience):
                outcome = await future
        except TimeoutError:
            raise self._unavailable(name, _TOO_SLOW) from None
        except DatabaseUnavailable as error:
            raise self._unavailable(name, error) from error
        return self._answer(name, outcome)

    def hindrance(self) -> str | None:
        """Return why a delivery could not be made durable now, in words; asks the database, and may wait for it."""
        if self._retired or not self._writer.is_alive():
            return "shutting down" if self._retired else "not started"
        if self._queue.full():
            return _FULL
        try:
            self._database.commit(ready.probe)
        except DatabaseUnavailable as error:
            return str(error) if self._spool is None else self._spool.hindrance()
        except DBAPIError as error:
            return f"the database refuses: {str(error.orig).splitlines()[0]}"
        return None

    def refused(self, name: str, reason: str, *, because: str) -> None:
        """Count and log a delivery that is not taken; the caller answers it."""
        self._metrics.delivered(name, "refused")
        self._log.warning("delivery.refused", source=name, reason=reason, because=because)

    def misdirected(self, name: str) -> None:
        """Log a delivery to a *name* that nobody has; anybody may make one up, so that it is no label of a metric."""
        because = f"no source or endpoint has that name; there is: {', '.join(sorted(self._readers)) or 'none'}"
        self._log.warning("delivery.refused", source=name[:_NAMED], reason="unknown", because=because)

    def _read(self, name: str, delivery: Delivery) -> tuple[Arrival, ...]:
        reader = self._readers[name]
        try:
            notifications = reader.read(delivery)
        except DeliveryRejected as error:
            self.refused(name, reason(error), because=str(error))
            raise
        except Exception as error:
            # Whatever a sender can send is answered 4xx: a fault of ours here must not look like an outage.
            self._log.exception("delivery.unreadable", source=name)
            self.refused(name, "malformed", because=f"reading it failed: {type(error).__name__}")
            raise DeliveryMalformed("it cannot be read") from error
        headers = {key: value for key, value in delivery.headers.items() if not _VOUCHING.search(key)}
        return tuple(Arrival(each, headers, delivery.received_at) for each in notifications)

    def _answer(self, name: str, outcome: Outcome) -> Receipt:
        if isinstance(outcome, DatabaseUnavailable):
            raise self._unavailable(name, outcome) from outcome
        if isinstance(outcome, ReconcilerError):
            raise outcome
        if not outcome:
            self._metrics.delivered(name, "ignored")
        return _one(name, outcome)

    def _unavailable(self, name: str, error: DatabaseUnavailable) -> DatabaseUnavailable:
        self._metrics.delivered(name, "unavailable")
        self._log.warning("delivery.unavailable", source=name, because=str(error))
        return DatabaseUnavailable(str(error))

    def _run(self) -> None:
        while (batch := self._queue.take(_IDLE)) is not None:
            self._beat()
            try:
                self._write(batch)
            except Exception:  # noqa: BLE001 - the outermost loop: a fault of ours costs a repeat, not all that follows
                self._log.exception("write.failed")
                _tell_all(batch, DatabaseUnavailable("the delivery could not be written"))

    def _write(self, batch: Sequence[_Waiting]) -> None:
        """Write *batch* in one transaction and tell everyone; what a single delivery spoils is split."""
        if not batch:
            return
        arrivals = [arrival for waiting in batch for arrival in waiting.arrivals]
        if self._spool is not None and self._keep(self._spool, batch, arrivals, behind_others=True):
            return
        try:
            receipts, declines = self._database.commit(partial(_record, arrivals))
        except DatabaseUnavailable as error:
            if self._spool is None:
                _tell_all(batch, error)
            else:
                self._log.warning("spool.needed", because=str(error))
                self._keep(self._spool, batch, arrivals)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others of the batch must not suffer for it
            if len(batch) > 1:
                middle = len(batch) // 2
                self._write(batch[:middle])
                self._write(batch[middle:])
            else:
                self._spoil(batch[0], error)
        else:
            self._hand_out(batch, receipts)
            self._note(arrivals, receipts)
            self._note_declines(declines)

    def _keep(
        self, spool: Spool, batch: Sequence[_Waiting], arrivals: Sequence[Arrival], *, behind_others: bool = False
    ) -> bool:
        """Have the spool keep *batch*, and tell everyone; return whether there was reason to."""
        try:
            repeats = spool.keep(arrivals, behind_others=behind_others)
        except DatabaseUnavailable as error:
            _tell_all(batch, error)
            return True
        if repeats is None:
            return False
        receipts = [
            Receipt(told.source, told.event_id, duplicate=repeat, ignored=not told.named or bool(told.skipped))
            for told, repeat in zip((each.notification for each in arrivals), repeats, strict=True)
        ]
        self._hand_out(batch, receipts)
        self._note(arrivals, receipts, kept="in the spool")
        return True

    def _move(self) -> None:
        """Move what the spool keeps into the database, oldest first, whenever the database is there."""
        spool = self._spool
        assert spool is not None  # noqa: S101 - started for it alone
        pause, most = 0.0, _MOVED_TOGETHER
        while not self._closing.wait(pause):
            pause = _MOVES_AGAIN
            if not (spool.waiting and self._listening.is_set()):
                continue
            try:
                moved = self._move_some(spool, most)
            except DatabaseUnavailable:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and what waits is kept
                # One that spoils the others is found by moving each alone, and does not hold them up for ever.
                if most == 1 and _is_about_contents(error):
                    self._refuse_oldest(spool, error)
                elif most == 1:
                    self._log.exception("spool.not_moved")
                    continue
                most = 1
            else:
                most = _MOVED_TOGETHER if moved else most
            pause = 0.0

    def _move_some(self, spool: Spool, most: int) -> int:
        """Move the oldest into the database, then forget them; return how many there were."""
        part = spool.first(most)
        if not part.numbers:
            return 0

        def work(connection: Connection) -> tuple[list[Arrival], list[Decline]]:
            stored, receipts = spooled.move(connection, spool.name, part.numbers, part.arrivals)
            return stored, declined.on_record(connection, receipts)

        stored, declines = self._database.commit(work)
        spool.drop(part.numbers)
        self._log.info("spool.moved", deliveries=len(stored), left=spool.waiting)
        self._note_declines(declines)
        return len(part.numbers)

    def _refuse_oldest(self, spool: Spool, error: Exception) -> None:
        [number], [arrival] = (part := spool.first(1)).numbers, part.arrivals
        because = f"the database cannot hold it: {type(error).__name__}"
        spool.refuse(number, because)
        told = arrival.notification
        self._log.error("spool.refused", source=told.source, event_id=told.event_id, because=because)

    def _spoil(self, waiting: _Waiting, error: Exception) -> None:
        """Refuse the one delivery that cannot be written, and say whose fault that is."""
        if not _is_about_contents(error):
            self._log.error("write.failed", exc_info=error)
            waiting.tell(DatabaseUnavailable("the delivery could not be written"))
            return
        for source in {arrival.notification.source for arrival in waiting.arrivals}:
            self.refused(source, "malformed", because=f"the database cannot hold it: {type(error).__name__}")
        waiting.tell(DeliveryMalformed("it cannot be stored"))

    def _hand_out(self, batch: Sequence[_Waiting], receipts: Sequence[Receipt]) -> None:
        told = iter(receipts)
        for waiting in batch:
            waiting.tell(tuple(next(told) for _ in waiting.arrivals))

    def _note(self, arrivals: Sequence[Arrival], receipts: Sequence[Receipt], *, kept: str = "") -> None:
        for arrival, receipt in zip(arrivals, receipts, strict=True):
            outcome = _outcome(receipt)
            told = arrival.notification
            self._metrics.delivered(receipt.source, outcome)
            self._log.info(
                _LINES[outcome],
                source=receipt.source,
                event_id=receipt.event_id,
                event_type=told.event_type,
                vouched_by=told.secret,
                **({"because": told.skipped} if told.skipped else {}),
                **({"kept": kept} if kept else {}),
            )

    def _note_declines(self, declines: Sequence[Decline]) -> None:
        for decline in declines:
            self._metrics.judged(decline.ref.source, decline.ref.kind, Verdict.DECLINED, Via.PAYLOAD)
            self._log.info(
                "write.declined",
                ref=str(decline.ref),
                via=str(Via.PAYLOAD),
                event_id=decline.event_id,
                incoming_source_updated_at=decline.incoming_source_updated_at,
                stored_source_updated_at=decline.stored_source_updated_at,
                incoming_read_from=None,
                incoming_read_until=None,
                stored_read_from=decline.stored_read_from,
                stored_read_until=decline.stored_read_until,
                because=decline.because,
            )


def reason(error: DeliveryRejected) -> str:
    """Return the contract's word for why a delivery is refused."""
    return "signature" if isinstance(error, SignatureInvalid) else "malformed"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One delivery on its way into the database, and who wants to hear of it."""

    arrivals: tuple[Arrival, ...]
    size: int
    tell: Callable[[Outcome], None]


class _Queue:
    """Deliveries waiting for the writer: bounded, in order, handed out in batches."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = Condition()
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._closed = False

    def full(self) -> bool:
        """Say whether the next delivery might be refused."""
        return len(self._waiting) >= self._limits.waiting or self._bytes >= self._limits.waiting_bytes

    def put(self, waiting: _Waiting) -> None:
        """Add one; raises `DatabaseUnavailable` where that is too much, or too late."""
        with self._changed:
            if self._closed:
                raise DatabaseUnavailable("shutting down")
            if self.full():
                raise DatabaseUnavailable(_FULL)
            self._waiting.append(waiting)
            self._bytes += waiting.size
            self._changed.notify()

    def take(self, timeout: float) -> list[_Waiting] | None:
        """Return what may be written together; nothing after *timeout* seconds, None once closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            if self._closed and not self._waiting:
                return None
            batch = list(self._batch())
            self._bytes -= sum(waiting.size for waiting in batch)
            return batch

    def close(self) -> None:
        """Take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _batch(self) -> Iterator[_Waiting]:
        count = size = 0
        while self._waiting and count < self._limits.together:
            size += self._waiting[0].size
            if count and size > self._limits.together_bytes:
                return
            count += 1
            yield self._waiting.popleft()


_FULL = "too many deliveries are waiting to be written"
_TOO_SLOW = DatabaseUnavailable("the database takes too long to write")


def _record(arrivals: Sequence[Arrival], connection: Connection) -> tuple[list[Receipt], list[Decline]]:
    receipts = events.receive(connection, arrivals)
    return receipts, declined.on_record(connection, receipts)


def _one(name: str, receipts: Sequence[Receipt]) -> Receipt:
    """Return the receipt of a delivery from those of the notifications it held."""
    if len(receipts) == 1:
        return receipts[0]
    if not receipts:
        return Receipt(name, "", duplicate=False, ignored=True)
    return Receipt(
        receipts[0].source,
        receipts[0].event_id,
        duplicate=all(each.duplicate for each in receipts),
        ignored=all(each.ignored for each in receipts),
        declined=tuple(ref for each in receipts for ref in each.declined),
    )


def _outcome(receipt: Receipt) -> str:
    if receipt.duplicate:
        return "duplicate"
    return "ignored" if receipt.ignored else "stored"


def _is_about_contents(error: Exception) -> bool:
    if isinstance(error, DBAPIError):
        state = sqlstate(error)
        return state.startswith(_UNSTORABLE) if state else not error.connection_invalidated
    return isinstance(error, ValueError | OverflowError | RecursionError)


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    # A loop that is closed has nobody left who waits.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, future, outcome)


def _resolve(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _tell_all(batch: Sequence[_Waiting], outcome: Outcome) -> None:
    for waiting in batch:
        waiting.tell(outcome)
