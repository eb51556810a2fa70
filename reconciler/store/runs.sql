-- name: insert_run
-- Begin a run. One row: its id and the database's clock.
INSERT INTO runs (trigger, since, until, state, dry_run, asked)
VALUES (%(trigger)s, %(since)s, %(until)s, 'running', %(dry_run)s, %(asked)s::jsonb)
RETURNING id, started_at;

-- name: hold_kinds
-- Hold these kinds for a run, in key order, where nobody holds them or their holder is gone; returns those now held.
INSERT INTO sweeps AS mine (source, kind, run_id, since, held_until)
SELECT incoming.source, incoming.kind, %(run_id)s, clock_timestamp(), clock_timestamp() + %(hold)s::interval
FROM unnest(%(source)b::text[], %(kind)b::text[]) AS incoming(source, kind)
ORDER BY incoming.source, incoming.kind
ON CONFLICT (source, kind) DO UPDATE SET
    run_id     = excluded.run_id,
    since      = excluded.since,
    held_until = excluded.held_until
WHERE mine.held_until <= clock_timestamp()
RETURNING source, kind;

-- name: first_holder
-- Who holds the first of these kinds that this run does not, and since when. One row.
SELECT mine.source, mine.kind, mine.run_id, mine.since
FROM unnest(%(source)b::text[], %(kind)b::text[]) AS incoming(source, kind)
JOIN sweeps AS mine ON (mine.source, mine.kind) = (incoming.source, incoming.kind)
WHERE mine.run_id <> %(run_id)s
ORDER BY mine.source, mine.kind
LIMIT 1;

-- name: renew_kinds
-- Keep holding what this run holds; returns how many kinds that still are.
UPDATE sweeps SET held_until = clock_timestamp() + %(hold)s::interval WHERE run_id = %(run_id)s;

-- name: free_kinds
-- Let go of what this run holds.
DELETE FROM sweeps WHERE run_id = %(run_id)s;

-- name: abandon_runs
-- Mark the runs whose process is gone: running, older than a hold, and holding nothing that is still renewed.
UPDATE runs SET state = 'abandoned', finished_at = clock_timestamp(), because = 'the process that ran it is gone'
WHERE state = 'running'
  AND started_at < clock_timestamp() - %(hold)s::interval
  AND NOT EXISTS (SELECT FROM sweeps WHERE sweeps.run_id = runs.id AND sweeps.held_until > clock_timestamp())
RETURNING id;

-- name: tally_run
-- Put on record how far a run has come.
UPDATE runs SET tallies = %(tallies)s::jsonb WHERE id = %(run_id)s;

-- name: finish_run
-- End a run.
UPDATE runs SET state = %(state)s, finished_at = clock_timestamp(), tallies = %(tallies)s::jsonb, because = %(because)s
WHERE id = %(run_id)s;

-- name: watermarks
-- Up to when these kinds of a source are fully swept.
SELECT scope, kind, swept_until FROM watermarks WHERE source = %(source)s;

-- name: move_watermark
-- Say up to when a kind is fully swept; never moves it back.
INSERT INTO watermarks AS mine (source, scope, kind, swept_until)
VALUES (%(source)s, %(scope)s, %(kind)s, %(swept_until)s)
ON CONFLICT (source, scope, kind) DO UPDATE SET swept_until = GREATEST(mine.swept_until, excluded.swept_until);

-- name: known_hints
-- Those of these hints that cost nothing: their event named this very object and is done, and the row was read beyond
-- what the event waited for.
SELECT incoming.event_id, incoming.scope, incoming.kind, incoming.id
FROM unnest(%(event_id)b::text[], %(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[])
    AS incoming(event_id, source, scope, kind, id)
JOIN webhook_events AS event ON (event.source, event.event_id) = (incoming.source, incoming.event_id)
JOIN event_objects AS named
    ON (named.source, named.event_id, named.scope, named.kind, named.id)
     = (incoming.source, incoming.event_id, incoming.scope, incoming.kind, incoming.id)
JOIN objects AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
WHERE event.outcome = 'done'
  AND mine.digest IS NOT NULL
  AND mine.read_from > named.wanted;

-- name: ask_run_objects
-- Say that this run waits for these objects to be read.
INSERT INTO run_objects AS mine (run_id, source, scope, kind, id, wanted, event_id, changed_at)
SELECT %(run_id)s, incoming.source, incoming.scope, incoming.kind, incoming.id, incoming.wanted, incoming.event_id,
       incoming.changed_at
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(wanted)b::bigint[],
            %(event_id)b::text[], %(changed_at)b::timestamptz[])
    AS incoming(source, scope, kind, id, wanted, event_id, changed_at)
ORDER BY incoming.source, incoming.scope, incoming.kind, incoming.id
ON CONFLICT (run_id, source, scope, kind, id) DO UPDATE SET
    wanted     = GREATEST(mine.wanted, excluded.wanted),
    event_id   = COALESCE(mine.event_id, excluded.event_id),
    changed_at = GREATEST(mine.changed_at, excluded.changed_at),
    verdict    = NULL;

-- name: ask_due
-- Let this run wait for what was due of its kinds when it began.
INSERT INTO run_objects (run_id, source, scope, kind, id, wanted)
SELECT %(run_id)s, mine.source, mine.scope, mine.kind, mine.id, mine.wanted
FROM unnest(%(source)b::text[], %(kind)b::text[]) AS incoming(source, kind)
JOIN refetches AS mine ON (mine.source, mine.kind) = (incoming.source, incoming.kind)
WHERE mine.wanted > mine.done AND mine.dead_at IS NULL AND mine.due_at <= clock_timestamp()
ORDER BY mine.source, mine.scope, mine.kind, mine.id
ON CONFLICT DO NOTHING;

-- name: asking_runs
-- The runs that wait for a read of this object, be it a later one: they found it wrong all the same.
SELECT asked.run_id, asked.changed_at, asked.event_id
FROM run_objects AS asked
WHERE (asked.source, asked.scope, asked.kind, asked.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND asked.verdict IS NULL
ORDER BY asked.run_id;

-- name: answer_runs
-- Tell the runs that wait for a read of this object what it came to.
UPDATE run_objects AS asked SET verdict = %(verdict)s
WHERE (asked.source, asked.scope, asked.kind, asked.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND asked.verdict IS NULL
  AND asked.wanted <= %(wanted)s;

-- name: defer_runs
-- Let the runs that wait for a read of this object wait for its reread.
UPDATE run_objects AS asked SET wanted = %(later)s
WHERE (asked.source, asked.scope, asked.kind, asked.id) = (%(source)s, %(scope)s, %(kind)s, %(id)s)
  AND asked.verdict IS NULL
  AND asked.wanted <= %(wanted)s;

-- name: left_in_run
-- What this run still waits for, by source and kind: how many, when the next is due, how many are dead, and whether the
-- source or the scope is paused, or the kind refused. What somebody has leased is being read: the lease does not put it off.
SELECT asked.source, asked.kind, count(*) AS open,
       count(*) FILTER (WHERE mine.dead_at IS NOT NULL) AS dead,
       count(*) FILTER (WHERE mine.done >= asked.wanted) AS read,
       count(*) FILTER (WHERE EXISTS (
           SELECT FROM pauses
           WHERE pauses.source = asked.source AND pauses.scope IN ('', asked.scope) AND pauses.until > clock_timestamp()
       ) OR EXISTS (
           SELECT FROM refused_kinds AS refused
           WHERE (refused.source, refused.scope, refused.kind) = (asked.source, asked.scope, asked.kind)
             AND refused.until > clock_timestamp() AND refused.until <= clock_timestamp() + interval '1 hour'
       )) AS paused,
       min(LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at))
           FILTER (WHERE mine.dead_at IS NULL) AS next_at,
       clock_timestamp() AS now
FROM run_objects AS asked
LEFT JOIN refetches AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (asked.source, asked.scope, asked.kind, asked.id)
WHERE asked.run_id = %(run_id)s AND asked.verdict IS NULL
GROUP BY asked.source, asked.kind;

-- name: answer_read
-- Answer those of this run's objects that somebody else's read covers, or that are dead.
UPDATE run_objects AS asked SET verdict = CASE WHEN mine.dead_at IS NOT NULL THEN 'dead' ELSE COALESCE(mine.verdict, 'unchanged') END
FROM refetches AS mine
WHERE asked.run_id = %(run_id)s
  AND asked.verdict IS NULL
  AND (mine.source, mine.scope, mine.kind, mine.id) = (asked.source, asked.scope, asked.kind, asked.id)
  AND (mine.done >= asked.wanted OR mine.dead_at IS NOT NULL);

-- name: lease_in_run
-- Lease a due refetch of one kind that this run waits for. At most one row, as of `lease`.
WITH due AS MATERIALIZED (
    SELECT mine.source, mine.scope, mine.kind, mine.id
    FROM run_objects AS asked
    JOIN refetches AS mine
        ON (mine.source, mine.scope, mine.kind, mine.id) = (asked.source, asked.scope, asked.kind, asked.id)
    WHERE asked.run_id = %(run_id)s
      AND asked.source = %(source)s
      AND asked.kind = %(kind)s
      AND asked.verdict IS NULL
      AND mine.dead_at IS NULL
      AND LEAST(CASE WHEN mine.wanted > mine.done THEN mine.due_at END, mine.again_at) <= clock_timestamp()
      AND (mine.leased_until IS NULL OR mine.leased_until <= clock_timestamp())
      AND NOT EXISTS (
          SELECT FROM pauses
          WHERE pauses.source = mine.source AND pauses.scope IN ('', mine.scope) AND pauses.until > clock_timestamp()
      )
      AND NOT EXISTS (
          SELECT FROM refused_kinds AS refused
          WHERE (refused.source, refused.scope, refused.kind) = (mine.source, mine.scope, mine.kind)
            AND refused.until > clock_timestamp() AND refused.until <= clock_timestamp() + interval '1 hour'
      )
      AND NOT EXISTS (
          SELECT FROM shapes WHERE shapes.source = mine.source AND shapes.kind = mine.kind AND shapes.n > %(n)s
      )
    LIMIT 1
    FOR UPDATE OF mine SKIP LOCKED
)
UPDATE refetches AS mine SET
    leased_until  = clock_timestamp() + %(lease)s::interval,
    lease_token   = gen_random_uuid(),
    leased_wanted = mine.wanted
FROM due
WHERE (mine.source, mine.scope, mine.kind, mine.id) = (due.source, due.scope, due.kind, due.id)
RETURNING mine.source, mine.scope, mine.kind, mine.id, mine.wanted,
          CASE WHEN mine.wanted > mine.done THEN mine.reason ELSE 'reread' END AS reason, mine.locator::text AS locator,
          mine.seen::text AS seen, mine.lease_token, mine.attempts, mine.last_error,
          nextval('positions') AS read_from, clock_timestamp() AS began_at,
          EXISTS (
              SELECT FROM refused_kinds AS refused
              WHERE (refused.source, refused.scope, refused.kind) = (mine.source, mine.scope, mine.kind)
          ) AS refused;

-- name: run_verdicts
-- What became of this run's wanted objects, counted.
SELECT source, scope, kind, COALESCE(verdict, 'unfinished') AS verdict, count(*) AS objects
FROM run_objects
WHERE run_id = %(run_id)s
GROUP BY source, scope, kind, COALESCE(verdict, 'unfinished');

-- name: living_ids
-- The ids of the living rows of one kind and scope, in pieces: those after this id, and only rows read before this
-- position.
SELECT id
FROM objects
WHERE source = %(source)s AND kind = %(kind)s AND scope = %(scope)s AND deleted_at IS NULL AND id > %(after)s
  AND read_until < %(before)s
ORDER BY id
LIMIT %(limit)s;

-- name: unfinished_ids
-- The ids of the living rows of one kind and scope whose body shows one of these values at this path: those that were
-- read before this position, the one read longest ago first.
SELECT id
FROM objects
WHERE source = %(source)s AND kind = %(kind)s AND scope = %(scope)s AND deleted_at IS NULL
  AND body #>> %(path)b::text[] = ANY(%(values)b::text[])
  AND read_until < %(before)s
ORDER BY read_until, id
LIMIT %(limit)s;

-- name: insert_drift
-- Put drift on record.
INSERT INTO drift (run_id, found_at, source, scope, kind, id, what, cause, diff, repaired_at)
SELECT %(run_id)s, clock_timestamp(), source, scope, kind, id, what, cause, diff::jsonb,
       CASE WHEN %(repaired)s THEN clock_timestamp() END
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[], %(what)b::text[],
            %(cause)b::text[], %(diff)b::text[])
    AS incoming(source, scope, kind, id, what, cause, diff);

-- name: settle_causes
-- Say why each drift of this run came about, now that the run has seen everything. A hand edit is known when it is
-- found; of the others the first that holds: an event was pending, a write of the state was declined, a deletion was
-- never told, a change was told by the feed or must have been, and no notification of it was received.
UPDATE drift AS mine SET cause = CASE
    WHEN EXISTS (
        SELECT FROM event_objects AS named
        JOIN webhook_events AS event ON (event.source, event.event_id) = (named.source, named.event_id)
        WHERE (named.source, named.scope, named.kind, named.id) = (mine.source, mine.scope, mine.kind, mine.id)
          AND event.received_at < mine.found_at
          AND (event.processed_at IS NULL OR event.processed_at >= mine.found_at OR event.outcome = 'dead')
    ) THEN 'notification_pending'
    WHEN EXISTS (
        SELECT FROM declined_writes AS declined
        WHERE (declined.source, declined.scope, declined.kind, declined.id) = (mine.source, mine.scope, mine.kind, mine.id)
          AND declined.run_id IS DISTINCT FROM mine.run_id
          AND declined.at < mine.found_at
          AND declined.at > COALESCE((
              SELECT max(history.at) FROM object_history AS history
              WHERE (history.source, history.scope, history.kind, history.id)
                  = (mine.source, mine.scope, mine.kind, mine.id)
                AND history.at < declined.at
          ), '-infinity')
          AND NOT EXISTS (
              SELECT FROM object_history AS history
              WHERE (history.source, history.scope, history.kind, history.id)
                  = (mine.source, mine.scope, mine.kind, mine.id)
                AND history.at > declined.at AND history.at < mine.found_at
                AND history.run_id IS DISTINCT FROM mine.run_id
          )
    ) THEN 'declined_write'
    WHEN mine.what = 'extra' THEN 'missed_deletion'
    WHEN mine.what = 'missing' THEN 'missed_notification'
    WHEN EXISTS (
        SELECT FROM run_objects AS asked
        WHERE asked.run_id = mine.run_id
          AND (asked.source, asked.scope, asked.kind, asked.id) = (mine.source, mine.scope, mine.kind, mine.id)
          AND asked.event_id IS NOT NULL
          AND NOT EXISTS (
              SELECT FROM webhook_events AS event
              WHERE (event.source, event.event_id) = (asked.source, asked.event_id)
          )
    ) THEN 'missed_notification'
    ELSE 'other'
END
WHERE mine.run_id = %(run_id)s AND mine.cause = 'other';

-- name: run_drift
-- How many rows had drifted, and how many of them the run put right, by why.
SELECT source, kind, cause, count(*) AS objects, count(repaired_at) AS repaired
FROM drift
WHERE run_id = %(run_id)s
GROUP BY source, kind, cause;

-- name: stored_rows
-- The rows of these keys, unlocked, for comparing without writing.
SELECT mine.source, mine.scope, mine.kind, mine.id, mine.source_updated_at, mine.digest, mine.deleted_at,
       mine.body::text AS body, mine.read_until
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[]) AS incoming(source, scope, kind, id)
JOIN objects AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id);

-- name: open_events_of
-- When that happened which the open events of these objects tell.
SELECT named.source, named.scope, named.kind, named.id, event.occurred_at
FROM unnest(%(source)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[]) AS incoming(source, scope, kind, id)
JOIN event_objects AS named
    ON (named.source, named.scope, named.kind, named.id)
     = (incoming.source, incoming.scope, incoming.kind, incoming.id)
JOIN webhook_events AS event ON (event.source, event.event_id) = (named.source, named.event_id)
WHERE event.outcome IS NULL;

-- name: newest_shape
-- The number of the current shape of this kind.
SELECT COALESCE(max(n), 0) AS n FROM shapes WHERE source = %(source)s AND kind = %(kind)s;

-- name: pin_account
-- Pin the provider's account to the source at first contact; returns the account pinned.
INSERT INTO accounts AS mine (source, provider, account, pinned_at)
VALUES (%(source)s, %(provider)s, %(account)s, clock_timestamp())
ON CONFLICT (source) DO UPDATE SET source = mine.source
RETURNING mine.account;

-- name: loading_kinds
-- The kinds that these runs load for the first time.
SELECT kinds.source, kinds.kind
FROM runs, jsonb_to_recordset(COALESCE(runs.asked -> 'loading', '[]')) AS kinds(source text, kind text)
WHERE runs.id = ANY(%(run_ids)b::bigint[]);

-- name: count_left
-- How many objects this run still waits for. One row.
SELECT count(*) AS objects FROM run_objects WHERE run_id = %(run_id)s AND verdict IS NULL;

-- name: received_events
-- Those of these events that were received.
SELECT event_id FROM webhook_events WHERE source = %(source)s AND event_id = ANY(%(event_ids)b::text[]);
