"""The commands that only look: how things stand, lists, the story of one object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from reconciler import bootstrap, schedule, times
from reconciler.cli import options
from reconciler.cli.options import Format
from reconciler.cli.output import Output
from reconciler.errors import ConfigError
from reconciler.model import ObjectRef
from reconciler.store import retention, slots, sources, statements, story

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from reconciler.bootstrap import View
    from reconciler.config import Settings
    from reconciler.store.retention import Growth
    from reconciler.store.story import Filters, Told

Lister: TypeAlias = Callable[["Connection", "Filters"], "list[Told]"]

_ALARMED = 1
_PATHS = 4
_OPERATION = ": "  # in the name of a budget of one operation: shown where it has run out
_NOTHING = story.Queue()
_THOUSAND = 1000

State: TypeAlias = Annotated[str | None, typer.Option("--state", metavar="STATE", help="Only in this state.")]
Id: TypeAlias = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Only about this object (or: this event, this run).")
]


def status(context: typer.Context, config: options.ConfigFile = None, shape: options.Shape = None) -> None:
    """Show sources, freshness, queue, last and next runs, dead letters, budgets, alarms; exit code 1 with an alarm."""
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    with bootstrap.view(settings) as view, view.database.transaction() as connection:
        told = _status(connection, view, settings)
    if options.shape(context, shape) is Format.JSON:
        output.json(told)
    else:
        _show_status(output, told)
    raise typer.Exit(_ALARMED if told["alarms"] else 0)


def explain(
    context: typer.Context,
    *,
    source: Annotated[str, typer.Argument(metavar="SOURCE")],
    kind: Annotated[str, typer.Argument(metavar="KIND")],
    identity: Annotated[str, typer.Argument(metavar="ID")],
    scope: options.Scope = None,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """Tell the whole story of one object, oldest first."""
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    with bootstrap.view(settings) as view, view.database.transaction() as connection:
        found = story.refs(connection, identity, source=source, scope=scope, kind=kind)
        if not found:
            _refuse_unknown(view, source, kind)
        told = story.explain(connection, one_of(found) or ObjectRef(source, scope or "", kind, identity))
    if options.shape(context, shape) is Format.JSON:
        output.json(told)
    else:
        _show_story(output, told)


def events(
    context: typer.Context,
    *,
    source: options.Source = None,
    kind: options.Kind = None,
    identity: Id = None,
    state: State = None,
    since: options.Since = None,
    limit: options.Limit = 50,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """List what providers told us, newest first; states: open, done, ahead, ignored, skipped, dead."""
    options.one_of(state, story.EVENT_STATES, what="state")
    filters = _filters(source=source, kind=kind, identity=identity, state=state, since=since, limit=limit)
    _list(context, story.events, filters, _EVENTS, config=config, shape=shape)


def declined(
    context: typer.Context,
    *,
    source: options.Source = None,
    kind: options.Kind = None,
    identity: Id = None,
    state: State = None,
    since: options.Since = None,
    limit: options.Limit = 50,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """List the writes that were held back because our row was newer, newest first; states: declined, tied."""
    options.one_of(state, story.VERDICT_STATES, what="state")
    filters = _filters(source=source, kind=kind, identity=identity, state=state, since=since, limit=limit)
    _list(context, story.declined, filters, _DECLINED, config=config, shape=shape)


def drift(
    context: typer.Context,
    *,
    source: options.Source = None,
    kind: options.Kind = None,
    identity: Id = None,
    state: State = None,
    since: options.Since = None,
    limit: options.Limit = 50,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """List rows that had to be corrected, newest first; states: open, repaired, or what was found, or its cause."""
    options.one_of(state, story.DRIFT_STATES, what="state")
    filters = _filters(source=source, kind=kind, identity=identity, state=state, since=since, limit=limit)
    _list(context, story.drift, filters, _DRIFT, config=config, shape=shape)


def runs(
    context: typer.Context,
    *,
    source: options.Source = None,
    kind: options.Kind = None,
    identity: Id = None,
    state: State = None,
    since: options.Since = None,
    limit: options.Limit = 50,
    config: options.ConfigFile = None,
    shape: options.Shape = None,
) -> None:
    """List runs, newest first; states: running, complete, incomplete, failed, abandoned."""
    options.one_of(state, story.RUN_STATES, what="state")
    filters = _filters(source=source, kind=kind, identity=identity, state=state, since=since, limit=limit)
    _list(context, story.runs, filters, _RUNS, config=config, shape=shape)


def kinds(context: typer.Context, config: options.ConfigFile = None, shape: options.Shape = None) -> None:
    """List every kind the adapters know; needs no configuration and no database."""
    del config
    output = Output()
    told = [
        {
            "provider": provider,
            "kind": kind.name,
            "core": kind.core,
            "topics": list(kind.topics),
            "stamp": kind.stamp,
            "list": str(kind.list),
            "feed": kind.feed,
            "fetch": kind.fetch,
            "deletion": kind.deletion,
            "permission": kind.permission,
            "cost": kind.cost,
            "columns": [column.name for column in kind.columns],
            "worth": kind.worth,
        }
        for provider, known in bootstrap.every_kind().items()
        for kind in known.values()
    ]
    if options.shape(context, shape) is Format.JSON:
        output.json(told)
        return
    columns = ("provider", "kind", "core", "stamp", "list", "feed", "permission")
    output.table(columns, [[each[name] for name in columns] for each in told])


def one_of(found: Sequence[ObjectRef]) -> ObjectRef | None:
    """Return the one object that is meant; None: none is known. Raises `ConfigError` where several are."""
    if len(found) > 1:
        scopes = ", ".join(repr(each.scope) for each in found)
        raise ConfigError(f"{found[0].id} lives in several scopes; add --scope with one of {scopes}")
    return found[0] if found else None


def _refuse_unknown(view: View, source: str, kind: str) -> None:
    """Raise `ConfigError` for a source or kind that is not mirrored: of a mirrored one nothing may be known yet."""
    options.one_of(source, tuple(view.kinds), what="source")
    options.one_of(kind, view.kinds[source], what="kind")


def _filters(
    *, source: str | None, kind: str | None, identity: str | None, state: str | None, since: str | None, limit: int
) -> Filters:
    return story.Filters(source=source, kind=kind, id=identity, state=state, since=options.since(since), limit=limit)


def _list(
    context: typer.Context,
    lister: Lister,
    filters: Filters,
    columns: Mapping[str, Callable[[Told], Any]],
    *,
    config: options.ConfigFile,
    shape: options.Shape,
) -> None:
    settings, output = options.settings(context, config), Output()
    options.start_log(settings, output.aside, level="error")
    with bootstrap.view(settings) as view, view.database.transaction() as connection:
        found = lister(connection, filters)
    if not found and filters.source is not None:
        options.one_of(filters.source, tuple(view.kinds), what="source")
    if options.shape(context, shape) is Format.JSON:
        output.json(found)
    else:
        output.table(tuple(columns), [[tell(told) for tell in columns.values()] for told in found])


def _ref(told: Told) -> str:
    return str(ObjectRef(told["source"], told["scope"], told["kind"], told["id"]))


def spelled(text: str | None) -> str:
    """Return a time as people read it: to the second."""
    return "" if text is None else f"{text[:19].replace('T', ' ')}Z"


def _at(column: str) -> Callable[[Told], str]:
    return lambda told: spelled(told[column])


def _is(column: str) -> Callable[[Told], Any]:
    return lambda told: told[column]


def _where(told: Told) -> str:
    paths = [each["path"] for each in told["diff"]]
    return ", ".join(paths[:_PATHS]) + (f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else "")


_EVENTS: Mapping[str, Callable[[Told], Any]] = {
    "received": _at("received_at"),
    "source": _is("source"),
    "event": _is("event_id"),
    "type": _is("event_type"),
    "state": lambda told: told["outcome"] or "open",
    "done": _at("processed_at"),
    "repeats": _is("duplicates"),
    "error": _is("last_error"),
}
_DECLINED: Mapping[str, Callable[[Told], Any]] = {
    "at": _at("at"),
    "object": _ref,
    "verdict": _is("verdict"),
    "via": _is("via"),
    "its stamp": _at("incoming_source_updated_at"),
    "our stamp": _at("stored_source_updated_at"),
    "event": _is("event_id"),
    "run": _is("run_id"),
    "because": _is("because"),
}
_DRIFT: Mapping[str, Callable[[Told], Any]] = {
    "found": _at("found_at"),
    "object": _ref,
    "what": _is("what"),
    "cause": _is("cause"),
    "where": _where,
    "run": _is("run_id"),
    "repaired": _at("repaired_at"),
}
_RUNS: Mapping[str, Callable[[Told], Any]] = {
    "run": _is("id"),
    "trigger": _is("trigger"),
    "state": _is("state"),
    "dry": _is("dry_run"),
    "since": _at("since"),
    "until": _at("until"),
    "started": _at("started_at"),
    "finished": _at("finished_at"),
    "because": _is("because"),
}


def _status(connection: Connection, view: View, settings: Settings) -> Told:
    now: datetime = statements.one(connection, "clock", {"now": None}).now
    names = tuple(view.kinds)
    queues = story.queues(connection, now=now)
    fresh = story.freshness(connection, names, now=now)
    last = story.last_runs(connection, names)
    paused = {pause.source: pause.what for pause in reversed(story.pauses(connection, now=now))}
    shut = sources.shut(connection)
    budgets = view.budgets.standing(connection, now=now)

    def source(name: str, provider: str) -> Told:
        queue = queues.get(name, _NOTHING)
        planned = schedule.plan(name, settings.schedule)
        trigger, moment = schedule.next_run(planned, now, slots.standing(connection, name))
        return {
            "source": name,
            "provider": provider,
            "state": str(shut[name].state) if name in shut else paused.get(name, "ok"),
            "freshness_seconds": fresh.get(name, {"p50": None, "p99": None}),
            "queue": queue.open,
            "oldest_seconds": None if queue.oldest is None else max(int((now - queue.oldest).total_seconds()), 0),
            "dead": queue.dead,
            "held": queue.held,
            "budgets": [
                {"name": each.name, "left": each.left, "limit": each.limit} for each in budgets if each.source == name
            ],
            "last_run": last.get(name),
            "next_run": {"trigger": trigger, "at": times.iso(moment)},
        }

    copy = view.estranged
    told = {
        "ready": copy is None,
        "alarms": [
            *([] if copy is None else [{"what": "not_adopted", "source": "", "since": None, "because": copy}]),
            *(story.alarm(each) for each in story.alarms(connection, view.kinds, now=now)),
        ],
        "sources": [source(each.name, each.provider) for each in settings.sources],
        "growth": [_growing(each) for each in retention.growth(connection, names, settings.retention.kept(), now=now)],
    }
    not_live = sources.not_live(connection, [name for name in names if name not in shut])
    left = [{"source": name, "objects": objects} for name, objects in not_live.items()]
    return told | ({"not_live": left} if left else {})


def _growing(each: Growth) -> Told:
    return {
        "table": each.table,
        "rows": each.rows,
        "bytes": each.bytes,
        "rows_a_day": each.rows_a_day,
        "bytes_a_day": each.bytes_a_day,
        "kept_seconds": None if each.kept is None else int(each.kept.total_seconds()),
        "horizon_seconds": int(each.horizon.total_seconds()),
        "bytes_at_horizon": each.bytes_at_horizon,
    }


def _show_growth(output: Output, growth: Sequence[Told]) -> None:
    output.line("")
    output.table(
        ("table", "rows", "size", "rows a day", "size a day", "kept", "size then"),
        [
            (
                each["table"],
                each["rows"],
                _sized(each["bytes"]),
                each["rows_a_day"],
                _sized(each["bytes_a_day"]),
                "for ever, in a year" if each["kept_seconds"] is None else _days(each["kept_seconds"]),
                _sized(each["bytes_at_horizon"]),
            )
            for each in growth
        ],
    )


def _days(seconds: int) -> str:
    return times.spell(timedelta(seconds=seconds))


def _sized(count: int) -> str:
    """Return a number of bytes as people read it."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < _THOUSAND:
            break
        size, unit = size / _THOUSAND, larger
    return f"{size:.{0 if unit == 'B' else 1}f} {unit}"


def _show_status(output: Output, told: Told) -> None:
    columns = (
        "source",
        "provider",
        "state",
        "p50 s",
        "p99 s",
        "queue",
        "oldest s",
        "dead",
        "held",
        "last run",
        "next run",
    )
    rows = []
    for each in told["sources"]:
        fresh, last, coming = each["freshness_seconds"], each["last_run"], each["next_run"]
        ran = f"{last['trigger']} {last['state']} {spelled(last['started_at'])}" if last else "never"
        rows.append(
            [each[name] for name in ("source", "provider", "state")]
            + [fresh["p50"], fresh["p99"], each["queue"], each["oldest_seconds"], each["dead"], each["held"]]
            + [ran, f"{coming['trigger']} {spelled(coming['at'])}"]
        )
    output.table(columns, rows)
    budgets = [
        (each["source"], budget["name"], budget["left"], budget["limit"])
        for each in told["sources"]
        for budget in each["budgets"]
        if _OPERATION not in budget["name"] or not budget["left"]
    ]
    if budgets:
        output.line("")
        output.table(("source", "budget", "left", "limit"), budgets)
    _show_growth(output, told["growth"])
    for each in told.get("not_live", ()):
        output.line(f"NOT LIVE {each['source']}: nothing keeps its {each['objects']} objects fresh")
    for alarm in told["alarms"]:
        since = f" since {spelled(alarm['since'])}" if alarm["since"] else ""
        because = f": {alarm['because']}" if "because" in alarm else ""
        output.line(f"ALARM {alarm['source'] or 'all sources'}: {alarm['what'].replace('_', ' ')}{since}{because}")
    if not told["alarms"]:
        output.line("no alarms")


def _show_story(output: Output, told: Told) -> None:
    row = told["row"]
    if row is None:
        output.line(f"{told['ref']}: no row")
    else:
        gone = f"gone since {spelled(row['deleted_at'])}, " if row["deleted_at"] else ""
        stamp = row["source_updated_at"] or "none"
        positions = f"{row['read_from']}-{row['read_until']}"
        output.line(
            f"{told['ref']}: {gone}stamp {stamp}, read {spelled(row['observed_at'])} at positions {positions}, "
            f"applied {spelled(row['applied_at'])}, shape {row['shape']}"
        )
    for each in told["story"]:
        output.line(f"{spelled(each['at'])}  {each['what']:<11}  {each['text']}")
    if not told["story"]:
        output.tell("nothing is known of it")
