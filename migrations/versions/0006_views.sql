-- What each source is, as the program that read it last was configured. `production`: it shows what is real, not what a
-- provider keeps for tests.
CREATE TABLE mirrored_sources (
    source     text        PRIMARY KEY,
    provider   text        NOT NULL,
    production boolean     NOT NULL,
    kinds      text[]      NOT NULL,
    since      timestamptz NOT NULL
);

INSERT INTO mirrored_sources (source, provider, production, kinds, since)
SELECT mine.source, mine.provider,
       COALESCE(
           (SELECT objects.body -> 'livemode' = 'true'
            FROM objects
            WHERE objects.source = mine.source AND objects.body ? 'livemode'
            LIMIT 1),
           mine.provider <> 'stripe'
       ),
       COALESCE((SELECT array_agg(DISTINCT shapes.kind) FROM shapes WHERE shapes.source = mine.source), '{}'),
       mine.pinned_at
FROM accounts AS mine;

-- How the newest run that swept a kind of a scope ended there. `listed_in` is the newest such run that listed every
-- scope: a light pass may leave out those in which nothing moved.
CREATE TABLE swept (
    source    text        NOT NULL,
    scope     text        NOT NULL DEFAULT '',
    kind      text        NOT NULL,
    run_id    bigint      NOT NULL,
    listed_in bigint,
    state     text        NOT NULL,
    began_at  timestamptz NOT NULL,
    PRIMARY KEY (source, scope, kind)
);

-- The views of kinds that were made here, with their columns in the order in which they came; a column never goes.
CREATE TABLE typed_views (
    name       text        PRIMARY KEY,
    provider   text        NOT NULL,
    kind       text        NOT NULL,
    columns    jsonb       NOT NULL,
    definition text        NOT NULL,
    made_at    timestamptz NOT NULL
);

-- What a run says of each kind and scope it swept, one row each. A light pass sums up the scopes that it did not list in
-- a line that has neither a window nor a watermark: that is left out.
CREATE FUNCTION told_by_run(of_run bigint) RETURNS TABLE (source text, scope text, kind text, state text)
    LANGUAGE sql STABLE SET search_path FROM CURRENT
AS $$
    SELECT told.source, told.scope, told.kind, max(CASE told.state WHEN 'running' THEN run.state ELSE told.state END)
    FROM runs AS run
    CROSS JOIN LATERAL jsonb_to_recordset(COALESCE(run.tallies -> 'kinds', '[]'))
        AS told(source text, scope text, kind text, state text, since text)
    WHERE run.id = of_run
      AND NOT (
          COALESCE((run.asked ->> 'light')::boolean, false)
          AND told.scope = '' AND told.state = 'complete' AND told.since IS NULL
          AND NOT EXISTS (
              SELECT FROM watermarks AS mark
              WHERE (mark.source, mark.scope, mark.kind) = (told.source, told.scope, told.kind)
          )
      )
    GROUP BY told.source, told.scope, told.kind
$$;

-- Note how a run that has ended swept its kinds. One that could not tell the scopes of a kind says so of the scope '':
-- that is over with the first run that can.
CREATE FUNCTION note_run(of_run bigint) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM swept AS mine
    WHERE mine.scope = ''
      AND EXISTS (
          SELECT FROM runs AS run, jsonb_to_recordset(run.tallies -> 'kinds') AS told(source text, kind text)
          WHERE run.id = of_run AND (told.source, told.kind) = (mine.source, mine.kind)
      )
      AND NOT EXISTS (
          SELECT FROM told_by_run(of_run) AS told WHERE (told.source, told.scope, told.kind) = (mine.source, '', mine.kind)
      );
    INSERT INTO swept AS mine (source, scope, kind, run_id, listed_in, state, began_at)
    SELECT told.source, told.scope, told.kind, run.id,
           CASE WHEN run.state IN ('complete', 'incomplete')
                 AND NOT COALESCE((run.asked ->> 'light')::boolean, false) THEN run.id END,
           told.state, run.started_at
    FROM runs AS run
    CROSS JOIN told_by_run(of_run) AS told
    WHERE run.id = of_run
    ORDER BY told.source, told.scope, told.kind
    ON CONFLICT (source, scope, kind) DO UPDATE SET
        run_id    = excluded.run_id,
        listed_in = COALESCE(excluded.listed_in, mine.listed_in),
        state     = excluded.state,
        began_at  = excluded.began_at
    WHERE mine.run_id <= excluded.run_id;
END
$$;

CREATE FUNCTION note_ended_run() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM note_run(NEW.id);
    RETURN NULL;
END
$$;

CREATE TRIGGER ended AFTER UPDATE OF state ON runs FOR EACH ROW
    WHEN (OLD.state = 'running' AND NEW.state <> 'running' AND NOT NEW.dry_run)
    EXECUTE FUNCTION note_ended_run();

DO $$
BEGIN
    PERFORM note_run(ended.id)
    FROM (
        SELECT id
        FROM (SELECT id FROM runs WHERE state <> 'running' AND NOT dry_run ORDER BY started_at DESC LIMIT 200) AS newest
        ORDER BY id
    ) AS ended;
END
$$;

-- The sources whose rows may be looked at, and which of them the views of kinds show: those in production. Of a provider
-- that has none here, the others are shown. `reconciler.test_rows`, a setting of the session, the role or the database,
-- shows them always (`on`) or never (`off`).
CREATE VIEW shown_sources AS
SELECT mine.source, mine.provider, mine.production, mine.kinds,
       CASE current_setting('reconciler.test_rows', true)
           WHEN 'on' THEN true
           WHEN 'off' THEN mine.production
           ELSE mine.production OR NOT EXISTS (
               SELECT FROM mirrored_sources AS other WHERE other.provider = mine.provider AND other.production
           )
       END AS shown
FROM mirrored_sources AS mine
WHERE NOT EXISTS (
    SELECT FROM sources AS known
    WHERE known.source = mine.source AND known.state IN ('removed', 'erased', 'renamed')
);

-- How far each kind of each scope can be relied on. `state` is how its newest sweep ended, or `never`; `left_out`: the
-- newest sweep of the kind does not know the scope any more. What is `loaded` was listed whole at least once.
CREATE VIEW coverages AS
WITH open AS (
    SELECT named.source, named.scope, named.kind, min(event.received_at) AS oldest
    FROM webhook_events AS event
    JOIN event_objects AS named ON (named.source, named.event_id) = (event.source, event.event_id)
    LEFT JOIN refetches AS asked
        ON (asked.source, asked.scope, asked.kind, asked.id) = (named.source, named.scope, named.kind, named.id)
    WHERE event.outcome IS NULL AND (asked.done IS NULL OR asked.done < named.wanted)
    GROUP BY named.source, named.scope, named.kind
), dead AS (
    SELECT source, scope, kind, count(*) AS objects
    FROM refetches
    WHERE dead_at IS NOT NULL
    GROUP BY source, scope, kind
), places AS (
    SELECT source, scope, kind FROM watermarks
    UNION
    SELECT source, scope, kind FROM swept
), listed AS (
    SELECT source, kind, max(listed_in) AS run_id FROM swept GROUP BY source, kind
), wanted AS (
    SELECT mine.source, mine.provider, mine.production, mine.shown, places.scope, places.kind
    FROM shown_sources AS mine
    JOIN places ON places.source = mine.source
    UNION ALL
    SELECT mine.source, mine.provider, mine.production, mine.shown, '', kinds.kind
    FROM shown_sources AS mine
    CROSS JOIN LATERAL unnest(mine.kinds) AS kinds(kind)
    WHERE NOT EXISTS (SELECT FROM places WHERE (places.source, places.kind) = (mine.source, kinds.kind))
)
SELECT wanted.source, wanted.scope, wanted.kind, wanted.provider, wanted.production, wanted.shown,
       mark.swept_until,
       mark.swept_until IS NOT NULL AS loaded,
       swept.run_id AS last_run,
       CASE
           WHEN swept.run_id < listed.run_id THEN 'left_out'
           WHEN mark.swept_until > swept.began_at THEN 'complete'
           WHEN swept.run_id IS NOT NULL THEN swept.state
           WHEN mark.swept_until IS NOT NULL THEN 'complete'
           ELSE 'never'
       END AS state,
       open.oldest AS oldest_open,
       COALESCE(dead.objects, 0) AS dead
FROM wanted
LEFT JOIN watermarks AS mark ON (mark.source, mark.scope, mark.kind) = (wanted.source, wanted.scope, wanted.kind)
LEFT JOIN swept ON (swept.source, swept.scope, swept.kind) = (wanted.source, wanted.scope, wanted.kind)
LEFT JOIN listed ON (listed.source, listed.kind) = (wanted.source, wanted.kind)
LEFT JOIN open ON (open.source, open.scope, open.kind) = (wanted.source, wanted.scope, wanted.kind)
LEFT JOIN dead ON (dead.source, dead.scope, dead.kind) = (wanted.source, wanted.scope, wanted.kind);

-- How far a kind of a scope can be relied on; NULL, or nothing, means any. A kind may be written as its view is called.
CREATE FUNCTION coverage(of_source text DEFAULT NULL, of_scope text DEFAULT NULL, of_kind text DEFAULT NULL)
    RETURNS SETOF coverages
    LANGUAGE sql STABLE SET search_path FROM CURRENT
AS $$
    SELECT *
    FROM coverages AS mine
    WHERE (of_source IS NULL OR mine.source = of_source)
      AND (of_scope IS NULL OR mine.scope = of_scope)
      AND (of_kind IS NULL OR of_kind IN (mine.kind, mine.provider || '_' || mine.kind))
    ORDER BY mine.source, mine.scope, mine.kind
$$;

-- Return true, or refuse: an error says why where the rows of a kind may be older than this. Every source that the views
-- show must have been swept within that time, its newest sweep complete, and no older event about the kind may be open.
CREATE FUNCTION require_fresh(of_kind text, within interval, of_source text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT
AS $$
DECLARE
    oldest timestamptz := clock_timestamp() - within;
    places bigint;
    wrong  text[];
BEGIN
    IF of_kind IS NULL OR within IS NULL THEN
        RAISE EXCEPTION 'require_fresh needs a kind and an interval' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT count(*), COALESCE(array_agg(told.sentence) FILTER (WHERE told.sentence IS NOT NULL), '{}')
    INTO places, wrong
    FROM (
        SELECT CASE
                   WHEN mine.state NOT IN ('complete', 'never')
                       THEN format('the newest sweep of %s, run %s, is %s', place.name, mine.last_run, mine.state)
                   WHEN NOT mine.loaded THEN format('%s was never swept whole', place.name)
                   WHEN mine.swept_until < oldest
                       THEN format('%s is swept until %s only', place.name, mine.swept_until)
                   WHEN mine.oldest_open < oldest
                       THEN format('an event about %s is open since %s', place.name, mine.oldest_open)
               END AS sentence
        FROM coverage(of_source, NULL, of_kind) AS mine
        CROSS JOIN LATERAL (SELECT concat_ws('/', mine.source, NULLIF(mine.scope, ''), mine.kind) AS name) AS place
        WHERE mine.shown AND mine.state <> 'left_out'
        ORDER BY mine.source, mine.scope, mine.kind
    ) AS told;
    IF places = 0 THEN
        RAISE EXCEPTION 'no source that the views show mirrors %', concat_ws(' of ', of_kind, of_source)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'SELECT * FROM coverage() shows what is mirrored.';
    END IF;
    IF cardinality(wrong) > 0 THEN
        RAISE EXCEPTION '% is not fresh within %: %', of_kind, within,
            array_to_string(wrong[:3], '; ')
            || CASE WHEN cardinality(wrong) > 3 THEN format('; and %s more', cardinality(wrong) - 3) ELSE '' END
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = '`reconcile status` says what stands in the way.';
    END IF;
    RETURN true;
END
$$;

-- A JSON value as a column shows it: NULL where it does not fit, never an error. Numbers and times may be written as
-- strings; a time needs its zone. PL/pgSQL, because SQL functions that are not inlined cost several times as much.
CREATE FUNCTION as_text(value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
BEGIN
    RETURN CASE WHEN jsonb_typeof(value) IN ('string', 'number', 'boolean') THEN value #>> '{}' END;
END
$$;

CREATE FUNCTION as_boolean(value jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
BEGIN
    RETURN CASE value WHEN 'true' THEN true WHEN 'false' THEN false END;
END
$$;

CREATE FUNCTION as_numeric(value jsonb) RETURNS numeric
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        RETURN value::numeric;
    END IF;
    RETURN CASE WHEN length(value #>> '{}') <= 1000
                 AND value #>> '{}' ~ '^[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][+-]?[0-9]{1,3})?$'
                THEN (value #>> '{}')::numeric END;
END
$$;

CREATE FUNCTION as_bigint(value jsonb) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    number numeric;
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        number := value::numeric;
    ELSIF value #>> '{}' ~ '^[+-]?[0-9]{1,30}$' THEN
        number := (value #>> '{}')::numeric;
    END IF;
    RETURN CASE WHEN number = trunc(number) AND number BETWEEN -9223372036854775808 AND 9223372036854775807
                THEN number::bigint END;
END
$$;

-- Seconds since 1970, within the years that have four digits.
CREATE FUNCTION as_epoch(value jsonb) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    number numeric;
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        number := value::numeric;
    ELSIF value #>> '{}' ~ '^[+-]?[0-9]{1,30}([.][0-9]{0,30})?$' THEN
        number := (value #>> '{}')::numeric;
    END IF;
    RETURN CASE WHEN number BETWEEN -62135596800 AND 253402300799 THEN to_timestamp(number::double precision) END;
END
$$;

-- A day of the calendar, from the year 1 to 9999.
CREATE FUNCTION as_date(value jsonb) RETURNS date
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    written text := CASE WHEN jsonb_typeof(value) = 'string' THEN value #>> '{}' END;
BEGIN
    IF written ~ '^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$'
       AND substr(written, 1, 4) <> '0000'
       AND substr(written, 6, 5) NOT IN ('02-30', '02-31', '04-31', '06-31', '09-31', '11-31')
       AND (substr(written, 6, 5) <> '02-29' OR mod(substr(written, 1, 4)::int, 400) = 0
            OR (mod(substr(written, 1, 4)::int, 4) = 0 AND mod(substr(written, 1, 4)::int, 100) <> 0))
    THEN
        RETURN make_date(substr(written, 1, 4)::int, substr(written, 6, 2)::int, substr(written, 9)::int);
    END IF;
    RETURN NULL;
END
$$;

-- An instant as ISO 8601 writes it, from the year 1 to 9999. What has this form is read alike by every session.
CREATE FUNCTION as_timestamptz(value jsonb) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    written text := CASE WHEN jsonb_typeof(value) = 'string' THEN value #>> '{}' END;
BEGIN
    IF written ~ ('^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]'
                  '(?:[.][0-9]{1,12})?(?:Z|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)$')
       AND substr(written, 1, 4) <> '0000'
       AND substr(written, 6, 5) NOT IN ('02-30', '02-31', '04-31', '06-31', '09-31', '11-31')
       AND (substr(written, 6, 5) <> '02-29' OR mod(substr(written, 1, 4)::int, 400) = 0
            OR (mod(substr(written, 1, 4)::int, 4) = 0 AND mod(substr(written, 1, 4)::int, 100) <> 0))
    THEN
        RETURN written::timestamptz;
    END IF;
    RETURN NULL;
END
$$;

-- Any value but JSON's null.
CREATE FUNCTION as_jsonb(value jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
BEGIN
    RETURN NULLIF(value, 'null');
END
$$;

-- Let whoever may read `coverages` read a view of ours that is new.
CREATE FUNCTION share_view(view text) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT CASE allowed.grantee WHEN 0 THEN 'PUBLIC' ELSE allowed.grantee::regrole::text END
        FROM pg_class AS class, aclexplode(class.relacl) AS allowed
        WHERE class.oid = 'coverages'::regclass
          AND allowed.privilege_type = 'SELECT'
          AND allowed.grantee <> class.relowner
    LOOP
        EXECUTE format('GRANT SELECT ON %I TO %s', view, grantee);
    END LOOP;
END
$$;
