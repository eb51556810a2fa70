"""The commands about sources and whose mirror this is: pause, rename, remove, what is configured, adopt."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler import bootstrap, times
from reconciler.bootstrap import planning
from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.config import values
from reconciler.config.values import Given
from reconciler.config.written import changes, written
from reconciler.errors import ConfigError, DatabaseUnavailable, NotAdopted
from reconciler.store import environment, sources
from reconciler.store.sources import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.config import Settings
    from reconciler.store.database import Database
    from reconciler.store.environment import Environment
    from reconciler.store.sources import AtWork

_ENDS_WITHIN = timedelta(seconds=60)  # reads and runs under way; a call takes 30 s at most
_PAUSE = 0.1
_PAUSES = "pauses"  # one may be left of a source that had the name before
_RELOAD = "reload the daemon (systemctl reload reconciler)"


def source_commands() -> typer.Typer:
    """Return the commands of `reconcile source`."""
    group = typer.Typer(name="source", help="Pause, resume, rename or remove a source.", no_args_is_help=True)
    for command in (pause, resume, rename, remove):
        group.command()(command)
    return group


def config_commands() -> typer.Typer:
    """Return the commands of `reconcile config`."""
    group = typer.Typer(name="config", help="Check what is configured, or compare it.", no_args_is_help=True)
    for command in (check, diff):
        group.command()(command)
    return group


def pause(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="For so long (90m, 7d), or until then (ISO 8601).")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="R", help="Shown wherever the pause is.")] = "",
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Leave a source alone: deliveries are still taken and stored, nothing is fetched and nothing swept."""
    settings, output = _begun(context, config)
    end = None if until is None else _end(until)
    with _ours(settings) as database:
        _known(database, settings, name)
        database.commit(partial(sources.pause, source=name, until=end, because=reason))
        busy = database.commit(partial(sources.at_work, source=name))
        held = database.commit(sources.held)[name]
    told = {"source": name, "state": "paused", "until": end and times.iso(end), "reason": reason}
    _tell(context, shape, output, told, f"{held}; deliveries are stored meanwhile")
    if busy:
        output.tell(f"{_spelled(busy)} under way, and will end by themselves")


def resume(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Take a source up again that was paused or removed: what came meanwhile is read, and a sweep follows."""
    settings, output = _begun(context, config)

    def take_up(connection: Connection) -> tuple[bool, bool]:
        shut = name in sources.shut(connection)
        if shut:
            sources.mark(connection, name, State.LEFT_OUT)
        return sources.resume(connection, name), shut

    with _ours(settings) as database:
        _known(database, settings, name)
        was_paused, was_shut = database.commit(take_up)
    after = f"; if it is configured, {_RELOAD}" if was_shut else ""
    said = f"{name} is taken up again{after}" if was_paused or was_shut else f"{name} was not paused"
    _tell(context, shape, output, {"source": name, "state": "ok"}, said)


def rename(
    context: typer.Context,
    *,
    old: Annotated[str, typer.Argument(metavar="OLD")],
    new: Annotated[str, typer.Argument(metavar="NEW")],
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Give every row of a source to another name, in one transaction; its webhook URL changes with the name."""
    settings, output = _begun(context, config)
    _name(new)
    with _ours(settings) as database:
        _known(database, settings, old)
        held = database.commit(partial(sources.rows, source=old))
        _refuse_taken(database, old, new)
        output.tell(f"{_counted(held)} of {old} will be those of {new}; its webhooks will go to {_url(settings, new)}")
        because = f"renamed to {new}"
        with _alone(database, old, because=because):
            moved = database.commit(partial(sources.rename, source=old, renamed_to=new))
    told = {"source": old, "renamed_to": new, "rows": moved, "url": _url(settings, new)}
    after = (
        f"Now write name = {new!r} in the configuration, {_RELOAD}, and have the provider send to {_url(settings, new)}"
    )
    kept = f"what comes to {_url(settings, old)} until the reload is kept"
    _tell(context, shape, output, told, f"{moved} rows of {old} are those of {new}. {after}; {kept}")


def remove(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    delete_data: Annotated[
        bool, typer.Option("--delete-data", help="Erase every row of it, too; nothing brings them back.")
    ] = False,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Serve a source no more: deliveries to it are answered 404, and its rows are kept as not live, or erased."""
    settings, output = _begun(context, config)
    with _ours(settings) as database:
        _known(database, settings, name)
        held = database.commit(partial(sources.rows, source=name))
        output.tell(f"{_counted(held)} of {name} will be {'erased' if delete_data else 'kept, and no longer fresh'}")
        with _alone(database, name, because="removed"):
            gone = database.commit(partial(_removed, source=name, erased=delete_data))
    told = {"source": name, "state": "erased" if delete_data else "removed", "rows": gone or sum(held.values())}
    did = f"{gone} rows of it are erased" if delete_data else f"its {sum(held.values())} rows are kept, and not live"
    after = f"take it out of the configuration and {_RELOAD}; delete its subscription at the provider"
    _tell(context, shape, output, told, f"{name} is removed: {did}. Deliveries to it are answered 404. Now {after}")


def check(context: typer.Context, config: options.ConfigFile = None, shape: options.Shape = None) -> None:
    """Read the configuration, ask providers about extra fields, and say every fault; exit code 2 where there is one."""
    settings, output = _begun(context, config)
    planning.check(settings)
    warnings = [*settings.warnings, *_unconfirmed(settings)]
    told = {"files": [str(file) for file in settings.files], "warnings": warnings}
    for warning in warnings:
        output.tell(warning)
    kinds = sum(len(each) for each in bootstrap.mirrored(settings).values())
    said = f"sources: {len(settings.sources)}, kinds: {kinds}, endpoints: {len(settings.endpoints)}; no faults"
    _tell(context, shape, output, told, said)


def diff(context: typer.Context, config: options.ConfigFile = None, shape: options.Shape = None) -> None:
    """Show what differs between the configuration that a daemon applied last and the one on disk; changes nothing."""
    settings, output = _begun(context, config)
    with bootstrap.view(settings) as view:
        applied = view.database.commit(environment.applied)
    if applied is None:
        output.tell("no daemon has applied a configuration yet: all of it is new")
    found = changes({} if applied is None else applied.written, written(settings, bootstrap.mirrored(settings)))
    if options.shape(context, shape) is Format.JSON:
        output.json([each.told() for each in found])
        return
    for each in found:
        output.line(str(each))
    if not found and applied is not None:
        output.line(f"nothing differs from what was applied at {times.iso(applied.at)}")


def adopt(context: typer.Context, config: options.ConfigFile = None, shape: options.Shape = None) -> None:
    """Let this mirror belong here: a copy of one that was started elsewhere stays read-only until then."""
    settings, output = _begun(context, config)
    with bootstrap.view(settings) as view:
        before = view.database.commit(environment.remembered)
        now = view.database.commit(partial(environment.adopt, public_url=settings.public_url))
    told = {"before": before and _told(before), "now": _told(now)}
    if before is not None:
        output.tell(f"it belonged to {_where(before)}")
    _tell(context, shape, output, told, f"this mirror belongs to {_where(now)} from now on; a waiting daemon begins")


@contextmanager
def _alone(database: Database, source: str, *, because: str) -> Iterator[None]:
    """Leave *source* to this command: nobody reads or sweeps it while the block runs, nor after it succeeded."""
    before = database.commit(sources.held).get(source)
    database.commit(partial(sources.pause, source=source, until=None, because=because))
    try:
        _wait(database, source)
        yield
    except BaseException:
        if before is None:
            database.commit(partial(sources.resume, source=source))
        else:
            database.commit(partial(sources.pause, source=source, until=before.until, because=before.because))
        raise


def _wait(database: Database, source: str) -> None:
    """Return once nobody reads or sweeps *source*; raises `DatabaseUnavailable` where that does not end."""
    until = time.monotonic() + _ENDS_WITHIN.total_seconds()
    while busy := database.commit(partial(sources.at_work, source=source)):
        if time.monotonic() > until:
            raise DatabaseUnavailable(f"{_spelled(busy)} under way in {source} and do not end; try again")
        time.sleep(_PAUSE)


def _removed(connection: Connection, *, source: str, erased: bool) -> int:
    sources.mark(connection, source, State.ERASED if erased else State.REMOVED)
    return sources.erase(connection, source) if erased else 0


def _unconfirmed(settings: Settings) -> list[str]:
    """Return what no provider could be asked about; raises `ConfigError` for what a provider does not have."""
    try:
        unasked = planning.confirm(settings)
    except DatabaseUnavailable as error:
        return [f"providers were not asked: their budgets and tokens are kept in the database: {error}"]
    return [f"sources[{name}]: its provider was not asked: {because}" for name, because in unasked.items()]


def _begun(context: typer.Context, config: options.ConfigFile) -> tuple[Settings, Output]:
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    return settings, output


@contextmanager
def _ours(settings: Settings) -> Iterator[Database]:
    """Yield the database of a mirror that may be changed; raises `NotAdopted` for a copy."""
    with bootstrap.view(settings) as view:
        if view.estranged is not None:
            raise NotAdopted(view.estranged)
        yield view.database


def _known(database: Database, settings: Settings, name: str) -> None:
    """Raise `ConfigError` unless a source of that name is configured, or was ever served, or has rows."""
    there = {*(source.name for source in settings.sources), *database.commit(sources.known)}
    if name not in there and not database.commit(partial(sources.rows, source=name)):
        options.one_of(name, sorted(there), what="source")


def _refuse_taken(database: Database, old: str, new: str) -> None:
    held = {
        table: count for table, count in database.commit(partial(sources.rows, source=new)).items() if table != _PAUSES
    }
    if old == new or held:
        why = "is its name already" if old == new else f"has {_counted(held)} of its own"
        raise ConfigError(f"{new} {why}; choose another name, or `reconcile source remove {new} --delete-data` first")


def _name(given: str) -> None:
    try:
        values.name(Given(given))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _end(text: str) -> datetime:
    """Return the instant that `--until T` means: so long after now, or ISO 8601; raises `ConfigError`."""
    now = options.now()
    with suppress(ValueError, OverflowError):
        return now + times.duration(text)
    moment = times.parse_time(text, now)
    if moment <= now:
        raise ConfigError(f"--until {text!r} has passed (it is {times.iso(now)}); name a later time")
    return moment


def _url(settings: Settings, name: str) -> str:
    return f"{settings.public_url or ''}/webhooks/{name}"


def _counted(held: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in held.items()) or "no rows"


def _spelled(busy: AtWork) -> str:
    reads = f"{busy.reads} reads" if busy.reads else ""
    sweeps = f"{busy.sweeps} sweeps of a kind" if busy.sweeps else ""
    return f"{' and '.join(filter(None, (reads, sweeps)))} are"


def _told(where: Environment) -> dict[str, str | None]:
    return {"public_url": where.public_url, "server": where.server, "database": where.database}


def _where(each: Environment) -> str:
    return f"{each.public_url or 'no public_url'} (server {each.server or 'unknown'}, database {each.database})"


def _tell(
    context: typer.Context, shape: options.Shape, output: Output, told: Mapping[str, object], sentence: str
) -> None:
    if options.shape(context, shape) is Format.JSON:
        output.json(dict(told))
    else:
        output.line(sentence)
