"""
How Stripe's deliveries come to us: webhook endpoints, and the events that none of them could be given.

An endpoint's secret is shown once, when it is made (SDK, _webhook_endpoint.py): one that this program made and whose
secret nobody keeps is made anew. Its API version is fixed for its life. What happens in connected accounts goes to
endpoints of their own: `connect` says so when one is made (SDK, params/_webhook_endpoint_create_params.py) and is not
shown afterwards (SDK, _webhook_endpoint.py). So one that this program made says it in its metadata; of others only
`application` may tell [U], and without it an endpoint counts as the account's own. There is no call that sends an event
again; the feed of events tells which were not delivered, to us or to any other endpoint of the account
(https://docs.stripe.com/webhooks/process-undelivered-events). It is asked of so many connected accounts in a look that
all have had their turn within two days, well before a delivery is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from adapters.stripe import events
from reconciler import content
from reconciler.adapter import Mended, Subscription, Undelivered
from reconciler.errors import AccessLost, SourceRefused, SourceUnavailable
from reconciler.model import Hint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.stripe.accounts import Accounts
    from adapters.stripe.calls import Calls
    from adapters.stripe.kinds import Row
    from reconciler.model import JSON, Body

_ENDPOINTS: Final = "/v1/webhook_endpoints"
_MARK: Final = "reconciler"  # the key in an endpoint's metadata that says who made it
_OWN: Final = "the account"
_CONNECTED: Final = "its connected accounts"
_CONNECT: Final = "reconciler_connect"  # the key that says that it is one for connected accounts
_ACCOUNTS_A_LOOK: Final = 50  # connected accounts whose undelivered events are asked for at least, those next in turn
_LOOKS: Final = 48  # looks in which all of them have had their turn; there is one an hour
_A_LOOK: Final = 3600
_ORPHANED: Final = "was made by this program, but nobody keeps its secret"
_DISABLED: Final = "is disabled"


class Subscriptions:
    """The webhook endpoints of one account that point at us."""

    def __init__(
        self, calls: Calls, accounts: Accounts, *, source: str, rows: Mapping[str, Row], api_version: str
    ) -> None:
        self._accounts = accounts
        self._calls, self._source, self._rows, self._api_version = calls, source, rows, api_version
        self._needed = {topic for row in rows.values() for topic in row.topics}

    def every(self, urls: Sequence[str], held: Collection[str]) -> Sequence[Subscription]:
        """Return the endpoint of each place that points at us; of several the one that lacks least."""
        found = [
            self._shown(body, held)
            for page, _ in self._calls.pages(_ENDPOINTS, {})
            for body in page
            if _text(body.get("url")).rstrip("/") in urls
        ]
        places = (_OWN, _CONNECTED) if self._accounts.some else (_OWN,)
        return tuple(self._best(place, found) for place in places)

    def _best(self, place: str, found: Sequence[Subscription]) -> Subscription:
        nothing = Subscription(place=place, missing=tuple(sorted(self._needed)))
        here = (each for each in found if each.place == place)
        return min(here, key=lambda each: (len(each.wrong), len(each.missing)), default=nothing)

    def mend(self, broken: Subscription, url: str) -> Mended:
        """Make an endpoint, make one anew whose secret is lost, or have one send what is missing."""
        topics = sorted(self._needed | set(broken.topics))
        if not broken.id:
            return self._made(broken.place, url, topics)
        place = f"{_ENDPOINTS}/{quote(broken.id, safe='')}"
        if _ORPHANED in broken.wrong:
            made = self._made(broken.place, url, topics)
            self._calls.change("DELETE", place, {})
            return made
        self._calls.change("POST", place, {"enabled_events": topics, "disabled": "false"})
        return Mended(broken.id)

    def undelivered(self, since: datetime) -> Iterator[Undelivered]:
        """
        Yield the events about kinds of ours that some endpoint has not taken.

        Of the account itself and, of those that are connected, those whose turn it is in this hour; one that we may see
        no more is a state of its own, and passed over.
        """
        own, *connected = self._accounts.scopes()
        yield from self._undelivered(own, since)
        for scope in in_turn(connected, int(self._calls.now().timestamp()) // _A_LOOK):
            try:
                yield from self._undelivered(scope, since)
            except AccessLost:
                continue

    def _undelivered(self, scope: str, since: datetime) -> Iterator[Undelivered]:
        asked = {"created": {"gte": int(since.timestamp() // 1)}, "delivery_success": "false"}
        for page, _ in self._calls.pages("/v1/events", asked, account=scope):
            for event in page:
                id_, at, hints = (
                    events.id_of(event),
                    events.instant(event.get("created")),
                    self._hints(event, scope),
                )
                if id_ is not None and at is not None and hints:
                    yield Undelivered(event_id=id_, id=id_, at=at, hints=hints)

    def _hints(self, event: Body, scope: str) -> tuple[Hint, ...]:
        at = events.instant(event.get("created"))
        return tuple(
            Hint(named.ref, events.id_of(event), events.type_of(event), at, named.stamp)
            for named in events.named(event, self._rows, self._source, scope=scope)
        )

    def _shown(self, body: Body, held: Collection[str]) -> Subscription:
        id_ = events.id_of(body)
        if id_ is None:
            raise SourceUnavailable(f"{self._source}: a webhook endpoint has no id")
        listed = body.get("enabled_events")
        topics = tuple(topic for topic in listed if isinstance(topic, str)) if isinstance(listed, list) else ()
        missing = () if "*" in topics else tuple(sorted(self._needed - set(topics)))
        is_ours = content.find(body, f"/metadata/{_MARK}") == self._source
        wrong = [_DISABLED] if body.get("status") == "disabled" else []
        wrong += [_ORPHANED] if is_ours and id_ not in held else []
        return Subscription(
            place=_CONNECTED if (is_ours and _is_connect(body)) or body.get("application") else _OWN,
            id=id_,
            url=_text(body.get("url")),
            topics=topics,
            missing=missing,
            wrong=tuple(wrong),
            version=_text(body.get("api_version")),
        )

    def _made(self, place: str, url: str, topics: Sequence[str]) -> Mended:
        made = self._calls.change(
            "POST",
            _ENDPOINTS,
            {
                **({"connect": "true"} if place == _CONNECTED else {}),
                "url": url,
                "enabled_events": list(topics),
                "api_version": self._api_version,
                "description": f"Tells reconciler what changed ({self._source})",
                "metadata": {_MARK: self._source, **({_CONNECT: "true"} if place == _CONNECTED else {})},
            },
        )
        id_, secret = events.id_of(made), made.get("secret")
        if id_ is None or not isinstance(secret, str) or not secret:
            raise SourceRefused(f"POST {_ENDPOINTS}: the new endpoint shows no secret")
        return Mended(id_, secret)


def in_turn(accounts: Sequence[str], look: int) -> list[str]:
    """
    Return the accounts whose turn it is in the *look*th look: at least fifty, and all of them in any 48 looks in a row.

    The number of the look alone says who they are, so that any process goes on where another stopped.
    """
    size = max(_ACCOUNTS_A_LOOK, -(-len(accounts) // _LOOKS))
    turns = max(1, -(-len(accounts) // size))
    first = look % turns * size
    return list(accounts[first : first + size])


def _is_connect(body: Body) -> bool:
    return bool(content.find(body, f"/metadata/{_CONNECT}") == "true")


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
