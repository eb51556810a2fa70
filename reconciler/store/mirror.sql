-- name: lock_shapes
-- Let one transaction at a time number shapes. A statement of its own: the next one must see what it waited for.
SELECT pg_advisory_xact_lock(hashtextextended('reconciler.shapes', 0));

-- name: activate_shape
-- Return the number of this shape if it is the current one; else make it the current one, numbered one higher.
WITH latest AS (
    SELECT shapes.n, shapes.digest
    FROM shapes
    WHERE shapes.source = %(source)s AND shapes.kind = %(kind)s
    ORDER BY shapes.n DESC
    LIMIT 1
),
added AS (
    INSERT INTO shapes (source, kind, n, digest, activated_at)
    SELECT %(source)s, %(kind)s, COALESCE((SELECT latest.n FROM latest), 0) + 1, %(digest)s,
           COALESCE(%(now)s, clock_timestamp())
    WHERE NOT EXISTS (SELECT FROM latest WHERE latest.digest = %(digest)s)
    RETURNING n
)
SELECT n FROM added
UNION ALL
SELECT n FROM latest WHERE digest = %(digest)s;
