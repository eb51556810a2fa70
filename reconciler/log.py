"""One line a decision, on one stream: JSON for machines, colour for people; no secret and no body in either."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from reconciler import times
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from structlog.typing import EventDict, Processor

LEVELS = ("debug", "info", "warning", "error", "critical")
HIDDEN = "(hidden)"
LEFT_OUT = "(left out)"

# Libraries that would tell what we tell ourselves, or show headers below this level.
_QUIET = (
    "alembic",
    "apscheduler",
    "httpcore",
    "httpx",
    "pyactiveresource",
    "sqlalchemy",
    "stripe",
    "urllib3",
    "uvicorn",
)
_SECRET_KEY = re.compile(
    r"(?:^|[_.-])(?:api[_-]?key|private[_-]?key|secrets?|tokens?|authorization|passw(?:or)?d|signature|cookie|credentials?)$",
    re.IGNORECASE,
)
_BODY_KEYS = frozenset({"body", "payload", "raw"})
_FIRST_KEYS = ("timestamp", "level", "event")
# Replacing shorter texts wherever they occur would make lines unreadable, and such a secret is none.
_SHORTEST_REPLACED = 6


class _Lines(logging.StreamHandler[TextIO]):
    """Our one handler, told from other people's by its class."""


def configure(level: str, stream: TextIO, *, secrets: Iterable[str] = ()) -> None:
    """
    Write every log line, ours from *level* up and the libraries' from WARNING up, to *stream*, without the *secrets*.

    Readable where the stream is a terminal, JSON elsewhere. May be called again. Raises `ConfigError` for a level that
    is none.
    """
    if level not in LEVELS:
        raise ConfigError(f"log level {level!r} is none of {', '.join(LEVELS)}; write one of them")
    number = logging.getLevelNamesMapping()[level.upper()]
    ours = logging.getLogger("reconciler")
    ours.setLevel(number)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    _replace_handler(stream, redactor(secrets))
    structlog.configure(
        processors=[*_BEFORE, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: ours,
        cache_logger_on_first_use=False,
    )


def redactor(secrets: Iterable[str]) -> Processor:
    """Make the step that leaves secrets and bodies out of a line, by the key they stand under and wherever repeated."""
    known = sorted((secret for secret in set(secrets) if secret), key=len, reverse=True)
    anywhere = [secret for secret in known if len(secret) >= _SHORTEST_REPLACED]

    def without_secrets(text: str) -> str:
        if text in known:
            return HIDDEN
        for secret in anywhere:
            text = text.replace(secret, HIDDEN)
        return text

    def redact(_: object, __: str, event: EventDict) -> EventDict:
        return {key: _shown(value, str(key), without_secrets) for key, value in event.items()}

    return redact


def _shown(value: object, key: str, clean: Callable[[str], str]) -> object:
    """Return *value* as a line may show it: plain JSON values, what is secret or long left out."""
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if key in _BODY_KEYS or isinstance(value, bytes | bytearray | memoryview):
        return LEFT_OUT
    if _SECRET_KEY.search(key):
        return HIDDEN
    if isinstance(value, Mapping):
        return {clean(str(name)): _shown(member, str(name), clean) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_shown(member, "", clean) for member in value]
    return clean(times.iso(value) if isinstance(value, datetime) and value.tzinfo else str(value))


def _replace_handler(stream: TextIO, redact: Processor) -> None:
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for old in [handler for handler in root.handlers if isinstance(handler, _Lines)]:
        root.removeHandler(old)
    handler = _Lines(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_BEFORE],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redact,
                *_renderers(stream),
            ],
        )
    )
    root.addHandler(handler)


def _renderers(stream: TextIO) -> tuple[Processor, ...]:
    if not stream.isatty():
        return (_in_order, structlog.processors.JSONRenderer(serializer=_as_json))
    return (
        _without_control,
        structlog.dev.ConsoleRenderer(
            colors=not os.environ.get("NO_COLOR"), exception_formatter=structlog.dev.plain_traceback
        ),
    )


def _in_order(_: object, __: str, event: EventDict) -> EventDict:
    return {key: event[key] for key in _FIRST_KEYS if key in event} | dict(event)


def _without_control(_: object, __: str, event: EventDict) -> EventDict:
    """Escape what a provider's text could do to a terminal; a traceback keeps its lines."""
    return {key: _escaped(value, keep="\n" if key == "exception" else "") for key, value in event.items()}


def _escaped(value: object, *, keep: str) -> object:
    if not isinstance(value, str):
        return value
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in value)


def _as_json(event: EventDict, **_: Any) -> str:  # noqa: ANN401 - structlog passes options of its own
    return json.dumps(event, separators=(",", ":"), default=str)


_BEFORE: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
