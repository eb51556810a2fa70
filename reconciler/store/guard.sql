-- name: begin_apply
-- Mark this transaction as the guard's, draw its position, and read the clock. One row.
SELECT set_config('reconciler.guard', 'on', true) AS guard,
       nextval('positions') AS position,
       COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now;

-- name: draw_position
-- Draw a position and read the clock. One row.
SELECT nextval('positions') AS position, COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now;

-- name: lock_positions
-- Let one transaction at a time move the sequence. A statement of its own: the next one must see where it was left.
SELECT pg_advisory_xact_lock(hashtextextended('reconciler.positions', 0));

-- name: advance_positions
-- Move the sequence beyond a position that must come from before a failover or restore; never moves it back.
-- The margin outruns positions drawn between reading and setting.
SELECT setval('positions', %(beyond)s::bigint + 100000)
FROM positions
WHERE positions.last_value <= %(beyond)s::bigint;

-- name: highest_position
-- The highest position any row claims. One row.
SELECT GREATEST(
    (SELECT max(GREATEST(read_from, read_until)) FROM objects),
    (SELECT max(GREATEST(wanted, done)) FROM refetches),
    0
) AS position;

-- name: knows_lines
-- Whether the schema is one that knows of number lines. One row.
SELECT to_regproc('follow_line') IS NOT NULL AS known;

-- name: follow_line
-- Move positions on if the server is not the one they were drawn from. One row: whether it was not.
SELECT follow_line() AS moved;

-- name: insert_objects
-- Write the objects that have no row yet, in key order; returns their keys. The others are left for lock_objects.
INSERT INTO objects (source, scope, kind, id, source_updated_at, observed_at, applied_at, read_from, read_until,
                     digest, shape, body, deleted_at)
SELECT incoming.source, incoming.scope, incoming.kind, incoming.id, incoming.source_updated_at, incoming.observed_at,
       %(now)s::timestamptz, incoming.read_from, incoming.read_until, incoming.digest, incoming.shape,
       incoming.body::jsonb, incoming.deleted_at
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[],
            %(source_updated_at)b::timestamptz[], %(observed_at)b::timestamptz[],
            %(read_from)b::bigint[], %(read_until)b::bigint[], %(digest)b::text[], %(shape)b::text[],
            %(body)b::text[], %(deleted_at)b::timestamptz[])
    AS incoming(source, scope, kind, id, source_updated_at, observed_at, read_from, read_until, digest, shape, body,
                deleted_at)
ORDER BY incoming.source, incoming.scope, incoming.kind, incoming.id
ON CONFLICT DO NOTHING
RETURNING source, scope, kind, id;

-- name: lock_objects
-- Lock the rows of these keys in key order and return them; the body only where the digest differs.
SELECT mine.source, mine.scope, mine.kind, mine.id, mine.source_updated_at, mine.read_from, mine.read_until,
       mine.digest, split_part(mine.shape, ':', 1)::int AS n, mine.deleted_at IS NOT NULL AS deleted,
       CASE WHEN mine.digest IS DISTINCT FROM incoming.digest THEN mine.body::text END AS body
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(digest)b::text[])
    AS incoming(source, scope, kind, id, digest)
JOIN objects AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
ORDER BY mine.source, mine.scope, mine.kind, mine.id
FOR UPDATE OF mine;

-- name: update_objects
-- Write these snapshots over their rows, which this transaction has locked. An absence keeps body, digest and shape.
UPDATE objects AS mine SET
    source_updated_at = incoming.source_updated_at,
    observed_at       = incoming.observed_at,
    applied_at        = %(now)s::timestamptz,
    read_from         = incoming.read_from,
    read_until        = incoming.read_until,
    digest            = CASE WHEN incoming.body IS NULL THEN mine.digest ELSE incoming.digest END,
    shape             = CASE WHEN incoming.body IS NULL THEN mine.shape ELSE incoming.shape END,
    body              = COALESCE(incoming.body::jsonb, mine.body),
    deleted_at        = incoming.deleted_at
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[],
            %(source_updated_at)b::timestamptz[], %(observed_at)b::timestamptz[],
            %(read_from)b::bigint[], %(read_until)b::bigint[], %(digest)b::text[], %(shape)b::text[],
            %(body)b::text[], %(deleted_at)b::timestamptz[])
    AS incoming(source, scope, kind, id, source_updated_at, observed_at, read_from, read_until, digest, shape, body,
                deleted_at)
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id);

-- name: touch_objects
-- Move positions, stamp and time of rows that show the same content, which this transaction has locked. A body comes
-- with a new shape only: what no longer is to be stored must go, compared or not.
UPDATE objects AS mine SET
    source_updated_at = incoming.source_updated_at,
    observed_at       = GREATEST(mine.observed_at, incoming.observed_at),
    read_from         = GREATEST(mine.read_from, incoming.read_from),
    read_until        = GREATEST(mine.read_until, incoming.read_until),
    shape             = COALESCE(incoming.shape, mine.shape),
    body              = COALESCE(incoming.body::jsonb, mine.body)
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[],
            %(source_updated_at)b::timestamptz[], %(observed_at)b::timestamptz[],
            %(read_from)b::bigint[], %(read_until)b::bigint[], %(shape)b::text[], %(body)b::text[])
    AS incoming(source, scope, kind, id, source_updated_at, observed_at, read_from, read_until, shape, body)
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id);

-- name: insert_declined
-- Put declined and tied snapshots on record.
INSERT INTO declined_writes (source, scope, kind, id, verdict, incoming_source_updated_at, stored_source_updated_at,
                             incoming_read_from, incoming_read_until, stored_read_from, stored_read_until,
                             via, event_id, run_id, because, at)
SELECT source, scope, kind, id, verdict, incoming_source_updated_at, stored_source_updated_at, incoming_read_from,
       incoming_read_until, stored_read_from, stored_read_until, %(via)s, event_id, %(run_id)s, because,
       %(now)s::timestamptz
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(verdict)b::text[],
            %(incoming_source_updated_at)b::timestamptz[], %(stored_source_updated_at)b::timestamptz[],
            %(incoming_read_from)b::bigint[], %(incoming_read_until)b::bigint[],
            %(stored_read_from)b::bigint[], %(stored_read_until)b::bigint[], %(event_id)b::text[], %(because)b::text[])
    AS incoming(source, scope, kind, id, verdict, incoming_source_updated_at, stored_source_updated_at,
                incoming_read_from, incoming_read_until, stored_read_from, stored_read_until, event_id, because);

-- name: insert_history
-- Put applied snapshots on record, without their bodies.
INSERT INTO object_history (source, scope, kind, id, what, source_updated_at, observed_at, changed, counted, via,
                            event_id, run_id, at)
SELECT source, scope, kind, id, what, source_updated_at, observed_at, changed::jsonb, counted, %(via)s, %(event_id)s,
       %(run_id)s, %(now)s::timestamptz
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(what)b::text[],
            %(source_updated_at)b::timestamptz[], %(observed_at)b::timestamptz[], %(changed)b::text[],
            %(counted)b::bool[])
    AS incoming(source, scope, kind, id, what, source_updated_at, observed_at, changed, counted);

-- name: object
-- One row as it stands.
SELECT source, scope, kind, id, source_updated_at, observed_at, applied_at, read_from, read_until, digest, shape,
       body::text AS body, deleted_at
FROM objects
WHERE (source, scope, kind, id) = (%(source)s, %(scope)s, %(kind)s, %(id)s);

-- name: clock
-- The database's clock. One row.
SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now;
