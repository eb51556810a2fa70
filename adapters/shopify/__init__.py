"""
Shopify: what one shop sells, has and sends, and to whom, over the Admin GraphQL API.

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
    triggered-at and body. A delivery for another shop's domain is skipped. Topics that name nothing are listed with
    the reason (ignored.py). A discount's webhooks name a code's or an automatic discount's node, whose number is the
    one of `DiscountNode`: [U], as seen in Shopify's examples. An inventory level has no number: a webhook names its
    item and location, and so does its id.

Stamp
    `updatedAt` in UTC and whole seconds; webhooks write the same instant with the shop's offset. A refund's webhook has
    none, and whether a refund's own moves with its transactions is [U]: that kind is unstamped.

Changed since
    Lists searched by `updated_at`, whose value must be quoted and in UTC: else the term is dropped in silence, with
    HTTP 200, the whole list and a warning in `extensions.search` (COPY, api/usage/search-syntax). Warnings are
    failures, and each stamp is compared with what was asked for. Ascending, so that what changes meanwhile comes again
    at the end. A connection ends without a word after 25,000 objects (DOC, api/usage/limits): long before that it is
    begun anew from the last stamp; a second with more than that is walked by id. Variants cannot be sorted by stamp
    (SCHEMA): by id. A crawl goes by id, each page a search of its own, which no change can shift; of a kind with more
    than 5,000 objects a bulk operation shows what is beyond the first page (DOC, api/usage/bulk-operations/queries). It
    shows what was read at any time until its end, which counts for no later than the listing's beginning. Only one that
    is complete is believed, and that shows no fewer objects than it and the shop count; else the kind is paged through.
    It cannot be asked for a list that is to be cut (a discount's codes). Where several operations run already Shopify
    refuses another; one that a dead process left is not taken over. Inventory items take no sort key at all (SCHEMA):
    that they come by id is [U], and one that does not ends the list with an error. Locations cannot be searched by
    stamp (SCHEMA): they are listed whole.
    Refunds and fulfillments have no list: they are those of the orders that changed. Inventory levels are listed at
    each location by `updated_at`, in no order that is promised: a location with more than a connection shows is left
    for the levels of all items, which is how they are crawled. That a level's `updatedAt` moves with each of its
    quantities is [U].
    Deletions are in no list: the shop's history (`events`, kept one year) tells of them as hints; whether of every
    kind is [U].
    How far a search lags behind is not published: windows overlap by ten minutes more.

Gone
    null. But without the scope `read_all_orders` an order older than 60 days is null too (DOC, objects/Order): such a
    null is refused, not believed, unless that scope is granted, or a webhook or the shop's history said that the order
    was deleted. Errors inside a 200 are failures, whatever stands beside them: ACCESS_DENIED is lost access, and null
    data is no empty list. Customer data that nobody approved is null without a word (COPY). A shop that took the app
    off (401), is frozen for its bills (402), locked (423) or gone (404) is lost access, said in words: nothing in it is
    absent.

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
from time import monotonic
from typing import TYPE_CHECKING, Final

from adapters.shopify import bulk, documents, webhooks
from adapters.shopify.bulk import Bulk
from adapters.shopify.calls import AccessToken, Calls, ClientCredentials
from adapters.shopify.counting import counted
from adapters.shopify.documents import Documents
from adapters.shopify.extras import selections
from adapters.shopify.kinds import ALL_ORDERS, KINDS
from adapters.shopify.lists import Lists
from adapters.shopify.rows import Walk
from adapters.shopify.shapes import after, cut, id_of, nodes, onward, shown
from adapters.shopify.signature import vouched
from adapters.shopify.subscriptions import Subscriptions
from reconciler import content
from reconciler.adapter import unheard
from reconciler.errors import (
    AccessLost,
    ConfigError,
    DeliveryMalformed,
    SourceRefused,
    SourceUnavailable,
)
from reconciler.model import Notification, ObjectRef, Proof, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from adapters.shopify.rows import Part, Row
    from reconciler.adapter import Budget, Count, Kind, Mended, Notices, Subscription, Undelivered
    from reconciler.model import JSON, Body, Delivery, Page

__all__ = ["KINDS", "AccessToken", "ClientCredentials", "Limits", "Shopify", "limits"]

_VERSION: Final = "1"  # of the form in which this adapter hands on bodies
_STARTS: Final = 3  # how often a read of several calls is begun before it is left for later
_PARTS: Final = 24_000  # of one own list: Shopify ends it at 25,000 without a word, and no search begins it anew
_READ_WITHIN: Final = 120.0  # seconds for all calls of one read; a lease is longer
_CALLS_A_SECOND: Final = 20.0  # Shopify counts points; this only keeps a burst from emptying the bucket unseen
_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]*\.myshopify\.com")
_ON_TYPE: Final = re.compile(r"on type '(?P<type>\w+)'", re.ASCII)
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

    def __init__(  # noqa: PLR0913 - each is a key of the configuration, or what it is handed
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
        extra_fields: Mapping[str, Sequence[str]] | None = None,
        notices: Notices = unheard,
        timeout: tuple[float, float] = (3.05, 20.0),
        bulk_above: int = bulk.ABOVE,
        bulk_pause: float = 5.0,
    ) -> None:
        """
        Raise `ConfigError` for a shop, version, kind, field or credential that cannot be used; nothing is called yet.

        *kinds* None means the core ones. What was created before *backfill_since* no crawl shows. *extra_fields* are
        asked for besides, by kind. *timeout* holds the seconds to connect and those until an answer is complete. A kind
        with more than *bulk_above* objects is crawled by a bulk operation, looked at every *bulk_pause* seconds.
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
        self._extra = dict(extra_fields or {})
        self._unproved = dict(selections(source, self._extra, KINDS))
        self._backfill, self._documents = backfill_since, Documents(self._unproved)
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
        in_bulk = Bulk(self._calls, self._documents, source=source, above=bulk_above, pause=bulk_pause)
        self._lists = Lists(self._calls, self._documents, in_bulk, source=source)
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
        whole, changed = _parsed(delivery.body)
        body: Body = content.without(whole, webhooks.SECRETS)
        topic, skipped = webhooks.header(delivery, "topic"), self._why_skipped(delivery)
        return (
            Notification(
                source=self.source,
                event_id=webhooks.event_id(delivery),
                event_type=topic,
                occurred_at=webhooks.instant(webhooks.header(delivery, "triggered-at")),
                payload=body,
                raw=delivery.body if changed and body is whole else None,
                named=() if skipped else webhooks.named(topic, body, self._rows, self.source),
                skipped=skipped,
                secret=secret,
                erasure=None if skipped else webhooks.erasure(topic, body, self.source, self._shop),
                access=None if skipped else webhooks.access(topic),
            ),
        )

    def addressed(self, told: Notification, delivery: Delivery) -> bool:  # noqa: ARG002 - bodies do not name the shop
        """Say whether *delivery* names our shop, in a header that is not signed."""
        return webhooks.header(delivery, "shop-domain").lower() == self._shop

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """
        Return the object as it is now, its own lists whole, or its absence.

        An order, or what belongs to one, that reads as null is absent only if *locator* says that the shop deleted it,
        or the app may see orders of any age.
        """
        row = self._proved(ref.kind)
        if not re.fullmatch("[0-9]{1,20}:[0-9]{1,20}" if row.pair else "[0-9]{1,20}", ref.id, re.ASCII):
            return self._nameless(ref)
        until = monotonic() + _READ_WITHIN
        head = self._head(row, ref)
        for _ in range(_STARTS):
            if head.body is None:
                return self._absent(row, head, locator)
            if not cut(row, head.body):
                return shown(row, head)
            body = self._completed(row, ref, head.body, until)
            again = self._head(row, ref)
            if body is not None and _same(row, head, again):
                return shown(row, replace(head, body=body))
            head = again
        raise SourceUnavailable(f"{ref}: changed each time while its lists were read")

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:  # noqa: ARG002 - there is one
        """Yield what was updated since *since*, inclusive, and hints of what the shop's history says was deleted."""
        yield from self._lists.changed(self._proved(kind), since)

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:  # noqa: ARG002 - there is one
        """Yield every object of *kind* that the app may see; of what has an age, made since the backfill begins."""
        yield from self._lists.every(self._proved(kind), self._backfill)

    def count(self, kind: str, scope: str) -> Count | None:  # noqa: ARG002 - there is one
        """Return how many the shop counts; None for a kind that it does not count."""
        row = self._row(kind)
        count = counted(self._calls, row, begins=self._backfill)
        return count and replace(count, pages=self._lists.price(row, count.objects))

    def faults(self) -> Sequence[str]:
        """Return a sentence for each of the extra fields that the schema does not have."""
        return [fault for kind in self._extra if kind in self._rows for fault in self._wrong_fields(kind)]

    def identity(self, scope: str = "") -> str:  # noqa: ARG002 - there is one
        """Return the number of the shop behind the credential; raises `AccessLost` where it is good for nothing."""
        shop = self._calls.ask("shop", documents.SHOP).data.get("shop")
        number = webhooks.number_of(content.find(shop, "/id"), ("Shop",))
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

    def _proved(self, kind: str) -> Row:
        """Return the row of *kind*, once Shopify has taken each field that is asked for besides ours."""
        row = self._row(kind)
        if kind in self._unproved:
            try:
                self._calls.ask(row.kind.fetch, self._documents.one(row), _variables(row, self._anything(row)))
            except SourceRefused as error:
                raise SourceRefused(f"sources[{self.source}].extra_fields.{kind}: {error}") from None
            self._unproved.pop(kind, None)
        return row

    def _wrong_fields(self, kind: str) -> Iterator[str]:
        """Yield what is wrong with each extra field of *kind*; asks about each alone if they are refused together."""
        try:
            self._proved(kind)
        except AccessLost:
            return  # what is seen of the schema does not hang on it; the kind's first read tells
        except SourceRefused as error:
            refused = [f"{field!r} {why}" for field in self._extra[kind] if (why := self._why_wrong(kind, field))]
            where = f"sources[{self.source}].extra_fields.{kind}"
            yield from [f"{where}: {each}" for each in refused] or [str(error)]

    def _why_wrong(self, kind: str, field: str) -> str:
        """Return why Shopify refuses *field*, and what there is in its place; empty: it takes it."""
        row, alone = self._row(kind), Documents(selections(self.source, {kind: [field]}, KINDS))
        try:
            self._calls.ask(row.kind.fetch, alone.one(row), _variables(row, self._anything(row)))
        except SourceRefused as error:
            said = str(error).removeprefix(f"{row.kind.fetch}:").strip()
            type_ = named["type"] if (named := _ON_TYPE.search(said)) else row.type
            fields = self._calls.ask("__type", documents.FIELDS, {"type": type_}).data.get("__type")
            names = sorted(str(each["name"]) for each in (content.find(fields, "/fields") or ()))
            return f"is refused: {said.rstrip('.')}; {type_} has {', '.join(names)}"
        return ""

    def _anything(self, row: Row) -> ObjectRef:
        """Return what need not be there, to ask about: Shopify reads the query before it looks."""
        return ObjectRef(self.source, "", row.kind.name, "1:1" if row.pair else "1")

    def _why_skipped(self, delivery: Delivery) -> str:
        domain = webhooks.header(delivery, "shop-domain").lower()
        return f"a delivery for {domain}; {self.source} is {self._shop}" if domain not in {"", self._shop} else ""

    # --- one object ---

    def _head(self, row: Row, ref: ObjectRef) -> Snapshot:
        """Return *ref* as one call shows it, the places in its own lists among it."""
        answered = self._calls.ask(row.kind.fetch, self._documents.one(row), _variables(row, ref))
        if row.root not in answered.data:
            raise SourceUnavailable(f"{ref}: the answer shows nothing, not even null")
        body = answered.data[row.root]
        if row.pair and isinstance(body, dict):
            body = body.get("inventoryLevel")
        if row.walk is Walk.ALONE and isinstance(body, dict) and id_of(row, body) not in {None, ref.id}:
            body = None  # another shop than ours was asked for
        if body is None:
            return Snapshot(ref, None, None, answered.observed_at, Proof.NOT_FOUND, f"{row.root}: null")
        if not isinstance(body, dict) or id_of(row, body) != ref.id:
            raise SourceRefused(f"{ref}: the answer shows another object")
        return Snapshot(ref, body, webhooks.stamp_of(row, body), answered.observed_at)

    def _nameless(self, ref: ObjectRef) -> Snapshot:
        """Return the absence of what no object of Shopify's is called, once the shop has shown itself."""
        observed_at = self._calls.ask("shop", documents.SHOP).observed_at
        return Snapshot(ref, None, None, observed_at, Proof.NOT_FOUND, "no number, as ids are")

    def _completed(self, row: Row, ref: ObjectRef, body: Body, until: float) -> Body | None:
        """Return *body* with each list of its own read to the end; None if the object vanished meanwhile."""
        whole = dict(body)
        for part in cut(row, body):
            rest = self._rest(row, ref, part, body[part.field], until)
            if rest is None:
                return None
            whole[part.field] = {"nodes": [*nodes(body[part.field]), *rest]}
        return whole

    def _rest(self, row: Row, ref: ObjectRef, part: Part, begun: JSON, until: float) -> list[Body] | None:
        found: list[Body] = []
        operation, document = f"{row.root}.{part.field}", self._documents.part(row, part)
        place = after(begun)
        while place is not None:
            if monotonic() > until:
                raise SourceUnavailable(f"{operation}: too many pages for one read")
            if len(found) >= _PARTS:
                raise SourceRefused(f"{ref}: {part.field} holds more than a list of Shopify's ever shows")
            variables = {"id": _gid(row, ref), "first": part.page, "after": place}
            body = self._calls.ask(operation, document, variables).data.get(row.root)
            if body is None:
                return None
            found += nodes(content.find(body, f"/{part.field}"))
            place = onward(operation, place, content.find(body, f"/{part.field}"))
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


def _same(row: Row, head: Snapshot, again: Snapshot) -> bool:
    """Say whether two reads of one head show the same."""
    form = content.Form(volatile=row.kind.volatile, unordered=row.kind.unordered)
    return head.body is not None and again.body is not None and form.digest(head.body) == form.digest(again.body)


def _variables(row: Row, ref: ObjectRef) -> dict[str, object]:
    """Return what the document that reads *ref* asks to be told."""
    if row.walk is Walk.ALONE:
        return {}
    if row.pair:
        thing, location = ref.id.split(":")
        return {"item": f"gid://shopify/InventoryItem/{thing}", "location": f"gid://shopify/Location/{location}"}
    return {"id": _gid(row, ref), **({"parts": row.fetched} if row.parts else {})}


def _gid(row: Row, ref: ObjectRef) -> str:
    return f"gid://shopify/{row.type}/{ref.id}"


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
