"""The command line: it translates, and says what came of it; the work is done below."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from reconciler.cli import accounts, acting, forgetting, granting, planning, reconciling, showing, upgrading
from reconciler.cli.output import plain
from reconciler.config.reading import state_directory
from reconciler.errors import ConfigError, ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

_UNFINISHED, _UNUSABLE, _INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; whatever happens is said in sentences."""
    try:
        _app()(args=None if arguments is None else list(arguments), prog_name="reconcile")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else _UNFINISHED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost net: a bug is told in a line, too
        return _told(error)
    return 0


def _told(error: BaseException) -> int:
    """Say what ended the command, and return the exit code for it."""
    match error:
        case ConfigError():
            _say(*error.faults)
            return _UNUSABLE
        case ReconcilerError():
            _say(str(error))
        case BrokenPipeError():
            _deafen()
        case KeyboardInterrupt():
            return _INTERRUPTED
        case _:
            first, *_ = str(error).splitlines() or [""]
            _say(f"a fault of this program: {type(error).__name__}: {first} (traceback: {_kept()})")
    return _UNFINISHED


def _app() -> typer.Typer:
    app = typer.Typer(
        name="reconcile",
        help="Keeps a PostgreSQL mirror of Stripe, Shopify and GitHub objects provably right.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(reconciling.reconcile)
    for command in _commands():
        app.command()(command)
    for group in (accounts.source_commands(), accounts.config_commands()):
        app.add_typer(group)
    return app


def _commands() -> tuple[Callable[..., None], ...]:
    return (
        acting.serve,
        acting.refetch,
        showing.explain,
        showing.status,
        showing.events,
        showing.declined,
        showing.drift,
        showing.runs,
        acting.replay,
        forgetting.forget,
        showing.kinds,
        planning.plan,
        acting.migrate,
        upgrading.upgrade_api,
        accounts.adopt,
        granting.grants,
        acting.demo,
        acting.sandbox,
    )


def _say(*sentences: str) -> None:
    with suppress(BrokenPipeError):
        for sentence in sentences:
            sys.stderr.write(f"reconcile: {plain(sentence)}\n")


def _kept() -> str:
    """Put the traceback where its reader will find it, and say where that is."""
    folder = state_directory(os.environ, root=os.geteuid() == 0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "faults.log"
        with open(file, "a", encoding="utf-8", opener=_private) as kept:
            _write(kept)
    except OSError:
        _write(sys.stderr)
        return "above"
    return str(file)


def _write(stream: TextIO) -> None:
    stream.write(traceback.format_exc() + "\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _deafen() -> None:
    """Let nobody's reading be no fault: what Python flushes at its end must not fail again."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - stays open until the process ends
