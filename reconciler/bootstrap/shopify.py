"""How this program speaks to Shopify: what the entry point `shopify` names."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from adapters import shopify
from reconciler.adapter import Provider, per_second
from reconciler.config.settings import ShopifyAccess

if TYPE_CHECKING:
    from reconciler.adapter import Adapter, Configured, Hands, Limit


def _limits(source: Configured) -> tuple[Limit, ...]:
    return per_second(shopify.limits(source.calls_per_second).calls_per_second)


def _adapter(source: Configured, hands: Hands) -> Adapter:
    access = _access(source)
    secrets = [secret.reveal() for secret in source.webhook_secrets]
    if access.client_secret is not None:
        secrets = secrets or [access.client_secret.reveal()]  # what Shopify signs an app's deliveries with
    adapter = shopify.Shopify(
        source.name,
        shop=access.shop,
        credential=_credential(access, hands),
        webhook_secrets=secrets,
        kinds=list(shopify.KINDS) if source.kinds == "all" else source.kinds,
        budget=hands.budget,
        api_version=source.api_version,
        api_base=source.api_base,
        backfill_since=source.backfill_since,
        extra_fields=access.extra_fields,
        notices=hands.notices,
        clock=hands.clock,
    )
    hands.stack.callback(adapter.close)
    return adapter


def _access(source: Configured) -> ShopifyAccess:
    if not isinstance(source.access, ShopifyAccess):
        raise TypeError(source.name)
    return source.access


def _credential(access: ShopifyAccess, hands: Hands) -> shopify.AccessToken | shopify.ClientCredentials:
    if access.access_token is not None:
        return shopify.AccessToken(access.access_token.reveal())
    if access.client_id is None or access.client_secret is None:
        raise TypeError(access.shop)
    identity, secret = access.client_id.reveal(), access.client_secret.reveal()
    told = hashlib.sha256(f"{identity}\0{secret}".encode()).hexdigest()
    return shopify.ClientCredentials(identity, secret, hands.tokens(told))


PROVIDER = Provider(
    kinds={name: row.kind for name, row in shopify.KINDS.items()},
    access=ShopifyAccess,
    api_version="2026-10",
    # 8 times.
    redelivers=timedelta(hours=4),
    limits=_limits,
    adapter=_adapter,
    checked=lambda source: bool(_access(source).extra_fields),
)
