"""`reconcile plan`: what a kind costs, before it is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.bootstrap.planning import EVERY, planning
from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.plan import hours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.bootstrap.planning import Planning
    from reconciler.cli.output import Cell
    from reconciler.plan import Forecast
    from reconciler.store.story import Told

_MISSING = 1
_COLUMNS = ("source", "kind", "scopes", "objects", "calls", "hours", "GB", "permission")


def plan(
    context: typer.Context,
    *,
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="NAME", help="Only this source; may be repeated.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help=f"This kind, mirrored yet or not; may be repeated. `{EVERY}`: every one."
        ),
    ] = None,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """
    Forecast the calls, hours and gigabytes that loading kinds takes, and name what the credential lacks.

    Asks the providers a few calls a kind and loads nothing; the run that lists a kind whole is held against its
    forecast. Exit code 1 where a permission is missing or a provider did not answer.
    """
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    with planning(settings, sources=source or (), kinds=kind or ()) as prepared:
        found = []
        for each in prepared.forecasts():
            output.tell(f"{each.source}: {each.kind.name} looked at")
            found.append(each)
    if options.shape(context, shape) is Format.JSON:
        output.json([_told(each) for each in found])
    else:
        _show(output, found, prepared)
    raise typer.Exit(_MISSING if any(each.failed for each in found) else 0)


def _told(each: Forecast) -> Told:
    return {
        "source": each.source,
        "provider": each.provider,
        "kind": each.kind.name,
        "list": str(each.kind.list),
        "scopes": each.scopes,
        "objects": each.objects,
        "exact": each.exact,
        "least": each.least,
        "calls": each.calls,
        "hours": None if each.hours is None else round(each.hours, 4),
        "gigabytes": None if each.gigabytes is None else round(each.gigabytes, 6),
        "permission": each.kind.permission,
        "missing": each.missing or None,
        "because": each.because or None,
        "worth": each.kind.worth,
    }


def _show(output: Output, found: Sequence[Forecast], prepared: Planning) -> None:
    rows: list[list[Cell]] = [
        [
            *(each.source, each.kind.name, each.scopes, _objects(each), _sure(each, each.calls)),
            *(_sure(each, _amount(each.hours)), _sure(each, _amount(each.gigabytes)), each.kind.permission),
        ]
        for each in found
    ]
    for name in dict.fromkeys(each.source for each in found):
        known = [each for each in found if each.source == name and each.calls is not None]
        calls = sum(each.calls or 0 for each in known)
        together = max([hours(calls, prepared.limits[name]), *(each.hours or 0.0 for each in known)])
        size = sum(each.gigabytes or 0.0 for each in known)
        rows.append([name, "all of these", None, None, calls, _amount(together), _amount(size), None])
    output.table(_COLUMNS, rows)
    if any(each.least for each in found):
        output.line("+: no call tells how many there are; it is more than that")
    for each in found:
        if each.missing:
            output.line(
                f"MISSING {each.source}: {each.kind.name} needs the permission {each.kind.permission}: {each.missing}"
            )
        elif each.because:
            output.line(f"{each.source}: {each.kind.name}: {each.because}")


def _objects(each: Forecast) -> str:
    """Write a number as sure as it is."""
    return _sure(each, each.objects if each.exact or each.least or each.objects is None else f"~{each.objects}")


def _sure(each: Forecast, amount: Cell) -> str:
    return "" if amount is None else f"{amount}{'+' if each.least else ''}"


def _amount(value: float | None) -> str:
    return "" if value is None else "<0.01" if 0 < value < 0.01 else f"{value:.2f}"
