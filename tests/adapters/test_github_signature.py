"""GitHub's signature: what vouches for a delivery, and that nothing else does."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.github.signature import vouched
from reconciler.errors import SignatureInvalid

SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
VECTOR = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
ZEROS = "0" * 64


def sign(body: bytes, secret: str = SECRET) -> str:
    """Return the header for *body*, made here by the published rule."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def test_known_vector() -> None:
    """The vector that GitHub publishes agrees with the rule and with ours."""
    assert sign(BODY) == f"sha256={VECTOR}"
    assert vouched(BODY, f"sha256={VECTOR}", (SECRET,)) == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "sha256=",
        VECTOR,
        f"sha256={ZEROS}",
        f"sha256={VECTOR[:-1]}",
        f"sha256={VECTOR}0",
        f"sha256={VECTOR.upper()}",
        f"SHA256={VECTOR}",
        f"sha256 = {VECTOR}",
        f"sha256={VECTOR},sha256={VECTOR}",
        f"sha1={hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()}",
        "sha256=\N{SNOWMAN}\udc80",
    ],
)
def test_nothing_else_vouches(header: str) -> None:
    """A header without exactly the one good signature is refused, one by SHA-1 too."""
    with pytest.raises(SignatureInvalid):
        vouched(BODY, header, (SECRET,))


@pytest.mark.parametrize("secrets", [(), ("",), ("", "")])
def test_no_secret_vouches_for_nothing(secrets: tuple[str, ...]) -> None:
    """Without a secret every delivery is refused, also one signed with the empty key."""
    with pytest.raises(SignatureInvalid):
        vouched(BODY, sign(BODY, ""), secrets)


def test_an_empty_secret_among_others() -> None:
    """An empty secret beside a real one does not let the empty key in."""
    with pytest.raises(SignatureInvalid):
        vouched(BODY, sign(BODY, ""), (SECRET, ""))


def test_k04_rotation_says_which_secret_matched() -> None:
    """While a secret is changed either signs, the matching one is told, and without it the delivery is refused."""
    header = sign(BODY, "old")

    assert vouched(BODY, header, ("new", "old")) == 2
    assert vouched(BODY, header, ("old", "old")) == 1
    with pytest.raises(SignatureInvalid):
        vouched(BODY, header, ("new",))


def test_k01_the_exact_bytes_are_signed() -> None:
    """Bytes are vouched for as they came; the same JSON spelled otherwise is not."""
    body = b'{"id":1,"note":"a\\u2028b","url":"https:\\/\\/x\\/y","t":"R\\u0026D"}\n'

    assert vouched(body, sign(body), (SECRET,)) == 1
    for other in (body.strip(), body.replace(b"\\/", b"/"), b'{"note":"a\\u2028b","id":1}'):
        with pytest.raises(SignatureInvalid):
            vouched(other, sign(body), (SECRET,))


@given(st.binary(max_size=50), st.text(max_size=200), st.lists(st.text(max_size=20), max_size=3))
def test_any_input_ends_in_one_error(body: bytes, header: str, secrets: list[str]) -> None:
    """Whatever the bytes, the header and the secrets: refused, with the one error that means it."""
    with pytest.raises(SignatureInvalid):
        vouched(body, header, secrets)


@given(st.binary(max_size=50), st.data())
def test_one_changed_byte(body: bytes, data: st.DataObject) -> None:
    """A delivery with any one byte changed is refused."""
    place = data.draw(st.integers(0, max(0, len(body) - 1)))
    changed = bytearray(body or b"\0")
    changed[place] ^= data.draw(st.integers(1, 255)) if body else 0

    assert vouched(body, sign(body), (SECRET,)) == 1
    with pytest.raises(SignatureInvalid):
        vouched(bytes(changed), sign(body), (SECRET,))


def test_errors_tell_no_secret() -> None:
    """What is wrong is said without the secret or the signature that would have been right."""
    with pytest.raises(SignatureInvalid) as refused:
        vouched(BODY, f"sha256={ZEROS}", (SECRET,))

    assert SECRET not in str(refused.value)
    assert VECTOR not in str(refused.value)
