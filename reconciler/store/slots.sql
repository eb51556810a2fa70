-- name: hold_role
-- Take this role, or keep it: at most one holder at a time. No row: somebody else has it.
INSERT INTO holders AS mine (role, holder, held_until)
VALUES (%(role)s, %(holder)s, COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(hold)s::interval)
ON CONFLICT (role) DO UPDATE SET
    holder     = excluded.holder,
    held_until = excluded.held_until
WHERE mine.holder = excluded.holder
   OR mine.held_until <= COALESCE(%(now)s::timestamptz, clock_timestamp())
RETURNING mine.holder;

-- name: release_role
-- Let go of this role at once, if this holder has it.
DELETE FROM holders WHERE role = %(role)s AND holder = %(holder)s;

-- name: slots_standing
-- How the newest slots of each job of a source stand. One whose run is complete is used, whoever lost its claim.
SELECT jobs.job, mine.slot, mine.tries, mine.held_until,
       CASE WHEN runs.state = 'complete' THEN 'used' ELSE mine.state END AS state
FROM unnest(ARRAY['nightly', 'light']) AS jobs(job)
CROSS JOIN LATERAL (
    SELECT slots.slot, slots.tries, slots.held_until, slots.state, slots.run_id
    FROM slots
    WHERE slots.source = %(source)s AND slots.job = jobs.job
    ORDER BY slots.slot DESC
    LIMIT 3
) AS mine
LEFT JOIN runs ON runs.id = mine.run_id;

-- name: claim_slot
-- Take this slot unless it is used, or somebody else has it now. The number of tries tells one claim from the next.
-- At most one row.
INSERT INTO slots AS mine (source, job, slot, claimed_at, held_until, state)
VALUES (%(source)s, %(job)s, %(slot)s, COALESCE(%(now)s::timestamptz, clock_timestamp()),
        COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(hold)s::interval, 'claimed')
ON CONFLICT (source, job, slot) DO UPDATE SET
    claimed_at = excluded.claimed_at,
    held_until = excluded.held_until,
    tries      = mine.tries + 1,
    state      = 'claimed',
    run_id     = NULL
WHERE mine.state <> 'used'
  AND mine.held_until <= COALESCE(%(now)s::timestamptz, clock_timestamp())
  AND NOT EXISTS (SELECT FROM runs WHERE runs.id = mine.run_id AND runs.state = 'complete')
RETURNING mine.tries;

-- name: keep_slot
-- Hold a claim for longer, and say which run it has become. Touches no row if the claim was lost.
UPDATE slots SET
    held_until = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(hold)s::interval,
    run_id     = COALESCE(%(run_id)s::bigint, run_id)
WHERE (source, job, slot) = (%(source)s, %(job)s, %(slot)s)
  AND tries = %(tries)s
  AND state = 'claimed';

-- name: end_slot
-- Say what became of a claim: used for good, or failed and free to take after a while. Touches no row if it was lost.
UPDATE slots SET
    state      = %(state)s,
    held_until = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(rest)s::interval
WHERE (source, job, slot) = (%(source)s, %(job)s, %(slot)s)
  AND tries = %(tries)s
  AND state = 'claimed';

-- name: yield_slot
-- Give a claim back as if it had not been tried. Touches no row if it was lost.
UPDATE slots SET
    state      = 'failed',
    tries      = tries - 1,
    held_until = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(rest)s::interval
WHERE (source, job, slot) = (%(source)s, %(job)s, %(slot)s)
  AND tries = %(tries)s
  AND state = 'claimed';

-- name: forget_slots
-- Drop the slots of a source that nothing looks at any more.
DELETE FROM slots
WHERE source = %(source)s
  AND claimed_at < COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '40 days'
   OR source = %(source)s
  AND job = 'light'
  AND claimed_at < COALESCE(%(now)s::timestamptz, clock_timestamp()) - interval '2 days';
