"""Which of our secrets signed these bytes: the whole of GitHub's webhook signature."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from reconciler.errors import SignatureInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence


def vouched(body: bytes, header: str, secrets: Sequence[str]) -> int:
    """
    Return which of *secrets*, counted from 1, signed *body*; *header* is `X-Hub-Signature-256`.

    Raises `SignatureInvalid`. An empty secret signs nothing, and SHA-1 vouches for nothing.
    """
    if not any(secrets):
        raise SignatureInvalid("no webhook secret is configured")
    if not header:
        raise SignatureInvalid("no X-Hub-Signature-256 header")
    which, offered = None, header.strip().encode("utf-8", "replace")
    # All are looked at, so that time tells nothing.
    for position, secret in reversed(tuple(enumerate(secrets, start=1))):
        digest = hmac.new(secret.encode("utf-8", "replace"), body, hashlib.sha256).hexdigest()
        if hmac.compare_digest(f"sha256={digest}".encode(), offered) and secret:
            which = position
    if which is None:
        raise SignatureInvalid("the signature in the header is not made with a secret of ours")
    return which
