"""What only a provider can say about the configuration: whether it has what a source is configured for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Final

from reconciler import installed
from reconciler.adapter import Checking
from reconciler.budgets import Lane
from reconciler.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.adapter import Adapter
    from reconciler.budgets import Budgets
    from reconciler.config import Settings

_AT_ONCE: Final = 8
_WITHIN: Final = 10.0  # seconds in which the last call may begin: slow providers must not keep a daemon from starting


def confirmed(settings: Settings, adapters: Mapping[str, Adapter], budgets: Budgets) -> Mapping[str, str]:
    """
    Raise `ConfigError` with everything that providers do not have of what their sources are configured for.

    Returns why each source could not be asked about, by name: what it is configured for is proved at its first read.
    """
    asked = [each.name for each in settings.sources if installed.provider(each.provider).checked(each)]
    unasked: dict[str, str] = {}
    until = monotonic() + _WITHIN

    def ask(source: str) -> Sequence[str]:
        adapter = adapters[source]
        try:
            with budgets.calling(Lane.LIVE, max(0.0, until - monotonic())):
                return adapter.faults() if isinstance(adapter, Checking) else ()
        except SourceError as error:
            unasked[source] = str(error) or type(error).__name__
            return ()

    with ExitStack() as stack:
        each_of = stack.enter_context(ThreadPoolExecutor(_AT_ONCE)).map if asked else map
        faults = [fault for found in each_of(ask, asked) for fault in found]
    if faults:
        raise ConfigError(*faults)
    return unasked
