"""Shopify's signature: what vouches for a delivery, and that nothing else does."""

from __future__ import annotations

import base64
import hashlib
import hmac
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.shopify.signature import vouched
from reconciler.errors import SignatureInvalid

SECRET = "hush"
BODY = b'{"id":1}'
VECTOR = "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY="
ODD = b'{"id":1,"note":"a\\u2028b","url":"https:\\/\\/x\\/y","t":"R\\u0026D \xc3\xa2"}\n'


def sign(body: bytes, secret: str = SECRET) -> str:
    """Return the header for *body*, made here by the published rule."""
    return base64.b64encode(hmac.new(secret.encode(), body, hashlib.sha256).digest()).decode()


def test_known_vector() -> None:
    """A vector computed beforehand agrees with the rule and with ours."""
    assert sign(BODY) == VECTOR
    assert vouched(BODY, VECTOR, (SECRET,)) == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "=",
        VECTOR[:-1],
        VECTOR + "=",
        VECTOR.lower(),
        f"sha256={VECTOR}",
        f" {VECTOR}",
        hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest(),
        base64.b64encode(hmac.new(SECRET.encode(), BODY, hashlib.sha1).digest()).decode(),
        "\N{SNOWMAN}\udc80",
    ],
)
def test_nothing_else_vouches(header: str) -> None:
    """A header that is not exactly the one good signature is refused."""
    with pytest.raises(SignatureInvalid):
        vouched(BODY, header, (SECRET,))


@pytest.mark.parametrize("secrets", [(), ("",), ("", "")])
def test_no_secret_vouches_for_nothing(secrets: tuple[str, ...]) -> None:
    """Without a secret every delivery is refused, also one signed with the empty key."""
    with pytest.raises(SignatureInvalid):
        vouched(BODY, sign(BODY, ""), secrets)


def test_k01_every_byte_counts() -> None:
    """The bytes as they came are what is signed, escapes and the last line break among them."""
    assert vouched(ODD, sign(ODD), (SECRET,)) == 1
    for other in (ODD[:-1], ODD.replace(b"\\/", b"/"), ODD.replace(b"\\u0026", b"&"), b"", ODD + b" "):
        with pytest.raises(SignatureInvalid):
            vouched(other, sign(ODD), (SECRET,))


def test_k04_rotation() -> None:
    """Any of several secrets vouches, and which one is told; a secret that was taken away does not."""
    old, new = sign(BODY, "old"), sign(BODY, "new")

    assert vouched(BODY, new, ("new", "old")) == 1
    assert vouched(BODY, old, ("new", "old")) == 2
    assert vouched(BODY, old, ("old", "old")) == 1
    with pytest.raises(SignatureInvalid):
        vouched(BODY, old, ("new",))


def test_refusals_tell_no_secret() -> None:
    """A refusal says neither the secret nor the signature that would have been right."""
    with pytest.raises(SignatureInvalid) as refused:
        vouched(BODY, "wrong", (SECRET,))

    assert SECRET not in str(refused.value)
    assert VECTOR not in str(refused.value)


@given(st.binary(), st.text(), st.lists(st.text(), max_size=3))
def test_whatever_comes_is_refused_in_one_way(body: bytes, header: str, secrets: list[str]) -> None:
    """No header, body or secret raises anything but the refusal."""
    with suppress(SignatureInvalid):
        assert vouched(body, header, secrets) >= 1
