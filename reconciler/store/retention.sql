-- name: prune_events
-- Drop, of the next events of a source in the order in which they were received, those that are settled and that nobody
-- has sent, or worked on, since a time; with what they name. Open ones and dead letters stay, and so does what somebody
-- is at. At most one row: how many went, how many were looked at, and the last of those.
WITH oldest AS MATERIALIZED (
    SELECT mine.source, mine.event_id, mine.received_at
    FROM webhook_events AS mine
    WHERE mine.source = %(source)s
      AND (mine.received_at, mine.event_id) > (%(received_at)s::timestamptz, %(event_id)s::text)
      AND mine.received_at < %(before)s
    ORDER BY mine.received_at, mine.event_id
    LIMIT %(limit)s
), settled AS MATERIALIZED (
    SELECT mine.source, mine.event_id
    FROM oldest
    JOIN webhook_events AS mine ON (mine.source, mine.event_id) = (oldest.source, oldest.event_id)
    WHERE mine.outcome IN ('done', 'ahead', 'ignored', 'skipped')
      AND GREATEST(mine.received_at, mine.last_repeat_at, mine.processed_at) < %(before)s
    FOR UPDATE OF mine SKIP LOCKED
), named AS (
    DELETE FROM event_objects AS named
    USING settled
    WHERE (named.source, named.event_id) = (settled.source, settled.event_id)
), gone AS (
    DELETE FROM webhook_events AS mine
    USING settled
    WHERE (mine.source, mine.event_id) = (settled.source, settled.event_id)
    RETURNING mine.event_id
)
SELECT (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM oldest) AS looked_at, last.received_at, last.event_id
FROM (SELECT received_at, event_id FROM oldest ORDER BY received_at DESC, event_id DESC LIMIT 1) AS last;

-- name: prune_history
-- Drop, of the next applied snapshots in the order in which they were put on record, those from before a time. One row:
-- how many went, how many were looked at, and the last of those.
WITH oldest AS MATERIALIZED (
    SELECT seq, at FROM object_history WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s
), gone AS (
    DELETE FROM object_history AS mine
    USING oldest
    WHERE mine.seq = oldest.seq AND mine.at < %(before)s
    RETURNING mine.seq
)
SELECT (SELECT count(*) FROM gone) AS gone, count(*) AS looked_at, max(seq) AS reached, min(at) AS at FROM oldest;

-- name: prune_declined
-- Drop, of the next declined and tied writes, those from before a time. One row, as of `prune_history`.
WITH oldest AS MATERIALIZED (
    SELECT seq, at FROM declined_writes WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s
), gone AS (
    DELETE FROM declined_writes AS mine
    USING oldest
    WHERE mine.seq = oldest.seq AND mine.at < %(before)s
    RETURNING mine.seq
)
SELECT (SELECT count(*) FROM gone) AS gone, count(*) AS looked_at, max(seq) AS reached, min(at) AS at FROM oldest;

-- name: prune_drift
-- Drop, of the next drift, what was found before a time; a run that is at work has yet to say why its own came about.
-- One row, as of `prune_history`.
WITH oldest AS MATERIALIZED (
    SELECT seq, found_at AS at FROM drift WHERE seq > %(after)s ORDER BY seq LIMIT %(limit)s
), gone AS (
    DELETE FROM drift AS mine
    USING oldest
    WHERE mine.seq = oldest.seq
      AND mine.found_at < %(before)s
      AND NOT EXISTS (SELECT FROM runs WHERE runs.id = mine.run_id AND runs.state = 'running')
    RETURNING mine.seq
)
SELECT (SELECT count(*) FROM gone) AS gone, count(*) AS looked_at, max(seq) AS reached, min(at) AS at FROM oldest;

-- name: prune_runs
-- Drop, of the next runs, those that ended before a time, with what each waited for. One row, as of `prune_history`.
WITH oldest AS MATERIALIZED (
    SELECT id AS seq, started_at AS at FROM runs WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
), gone AS (
    DELETE FROM runs AS mine
    USING oldest
    WHERE mine.id = oldest.seq AND mine.state <> 'running' AND mine.finished_at < %(before)s
    RETURNING mine.id
), waited AS (
    DELETE FROM run_objects AS asked USING gone WHERE asked.run_id = gone.id
)
SELECT (SELECT count(*) FROM gone) AS gone, count(*) AS looked_at, max(seq) AS reached, min(at) AS at FROM oldest;

-- name: growth
-- What each table holds that grows with use, with what belongs to its rows, and how many rows came within a day. Rows
-- are as many as the server last counted.
SELECT grown.name, grown.came,
       GREATEST(class.reltuples::bigint, pg_stat_get_live_tuples(class.oid), grown.came, 0) AS rows,
       pg_total_relation_size(class.oid) + COALESCE(pg_total_relation_size(grown.with_it::regclass), 0) AS bytes
FROM (
    SELECT 'objects' AS name, 'refetches' AS with_it, (
        SELECT count(*) FROM object_history AS mine
        WHERE mine.at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '1 day' AND mine.what = 'created'
    ) AS came
    UNION ALL
    SELECT 'webhook_events', 'event_objects', (
        SELECT count(*) FROM unnest(%(sources)b::text[]) AS asked(source)
        JOIN webhook_events AS mine ON mine.source = asked.source
        WHERE mine.received_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '1 day'
    )
    UNION ALL
    SELECT 'object_history', NULL, (
        SELECT count(*) FROM object_history AS mine
        WHERE mine.at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '1 day' AND mine.what <> 'loaded'
    )
    UNION ALL
    SELECT 'declined_writes', NULL, (
        SELECT count(*) FROM declined_writes AS mine
        WHERE mine.at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '1 day'
    )
    UNION ALL
    SELECT 'drift', NULL, (
        SELECT count(*) FROM drift AS mine
        WHERE mine.found_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '1 day'
    )
    UNION ALL
    SELECT 'runs', 'run_objects', (
        SELECT count(*) FROM runs AS mine
        WHERE mine.started_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '1 day'
    )
) AS grown
JOIN pg_class AS class ON class.oid = grown.name::regclass
ORDER BY array_position(
    ARRAY['objects', 'webhook_events', 'object_history', 'declined_writes', 'drift', 'runs'], grown.name
);
