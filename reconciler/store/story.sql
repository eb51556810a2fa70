-- name: list_events
-- The newest events of each source, or of one; 'open' is the state of those that have no outcome.
WITH RECURSIVE known AS (
    (SELECT first.source FROM webhook_events AS first ORDER BY first.source LIMIT 1)
    UNION ALL
    SELECT (
        SELECT later.source
        FROM webhook_events AS later
        WHERE later.source > known.source
        ORDER BY later.source
        LIMIT 1
    )
    FROM known
    WHERE known.source IS NOT NULL
)
SELECT newest.source, newest.event_id, newest.event_type, newest.payload::text AS payload,
       newest.headers::text AS headers, newest.raw, newest.occurred_at, newest.received_at, newest.processed_at,
       newest.outcome, newest.duplicates, newest.last_repeat_at, newest.last_error
FROM known
CROSS JOIN LATERAL (
    SELECT *
    FROM webhook_events AS mine
    WHERE mine.source = known.source
      AND (%(state)s::text IS NULL OR COALESCE(mine.outcome, 'open') = %(state)s)
      AND (%(since)s::timestamptz IS NULL OR mine.received_at >= %(since)s)
      AND (%(kind)s::text IS NULL OR EXISTS (
          SELECT
          FROM event_objects AS named
          WHERE (named.source, named.event_id) = (mine.source, mine.event_id) AND named.kind = %(kind)s
      ))
    ORDER BY mine.received_at DESC
    LIMIT %(limit)s
) AS newest
WHERE %(source)s::text IS NULL OR known.source = %(source)s
ORDER BY newest.received_at DESC, newest.source, newest.event_id
LIMIT %(limit)s;

-- name: list_declined
-- The newest declined and tied writes.
SELECT seq, source, scope, kind, id, verdict, incoming_source_updated_at, stored_source_updated_at,
       incoming_read_from, incoming_read_until, stored_read_from, stored_read_until, via, event_id, run_id, because, at
FROM declined_writes
WHERE (%(source)s::text IS NULL OR source = %(source)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(state)s::text IS NULL OR verdict = %(state)s)
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)
ORDER BY at DESC, seq DESC
LIMIT %(limit)s;

-- name: list_drift
-- The newest drift; the state is what was found, why, or whether it is repaired.
SELECT seq, run_id, found_at, source, scope, kind, id, what, cause, diff::text AS diff, repaired_at
FROM drift
WHERE (%(source)s::text IS NULL OR source = %(source)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(state)s::text IS NULL OR %(state)s IN (what, cause, CASE WHEN repaired_at IS NULL THEN 'open' ELSE 'repaired' END))
  AND (%(since)s::timestamptz IS NULL OR found_at >= %(since)s)
ORDER BY found_at DESC, seq DESC
LIMIT %(limit)s;

-- name: list_runs
-- The newest runs, or those that swept this source or kind.
SELECT id, trigger, since, until, started_at, finished_at, state, dry_run, tallies::text AS tallies, because
FROM runs
WHERE (%(id)s::text IS NULL OR id::text = %(id)s)
  AND (%(state)s::text IS NULL OR state = %(state)s)
  AND (%(since)s::timestamptz IS NULL OR started_at >= %(since)s)
  AND (COALESCE(%(source)s::text, %(kind)s::text) IS NULL OR EXISTS (
      SELECT
      FROM jsonb_to_recordset(COALESCE(tallies -> 'kinds', '[]')) AS swept(source text, kind text)
      WHERE (%(source)s::text IS NULL OR swept.source = %(source)s)
        AND (%(kind)s::text IS NULL OR swept.kind = %(kind)s)
  ))
ORDER BY started_at DESC, id DESC
LIMIT %(limit)s;

-- name: one_run
-- One run as it stands. At most one row.
SELECT id, trigger, since, until, started_at, finished_at, state, dry_run, tallies::text AS tallies, because
FROM runs
WHERE id = %(run_id)s;

-- name: drift_of_run
-- What a run found, in the order in which it did.
SELECT seq, run_id, found_at, source, scope, kind, id, what, cause, diff::text AS diff, repaired_at
FROM drift
WHERE run_id = %(run_id)s
ORDER BY seq;

-- name: refs_of_id
-- Every object we know by this id: those that have a row, and those that were only ever wanted.
SELECT source, scope, kind, id
FROM objects
WHERE id = %(id)s
  AND (%(source)s::text IS NULL OR source = %(source)s)
  AND (%(scope)s::text IS NULL OR scope = %(scope)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
UNION
SELECT source, scope, kind, id
FROM refetches
WHERE id = %(id)s
  AND (%(source)s::text IS NULL OR source = %(source)s)
  AND (%(scope)s::text IS NULL OR scope = %(scope)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
ORDER BY source, scope, kind;

-- name: row_of_object
-- Our row of one object. At most one row.
SELECT source, scope, kind, id, source_updated_at, observed_at, applied_at, read_from, read_until, digest, shape,
       body::text AS body, deleted_at
FROM objects
WHERE (source, scope, kind, id) = (%(source)s, %(scope)s, %(kind)s, %(id)s);

-- name: events_of_object
-- Every event that names one object.
SELECT mine.source, mine.event_id, mine.event_type, mine.payload::text AS payload, mine.headers::text AS headers,
       mine.raw, mine.occurred_at, mine.received_at, mine.processed_at, mine.outcome, mine.duplicates,
       mine.last_repeat_at, mine.last_error
FROM event_objects AS named
JOIN webhook_events AS mine ON (mine.source, mine.event_id) = (named.source, named.event_id)
WHERE (named.source, named.scope, named.kind, named.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
ORDER BY mine.received_at DESC, mine.event_id;

-- name: sources_of_events
-- Every source that ever had an event, found without reading the events.
WITH RECURSIVE known AS (
    (SELECT first.source FROM webhook_events AS first ORDER BY first.source LIMIT 1)
    UNION ALL
    SELECT (
        SELECT later.source
        FROM webhook_events AS later
        WHERE later.source > known.source
        ORDER BY later.source
        LIMIT 1
    )
    FROM known
    WHERE known.source IS NOT NULL
)
SELECT source FROM known WHERE source IS NOT NULL;

-- name: events_of_id
-- The events of this very id, at any source.
SELECT source, event_id, event_type, payload::text AS payload, headers::text AS headers, raw, occurred_at, received_at,
       processed_at, outcome, duplicates, last_repeat_at, last_error
FROM webhook_events
WHERE source = ANY(%(source)b::text[]) AND event_id = %(event_id)s
ORDER BY received_at DESC;

-- name: history_of_object
-- Every snapshot that changed one object's row.
SELECT seq, source, scope, kind, id, what, source_updated_at, observed_at, changed::text AS changed, via, event_id,
       run_id, at
FROM object_history
WHERE (source, scope, kind, id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
ORDER BY seq DESC;

-- name: declined_of_object
-- Every declined and tied write of one object.
SELECT seq, source, scope, kind, id, verdict, incoming_source_updated_at, stored_source_updated_at,
       incoming_read_from, incoming_read_until, stored_read_from, stored_read_until, via, event_id, run_id, because, at
FROM declined_writes
WHERE (source, scope, kind, id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
ORDER BY at DESC, seq DESC;

-- name: drift_of_object
-- All drift of one object.
SELECT seq, run_id, found_at, source, scope, kind, id, what, cause, diff::text AS diff, repaired_at
FROM drift
WHERE (source, scope, kind, id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
ORDER BY found_at DESC, seq DESC;

-- name: dead_refs
-- The dead letters, or those of one source or kind, that died since a time, the oldest first.
SELECT source, scope, kind, id
FROM refetches
WHERE dead_at IS NOT NULL
  AND (%(source)s::text IS NULL OR source = %(source)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(since)s::timestamptz IS NULL OR dead_at >= %(since)s)
ORDER BY dead_at, source, scope, kind, id
LIMIT %(limit)s::bigint;

-- name: freshness_of_sources
-- How long done events took from received to read, in seconds: the median and the 99th percentile of the newest ten
-- thousand within this span, for each source that has any.
SELECT asked.source, recent.seconds[1] AS p50, recent.seconds[2] AS p99
FROM unnest(%(source)b::text[]) AS asked(source)
CROSS JOIN LATERAL (
    SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY newest.seconds) AS seconds
    FROM (
        SELECT EXTRACT(EPOCH FROM mine.processed_at - mine.received_at)::double precision AS seconds
        FROM webhook_events AS mine
        WHERE mine.source = asked.source
          AND mine.received_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - %(span)s::interval
          AND mine.outcome = 'done'
        ORDER BY mine.received_at DESC
        LIMIT 10000
    ) AS newest
) AS recent
WHERE recent.seconds IS NOT NULL;

-- name: queues
-- What waits in each source: how many refetches are open, due and leased, and since when the oldest is due.
SELECT mine.source,
       count(*) FILTER (WHERE mine.wanted > mine.done AND NOT mine.held) AS open,
       count(*) FILTER (WHERE mine.held) AS held,
       count(*) FILTER (WHERE mine.due <= mine.now AND NOT mine.leased) AS due,
       count(*) FILTER (WHERE mine.leased) AS leased,
       min(mine.due) FILTER (WHERE mine.due <= mine.now) AS oldest
FROM (
    SELECT source, wanted, done, held_at IS NOT NULL AS held, COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now,
           LEAST(CASE WHEN wanted > done THEN due_at END, again_at) AS due,
           COALESCE(leased_until > COALESCE(%(now)s::timestamptz, clock_timestamp()), false) AS leased
    FROM refetches
    WHERE dead_at IS NULL AND (wanted > done OR again_at IS NOT NULL)
) AS mine
GROUP BY mine.source;

-- name: open_events
-- Since when the oldest open event of each source waits; those that wait for a person to let an object go do not count.
SELECT mine.source, min(mine.received_at) AS oldest
FROM webhook_events AS mine
WHERE mine.outcome IS NULL
  AND NOT EXISTS (
      SELECT
      FROM event_objects AS named
      JOIN refetches AS asked
          ON (asked.source, asked.scope, asked.kind, asked.id) = (named.source, named.scope, named.kind, named.id)
      WHERE (named.source, named.event_id) = (mine.source, mine.event_id) AND asked.held_at IS NOT NULL
  )
GROUP BY mine.source;

-- name: dead_letters
-- How many dead letters each source has, and since when the oldest is one.
SELECT source, count(*) AS dead, min(dead_at) AS since FROM refetches WHERE dead_at IS NOT NULL GROUP BY source;

-- name: swept_kinds
-- Up to when each kind of each source is swept in all its scopes.
SELECT source, kind, min(swept_until) AS swept_until FROM watermarks GROUP BY source, kind;

-- name: standing_pauses
-- Every pause that stands now; who was lost is so until it answers again, asked or not.
SELECT source, scope, what, because, since, until
FROM pauses
WHERE until > COALESCE(%(now)s::timestamptz, clock_timestamp()) OR what IN ('access_lost', 'suspended', 'uninstalled')
ORDER BY source, scope;

-- name: last_runs
-- The newest run of each of these sources that has these triggers; dry ones do not count.
SELECT asked.source, newest.id, newest.trigger, newest.state, newest.started_at, newest.finished_at
FROM unnest(%(source)b::text[]) AS asked(source)
CROSS JOIN LATERAL (
    SELECT mine.id, mine.trigger, mine.state, mine.started_at, mine.finished_at
    FROM runs AS mine
    WHERE NOT mine.dry_run
      AND mine.trigger = ANY(%(trigger)b::text[])
      AND mine.tallies @> jsonb_build_object('kinds', jsonb_build_array(jsonb_build_object('source', asked.source)))
    ORDER BY mine.started_at DESC
    LIMIT 1
) AS newest;
