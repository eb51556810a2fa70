-- name: forgotten_among
-- The places, in this list, of the objects that are forgotten, and 0 if anything ever was; nothing else is forgotten
-- until this transaction ends.
SELECT place FROM forgotten_among(
    %(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(by_link)s::boolean
);

-- name: mentioned_among
-- The places of the texts that mention something forgotten.
SELECT DISTINCT asked.place
FROM unnest(%(place)b::int[], %(source)b::text[], %(told)b::text[]) AS asked(place, source, told)
JOIN forgotten AS mine ON (mine.name, mine.mention) = (asked.source, marker_of(asked.told));

-- name: sources_forgetting
-- The sources of which something was forgotten.
SELECT DISTINCT name FROM forgotten;

-- name: linked_objects
-- The objects of one kind whose body holds, at one of these paths, one of these ids, or a path that ends with it.
SELECT mine.id
FROM objects AS mine
WHERE (mine.source, mine.scope, mine.kind) = (%(source)s, %(scope)s, %(kind)s)
  AND regexp_replace(mine.body #>> %(path)b::text[], '^.*/|[?].*$', '', 'g') = ANY(%(ids)b::text[])
ORDER BY mine.id;

-- name: saying_events
-- The events of a source that came since a time and whose payload this pattern matches.
SELECT event_id
FROM webhook_events
WHERE source = %(source)s
  AND received_at >= %(since)s
  AND payload <> '{}'
  AND payload::text ~ %(pattern)s
ORDER BY event_id;

-- name: lock_forgetting
-- Wait until nobody writes who might write what is to be forgotten, and let nobody begin.
SELECT set_config('lock_timeout', '5s', true), pg_advisory_xact_lock(hashtextextended('reconciler.forget', 0));

-- name: give_way
-- From now on wait no longer than a moment for anybody's row: its holder may be waiting for us.
SELECT set_config('lock_timeout', '200ms', true);

-- name: forget_objects
-- Erase every copy of these objects. How many rows of each table.
SELECT name, gone FROM forget_objects(
    %(source)s, %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(event_ids)b::text[], %(now)s::timestamptz
);

-- name: mark_forgotten
-- Leave a marker for each of these objects. Every marker, in order, and since when it stands.
INSERT INTO forgotten AS mine (name, marker, mention, kind, related, at)
SELECT %(source)s, marker_of(asked.scope, asked.kind, asked.id), CASE WHEN length(asked.id) >= 6 THEN marker_of(asked.id) END,
       asked.kind, asked.related, %(now)s::timestamptz
FROM unnest(%(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(related)b::boolean[])
    AS asked(scope, kind, id, related)
ON CONFLICT (name, marker) DO UPDATE SET related = mine.related OR excluded.related
RETURNING mine.marker, mine.at;

-- name: prove
-- The keyed hash of a text; null before anything was forgotten. One row.
SELECT marker_of('receipt', %(told)s::text) AS proof;

-- name: standing_markers
-- How many of these markers stand. One row.
SELECT count(*) AS standing FROM forgotten WHERE name = %(source)s AND marker = ANY(%(markers)b::text[]);

-- name: ask_erasures
-- Note what these events ask us to forget.
INSERT INTO erasures (source, event_id, whole, objects, asked_at, due_at)
SELECT asked.source, asked.event_id, asked.whole, asked.objects::jsonb, asked.at, asked.at
FROM unnest(%(source)b::text[], %(event_id)b::text[], %(whole)b::boolean[], %(objects)b::text[], %(at)b::timestamptz[])
    AS asked(source, event_id, whole, objects, at)
ON CONFLICT DO NOTHING;

-- name: due_erasures
-- What these sources are asked to forget and it is time to, the oldest first.
SELECT source, event_id, whole, objects::text AS objects
FROM erasures
WHERE source = ANY(%(sources)b::text[]) AND due_at <= COALESCE(%(now)s::timestamptz, clock_timestamp())
ORDER BY asked_at, source, event_id;

-- name: end_erasure
-- Note that what an event asked for is done, or why it is not going to be.
WITH ended AS (
    DELETE FROM erasures WHERE (source, event_id) = (%(source)s, %(event_id)s) RETURNING source, event_id
)
UPDATE webhook_events AS mine SET outcome = %(outcome)s, processed_at = clock_timestamp(), last_error = %(because)s
FROM ended
WHERE (mine.source, mine.event_id) = (ended.source, ended.event_id);

-- name: postpone_erasure
-- Try again in a while what could not be forgotten now.
UPDATE erasures SET due_at = clock_timestamp() + interval '5 minutes', last_error = %(because)s
WHERE (source, event_id) = (%(source)s, %(event_id)s);
