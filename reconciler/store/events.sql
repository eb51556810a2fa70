-- name: insert_events
-- Store these notifications, in key order; returns the keys of those that are new.
INSERT INTO webhook_events (source, event_id, event_type, payload, headers, raw, occurred_at, received_at, outcome,
                            processed_at, secret)
SELECT incoming.source, incoming.event_id, incoming.event_type, incoming.payload::jsonb, incoming.headers::jsonb,
       incoming.raw, incoming.occurred_at, incoming.received_at, incoming.outcome,
       CASE WHEN incoming.outcome IS NOT NULL THEN incoming.received_at END, incoming.secret
FROM unnest(%(source)b::text[], %(event_id)b::text[], %(event_type)b::text[], %(payload)b::text[], %(headers)b::text[],
            %(raw)b::bytea[], %(occurred_at)b::timestamptz[], %(received_at)b::timestamptz[], %(outcome)b::text[],
            %(secret)b::int[])
    AS incoming(source, event_id, event_type, payload, headers, raw, occurred_at, received_at, outcome, secret)
ORDER BY incoming.source, incoming.event_id
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id;

-- name: lock_repeats
-- Lock these events in key order and return how each stands. A statement of its own: it must see what racing copies wrote.
SELECT mine.source, mine.event_id, mine.outcome
FROM unnest(%(source)b::text[], %(event_id)b::text[]) AS incoming(source, event_id)
JOIN webhook_events AS mine ON (mine.source, mine.event_id) = (incoming.source, incoming.event_id)
ORDER BY mine.source, mine.event_id
FOR UPDATE OF mine;

-- name: count_repeats
-- Count the repeats of these events, and give each the outcome it has from now on.
UPDATE webhook_events AS mine SET
    duplicates     = mine.duplicates + incoming.repeats,
    last_repeat_at = incoming.received_at,
    outcome        = incoming.outcome,
    processed_at   = CASE WHEN incoming.outcome IS NULL THEN NULL ELSE mine.processed_at END,
    last_error     = CASE WHEN incoming.outcome IS NULL THEN NULL ELSE mine.last_error END
FROM unnest(%(source)b::text[], %(event_id)b::text[], %(repeats)b::int[], %(received_at)b::timestamptz[],
            %(outcome)b::text[])
    AS incoming(source, event_id, repeats, received_at, outcome)
WHERE (mine.source, mine.event_id) = (incoming.source, incoming.event_id);

-- name: newer_rows
-- The objects of these whose living row has a stamp strictly newer than the one given, with that stamp and positions.
SELECT mine.source, mine.scope, mine.kind, mine.id, mine.source_updated_at, mine.read_from, mine.read_until,
       incoming.event_id, incoming.stamp
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(event_id)b::text[],
            %(stamp)b::timestamptz[])
    AS incoming(source, scope, kind, id, event_id, stamp)
JOIN objects AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
WHERE mine.source_updated_at > incoming.stamp
  AND mine.deleted_at IS NULL;

-- name: insert_event_objects
-- Say which objects these events name and which number each waits for; a repeat waits for its own number.
INSERT INTO event_objects AS mine (source, event_id, scope, kind, id, wanted, stamp)
SELECT source, event_id, scope, kind, id, wanted, stamp
FROM unnest(%(source)b::text[], %(event_id)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[],
            %(wanted)b::bigint[], %(stamp)b::timestamptz[])
    AS incoming(source, event_id, scope, kind, id, wanted, stamp)
ON CONFLICT (source, event_id, scope, kind, id) DO UPDATE SET
    wanted = excluded.wanted;

-- name: lock_events
-- Lock, in key order, the events that a read of this object may close: those that wait for no more than it covers, and
-- for more than was done before. So they are open or dead, and the history of a busy object is not looked through.
SELECT mine.source, mine.event_id, mine.occurred_at, mine.received_at, named.stamp, named.wanted
FROM event_objects AS named
JOIN webhook_events AS mine ON (mine.source, mine.event_id) = (named.source, named.event_id)
WHERE (named.source, named.scope, named.kind, named.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND named.wanted <= %(wanted)s
  AND named.wanted > COALESCE((
      SELECT asked.done FROM refetches AS asked
      WHERE (asked.source, asked.scope, asked.kind, asked.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  ), 0)
ORDER BY mine.source, mine.event_id
FOR UPDATE OF mine;

-- name: event_payloads
-- The payloads of these events.
SELECT event_id, payload::text AS payload
FROM webhook_events
WHERE source = %(source)s AND event_id = ANY(%(event_ids)b::text[]);

-- name: defer_events
-- Let these events wait for a later read of this object.
UPDATE event_objects AS mine SET wanted = %(wanted)s
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND mine.event_id = ANY(%(event_ids)b::text[]);

-- name: close_events
-- Close those of these events, which this transaction has locked, whose objects are all read as far as they wait for;
-- returns event id and the time it was received.
UPDATE webhook_events AS mine SET
    outcome      = CASE WHEN mine.event_id = ANY(%(ahead)b::text[]) THEN 'ahead' ELSE 'done' END,
    processed_at = %(now)s::timestamptz,
    last_error   = NULL
WHERE mine.source = %(source)s
  AND mine.event_id = ANY(%(event_ids)b::text[])
  AND NOT EXISTS (
      SELECT
      FROM event_objects AS named
      LEFT JOIN refetches AS asked
          ON (asked.source, asked.scope, asked.kind, asked.id) = (named.source, named.scope, named.kind, named.id)
      WHERE (named.source, named.event_id) = (mine.source, mine.event_id)
        AND named.wanted > COALESCE(asked.done, 0)
  )
RETURNING mine.event_id, mine.received_at;

-- name: kill_events
-- Give these events up with the reason: an object they name is a dead letter.
UPDATE webhook_events SET outcome = 'dead', processed_at = %(now)s::timestamptz, last_error = %(because)s
WHERE source = %(source)s AND event_id = ANY(%(event_ids)b::text[]);

-- name: events_to_replay
-- Lock, in key order, the next events to replay.
SELECT mine.source, mine.event_id
FROM webhook_events AS mine
WHERE (mine.source, mine.event_id) > (%(after_source)s::text, %(after_id)s::text)
  AND (%(event_ids)b::text[] IS NULL OR mine.event_id = ANY(%(event_ids)b::text[]))
  AND (%(source)s::text IS NULL OR mine.source = %(source)s)
  AND (%(state)s::text IS NULL OR COALESCE(mine.outcome, 'open') = %(state)s)
  AND (%(since)s::timestamptz IS NULL OR mine.received_at >= %(since)s)
  AND (%(kind)s::text IS NULL OR EXISTS (
      SELECT
      FROM event_objects AS named
      WHERE (named.source, named.event_id) = (mine.source, mine.event_id) AND named.kind = %(kind)s
  ))
ORDER BY mine.source, mine.event_id
LIMIT %(limit)s::bigint
FOR UPDATE;

-- name: named_objects
-- The objects these events name.
SELECT DISTINCT named.source, named.event_id, named.scope, named.kind, named.id, named.stamp
FROM unnest(%(source)b::text[], %(event_id)b::text[]) AS incoming(source, event_id)
JOIN event_objects AS named ON (named.source, named.event_id) = (incoming.source, incoming.event_id);

-- name: reopen_events
-- Make these events open again.
UPDATE webhook_events AS mine SET outcome = NULL, processed_at = NULL, last_error = NULL
FROM unnest(%(source)b::text[], %(event_id)b::text[]) AS incoming(source, event_id)
WHERE (mine.source, mine.event_id) = (incoming.source, incoming.event_id);
