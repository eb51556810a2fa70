"""Every provider this program speaks to: the only place that names an adapter. A new one is a line in `providers`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters import github, shopify, stripe
from reconciler.budgets import Limit, per_second
from reconciler.config.settings import GitHubAccess, ShopifyAccess, StripeAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from reconciler.adapter import Adapter, Budget, Kind, Notices, Tokens, Validators
    from reconciler.config import Settings, Source


@dataclass(frozen=True, slots=True)
class Hands:
    """
    What the adapter of one source is handed; none of it lets it see the store.

    Attributes:
        tokens: The shared tokens of a credential, told by its digest.
        notices: What the provider says in passing about the way it is called.
        stack: Closes the adapter's connections at the end.
    """

    budget: Budget
    validators: Validators
    tokens: Callable[[str], Tokens]
    notices: Notices
    stack: ExitStack


@dataclass(frozen=True, slots=True)
class Provider:
    """
    How this program speaks to one provider: its kinds, its limits for a source, and the adapter of one.

    Attributes:
        tests: Says whether a source shows only what its provider keeps for tests.
    """

    kinds: Mapping[str, Kind]
    limits: Callable[[Source], tuple[Limit, ...]]
    adapter: Callable[[Source, Settings, Hands], Adapter]
    tests: Callable[[Source], bool] = lambda _: False


def providers() -> Mapping[str, Provider]:
    """Return every provider by name."""
    return {
        "stripe": Provider(
            {name: row.kind for name, row in stripe.KINDS.items()}, _stripe_limits, _stripe, tests=_stripe_tests
        ),
        "shopify": Provider({name: row.kind for name, row in shopify.KINDS.items()}, _shopify_limits, _shopify),
        "github": Provider({name: row.kind for name, row in github.KINDS.items()}, _github_limits, _github),
    }


def _stripe_limits(source: Source) -> tuple[Limit, ...]:
    allowed = stripe.limits(_stripe_access(source).api_key.reveal(), source.calls_per_second)
    return per_second(allowed.calls_per_second, allowed.operation_calls_per_second)


def _stripe_tests(source: Source) -> bool:
    return not stripe.is_live(_stripe_access(source).api_key.reveal())


def _stripe(source: Source, settings: Settings, hands: Hands) -> Adapter:
    adapter = stripe.Stripe(
        source.name,
        api_key=_stripe_access(source).api_key.reveal(),
        webhook_secrets=[secret.reveal() for secret in source.webhook_secrets],
        accounts=_stripe_access(source).accounts,
        kinds=list(stripe.KINDS) if source.kinds == "all" else source.kinds,
        budget=hands.budget,
        tolerance=settings.web.tolerance,
        api_version=source.api_version,
        api_base=source.api_base,
        backfill_since=source.backfill_since,
        clock=_now,
    )
    hands.stack.callback(adapter.close)
    return adapter


def _stripe_access(source: Source) -> StripeAccess:
    if not isinstance(source.access, StripeAccess):
        raise TypeError(source.provider)
    return source.access


def _shopify_limits(source: Source) -> tuple[Limit, ...]:
    return per_second(shopify.limits(source.calls_per_second).calls_per_second)


def _shopify(source: Source, _: Settings, hands: Hands) -> Adapter:
    access = source.access
    if not isinstance(access, ShopifyAccess):
        raise TypeError(source.provider)
    secrets = [secret.reveal() for secret in source.webhook_secrets]
    if access.client_secret is not None:
        secrets = secrets or [access.client_secret.reveal()]  # what Shopify signs an app's deliveries with
    adapter = shopify.Shopify(
        source.name,
        shop=access.shop,
        credential=_shopify_credential(access, hands),
        webhook_secrets=secrets,
        kinds=list(shopify.KINDS) if source.kinds == "all" else source.kinds,
        budget=hands.budget,
        api_version=source.api_version,
        api_base=source.api_base,
        backfill_since=source.backfill_since,
        extra_fields=access.extra_fields,
        notices=hands.notices,
        clock=_now,
    )
    hands.stack.callback(adapter.close)
    return adapter


def _shopify_credential(access: ShopifyAccess, hands: Hands) -> shopify.AccessToken | shopify.ClientCredentials:
    if access.access_token is not None:
        return shopify.AccessToken(access.access_token.reveal())
    if access.client_id is None or access.client_secret is None:
        raise TypeError(access.shop)
    identity, secret = access.client_id.reveal(), access.client_secret.reveal()
    told = hashlib.sha256(f"{identity}\0{secret}".encode()).hexdigest()
    return shopify.ClientCredentials(identity, secret, hands.tokens(told))


def _github_limits(source: Source) -> tuple[Limit, ...]:
    allowed = github.limits(source.calls_per_second)
    # Half at once and half as time goes by: no hour sees more than is allowed.
    hour = Limit("hour", allowed.calls_per_hour / 2 / 3600, allowed.calls_per_hour / 2, but=github.QUERIES)
    queries = Limit("queries", allowed.queries_per_hour / 2 / 3600, allowed.queries_per_hour / 2, github.QUERIES)
    return per_second(allowed.calls_per_second) + (() if source.calls_per_second is not None else (hour, queries))


def _github(source: Source, _: Settings, hands: Hands) -> Adapter:
    access = source.access
    if not isinstance(access, GitHubAccess):
        raise TypeError(source.provider)
    adapter = github.GitHub(
        source.name,
        credential=_github_credential(access),
        repositories=access.repositories,
        organizations=access.organizations,
        webhook_secrets=[secret.reveal() for secret in source.webhook_secrets],
        kinds=list(github.KINDS) if source.kinds == "all" else source.kinds,
        budget=hands.budget,
        validators=hands.validators,
        notices=hands.notices,
        api_version=source.api_version,
        api_base=source.api_base,
        clock=_now,
    )
    hands.stack.callback(adapter.close)
    return adapter


def _github_credential(access: GitHubAccess) -> str | github.App:
    if access.token is not None:
        return access.token.reveal()
    if access.app_id is None or access.private_key is None or access.installation_id is None:
        raise TypeError(access.app_id)
    return github.App(access.app_id, access.private_key.reveal(), access.installation_id)


def _now() -> datetime:
    return datetime.now(UTC)
