-- name: want
-- Want these objects, in key order: each draws a number under its row's lock. Live reasons outlast a sweep's, a hand
-- edit outlasts all until settled. No number is below an earlier one, whatever became of the sequence: returns key,
-- wanted, and the number drawn, which is lower only if the sequence was set back.
INSERT INTO refetches AS mine (source, scope, kind, id, wanted, reason, locator, due_at)
SELECT incoming.source, incoming.scope, incoming.kind, incoming.id, nextval('positions'), incoming.reason,
       incoming.locator::jsonb, COALESCE(%(now)s::timestamptz, clock_timestamp())
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(reason)b::text[],
            %(locator)b::text[])
    AS incoming(source, scope, kind, id, reason, locator)
ORDER BY incoming.source, incoming.scope, incoming.kind, incoming.id
ON CONFLICT (source, scope, kind, id) DO UPDATE SET
    wanted   = GREATEST(nextval('positions'), mine.wanted + 1, mine.done + 1),
    reason   = CASE WHEN mine.wanted > mine.done
                         AND (mine.reason = 'hand_edit' OR excluded.reason = 'sweep' AND mine.dead_at IS NULL)
                    THEN mine.reason ELSE excluded.reason END,
    locator  = COALESCE(excluded.locator, mine.locator),
    due_at   = CASE WHEN mine.wanted > mine.done AND mine.dead_at IS NULL
                    THEN LEAST(mine.due_at, excluded.due_at) ELSE excluded.due_at END,
    dead_at  = NULL,
    attempts = 0
RETURNING source, scope, kind, id, wanted, currval('positions') AS drawn;

-- name: lock_open
-- Lock the refetches of these keys in key order and return those that somebody waits for already.
SELECT mine.source, mine.scope, mine.kind, mine.id
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[]) AS incoming(source, scope, kind, id)
JOIN refetches AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
WHERE mine.wanted > mine.done AND mine.dead_at IS NULL
ORDER BY mine.source, mine.scope, mine.kind, mine.id
FOR UPDATE OF mine;

-- name: put_off
-- Let these refetches, which this transaction has locked and nobody else waits for, be due at their times.
UPDATE refetches AS mine SET due_at = incoming.due_at
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(due_at)b::timestamptz[])
    AS incoming(source, scope, kind, id, due_at)
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id);

-- name: notify_wanted
-- Wake the workers of every process when this transaction commits.
SELECT pg_notify('reconciler_wanted', '');

-- name: due_kinds
-- The kinds of these sources of which a refetch is due in this lane, each with the time of the one that has been due
-- longest, oldest first. A kind that has a higher shape than the number beside it is left out, as `lease` leaves it.
WITH asked AS MATERIALIZED (
    SELECT given.source, given.kind, clock.now
    FROM unnest(%(source)b::text[], %(kind)b::text[], %(n)b::int[]) AS given(source, kind, n)
    CROSS JOIN (SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
    WHERE NOT EXISTS (
        SELECT FROM shapes WHERE shapes.source = given.source AND shapes.kind = given.kind AND shapes.n > given.n
    )
      AND NOT EXISTS (
          SELECT FROM pauses WHERE pauses.source = given.source AND pauses.scope = '' AND pauses.until > clock.now
      )
)
SELECT asked.source, asked.kind, due.at
FROM asked
CROSS JOIN LATERAL (
    SELECT LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at) AS at
    FROM refetches AS mine
    WHERE mine.source = asked.source
      AND mine.kind = asked.kind
      AND CASE WHEN mine.reason = 'sweep' THEN 1 ELSE 0 END = %(sweep)s::int
      AND mine.dead_at IS NULL
      AND (mine.wanted > mine.done OR mine.again_at IS NOT NULL)
      AND LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at) <= asked.now
      AND (mine.leased_until IS NULL OR mine.leased_until <= asked.now)
      AND NOT EXISTS (
          SELECT FROM pauses
          WHERE pauses.source = mine.source AND pauses.scope = mine.scope AND pauses.until > asked.now
      )
      AND NOT EXISTS (
          SELECT FROM refused_kinds AS refused
          WHERE (refused.source, refused.scope, refused.kind) = (mine.source, mine.scope, mine.kind)
            AND refused.until > asked.now AND refused.until <= asked.now + interval '1 hour'
      )
    ORDER BY LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at)
    LIMIT 1
) AS due
ORDER BY due.at, asked.source, asked.kind;

-- name: lease
-- Lease the refetch of one kind that has been due longest in this lane: no other worker gets it until the lease ends.
-- Remembers what was wanted, and draws the position the read begins at. Where nothing is wanted but a reread's time has
-- come, the reason is that. At most one row.
WITH due AS MATERIALIZED (
    SELECT mine.source, mine.scope, mine.kind, mine.id
    FROM refetches AS mine
    WHERE mine.source = %(source)s
      AND mine.kind = %(kind)s
      AND CASE WHEN mine.reason = 'sweep' THEN 1 ELSE 0 END = %(sweep)s::int
      AND mine.dead_at IS NULL
      AND (mine.wanted > mine.done OR mine.again_at IS NOT NULL)
      AND LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at)
          <= COALESCE(%(now)s::timestamptz, clock_timestamp())
      AND (mine.leased_until IS NULL OR mine.leased_until <= COALESCE(%(now)s::timestamptz, clock_timestamp()))
      AND NOT EXISTS (
          SELECT FROM pauses
          WHERE pauses.source = mine.source AND pauses.scope IN ('', mine.scope)
            AND pauses.until > COALESCE(%(now)s::timestamptz, clock_timestamp())
      )
      AND NOT EXISTS (
          SELECT FROM refused_kinds AS refused
          WHERE (refused.source, refused.scope, refused.kind) = (mine.source, mine.scope, mine.kind)
            AND refused.until > COALESCE(%(now)s::timestamptz, clock_timestamp())
            AND refused.until <= COALESCE(%(now)s::timestamptz, clock_timestamp()) + interval '1 hour'
      )
      AND NOT EXISTS (
          SELECT FROM shapes WHERE shapes.source = mine.source AND shapes.kind = mine.kind AND shapes.n > %(n)s
      )
    ORDER BY LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at)
    LIMIT 1
    FOR UPDATE OF mine SKIP LOCKED
)
UPDATE refetches AS mine SET
    leased_until  = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval,
    lease_token   = gen_random_uuid(),
    leased_wanted = mine.wanted
FROM due
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (due.source, due.scope, due.kind, due.id)
RETURNING mine.source, mine.scope, mine.kind, mine.id, mine.wanted,
          CASE WHEN mine.wanted > mine.done THEN mine.reason ELSE 'reread' END AS reason, mine.locator::text AS locator,
          mine.seen::text AS seen, mine.lease_token, mine.attempts, mine.last_error,
          nextval('positions') AS read_from, COALESCE(%(now)s::timestamptz, clock_timestamp()) AS began_at,
          EXISTS (
              SELECT FROM refused_kinds AS refused
              WHERE (refused.source, refused.scope, refused.kind) = (mine.source, mine.scope, mine.kind)
          ) AS refused;

-- name: lease_one
-- Lease this refetch if it is open, due and free, and no person has paused its source. At most one row, as of `lease`.
WITH due AS MATERIALIZED (
    SELECT mine.source, mine.scope, mine.kind, mine.id
    FROM refetches AS mine
    WHERE (mine.source, mine.scope, mine.kind, mine.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
      AND mine.dead_at IS NULL
      AND (mine.wanted > mine.done OR mine.again_at IS NOT NULL)
      AND LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at)
          <= COALESCE(%(now)s::timestamptz, clock_timestamp())
      AND (mine.leased_until IS NULL OR mine.leased_until <= COALESCE(%(now)s::timestamptz, clock_timestamp()))
      AND NOT EXISTS (
          SELECT FROM shapes WHERE shapes.source = mine.source AND shapes.kind = mine.kind AND shapes.n > %(n)s
      )
      AND NOT EXISTS (
          SELECT FROM pauses
          WHERE pauses.source = mine.source AND pauses.scope = '' AND pauses.what = 'paused'
            AND pauses.until > COALESCE(%(now)s::timestamptz, clock_timestamp())
      )
    FOR UPDATE OF mine SKIP LOCKED
)
UPDATE refetches AS mine SET
    leased_until  = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(lease)s::interval,
    lease_token   = gen_random_uuid(),
    leased_wanted = mine.wanted
FROM due
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (due.source, due.scope, due.kind, due.id)
RETURNING mine.source, mine.scope, mine.kind, mine.id, mine.wanted,
          CASE WHEN mine.wanted > mine.done THEN mine.reason ELSE 'reread' END AS reason, mine.locator::text AS locator,
          mine.seen::text AS seen, mine.lease_token, mine.attempts, mine.last_error,
          nextval('positions') AS read_from, COALESCE(%(now)s::timestamptz, clock_timestamp()) AS began_at,
          EXISTS (
              SELECT FROM refused_kinds AS refused
              WHERE (refused.source, refused.scope, refused.kind) = (mine.source, mine.scope, mine.kind)
          ) AS refused;

-- name: lock_refetches
-- Lock the refetches of these keys in key order and return what their ladders have seen.
SELECT mine.source, mine.scope, mine.kind, mine.id, mine.seen::text AS seen
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[]) AS incoming(source, scope, kind, id)
JOIN refetches AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
ORDER BY mine.source, mine.scope, mine.kind, mine.id
FOR UPDATE OF mine;

-- name: open_refetches
-- Make a closed refetch for each of these keys that has none, in key order.
INSERT INTO refetches (source, scope, kind, id, wanted, reason, due_at)
SELECT incoming.source, incoming.scope, incoming.kind, incoming.id, 0, 'reread', %(now)s::timestamptz
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[]) AS incoming(source, scope, kind, id)
ORDER BY incoming.source, incoming.scope, incoming.kind, incoming.id
ON CONFLICT DO NOTHING;

-- name: read_again
-- Queue rereads and keep what ladders have seen, on rows this transaction has locked. A reread that wants draws a
-- number; its time counts unless something else is waiting to be read anyway. Returns key and wanted.
UPDATE refetches AS mine SET
    wanted   = CASE WHEN incoming.wants THEN GREATEST(nextval('positions'), mine.wanted + 1, mine.done + 1)
                    ELSE mine.wanted END,
    reason   = CASE WHEN NOT incoming.wants OR mine.reason = 'hand_edit' AND mine.wanted > mine.done THEN mine.reason
                    WHEN mine.wanted > GREATEST(mine.done, COALESCE(mine.leased_wanted, 0)) THEN mine.reason
                    ELSE incoming.reason END,
    due_at   = CASE WHEN NOT incoming.wants THEN mine.due_at
                    WHEN mine.wanted > GREATEST(mine.done, COALESCE(mine.leased_wanted, 0)) AND mine.dead_at IS NULL
                    THEN LEAST(mine.due_at, incoming.due_at)
                    ELSE incoming.due_at END,
    again_at = incoming.again_at,
    seen     = incoming.seen::jsonb,
    locator  = COALESCE(incoming.locator::jsonb, mine.locator),
    dead_at  = CASE WHEN incoming.wants THEN NULL ELSE mine.dead_at END
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(wants)b::bool[],
            %(reason)b::text[], %(due_at)b::timestamptz[], %(again_at)b::timestamptz[], %(seen)b::text[],
            %(locator)b::text[])
    AS incoming(source, scope, kind, id, wants, reason, due_at, again_at, seen, locator)
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
RETURNING mine.source, mine.scope, mine.kind, mine.id, mine.wanted;

-- name: settle
-- Close a refetch as far as the read that was leased covers it; later wants stay due.
-- Does nothing unless the token still holds the lease. At most one row: wanted and done.
UPDATE refetches AS mine SET
    done          = GREATEST(mine.done, mine.leased_wanted),
    leased_until  = NULL,
    lease_token   = NULL,
    leased_wanted = NULL,
    attempts      = 0,
    last_error    = NULL,
    held_at       = CASE WHEN %(verdict)s IN ('applied', 'unchanged') THEN NULL ELSE mine.held_at END,
    verdict       = %(verdict)s
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND mine.lease_token = %(token)s
RETURNING mine.wanted, mine.done;

-- name: postpone
-- Give the lease back and look again later. What was wanted since keeps its own, earlier time.
-- Does nothing unless the token still holds the lease.
UPDATE refetches AS mine SET
    due_at        = CASE WHEN mine.wanted > mine.leased_wanted THEN LEAST(mine.due_at, %(due_at)s::timestamptz)
                         ELSE %(due_at)s::timestamptz END,
    again_at      = GREATEST(mine.again_at, CASE WHEN mine.again_at IS NOT NULL THEN %(due_at)s::timestamptz END),
    leased_until  = NULL,
    lease_token   = NULL,
    leased_wanted = NULL,
    attempts      = CASE WHEN %(counts)s THEN mine.attempts + 1 ELSE mine.attempts END,
    last_error    = %(because)s
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND mine.lease_token = %(token)s;

-- name: bury
-- Give a refetch up, with the reason, unless something was wanted since it was leased.
-- Does nothing unless the token still holds the lease. Returns whether it is dead.
UPDATE refetches AS mine SET
    dead_at       = CASE WHEN mine.wanted > mine.leased_wanted THEN NULL
                         ELSE COALESCE(%(now)s::timestamptz, clock_timestamp()) END,
    leased_until  = NULL,
    lease_token   = NULL,
    leased_wanted = NULL,
    attempts      = mine.attempts + 1,
    last_error    = %(because)s
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND mine.lease_token = %(token)s
RETURNING mine.dead_at IS NOT NULL AS dead;

-- name: bury_unread
-- Make a dead letter of an object that was listed but cannot be stored, so that its run can go on. Where somebody
-- else wants it, the fetch they wait for decides.
INSERT INTO refetches AS mine (source, scope, kind, id, wanted, reason, due_at, last_error, dead_at)
VALUES (%(source)s, %(scope)s, %(kind)s, %(id)s, nextval('positions'), 'sweep',
        COALESCE(%(now)s::timestamptz, clock_timestamp()), %(because)s,
        COALESCE(%(now)s::timestamptz, clock_timestamp()))
ON CONFLICT (source, scope, kind, id) DO UPDATE SET
    wanted     = GREATEST(nextval('positions'), mine.wanted + 1, mine.done + 1),
    last_error = excluded.last_error,
    dead_at    = CASE WHEN mine.wanted > mine.done AND mine.dead_at IS NULL THEN NULL ELSE excluded.dead_at END
RETURNING mine.wanted;

-- name: unfreeze
-- Bring back times that no rule could have set: a clock stood far ahead when they were written.
UPDATE refetches AS mine SET
    due_at       = CASE WHEN mine.held_at IS NULL THEN LEAST(mine.due_at, clock_timestamp()) ELSE mine.due_at END,
    again_at     = CASE WHEN mine.again_at > clock_timestamp() + interval '25 hours' THEN clock_timestamp()
                        ELSE mine.again_at END,
    leased_until = CASE WHEN mine.leased_until > clock_timestamp() + %(lease)s::interval * 2 THEN clock_timestamp()
                        ELSE mine.leased_until END
WHERE mine.dead_at IS NULL
  AND (mine.wanted > mine.done OR mine.again_at IS NOT NULL)
  AND (mine.due_at > clock_timestamp() + interval '25 hours' AND mine.held_at IS NULL
       OR mine.again_at > clock_timestamp() + interval '25 hours'
       OR mine.leased_until > clock_timestamp() + %(lease)s::interval * 2);

-- name: free_leases
-- Give back the leases of these tokens at once: their worker is stopping and has applied nothing.
UPDATE refetches SET leased_until = NULL, lease_token = NULL, leased_wanted = NULL
WHERE lease_token = ANY(%(tokens)b::uuid[]);

-- name: refetch
-- One refetch as it stands.
SELECT source, scope, kind, id, wanted, done, reason, due_at, again_at, seen::text AS seen, leased_until, attempts,
       last_error, dead_at, verdict, held_at
FROM refetches
WHERE (source, scope, kind, id) = (%(source)s, %(scope)s, %(kind)s, %(id)s);
