"""One source in several API versions at once, to compare them: what they read is kept nowhere."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.accounts import Pinned
from reconciler.adapter import Hands, unheard
from reconciler.installed import provider
from reconciler.store.tokens import SharedTokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.config import Settings, Source
    from reconciler.model import Body
    from reconciler.store.database import Database


@contextmanager
def speaking(
    settings: Settings, source: Source, versions: Sequence[str], *, database: Database, budgets: Budgets
) -> Iterator[list[Adapter]]:
    """
    Yield the adapter of *source* in each of these API versions; no shape becomes the current one by it.

    Raises `ConfigError` for a version that cannot be one.
    """
    with ExitStack() as stack:
        hands = Hands(
            budget=budgets.of(source.name),
            validators=_no_marks,
            tokens=lambda credential: SharedTokens(database, source.name, credential=credential),
            notices=unheard,
            tolerance=settings.web.tolerance,
            stack=stack,
        )
        known = provider(source.provider)
        yield [Pinned(known.adapter(replace(source, api_version=version), hands), database) for version in versions]


def _no_marks(kind: str, scope: str) -> Mapping[str, Body]:  # noqa: ARG001 - no page counts as seen
    return {}
