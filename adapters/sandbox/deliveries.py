"""Webhooks on their way: sent in the background, tried again until the receiver says 2xx."""

from __future__ import annotations

import heapq
import http.client
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from adapters.sandbox.faults import Refused, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.faults import Mischief
    from adapters.sandbox.world import JSON, Body

KEPT_ATTEMPTS = 1000

Connections: TypeAlias = dict[tuple[str, str], http.client.HTTPConnection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """
    Where deliveries go.

    Attributes:
        secrets: Each of them signs; several while one is being rolled.
        events: Types it wants; `*` is every type.
        scope: The scope it listens to; None: all of them.
    """

    id: str
    url: str
    secrets: tuple[str, ...] = field(repr=False)
    events: tuple[str, ...] = ("*",)
    enabled: bool = True
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """
    One event for one endpoint.

    Attributes:
        name: What its fate is drawn for; another for each time it is sent.
        event_id: The provider's id of the event.
        body: The exact bytes, the same for each attempt.
        headers: Makes the headers of one attempt, signature included.
        failed: Called once the last attempt was in vain; must not send.
    """

    name: str
    event_id: str
    endpoint: Endpoint
    body: bytes = field(repr=False)
    headers: Callable[[], Mapping[str, str]]
    failed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """
    When to try again after anything but a 2xx.

    Attributes:
        first: Seconds before the second attempt.
        factor: By how much each wait is longer than the one before.
        most: The longest wait.
        attempts: After so many the delivery has failed for good.
    """

    first: float = 0.5
    factor: float = 2.0
    most: float = 30.0
    attempts: int = 16

    def wait(self, attempts: int) -> float:
        """Return the seconds to wait after so many *attempts*."""
        return min(self.most, self.first * self.factor ** (attempts - 1))


class Deliveries:
    """
    All that was, is and will be sent.

    Threads start with the first delivery and end with `close`. What a fault drops counts as never delivered.

    Attributes:
        endpoints: May be replaced at any time; what is on its way already is not affected.
        backoff: May be replaced at any time.
    """

    def __init__(self, mischief: Mischief, *, backoff: Backoff, senders: int, timeout: float) -> None:
        self.endpoints: tuple[Endpoint, ...] = ()
        self.backoff = backoff
        self._mischief = mischief
        self._senders, self._timeout = senders, timeout
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._due: list[tuple[float, int, int, _Sending]] = []
        self._held: dict[str, _Sending] = {}
        self._turn = 0
        self._open = 0
        self._counts: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self._undelivered: Counter[str] = Counter()
        self._last: deque[Body] = deque(maxlen=KEPT_ATTEMPTS)

    def send(self, parcel: Parcel) -> None:
        """Let *parcel* go on its way, as its fate has it."""
        fate = self._mischief.fate(parcel.name)
        with self._lock:
            self._undelivered[parcel.event_id] += 1
            if not fate.delays:
                self._counts["dropped"] += 1
                return
            self._counts["duplicates"] += len(fate.delays) - 1
            self._counts["delayed"] += sum(1 for delay in fate.delays if delay)
            progress = _Progress()
            first, *copies = (_Sending(parcel, progress) for _ in fate.delays)
            self._open += len(fate.delays)
            earlier = self._held.pop(parcel.endpoint.id, None)
            if earlier is not None:
                first.releases = earlier
                earlier.ticket = 0
            if fate.reordered and earlier is None:
                self._counts["reordered"] += 1
                self._held[parcel.endpoint.id] = first
                self._schedule(first, fate.delays[0] + self._mischief.faults.hold_for)
            else:
                self._schedule(first, fate.delays[0])
            for copy, delay in zip(copies, fate.delays[1:], strict=True):
                self._schedule(copy, delay)
            self._start()

    def undelivered(self, event_id: str) -> int:
        """Return how many endpoints have not said 2xx to this event, or never got it."""
        with self._lock:
            return self._undelivered[event_id]

    def flush(self, timeout: float) -> int:
        """Wait until nothing is on its way, at most so long, and return how much still is."""
        with self._lock:
            for sending in self._held.values():
                self._schedule(sending, 0)
            self._held.clear()
            self._ended.wait_for(lambda: self._open == 0 or self._closing, timeout)
            return self._open

    def report(self, last: int) -> Body:
        """Return the counts, the receivers' answers by status, and the *last* attempts, oldest first."""
        with self._lock:
            names = ("sent", "delivered", "failed", "dropped", "duplicates", "delayed", "reordered")
            attempts = list(self._last)
            return {
                **{name: self._counts[name] for name in names},
                "pending": self._open,
                "answers": dict(sorted(self._answers.items())),
                "last": attempts[len(attempts) - min(last, len(attempts)) :],
            }

    def close(self) -> None:
        """Stop sending; what is still on its way stays undelivered."""
        with self._lock:
            self._closing = True
            self._changed.notify_all()
            self._ended.notify_all()
        for thread in self._threads:
            thread.join(self._timeout)

    def _start(self) -> None:
        while len(self._threads) < self._senders and not self._closing:
            thread = threading.Thread(target=self._work, name=f"sandbox-sender-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _schedule(self, sending: _Sending, delay: float) -> None:
        self._turn += 1
        sending.ticket = self._turn
        heapq.heappush(self._due, (time.monotonic() + delay, self._turn, sending.ticket, sending))
        self._changed.notify_all()

    def _work(self) -> None:
        connections: Connections = {}
        while (sending := self._next()) is not None:
            parcel = sending.parcel
            answer = _post(connections, parcel, timeout=self._timeout)
            self._settle(sending, answer)
        for connection in connections.values():
            connection.close()

    def _next(self) -> _Sending | None:
        with self._lock:
            while not self._closing:
                if not self._due:
                    self._changed.wait()
                    continue
                due_at, _, ticket, sending = self._due[0]
                if ticket != sending.ticket:
                    heapq.heappop(self._due)
                elif (left := due_at - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    heapq.heappop(self._due)
                    self._release(sending.parcel.endpoint.id, sending)
                    return sending
        return None

    def _release(self, endpoint_id: str, sending: _Sending) -> None:
        if self._held.get(endpoint_id) is sending:
            del self._held[endpoint_id]

    def _settle(self, sending: _Sending, answer: str) -> None:
        parcel = sending.parcel
        with self._lock:
            sending.attempts += 1
            self._counts["sent"] += 1
            self._answers[answer] += 1
            self._last.append(
                {
                    "event_id": parcel.event_id,
                    "endpoint": parcel.endpoint.id,
                    "attempt": sending.attempts,
                    "answer": answer,
                },
            )
            if sending.releases is not None:
                self._schedule(sending.releases, 0)
                sending.releases = None
            if answer.startswith("2"):
                self._end(sending, "delivered")
            elif sending.attempts >= self.backoff.attempts:
                self._end(sending, "failed")
                parcel.failed()
            else:
                self._schedule(sending, self.backoff.wait(sending.attempts))

    def _end(self, sending: _Sending, outcome: str) -> None:
        self._open -= 1
        self._counts[outcome] += 1
        self._ended.notify_all()
        if outcome == "delivered" and not sending.progress.delivered:
            sending.progress.delivered = True
            self._deliver(sending.parcel.event_id)

    def _deliver(self, event_id: str) -> None:
        self._undelivered[event_id] -= 1
        if not self._undelivered[event_id]:
            del self._undelivered[event_id]


@dataclass(slots=True)
class _Progress:
    """What the copies of one parcel share."""

    delivered: bool = False


@dataclass(slots=True, eq=False)
class _Sending:
    parcel: Parcel
    progress: _Progress
    attempts: int = 0
    ticket: int = 0
    releases: _Sending | None = None


def endpoints_from(settings: JSON, *, new_id: Callable[[], str]) -> tuple[Endpoint, ...]:
    """Return the endpoints of a control request, one object or a list; raises `Refused` where it makes no sense."""
    wanted = settings if isinstance(settings, list) else [settings]
    return tuple(_endpoint(each, new_id=new_id) for each in wanted)


def backoff_from(settings: Body) -> Backoff:
    """Return the back-off that a control request asks for; raises `Refused` where it makes no sense."""
    unknown = sorted(settings.keys() - {"first", "factor", "most", "attempts"})
    if unknown:
        raise Refused(f"unknown settings {', '.join(unknown)}; there are first, factor, most, attempts")
    read: Body = {name: number(name, value) for name, value in settings.items()}
    if "attempts" in read:
        read["attempts"] = int(read["attempts"])
    return Backoff(**read)


def _endpoint(settings: JSON, *, new_id: Callable[[], str]) -> Endpoint:
    if not isinstance(settings, dict):
        raise Refused('a webhook is an object such as {"url": ..., "secret": ...}')
    unknown = sorted(settings.keys() - {"id", "url", "secret", "events", "enabled", "scope"})
    if unknown:
        raise Refused(f"unknown settings {', '.join(unknown)}; there are id, url, secret, events, enabled, scope")
    parts = urlsplit(str(settings.get("url", "")))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refused("url must be an http or https address")
    secret = settings.get("secret", "")
    secrets = tuple(secret) if isinstance(secret, list) else (secret,)
    if not all(isinstance(each, str) and each for each in secrets):
        raise Refused("secret must be a text, or a list of texts while one is being rolled")
    return Endpoint(
        id=settings.get("id") or new_id(),
        url=parts.geturl(),
        secrets=secrets,
        events=tuple(settings.get("events", ("*",))),
        enabled=bool(settings.get("enabled", True)),
        scope=settings.get("scope"),
    )


def _post(connections: Connections, parcel: Parcel, *, timeout: float) -> str:
    """Send one attempt over a kept connection, and return the status, or `timeout` or `refused`."""
    parts = urlsplit(parcel.endpoint.url)
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    headers = {**parcel.headers(), "Content-Length": str(len(parcel.body))}
    place = (parts.scheme, parts.netloc)
    for _ in range(2):
        kept = place in connections
        connection = connections.setdefault(place, _connection(*place, timeout=timeout))
        try:
            connection.request("POST", target, body=parcel.body, headers=headers)
            with connection.getresponse() as response:
                response.read()
                return str(response.status)
        except TimeoutError:
            connections.pop(place).close()
            return "timeout"
        except (OSError, http.client.HTTPException):
            connections.pop(place).close()
            if not kept:  # a kept connection may have been closed at the other end since
                return "refused"
    return "refused"


def _connection(scheme: str, netloc: str, *, timeout: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(netloc, timeout=timeout)
    return http.client.HTTPConnection(netloc, timeout=timeout)
