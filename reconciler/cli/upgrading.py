"""What another API version of a provider would change, before anybody sets it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler import bootstrap
from reconciler.bootstrap.speaking import speaking
from reconciler.budgets import Lane
from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.errors import ConfigError
from reconciler.store import samples
from reconciler.upgrade import compared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.bootstrap import View
    from reconciler.config import Settings, Source
    from reconciler.store.samples import Sample
    from reconciler.upgrade import Change

_DIFFERS = 3


def upgrade_api(
    context: typer.Context,
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE")],
    version: Annotated[str, typer.Argument(metavar="VERSION")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compare, and change nothing; this is all it does.")
    ] = False,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, max=options.MOST, help="So many objects of each kind.")
    ] = 5,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Read a few objects of each kind in both API versions and list what would change; exit code 3 if anything."""
    settings, output = options.settings(context, config), Output()
    configured = {each.name: each for each in settings.sources}
    options.one_of(source, tuple(configured), what="source")
    mine = configured[source]
    _refuse(mine, version, dry_run=dry_run)
    options.start_log(settings, output.aside, level="error" if output.watched else "warning")
    with bootstrap.view(settings) as view:
        chosen = _chosen(view, source, limit=sample)
        found = _compared(view, settings, mine, version, chosen, output)
    if options.shape(context, shape) is Format.JSON:
        output.json([asdict(change) | {"objects": count} for change, count in found.items()])
    else:
        _show(output, found, chosen)
    raise typer.Exit(_DIFFERS if found else 0)


def _refuse(source: Source, version: str, *, dry_run: bool) -> None:
    if version == source.api_version:
        raise ConfigError(f"{source.name} is read in API version {version} already")
    if not dry_run:
        raise ConfigError(
            f'nothing is upgraded by a command: look with --dry-run, then set api_version = "{version}" in '
            f"sources[{source.name}] and start anew"
        )


def _chosen(view: View, source: str, *, limit: int) -> dict[str, Sequence[Sample]]:
    with view.database.transaction() as connection:
        return {kind: samples.newest(connection, source, kind, limit=limit) for kind in view.kinds[source]}


def _compared(  # noqa: PLR0917 - what a comparison takes
    view: View,
    settings: Settings,
    source: Source,
    version: str,
    chosen: Mapping[str, Sequence[Sample]],
    output: Output,
) -> dict[Change, int]:
    left = sum(len(each) for each in chosen.values())
    read = 0
    versions = (source.api_version, version)
    with (
        speaking(settings, source, versions, database=view.database, budgets=view.budgets) as (ours, theirs),
        view.budgets.calling(Lane.SWEEP),
        output.progress() as show,
    ):

        def seen(_: str) -> None:
            nonlocal read
            read += 1
            show("reading", read, left - read)

        return compared(ours, theirs, chosen, seen=seen)


def _show(output: Output, found: Mapping[Change, int], chosen: Mapping[str, Sequence[Sample]]) -> None:
    if found:
        columns = ("kind", "what", "where", "objects", "because")
        rows = [[each.kind, each.what, each.where, count, each.because] for each, count in found.items()]
        output.table(columns, rows)
    else:
        output.line(f"nothing changes; objects read: {sum(len(each) for each in chosen.values())}")
    if empty := [kind for kind, each in chosen.items() if not each]:
        output.tell(f"no rows to compare: {', '.join(empty)}")
