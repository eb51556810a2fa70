"""What the watchdog is to look after: every source, and where its deliveries should go."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from reconciler import schedule
from reconciler.config.settings import ShopifyAccess
from reconciler.watchdog import Watched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.adapter import Adapter
    from reconciler.config import Settings, Source
    from reconciler.config.settings import Endpoint


def watched(settings: Settings, adapters: Mapping[str, Adapter]) -> list[Watched]:
    """Return every source with the addresses that feed it: its own, and those of its endpoints."""
    return [_watched(settings, source, adapters[source.name]) for source in settings.sources]


def _watched(settings: Settings, source: Source, adapter: Adapter) -> Watched:
    endpoints = [each for each in settings.endpoints if source.name in each.sources]
    names = _by_preference(source, endpoints)
    secrets = {
        source.name: [secret.reveal() for secret in source.webhook_secrets],
        **{each.name: [secret.reveal() for secret in each.webhook_secrets] for each in endpoints},
    }
    public = settings.public_url
    return Watched(
        adapter=adapter,
        addresses={} if public is None else {f"{public}/webhooks/{name}": name for name in names},
        secret=next(iter(secrets[names[0]]), None),
        manage=source.manage_webhooks,
        version=source.api_version,
        hears=_has_secret(source) or any(secrets.values()),
        night=partial(schedule.next_night, schedule.plan(source.name, settings.schedule)),
    )


def _has_secret(source: Source) -> bool:
    """Say whether there is a secret besides the configured ones: kept, or an app's own."""
    access = source.access
    return source.manage_webhooks or (isinstance(access, ShopifyAccess) and access.client_secret is not None)


def _by_preference(source: Source, endpoints: list[Endpoint]) -> list[str]:
    """Return the names that feed *source*: first its own, unless only an endpoint has secrets."""
    others = [each.name for each in endpoints]
    return [source.name, *others] if source.webhook_secrets or not others else [*others, source.name]
