"""Who may see what: tokens and how they are made, the scopes of the app, and shops that are closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.sandbox.faults import Refused, number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import JSON, Body

SCOPES = (
    "read_all_orders",
    "read_customers",
    "read_discounts",
    "read_draft_orders",
    "read_inventory",
    "read_locations",
    "read_merchant_managed_fulfillment_orders",
    "read_orders",
    "read_products",
)
"""What the app has been granted, unless told otherwise."""

CLOSED: Mapping[str, tuple[int, str]] = {
    "frozen": (402, "Unavailable Shop"),
    "forbidden": (403, "[API] This action requires merchant approval for the app."),
    "gone": (404, "Not Found"),
    "locked": (423, "Unavailable Shop"),
    "uninstalled": (401, "[API] Invalid API key or access token (unrecognized login or wrong password)"),
}
"""How a shop that is not open answers everything."""

_LOST = {"401": "uninstalled", "403": "forbidden", "404": "gone"}
_TEST_TOKENS = ("shpat_", "shpca_")
TOKEN_SECONDS = 24 * 3600


class Denied(Exception):
    """
    A call that is refused before it is read.

    Attributes:
        status: The HTTP status.
        errors: What stands under `errors`.
    """

    def __init__(self, status: int, errors: JSON) -> None:
        super().__init__(str(errors))
        self.status = status
        self.errors = errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """
    How the shop treats the app.

    Attributes:
        state: `open`, or how it is closed.
        scopes: What the app was granted.
        denied: Fields (`Order.customer`) whose every use is an error.
        hidden: Fields that show null, without a word, as customer data does that nobody approved.
        errors: Shares of calls that are answered with this code inside a 200.
        token_seconds: How long a token lives that is made from now on.
    """

    state: str = "open"
    scopes: tuple[str, ...] = SCOPES
    denied: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    errors: Mapping[str, float] = field(default_factory=dict)
    token_seconds: float = TOKEN_SECONDS


def policy_from(settings: Body) -> Policy:
    """Return the policy that a control request asks for, all else as usual; raises `Refused` for nonsense."""
    unknown = sorted(settings.keys() - _READERS.keys())
    if unknown:
        raise Refused(f"unknown settings {', '.join(unknown)}; there are {', '.join(_READERS)}")
    read: Body = {name: _READERS[name](name, value) for name, value in settings.items()}
    return Policy(**read)


def policy_shown(policy: Policy) -> Body:
    """Return *policy* as a control request spells it."""
    return {
        "state": policy.state,
        "scopes": list(policy.scopes),
        "denied": sorted(policy.denied),
        "hidden": sorted(policy.hidden),
        "errors": dict(policy.errors),
        "token_seconds": policy.token_seconds,
    }


class Access:
    """
    Lets calls in or refuses them as Shopify does.

    Attributes:
        policy: May be replaced at any time.
    """

    def __init__(self, machinery: Machinery, *, token: str | None, client: tuple[str, str]) -> None:
        self._machinery = machinery
        self._token = token
        self._client = client
        self._made: dict[str, float] = {}
        self.policy = Policy()

    def visit(self, request: Request) -> None:
        """Return if this call may be answered; raises `Denied` else."""
        self.knock()
        if not self._opens(request.headers.get("X-Shopify-Access-Token", "")):
            raise _closed("uninstalled")

    def knock(self) -> None:
        """Raise `Denied` if the shop answers nobody."""
        state = _LOST.get(self._machinery.mischief.faults.lost_access, self.policy.state)
        if state != "open":
            raise _closed(state)

    def make_token(self, asked: Mapping[str, JSON]) -> Body:
        """Return a new token for client credentials; raises `Denied` if they are not the app's."""
        self.knock()
        if asked.get("grant_type") != "client_credentials":
            raise Denied(400, "unsupported_grant_type")
        if (asked.get("client_id"), asked.get("client_secret")) != self._client:
            raise Denied(400, "invalid_client")
        token = self._machinery.world.new_id("shpua_", length=32)
        life = self.policy.token_seconds
        self._made[token] = self._machinery.clock.now() + life
        return {"access_token": token, "scope": ",".join(self.policy.scopes), "expires_in": max(0, int(life) - 1)}

    def revoke(self) -> int:
        """End all tokens that were made so far and return how many those are."""
        ended = len(self._made)
        self._made = dict.fromkeys(self._made, 0.0)
        return ended

    def _opens(self, token: str) -> bool:
        if token in self._made:
            return self._made[token] > self._machinery.clock.now()
        return token == self._token if self._token is not None else token.startswith(_TEST_TOKENS)


def _closed(state: str) -> Denied:
    status, errors = CLOSED[state]
    return Denied(status, errors)


def _state(name: str, value: JSON) -> str:
    if value not in {"open", *CLOSED}:
        raise Refused(f"{name} must be open, {', '.join(CLOSED)}, not {value!r}")
    return str(value)


def _texts(name: str, value: JSON) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Refused(f"{name} must be a list of texts, not {value!r}")
    return value


def _shares(name: str, value: JSON) -> Mapping[str, float]:
    if not isinstance(value, dict):
        raise Refused(f'{name} must be an object such as {{"THROTTLED": 0.05}}, not {value!r}')
    return {code: number(f"{name}.{code}", share) for code, share in value.items()}


_READERS: Mapping[str, Callable[[str, JSON], object]] = {
    "state": _state,
    "scopes": lambda name, value: tuple(_texts(name, value)),
    "denied": lambda name, value: frozenset(_texts(name, value)),
    "hidden": lambda name, value: frozenset(_texts(name, value)),
    "errors": _shares,
    "token_seconds": number,
}
