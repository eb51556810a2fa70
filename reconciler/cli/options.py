"""What the commands have in common: their options, and the settings behind `--config`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from reconciler import config, log, times
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TextIO

    from reconciler.config import Settings


class Format(StrEnum):
    """How a result is written to stdout."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Before:
    """What was said before the name of a command and holds for it, too; None: nothing."""

    config: Path | None
    format: Format | None


ConfigFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read this file, else $RECONCILER_CONFIG, else /etc/reconciler/reconciler.toml.",
    ),
]
Shape: TypeAlias = Annotated[Format | None, typer.Option("--format", help="How to write the result. [default: table]")]
Source: TypeAlias = Annotated[str | None, typer.Option("--source", metavar="NAME", help="Only of this source.")]
Kind: TypeAlias = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")]
Scope: TypeAlias = Annotated[
    str | None,
    typer.Option("--scope", metavar="S", help="Connected account, repository or organization it lives in."),
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="T", help="Only from then on: a duration (90m, 24h, 7d), or ISO 8601 with a zone."),
]
Receipt: TypeAlias = Annotated[
    Path | None, typer.Option("--check", metavar="FILE", help="Instead, say whether this receipt (JSON) holds.")
]
MOST = 1_000_000_000
"""More of anything than a listing could hold."""

Limit: TypeAlias = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="So many at most.")]


def settings(context: typer.Context, file: Path | None) -> Settings:
    """Return the settings that this command line means; raises `ConfigError` with every fault there is."""
    before = context.obj
    named = file or (before.config if isinstance(before, Before) else None)
    return config.load(named, os.environ)


def shape(context: typer.Context, given: Format | None) -> Format:
    """Return how this command line wants its result written."""
    before = context.obj
    return given or (before.format if isinstance(before, Before) else None) or Format.TABLE


def start_log(settings: Settings, stream: TextIO, *, level: str) -> None:
    """Write the log to *stream*, and what the settings warn of."""
    log.configure(level, stream, secrets=settings.secrets())


def now() -> datetime:
    """Return the time that durations on this command line count from."""
    return datetime.now(UTC)


def since(text: str | None) -> datetime | None:
    """Return the instant that `--since T` of a list means."""
    return None if text is None else times.parse_time(text, now())


def one_of(given: str | None, known: Collection[str], *, what: str) -> None:
    """Raise `ConfigError` with what there is, unless *given* is None or among it."""
    if given is not None and given not in known:
        raise ConfigError(f"{what} {given!r} is none of {', '.join(known) or 'nothing: no source is configured'}")
