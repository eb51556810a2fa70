"""
Whether the laws held in a round, found out without a line of the program's own code.

What it goes by: every body that a row ever had, noted by a trigger of our own; the version that each stand-in writes
into its bodies; the stand-ins' own records of calls and deliveries; the logs; and the tables that people rely on.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Ref: TypeAlias = tuple[str, str, str, str]
"""The source, scope, kind and id of an object."""

WATCH = """\
CREATE SCHEMA chaos;
CREATE TABLE chaos.watched (
    seq bigserial PRIMARY KEY, source text, scope text, kind text, id text, by_hand bool, body jsonb, deleted bool
);
CREATE FUNCTION chaos.watch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    by_hand bool := COALESCE(current_setting('reconciler.guard', true), '') <> 'on';
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO chaos.watched (source, scope, kind, id, by_hand, body, deleted)
        VALUES (OLD.source, OLD.scope, OLD.kind, OLD.id, by_hand, NULL, NULL);
    ELSIF TG_OP = 'INSERT' OR NEW.body IS DISTINCT FROM OLD.body
            OR (NEW.deleted_at IS NULL) <> (OLD.deleted_at IS NULL) THEN
        INSERT INTO chaos.watched (source, scope, kind, id, by_hand, body, deleted)
        VALUES (NEW.source, NEW.scope, NEW.kind, NEW.id, by_hand, NEW.body, NEW.deleted_at IS NOT NULL);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE OR DELETE ON reconciler.objects
    FOR EACH ROW EXECUTE FUNCTION chaos.watch();
"""

# Where each provider's bodies end with the number of their version.
_MARKED = re.compile(r"(?:^|[ -])v(\d+)$")
_MARKED_FIELDS = ("description", "body", "note", "sku", "name", "title", "tags")
_CALLS_PER_CHANGE = 8
_CALLS_BESIDES = 1500


@dataclass(frozen=True, slots=True)
class Seen:
    """
    What is looked at.

    Attributes:
        providers: Whose each source is.
        deliveries: Each stand-in's record of what it sent, by source.
        calls: Each stand-in's record of what it was asked.
        happened: How many operations were done at each.
        excused: The kinds, by provider, of which nothing tells a stale read from a fresh one, where some were stale.
    """

    url: str
    logs: tuple[Path, ...]
    providers: Mapping[str, str]
    deliveries: Mapping[str, Mapping[str, Any]]
    calls: Mapping[str, Mapping[str, Any]]
    happened: Mapping[str, int]
    excused: frozenset[tuple[str, str]] = frozenset()


def broken(seen: Seen) -> list[str]:
    """Return each law that did not hold, in a sentence."""
    with psycopg.connect(seen.url) as connection:
        return [
            *_without_outcome(seen, connection),
            *_went_back(seen, connection),
            *_off_record(seen, connection),
            *_called_too_often(seen),
        ]


def version(body: Mapping[str, Any]) -> int | None:
    """Return the hidden version of a body; None: it bears none."""
    marked = (body.get("metadata") or {}).get("version") if isinstance(body.get("metadata"), dict) else None
    if marked is not None:
        return int(marked)
    found = set()
    for name in _MARKED_FIELDS:
        told = body.get(name)
        for text in told if isinstance(told, list) else [told]:
            if isinstance(text, str) and (match := _MARKED.search(text)):
                found.add(int(match[1]))
    return found.pop() if len(found) == 1 else None


def _without_outcome(seen: Seen, connection: psycopg.Connection[Any]) -> Iterator[str]:
    """See that every event that was answered 200 has an outcome."""
    rows = connection.execute("SELECT source, event_id, outcome FROM reconciler.webhook_events").fetchall()
    known: defaultdict[str, set[str]] = defaultdict(set)
    for source, event_id, _ in rows:
        known[source].add(event_id)
    for source, told in seen.deliveries.items():
        for event_id in sorted({each["event_id"] for each in told["last"] if each["answer"] == "200"}):
            if event_id not in known[source]:
                yield f"{source}: event {event_id} was answered 200 and is not in the inbox"
    for source, event_id, outcome in rows:
        if outcome is None or outcome == "dead":
            yield f"{source}: event {event_id} is {outcome or 'open'} in the end"


def _went_back(seen: Seen, connection: psycopg.Connection[Any]) -> Iterator[str]:
    """See that no row went back, and that none came back to life by anything older than its death."""
    rows = connection.execute(
        "SELECT source, scope, kind, id, by_hand, body, deleted FROM chaos.watched ORDER BY seq"
    ).fetchall()
    stood: dict[Ref, tuple[int, bool]] = {}
    for source, scope, kind, id_, by_hand, body, deleted in rows:
        ref = (source, scope, kind, id_)
        if by_hand:
            continue
        now = version(body or {})
        before = stood.get(ref)
        if now is None:
            continue
        stood[ref] = (max(now, before[0] if before else 0), deleted)
        if before is None:
            continue
        was, was_deleted = before
        # A death is a version of its own, so that what comes after it is at least two beyond what was before.
        least = was + 2 if was_deleted and not deleted else was
        if now < least and (seen.providers[source], kind) not in seen.excused:
            yield f"{'/'.join(ref)} went from version {was}{' (deleted)' if was_deleted else ''} to {now}"


def _off_record(seen: Seen, connection: psycopg.Connection[Any]) -> Iterator[str]:
    """See that every declined or tied write that was logged stands in the table."""
    told: Counter[tuple[str, int | None, int]] = Counter()
    for log in seen.logs:
        for line in log.read_text(errors="replace").splitlines():
            if '"write.declined"' in line and line.startswith("{"):
                said = json.loads(line)
                told[said["ref"], said["incoming_read_from"], said["stored_read_from"] or 0] += 1
    rows = connection.execute(
        "SELECT source, scope, kind, id, incoming_read_from, stored_read_from FROM reconciler.declined_writes"
    ).fetchall()
    kept = Counter(("/".join(filter(None, row[:4])), row[4], row[5]) for row in rows)
    for (ref, _, _), count in (told - kept).items():
        yield f"{ref}: {count} more in the log than in declined_writes"


def _called_too_often(seen: Seen) -> Iterator[str]:
    """See that calls grow with what happened, not with time."""
    for source, told in seen.calls.items():
        most = _CALLS_PER_CHANGE * seen.happened[source] + _CALLS_BESIDES
        if told["total"] > most:
            yield f"{source}: {told['total']} calls for {seen.happened[source]} operations, and at most {most} are due"
