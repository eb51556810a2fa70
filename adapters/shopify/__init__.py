"""
Shopify: orders, products, variants, customers and refunds of one shop, over the Admin GraphQL API.

Facts marked SDK were read in ShopifyAPI 12.7; DOC and COPY are Shopify's own pages; SCHEMA is the published schema of
2026-10; [U] is not confirmed by any of them.

Signature
    `X-Shopify-Hmac-SHA256`: base64 of HMAC-SHA256 over the raw body, keyed with the app's client secret (DOC,
    apps/build/webhooks/verify-deliveries). After a rotation the oldest secret that is not revoked signs for up to an
    hour (COPY, same page): all are tried. It covers no header and no time, so whoever holds one body can send it again
    under another topic and id: that costs a fetch, and proves nothing. The newer Events sign alike, with headers that
    begin `shopify-` (COPY, changesets of @shopify/shopify-api); the form of their bodies is [U]: objects are found by
    their gid. The SDK has no check of webhooks; its `validate_params` is another scheme.

Event id
    `X-Shopify-Webhook-Id`, which names a delivery; that its retries keep it is [U]. `X-Shopify-Event-Id` is shared by
    all that one act of the merchant's brings about (COPY, delivery-structure). Without it, a digest of topic,
    triggered-at and body. A delivery for another shop's domain is skipped.

Stamp
    `updatedAt` in UTC and whole seconds; webhooks write the same instant with the shop's offset. A refund's webhook has
    none, and whether a refund's own moves with its transactions is [U]: that kind is unstamped.

Changed since
    Lists searched by `updated_at`, whose value must be quoted and in UTC: else the term is dropped in silence, with
    HTTP 200, the whole list and a warning in `extensions.search` (COPY, api/usage/search-syntax). Warnings are
    failures, and each stamp is compared with what was asked for. Ascending, so that what changes meanwhile comes again
    at the end. A connection ends without a word after 25,000 objects (DOC, api/usage/limits): long before that it is
    begun anew from the last stamp; a second with more than that is walked by id. Variants cannot be sorted by stamp
    (SCHEMA): by id. A crawl goes by id, each page a search of its own, which no change can shift.
    Refunds have no list: they are those of the orders that changed. Deletions are in no list: the shop's history
    (`events`, kept one year) tells of them as hints; whether of every kind is [U].
    How far a search lags behind is not published: windows overlap by ten minutes more.

Gone
    null. But without the scope `read_all_orders` an order older than 60 days is null too (DOC, objects/Order): such a
    null is refused, not believed, unless that scope is granted, or a webhook or the shop's history said that the order
    was deleted. Errors inside a 200 are failures, whatever stands beside them: ACCESS_DENIED is lost access, and null
    data is no empty list. Customer data that nobody approved is null without a word (COPY).

Limits
    Points, not calls: a leaky bucket that restores 100 a second (Plus 1,000), 1,000 points at most for one query (DOC,
    api/usage/rate-limits). What a call cost is known afterwards, from `extensions.cost`: calls are held back while
    the bucket is low, and after THROTTLED, which comes with HTTP 200. A list page that is too dear is asked for again
    in halves: the formula for connections is [U].

Session, version, site, headers and authentication are the SDK's. The calls are made over httpx (wire.py), because the
SDK's own `GraphQL.execute` has no time-out, loses the status and prints error bodies; and its session is never
activated, because that makes one shop's site the default of all threads. It takes any version that looks like one, so
versions are checked here; Shopify answers an old one in another, which is an error. Access tokens are configured, or
issued for client credentials for 24 hours and shared by all processes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from adapters.shopify import documents, webhooks
from adapters.shopify.calls import AccessToken, Calls, ClientCredentials, TooDear
from adapters.shopify.documents import Documents
from adapters.shopify.kinds import ALL_ORDERS, KINDS
from adapters.shopify.signature import vouched
from adapters.shopify.subscriptions import Subscriptions
from reconciler import content
from reconciler.adapter import patiently, unheard
from reconciler.errors import (
    ConfigError,
    DeliveryMalformed,
    SourceRefused,
    SourceUnavailable,
)
from reconciler.model import Hint, Notification, ObjectRef, Page, Proof, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.shopify.calls import Answered
    from adapters.shopify.kinds import Part, Row
    from reconciler.adapter import Budget, Kind, Mended, Notices, Subscription, Undelivered
    from reconciler.model import JSON, Body, Delivery

__all__ = ["KINDS", "AccessToken", "ClientCredentials", "Limits", "Shopify", "limits"]

_VERSION: Final = "1"  # of the form in which this adapter hands on bodies
_STARTS: Final = 3  # how often a read of several calls is begun before it is left for later
_READ_WITHIN: Final = 120.0  # seconds for all calls of one read; a lease is longer
_CONNECTION: Final = 20_000  # objects after which a list is begun anew: Shopify ends it at 25,000
_HISTORY_PAGE: Final = 100
_CALLS_A_SECOND: Final = 20.0  # Shopify counts points; this only keeps a burst from emptying the bucket unseen
_SECOND: Final = timedelta(seconds=1)
_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]*\.myshopify\.com")
_API_VERSION: Final = re.compile(r"20[0-9]{2}-(01|04|07|10)|unstable")


@dataclass(frozen=True, slots=True)
class Limits:
    """
    How often Shopify may be called for one source.

    Attributes:
        calls_per_second: All calls together; what they may cost is told by their answers.
    """

    calls_per_second: float


def limits(calls_per_second: float | None = None) -> Limits:
    """Return a rate of calls; what Shopify counts are points, so this is ours, and the bucket's level decides."""
    return Limits(_CALLS_A_SECOND if calls_per_second is None else float(calls_per_second))


class Shopify:
    """
    One shop.

    Attributes:
        provider: `shopify`.
        source: The configured name.
        kinds: The kinds this source mirrors, by name.
    """

    provider = "shopify"

    def __init__(
        self,
        source: str,
        *,
        shop: str,
        credential: AccessToken | ClientCredentials,
        webhook_secrets: Sequence[str],
        kinds: Collection[str] | None,
        budget: Budget,
        api_version: str,
        clock: Callable[[], datetime],
        api_base: str | None = None,
        backfill_since: datetime | None = None,
        notices: Notices = unheard,
        timeout: tuple[float, float] = (3.05, 20.0),
    ) -> None:
        """
        Raise `ConfigError` for a shop, version, kind or credential that cannot be used; nothing is called yet.

        *kinds* None means the core ones. What was created before *backfill_since* no crawl shows. *timeout* holds the
        seconds to connect and those until an answer is complete.
        """
        self.source = source
        self._rows = _rows(source, kinds)
        self.kinds: Mapping[str, Kind] = {name: row.kind for name, row in self._rows.items()}
        self._shop = _domain(source, shop)
        if _API_VERSION.fullmatch(api_version) is None:
            raise ConfigError(f"sources[{source}].api_version: {api_version!r} is none of Shopify's, such as 2026-10")
        if re.fullmatch(r"[\x21-\x7e]+", credential.secret) is None:
            raise ConfigError(
                f"sources[{source}].{credential.key}: empty, or holds a space, line break or non-ASCII character"
            )
        self._secrets, self._api_version = tuple(webhook_secrets), api_version
        self._backfill, self._documents = backfill_since, Documents()
        self._calls = Calls(
            shop=self._shop,
            api_version=api_version,
            api_base=api_base,
            credential=credential,
            timeout=timeout,
            budget=budget,
            notices=notices,
            clock=clock,
        )
        self._subscriptions = Subscriptions(self._calls, shop=self._shop, rows=self._rows)

    def __repr__(self) -> str:
        """Name the source, and nothing secret."""
        return f"Shopify({self.source!r})"

    def close(self) -> None:
        """Close the connections at rest; a later call opens new ones."""
        self._calls.close()

    def scopes(self, kind: str | None = None) -> tuple[str, ...]:  # noqa: ARG002 - all kinds have the same
        """Return the scopes to sweep: only the shop itself."""
        return ("",)

    def shape(self, kind: str) -> Mapping[str, object]:
        """Return what the form of bodies depends on: the fields that are asked for, too."""
        fields = self._documents.fragment(self._row(kind))
        digest = hashlib.sha256(" ".join(fields.split()).encode()).hexdigest()
        return {"adapter": _VERSION, "api_version": self._api_version, "fields": digest}

    def read(self, delivery: Delivery, *, secrets: Sequence[str] | None = None) -> tuple[Notification, ...]:
        """Verify and parse; raises `SignatureInvalid` or `DeliveryMalformed`, whatever the bytes."""
        secrets = self._secrets if secrets is None else secrets
        secret = vouched(delivery.body, webhooks.header(delivery, "hmac-sha256"), secrets)
        body, changed = _parsed(delivery.body)
        topic, skipped = webhooks.header(delivery, "topic"), self._why_skipped(delivery)
        return (
            Notification(
                source=self.source,
                event_id=webhooks.event_id(delivery),
                event_type=topic,
                occurred_at=webhooks.instant(webhooks.header(delivery, "triggered-at")),
                payload=body,
                raw=delivery.body if changed else None,
                named=() if skipped else webhooks.named(topic, body, self._rows, self.source),
                skipped=skipped,
                secret=secret,
            ),
        )

    def addressed(self, told: Notification, delivery: Delivery) -> bool:  # noqa: ARG002 - bodies do not name the shop
        """Say whether *delivery* names our shop, in a header that is not signed."""
        return webhooks.header(delivery, "shop-domain").lower() == self._shop

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """
        Return the object as it is now, its own lists whole, or its absence.

        An order or refund that reads as null is absent only if *locator* says that the shop deleted it, or the app may
        see orders of any age.
        """
        row = self._row(ref.kind)
        if not re.fullmatch("[0-9]{1,20}", ref.id, re.ASCII):
            return self._nameless(ref)
        until = monotonic() + _READ_WITHIN
        head = self._head(row, ref)
        for _ in range(_STARTS):
            if head.body is None:
                return self._absent(row, head, locator)
            if not _cut(row, head.body):
                return _shown(row, head)
            body = self._completed(row, ref, head.body, until)
            again = self._head(row, ref)
            if body is not None and _same(row, head, again):
                return _shown(row, replace(head, body=body))
            head = again
        raise SourceUnavailable(f"{ref}: changed each time while its lists were read")

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:  # noqa: ARG002 - there is one
        """Yield what was updated since *since*, inclusive, and hints of what the shop's history says was deleted."""
        row = self._row(kind)
        for nodes, observed_at in self._by_stamp(row, since) if row.by_stamp else self._by_id(row, _since(since)):
            if any((webhooks.instant(node.get("updatedAt")) or since) < _floor(since) for node in nodes):
                raise SourceUnavailable(f"{self.source}: {row.list} shows what did not change since then")
            yield self._page(row, nodes, observed_at)
        if row.destroyed:
            yield from self._destroyed(row, since)

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:  # noqa: ARG002 - there is one
        """Yield every object of *kind* created since the backfill begins, as far as the app may see."""
        row, begins = self._row(kind), self._backfill
        search = "" if begins is None or not row.created else f"{row.created}:>='{_written(begins)}'"
        for nodes, observed_at in self._by_id(row, search):
            yield self._page(row, nodes, observed_at, begins=begins)

    def identity(self, scope: str = "") -> str:  # noqa: ARG002 - there is one
        """Return the number of the shop behind the credential; raises `AccessLost` where it is good for nothing."""
        shop = self._calls.ask("shop", documents.SHOP).data.get("shop")
        number = webhooks.number_of(content.find(shop, "/id"), "Shop")
        if number is None:
            raise SourceUnavailable(f"{self.source}: the shop has no id")
        return number

    def shown(self, payload: Body, ref: ObjectRef) -> Body | None:  # noqa: ARG002 - see below
        """Return None: webhooks have the form of an older API, and show less."""
        return None

    def subscriptions(self, urls: Sequence[str], *, held: Collection[str] = ()) -> Sequence[Subscription]:  # noqa: ARG002 - the app's secret signs
        """Return what the app has subscribed to here and points at us, as one subscription."""
        return self._subscriptions.every(urls)

    def mend_subscription(self, broken: Subscription, url: str, *, secret: str | None) -> Mended:  # noqa: ARG002 - same
        """Subscribe to each topic that is missing."""
        return self._subscriptions.mend(broken, url)

    def failed_deliveries(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:  # noqa: ARG002 - none is listed
        """Yield nothing: Shopify does not tell."""
        return iter(())

    def redeliver(self, undelivered: Undelivered) -> None:
        """Refuse: Shopify sends nothing again."""
        raise SourceRefused(f"{undelivered.event_id}: no call of Shopify's sends a webhook again")

    def spoken(self, payload: Body) -> str | None:  # noqa: ARG002 - webhooks have the form of the older API, in any version
        """Return None."""
        return None

    def _row(self, kind: str) -> Row:
        if kind not in self._rows:
            raise SourceRefused(f"{self.source} does not mirror {kind}")
        return self._rows[kind]

    def _why_skipped(self, delivery: Delivery) -> str:
        domain = webhooks.header(delivery, "shop-domain").lower()
        return f"a delivery for {domain}; {self.source} is {self._shop}" if domain not in {"", self._shop} else ""

    # --- one object ---

    def _head(self, row: Row, ref: ObjectRef) -> Snapshot:
        """Return *ref* as one call shows it, the places in its own lists among it."""
        gid = _gid(row, ref)
        variables = {"id": gid, **({"parts": row.fetched} if row.parts else {})}
        answered = self._calls.ask(row.kind.fetch, self._documents.one(row), variables)
        if row.root not in answered.data:
            raise SourceUnavailable(f"{ref}: the answer shows nothing, not even null")
        body = answered.data[row.root]
        if body is None:
            return Snapshot(ref, None, None, answered.observed_at, Proof.NOT_FOUND, f"{row.root}: null")
        if not isinstance(body, dict) or body.get("id") != gid:
            raise SourceRefused(f"{ref}: the answer shows another object")
        return Snapshot(ref, body, webhooks.stamp_of(row, body), answered.observed_at)

    def _nameless(self, ref: ObjectRef) -> Snapshot:
        """Return the absence of what no object of Shopify's is called, once the shop has shown itself."""
        observed_at = self._calls.ask("shop", documents.SHOP).observed_at
        return Snapshot(ref, None, None, observed_at, Proof.NOT_FOUND, "no number, as ids are")

    def _completed(self, row: Row, ref: ObjectRef, body: Body, until: float) -> Body | None:
        """Return *body* with each list of its own read to the end; None if the object vanished meanwhile."""
        whole = dict(body)
        for part in _cut(row, body):
            rest = self._rest(row, ref, part, body[part.field], until)
            if rest is None:
                return None
            whole[part.field] = {"nodes": [*_nodes(body[part.field]), *rest]}
        return whole

    def _rest(self, row: Row, ref: ObjectRef, part: Part, begun: JSON, until: float) -> list[Body] | None:
        found: list[Body] = []
        operation, document = f"{row.root}.{part.field}", self._documents.part(row, part)
        after = _after(begun)
        while after is not None:
            if monotonic() > until:
                raise SourceUnavailable(f"{operation}: too many pages for one read")
            variables = {"id": _gid(row, ref), "first": part.page, "after": after}
            body = self._calls.ask(operation, document, variables).data.get(row.root)
            if body is None:
                return None
            found += _nodes(content.find(body, f"/{part.field}"))
            after = _next(operation, after, content.find(body, f"/{part.field}"))
        return found

    def _absent(self, row: Row, head: Snapshot, locator: Body | None) -> Snapshot:
        told = (locator or {}).get(webhooks.DELETED)
        if row.aged and not told and not self._sees_all_orders():
            raise SourceRefused(
                f"{head.ref}: null, as every order older than 60 days is without the scope {ALL_ORDERS}: "
                "grant it, or it cannot be told from a deletion"
            )
        because = f"{head.because}, deleted by {told}" if told else head.because
        return replace(head, because=because, locator=locator)

    def _sees_all_orders(self) -> bool:
        """Ask which scopes are granted now: what was granted once may have been taken away."""
        data = self._calls.ask("currentAppInstallation", documents.SCOPES).data
        granted = content.find(data, "/currentAppInstallation/accessScopes")
        return isinstance(granted, list) and any(content.find(each, "/handle") == ALL_ORDERS for each in granted)

    # --- lists ---

    def _by_stamp(self, row: Row, since: datetime) -> Iterator[tuple[list[Body], datetime]]:
        """Yield the pages of what was updated since *since*, oldest change first."""
        begins, after, listed = _floor(since), None, 0
        last = begins
        pages = _Pages(self._calls, row, self._documents.many(row, sort="UPDATED_AT"))
        while True:
            answered = pages.ask(_since(begins), after)
            nodes, after = pages.read(answered, after)
            yield nodes, answered.observed_at
            if after is None:
                return
            listed += len(nodes)
            last = max([last, *(stamp for node in nodes if (stamp := webhooks.instant(node.get("updatedAt"))))])
            if listed < _CONNECTION:
                continue
            if last == begins:
                yield from self._by_id(row, f"{_since(begins)} AND updated_at:<'{_written(begins + _SECOND)}'")
                last += _SECOND
            begins, after, listed = last, None, 0

    def _by_id(self, row: Row, search: str) -> Iterator[tuple[list[Body], datetime]]:
        """Yield the pages of what *search* finds, by id: each asks for what is beyond the last."""
        beyond = 0
        pages = _Pages(self._calls, row, self._documents.many(row, sort="ID"))
        while True:
            answered = pages.ask(" AND ".join(part for part in (search, f"id:>{beyond}") if part), None)
            nodes, after = pages.read(answered, None)
            yield nodes, answered.observed_at
            if after is None:
                return
            numbers = [int(number) for node in nodes if (number := webhooks.number_of(node.get("id"), pages.type))]
            if max(numbers, default=0) <= beyond:
                raise SourceUnavailable(f"{self.source}: {row.list} does not move on after {beyond}")
            beyond = max(numbers)

    def _page(self, row: Row, nodes: Sequence[Body], observed_at: datetime, *, begins: datetime | None = None) -> Page:
        snapshots: list[Snapshot] = []
        hints: list[Hint] = []
        for body, locator in _listed(row, nodes):
            number = webhooks.number_of(body.get("id"), row.type)
            if number is None:
                raise SourceUnavailable(f"{self.source}: {row.list} shows something else")
            if begins is not None and (webhooks.instant(body.get("createdAt")) or begins) < begins:
                continue
            ref, stamp = ObjectRef(self.source, "", row.kind.name, number), webhooks.stamp_of(row, body)
            if _cut(row, body):
                hints.append(Hint(ref, stamp=stamp, locator=locator))
            else:
                snapshots.append(_shown(row, Snapshot(ref, body, stamp, observed_at, locator=locator)))
        return Page(tuple(snapshots), tuple(hints))

    def _destroyed(self, row: Row, since: datetime) -> Iterator[Page]:
        """Yield hints of the objects that the shop's history says were deleted since *since*."""
        search = f"action:destroy AND subject_type:{row.destroyed} AND created_at:>='{_written(since)}'"
        after = None
        while True:
            variables = {"query": search, "first": _HISTORY_PAGE, "after": after}
            told = patiently(lambda: self._calls.ask("events", documents.DESTROYED, variables)).data.get("events")  # noqa: B023 - called at once
            yield Page(hints=tuple(self._told(row, _nodes(told))))
            after = _next("events", after, told)
            if after is None:
                return

    def _told(self, row: Row, history: Sequence[Body]) -> Iterator[Hint]:
        for event in history:
            number = webhooks.number_of(event.get("subjectId"), row.type)
            if number is not None and event.get("action") == "destroy":
                ref = ObjectRef(self.source, "", row.kind.name, number)
                locator = {webhooks.DELETED: str(event.get("id"))}
                yield Hint(ref, changed_at=webhooks.instant(event.get("createdAt")), locator=locator)


class _Pages:
    """
    Pages of one list.

    Attributes:
        type: Of the gids that the list shows.
    """

    def __init__(self, calls: Calls, row: Row, document: str) -> None:
        self._calls, self._row, self._document = calls, row, document
        self._size = row.page
        self.type = "Order" if row.inside else row.type

    def ask(self, search: str, after: str | None) -> Answered:
        """Return a page, of half the size from now on where one would be too dear."""
        while True:
            variables = {"query": search, "first": self._size, "after": after}
            parts = {"parts": self._row.listed} if self._row.parts else {}
            try:
                return patiently(lambda: self._calls.ask(self._row.list, self._document, variables | parts))  # noqa: B023 - called at once
            except TooDear:
                if self._size == 1:
                    raise
                self._size //= 2

    def read(self, answered: Answered, after: str | None) -> tuple[list[Body], str | None]:
        """Return the objects of a page, and where the next begins; None: nowhere."""
        shown = answered.data.get(self._row.list)
        return _nodes(shown), _next(self._row.list, after, shown)


def _listed(row: Row, nodes: Sequence[Body]) -> Iterator[tuple[Body, Body | None]]:
    """Yield each object that a list shows, with its locator."""
    for node in nodes:
        if not row.inside:
            yield node, None
            continue
        inner = node.get(row.inside)
        if not isinstance(inner, list) or not all(isinstance(each, dict) for each in inner):
            raise SourceUnavailable(f"{row.list}: an object shows no {row.inside}")
        order = webhooks.number_of(node.get("id"), "Order")
        yield from ((each, {webhooks.ORDER: order}) for each in inner)


def _cut(row: Row, body: Body) -> list[Part]:
    """Return the lists of *body* that go on elsewhere."""
    return [part for part in row.parts if _after(body.get(part.field)) is not None]


def _shown(row: Row, head: Snapshot) -> Snapshot:
    """Return *head* without the places in its lists, which are no part of the object."""
    body = dict(head.body or {})
    for part in row.parts:
        body[part.field] = {"nodes": _nodes(body.get(part.field))}
    return replace(head, body=body)


def _same(row: Row, head: Snapshot, again: Snapshot) -> bool:
    """Say whether two reads of one head show the same."""
    form = content.Form(volatile=row.kind.volatile, unordered=row.kind.unordered)
    return head.body is not None and again.body is not None and form.digest(head.body) == form.digest(again.body)


def _nodes(connection: JSON) -> list[Body]:
    nodes = content.find(connection, "/nodes")
    if not isinstance(nodes, list) or not all(isinstance(each, dict) for each in nodes):
        raise SourceUnavailable("the answer holds no list where one was asked for")
    return nodes


def _after(connection: JSON) -> str | None:
    """Return the cursor at which *connection* goes on; None: it is at its end."""
    more, cursor = (content.find(connection, f"/pageInfo/{name}") for name in ("hasNextPage", "endCursor"))
    if not isinstance(more, bool) or (more and not isinstance(cursor, str)):
        raise SourceUnavailable("a list does not say whether and where it goes on")
    return cursor if more else None


def _next(operation: str, after: str | None, connection: JSON) -> str | None:
    """Return where *connection* goes on, which must not be where it was."""
    onward = _after(connection)
    if onward is not None and onward == after:
        raise SourceUnavailable(f"{operation}: the list does not move on after {after!r}")
    return onward


def _gid(row: Row, ref: ObjectRef) -> str:
    return f"gid://shopify/{row.type}/{ref.id}"


def _floor(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def _written(moment: datetime) -> str:
    """Write *moment* as a search takes it, whatever its zone: UTC, whole seconds, `Z`."""
    return f"{_floor(moment):%Y-%m-%dT%H:%M:%SZ}"


def _since(moment: datetime) -> str:
    return f"updated_at:>='{_written(moment)}'"


def _rows(source: str, kinds: Collection[str] | None) -> Mapping[str, Row]:
    wanted = [name for name, row in KINDS.items() if row.kind.core] if kinds is None else kinds
    unknown = sorted(set(wanted) - set(KINDS))
    if unknown:
        raise ConfigError(f"sources[{source}].kinds: no such kind: {', '.join(unknown)}; known: {', '.join(KINDS)}")
    return {name: row for name, row in KINDS.items() if name in wanted}


def _domain(source: str, shop: str) -> str:
    """Return the domain that Shopify gave the shop, which deliveries name; accepts its URL, and its bare name."""
    name = re.sub(r"^https?://", "", shop.strip().lower()).rstrip("/")
    domain = name if "." in name else f"{name}.myshopify.com"
    if _DOMAIN.fullmatch(domain) is None:
        raise ConfigError(f"sources[{source}].shop: {shop!r} is no NAME.myshopify.com; a domain of its own will not do")
    return domain


def _parsed(raw: bytes) -> tuple[Body, bool]:
    try:
        body, changed = content.clean(content.parse(raw))
    except ValueError as error:
        raise DeliveryMalformed("the body is not JSON") from error
    if not isinstance(body, dict):
        raise DeliveryMalformed("the body is not a JSON object")
    return body, changed
