"""How this program speaks to GitHub: what the entry point `github` names."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from adapters import github
from reconciler.adapter import Limit, Provider, per_second
from reconciler.config.settings import GitHubAccess

if TYPE_CHECKING:
    from reconciler.adapter import Adapter, Configured, Hands


def _limits(source: Configured) -> tuple[Limit, ...]:
    allowed = github.limits(source.calls_per_second)
    # Half at once and half as time goes by: no hour sees more than is allowed.
    hour = Limit("hour", allowed.calls_per_hour / 2 / 3600, allowed.calls_per_hour / 2, but=github.QUERIES)
    queries = Limit("queries", allowed.queries_per_hour / 2 / 3600, allowed.queries_per_hour / 2, github.QUERIES)
    return per_second(allowed.calls_per_second) + (() if source.calls_per_second is not None else (hour, queries))


def _shared(source: Configured) -> str:
    """Return what all sources of one credential have in common, and nothing that the credential can be told from."""
    access = source.access
    if not isinstance(access, GitHubAccess):
        raise TypeError(source.name)
    told = access.token.reveal() if access.token is not None else f"{access.app_id}/{access.installation_id}"
    return f"github:{hashlib.sha256(f'{source.api_base} {told}'.encode()).hexdigest()}"


def _adapter(source: Configured, hands: Hands) -> Adapter:
    access = source.access
    if not isinstance(access, GitHubAccess):
        raise TypeError(source.name)
    adapter = github.GitHub(
        source.name,
        credential=_credential(access),
        repositories=access.repositories,
        organizations=access.organizations,
        webhook_secrets=[secret.reveal() for secret in source.webhook_secrets],
        kinds=list(github.KINDS) if source.kinds == "all" else source.kinds,
        budget=hands.budget,
        validators=hands.validators,
        notices=hands.notices,
        api_version=source.api_version,
        api_base=source.api_base,
        clock=hands.clock,
    )
    hands.stack.callback(adapter.close)
    return adapter


def _credential(access: GitHubAccess) -> str | github.App:
    if access.token is not None:
        return access.token.reveal()
    if access.app_id is None or access.private_key is None or access.installation_id is None:
        raise TypeError(access.app_id)
    return github.App(access.app_id, access.private_key.reveal(), access.installation_id)


PROVIDER = Provider(
    kinds={name: row.kind for name, row in github.KINDS.items()},
    access=GitHubAccess,
    api_version="2022-11-28",
    # What was delivered within 3 days; its Enterprise Server, within 7.
    redelivers=timedelta(days=7),
    limits=_limits,
    adapter=_adapter,
    shared=_shared,
)
