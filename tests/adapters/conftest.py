"""What tests of adapters ask for: scripted providers, and adapters that are closed after."""

from __future__ import annotations

from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from adapters.github import GitHub
from adapters.sandbox import GitHubSandbox
from adapters.stripe import Stripe
from reconciler import adapter
from tests.adapters.hubs import SECRET, TOKEN, Hub
from tests.adapters.scripted import Scripted
from tests.adapters.spent import Spent
from tests.adapters.trickle import Trickle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.adapters.hubs import MakeGitHub
    from tests.adapters.scripted import Asked, Said

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
API_VERSION = "2026-10-28.endive"


@pytest.fixture(autouse=True)
def _out_of_breath(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a provider that fails for a moment be asked again at once."""
    monkeypatch.setattr(adapter, "_BREATH", 0.0)


@pytest.fixture
def scripted() -> Iterator[Callable[[Callable[[Asked], Said]], Scripted]]:
    """Yield what starts a provider that answers as a function says."""
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(closing(Scripted(answer)))


@pytest.fixture
def stripe_at() -> Iterator[Callable[..., Stripe]]:
    """Yield what makes a Stripe adapter for the provider at a URL."""
    with ExitStack() as stack:

        def made(url: str = "http://127.0.0.1:9", **settings: Any) -> Stripe:
            given: dict[str, Any] = {
                "api_key": "sk_test_standin",
                "webhook_secrets": ["whsec_test"],
                "kinds": None,
                "budget": Spent(),
                "tolerance": timedelta(minutes=5),
                "api_version": API_VERSION,
                "api_base": url,
                "clock": lambda: NOW,
                **settings,
            }
            return stack.enter_context(closing(Stripe("stripe-eu", **given)))

        yield made


@pytest.fixture
def github_at() -> Iterator[MakeGitHub]:
    """Yield what makes an adapter for the provider at a URL."""
    with ExitStack() as stack:

        def made(url: str = "http://127.0.0.1:9", **given: Any) -> GitHub:
            asked: dict[str, Any] = {
                "credential": TOKEN,
                "repositories": ["acme/shop"],
                "organizations": [],
                "webhook_secrets": [SECRET],
                "kinds": None,
                "budget": Spent(),
                "validators": lambda _kind, _scope: {},
                "api_version": "2022-11-28",
                "api_base": url,
                "clock": lambda: NOW,
                **given,
            }
            return stack.enter_context(closing(GitHub("github-acme", **asked)))

        yield made


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Yield a stand-in with one repository, acme/shop."""
    with GitHubSandbox(3).serve() as running, closing(Hub(running.url)) as made:
        yield made


@pytest.fixture(scope="session")
def private_key() -> str:
    """Return a key made for this run."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def trickle() -> Iterator[Callable[[bytes], Trickle]]:
    """Yield what starts a server that begins as given and then answers a byte at a time."""
    with ExitStack() as stack:
        yield lambda start: stack.enter_context(closing(Trickle(start)))
