"""Which of our secrets signed these bytes: the whole of Shopify's webhook signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

from reconciler.errors import SignatureInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence


def vouched(body: bytes, offered: str, secrets: Sequence[str]) -> int:
    """
    Return which of *secrets*, counted from 1, made the signature *offered* for *body*.

    Raises `SignatureInvalid`. An empty secret signs nothing. Looks at all of them, so that time tells nothing.
    """
    if not any(secrets):
        raise SignatureInvalid("no webhook secret is configured")
    if not offered:
        raise SignatureInvalid("no X-Shopify-Hmac-SHA256 header")
    given, which = offered.encode("utf-8", "replace"), None
    for position, secret in reversed(tuple(enumerate(secrets, start=1))):
        digest = hmac.digest(secret.encode("utf-8", "replace"), body, hashlib.sha256)
        same = hmac.compare_digest(base64.b64encode(digest), given)
        if secret and same:
            which = position
    if which is None:
        raise SignatureInvalid("the signature is not made with a secret of ours")
    return which
