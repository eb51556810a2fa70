"""Which of our secrets signed these bytes: the whole of Stripe's webhook signature, scheme `v1`."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from reconciler.errors import SignatureInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

_SECONDS = re.compile("[0-9]{1,15}", re.ASCII)


def vouched(body: bytes, header: str, secrets: Sequence[str], *, now: datetime, tolerance: timedelta) -> int:
    """
    Return which of *secrets*, counted from 1, signed *body* within *tolerance* of *now*, past or future.

    Raises `SignatureInvalid`. Malformed pairs and other schemes are passed over; an empty secret signs nothing.
    """
    if not any(secrets):
        raise SignatureInvalid("no webhook secret is configured")
    if not header:
        raise SignatureInvalid("no Stripe-Signature header")
    signed_at = next((value for value in _values(header, "t") if _SECONDS.fullmatch(value)), None)
    if signed_at is None:
        raise SignatureInvalid("the Stripe-Signature header has no time")
    which = _signer(b"%b.%b" % (signed_at.encode(), body), tuple(_values(header, "v1")), secrets)
    if which is None:
        raise SignatureInvalid("no signature in the header is made with a secret of ours")
    if abs(now.timestamp() - int(signed_at)) > tolerance.total_seconds():
        raise SignatureInvalid("signed too long before or after it came: a replay, or a wrong clock")
    return which


def _values(header: str, scheme: str) -> Iterator[str]:
    for pair in header.split(","):
        name, _, value = pair.strip().partition("=")
        if name == scheme:
            yield value


def _signer(signed: bytes, offered: Sequence[str], secrets: Sequence[str]) -> int | None:
    """Return the first secret that made one of *offered*; looks at all of them, so that time tells nothing."""
    which = None
    for position, secret in reversed(tuple(enumerate(secrets, start=1))):
        # The whole secret is the key, `whsec_` included; it is not base64, unlike Standard Webhooks.
        expected = hmac.new(secret.encode("utf-8", "replace"), signed, hashlib.sha256).hexdigest().encode()
        same = [hmac.compare_digest(expected, value.encode("utf-8", "replace")) for value in offered]
        if secret and any(same):
            which = position
    return which
