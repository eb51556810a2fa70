"""Webhooks as Shopify sends them: signed over the body alone, in two families of headers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.sandbox.deliveries import Parcel
from adapters.sandbox.shopify.kinds import SUBSCRIBABLE
from adapters.sandbox.shopify.stamps import precise
from adapters.sandbox.spelling import compact

if TYPE_CHECKING:
    from adapters.sandbox.deliveries import Endpoint
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import Body

CLASSIC = "classic"
EVENTS = "events"
"""The newer family: lower-case names without `X-`, an action, and no id of what the merchant did."""

_ACTIONS = {"create": "create", "delete": "delete"}


class Sending:
    """
    Turns what happened into deliveries.

    Attributes:
        family: Which headers are sent; may be changed at any time.
    """

    def __init__(self, machinery: Machinery, *, domain: str, api_version: str) -> None:
        self._machinery = machinery
        self._domain = domain
        self._api_version = api_version
        self.family = CLASSIC

    def new_event_id(self) -> str:
        """Return the id of something the merchant did, the same for the same seed."""
        return self._uuid("event")

    def send(self, topic: str, body: Body, *, event_id: str = "", at: float | None = None) -> int:
        """Send *body* to each subscription to *topic*, each with a delivery id of its own, and return how many."""
        happened = float(at) if at is not None else self._machinery.clock.now()
        raw, shared = compact(body), event_id or self.new_event_id()
        wanting = [each for each in self._endpoints() if each.enabled and wants(each, topic)]
        for endpoint in wanting:
            parcel = self._parcel(endpoint, topic, raw, event_id=shared, happened=happened)
            self._machinery.deliveries.send(parcel)
        return len(wanting)

    def unsubscribe(self, endpoint_id: str, topic: str) -> None:
        """Take one topic from an endpoint, and the endpoint away with its last."""
        kept = [self._without(each, topic) if each.id == endpoint_id else each for each in self._endpoints()]
        self._machinery.deliveries.endpoints = tuple(each for each in kept if each.events)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        return self._machinery.deliveries.endpoints

    def _without(self, endpoint: Endpoint, topic: str) -> Endpoint:
        return replace(endpoint, events=tuple(each for each in topics_of(endpoint) if each != topic))

    def _parcel(self, endpoint: Endpoint, topic: str, raw: bytes, *, event_id: str, happened: float) -> Parcel:
        webhook_id = self._uuid("webhook")
        headers = self._headers(topic, webhook_id=webhook_id, event_id=event_id, happened=happened)
        signed = {**headers, self._name("Hmac-SHA256"): signature(raw, endpoint.secrets[0])}
        return Parcel(
            name=f"{self._machinery.world.turn('parcel')}",
            event_id=webhook_id,
            endpoint=endpoint,
            body=raw,
            headers=lambda: signed,
            failed=lambda: self.unsubscribe(endpoint.id, topic),
        )

    def _headers(self, topic: str, *, webhook_id: str, event_id: str, happened: float) -> dict[str, str]:
        """Return what no signature covers: whoever holds one signed body can send it under other names."""
        told = {
            "Topic": topic,
            "Shop-Domain": self._domain,
            "API-Version": self._api_version,
            "Webhook-Id": webhook_id,
            "Triggered-At": precise(happened),
            **({"Event-Id": event_id} if self.family == CLASSIC else {"Action": _action(topic), "Handle": "standin"}),
        }
        return {
            "Content-Type": "application/json",
            "User-Agent": "Shopify-Captain-Hook",
            **{self._name(name): value for name, value in told.items()},
        }

    def _name(self, name: str) -> str:
        return f"X-Shopify-{name}" if self.family == CLASSIC else f"shopify-{name.lower()}"

    def _uuid(self, what: str) -> str:
        turn = f"{self._machinery.mischief.seed}:{what}:{self._machinery.world.turn(what)}"
        return str(uuid.UUID(bytes=hashlib.blake2b(turn.encode(), digest_size=16).digest(), version=4))


def signature(raw: bytes, secret: str) -> str:
    """Return the signature of *raw*: of the body alone, by the oldest secret that was not revoked."""
    return base64.b64encode(hmac.digest(secret.encode(), raw, hashlib.sha256)).decode()


def wants(endpoint: Endpoint, topic: str) -> bool:
    """Tell whether *endpoint* has a subscription to *topic*."""
    return "*" in endpoint.events or topic in endpoint.events


def topics_of(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the topics that *endpoint* is subscribed to."""
    return SUBSCRIBABLE if "*" in endpoint.events else endpoint.events


def _action(topic: str) -> str:
    return _ACTIONS.get(topic.partition("/")[2], "update")
