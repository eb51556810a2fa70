-- name: lock_share
-- Let one transaction at a time let objects of this kind and scope go; the next one sees what this one let go.
INSERT INTO shares (source, scope, kind) VALUES (%(source)s, %(scope)s, %(kind)s)
ON CONFLICT (source, scope, kind) DO UPDATE SET source = excluded.source;

-- name: stands_still
-- How the deletions of this kind and scope stand, on the row that this transaction has locked: since when they are
-- stopped, how many went within the hour, and whether a run at work lets all of them go. One row.
SELECT
    (SELECT min(held_at) FROM refetches WHERE source = %(source)s AND kind = %(kind)s AND scope = %(scope)s
                                          AND held_at IS NOT NULL) AS stopped_at,
    (SELECT count(*) FROM object_history WHERE source = %(source)s AND kind = %(kind)s AND scope = %(scope)s
                                           AND counted AND at > %(now)s::timestamptz - %(within)s::interval) AS gone,
    EXISTS (
        SELECT
        FROM sweeps
        JOIN runs ON runs.id = sweeps.run_id
        WHERE sweeps.source = %(source)s AND sweeps.kind = %(kind)s AND sweeps.held_until > clock_timestamp()
          AND (runs.asked ->> 'allow_deletes')::boolean
    ) AS allowed;

-- name: size_of_kind
-- How many objects of this kind and scope there were before the hour began, counted anew now and then: one row.
UPDATE shares AS mine SET
    size     = CASE WHEN mine.sized_at > %(now)s::timestamptz - %(lasts)s::interval THEN mine.size ELSE (
                   SELECT count(*) FROM objects AS ours
                   WHERE ours.source = mine.source AND ours.kind = mine.kind AND ours.scope = mine.scope
                     AND ours.deleted_at IS NULL
               ) + %(gone)s END,
    sized_at = CASE WHEN mine.sized_at > %(now)s::timestamptz - %(lasts)s::interval THEN mine.sized_at
                    ELSE %(now)s::timestamptz END
WHERE (mine.source, mine.scope, mine.kind) = (%(source)s, %(scope)s, %(kind)s)
RETURNING size;

-- name: hold
-- Hold an absence back: its refetch stays open, far ahead, until somebody wants the object again.
-- Does nothing unless the token still holds the lease.
UPDATE refetches AS mine SET
    held_at       = COALESCE(mine.held_at, clock_timestamp()),
    due_at        = CASE WHEN mine.wanted > mine.leased_wanted THEN mine.due_at ELSE %(far)s::timestamptz END,
    again_at      = NULL,
    leased_until  = NULL,
    lease_token   = NULL,
    leased_wanted = NULL,
    attempts      = 0,
    last_error    = %(because)s
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND mine.lease_token = %(token)s;

-- name: decides
-- Whether a run at work that has not said yet how much may go, and does not let all of it go, waits for this object.
SELECT
FROM run_objects AS asked
JOIN runs ON runs.id = asked.run_id
JOIN sweeps ON (sweeps.run_id, sweeps.source, sweeps.kind) = (asked.run_id, asked.source, asked.kind)
WHERE (asked.source, asked.scope, asked.kind, asked.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND asked.verdict IS NULL
  AND NOT asked.may_go
  AND sweeps.held_until > clock_timestamp()
  AND NOT COALESCE((runs.asked ->> 'allow_deletes')::boolean, false)
LIMIT 1;

-- name: read_since
-- Answer those absences of this run that somebody else has read since; wait for those that somebody is about to read.
UPDATE run_objects AS asked SET verdict = CASE WHEN mine.done >= asked.wanted THEN COALESCE(mine.verdict, 'unchanged') END
FROM refetches AS mine
WHERE asked.run_id = %(run_id)s
  AND asked.verdict = 'absent'
  AND (mine.source, mine.scope, mine.kind, mine.id) = (asked.source, asked.scope, asked.kind, asked.id)
  AND (mine.done >= asked.wanted OR mine.wanted > asked.wanted OR mine.lease_token IS NOT NULL);

-- name: absent_in_run
-- How many absences this run has met, by kind and scope, in key order.
SELECT source, scope, kind, count(*) AS objects
FROM run_objects
WHERE run_id = %(run_id)s AND verdict = 'absent'
GROUP BY source, scope, kind
ORDER BY source, scope, kind;

-- name: let_go_in_run
-- Let this run look again at the absences of one kind and scope, each of which may go now.
WITH chosen AS (
    UPDATE run_objects SET verdict = NULL, may_go = true
    WHERE run_id = %(run_id)s AND verdict = 'absent' AND (source, scope, kind) = (%(source)s, %(scope)s, %(kind)s)
    RETURNING source, scope, kind, id
)
UPDATE refetches AS mine SET due_at = clock_timestamp()
FROM chosen
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (chosen.source, chosen.scope, chosen.kind, chosen.id);

-- name: hold_in_run
-- Hold back the absences of one kind and scope that this run has met.
WITH chosen AS (
    UPDATE run_objects SET verdict = 'held'
    WHERE run_id = %(run_id)s AND verdict = 'absent' AND (source, scope, kind) = (%(source)s, %(scope)s, %(kind)s)
    RETURNING source, scope, kind, id
)
UPDATE refetches AS mine SET
    held_at    = COALESCE(mine.held_at, clock_timestamp()),
    due_at     = %(far)s::timestamptz,
    again_at   = NULL,
    attempts   = 0,
    last_error = %(because)s
FROM chosen
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (chosen.source, chosen.scope, chosen.kind, chosen.id);

-- name: leave_absences
-- Let whoever comes read the absences that these runs have met and will not decide on.
UPDATE refetches AS mine SET due_at = LEAST(mine.due_at, clock_timestamp())
FROM run_objects AS asked
WHERE asked.run_id = ANY(%(run_ids)b::bigint[])
  AND asked.verdict = 'absent'
  AND (mine.source, mine.scope, mine.kind, mine.id) = (asked.source, asked.scope, asked.kind, asked.id)
  AND mine.wanted > mine.done
  AND mine.held_at IS NULL;

-- name: held_refs
-- What is held back of these kinds.
SELECT mine.source, mine.scope, mine.kind, mine.id
FROM unnest(%(source)b::text[], %(kind)b::text[]) AS incoming(source, kind)
JOIN refetches AS mine ON (mine.source, mine.kind) = (incoming.source, incoming.kind)
WHERE mine.held_at IS NOT NULL;

-- name: held_kinds
-- How much is held back, by kind and scope, and since when.
SELECT source, scope, kind, count(*) AS objects, min(held_at) AS since
FROM refetches
WHERE held_at IS NOT NULL
GROUP BY source, scope, kind
ORDER BY source, kind, scope;
