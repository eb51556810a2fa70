"""
Webhooks as GitHub has them: sent once, remembered for three days, sent again only when somebody asks.

A delivery that a fault drops is remembered nowhere: GitHub never made it.
"""

from __future__ import annotations

import hmac
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from adapters.sandbox.deliveries import Parcel
from adapters.sandbox.faults import Refused
from adapters.sandbox.github.bodies import number_of, stamp
from adapters.sandbox.spelling import compact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from adapters.sandbox.deliveries import Endpoint
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import JSON, Body

HISTORY = 3 * 24 * 3600
"""Seconds that deliveries can be looked up and sent again."""

LARGEST = 25 * 1024 * 1024
"""A payload of more bytes is not delivered at all."""

KEPT_DELIVERIES = 10_000
"""GitHub keeps all of three days; memory is finite."""

APP_ID = 77_001
_KEPT_ATTEMPTS = 1000
_LEARN_EVERY = 200
_TARGETS = ("repository", "organization", "integration")
_CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """
    What GitHub knows of a hook besides where it sends what.

    Attributes:
        target: Whose hook it is: a repository's, an organization's or an app's (integration).
        owner: The organization whose repositories it hears of; empty: all.
    """

    content_type: str = "json"
    target: str = ""
    owner: str = ""
    created: int = 1_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    Something that happened, as webhooks tell it.

    Attributes:
        guid: The same for every hook and every time it is sent.
        scope: The number of the repository it happened in; empty: in none.
        owner: Who owns that repository.
    """

    guid: str
    name: str
    action: str | None
    scope: str
    owner: str
    payload: Body = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One time that an event was sent to a hook."""

    id: int
    mark: str
    hook_id: str
    event: Event
    at: int
    redelivery: bool
    raw: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class Hooks:
    """
    The hooks there are, and what was sent to them.

    Attributes:
        content_type: Of hooks that say none (`json` or `form`).
        traits: By hook id; a hook without any is the repository's it listens to, or an organization's.
        installations: The app's installations, each with the owner it covers; empty: all owners.
    """

    def __init__(self, machinery: Machinery, *, installations: Mapping[str, str]) -> None:
        self._machinery = machinery
        self.content_type = "json"
        self.traits: dict[str, Trait] = {}
        self.installations = installations
        self._log: deque[Delivered] = deque(maxlen=KEPT_DELIVERIES)
        self._events: deque[Event] = deque(maxlen=KEPT_DELIVERIES)
        self._answers: dict[str, str] = {}
        self._sent = 0

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All hooks, enabled or not."""
        return self._machinery.deliveries.endpoints

    def add(self, endpoint: Endpoint, trait: Trait) -> None:
        """Add a hook."""
        self.traits[endpoint.id] = trait
        self._machinery.deliveries.endpoints = (*self.endpoints, endpoint)

    def replace(self, endpoint: Endpoint, trait: Trait) -> None:
        """Put *endpoint* in place of the hook that has its id."""
        self.traits[endpoint.id] = trait
        hooks = tuple(endpoint if each.id == endpoint.id else each for each in self.endpoints)
        self._machinery.deliveries.endpoints = hooks

    def remove(self, hook_id: str) -> None:
        """Remove a hook; what was sent to it can be looked up no more."""
        self.traits.pop(hook_id, None)
        self._machinery.deliveries.endpoints = tuple(each for each in self.endpoints if each.id != hook_id)

    def trait(self, endpoint: Endpoint) -> Trait:
        """Return what GitHub knows of a hook besides where it sends what."""
        target = "repository" if endpoint.scope else "organization"
        known = self.traits.get(endpoint.id)
        if known is None:
            return Trait(content_type=self.content_type, target=target)
        return known if known.target else Trait(content_type=known.content_type, target=target, owner=known.owner)

    def send(self, event: Event) -> int:
        """Send *event* to each hook that wants it, and return how many those are."""
        self._events.append(event)
        return self._deliver(event)

    def resend(self, guid: str) -> int:
        """Send the event of a GUID again to each hook that wants it, and return how many those are."""
        wanted = guid.partition("/")[0]
        for event in reversed(self._events):
            if event.guid == wanted:
                return self._deliver(event, redelivery=True)
        raise Refused(f"there is no event {guid!r}")

    def ping(self, endpoint: Endpoint, event: Event) -> None:
        """Send *event* to one hook, whatever it wants."""
        self._post(event, endpoint, self._raw(event, endpoint), redelivery=False)

    def redeliver(self, delivered: Delivered, endpoint: Endpoint) -> None:
        """Send the very bytes of *delivered* again, under the same GUID."""
        self._post(delivered.event, endpoint, delivered.raw, redelivery=True)

    def delivered(self, hook_id: str) -> Iterator[tuple[Delivered, str]]:
        """Yield what was sent to a hook and how it was answered, newest first; what is on its way is left out."""
        self._learn()
        oldest = int(self._machinery.clock.now()) - HISTORY
        for each in reversed(list(self._log)):
            if each.hook_id == hook_id and each.at >= oldest:
                answer = self._answers.get(each.mark) or self._success(each)
                if answer:
                    yield each, answer

    def _success(self, delivered: Delivered) -> str:
        return "" if self._machinery.deliveries.undelivered(delivered.mark) else "200"

    def _learn(self) -> None:
        """Keep how the latest attempts were answered."""
        for each in self._machinery.deliveries.report(_KEPT_ATTEMPTS)["last"]:
            self._answers[each["event_id"]] = each["answer"]
        for mark in list(self._answers)[: -2 * KEPT_DELIVERIES]:
            del self._answers[mark]

    def _deliver(self, event: Event, *, redelivery: bool = False) -> int:
        wanting = [each for each in self.endpoints if self._wants(each, event)]
        for endpoint in wanting:
            self._post(event, endpoint, self._raw(event, endpoint), redelivery=redelivery)
        return len(wanting)

    def _wants(self, endpoint: Endpoint, event: Event) -> bool:
        owner = self.trait(endpoint).owner
        hears = endpoint.scope in {None, event.scope} and owner.lower() in {"", event.owner.lower()}
        return endpoint.enabled and hears and ("*" in endpoint.events or event.name in endpoint.events)

    def _raw(self, event: Event, endpoint: Endpoint) -> bytes:
        trait = self.trait(endpoint)
        payload = event.payload
        if trait.target == "integration":
            payload = {**payload, "installation": {"id": int(self.installation(event.owner)), "node_id": "MDIz"}}
        raw = compact(payload)
        return b"payload=" + quote_plus(raw).encode() if trait.content_type == "form" else raw

    def installation(self, owner: str) -> str:
        """Return the id of the installation that covers an owner's repositories."""
        covering = [id_ for id_, whose in self.installations.items() if whose.lower() == owner.lower()]
        return next(iter([*covering, *(id_ for id_, whose in self.installations.items() if not whose)]), "0")

    def _post(self, event: Event, endpoint: Endpoint, raw: bytes, *, redelivery: bool) -> None:
        turn = self._machinery.world.turn("delivery")
        if len(raw) > LARGEST:
            return
        mark = f"{event.guid}/{endpoint.id}" + (f"#{turn}" if redelivery else "")
        headers = self._headers(event, endpoint, raw)
        delivered = Delivered(
            id=40_000_000_000 + turn,
            mark=mark,
            hook_id=endpoint.id,
            event=event,
            at=int(self._machinery.clock.now()),
            redelivery=redelivery,
            raw=raw,
            headers=headers,
        )
        self._log.append(delivered)
        self._sent += 1
        if self._sent % _LEARN_EVERY == 0:
            self._learn()
        parcel = Parcel(name=f"{turn}", event_id=mark, endpoint=endpoint, body=raw, headers=lambda: headers)
        self._machinery.deliveries.send(parcel)

    def _headers(self, event: Event, endpoint: Endpoint, raw: bytes) -> Mapping[str, str]:
        trait = self.trait(endpoint)
        target = {"repository": event.scope, "organization": f"{number_of(event.owner)}", "integration": f"{APP_ID}"}
        return {
            "Accept": "*/*",
            "Content-Type": _CONTENT_TYPES[trait.content_type],
            "User-Agent": "GitHub-Hookshot/5tand1n",
            "X-GitHub-Delivery": event.guid,
            "X-GitHub-Event": event.name,
            "X-GitHub-Hook-ID": endpoint.id,
            "X-GitHub-Hook-Installation-Target-ID": target[trait.target],
            "X-GitHub-Hook-Installation-Target-Type": trait.target,
            **signatures(raw, endpoint.secrets),
        }


def signatures(raw: bytes, secrets: tuple[str, ...]) -> Mapping[str, str]:
    """Return the signature headers of *raw*: of one secret only, for a hook has no more; none without a secret."""
    if not secrets:
        return {}

    def mark(digest: str) -> str:
        return f"{digest}={hmac.new(secrets[0].encode(), raw, digest).hexdigest()}"

    return {"X-Hub-Signature": mark("sha1"), "X-Hub-Signature-256": mark("sha256")}


def traits_from(settings: JSON) -> dict[str, Trait]:
    """Return the traits that a control request asks for; raises `Refused` where it makes no sense."""
    if not isinstance(settings, dict) or not all(isinstance(each, dict) for each in settings.values()):
        raise Refused('hooks must be an object such as {"30001": {"content_type": "form"}}')
    return {id_: _trait(each) for id_, each in settings.items()}


def _trait(settings: Body) -> Trait:
    choices: Mapping[str, Callable[[str], bool]] = {
        "content_type": lambda value: value in _CONTENT_TYPES,
        "target": lambda value: value in _TARGETS,
        "owner": lambda value: isinstance(value, str),
    }
    wrong = [name for name, value in settings.items() if name not in choices or not choices[name](value)]
    if wrong:
        raise Refused(f"a hook has content_type (json, form), target ({', '.join(_TARGETS)}) and owner: not {wrong}")
    return Trait(**settings)


def listed(delivered: Delivered, answer: str, *, address: str, installation: int | None) -> Body:
    """Return a delivery as lists show it."""
    success = answer.startswith("2")
    return {
        "id": delivered.id,
        "guid": delivered.event.guid,
        "delivered_at": stamp(delivered.at),
        "redelivery": delivered.redelivery,
        "duration": 0.05,
        "status": "OK"
        if success
        else f"Invalid HTTP Response: {answer}"
        if answer.isdecimal()
        else "failed to connect",
        "status_code": int(answer) if answer.isdecimal() else 0,
        "event": delivered.event.name,
        "action": delivered.event.action,
        "installation_id": installation,
        "repository_id": int(delivered.event.scope) if delivered.event.scope else None,
        "throttled_at": None,
        "url": f"{address}/{delivered.id}",
    }
