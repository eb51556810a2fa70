-- name: pause
-- Leave a scope (all, if empty) of a source alone for a while: longer each time it follows on another pause.
INSERT INTO pauses AS mine (source, scope, what, because, since, until)
VALUES (%(source)s, %(scope)s, %(what)s, %(because)s, clock_timestamp(), clock_timestamp() + %(first)s::interval)
ON CONFLICT (source, scope) DO UPDATE SET
    what    = excluded.what,
    because = excluded.because,
    times   = CASE WHEN mine.until > clock_timestamp() THEN mine.times ELSE mine.times + 1 END,
    until   = CASE WHEN mine.until > clock_timestamp() THEN mine.until
                   ELSE clock_timestamp() + LEAST(%(first)s::interval * power(2, LEAST(mine.times, 10)), %(longest)s::interval) END
RETURNING mine.until, mine.times;

-- name: unpause
-- The source answers again: forget its pause, and the scope's.
DELETE FROM pauses WHERE source = %(source)s AND scope IN ('', %(scope)s);

-- name: paused
-- Every pause that stands or has just ended.
SELECT source, scope, what, because, since, until FROM pauses;
