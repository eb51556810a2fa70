"""
What the mirror can tell people: lists, the story of one object, what a run came to, how every source stands.

What is returned is ready for JSON: times as text, numbers as they were written.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from reconciler import content, times
from reconciler.model import ObjectRef
from reconciler.store import forecasts, refetches, shares, sources, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy import Connection, Row

    from reconciler.model import JSON
    from reconciler.store.sources import Refused

Told: TypeAlias = dict[str, Any]
"""A JSON object with the columns of a row."""

OLDEST_WATERMARK = timedelta(hours=26)
"""A kind that was swept nightly is never older: a day, and time for the run."""

EVENT_STATES = ("open", "done", "ahead", "ignored", "skipped", "dead")
VERDICT_STATES = ("declined", "tied")
RUN_STATES = ("running", "complete", "incomplete", "failed", "abandoned")
DRIFT_STATES = (
    "open",
    "repaired",
    "missing",
    "differs",
    "extra",
    "missed_notification",
    "notification_pending",
    "declined_write",
    "missed_deletion",
    "hand_edit",
    "other",
)

_JSON_COLUMNS = frozenset({"body", "changed", "diff", "headers", "payload", "tallies"})
_SCHEDULED = ("nightly", "catch_up")
_TRIGGERS = (*_SCHEDULED, "light", "cli", "http")
_SPANS = (timedelta(hours=1), timedelta(days=1))
_SHOWN_PATHS = 6
_SHOWN_FINDINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """
    Which rows of a list are asked for; None: whichever.

    Attributes:
        id: An object's id; of events also their own, of runs only that.
        state: One of the list's states.
    """

    source: str | None = None
    kind: str | None = None
    id: str | None = None
    state: str | None = None
    since: datetime | None = None
    limit: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """
    Something that needs a person.

    Attributes:
        what: dead_letters, access_lost, suspended, uninstalled, paused, permission_missing, source_unavailable,
            never_swept, watermark_old, nightly_incomplete or deletions_stopped, or what the watchdog found:
            subscription_lost, silence, deprecated or version_drift, or a sweep: feed_outrun.
        since: Since when it stands; None: from the beginning.
        because: What exactly, and the way out; empty where `what` says it.
    """

    what: str
    source: str
    since: datetime | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Queue:
    """
    What waits in one source.

    Attributes:
        open: Refetches that are wanted and not read, due or not; those held back are left out.
        due: Those that a worker could take now.
        oldest: Since when the oldest due refetch or open event waits; None: nothing does.
        dead: Dead letters.
        held: Absences that are held back until a person lets them go.
    """

    open: int = 0
    due: int = 0
    leased: int = 0
    dead: int = 0
    held: int = 0
    oldest: datetime | None = None


def events(connection: Connection, filters: Filters) -> list[Told]:
    """Return the newest events that pass *filters*, newest first."""
    if filters.id is None:
        return _list(connection, "list_events", filters)
    parameters = {"source": _sources(connection, filters), "event_id": filters.id}
    named = [] if filters.kind else [_told(row) for row in statements.rows(connection, "events_of_id", parameters)]
    found = {
        (told["source"], told["event_id"]): told
        for told in [*named, *_of(connection, "events_of_object", filters.id, filters)]
    }
    return _chosen(found.values(), filters, at="received_at", states=lambda told: (told["outcome"] or "open",))


def declined(connection: Connection, filters: Filters) -> list[Told]:
    """Return the newest declined and tied writes that pass *filters*, newest first."""
    if filters.id is None:
        return _list(connection, "list_declined", filters)
    found = _of(connection, "declined_of_object", filters.id, filters)
    return _chosen(found, filters, at="at", states=lambda told: (told["verdict"],))


def drift(connection: Connection, filters: Filters) -> list[Told]:
    """Return the newest drift that passes *filters*, newest first."""
    if filters.id is None:
        return _list(connection, "list_drift", filters)
    found = _of(connection, "drift_of_object", filters.id, filters)
    return _chosen(found, filters, at="found_at", states=lambda told: (told["what"], told["cause"], _mended(told)))


def runs(connection: Connection, filters: Filters) -> list[Told]:
    """Return the newest runs that pass *filters*, newest first."""
    return _list(connection, "list_runs", filters)


def run_report(connection: Connection, run_id: int) -> Told | None:
    """Return what run *run_id* came to so far, kind by kind, and what drift it found; None: there is no such run."""
    row = statements.row(connection, "one_run", {"run_id": run_id})
    if row is None:
        return None
    run = _told(row)
    keys = ("id", "trigger", "state", "since", "until", "dry_run", "because")
    found = [_told(each) for each in statements.rows(connection, "drift_of_run", {"run_id": run_id})]
    kinds = run["tallies"].get("kinds", [])
    held = [each | {"at": times.iso(each["at"])} for each in forecasts.against(connection, kinds, row.started_at)]
    report = {key: run[key] for key in keys} | {"kinds": kinds, "drift": found}
    return report | ({"forecasts": held} if held else {})


def refs(
    connection: Connection,
    id: str,  # noqa: A002 - the word of the tables
    *,
    source: str | None = None,
    scope: str | None = None,
    kind: str | None = None,
) -> list[ObjectRef]:
    """Return every object we know by *id*, with a row or only wanted so far, in key order."""
    parameters = {"id": id, "source": source, "scope": scope, "kind": kind}
    return [
        ObjectRef(row.source, row.scope, row.kind, row.id)
        for row in statements.rows(connection, "refs_of_id", parameters)
    ]


def our_row(connection: Connection, ref: ObjectRef) -> Told | None:
    """Return our row of *ref* with its body; None: there is none."""
    found = statements.row(connection, "row_of_object", refetches.key(ref))
    return None if found is None else _told(found)


def dead_letters(
    connection: Connection, *, source: str | None, kind: str | None, since: datetime | None, limit: int | None
) -> list[ObjectRef]:
    """Return the objects that are dead letters, the oldest first."""
    asked = {"source": source, "kind": kind, "since": since, "limit": limit}
    found = statements.rows(connection, "dead_refs", asked)
    return [ObjectRef(row.source, row.scope, row.kind, row.id) for row in found]


def explain(connection: Connection, ref: ObjectRef) -> Told:
    """Return our row of *ref* and everything that ever happened to it, oldest first, each with a sentence."""
    found: list[Told] = []
    for statement, tell in _CHAPTERS:
        for row in statements.rows(connection, statement, refetches.key(ref)):
            found += tell(_told(row))
    story = sorted(found, key=lambda told: (told["at"], _ORDER.index(told["what"])))
    return {"ref": str(ref), "row": our_row(connection, ref), "story": story}


def queues(connection: Connection, *, now: datetime | None = None) -> dict[str, Queue]:
    """Return what waits in each source that has anything waiting."""
    waiting = {row.source: row for row in statements.rows(connection, "queues", {"now": now})}
    events = {row.source: row.oldest for row in statements.rows(connection, "open_events")}
    dead = {row.source: row.dead for row in statements.rows(connection, "dead_letters")}
    found = {}
    for source in waiting.keys() | events.keys() | dead.keys():
        mine = waiting.get(source)
        oldest = [time for time in (mine and mine.oldest, events.get(source)) if time is not None]
        found[source] = Queue(
            open=mine.open if mine else 0,
            due=mine.due if mine else 0,
            leased=mine.leased if mine else 0,
            dead=dead.get(source, 0),
            held=mine.held if mine else 0,
            oldest=min(oldest, default=None),
        )
    return found


def freshness(
    connection: Connection, sources: Sequence[str], *, now: datetime | None = None
) -> dict[str, dict[str, float]]:
    """
    Return how long events took from received to read: the median and the 99th percentile in seconds.

    Of the last hour; where a source had none then, of the last day.
    """
    found: dict[str, dict[str, float]] = {}
    for span in _SPANS:
        parameters = {"source": [source for source in sources if source not in found], "span": span, "now": now}
        for row in statements.rows(connection, "freshness_of_sources", parameters):
            found[row.source] = {"p50": round(row.p50, 3), "p99": round(row.p99, 3)}
    return found


def pauses(connection: Connection, *, now: datetime | None = None) -> list[Row[Any]]:
    """Return every pause that stands: source, scope, what, because, since, until."""
    return list(statements.rows(connection, "standing_pauses", {"now": now}))


def swept(connection: Connection) -> dict[tuple[str, str], datetime]:
    """Return up to when each (source, kind) is swept in all its scopes; what was never swept is left out."""
    return {(row.source, row.kind): row.swept_until for row in statements.rows(connection, "swept_kinds")}


def last_runs(connection: Connection, sources: Sequence[str]) -> dict[str, Told]:
    """Return the newest run of each source that had one, whatever brought it."""
    parameters = {"source": list(sources), "trigger": list(_TRIGGERS)}
    found = (_told(row) for row in statements.rows(connection, "last_runs", parameters))
    return {told.pop("source"): told for told in found}


def alarms(connection: Connection, kinds: Mapping[str, Collection[str]], *, now: datetime | None = None) -> list[Alarm]:
    """Return what needs a person in these sources, whose mirrored kinds are *kinds*."""
    moment = statements.one(connection, "clock", {"now": now}).now
    found = [
        Alarm("dead_letters", row.source, row.since) for row in statements.rows(connection, "dead_letters") if row.dead
    ]
    standing = pauses(connection, now=moment)
    for pause in standing:
        what = {"unavailable": "source_unavailable"}.get(pause.what, pause.what)
        found.append(Alarm(what, pause.source, pause.since, pause.because))
    refused = sources.refused(connection)
    found += _refused(refused)
    found += _unswept(swept(connection), _readable(kinds, standing, refused), moment)
    parameters = {"source": list(kinds), "trigger": list(_SCHEDULED)}
    found += [
        Alarm("nightly_incomplete", row.source, row.started_at)
        for row in statements.rows(connection, "last_runs", parameters)
        if row.state not in {"complete", "running"} and not sources.excused(connection, row.id, row.source)
    ]
    held = {pause.source for pause in standing if pause.what == "paused"}
    found += [each for each in _found(connection) if each.source not in held]
    found += _stopped(connection)
    once = {(alarm.source, alarm.what): alarm for alarm in reversed(found)}
    return sorted((each for each in once.values() if each.source in kinds), key=lambda each: (each.source, each.what))


def alarm(each: Alarm) -> Told:
    """Return an alarm as `status` shows it."""
    told = {"what": each.what, "source": each.source, "since": None if each.since is None else times.iso(each.since)}
    return told | ({"because": each.because} if each.because else {})


def _stopped(connection: Connection) -> Iterable[Alarm]:
    """Yield an alarm for each source of which something is held back, since the oldest, with the ways out."""
    stopped: dict[str, list[shares.Held]] = {}
    for each in shares.held(connection):
        stopped.setdefault(each.place.source, []).append(each)
    for source, held in stopped.items():
        since = min(each.since for each in held if each.since is not None)
        yield Alarm("deletions_stopped", source, since, _joined([each.told() for each in held]))


def _joined(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - _SHOWN_FINDINGS} more" if len(sentences) > _SHOWN_FINDINGS else ""
    return "; ".join(sentences[:_SHOWN_FINDINGS]) + more


def _found(connection: Connection) -> Iterable[Alarm]:
    """Yield an alarm for each sort of finding of a source, since the oldest, with the sentences of the first few."""
    sorts: dict[tuple[str, str], list[Row[Any]]] = {}
    for row in statements.rows(connection, "standing_findings"):
        sorts.setdefault((row.source, row.what), []).append(row)
    for (source, what), rows in sorts.items():
        yield Alarm(what, source, min(row.since for row in rows), _joined([row.because for row in rows]))


def _refused(refused: Sequence[Refused]) -> Iterable[Alarm]:
    """Yield an alarm for each source whose credential may not read kinds, since the oldest, with their names."""
    for source in dict.fromkeys(each.source for each in refused):
        mine = [each for each in refused if each.source == source]
        kinds = ", ".join(dict.fromkeys(each.kind for each in mine))
        yield Alarm("permission_missing", source, min(each.since for each in mine), f"{kinds}: {mine[0].because}")


def _readable(
    kinds: Mapping[str, Collection[str]], standing: Sequence[Row[Any]], refused: Sequence[Refused]
) -> dict[str, list[str]]:
    """Return the kinds that no alarm of its own says nobody can sweep now."""
    closed = {pause.source for pause in standing if not pause.scope and pause.what != "unavailable"}
    unread = {(each.source, each.kind) for each in refused}
    return {
        source: [kind for kind in names if (source, kind) not in unread]
        for source, names in kinds.items()
        if source not in closed
    }


def _unswept(
    swept_until: Mapping[tuple[str, str], datetime], kinds: Mapping[str, Collection[str]], now: datetime
) -> Iterable[Alarm]:
    for source, names in kinds.items():
        marks = [swept_until.get((source, kind)) for kind in names]
        if None in marks:
            yield Alarm("never_swept", source, None)
        oldest = min((mark for mark in marks if mark is not None), default=now)
        if now - oldest > OLDEST_WATERMARK:
            yield Alarm("watermark_old", source, oldest)


def _told(row: Row[Any]) -> Told:
    return {name: _value(name, value) for name, value in row._mapping.items()}  # noqa: SLF001 - SQLAlchemy's public name for it


def _value(name: str, value: object) -> JSON:
    if isinstance(value, datetime):
        return times.iso(value)
    if isinstance(value, str) and name in _JSON_COLUMNS:
        return content.parse(value)
    return b64encode(value).decode() if isinstance(value, bytes | memoryview) else value


def _list(connection: Connection, statement: str, filters: Filters) -> list[Told]:
    parameters = {
        "source": filters.source,
        "kind": filters.kind,
        "id": filters.id,
        "state": filters.state,
        "since": filters.since,
        "limit": filters.limit,
    }
    return [_told(row) for row in statements.rows(connection, statement, parameters)]


def _of(connection: Connection, statement: str, identity: str, filters: Filters) -> list[Told]:
    """Return what *statement* tells of every object with this id."""
    chosen = refs(connection, identity, source=filters.source, kind=filters.kind)
    return [_told(row) for ref in chosen for row in statements.rows(connection, statement, refetches.key(ref))]


def _sources(connection: Connection, filters: Filters) -> list[str]:
    if filters.source is not None:
        return [filters.source]
    return [row.source for row in statements.rows(connection, "sources_of_events")]


def _chosen(
    found: Iterable[Told], filters: Filters, *, at: str, states: Callable[[Told], tuple[str, ...]]
) -> list[Told]:
    since = "" if filters.since is None else times.iso(filters.since)
    passing = [told for told in found if told[at] >= since and (filters.state is None or filters.state in states(told))]
    return sorted(passing, key=lambda told: str(told[at]), reverse=True)[: filters.limit]


def _mended(told: Told) -> str:
    return "open" if told["repaired_at"] is None else "repaired"


_ORDER = ("delivery", "duplicate", "hand_edit", "applied", "declined", "tied", "drift", "dead_letter", "held")
"""What comes first where two things happened at one time."""

_OUTCOMES = {
    None: "it is still open",
    "done": "it was done",
    "ahead": "it was settled although the state it told of never showed",
    "ignored": "it names nothing we mirror",
    "skipped": "it was skipped",
    "dead": "it was given up",
}


def _deliveries(event: Told) -> list[Told]:
    outcome = _OUTCOMES.get(event["outcome"], str(event["outcome"]))
    when = f" {_later(event['received_at'], event['processed_at'])}" if event["processed_at"] else ""
    why = f": {event['last_error']}" if event["last_error"] else ""
    named = {"event_id": event["event_id"], "run_id": None}
    first = {
        "at": event["received_at"],
        "what": "delivery",
        "text": f"{event['event_type']} was delivered as {event['event_id']}; {outcome}{when}{why}",
        "event_type": event["event_type"],
        "occurred_at": event["occurred_at"],
        "outcome": event["outcome"],
    }
    if not event["duplicates"]:
        return [first | named]
    again = {
        "at": event["last_repeat_at"],
        "what": "duplicate",
        "text": f"{event['event_id']} had been delivered again {_times(event['duplicates'])} by then",
        "duplicates": event["duplicates"],
    }
    return [first | named, again | named]


def _applied(change: Told) -> list[Told]:
    paths = _paths(change["changed"])
    brought = _brought(change)
    return [
        {
            "at": change["at"],
            "what": "applied",
            "event_id": change["event_id"],
            "run_id": change["run_id"],
            "text": f"our row was {change['what']} by {brought}{f': {paths}' if paths else ''}",
            "change": change["what"],
            "via": change["via"],
            "changed": change["changed"],
            "source_updated_at": change["source_updated_at"],
            "observed_at": change["observed_at"],
        }
    ]


def _declined(write: Told) -> list[Told]:
    stamps = (write["incoming_source_updated_at"] or "none", write["stored_source_updated_at"] or "none")
    positions = f"{write['stored_read_from']}-{write['stored_read_until']}"
    read = (
        "" if write["incoming_read_from"] is None else f"{write['incoming_read_from']}-{write['incoming_read_until']}"
    )
    text = (
        f"a write by {_brought(write)} was {write['verdict']}: {write['because'] or 'it cannot be ordered'} "
        f"(stamps: its {stamps[0]}, ours {stamps[1]}; positions: {f'its {read}, ' if read else ''}ours {positions})"
    )
    about = {key: value for key, value in write.items() if key not in {"source", "scope", "kind", "id", "verdict"}}
    return [about | {"what": write["verdict"], "text": text}]


def _drifted(drift: Told) -> list[Told]:
    by_hand = drift["cause"] == "hand_edit"
    found = "it was edited here" if by_hand else f"{_found_by(drift)} found that it {_WRONG[drift['what']]}"
    why = "" if by_hand else f" ({drift['cause'].replace('_', ' ')})"
    where = _paths([each["path"] for each in drift["diff"]])
    mended = f"; put right at {drift['repaired_at']}" if drift["repaired_at"] else "; not put right"
    return [
        {
            "at": drift["found_at"],
            "what": "hand_edit" if by_hand else "drift",
            "event_id": None,
            "run_id": drift["run_id"],
            "text": f"{found}{why}{f': {where}' if where else ''}{mended}",
            "found": drift["what"],
            "cause": drift["cause"],
            "diff": drift["diff"],
            "repaired_at": drift["repaired_at"],
        }
    ]


def _given_up(refetch: Told) -> list[Told]:
    nothing = {"event_id": None, "run_id": None}
    if refetch["dead_at"] is not None:
        text = f"given up after {_times(refetch['attempts'])}: {refetch['last_error']}"
        return [
            {"at": refetch["dead_at"], "what": "dead_letter", "text": text, "attempts": refetch["attempts"]} | nothing
        ]
    if refetch["held_at"] is not None:
        text = f"its source has it no more, but our row stays until that is allowed: {refetch['last_error']}"
        return [{"at": refetch["held_at"], "what": "held", "text": text} | nothing]
    if refetch["reason"] == "hand_edit" and refetch["wanted"] > refetch["done"]:
        return [
            {"at": refetch["due_at"], "what": "hand_edit", "text": "it was edited here and is to be read"} | nothing
        ]
    return []


_CHAPTERS: tuple[tuple[str, Callable[[Told], list[Told]]], ...] = (
    ("events_of_object", _deliveries),
    ("history_of_object", _applied),
    ("declined_of_object", _declined),
    ("drift_of_object", _drifted),
    ("refetch", _given_up),
)

_WRONG = {
    "missing": "was missing here",
    "differs": "differed here",
    "extra": "was here though the source has it no more",
}


def _brought(told: Told) -> str:
    by = " ".join(
        part
        for part in (
            told["via"].replace("_", " "),
            told["event_id"] or "",
            f"(run {told['run_id']})" if told["run_id"] is not None else "",
        )
        if part
    )
    return f"the {by}"


def _found_by(drift: Told) -> str:
    return "a read" if drift["run_id"] is None else f"run {drift['run_id']}"


def _paths(changed: Sequence[JSON]) -> str:
    shown = ", ".join(str(path) for path in changed[:_SHOWN_PATHS])
    return f"{shown} and {len(changed) - _SHOWN_PATHS} more" if len(changed) > _SHOWN_PATHS else shown


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _later(start: str, end: str) -> str:
    passed = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return f"{max(passed, 0.0):.1f} s later"
