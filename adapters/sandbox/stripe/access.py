"""Who may see what: secret keys, restricted keys, connected accounts, and access that is lost."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.sandbox.stripe.query import Denied

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.requests import Request

    from adapters.sandbox.faults import Mischief

ELSEWHERE = "acct_elsewhere"
"""The account that a key opens once it no longer opens ours: there is nothing in it."""

_TEST_KEYS = ("sk_test_", "rk_test_")


@dataclass(frozen=True, slots=True)
class Visit:
    """
    A call that was let in.

    Attributes:
        account: The id of the account it sees.
        scope: Which objects those are; empty: the account's own.
        denied: Kinds its key may not read.
    """

    account: str
    scope: str
    denied: frozenset[str]

    def may_read(self, kind: str, permission: str) -> None:
        """Raise `Denied` if the key may not read *kind*."""
        if kind in self.denied:
            message = f"This restricted key lacks the permission '{permission}' on account '{self.account}'."
            raise Denied(403, message)


class Access:
    """
    Lets calls in or refuses them as Stripe does.

    Attributes:
        restricted: Restricted keys, with the kinds each may not read; may be replaced at any time.
    """

    def __init__(self, account: str, *, api_key: str | None, scopes: Collection[str], mischief: Mischief) -> None:
        self._account = account
        self._api_key = api_key
        self._scopes = scopes
        self._mischief = mischief
        self.restricted: Mapping[str, frozenset[str]] = {}

    def visit(self, request: Request) -> Visit:
        """Return what this call may see; raises `Denied` if nothing."""
        key = _key(request)
        if not self._opens(key):
            raise Denied(401, f"Invalid API Key provided: {_masked(key)}" if key else "You did not provide an API key.")
        lost = self._mischief.faults.lost_access
        if lost == "401":
            raise Denied(401, f"Expired API Key provided: {_masked(key)}", code="api_key_expired")
        if lost == "403":
            raise Denied(403, f"The provided key '{_masked(key)}' no longer has access to account '{self._account}'.")
        if lost == "404":
            return Visit(ELSEWHERE, ELSEWHERE, frozenset())
        return self._at(request.headers.get("Stripe-Account", ""), self.restricted.get(key, frozenset()), key=key)

    def _at(self, account: str, denied: frozenset[str], *, key: str) -> Visit:
        if account in {"", self._account}:
            return Visit(self._account, "", denied)
        if account not in self._scopes:
            message = f"The provided key '{_masked(key)}' does not have access to account '{account}'."
            raise Denied(403, message, code="account_invalid")
        return Visit(account, account, denied)

    def _opens(self, key: str) -> bool:
        if key in self.restricted:
            return True
        return key == self._api_key if self._api_key is not None else key.startswith(_TEST_KEYS)


def _key(request: Request) -> str:
    """Return the key of a call: a bearer token, or the name of basic authentication."""
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(credentials).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _masked(key: str) -> str:
    return f"{key[:8]}{'*' * 8}{key[-4:]}" if len(key) > 16 else "*" * len(key)
