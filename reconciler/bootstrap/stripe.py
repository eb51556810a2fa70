"""How this program speaks to Stripe: what the entry point `stripe` names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from adapters import stripe
from reconciler.adapter import Allotment, Provider, per_second
from reconciler.config.settings import StripeAccess

if TYPE_CHECKING:
    from reconciler.adapter import Adapter, Configured, Hands, Limit


# "Read API requests must not exceed an average of 500 per transaction" over 30 days, but 10,000 are always allowed:
# COPY of docs.stripe.com/rate-limits. It does not say what a transaction is: a charge that was paid, we take it.
_READS: Final = Allotment(
    name="reads",
    operations="GET *",
    days=30,
    least=10_000,
    each=500,
    kind="charge",
    holding={"paid": True},
    created="created",
)


def _limits(source: Configured) -> tuple[Limit, ...]:
    allowed = stripe.limits(_access(source).api_key.reveal(), source.calls_per_second)
    return per_second(allowed.calls_per_second, allowed.operation_calls_per_second)


def _tests(source: Configured) -> bool:
    return not stripe.is_live(_access(source).api_key.reveal())


def _adapter(source: Configured, hands: Hands) -> Adapter:
    adapter = stripe.Stripe(
        source.name,
        api_key=_access(source).api_key.reveal(),
        webhook_secrets=[secret.reveal() for secret in source.webhook_secrets],
        accounts=_access(source).accounts,
        kinds=list(stripe.KINDS) if source.kinds == "all" else source.kinds,
        budget=hands.budget,
        tolerance=hands.tolerance,
        api_version=source.api_version,
        api_base=source.api_base,
        backfill_since=source.backfill_since,
        clock=hands.clock,
    )
    hands.stack.callback(adapter.close)
    return adapter


def _access(source: Configured) -> StripeAccess:
    if not isinstance(source.access, StripeAccess):
        raise TypeError(source.name)
    return source.access


PROVIDER = Provider(
    kinds={name: row.kind for name, row in stripe.KINDS.items()},
    access=StripeAccess,
    api_version="2026-10-28.endive",
    # The CLI resends events of 30 days; Stripe's own retries end after 3.
    redelivers=timedelta(days=30),
    limits=_limits,
    adapter=_adapter,
    tests=_tests,
    allotments=(_READS,),
)
