-- name: asked_again
-- Of these events, those that arrived here after all, and how often and when each other one was asked for again.
SELECT asked.event_id, arrived.event_id IS NOT NULL AS arrived, COALESCE(mine.times, 0) AS times, mine.last_at
FROM unnest(%(event_id)b::text[]) AS asked(event_id)
LEFT JOIN webhook_events AS arrived ON (arrived.source, arrived.event_id) = (%(source)s, asked.event_id)
LEFT JOIN redeliveries AS mine ON (mine.source, mine.event_id) = (%(source)s, asked.event_id);

-- name: ask_again
-- Remember that these events were asked for once more.
INSERT INTO redeliveries AS mine (source, event_id, last_at)
SELECT %(source)s, asked.event_id, COALESCE(%(now)s::timestamptz, clock_timestamp())
FROM unnest(%(event_id)b::text[]) AS asked(event_id)
ON CONFLICT (source, event_id) DO UPDATE SET
    times   = mine.times + 1,
    last_at = excluded.last_at;

-- name: forget_redeliveries
-- Forget what was last asked for before a time: its provider does not show it any more.
DELETE FROM redeliveries
WHERE source = %(source)s
  AND last_at < %(before)s;
