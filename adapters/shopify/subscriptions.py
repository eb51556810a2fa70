"""
How Shopify's deliveries come to us: one webhook subscription for each topic.

Shown are those that were made by the Admin API; what an app's own configuration file (TOML) subscribes to is in no
answer of the API (DOC, apps/build/webhooks/subscribe). After eight failures in a row Shopify deletes a subscription of
the API. Nothing lists deliveries that failed, and no call sends one again: the nightly sweep is what finds them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from adapters.shopify import webhooks
from reconciler import content
from reconciler.adapter import Mended, Subscription
from reconciler.errors import AccessLost, SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adapters.shopify.calls import Calls
    from adapters.shopify.kinds import Row
    from reconciler.model import JSON, Body

SUBSCRIPTIONS: Final = """query webhookSubscriptions($first: Int!, $after: String) {
  webhookSubscriptions(first: $first, after: $after) {
    nodes { id topic uri format }
    pageInfo { endCursor hasNextPage }
  }
}"""
"""What the app has subscribed to in this shop."""

SUBSCRIBE: Final = """mutation subscribe($topic: WebhookSubscriptionTopic!, $uri: String!) {
  webhookSubscriptionCreate(topic: $topic, webhookSubscription: { uri: $uri, format: JSON }) {
    webhookSubscription { id }
    userErrors { field message }
  }
}"""
"""Subscribe to one more topic."""

_PAGE: Final = 100
_NOT_ALL: Final = "no subscription to "


class Subscriptions:
    """What the app has subscribed to in one shop and points at us."""

    def __init__(self, calls: Calls, *, shop: str, rows: Mapping[str, Row]) -> None:
        self._calls, self._shop = calls, shop
        self._needed = {topic for row in rows.values() for topic in row.topics} - webhooks.COMPLIANCE

    def every(self, urls: Sequence[str]) -> Sequence[Subscription]:
        """Return what points at us, all topics as one subscription."""
        ours = [each for each in self._listed() if str(each.get("uri")).rstrip("/") in urls]
        taken = [each for each in ours if each.get("format") == "JSON"]
        sent = {str(each.get("topic")) for each in taken}
        topics = tuple(topic for topic in sorted(self._needed) if enum(topic) in sent)
        odd = sorted(str(each.get("topic")) for each in ours if each.get("format") != "JSON")
        return (
            Subscription(
                place=self._shop,
                id=str(ours[0]["id"]) if ours else "",
                url=str(ours[0]["uri"]) if ours else "",
                topics=topics,
                missing=tuple(sorted(self._needed - set(topics))),
                wrong=(f"sends XML for {', '.join(odd)}",) if odd else (),
            ),
        )

    def mend(self, broken: Subscription, url: str) -> Mended:
        """Subscribe to each topic that is missing, as far as Shopify lets us; raises `SourceRefused` for the rest."""
        made, refused = broken.id, []
        for topic in broken.missing:
            try:
                id_ = self._subscribed(topic, url)
                made = made or id_
            except (SourceRefused, AccessLost) as error:
                refused.append(f"{topic} ({error})")
        if refused or broken.wrong:
            raise SourceRefused("; ".join([*([_NOT_ALL + ", ".join(refused)] if refused else []), *broken.wrong]))
        return Mended(made)

    def _subscribed(self, topic: str, url: str) -> str:
        payload = self._calls.ask("webhookSubscriptionCreate", SUBSCRIBE, {"topic": enum(topic), "uri": url})
        answer = payload.data.get("webhookSubscriptionCreate")
        id_ = content.find(answer, "/webhookSubscription/id")
        if not isinstance(id_, str):
            raise SourceRefused(_words(answer))
        return id_

    def _listed(self) -> Iterator[Body]:
        after: str | None = None
        while True:
            asked = {"first": _PAGE, "after": after}
            found = self._calls.ask("webhookSubscriptions", SUBSCRIPTIONS, asked).data.get("webhookSubscriptions")
            nodes, further = content.find(found, "/nodes"), content.find(found, "/pageInfo")
            if not isinstance(nodes, list) or not isinstance(further, dict):
                raise SourceUnavailable("webhookSubscriptions: the answer is no list")
            yield from (each for each in nodes if isinstance(each, dict))
            if not further.get("hasNextPage"):
                return
            cursor = further.get("endCursor")
            if not isinstance(cursor, str) or cursor == after:
                raise SourceUnavailable("webhookSubscriptions: the list does not move on")
            after = cursor


def enum(topic: str) -> str:
    """Return a topic as GraphQL spells it."""
    return re.sub(r"[^A-Za-z0-9]", "_", topic).upper()


def _words(answer: JSON) -> str:
    errors = content.find(answer, "/userErrors")
    told = [str(content.find(each, "/message")) for each in errors] if isinstance(errors, list) else []
    return "; ".join(told) or "no reason given"
