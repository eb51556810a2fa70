-- name: pause
-- Leave a scope (all, if empty) of a source alone for a while: longer each time it follows on another pause.
-- At most one row: until when; none where it is left alone for the same reason already, or by a person.
INSERT INTO pauses AS mine (source, scope, what, because, since, until)
SELECT %(source)s, %(scope)s, %(what)s, %(because)s, clock.now, clock.now + %(first)s::interval
FROM (SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (source, scope) DO UPDATE SET
    what    = excluded.what,
    because = excluded.because,
    since   = CASE WHEN mine.what = 'paused' THEN excluded.since ELSE mine.since END,
    times   = CASE WHEN mine.what = 'paused' THEN 1 ELSE mine.times + 1 END,
    until   = CASE WHEN mine.what = 'paused' THEN excluded.until
                   ELSE excluded.since
                        + LEAST(%(first)s::interval * power(2, LEAST(mine.times, 10)), %(longest)s::interval) END
WHERE mine.until <= excluded.since OR mine.what NOT IN (excluded.what, 'paused')
RETURNING mine.until;

-- name: unpause
-- A read that began then was answered: forget the source's pause and the scope's, unless they began later or are a
-- person's that still lasts.
DELETE FROM pauses
WHERE source = %(source)s AND scope IN ('', %(scope)s) AND since <= %(began_at)s::timestamptz
  AND (what <> 'paused' OR until <= clock_timestamp());

-- name: unfreeze_pauses
-- End pauses that no rule could have set: a clock stood far ahead when they were written.
UPDATE pauses SET until = COALESCE(%(now)s::timestamptz, clock_timestamp())
WHERE what <> 'paused' AND until > COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(longest)s::interval;

-- name: paused
-- Every pause that stands or has just ended.
SELECT source, scope, what, because, since, until FROM pauses ORDER BY source, scope;

-- name: want_looks
-- Want a look at our access to these sources and scopes; a later word replaces an earlier one.
INSERT INTO access_looks AS mine (source, scope, what, wanted, due_at)
SELECT incoming.source, incoming.scope, incoming.what, nextval('positions'), clock_timestamp()
FROM unnest(%(source)b::text[], %(scope)b::text[], %(what)b::text[]) AS incoming(source, scope, what)
ORDER BY incoming.source, incoming.scope
ON CONFLICT (source, scope) DO UPDATE SET
    what   = excluded.what,
    wanted = excluded.wanted,
    due_at = excluded.due_at;

-- name: lease_look
-- Take the look that has been due longest at one of these sources, unless a person paused it; nobody else takes it for a
-- minute, after which it is due again. At most one row.
WITH due AS MATERIALIZED (
    SELECT mine.source, mine.scope
    FROM access_looks AS mine
    WHERE mine.source = ANY(%(sources)b::text[])
      AND (mine.due_at <= clock_timestamp() OR mine.due_at > clock_timestamp() + interval '1 hour')
      AND NOT EXISTS (
          SELECT FROM pauses
          WHERE pauses.source = mine.source AND pauses.scope = '' AND pauses.what = 'paused'
            AND pauses.until > clock_timestamp()
      )
    ORDER BY mine.due_at
    LIMIT 1
    FOR UPDATE OF mine SKIP LOCKED
)
UPDATE access_looks AS mine SET due_at = clock_timestamp() + interval '1 minute'
FROM due
WHERE (mine.source, mine.scope) = (due.source, due.scope)
RETURNING mine.source, mine.scope, mine.what, mine.wanted, clock_timestamp() AS began_at;

-- name: settle_look
-- Forget a look that was taken, unless another was wanted since.
DELETE FROM access_looks WHERE source = %(source)s AND scope = %(scope)s AND wanted = %(wanted)s;
