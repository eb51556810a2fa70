"""
Stripe: what is sold and to whom, what was agreed and asked for, how it is paid and where the money goes.

Facts marked SDK were read in stripe 16.1; DOC and COPY are Stripe's own pages; [U] is not confirmed by either.

Signature
    `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=...]`, HMAC-SHA256 over `<t>.<body>`, keyed with the whole `whsec_...`
    text (SDK, _webhook.py). While a secret is rolled the header has one `v1` for each (COPY, docs.stripe.com/webhooks),
    and each endpoint has its own: all are tried. Unlike the SDK's check, which accepts any time in the future, takes a
    tolerance of 0 for "any age", and raises UnicodeDecodeError or TypeError on some bytes, this one is two-sided and
    raises one error.

Event id
    The body's `id`, the same for every retry and endpoint (SDK, _event.py). One change may still make two events, or a
    snapshot and a thin one: both only name the object. `livemode` other than the key's is skipped; `account` is the
    connected account it is about, and its scope: one that is not mirrored names nothing. `created` is in whole seconds
    and orders nothing: "Don't use created to
    determine event order" (COPY, docs.stripe.com/webhooks). The event's `api_version` is its endpoint's, not ours: its
    payload is used only to see whether a read may have been too early.
    Thin events name their object (`related_object`) and show nothing of it.

Stamp
    Only products have `updated`, in whole seconds (SDK, all resource classes); every other kind is unstamped. Links to
    hosted pages expire and come anew with a read (logto#4563, ev-server#3438; `receipt_url` [U]): they are volatile.

Changed since
    `GET /v1/events`, at most 20 `types[]` a call, newest first, 30 days back (SDK, _event_list_params.py): hints. For
    more types than that it is read whole, once for all kinds of a pass. Asked for more than 30 days it would silently
    show less, so this adapter refuses: crawl instead. Events whose generation failed are not shown there either (DOC,
    docs.stripe.com/webhooks/handle-irrecoverable-events): a full sweep finds them. A platform's feed tells nothing of
    its connected accounts: each has its own, asked for with `Stripe-Account`. Of some kinds no event tells all (there
    is no `payment_intent.updated`, and none at all about a balance_transaction): what was created lately is listed too.
    Lists hide by default: canceled subscriptions (`status=all`), inactive prices (two passes), and without remedy
    inline prices and whatever is on a test clock (SDK, list params). Search is never used: it lags by up to an hour
    (SDK). A list gives 10 sub-objects and `has_more`: a fetch walks them, a listing makes such an object a hint. Lists
    of payment methods, payment links, quotes, tax ids take no bounds on `created`; invoice items have a `date` instead.
    Subscription items and tax ids are listed by whom they belong to: they are taken from the lists of those.

Gone
    A deleted customer is 200 `{id, object, deleted: true}`. Elsewhere 404 `resource_missing` (products, draft invoices
    [U]). A 404 that says "a similar object exists in live mode, but a test mode key was used" is about the key
    (payola#278, woocommerce-gateway-stripe#3109), as are 401 and 403: never an absence. A connected account that is
    taken away answers 403 `account_invalid` to every call: its scope is lost, and nothing in it is gone. Coupons and
    plans may be made again under the id of one that was deleted.

Limits
    100 calls a second live, 25 in a sandbox, and 25 for each operation: all ids of `GET /v1/customers/{id}` are one
    (DOC, docs.stripe.com/rate-limits). 429 says why in `Stripe-Rate-Limited-Reason` and sends no Retry-After; with
    `lock_timeout` an object is locked. Reads are also allotted 500 per transaction over 30 days (COPY, same page).

Calls go through `stripe.StripeClient` with no retries of its own, over an HTTP client with one deadline for the whole
answer (wire.py; looking up the host's name is left to the system's resolver). Bodies are parsed from the raw text: the
SDK's objects turn numbers into float and decimal strings into Decimal. A restricted key may not be allowed
`GET /v1/account`, and no permission may give it (dj-stripe#1131, stripe-node#2246): `identity` then takes the account
that the refusal names, once `GET /v1/events`, which the key needs anyway, has shown that it is still good.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from adapters.stripe import events
from adapters.stripe.accounts import Accounts
from adapters.stripe.calls import SECRETS, Calls, Missing, without_secrets
from adapters.stripe.counting import drawn
from adapters.stripe.feed import Feed
from adapters.stripe.kinds import KINDS
from adapters.stripe.listing import Lists, is_cut, is_cut_list, own_url
from adapters.stripe.signature import vouched
from adapters.stripe.subscriptions import Subscriptions
from reconciler import content
from reconciler.errors import AccessLost, ConfigError, DeliveryMalformed, SourceRefused, SourceUnavailable
from reconciler.model import Notification, Proof, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from adapters.stripe.kinds import Row
    from reconciler.adapter import Budget, Count, Kind, Mended, Subscription, Undelivered
    from reconciler.model import JSON, Body, Delivery, ObjectRef, Page

__all__ = ["KINDS", "Limits", "Stripe", "limits"]

_VERSION: Final = "1"  # of the form in which this adapter hands on bodies
_STARTS: Final = 3  # how often a read of several calls is begun before it is left for later
_READ_WITHIN: Final = 120.0  # seconds for all calls of one read; a lease is longer
_LIVE_RATE: Final = 100.0  # calls a second, like the next two
_SANDBOX_RATE: Final = 25.0
_OPERATION_RATE: Final = 25.0
_ACCOUNT: Final = re.compile(r"on account '(acct_\w+)'")


@dataclass(frozen=True, slots=True)
class Limits:
    """
    How often Stripe may be called for one source.

    Attributes:
        calls_per_second: All calls together.
        operation_calls_per_second: Calls of one operation.
    """

    calls_per_second: float
    operation_calls_per_second: float


def limits(api_key: str, calls_per_second: float | None = None) -> Limits:
    """
    Return what Stripe allows a key of this mode; *calls_per_second* overrides the rate of all calls.

    A rate beyond Stripe's own means limits that were raised (or a stand-in): those of operations are raised alike.
    """
    allowed = _LIVE_RATE if _mode_of(api_key) == "live" else _SANDBOX_RATE
    every = allowed if calls_per_second is None else float(calls_per_second)
    return Limits(every, max(_OPERATION_RATE, _OPERATION_RATE * every / _LIVE_RATE))


def is_live(api_key: str) -> bool:
    """Say whether a key shows what is real, and not what Stripe keeps for tests."""
    return _mode_of(api_key) == "live"


class Stripe:
    """
    One Stripe account in one mode, and those connected to it that are mirrored.

    Attributes:
        provider: `stripe`.
        source: The configured name.
        kinds: The kinds this source mirrors, by name.
    """

    provider = "stripe"

    def __init__(
        self,
        source: str,
        *,
        api_key: str,
        webhook_secrets: Sequence[str],
        kinds: Collection[str] | None,
        budget: Budget,
        tolerance: timedelta,
        api_version: str,
        clock: Callable[[], datetime],
        accounts: Sequence[str] | Literal["all"] = (),
        api_base: str | None = None,
        backfill_since: datetime | None = None,
        timeout: tuple[float, float] = (3.05, 20.0),
    ) -> None:
        """
        Raise `ConfigError` for a kind or key that cannot be used; nothing is called yet.

        *kinds* None means the core ones. *accounts* are the connected ones that are mirrored besides the account
        itself. What was created before *backfill_since* no crawl shows. *timeout* holds the seconds to connect and
        those until an answer is complete.
        """
        self.source = source
        self._rows = _rows(source, kinds)
        self.kinds: Mapping[str, Kind] = {name: row.kind for name, row in self._rows.items()}
        if not re.fullmatch(r"[\x21-\x7e]+", api_key):
            raise ConfigError(f"sources[{source}].api_key: empty, or holds a space, line break or non-ASCII character")
        self._mode = _mode_of(api_key)
        self._secrets, self._tolerance = tuple(webhook_secrets), tolerance
        self._api_version, self._clock = api_version, clock
        self._backfill = None if backfill_since is None else int(backfill_since.timestamp() // 1)
        # At INFO and below the SDK logs every URL and body.
        logging.getLogger("stripe").setLevel(logging.WARNING)
        self._calls = Calls(
            api_key=api_key, api_version=api_version, api_base=api_base, timeout=timeout, budget=budget, clock=clock
        )
        self._accounts = Accounts(self._calls, accounts)
        self._lists = Lists(self._calls, source)
        self._subscriptions = Subscriptions(
            self._calls, self._accounts, source=source, rows=self._rows, api_version=api_version
        )

    def __repr__(self) -> str:
        """Name the source, and nothing secret."""
        return f"Stripe({self.source!r})"

    def close(self) -> None:
        """Close the connections at rest; a later call opens new ones."""
        self._calls.close()

    def scopes(self, kind: str | None = None) -> tuple[str, ...]:  # noqa: ARG002 - all kinds have the same
        """Return the scopes to sweep: the account itself, and the connected accounts; raises a `SourceError`."""
        return self._accounts.scopes()

    def shape(self, kind: str) -> Mapping[str, object]:  # noqa: ARG002 - all kinds have one
        """Return what the form of bodies depends on."""
        return {"adapter": _VERSION, "api_version": self._api_version, "without": sorted(SECRETS)}

    def read(self, delivery: Delivery, *, secrets: Sequence[str] | None = None) -> tuple[Notification, ...]:
        """Verify and parse; raises `SignatureInvalid` or `DeliveryMalformed`, whatever the bytes."""
        secrets = self._secrets if secrets is None else secrets
        secret = vouched(
            delivery.body,
            delivery.headers.get("stripe-signature", ""),
            secrets,
            now=delivery.received_at,
            tolerance=self._tolerance,
        )
        whole, changed = _parsed(delivery.body)
        event = without_secrets(whole)
        skipped, scope = self._why_skipped(event), self._scope_of(event)
        return (
            Notification(
                source=self.source,
                event_id=_event_id(event),
                event_type=events.type_of(event),
                occurred_at=events.instant(event.get("created")),
                payload=event,
                raw=delivery.body if changed and event is whole else None,
                named=() if skipped or scope is None else events.named(event, self._rows, self.source, scope=scope),
                skipped=skipped,
                secret=secret,
                access=None if skipped else events.access(event, scope),
            ),
        )

    def addressed(self, told: Notification, delivery: Delivery) -> bool:  # noqa: ARG002 - the event says it all
        """Say whether *told* is of our mode, and of the account itself or a connected one that is mirrored."""
        return not self._why_skipped(told.payload) and self._scope_of(told.payload) is not None

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:  # noqa: ARG002 - ids are enough
        """Return the object as it is now, its sub-lists whole, or its absence with the proof."""
        row = self._row(ref.kind)
        until = monotonic() + _READ_WITHIN
        head = self._head(row, ref)
        for _ in range(_STARTS):
            if head.body is None or not is_cut(head.body):
                return head
            body = self._completed(head.body, ref.scope, until)
            again = self._head(row, ref)
            if body is not None and _same(row, head, again):
                return replace(head, body=body)
            head = again
        raise SourceUnavailable(f"{ref}: changed each time while its sub-lists were read")

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        """
        Yield hints from the events since *since*, inclusive, and where events tell too little, what was created since.

        Raises `SourceRefused` where *since* is further back than `Kind.feed_history`: Stripe would silently show less.
        """
        return self.one_pass((kind,)).changed_since(kind, scope, since)

    def one_pass(self, kinds: Collection[str]) -> Feed:
        """Return the change feeds of *kinds*, for one pass: what they have in common is read once."""
        return Feed(self._calls, self._lists, {kind: self._row(kind) for kind in kinds}, self.source)

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:
        """Yield every object of *kind* created since the backfill begins; one whose sub-lists are cut is a hint."""
        yield from self._lists.every(self._row(kind), scope, least=self._backfill)

    def count(self, kind: str, scope: str) -> Count | None:
        """Return how many a crawl of *kind* would show: Stripe counts nothing, so that one page is drawn out."""
        return drawn(self._calls, self._row(kind), scope, least=self._backfill)

    def identity(self, scope: str = "") -> str:
        """Return the id of the account behind the key, or of *scope*; raises `AccessLost` where it is not seen."""
        try:
            account = self._calls.get("/v1/account", account=scope)
        except AccessLost as lost:
            named = _ACCOUNT.search(str(lost))
            if named is None:
                raise AccessLost(f"{lost}{'' if scope else self._way_out(lost)}") from None
            self._calls.get("/v1/events", {"limit": 1}, account=scope)
            return self._own(named.group(1), scope)
        id_ = events.id_of(account.body)
        if id_ is None:
            raise SourceUnavailable(f"{self.source}: the account has no id")
        return self._own(id_, scope)

    def shown(self, payload: Body, ref: ObjectRef) -> Body | None:
        """Return *ref* as a snapshot event of our API version shows it, if whole; else None."""
        body = content.find(payload, "/data/object")
        if payload.get("api_version") != self._api_version or not isinstance(body, dict):
            return None
        same = events.kind_of(body) == ref.kind and body.get("id") == ref.id and self._scope_of(payload) == ref.scope
        return body if same and body.get("deleted") is not True and not is_cut(body) else None

    def subscriptions(self, urls: Sequence[str], *, held: Collection[str] = ()) -> Sequence[Subscription]:
        """Return the webhook endpoint that points at us; needs the permission to read webhooks."""
        return self._subscriptions.every(urls, held)

    def mend_subscription(self, broken: Subscription, url: str, *, secret: str | None) -> Mended:  # noqa: ARG002 - Stripe makes the secret
        """Make a webhook endpoint, or have it send what is missing."""
        return self._subscriptions.mend(broken, url)

    def failed_deliveries(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:  # noqa: ARG002 - of any endpoint
        """Yield events that some endpoint of the account has not taken, with what they are about."""
        return self._subscriptions.undelivered(since)

    def redeliver(self, undelivered: Undelivered) -> None:
        """Refuse: no call of Stripe's sends an event again."""
        raise SourceRefused(f"{undelivered.event_id}: no call of Stripe's sends an event again; its objects are read")

    def spoken(self, payload: Body) -> str | None:
        """Return the API version of an event, that of its endpoint; thin events have none."""
        version = payload.get("api_version")
        return version if isinstance(version, str) else None

    def _scope_of(self, event: Body) -> str | None:
        """Return the scope that an event's objects live in; None: a connected account that is not mirrored."""
        account = events.account_of(event)
        return account if account == "" or (account and self._accounts.covers(account)) else None

    def _own(self, account: str, scope: str) -> str:
        if scope and account != scope:
            raise AccessLost(f"{self.source}: asked as account {scope}, the key answers as {account}")
        return account

    def _way_out(self, lost: AccessLost) -> str:
        if " 401 " in str(lost):
            return f" (name a key that is valid in sources[{self.source}].api_key)"
        return " (a restricted key needs to read Events, and Accounts where that is offered)"

    def _row(self, kind: str) -> Row:
        if kind not in self._rows:
            raise SourceRefused(f"{self.source} does not mirror {kind}")
        return self._rows[kind]

    def _why_skipped(self, event: Body) -> str:
        live = event.get("livemode")
        if self._mode is None or not isinstance(live, bool) or live is (self._mode == "live"):
            return ""
        return f"an event of {'live' if live else 'test'} mode; the key of {self.source} is for {self._mode} mode"

    def _head(self, row: Row, ref: ObjectRef) -> Snapshot:
        """Return *ref* as one call shows it."""
        try:
            answered = self._calls.get(f"{row.path}/{quote(ref.id, safe='', errors='replace')}", account=ref.scope)
        except Missing as missing:
            if missing.parameter:
                raise
            return Snapshot(ref, None, None, missing.observed_at, Proof.NOT_FOUND, "404 resource_missing")
        body = answered.body
        if body.get("id") != ref.id or events.kind_of(body) != ref.kind:
            raise SourceRefused(f"{ref}: the answer shows another object")
        if body.get("deleted") is True:
            return Snapshot(ref, None, None, answered.observed_at, Proof.STATED, "200 deleted: true")
        return Snapshot(ref, body, events.stamp_of(row, body), answered.observed_at)

    def _completed(self, body: Body, account: str, until: float) -> Body | None:
        """Return *body* with every list in it read to its end; None if one vanished meanwhile."""

        def whole(node: JSON) -> JSON:
            if isinstance(node, list):
                return [whole(each) for each in node]
            if not isinstance(node, dict):
                return node
            if is_cut_list(node):
                pages = self._calls.pages(own_url(node), {}, account=account, until=until)
                node = {**node, "data": [each for page, _ in pages for each in page], "has_more": False}
            return {key: whole(value) for key, value in node.items()}

        try:
            completed: Body = whole(body)
        except Missing:
            return None
        return completed


def _same(row: Row, head: Snapshot, again: Snapshot) -> bool:
    """Say whether two reads of one head show the same."""
    form = content.Form(volatile=row.kind.volatile, unordered=row.kind.unordered)
    return head.body is not None and again.body is not None and form.digest(head.body) == form.digest(again.body)


def _rows(source: str, kinds: Collection[str] | None) -> Mapping[str, Row]:
    wanted = [name for name, row in KINDS.items() if row.kind.core] if kinds is None else kinds
    unknown = sorted(set(wanted) - set(KINDS))
    if unknown:
        raise ConfigError(f"sources[{source}].kinds: no such kind: {', '.join(unknown)}; known: {', '.join(KINDS)}")
    return {name: row for name, row in KINDS.items() if name in wanted}


def _mode_of(api_key: str) -> str | None:
    mode = re.match(r"[a-z]+_(?:org_)?(live|test)_", api_key)
    return mode.group(1) if mode else None


def _parsed(raw: bytes) -> tuple[Body, bool]:
    try:
        event, changed = content.clean(content.parse(raw))
    except ValueError as error:
        raise DeliveryMalformed("the body is not JSON") from error
    if not isinstance(event, dict):
        raise DeliveryMalformed("the body is not a JSON object")
    return event, changed


def _event_id(event: Body) -> str:
    id_ = event.get("id")
    if not isinstance(id_, str) or not 0 < len(id_) <= events.LONGEST_ID:
        raise DeliveryMalformed("the body names no event id")
    return id_
