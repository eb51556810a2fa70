-- name: open_buckets
-- Create buckets that are not there yet, full.
INSERT INTO budgets (source, name, tokens, reserve, at)
SELECT %(source)s, asked.name, asked.burst, asked.spare, COALESCE(%(now)s::timestamptz, clock_timestamp())
FROM unnest(%(name)b::text[], %(burst)b::float8[], %(spare)b::float8[]) AS asked(name, burst, spare)
ORDER BY asked.name
ON CONFLICT (source, name) DO NOTHING;

-- name: turn_buckets
-- Bring these buckets of one source up to now, then take (spent 1), return (-1) or only hold (0): all of them or none.
-- Always one row: how many buckets there are, and the seconds until one call may be taken from each (0: it was).
-- A bucket holds at most burst tokens. Of those, reserve (at most spare) are for sweeps alone; a sweep takes others only
-- while ample are left for live work. The clock is read under the rows' locks; one that went back adds no tokens, and
-- leaves of a hold what it had left. A call that is taken is counted under each of the counted names, for its day (UTC).
-- What a crash of the server may lose is a few calls, so nothing waits for the disk.
WITH locked AS MATERIALIZED (
    SELECT mine.name, mine.tokens, mine.reserve, mine.at, mine.held_until, asked.rate, asked.burst, asked.spare
    FROM budgets AS mine
    JOIN unnest(%(name)b::text[], %(rate)b::float8[], %(burst)b::float8[], %(spare)b::float8[])
        AS asked(name, rate, burst, spare) ON asked.name = mine.name
    WHERE mine.source = %(source)s
    ORDER BY mine.name
    FOR UPDATE OF mine
),
clocked AS MATERIALIZED (
    SELECT locked.*, COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now FROM locked
),
aged AS MATERIALIZED (
    SELECT clocked.*, rate * GREATEST(0, EXTRACT(epoch FROM now - at)::float8) AS gained,
           EXTRACT(epoch FROM LEAST(held_until - now, held_until - at))::float8 AS held
    FROM clocked
),
summed AS MATERIALIZED (
    SELECT name, now, rate, burst - spare AS room, burst, spare, LEAST(burst, tokens + gained) AS tokens,
           reserve + gained * %(share)s::float8 AS trickled,
           CASE WHEN held > 0 AND held <= %(longest)s::float8 THEN held ELSE 0 END AS held
    FROM aged
),
filled AS MATERIALIZED (
    SELECT summed.*, LEAST(spare, GREATEST(trickled, tokens - room)) AS reserve,
           CASE WHEN %(sweep)s THEN LEAST(room, room / 2 + 1) ELSE 1 END AS ample
    FROM summed
),
missing AS MATERIALIZED (
    SELECT filled.*, ample - (tokens - reserve) AS lack FROM filled
),
waits AS MATERIALIZED (
    SELECT missing.*, LEAST(
        lack / (rate * (1 - %(share)s::float8)),
        (lack + spare - reserve) / rate,
        CASE WHEN %(sweep)s THEN (1 - reserve) / (rate * %(share)s::float8) END
    ) AS wait
    FROM missing
),
verdict AS MATERIALIZED (
    SELECT count(*) AS found,
           COALESCE(max(GREATEST(held, CASE WHEN wait * rate > 1e-9 THEN wait ELSE 0 END)), 0) AS wait
    FROM waits
),
turned AS (
    UPDATE budgets AS mine SET
        tokens     = LEAST(waits.burst, waits.tokens - changed.tokens),
        reserve    = LEAST(waits.spare, waits.reserve - changed.reserve),
        at         = waits.now,
        held_until = CASE WHEN GREATEST(waits.held, %(hold)s::float8) > 0
                          THEN waits.now + make_interval(secs => GREATEST(waits.held, %(hold)s::float8)) END
    FROM waits
    CROSS JOIN verdict
    CROSS JOIN LATERAL (
        SELECT CASE WHEN verdict.found = cardinality(%(name)b::text[]) AND (verdict.wait = 0 OR %(spent)s <= 0)
                    THEN %(spent)s::float8 ELSE 0 END AS tokens
    ) AS paid
    CROSS JOIN LATERAL (
        SELECT paid.tokens, CASE WHEN %(sweep)s AND (paid.tokens < 0 OR waits.lack > 1e-9)
                                 THEN paid.tokens ELSE 0 END AS reserve
    ) AS changed
    WHERE mine.source = %(source)s AND mine.name = waits.name
),
counted AS (
    INSERT INTO counted_calls AS mine (source, name, day, calls)
    SELECT %(source)s, given.name, (COALESCE(%(now)s::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date, %(spent)s
    FROM verdict
    CROSS JOIN unnest(%(counted)b::text[]) AS given(name)
    WHERE verdict.found = cardinality(%(name)b::text[]) AND (verdict.wait = 0 OR %(spent)s < 0)
    ORDER BY given.name
    ON CONFLICT (source, name, day) DO UPDATE SET calls = mine.calls + excluded.calls
)
SELECT verdict.found, verdict.wait, set_config('synchronous_commit', 'off', true) FROM verdict;

-- name: standing_buckets
-- Every bucket: its tokens, the seconds since, and the seconds it is still held.
SELECT source, name, tokens,
       GREATEST(0, EXTRACT(epoch FROM COALESCE(%(now)s::timestamptz, clock_timestamp()) - at)::float8) AS elapsed,
       COALESCE(EXTRACT(epoch FROM LEAST(
           held_until - COALESCE(%(now)s::timestamptz, clock_timestamp()), held_until - at
       ))::float8, 0) AS held
FROM budgets
ORDER BY source, name;

-- name: standing_allotments
-- What was counted of each name within so many days, and how much of it is allowed as far as that was last found out.
SELECT given.source, given.name, COALESCE(sum(mine.calls), 0)::bigint AS calls, max(allowed.calls) AS allowed
FROM unnest(%(source)b::text[], %(name)b::text[], %(days)b::int[]) AS given(source, name, days)
LEFT JOIN counted_calls AS mine
    ON (mine.source, mine.name) = (given.source, given.name)
   AND mine.day > (COALESCE(%(now)s::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date - given.days
LEFT JOIN allotments AS allowed ON (allowed.source, allowed.name) = (given.source, given.name)
GROUP BY given.source, given.name;

-- name: count_since
-- How many living objects of a kind hold this, and were made within so many days by their own word (seconds since 1970).
SELECT count(*) AS objects
FROM objects AS mine
WHERE mine.source = %(source)s AND mine.kind = %(kind)s AND mine.deleted_at IS NULL
  AND mine.body @> %(holding)s::jsonb
  AND mine.body -> %(created)s::text > to_jsonb(
      floor(EXTRACT(epoch FROM COALESCE(%(now)s::timestamptz, clock_timestamp()) - make_interval(days => %(days)s)))
  );

-- name: allot
-- Note how many calls of a name are allowed, and forget what was counted longer ago than that looks back.
WITH forgotten AS (
    DELETE FROM counted_calls
    WHERE source = %(source)s AND name = %(name)s
      AND day <= (COALESCE(%(now)s::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date - %(days)s - 1
)
INSERT INTO allotments AS mine (source, name, calls, at)
VALUES (%(source)s, %(name)s, %(calls)s, COALESCE(%(now)s::timestamptz, clock_timestamp()))
ON CONFLICT (source, name) DO UPDATE SET calls = excluded.calls, at = excluded.at;
