"""A stranger's adapter, as a distribution of its own would bring it: a carrier's parcels, by the seam alone."""

# ruff: noqa: RUF009 - an option is a field

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import httpx

from reconciler import content
from reconciler.adapter import Column, Kind, Listing, Provider, option, per_second
from reconciler.errors import AccessLost, DeliveryMalformed, SignatureInvalid, SourceRefused, SourceUnavailable
from reconciler.model import Named, Notification, ObjectRef, Page, Proof, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from reconciler.adapter import Budget, Configured, Hands, Limit, Mended, Secret, Subscription, Undelivered
    from reconciler.model import Body, Delivery

PARCEL = Kind(
    name="parcel",
    topics=("parcel.moved",),
    stamp="/moved_at",
    list=Listing.WHOLE,
    feed="GET /parcels?since=",
    fetch="GET /parcels/{id}",
    deletion="404",
    permission="read",
    cost="1",
    columns=(Column("place", ("/place",), "text"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelsAccess:
    """What only a source of parcels has."""

    api_key: Secret = option("secret")
    depots: tuple[str, ...] = option("names", default=())

    def faults(self) -> tuple[str, ...]:
        """Return what its keys together are not good for."""
        return ("depots: one is enough",) if len(self.depots) > 1 else ()


class Parcels:
    """One account at the carrier."""

    provider = "parcels"

    def __init__(
        self,
        source: str,
        api_key: str,
        secrets: Sequence[str],
        *,
        api_base: str,
        budget: Budget,
        clock: Callable[[], datetime],
    ) -> None:
        self.source, self._secrets, self._budget, self._clock = source, secrets, budget, clock
        self.kinds: Mapping[str, Kind] = {"parcel": PARCEL}
        self._http = httpx.Client(base_url=api_base, headers={"Authorization": api_key}, timeout=10, trust_env=False)

    def close(self) -> None:
        """Close the connections at rest."""
        self._http.close()

    def read(self, delivery: Delivery, *, secrets: Sequence[str] | None = None) -> tuple[Notification, ...]:
        """Verify and parse."""
        offered, known = delivery.headers.get("x-signature", "").encode(), self._secrets if secrets is None else secrets
        made = [hmac.new(secret.encode(), delivery.body, hashlib.sha256).hexdigest().encode() for secret in known]
        which = next((number for number, each in enumerate(made, 1) if hmac.compare_digest(each, offered)), None)
        if which is None:
            raise SignatureInvalid("not signed with a secret of ours")
        try:
            told, _ = content.clean(content.parse(delivery.body))
        except ValueError as error:
            raise DeliveryMalformed("the body is not JSON") from error
        if not isinstance(told, dict):
            raise DeliveryMalformed("the body is not a JSON object")
        named = (Named(ObjectRef(self.source, "", "parcel", str(told["parcel"]))),)
        event = Notification(self.source, str(told["id"]), "parcel.moved", None, told, named=named, secret=which)
        return (event,)

    def addressed(self, told: Notification, delivery: Delivery) -> bool:  # noqa: ARG002 - there is one account
        """Say that it is about this source."""
        return True

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:  # noqa: ARG002 - the id is enough
        """Return the parcel as it is now, or its absence."""
        body = self._get(f"/parcels/{ref.id}")
        if body is None:
            return Snapshot(ref, None, None, self._clock(), Proof.NOT_FOUND, "404")
        return self._shown(body)

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:  # noqa: ARG002 - there is one
        """Yield what moved since then."""
        found = self._get(f"/parcels?since={since:%Y-%m-%dT%H:%M:%SZ}") or {}
        yield Page(tuple(self._shown(each) for each in found["parcels"]))

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:  # noqa: ARG002 - there is one
        """Yield every parcel."""
        found = self._get("/parcels") or {}
        yield Page(tuple(self._shown(each) for each in found["parcels"]))

    def identity(self, scope: str = "") -> str:  # noqa: ARG002 - there is one
        """Return the account's number."""
        return str((self._get("/me") or {})["account"])

    def scopes(self, kind: str | None = None) -> Sequence[str]:  # noqa: ARG002 - there is one
        """Return the only one."""
        return ("",)

    def shown(self, payload: Body, ref: ObjectRef) -> Body | None:  # noqa: ARG002 - deliveries show nothing
        """Return None."""
        return None

    def shape(self, kind: str) -> Mapping[str, object]:  # noqa: ARG002 - there is one
        """Return what the form of bodies depends on."""
        return {"adapter": "1"}

    def subscriptions(self, urls: Sequence[str], *, held: Collection[str] = ()) -> Sequence[Subscription]:  # noqa: ARG002 - the carrier shows none
        """Return nothing."""
        return ()

    def mend_subscription(self, broken: Subscription, url: str, *, secret: str | None) -> Mended:  # noqa: ARG002 - no call does
        """Refuse."""
        raise SourceRefused(f"no call makes a subscription at {url}")

    def failed_deliveries(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:  # noqa: ARG002 - none is told of
        """Yield nothing."""
        return iter(())

    def redeliver(self, undelivered: Undelivered) -> None:
        """Refuse."""
        raise SourceRefused(f"no call sends {undelivered.event_id} again")

    def spoken(self, payload: Body) -> str | None:  # noqa: ARG002 - there is one version
        """Return None."""
        return None

    def _get(self, path: str) -> Body | None:
        self._budget.spend("GET")
        try:
            answer = self._http.get(path)
        except httpx.HTTPError as error:
            raise SourceUnavailable(type(error).__name__) from None
        self._budget.answered("GET", str(answer.status_code))
        if answer.status_code == 404:
            return None
        if answer.status_code in {401, 403}:
            raise AccessLost(path)
        if answer.status_code != 200:
            raise SourceUnavailable(f"{path}: {answer.status_code}")
        body: Body = content.parse(answer.content)
        return body

    def _shown(self, body: Body) -> Snapshot:
        stamp = datetime.fromisoformat(body["moved_at"])
        return Snapshot(ObjectRef(self.source, "", "parcel", body["id"]), body, stamp, self._clock())


def _limits(source: Configured) -> Sequence[Limit]:
    return per_second(source.calls_per_second or 100)


def _adapter(source: Configured, hands: Hands) -> Parcels:
    if not isinstance(source.access, ParcelsAccess):
        raise TypeError(source.name)
    secrets = [secret.reveal() for secret in source.webhook_secrets]
    adapter = Parcels(
        source.name,
        source.access.api_key.reveal(),
        secrets,
        api_base=source.api_base or "https://parcels.example",
        budget=hands.budget,
        clock=hands.clock,
    )
    hands.stack.callback(adapter.close)
    return adapter


PROVIDER = Provider(
    kinds={"parcel": PARCEL},
    access=ParcelsAccess,
    api_version="1",
    redelivers=timedelta(days=1),
    limits=_limits,
    adapter=_adapter,
)
