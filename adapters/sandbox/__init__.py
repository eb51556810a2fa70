"""
Stand-ins for the providers: local servers with the habits of the real ones, and their faults on switches.

They listen on this machine only, keep everything in memory, and share no code with the product but its exact JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sandbox.github import GitHubSandbox
from adapters.sandbox.serving import Running, serving, wait_for_signal
from adapters.sandbox.stripe import StripeSandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.sandbox.serving import StandIn

__all__ = ["GitHubSandbox", "Running", "StripeSandbox", "providers", "run", "serving", "stand_in"]


def providers() -> tuple[str, ...]:
    """Return the providers that have a stand-in."""
    return tuple(_stand_ins())


def stand_in(provider: str, *, seed: int = 0) -> StandIn:
    """Return the stand-in for *provider*, not yet serving; raises `ValueError` if there is none."""
    make = _stand_ins().get(provider)
    if make is None:
        raise ValueError(f"no stand-in for {provider}; there are {', '.join(providers())}")
    return make(seed)


def run(provider: str, *, port: int, seed: int = 0, announce: Callable[[str], None] = print) -> None:
    """
    Serve the stand-in for *provider* on this machine until SIGINT or SIGTERM; *announce* gets its address.

    Port 0 takes any that is free. For the main thread only.
    """
    with serving(stand_in(provider, seed=seed), port=port) as running:
        announce(running.url)
        wait_for_signal()


def _stand_ins() -> Mapping[str, Callable[[int], StandIn]]:
    return {"stripe": StripeSandbox, "shopify": _shopify, "github": GitHubSandbox}


def _shopify(seed: int) -> StandIn:
    try:
        from adapters.sandbox.shopify import ShopifySandbox  # noqa: PLC0415 - needs what only the extra brings
    except ModuleNotFoundError as missing:
        raise ValueError(f"the stand-in for shopify needs {missing.name}: install reconciler[sandbox]") from missing
    return ShopifySandbox(seed)
