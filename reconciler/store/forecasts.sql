-- name: keep_forecast
-- Keep what loading a kind would come to, over what was forecast of it before.
INSERT INTO forecasts AS mine (source, kind, at, objects, exact, calls, hours, gigabytes)
SELECT
    %(source)s, %(kind)s, COALESCE(%(now)s::timestamptz, clock_timestamp()),
    %(objects)s, %(exact)s, %(calls)s, %(hours)s, %(gigabytes)s
ON CONFLICT (source, kind) DO UPDATE SET
    at        = excluded.at,
    objects   = excluded.objects,
    exact     = excluded.exact,
    calls     = excluded.calls,
    hours     = excluded.hours,
    gigabytes = excluded.gigabytes;

-- name: forecasts_before
-- What was forecast before a time, and not so long before it that nobody means it any more.
SELECT source, kind, at, objects, exact, calls
FROM forecasts
WHERE at <= %(before)s
  AND at > %(before)s - interval '30 days'
ORDER BY source, kind;
