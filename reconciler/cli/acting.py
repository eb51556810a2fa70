"""The commands that do something: serve, refetch, replay, migrate, and what runs on this machine alone."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from adapters import sandbox as stand_ins
from reconciler import bootstrap, daemon, times
from reconciler import demo as demonstration
from reconciler.bootstrap import Looked
from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.cli.showing import one_of
from reconciler.daemon import Role
from reconciler.errors import ConfigError, NotAdopted
from reconciler.model import ObjectRef
from reconciler.store import migrate as migrations
from reconciler.store import pauses, refetches, replays, sources, statements, story, views

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.bootstrap import Program
    from reconciler.store.story import Told

_UNFINISHED = 1
_PATIENCE = timedelta(seconds=30)  # for the two reads that prove an absence, and for a retry or two
_NOBODY = f"nobody has read it within {times.spell(_PATIENCE)}"
_PAUSE = 0.05
_STEPS = frozenset({"", ".", ".."})
_CONTROLS = """in the source: api_base = "{url}"; then, as often as you like:
curl -X PUT {url}/_control/webhooks -d '{{"url": "http://127.0.0.1:8080/webhooks/NAME", "secret": "SECRET"}}'
curl -X POST {url}/_control/objects -d '{{"op": "create", "kind": "{kind}", "deliver": true}}'
curl -X PUT {url}/_control/faults -d '{{"drop": 0.5}}'"""


def serve(
    context: typer.Context,
    role: Annotated[Role, typer.Option("--role", help="Do only this part.")] = Role.ALL,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Run the daemon: take deliveries, keep the mirror fresh, sweep every night."""
    del shape
    settings = options.settings(context, config)
    options.start_log(settings, sys.stderr, level=settings.log.level)
    raise typer.Exit(daemon.serve(settings, role, reread=lambda: options.settings(context, config)))


def refetch(
    context: typer.Context,
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE")],
    kind: Annotated[str, typer.Argument(metavar="KIND")],
    identities: Annotated[list[str], typer.Argument(metavar="ID...")],
    scope: options.Scope = None,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Fetch these objects now and say what came of it; exit code 1 if one got no verdict."""
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error" if output.watched else "warning")
    with bootstrap.program(settings) as program:
        options.one_of(source, tuple(program.adapters), what="source")
        options.one_of(kind, tuple(program.adapters[source].kinds), what="kind")
        if strange := [each for each in (*identities, *([scope] if scope else [])) if each in _STEPS]:
            raise ConfigError(f"{strange[0]!r} names no object: it would be a step in a path")
        refs = [_ref(program, source, kind, identity, scope=scope) for identity in dict.fromkeys(identities)]
        told = _looked(program, refs, output)
    if options.shape(context, shape) is Format.JSON:
        output.json(told)
    else:
        columns = ("object", "verdict", "stamp", "observed", "gone", "error")
        output.table(columns, [list(each.values()) for each in told])
    raise typer.Exit(_UNFINISHED if any(each["verdict"] is None for each in told) else 0)


def replay(
    context: typer.Context,
    *,
    identities: Annotated[list[str] | None, typer.Argument(metavar="[EVENT_ID]...")] = None,
    source: options.Source = None,
    kind: options.Kind = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="Events in this state; dead: every dead letter.")
    ] = None,
    since: options.Since = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, max=options.MOST, help="So many at most.")
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0.01, help="So many objects a second of each source.")
    ] = replays.RATE,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Want again what these events name, or everything that was given up; a running daemon reads it at that rate."""
    if not identities and not any((source, kind, state, since)):
        raise ConfigError("name what to replay: event ids, --source, --kind, --state or --since")
    options.one_of(state, story.EVENT_STATES, what="state")
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    chosen = replays.Chosen(
        event_ids=identities or None,
        source=source,
        kind=kind,
        state=state,
        since=options.since(since),
        limit=limit,
    )
    with bootstrap.view(settings) as view:
        if view.estranged is not None:
            raise NotAdopted(view.estranged)
        options.one_of(source, tuple(view.kinds), what="source")
        told = replays.replay(view.database, chosen, rate=rate)
    until = None if told.until is None else times.iso(told.until)
    if options.shape(context, shape) is Format.JSON:
        output.json({"wanted": told.wanted, "until": until})
    else:
        output.line(f"{told.wanted} wanted" + (f", the last of them due at {until}" if told.wanted > 1 else ""))
    nothing = bool(identities) and not told.wanted
    if nothing:
        output.tell("none of these events is known, or they name nothing we mirror")
    if not told.complete:
        day = times.spell(replays.WITHIN)
        output.tell(f"more is left than comes due within {day} at {rate:g} a second: give the command again then")
    raise typer.Exit(_UNFINISHED if nothing else 0)


def migrate(context: typer.Context, config: options.ConfigFile = None, shape: options.Shape = None) -> None:
    """Bring the schema and the views of kinds up to date."""
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    with bootstrap.opened(settings) as database:
        ran = migrations.migrate(database)
        made = views.make(database, bootstrap.every_kind())
    if options.shape(context, shape) is Format.JSON:
        output.json({"ran": ran, "views": made})
        return
    did = [*ran, *([f"{len(made)} views"] if made else [])]
    output.line(f"brought up to date: {', '.join(did)}" if did else "the schema is up to date")
    if settings.database.url is None:
        output.tell(f"it is in an embedded PostgreSQL, there while `reconcile serve` runs: psql '{database.url}'")


def demo(
    context: typer.Context,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="What happens is drawn from it.")] = 1,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Show all of it on this machine, against stand-ins for the providers."""
    del context, config, shape
    raise typer.Exit(demonstration.main(seed=seed))


def sandbox(
    context: typer.Context,
    provider: Annotated[str, typer.Argument(metavar="PROVIDER")],
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: any that is free.")],
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Run one stand-in for a provider, with its faults on switches, until it is stopped."""
    del config
    options.one_of(provider, stand_ins.providers(), what="provider")
    output = Output()
    as_json = options.shape(context, shape) is Format.JSON

    def announce(url: str) -> None:
        if as_json:
            output.json({"url": url})
        else:
            output.line(url)
        output.tell(_CONTROLS.format(url=url, kind=next(iter(bootstrap.every_kind()[provider]))))

    try:
        stand_ins.run(provider, port=port, announce=announce)
    except OSError as error:
        raise ConfigError(f"--port {port}: {error.strerror}; name another port") from None
    except ValueError as error:  # it needs what only an extra brings
        raise ConfigError(str(error)) from None


def _ref(program: Program, source: str, kind: str, identity: str, *, scope: str | None) -> ObjectRef:
    """Return the object that is meant, whether it is in the mirror or not."""
    if scope is not None:
        return ObjectRef(source, scope, kind, identity)
    with program.database.transaction() as connection:
        known = one_of(story.refs(connection, identity, source=source, kind=kind))
    if known is not None:
        return known
    scopes = program.adapters[source].scopes(kind)
    if len(scopes) > 1:
        raise ConfigError(f"{identity} is not in the mirror; add --scope with one of {', '.join(scopes)}")
    return ObjectRef(source, scopes[0] if scopes else "", kind, identity)


def _looked(program: Program, refs: Sequence[ObjectRef], output: Output) -> list[Told]:
    """Look at each of *refs* until it has a verdict, is given up, or would take longer than anybody waits."""
    until = options.now() + _PATIENCE
    left = {ref: program.want(ref) for ref in refs}
    found: dict[ObjectRef, Looked] = {}
    with output.progress() as show:
        while left and options.now() < until:
            for ref, wanted in list(left.items()):
                program.drain.look_at(ref)
                looked = program.looked_at(ref, wanted, 0) or _put_off(program, ref, until)
                if looked is not None:
                    found[ref] = looked
                    del left[ref]
            show("reading", len(found), len(left))
            if left:
                time.sleep(_PAUSE)
    with program.database.transaction() as connection:
        return [_told(connection, ref, found.get(ref, Looked(ref, None, _NOBODY))) for ref in refs]


def _put_off(program: Program, ref: ObjectRef, until: datetime) -> Looked | None:
    """Return why *ref* will not be read in time; None: it may be."""
    with program.database.transaction() as connection:
        row = statements.row(connection, "refetch", refetches.key(ref))
        paused = [each for each in pauses.standing(connection) if each.source == ref.source]
        held = sources.held(connection).get(ref.source)
    if held is not None:
        return Looked(ref, None, str(held))
    if paused:
        return Looked(ref, None, f"{paused[0].because}; {ref.source} is left alone until {times.iso(paused[0].until)}")
    if row is None or row.due_at < until:
        return None
    return Looked(ref, None, f"{row.last_error}; it is read again at {times.iso(row.due_at)}")


def _told(connection: Connection, ref: ObjectRef, looked: Looked) -> Told:
    row = story.our_row(connection, ref)
    return {
        "ref": str(ref),
        "verdict": looked.verdict,
        "source_updated_at": row and row["source_updated_at"],
        "observed_at": row and row["observed_at"],
        "deleted": row is not None and row["deleted_at"] is not None,
        "error": looked.error,
    }
