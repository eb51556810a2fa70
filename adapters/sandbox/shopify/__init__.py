"""
A stand-in for Shopify's Admin GraphQL API: state in memory, loopback only, with the provider's habits.

Executes real GraphQL over a cut-down schema of version 2026-10, makes tokens from client credentials, and sends signed
webhooks. What differs from Shopify: the control routes change objects; an object that was deleted may be recreated,
as only their support could; and the bucket is that of the largest plan until a test wants a smaller one. How often an
object has changed can be read from its body: orders, products and customers have a tag `v3`, variants a `sku` and
refunds a `note` that ends so.

Control routes of its own:

    PUT  /shop    {"state","scopes","denied","hidden","errors","token_seconds"}; what is not named is as usual; GET
    PUT  /bulk    {"looks","fails","cut","short","expired"}: how bulk operations go that are begun from now on
    PUT  /bucket  {"restore","maximum","left"}: points, as answers show them; GET
    PUT  /family  {"family"}: `classic` or `events`, the headers of webhooks; GET
    POST /revoke  ends all tokens that were made: {"revoked"}
    POST /send    {"topic","body","event_id"}: a webhook of any topic, signed, to all that want it: {"sent"}
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from starlette.applications import Starlette

from adapters.sandbox.clock import Clock
from adapters.sandbox.control import Control, route
from adapters.sandbox.deliveries import Backoff
from adapters.sandbox.faults import Refused, number
from adapters.sandbox.front import Front
from adapters.sandbox.machinery import build
from adapters.sandbox.serving import serving
from adapters.sandbox.shopify.access import Access, policy_from, policy_shown
from adapters.sandbox.shopify.answers import ShopifyVoice
from adapters.sandbox.shopify.api import Api
from adapters.sandbox.shopify.bulk import Bulk, bulking_from
from adapters.sandbox.shopify.cost import Bucket
from adapters.sandbox.shopify.ledger import Ledger
from adapters.sandbox.shopify.schema import admin_schema
from adapters.sandbox.shopify.sending import CLASSIC, EVENTS, Sending
from adapters.sandbox.shopify.subscriptions import Subscriptions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from starlette.requests import Request
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from adapters.sandbox.operations import Operation
    from adapters.sandbox.serving import Running
    from adapters.sandbox.world import JSON, Body

API_VERSION = "2026-10"
DOMAIN = "standin.myshopify.com"
ENTERPRISE = 2000.0
STANDARD = 100.0
"""Points that come back each second on the largest plan, and on the smallest."""

CEILING = 25_000
"""How far a list may be paged through."""

RETRIES = Backoff(first=0.25, factor=2.0, most=8.0, attempts=9)
"""Eight retries, which take Shopify four hours, in half a minute."""


class ShopifySandbox:
    """
    One shop, as one app sees it.

    Attributes:
        machinery: The clock, faults, limits, calls and deliveries behind it, for tests in the same program.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        domain: str = DOMAIN,
        access_token: str | None = None,
        client_id: str = "standin",
        client_secret: str = "shpss_standin",  # noqa: S107 - opens nothing but this stand-in
        api_version: str = API_VERSION,
        timezone: str = "America/New_York",
        restore: float = ENTERPRISE,
        ceiling: int = CEILING,
        backoff: Backoff = RETRIES,
        clock: Clock | None = None,
    ) -> None:
        self.machinery = build(seed, clock=clock or Clock(), backoff=backoff, delivery_timeout=5.0)
        self._sending = Sending(self.machinery, domain=domain, api_version=api_version)
        schema = admin_schema()
        self._ledger = Ledger(self.machinery, self._sending, schema=schema, shop=(domain, ZoneInfo(timezone)))
        self._access = Access(self.machinery, token=access_token, client=(client_id, client_secret))
        self._bucket = Bucket(self.machinery.clock.ticks, restore=restore)
        served = {"handle": api_version, "displayName": api_version, "supported": True}
        subscriptions = Subscriptions(self.machinery, self._sending, secret=client_secret, api_version=served)
        self._bulk = Bulk(schema)
        api = Api(
            self.machinery,
            self._ledger,
            self._access,
            schema=schema,
            subscriptions=subscriptions,
            bulk=self._bulk,
            bucket=self._bucket,
            ceiling=ceiling,
        )
        self._front = Front(self.machinery, ShopifyVoice(self.machinery.world))
        control = Control(self.machinery, self)
        self._app = Starlette(
            routes=[*control.routes(), *self._own_routes(), control.no_such_route(), *api.routes(self._front)],
        )

    @property
    def app(self) -> ASGIApp:
        """The API and the control routes, as one application."""
        return self._app

    def serve(self, port: int = 0) -> AbstractContextManager[Running]:
        """Answer on a port of this machine (0: any) while the block runs."""
        return serving(self, port=port)

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id` and `version`; raises `Refused` if Shopify would not have it."""
        return self._ledger.operate(operation)

    def truth(self, *, kind: str | None = None, scope: str | None = None) -> list[Body]:
        """Return each object that ever was, with its hidden version, whole and without any fault."""
        return self._ledger.truth(kind=kind, scope=scope)

    def resend(self, event_id: str) -> int:
        """Raise `Refused`, whatever *event_id* is: Shopify sends nothing again."""
        raise Refused(f"Shopify has no way to send {event_id or 'a webhook'} again")

    def new_endpoint_id(self) -> str:
        """Return the id of a new webhook endpoint."""
        return self.machinery.world.new_id("app_")

    def close(self) -> None:
        """Stop sending, and let go of calls that hang."""
        self._front.let_go()
        self.machinery.deliveries.close()

    def _own_routes(self) -> list[Route]:
        return [
            route("GET", "/shop", self._shop),
            route("PUT", "/shop", self._set_shop),
            route("GET", "/bucket", self._points),
            route("PUT", "/bucket", self._set_points),
            route("PUT", "/bulk", self._set_bulk),
            route("GET", "/family", self._family),
            route("PUT", "/family", self._set_family),
            route("POST", "/revoke", self._revoke),
            route("POST", "/send", self._send),
        ]

    def _shop(self, _: Request, __: JSON) -> JSON:
        return policy_shown(self._access.policy)

    def _set_shop(self, request: Request, asked: JSON) -> JSON:
        before, after = self._access.policy, policy_from(_object(asked))
        self._access.policy = after
        if before.state != after.state == "uninstalled":
            self._access.revoke()
            self._ledger.uninstall()
        return self._shop(request, None)

    def _points(self, _: Request, __: JSON) -> JSON:
        return self._bucket.status()

    def _set_points(self, request: Request, asked: JSON) -> JSON:
        settings = _object(asked)
        unknown = sorted(settings.keys() - {"restore", "maximum", "left"})
        if unknown:
            raise Refused(f"unknown settings {', '.join(unknown)}; there are restore, maximum, left")
        said = {name: number(name, value) for name, value in settings.items()}
        self._bucket.set(
            restore=said.get("restore", self._bucket.restore), maximum=said.get("maximum"), left=said.get("left")
        )
        return self._points(request, None)

    def _set_bulk(self, _: Request, asked: JSON) -> JSON:
        self._bulk.bulking = bulking_from(_object(asked))
        return asdict(self._bulk.bulking)

    def _family(self, _: Request, __: JSON) -> JSON:
        return {"family": self._sending.family}

    def _set_family(self, request: Request, asked: JSON) -> JSON:
        family = _object(asked).get("family")
        if family not in {CLASSIC, EVENTS}:
            raise Refused(f"family must be {CLASSIC} or {EVENTS}, not {family!r}")
        self._sending.family = family
        return self._family(request, None)

    def _revoke(self, _: Request, __: JSON) -> JSON:
        return {"revoked": self._access.revoke()}

    def _send(self, _: Request, asked: JSON) -> JSON:
        settings = _object(asked)
        if not isinstance(settings.get("topic"), str) or not isinstance(settings.get("body"), dict):
            raise Refused('a webhook is an object such as {"topic": "shop/redact", "body": {}}')
        event_id = str(settings.get("event_id", ""))
        return {"sent": self._sending.send(settings["topic"], settings["body"], event_id=event_id)}


def _object(asked: JSON) -> Body:
    if not isinstance(asked, dict):
        raise Refused("the request must be a JSON object")
    return asked
