"""
Two accounts are never confused: first contact pins the provider's account to the source.

`Pinned` stands before an adapter and refuses a credential that answers with another account before anything is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.adapter import Checking, Probing, one_pass, patiently
from reconciler.errors import AccessLost
from reconciler.store import runs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from reconciler.adapter import Adapter, Feed, Kind, Mended, Probed, Subscription, Undelivered
    from reconciler.model import Body, Delivery, Notification, ObjectRef, Page, Snapshot
    from reconciler.store.database import Database


class Pinned:
    """An adapter that asks who it is before its first read; keeps every promise of the one behind it."""

    def __init__(self, adapter: Adapter, database: Database) -> None:
        self._adapter = adapter
        self._database = database
        self._pinned: str | None = None
        self._is_ours = False

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._adapter.provider

    @property
    def source(self) -> str:
        """The configured name."""
        return self._adapter.source

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds this source mirrors, by name."""
        return self._adapter.kinds

    def read(self, delivery: Delivery, *, secrets: Sequence[str] | None = None) -> tuple[Notification, ...]:
        """Verify and parse a delivery: its secret says whose it is."""
        return self._adapter.read(delivery, secrets=secrets)

    def addressed(self, told: Notification, delivery: Delivery) -> bool:
        """Say whether what was read behind an endpoint is about this source."""
        return self._adapter.addressed(told, delivery)

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """Return the object as it is now, read from the pinned account."""
        self._contact()
        return self._adapter.fetch(ref, locator=locator)

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        """Yield what the feed shows, read from the pinned account."""
        patiently(self._contact)
        yield from self._adapter.changed_since(kind, scope, since)

    def one_pass(self, kinds: Collection[str]) -> Feed:
        """Return what shows the changes of *kinds* in one pass, read from the pinned account."""
        return _PinnedFeed(one_pass(self._adapter, kinds), self._contact)

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:
        """Yield every object, read from the pinned account."""
        patiently(self._contact)
        yield from self._adapter.crawl(kind, scope)

    def identity(self, scope: str = "") -> str:
        """
        Return the account's id; raises `AccessLost` if the credential belongs, or by now belongs, to another.

        Where everything is a 404 because of that, nothing is proved gone.
        """
        account = self._adapter.identity(scope)
        if not scope:
            self._compare(account)
        return account

    def scopes(self, kind: str | None = None) -> Sequence[str]:
        """Return the scopes to sweep."""
        return self._adapter.scopes(kind)

    def probe(self) -> Probed | None:
        """Return what changed lately in which of many scopes of the pinned account; None where nothing tells."""
        if not isinstance(self._adapter, Probing):
            return None
        patiently(self._contact)
        return self._adapter.probe()

    def faults(self) -> Sequence[str]:
        """Return what the provider does not have of what is configured; nothing of the account is read for that."""
        return self._adapter.faults() if isinstance(self._adapter, Checking) else ()

    def shown(self, payload: Body, ref: ObjectRef) -> Body | None:
        """Return *ref* as an event's payload shows it, if that is whole and in the shape of `fetch`."""
        return self._adapter.shown(payload, ref)

    def shape(self, kind: str) -> Mapping[str, object]:
        """Return what the form of this kind's bodies depends on."""
        return self._adapter.shape(kind)

    def subscriptions(self, urls: Sequence[str], *, held: Collection[str] = ()) -> Sequence[Subscription]:
        """Return how the subscriptions of the pinned account stand."""
        self._contact()
        return self._adapter.subscriptions(urls, held=held)

    def mend_subscription(self, broken: Subscription, url: str, *, secret: str | None) -> Mended:
        """Make or mend a subscription of the pinned account."""
        self._contact()
        return self._adapter.mend_subscription(broken, url, secret=secret)

    def failed_deliveries(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:
        """Yield what the pinned account could not deliver."""
        self._contact()
        yield from self._adapter.failed_deliveries(urls, since)

    def redeliver(self, undelivered: Undelivered) -> None:
        """Have it sent again by the pinned account."""
        self._contact()
        self._adapter.redeliver(undelivered)

    def spoken(self, payload: Body) -> str | None:
        """Return the API version that an event's payload is in."""
        return self._adapter.spoken(payload)

    def _contact(self) -> None:
        if not self._is_ours:
            self.identity()

    def _compare(self, account: str) -> None:
        if self._pinned is None:
            self._pinned = self._database.commit(
                lambda connection: runs.pin(connection, self.source, provider=self.provider, account=account)
            )
        self._is_ours = self._pinned == account
        if not self._is_ours:
            raise AccessLost(
                f"the credential of {self.source} belongs to account {account}, but this mirror holds {self._pinned}; "
                "give it the right credential, or another name"
            )


class _PinnedFeed:
    def __init__(self, feed: Feed, contact: Callable[[], None]) -> None:
        self._feed, self._contact = feed, contact

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        patiently(self._contact)
        yield from self._feed.changed_since(kind, scope, since)
