"""`reconcile --since`: one run, watched from beginning to end."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reconciler import bootstrap, times
from reconciler.cli import options
from reconciler.cli.output import Output
from reconciler.cli.showing import spelled
from reconciler.errors import ConfigError, ReconcilerError
from reconciler.store import story
from reconciler.sweep import Asked
from reconciler.times import Last

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from reconciler.store.story import Told
    from reconciler.sweep import Progress

_INTERRUPTED = 130
_COMPLETE, _UNFINISHED, _DRIFT = 0, 1, 3
_COUNTS = ("listed", "applied", "unchanged", "declined", "tied", "tombstones", "in_flight", "held", "calls")


class Interrupted(ReconcilerError):
    """Whoever started the run wants it to end."""


def reconcile(
    context: typer.Context,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="T",
            help="Compare what changed since then: a duration (90m, 24h, 7d), ISO 8601 with a zone, or last.",
        ),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="T", help="Only what changed before then.")] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="NAME", help="Only this source; may be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind; may be repeated.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compare every object, and prove each missing one gone.")
    ] = False,
    allow_deletes: Annotated[
        bool,
        typer.Option(
            "--allow-deletes", help="Let go what is gone of the sources or kinds named, however large a share that is."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what differs; repair nothing.")] = False,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """
    Keep a PostgreSQL mirror of Stripe, Shopify and GitHub objects provably right.

    With --since: list what changed at the providers, compare, repair, and say what had drifted. Exit code 0: all of it
    was seen; 1: something was not; 2: the command line or configuration is wrong; 3: a dry run found drift.
    """
    asked = (since, until, source, kind, full or None, allow_deletes or None, dry_run or None)
    if context.invoked_subcommand is not None:
        if any(each is not None for each in asked):
            name = context.invoked_subcommand
            raise ConfigError(f"the options of a run stand before `{name}`; write those of `{name}` after it")
        context.obj = options.Before(config, shape)
        return
    if since is None and all(each is None for each in asked):
        typer.echo(context.get_help())
        raise typer.Exit(2)
    if since is None:
        raise ConfigError("--since is missing; add --since 24h, an instant, or --since last")
    chosen = replace(
        _asked(since, until, source or [], kind or []), full=full, dry_run=dry_run, allow_deletes=allow_deletes
    )
    chosen.check()
    raise typer.Exit(_run(context, chosen, config, shape))


def _asked(since: str, until: str | None, sources: list[str], kinds: list[str]) -> Asked:
    now = options.now()
    start = times.parse_since(since, now)
    end = None if until is None else times.parse_time(until, now)
    if end is not None and not isinstance(start, Last) and end <= start:
        raise ConfigError(f"--until {until!r} is not after --since {since!r}; name a later time")
    return Asked(
        trigger="cli",
        since=start,
        until=end,
        sources=tuple(dict.fromkeys(sources)),
        kinds=tuple(dict.fromkeys(kinds)),
    )


def _run(context: typer.Context, asked: Asked, config: options.ConfigFile, shape: options.Shape) -> int:
    settings, output = options.settings(context, config), Output()
    # A bar and log lines would write over one another; the result says what drifted.
    options.start_log(settings, output.aside, level="error" if output.watched else "warning")
    if not settings.sources:
        raise ConfigError("no source is configured; add [[sources]] to the configuration")
    with bootstrap.program(settings) as program, _interruptible() as interrupted, output.progress() as show:

        def progress(so_far: Progress) -> None:
            if interrupted:
                message = "interrupted"
                raise Interrupted(message)
            show(so_far.doing, so_far.listed, so_far.left)

        run_id = program.sweep.begin(asked)
        program.sweep.execute(run_id, progress=progress)
        with program.database.transaction() as connection:
            report = story.run_report(connection, run_id)
    assert report is not None  # noqa: S101 - it was begun above
    if options.shape(context, shape) is options.Format.JSON:
        output.json(report)
    else:
        _show(output, report)
    return _INTERRUPTED if interrupted else _code(report)


def _code(report: Told) -> int:
    if report["state"] != "complete":
        return _UNFINISHED
    return _DRIFT if report["dry_run"] and report["drift"] else _COMPLETE


def _show(output: Output, report: Told) -> None:
    columns = ("source", "kind", "scope", "state", "since", *_COUNTS, "note")
    rows = [
        [kind[name] for name in columns[:4]]
        + [spelled(kind["since"])]
        + [kind[name] for name in _COUNTS]
        + [kind["error"] or kind.get("note")]
        for kind in report["kinds"]
    ]
    output.table([name.replace("_", " ") for name in columns], rows)
    drift = report["drift"]
    if drift:
        output.line("")
        output.table(("object", "what", "cause", "where"), [_drift(each) for each in drift])
    for each in report.get("forecasts", ()):
        output.line(
            f"{each['source']} {each['kind']}: forecast {each['objects']} objects and {each['calls']} calls; "
            f"it was {each['listed']} and {each['spent']}"
        )
    because = f": {report['because']}" if report["because"] else ""
    mended = "nothing is repaired" if report["dry_run"] else "repaired"
    found = f"{len(drift)} drifted, {mended}" if drift else "no drift"
    if fresh := sum(kind["in_flight"] for kind in report["kinds"]):
        done = "differ" if report["dry_run"] else "put right"
        found += f"; {fresh} {done} that changed too lately to be called drift"
    output.line(f"run {report['id']} {report['state']}{because}; {found}")


def _drift(each: Told) -> list[Any]:
    ref = "/".join(part for part in (each["source"], each["scope"], each["kind"], each["id"]) if part)
    return [ref, each["what"], each["cause"], ", ".join(difference["path"] for difference in each["diff"])]


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Yield a list that the first Ctrl-C or SIGTERM is put into, so that a run can end in order; the second ends it."""
    asked: list[int] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for each in before:
        signal.signal(each, ask)
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
