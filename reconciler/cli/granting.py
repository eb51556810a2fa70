"""`reconcile grants`: the SQL that lets roles do their part, for somebody who may to read and run."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.store.grants import Roles
from reconciler.store.grants import grants as written


def grants(
    context: typer.Context,
    *,
    owner: Annotated[
        str, typer.Option("--owner", metavar="R", help="Owns the schema: `reconcile migrate` runs as it.")
    ] = "reconciler_owner",
    writer: Annotated[
        str, typer.Option("--writer", metavar="R", help="Changes rows: the daemon and the commands run as it.")
    ] = "reconciler_writer",
    reader: Annotated[
        str, typer.Option("--reader", metavar="R", help="Reads views, coverage and the mirror; no events' bodies.")
    ] = "reconciler_reader",
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Print the SQL that gives three roles what they need; runs nothing of it, and needs no database."""
    settings, output = options.settings(context, config), Output()
    roles = Roles(owner=owner, writer=writer, reader=reader)
    text = written(settings.database.schema, roles)
    if options.shape(context, shape) is Format.JSON:
        output.json({"schema": settings.database.schema, **asdict(roles), "sql": text})
    else:
        sys.stdout.write(text)  # as it is: a terminal's width must not break a line of it
