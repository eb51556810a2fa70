-- Who may do what in schema {schema}. Safe to run again: before the first migration, and after it for the reader.
BEGIN;

-- The roles, where they are missing. Let them log in, or grant them to roles that do.
DO $grants$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY[{owner_name}, {writer_name}, {reader_name}] LOOP
        IF to_regrole(quote_ident(role)) IS NULL THEN
            EXECUTE format('CREATE ROLE %I', role);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role);
    END LOOP;
    IF NOT pg_has_role({owner_name}, 'MEMBER') THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', {owner_name});
    END IF;
END
$grants$;

-- {owner} owns the schema and all in it: `reconcile migrate` runs as this role.
CREATE SCHEMA IF NOT EXISTS {schema};
ALTER SCHEMA {schema} OWNER TO {owner};
DO $grants$
DECLARE
    change text;
BEGIN
    FOR change IN
        SELECT format('ALTER %s %s OWNER TO %I', kinds.word, class.oid::regclass, {owner_name})
        FROM pg_class AS class
        JOIN (VALUES ('r', 'TABLE'), ('p', 'TABLE'), ('v', 'VIEW'), ('S', 'SEQUENCE')) AS kinds(relkind, word)
            ON kinds.relkind = class.relkind::text
        WHERE class.relnamespace = {schema_name}::regnamespace
          AND NOT EXISTS (  -- a sequence of a column goes with its table
              SELECT FROM pg_depend AS depends
              WHERE (depends.classid, depends.objid) = ('pg_class'::regclass, class.oid)
                AND depends.deptype IN ('a', 'i') AND class.relkind = 'S'
          )
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO %I', routine.oid::regprocedure, {owner_name})
        FROM pg_proc AS routine
        WHERE routine.pronamespace = {schema_name}::regnamespace
    LOOP
        EXECUTE change;
    END LOOP;
END
$grants$;

-- {writer} changes every row, those apart that say how the schema was made.
-- The daemon and all other commands run as this role.
GRANT USAGE ON SCHEMA {schema} TO {writer};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {writer};
GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {writer};
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO {writer};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {writer};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}
    GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO {writer};
ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}
    GRANT EXECUTE ON ROUTINES TO {writer};
DO $grants$
DECLARE
    made text;
BEGIN
    FOREACH made IN ARRAY ARRAY['reconciler_version', 'typed_views'] LOOP
        IF to_regclass(format('%I.%I', {schema_name}, made)) IS NOT NULL AND {writer_name} <> {owner_name} THEN
            EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON %I.%I FROM %I', {schema_name}, made, {writer_name});
        END IF;
    END LOOP;
END
$grants$;

-- {reader} sees the mirror, its views and what became of it: no body of an event, no token, no secret.
GRANT USAGE ON SCHEMA {schema} TO {reader};
DO $grants$
DECLARE
    allowed text;
BEGIN
    IF to_regclass(format('%I.typed_views', {schema_name})) IS NULL THEN
        RAISE NOTICE 'the schema is not up to date: migrate it, then run this again for the reader';
        RETURN;
    END IF;
    FOR allowed IN
        EXECUTE format(
            'SELECT name FROM %I.typed_views WHERE to_regclass(format(''%%I.%%I'', %L, name)) IS NOT NULL',
            {schema_name}, {schema_name}
        )
    LOOP
        EXECUTE format('GRANT SELECT ON %I.%I TO %I', {schema_name}, allowed, {reader_name});
    END LOOP;
    FOREACH allowed IN ARRAY ARRAY[
        'coverages', 'shown_sources', 'objects', 'object_history', 'declined_writes', 'drift', 'runs', 'watermarks', 'swept',
        'event_objects', 'sources', 'mirrored_sources', 'pauses'
    ] LOOP
        EXECUTE format('GRANT SELECT ON %I.%I TO %I', {schema_name}, allowed, {reader_name});
    END LOOP;
    EXECUTE format(
        'GRANT SELECT (source, event_id, event_type, occurred_at, received_at, processed_at, outcome, duplicates, '
        'last_repeat_at, last_error) ON %I.webhook_events TO %I', {schema_name}, {reader_name}
    );
    FOR allowed IN
        SELECT routine.oid::regprocedure::text
        FROM pg_proc AS routine
        WHERE routine.pronamespace = {schema_name}::regnamespace
          AND (routine.proname IN ('coverage', 'require_fresh') OR routine.proname LIKE 'as\_%')
    LOOP
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', allowed, {reader_name});
    END LOOP;
END
$grants$;

COMMIT;
