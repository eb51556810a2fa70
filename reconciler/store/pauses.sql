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
