"""The command that forgets: every copy of an object, for good, with a receipt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler import bootstrap, content
from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.cli.showing import one_of
from reconciler.errors import ConfigError, NotAdopted
from reconciler.model import ObjectRef
from reconciler.store import forgetting, story

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reconciler.adapter import Kind
    from reconciler.bootstrap import View
    from reconciler.config import Settings
    from reconciler.store.story import Told

_BAD_RECEIPT = 1


def forget(
    context: typer.Context,
    *,
    source: Annotated[str | None, typer.Argument(metavar="SOURCE")] = None,
    kind: Annotated[str | None, typer.Argument(metavar="KIND")] = None,
    identity: Annotated[str | None, typer.Argument(metavar="ID")] = None,
    scope: options.Scope = None,
    related: Annotated[
        bool, typer.Option("--related", help="With all that is linked to it: of a customer the invoices, orders, ...")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which objects would be forgotten.")] = False,
    check: options.Receipt = None,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Erase every copy of an object and keep it from coming back; prints a receipt. Nothing undoes it."""
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    as_json = options.shape(context, shape) is Format.JSON
    with bootstrap.view(settings) as view:
        if check is not None:
            _check(view, check, output, as_json=as_json)
            return
        if source is None or kind is None or identity is None:
            raise ConfigError("name what to forget: SOURCE KIND ID, or a receipt to --check")
        if view.estranged is not None:
            raise NotAdopted(view.estranged)
        kinds = _kinds(settings, source)
        options.one_of(kind, tuple(kinds), what="kind")
        with view.database.transaction() as connection:
            known = one_of(story.refs(connection, identity, source=source, scope=scope, kind=kind))
            ref = known or ObjectRef(source, scope or "", kind, identity)
            found = forgetting.related(connection, ref, kinds) if related else [ref]
        if dry_run:
            _show(output, found, as_json=as_json)
            return
        receipt = forgetting.forget(view.database, {ref: related}, kinds)
    _tell(output, receipt.told(), as_json=as_json)
    if known is None:
        output.tell("nothing was known of it; it is kept from coming in from now on")


def _kinds(settings: Settings, source: str) -> Mapping[str, Kind]:
    """Return every kind of the provider of *source*: rows may be of kinds that are mirrored no more."""
    providers = {each.name: each.provider for each in settings.sources}
    options.one_of(source, tuple(providers), what="source")
    return bootstrap.every_kind()[providers[source]]


def _show(output: Output, found: list[ObjectRef], *, as_json: bool) -> None:
    if as_json:
        output.json([str(ref) for ref in found])
        return
    output.line(f"would be forgotten: {len(found)}")
    for ref in found:
        output.line(str(ref))


def _tell(output: Output, told: Told, *, as_json: bool) -> None:
    if as_json:
        output.json(told)
        return
    objects = ", ".join(f"{count} {kind}" for kind, count in told["kinds"].items())
    rows = ", ".join(f"{count} {table}" for table, count in told["erased"].items())
    output.line(f"forgotten of {told['source']} at {told['at']}: {objects}; rows erased: {rows or 'none were left'}")
    for marker in told["markers"]:
        output.line(f"marker {marker}")
    output.line(f"proof {told['proof']}")


def _check(view: View, file: Path, output: Output, *, as_json: bool) -> None:
    try:
        told = content.parse(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--check {file}: is no receipt that can be read ({error}); give the JSON of one") from None
    holds = isinstance(told, dict) and view.database.commit(partial(forgetting.holds, told=told))
    if as_json:
        output.json({"holds": holds})
    else:
        output.line("the receipt holds" if holds else "the receipt does not hold: it is not of this mirror, or changed")
    if not holds:
        raise typer.Exit(_BAD_RECEIPT)
