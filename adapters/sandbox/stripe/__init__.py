"""
A stand-in for Stripe's API: state in memory, loopback only, with the provider's habits.

Answers the read calls that a mirror needs, as the real `stripe` SDK makes them, and sends signed webhooks to endpoints
that calls make, too. What differs from Stripe: no other call writes (the control routes change objects),
`metadata.version` counts the changes of each object that has metadata, so that a checker can tell how fresh a copy is,
and nothing is limited until it is told to be.

Control routes of its own: `PUT /_control/keys {"rk_test_...": ["invoice"]}` sets restricted keys and the kinds each
may not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette

from adapters.sandbox.clock import Clock
from adapters.sandbox.control import Control, route
from adapters.sandbox.faults import Refused
from adapters.sandbox.front import Front
from adapters.sandbox.machinery import build
from adapters.sandbox.serving import serving
from adapters.sandbox.stripe.access import Access
from adapters.sandbox.stripe.answers import StripeVoice
from adapters.sandbox.stripe.api import Api
from adapters.sandbox.stripe.ledger import Ledger
from adapters.sandbox.stripe.subscriptions import Endpoints

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from adapters.sandbox.deliveries import Backoff
    from adapters.sandbox.limits import Rates
    from adapters.sandbox.operations import Operation
    from adapters.sandbox.serving import Running
    from adapters.sandbox.world import JSON, Body

API_VERSION = "2026-10-28.endive"
"""The version that the SDK pins."""

SANDBOX_RATES = {"every": 25.0, "each": 25.0}
"""What Stripe allows in a sandbox, to be put in force where a test wants it."""


class StripeSandbox:
    """
    One Stripe account, with its connected accounts: creating one connects it, deleting it takes it away.

    Attributes:
        machinery: The clock, faults, limits, calls and deliveries behind it, for tests in the same program.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        account: str = "acct_standin",
        accounts: Sequence[str] = (),
        api_key: str | None = None,
        api_version: str = API_VERSION,
        rates: Rates | None = None,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.machinery = build(seed, clock=clock or Clock(), rates=rates, backoff=backoff)
        self._ledger = Ledger(self.machinery, account=account, api_version=api_version)
        self._ledger.scopes.update(accounts)
        self._access = Access(account, api_key=api_key, scopes=self._ledger.scopes, mischief=self.machinery.mischief)
        api = Api(self.machinery, self._ledger, self._access, api_version=api_version)
        self._front = Front(self.machinery, StripeVoice(self.machinery.world, api_version=api_version))
        control = Control(self.machinery, self)
        own = route("PUT", "/keys", self._set_keys)
        endpoints = Endpoints(self.machinery, self._access, api_version=api_version)
        answers = [*endpoints.routes(self._front), *api.routes(self._front)]
        self._app = Starlette(routes=[*control.routes(), own, control.no_such_route(), *answers])

    @property
    def app(self) -> ASGIApp:
        """The API and the control routes, as one application."""
        return self._app

    def serve(self, port: int = 0) -> AbstractContextManager[Running]:
        """Answer on a port of this machine (0: any) while the block runs."""
        return serving(self, port=port)

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id` and `version`; raises `Refused` if Stripe would not have it."""
        return self._ledger.operate(operation)

    def truth(self, *, kind: str | None = None, scope: str | None = None) -> list[Body]:
        """Return each object that ever was, with its hidden version, whole and without any fault."""
        return self._ledger.truth(kind=kind, scope=scope)

    def resend(self, event_id: str) -> int:
        """Send an event of the feed again and return to how many endpoints."""
        return self._ledger.resend(event_id)

    def new_endpoint_id(self) -> str:
        """Return the id of a new webhook endpoint."""
        return self.machinery.world.new_id("we_")

    def close(self) -> None:
        """Stop sending, and let go of calls that hang."""
        self._front.let_go()
        self.machinery.deliveries.close()

    def _set_keys(self, _: Request, asked: JSON) -> JSON:
        if not isinstance(asked, dict):
            raise Refused('keys must be an object such as {"rk_test_reader": ["invoice"]}')
        self._access.restricted = {key: frozenset(denied) for key, denied in asked.items()}
        return {key: sorted(denied) for key, denied in self._access.restricted.items()}
