"""
How GitHub's deliveries come to us: webhooks of repositories and organizations, and the one of an app.

One of an organization hears all its repositories; so does that of an app, whose address and events can only be changed
in its settings. GitHub sends nothing twice by itself, and keeps three days of deliveries, of which failed ones can be
sent again under the same GUID (https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries).
Whoever may not look after webhooks is told 404. To look for failed ones costs a call an hour for each webhook: one of
an organization is cheaper than many of repositories.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from adapters.github.calls import instant
from adapters.github.events import number_of
from reconciler import content
from reconciler.adapter import Mended, Subscription, Undelivered
from reconciler.errors import AccessLost, SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.github.calls import Calls, Listed
    from adapters.github.places import Places
    from adapters.github.rows import Row
    from reconciler.model import JSON, Body

_APP: Final = "the app"
_APP_HOOK: Final = "/app/hook"
_DELIVERIES: Final = "/deliveries"
_ONE_DELIVERY: Final = f"{_DELIVERIES}/{{id}}"
_FAILED: Final = {"status": "failure", "per_page": "100"}
# What webhooks of a repository cannot be told to send.
_OF_ORGANIZATIONS: Final = frozenset({"membership", "organization", "team"})
_KNOWN_FOR: Final = 26 * 3600.0  # seconds; webhooks are looked at nightly
_NO_SECRET: Final = "has no secret, and what nobody signed is refused"  # noqa: S105 - a phrase


@dataclass(frozen=True, slots=True)
class _Place:
    """
    Where a webhook may be.

    Attributes:
        name: As people call it.
        hooks: The target of its list of webhooks; empty: it is the app, which has one.
        operation: The same with its variable parts unfilled.
        needed: The events that our kinds need and that it can send.
    """

    name: str
    hooks: str
    operation: str
    needed: frozenset[str]


class Subscriptions:
    """The webhooks of one source that point at us."""

    def __init__(self, calls: Calls, places: Places, *, rows: Mapping[str, Row]) -> None:
        self._calls, self._places = calls, places
        self._needed = frozenset(event for row in rows.values() for event in row.topics)
        self._known: tuple[float, tuple[str, ...], list[tuple[_Place, Subscription]]] = (0.0, (), [])

    def every(self, urls: Sequence[str]) -> Sequence[Subscription]:
        """Return how it stands in each place that needs a webhook: none in those that a wider one hears."""
        standing = list(self._standing(urls))
        self._known = monotonic() + _KNOWN_FOR, tuple(urls), standing
        return [subscription for _, subscription in standing]

    def mend(self, broken: Subscription, url: str, secret: str | None) -> Mended:
        """Make a webhook, or have one send what is missing; raises `SourceRefused` without a secret."""
        place = self._called(broken.place)
        if not place.hooks:
            raise SourceRefused("an app's webhook can only be changed in the settings of the app")
        if not secret:
            raise SourceRefused("there is no secret to sign with: configure webhook_secrets")
        config = {"url": url, "content_type": "json", "insecure_ssl": "0", "secret": secret}
        events = sorted(place.needed | set(broken.topics))
        if not broken.id:
            sent: Body = {"name": "web", "active": True, "events": events, "config": config}
            answer = self._calls.change("POST", place.operation, place.hooks, sent)
            made = number_of(self._calls.body(place.operation, answer).get("id"))
            if made is None:
                raise SourceUnavailable(f"POST {place.operation}: the new webhook has no id")
            return Mended(made)
        sent = {"active": True, "events": events}
        if _NO_SECRET in broken.wrong:
            sent["config"] = config | {"url": broken.url}
        target = f"{place.hooks}/{quote(broken.id, safe='')}"
        self._calls.change("PATCH", f"{place.operation}/{{id}}", target, sent)
        return Mended(broken.id)

    def failed(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:
        """Yield each event that did not arrive, by its latest attempt; one that arrived later is left out."""
        until, known_urls, known = self._known
        is_known = monotonic() < until and known_urls == tuple(urls) and all(each.id for _, each in known)
        for place, subscription in known if is_known else self._standing(urls):
            if subscription.id:
                yield from self._failed_at(place, subscription, since)

    def redeliver(self, undelivered: Undelivered) -> None:
        """Have a delivery sent again; raises `SourceRefused` where GitHub does not keep it any more."""
        place = self._called(undelivered.place)
        hook, _, delivery = undelivered.id.partition("/")
        attempts = f"{_DELIVERIES}/{quote(delivery, safe='')}/attempts"
        if place.hooks:
            operation = f"{place.operation}/{{id}}{_ONE_DELIVERY}/attempts"
            self._calls.change("POST", operation, f"{place.hooks}/{quote(hook, safe='')}{attempts}", {})
        else:
            self._calls.ask_as_app("POST", f"{_APP_HOOK}{_ONE_DELIVERY}/attempts", f"{_APP_HOOK}{attempts}")

    # --- places ---

    def _standing(self, urls: Sequence[str]) -> Iterator[tuple[_Place, Subscription]]:
        """Yield each place that needs a webhook, and how it stands; raises `AccessLost` where we may not look."""
        app = self._of_app(urls) if self._calls.app is not None else None
        if app is not None and app.id:
            yield self._app(), app
            return
        heard: dict[str, bool] = {}
        for name in self._places.organizations:
            subscription = self._at(self._organization(name), urls)
            heard[name] = bool(subscription.id)
            yield self._organization(name), subscription
        for place in self._repositories():
            owner = place.name.partition("/")[0]
            if owner not in heard and "/" in place.name:
                wider = self._wider(owner, urls)
                heard[owner] = wider is not None
                if wider is not None:
                    yield self._organization(owner), wider
            if not heard.get(owner):
                yield place, self._at(place, urls)

    def _wider(self, owner: str, urls: Sequence[str]) -> Subscription | None:
        """Return the webhook of a repository's owner that points at us; None where there is none, or none to see."""
        try:
            subscription = self._at(self._organization(owner), urls)
        except AccessLost:
            return None
        return subscription if subscription.id else None

    def _repositories(self) -> Iterator[_Place]:
        called = self._places.called()
        if called or self._places.organizations:
            for name, number in called.items():
                yield self._repository(name, number)
            return
        for number in self._places.numbers()[0]:
            yield self._repository(number, number)

    def _called(self, name: str) -> _Place:
        """Return the place of this name."""
        if name == _APP:
            return self._app()
        if "/" in name:
            return self._repository(name, self._places.called().get(name, ""))
        return self._repository(name, name) if name.isdecimal() else self._organization(name)

    def _repository(self, name: str, number: str) -> _Place:
        target, operation = f"/repositories/{quote(number, safe='')}/hooks", "/repositories/{scope}/hooks"
        return _Place(name, target, operation, self._needed - _OF_ORGANIZATIONS)

    def _organization(self, name: str) -> _Place:
        return _Place(name, f"/orgs/{quote(name, safe='')}/hooks", "/orgs/{org}/hooks", self._needed)

    def _app(self) -> _Place:
        return _Place(_APP, "", _APP_HOOK, self._needed)

    # --- what stands there ---

    def _at(self, place: _Place, urls: Sequence[str]) -> Subscription:
        """Return the webhook of a place that points at us; of several the one that lacks least."""
        found = [
            self._shown(place, body)
            for listed in self._pages(f"GET {place.operation}", place.hooks)
            for body in listed.objects
            if _address(body) in urls
        ]
        nothing = Subscription(place=place.name, missing=tuple(sorted(place.needed)))
        return min(found, key=lambda each: (len(each.wrong), len(each.missing)), default=nothing)

    def _pages(self, operation: str, target: str) -> Iterator[Listed]:
        listed = self._calls.page(operation, target, {"per_page": "100"})
        yield listed
        while listed.further:
            listed = self._calls.page(operation, listed.further)
            yield listed

    def _shown(self, place: _Place, body: Body) -> Subscription:
        topics = _texts(body.get("events"))
        wrong = [] if body.get("active") is not False else ["is not active"]
        wrong += [] if content.find(body, "/config/secret") else [_NO_SECRET]
        return Subscription(
            place=place.name,
            id=str(body.get("id")),
            url=_address(body),
            topics=topics,
            missing=() if "*" in topics else tuple(sorted(place.needed - set(topics))),
            wrong=tuple(wrong),
        )

    def _of_app(self, urls: Sequence[str]) -> Subscription:
        """Return the app's webhook if it points at us; else one without an id."""
        answer = self._calls.ask_as_app("GET", f"{_APP_HOOK}/config", f"{_APP_HOOK}/config")
        config = {"config": self._calls.body(_APP_HOOK, answer)}
        if _address(config) not in urls:
            return Subscription(place=_APP, missing=tuple(sorted(self._needed)))
        told = self._calls.body("/app", self._calls.ask_as_app("GET", "/app", "/app"))
        return self._shown(self._app(), {"id": "app", "events": told.get("events")} | config)

    # --- what failed ---

    def _failed_at(self, place: _Place, subscription: Subscription, since: datetime) -> Iterator[Undelivered]:
        arrived: set[str] = set()
        told: set[str] = set()
        for body in self._deliveries(place, subscription, since):
            guid = body.get("guid")
            if not isinstance(guid, str) or guid in told | arrived:
                continue
            if _is_success(body):
                arrived.add(guid)
                continue
            told.add(guid)
            undelivered = _undelivered(place, subscription, body, guid)
            if undelivered is not None:
                yield undelivered if place.hooks else self._of_hook(undelivered)

    def _deliveries(self, place: _Place, subscription: Subscription, since: datetime) -> Iterator[Body]:
        """Yield the deliveries that failed since, newest first; a server that knows no status shows all."""
        home = f"{place.hooks}/{quote(subscription.id, safe='')}" if place.hooks else _APP_HOOK
        operation = f"GET {place.operation}{'/{id}' if place.hooks else ''}{_DELIVERIES}"
        further = f"{home}{_DELIVERIES}?{'&'.join(f'{name}={value}' for name, value in _FAILED.items())}"
        while further:
            listed = self._page(place, operation, further)
            for body in listed.objects:
                at = instant(body.get("delivered_at"))
                if at is not None and at < since:
                    return
                yield body
            further = listed.further

    def _page(self, place: _Place, operation: str, target: str) -> Listed:
        if place.hooks:
            return self._calls.page(operation, target)
        return self._calls.listed(operation, self._calls.ask_as_app("GET", f"{_APP_HOOK}{_DELIVERIES}", target))

    def _of_hook(self, undelivered: Undelivered) -> Undelivered:
        """Return it with the event id that a delivery of the app has: only the delivery itself names the webhook."""
        delivery = undelivered.id.partition("/")[2]
        target = f"{_APP_HOOK}{_DELIVERIES}/{quote(delivery, safe='')}"
        operation = f"{_APP_HOOK}{_ONE_DELIVERY}"
        body = self._calls.body(operation, self._calls.ask_as_app("GET", operation, target))
        headers = content.find(body, "/request/headers")
        named = {str(name).lower(): value for name, value in headers.items()} if isinstance(headers, dict) else {}
        guid = undelivered.event_id.partition("/")[0]
        hook = named.get("x-github-hook-id")
        return replace(undelivered, event_id=f"{guid}/{hook}" if hook else guid)


def _undelivered(place: _Place, subscription: Subscription, body: Body, guid: str) -> Undelivered | None:
    at, delivery = instant(body.get("delivered_at")), number_of(body.get("id"))
    if at is None or delivery is None:
        return None
    hook = subscription.id
    return Undelivered(event_id=f"{guid}/{hook}", place=place.name, id=f"{hook}/{delivery}", at=at)


def _is_success(body: Body) -> bool:
    code = body.get("status_code")
    return body.get("status") == "OK" or (isinstance(code, int) and 200 <= code < 300)


def _address(hook: Body) -> str:
    url = content.find(hook, "/config/url")
    return url.rstrip("/") if isinstance(url, str) else ""


def _texts(value: JSON) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
