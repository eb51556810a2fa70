"""The log: one line a decision, no secret in it."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from reconciler import log
from reconciler.errors import ConfigError
from reconciler.model import ObjectRef

SECRET = "whsec_standin"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return what was logged, parsed."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line() -> None:
    """A line is one JSON object: when, how grave, what, and its fields as plain values."""
    stream = io.StringIO()
    log.configure("info", stream)

    structlog.get_logger().info(
        "refetch.settled",
        ref=ObjectRef("s", "", "customer", "cus_1"),
        due_at=datetime(2026, 11, 30, tzinfo=UTC),
        calls=2,
    )

    [line] = lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert datetime.fromisoformat(line.pop("timestamp")).tzinfo is UTC
    assert line == {
        "level": "info",
        "event": "refetch.settled",
        "ref": "s/customer/cus_1",
        "due_at": "2026-11-30T00:00:00.000000Z",
        "calls": 2,
    }


def test_level() -> None:
    """What is below the level is not written; libraries are heard from WARNING up at any level."""
    stream = io.StringIO()
    log.configure("debug", stream)
    structlog.get_logger().debug("shown")
    logging.getLogger("uvicorn.error").info("not shown")
    logging.getLogger("stripe").warning("careful: %s", "x")

    log.configure("error", stream)
    structlog.get_logger().warning("not shown")

    assert [line["event"] for line in lines(stream)] == ["shown", "careful: x"]
    assert lines(stream)[1]["logger"] == "stripe"


def test_unknown_level() -> None:
    """A level that is none is refused with the ones there are."""
    with pytest.raises(ConfigError, match="write one of them"):
        log.configure("loud", io.StringIO())


def test_configured_twice() -> None:
    """Setting the log up again moves it; no line is written twice."""
    first, second = io.StringIO(), io.StringIO()
    log.configure("info", first)
    log.configure("info", second)

    structlog.get_logger().info("once")

    assert first.getvalue() == ""
    assert len(lines(second)) == 1


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "apikey",
        "secret",
        "webhook_secrets",
        "access_token",
        "Authorization",
        "password",
        "X-Api-Key",
        "Stripe-Signature",
    ],
)
def test_hidden_by_key(key: str) -> None:
    """What stands under a secret's name is hidden, however deep, whatever it is."""
    stream = io.StringIO()
    log.configure("info", stream)

    structlog.get_logger().info("x", **{key: "unknown-to-us"}, deep=[{"headers": {key: ["unknown-to-us"]}}])

    assert "unknown-to-us" not in stream.getvalue()
    assert lines(stream)[0][key] == log.HIDDEN


def test_which_secret_matched() -> None:
    """The number of the secret that vouched for a delivery is shown: it tells when an old one can go."""
    stream = io.StringIO()
    log.configure("info", stream)

    structlog.get_logger().info("delivery.stored", secret=2)

    assert lines(stream)[0]["secret"] == 2


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_hidden_by_value(stream: io.StringIO) -> None:
    """A known secret is hidden wherever it is repeated: values, keys, messages of libraries, tracebacks."""
    log.configure("info", stream, secrets=[SECRET, "ab"])
    logger = structlog.get_logger()

    logger.info("x", url=f"https://h/?key={SECRET}", nested={SECRET: (SECRET,)}, short="ab", within="cab")
    logging.getLogger("uvicorn.error").error("refused %s", SECRET)
    try:
        int(SECRET)
    except ValueError:
        logger.exception("daemon.failed")

    assert SECRET not in stream.getvalue()
    assert "Traceback" in stream.getvalue()
    assert "cab" in stream.getvalue()
    assert stream.getvalue().count(log.HIDDEN) >= 6


def test_no_bodies() -> None:
    """Bodies and bytes are never written."""
    stream = io.StringIO()
    log.configure("info", stream)

    structlog.get_logger().info("x", body={"email": "a@example.com"}, payload="a@example.com", got=b"a@example.com")

    assert "example.com" not in stream.getvalue()


def test_terminal() -> None:
    """On a terminal a line is coloured, and a provider's text can neither end it nor steer the terminal."""
    stream = Terminal()
    log.configure("info", stream)

    structlog.get_logger().info("x", because="one\ntwo\x1b[2J\ud800", word="\x1b[2J")
    logging.getLogger("uvicorn.error").warning("refused %s", "one\ntwo\x1b[2J")

    assert stream.getvalue().count("\n") == 2
    assert "\x1b[0m" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()


def test_anything_is_one_line_of_json() -> None:
    """Line breaks, lone surrogates and numbers that JSON lacks still make one line of valid JSON."""
    stream = io.StringIO()
    log.configure("info", stream)

    structlog.get_logger().info("x", text="a\nb\u2028\ud800", number=float("nan"))

    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().isascii()
    assert lines(stream)[0]["number"] == "nan"
