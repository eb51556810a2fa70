"""Webhook subscriptions as the Admin API shows and changes them: one for each topic of an endpoint."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from adapters.sandbox.deliveries import Endpoint
from adapters.sandbox.shopify.bodies import gid
from adapters.sandbox.shopify.kinds import SUBSCRIBABLE
from adapters.sandbox.shopify.sending import topics_of
from adapters.sandbox.shopify.stamps import stamp

if TYPE_CHECKING:
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.shopify.sending import Sending
    from adapters.sandbox.world import Body

_TOPICS = {topic.replace("/", "_").upper(): topic for topic in SUBSCRIBABLE}


class Subscriptions:
    """
    Those of the app in this shop.

    What the app subscribes to by itself is signed with its client secret, whatever the control routes set elsewhere.
    """

    def __init__(self, machinery: Machinery, sending: Sending, *, secret: str, api_version: Body) -> None:
        self._machinery = machinery
        self._sending = sending
        self._secret = secret
        self._api_version = api_version
        self._made_at = stamp(machinery.clock.now())

    def every(self) -> list[Body]:
        """Return each subscription that is in force."""
        endpoints = self._machinery.deliveries.endpoints
        return [self._shown(each, topic) for each in endpoints if each.enabled for topic in topics_of(each)]

    def add(self, topic: str, settings: Body) -> Body:
        """Subscribe to a topic, and return what the API answers."""
        url = settings.get("uri") or settings.get("callbackUrl") or ""
        if topic not in _TOPICS:
            return _refused("topic", f"The stand-in does not send {topic}")
        if not url.startswith(("http://", "https://")):
            return _refused("uri", "Address is invalid")
        if any(each["topic"] == topic and each["uri"] == url for each in self.every()):
            return _refused("uri", "Address for this topic has already been taken")
        endpoint = Endpoint(
            id=self._machinery.world.new_id("app_"), url=url, secrets=(self._secret,), events=(_TOPICS[topic],)
        )
        self._machinery.deliveries.endpoints = (*self._machinery.deliveries.endpoints, endpoint)
        return {"webhookSubscription": self._shown(endpoint, _TOPICS[topic]), "userErrors": []}

    def change(self, id_: str, settings: Body) -> Body:
        """Send a topic elsewhere, and return what the API answers."""
        found = self._found(id_)
        if found is None:
            return _refused("id", "Webhook subscription does not exist")
        endpoint, topic = found
        self._sending.unsubscribe(endpoint.id, topic)
        url = settings.get("uri") or settings.get("callbackUrl") or endpoint.url
        return self.add(topic.replace("/", "_").upper(), {**settings, "uri": url})

    def remove(self, id_: str) -> Body:
        """End a subscription, and return what the API answers."""
        found = self._found(id_)
        if found is None:
            return {**_refused("id", "Webhook subscription does not exist"), "deletedWebhookSubscriptionId": None}
        self._sending.unsubscribe(found[0].id, found[1])
        return {"deletedWebhookSubscriptionId": id_, "userErrors": []}

    def _found(self, id_: str) -> tuple[Endpoint, str] | None:
        every = ((each, topic) for each in self._machinery.deliveries.endpoints for topic in topics_of(each))
        return next((found for found in every if _gid(*found) == id_), None)

    def _shown(self, endpoint: Endpoint, topic: str) -> Body:
        return {
            "id": _gid(endpoint, topic),
            "apiVersion": self._api_version,
            "callbackUrl": endpoint.url,
            "createdAt": self._made_at,
            "endpoint": {"callbackUrl": endpoint.url},
            "filter": None,
            "format": "JSON",
            "includeFields": [],
            "metafieldNamespaces": [],
            "name": None,
            "topic": topic.replace("/", "_").upper(),
            "updatedAt": self._made_at,
            "uri": endpoint.url,
        }


def _gid(endpoint: Endpoint, topic: str) -> str:
    digest = hashlib.blake2b(f"{endpoint.id} {topic}".encode(), digest_size=5).digest()
    return gid("WebhookSubscription", int.from_bytes(digest))


def _refused(name: str, message: str) -> Body:
    return {"webhookSubscription": None, "userErrors": [{"field": ["webhookSubscription", name], "message": message}]}
