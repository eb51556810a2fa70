-- name: sources
-- What became of every source that was ever served here.
SELECT source, provider, state, since, because, renamed_to FROM sources ORDER BY source;

-- name: serve_sources
-- Note that these sources are served, and that the others are left out, unless a person said something else of them.
WITH served AS (
    INSERT INTO sources AS mine (source, provider, state, since)
    SELECT incoming.source, incoming.provider, 'live', clock_timestamp()
    FROM unnest(%(source)b::text[], %(provider)b::text[]) AS incoming(source, provider)
    ORDER BY incoming.source
    ON CONFLICT (source) DO UPDATE SET
        provider = excluded.provider,
        since    = CASE WHEN mine.state = 'left_out' THEN excluded.since ELSE mine.since END,
        state    = CASE WHEN mine.state = 'left_out' THEN 'live' ELSE mine.state END
    RETURNING mine.source
)
UPDATE sources AS mine SET state = 'left_out', since = clock_timestamp()
WHERE mine.state = 'live' AND mine.source <> ALL(%(source)b::text[]) AND (SELECT count(*) FROM served) >= 0;

-- name: mark_source
-- Say what a person made of a source.
INSERT INTO sources AS mine (source, state, since, because, renamed_to)
VALUES (%(source)s, %(state)s, clock_timestamp(), %(because)s, %(renamed_to)s)
ON CONFLICT (source) DO UPDATE SET
    state      = excluded.state,
    since      = CASE WHEN mine.state = excluded.state THEN mine.since ELSE excluded.since END,
    because    = excluded.because,
    renamed_to = excluded.renamed_to;

-- name: pause_by_hand
-- Leave a source alone until then, over whatever pause it has; one row: since when it is.
INSERT INTO pauses AS mine (source, scope, what, because, since, until)
VALUES (%(source)s, '', 'paused', %(because)s, clock_timestamp(), %(until)s)
ON CONFLICT (source, scope) DO UPDATE SET
    what    = excluded.what,
    because = excluded.because,
    since   = CASE WHEN mine.what = 'paused' AND mine.until > excluded.since THEN mine.since ELSE excluded.since END,
    until   = excluded.until,
    times   = 1
RETURNING mine.since;

-- name: resume_by_hand
-- End a person's pause; returns how many there were.
DELETE FROM pauses WHERE source = %(source)s AND scope = '' AND what = 'paused';

-- name: paused_by_hand
-- The sources that a person left alone, until when and why.
SELECT source, because, since, until FROM pauses
WHERE scope = '' AND what = 'paused' AND until > clock_timestamp()
ORDER BY source;

-- name: at_work
-- How many reads of a source are under way, and how many of its kinds are being swept. One row.
SELECT
    (SELECT count(*) FROM refetches WHERE source = %(source)s AND leased_until > clock_timestamp()) AS reads,
    (SELECT count(*) FROM sweeps WHERE source = %(source)s AND held_until > clock_timestamp()) AS sweeps;

-- name: rows_of_source
-- How many rows of a source each table has.
SELECT name, held FROM rows_of_source(%(source)s);

-- name: rename_source
-- Give every row of a source to another name. One row: how many.
SELECT rename_source(%(source)s, %(renamed_to)s) AS moved;

-- name: erase_source
-- Forget every row of a source. One row: how many.
SELECT erase_source(%(source)s) AS gone;

-- name: follow_rename
-- Give to its new name what was received under the old one. One row: how many rows.
SELECT follow_rename(%(source)s, %(renamed_to)s) AS moved;

-- name: sources_with_rows
-- Every source that has objects, found without reading them.
WITH RECURSIVE known AS (
    (SELECT first.source FROM objects AS first ORDER BY first.source LIMIT 1)
    UNION ALL
    SELECT (
        SELECT later.source
        FROM objects AS later
        WHERE later.source > known.source
        ORDER BY later.source
        LIMIT 1
    )
    FROM known
    WHERE known.source IS NOT NULL
)
SELECT known.source, (SELECT count(*) FROM objects AS mine WHERE mine.source = known.source) AS objects
FROM known
WHERE known.source IS NOT NULL AND known.source <> ALL(%(served)b::text[]);

-- name: refuse_kind
-- Note that a kind may not be read; its refetches wait, each time in a row for twice as long. At most one row: whether
-- that is new; none where they wait already.
INSERT INTO refused_kinds AS mine (source, scope, kind, because, since, until)
SELECT %(source)s, %(scope)s, %(kind)s, %(because)s, clock.now, clock.now + %(first)s::interval
FROM (SELECT clock_timestamp() AS now) AS clock
ON CONFLICT (source, scope, kind) DO UPDATE SET
    because = excluded.because,
    times   = mine.times + 1,
    until   = excluded.since
              + LEAST(%(first)s::interval * power(2, LEAST(mine.times, 10)), %(longest)s::interval)
WHERE mine.until <= excluded.since OR mine.until > excluded.since + %(longest)s::interval
RETURNING mine.times = 1 AS new;

-- name: permit_kind
-- A read or a list that began then was answered: forget that the kind could not be read.
DELETE FROM refused_kinds
WHERE source = %(source)s AND scope = %(scope)s AND kind = %(kind)s
  AND since <= COALESCE(%(began_at)s::timestamptz, clock_timestamp());

-- name: retry_kinds
-- Let what waits for a permission of this source be tried at once.
UPDATE refused_kinds SET until = clock_timestamp() WHERE source = %(source)s AND until > clock_timestamp();

-- name: refused_kinds
-- The kinds that may not be read.
SELECT source, scope, kind, because, since FROM refused_kinds ORDER BY source, kind, scope;

-- name: unexcused_kinds
-- Of the kinds of a source that this run left incomplete: how many there are, and how many of them for a reason that is
-- no state with an alarm of its own. One row.
SELECT count(*) AS kinds, count(*) FILTER (
    WHERE NOT EXISTS (
        SELECT FROM pauses
        WHERE pauses.source = %(source)s AND pauses.scope IN ('', told.scope) AND pauses.what <> 'unavailable'
          AND (pauses.what <> 'paused' OR pauses.until > clock_timestamp())
    ) AND NOT EXISTS (
        SELECT FROM refused_kinds AS refused
        WHERE refused.source = %(source)s AND refused.kind = told.kind AND refused.scope IN ('', told.scope)
    ) AND NOT EXISTS (
        SELECT FROM refetches AS mine
        WHERE (mine.source, mine.kind, mine.scope) = (%(source)s, told.kind, told.scope) AND mine.held_at IS NOT NULL
    )
) AS unexcused
FROM runs
CROSS JOIN LATERAL jsonb_to_recordset(COALESCE(runs.tallies -> 'kinds', '[]'))
    AS told(source text, scope text, kind text, state text)
WHERE runs.id = %(run_id)s AND told.source = %(source)s AND told.state IN ('incomplete', 'failed');
