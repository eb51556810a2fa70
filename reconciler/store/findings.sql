-- name: find
-- Keep what was found, from its first sighting on; returns whether it is to be said now: it is new, it is another
-- sentence, or it was not said for a day. Always one row.
INSERT INTO findings AS mine (source, what, about, because, since, seen_at, said_at)
SELECT %(source)s, %(what)s, %(about)s, %(because)s, clock.now, clock.now, clock.now
FROM (SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (source, what, about) DO UPDATE SET
    because = excluded.because,
    seen_at = excluded.seen_at,
    said_at = CASE
        WHEN mine.because <> excluded.because OR mine.said_at <= excluded.said_at - interval '1 day' THEN excluded.said_at
        ELSE mine.said_at
    END
RETURNING mine.said_at = mine.seen_at AS say;

-- name: lose
-- Drop what stands no more: findings of this sort about anything else than these.
DELETE FROM findings
WHERE source = %(source)s
  AND what = %(what)s
  AND about <> ALL(%(about)b::text[]);

-- name: expire_findings
-- Drop findings of this sort, about one thing or any, that nobody has seen since a time.
DELETE FROM findings
WHERE source = %(source)s
  AND what = %(what)s
  AND (%(about)s::text IS NULL OR about = %(about)s)
  AND seen_at < %(before)s;

-- name: findings_about
-- What the findings of this sort are about.
SELECT about FROM findings WHERE source = %(source)s AND what = %(what)s;

-- name: standing_findings
-- Every finding that stands, the oldest of each sort and source first.
SELECT source, what, about, because, since
FROM findings
ORDER BY source, what, since, about;

-- name: silence
-- What sweeps of a source found lately that no notification had told of (dry runs left out), when its last event came,
-- and the longest it was ever silent between its latest events before that. Always one row.
WITH clock AS (
    SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now
), latest AS MATERIALIZED (
    SELECT received_at
    FROM webhook_events
    WHERE source = %(source)s
    ORDER BY received_at DESC
    LIMIT 1000
), missed AS MATERIALIZED (
    SELECT mine.found_at
    FROM drift AS mine
    LEFT JOIN runs ON runs.id = mine.run_id
    WHERE mine.source = %(source)s
      AND mine.cause IN ('missed_notification', 'missed_deletion')
      AND mine.found_at > GREATEST((SELECT max(received_at) FROM latest), (SELECT now FROM clock) - %(span)s::interval)
      AND NOT COALESCE(runs.dry_run, false)
    LIMIT 1000
)
SELECT (SELECT now FROM clock) AS now,
       (SELECT count(*) FROM missed) AS missed,
       (SELECT min(found_at) FROM missed) AS since,
       (SELECT max(received_at) FROM latest) AS last_at,
       (SELECT count(*) FROM latest) AS events,
       (SELECT max(gap.length)
        FROM (SELECT received_at - lag(received_at) OVER (ORDER BY received_at) AS length FROM latest) AS gap) AS usual;

-- name: latest_payloads
-- The payloads of a source's newest events within a span.
SELECT payload::text AS payload
FROM webhook_events
WHERE source = %(source)s
  AND received_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - %(span)s::interval
ORDER BY received_at DESC
LIMIT %(limit)s;
