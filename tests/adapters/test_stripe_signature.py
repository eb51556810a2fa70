"""Stripe's signature: what vouches for a delivery, and that nothing else does."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
import stripe
from hypothesis import given
from hypothesis import strategies as st

from adapters.stripe.signature import vouched
from reconciler.errors import SignatureInvalid

SECRET = "whsec_test"
SIGNED_AT = 1_700_000_000
BODY = b'{"id":"evt_1"}'
VECTOR = "c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925"
TOLERANCE = timedelta(minutes=5)


def at(seconds: float) -> datetime:
    """Return the time so many seconds after the vectors were signed."""
    return datetime.fromtimestamp(SIGNED_AT + seconds, UTC)


def sign(body: bytes, secret: str = SECRET, *, signed_at: int = SIGNED_AT) -> str:
    """Return the hex signature of *body*, made here by the published rule."""
    return hmac.new(secret.encode(), f"{signed_at}.".encode() + body, hashlib.sha256).hexdigest()


def vouch(header: str, *, body: bytes = BODY, secrets: tuple[str, ...] = (SECRET,), after: float = 1) -> int:
    """Return which secret vouches for a delivery that comes *after* seconds after it was signed."""
    return vouched(body, header, secrets, now=at(after), tolerance=TOLERANCE)


def test_known_vector() -> None:
    """The one vector we have agrees with the rule, with the SDK and with ours."""
    header = f"t={SIGNED_AT},v1={VECTOR}"

    assert sign(BODY) == VECTOR
    assert stripe.WebhookSignature.generate_signature_header(BODY.decode(), SECRET, SIGNED_AT) == header
    assert vouch(header) == 1


@given(st.text(max_size=200).filter(lambda text: text.isprintable()), st.integers(0, 10**10))
def test_what_the_sdk_signs(text: str, signed_at: int) -> None:
    """Whatever Stripe's own code signs is vouched for."""
    header = stripe.WebhookSignature.generate_signature_header(text, SECRET, signed_at)

    assert (
        vouched(
            text.encode(), header, (SECRET,), now=datetime.fromtimestamp(signed_at, UTC), tolerance=timedelta(seconds=1)
        )
        == 1
    )


ZEROS = "0" * 64


@pytest.mark.parametrize(
    "header",
    [
        f"t={SIGNED_AT},v1={ZEROS},v1={VECTOR},v0=zz",
        f"t={SIGNED_AT},v0=zz,v1={VECTOR},v1={ZEROS}",
        f"v1={VECTOR},t={SIGNED_AT}",
        f"t={SIGNED_AT}, v1={VECTOR} ",
        f"t={SIGNED_AT},v1,=,v1=,,x=y=z,v1={VECTOR}",
        f"t=soon,t={SIGNED_AT},v1={VECTOR}",
        f"t={SIGNED_AT},v1=\N{SNOWMAN}\udc80,v1={VECTOR}",
        f"t={SIGNED_AT},v2={ZEROS},v1={VECTOR}",
    ],
)
def test_one_good_signature_is_enough(header: str) -> None:
    """Other signatures, schemes and malformed pairs beside a good one change nothing."""
    assert vouch(header) == 1


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=",
        f"t={SIGNED_AT}",
        f"v1={VECTOR}",
        f"t={SIGNED_AT},v0={VECTOR}",
        f"t={SIGNED_AT},v1={ZEROS}",
        f"t={SIGNED_AT},v1={VECTOR[:-1]}",
        f"t={SIGNED_AT},v1={VECTOR.upper()}",
        f"t={SIGNED_AT + 1},v1={VECTOR}",
        f"t=0{SIGNED_AT},v1={VECTOR}",
        f"t=+{SIGNED_AT},v1={VECTOR}",
        f"t={SIGNED_AT}.0,v1={VECTOR}",
        f"t={'9' * 5000},v1={VECTOR}",
        f"T={SIGNED_AT},V1={VECTOR}",
        VECTOR,
        f"t=\N{ARABIC-INDIC DIGIT ONE},v1={VECTOR}",
    ],
)
def test_nothing_else_vouches(header: str) -> None:
    """A header without a good signature of scheme v1 and its time is refused."""
    with pytest.raises(SignatureInvalid):
        vouch(header)


@pytest.mark.parametrize("secrets", [(), ("",), ("", "")])
def test_no_secret_vouches_for_nothing(secrets: tuple[str, ...]) -> None:
    """Without a secret every delivery is refused, also one signed with the empty key."""
    header = f"t={SIGNED_AT},v1={sign(BODY, '')}"

    with pytest.raises(SignatureInvalid):
        vouch(header, secrets=secrets)


def test_an_empty_secret_among_others() -> None:
    """An empty secret beside a real one does not let the empty key in."""
    with pytest.raises(SignatureInvalid):
        vouch(f"t={SIGNED_AT},v1={sign(BODY, '')}", secrets=(SECRET, ""))


def test_rotation_says_which_secret_matched() -> None:
    """While a secret is rolled either signs, the matching one is told, and without it the delivery is refused."""
    header = f"t={SIGNED_AT},v1={sign(BODY, 'whsec_old')}"

    assert vouch(header, secrets=("whsec_new", "whsec_old")) == 2
    assert vouch(f"{header},v1={sign(BODY, 'whsec_new')}", secrets=("whsec_new", "whsec_old")) == 1
    with pytest.raises(SignatureInvalid):
        vouch(header, secrets=("whsec_new",))


@pytest.mark.parametrize("after", [-300, -299.5, 0, 299.9, 300])
def test_within_tolerance(after: float) -> None:
    """Five minutes either way are tolerated, the edge included."""
    assert vouch(f"t={SIGNED_AT},v1={VECTOR}", after=after) == 1


@pytest.mark.parametrize("after", [-(10**9), -301, -300.5, 300.5, 301, 10**9])
def test_outside_tolerance(after: float) -> None:
    """A delivery signed too long ago, or too far in the future, is refused."""
    with pytest.raises(SignatureInvalid, match="too long"):
        vouch(f"t={SIGNED_AT},v1={VECTOR}", after=after)


def test_no_tolerance_is_not_any_age() -> None:
    """A tolerance of nothing refuses what is a second old, where the SDK would take any age."""
    with pytest.raises(SignatureInvalid):
        vouched(BODY, f"t={SIGNED_AT},v1={VECTOR}", (SECRET,), now=at(1), tolerance=timedelta(0))


def test_the_exact_bytes_are_signed() -> None:
    """Bytes are vouched for as they came; the same JSON spelled otherwise is not."""
    body = b'{"id":1,"note":"a\\u2028b","url":"https:\\/\\/x\\/y","t":"R\\u0026D"}\n'
    header = f"t={SIGNED_AT},v1={sign(body)}"

    assert vouch(header, body=body) == 1
    for other in (body.strip(), body.replace(b"\\/", b"/"), b'{"note":"a\\u2028b","id":1}'):
        with pytest.raises(SignatureInvalid):
            vouch(header, body=other)


@given(st.binary(max_size=50), st.text(max_size=200), st.lists(st.text(max_size=20), max_size=3))
def test_any_input_ends_in_one_error(body: bytes, header: str, secrets: list[str]) -> None:
    """Whatever the bytes, the header and the secrets: refused, with the one error that means it."""
    with pytest.raises(SignatureInvalid):
        vouched(body, header, secrets, now=at(0), tolerance=TOLERANCE)


@given(st.binary(max_size=50), st.data())
def test_one_changed_byte(body: bytes, data: st.DataObject) -> None:
    """A delivery with any one byte changed is refused."""
    header = f"t={SIGNED_AT},v1={sign(body)}"
    place = data.draw(st.integers(0, max(0, len(body) - 1)))
    changed = bytearray(body or b"\0")
    changed[place] ^= data.draw(st.integers(1, 255)) if body else 0

    assert vouch(header, body=body) == 1
    with pytest.raises(SignatureInvalid):
        vouch(header, body=bytes(changed))


def test_errors_tell_no_secret() -> None:
    """What is wrong is said without the secret or the signature that would have been right."""
    with pytest.raises(SignatureInvalid) as refused:
        vouch(f"t={SIGNED_AT},v1={ZEROS}")

    assert SECRET not in str(refused.value)
    assert VECTOR not in str(refused.value)
