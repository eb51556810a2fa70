-- What became of each source that was ever served here. `left_out`: the last configuration does not name it. Sources
-- that are not `live` keep their rows, which nothing keeps fresh, until somebody removes them with their rows.
CREATE TABLE sources (
    source     text        PRIMARY KEY,
    provider   text        NOT NULL DEFAULT '',
    state      text        NOT NULL,
    since      timestamptz NOT NULL,
    because    text        NOT NULL DEFAULT '',
    renamed_to text,
    CONSTRAINT sources_state CHECK (state IN ('live', 'left_out', 'removed', 'erased', 'renamed'))
);

-- Which environment this mirror belongs to: one row. A copy that finds itself elsewhere changes nothing until it is
-- adopted.
CREATE TABLE environment (
    one        boolean     PRIMARY KEY DEFAULT true,
    public_url text,
    server     text,
    database   text        NOT NULL,
    since      timestamptz NOT NULL,
    CONSTRAINT environment_one CHECK (one)
);

-- What was configured when a daemon last applied its configuration, without secrets: one row.
CREATE TABLE configurations (
    one        boolean     PRIMARY KEY DEFAULT true,
    applied_at timestamptz NOT NULL,
    written    jsonb       NOT NULL,
    CONSTRAINT configurations_one CHECK (one)
);

-- Kinds that the credential of a source may not read, as the last sweep of them found: one row for each, as long as it
-- stands.
CREATE TABLE refused_kinds (
    source  text        NOT NULL,
    scope   text        NOT NULL DEFAULT '',
    kind    text        NOT NULL,
    because text        NOT NULL,
    since   timestamptz NOT NULL,
    PRIMARY KEY (source, scope, kind)
);

-- `paused` is a person's: no read ends it. `suspended` and `uninstalled` are access lost whose reason the provider says.
ALTER TABLE pauses DROP CONSTRAINT pauses_what;
ALTER TABLE pauses ADD CONSTRAINT pauses_what
    CHECK (what IN ('unavailable', 'access_lost', 'suspended', 'uninstalled', 'paused'));

-- Every table that has rows of sources, in the order in which they are locked everywhere.
CREATE FUNCTION tables_of_sources() RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path FROM CURRENT
AS $$
    SELECT class.relname::text
    FROM pg_class AS class
    JOIN pg_attribute AS source ON source.attrelid = class.oid AND source.attname = 'source' AND NOT source.attisdropped
    WHERE class.relnamespace = current_schema()::regnamespace
      AND class.relkind IN ('r', 'p')
      AND NOT class.relispartition
      AND class.relname <> 'sources'
    ORDER BY array_position(ARRAY['webhook_events', 'event_objects', 'objects', 'refetches'], class.relname::text),
             class.relname
$$;

-- How many rows of a source each table has, those with none left out.
CREATE FUNCTION rows_of_source(of_source text) RETURNS TABLE (name text, held bigint)
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT
AS $$
BEGIN
    FOR name IN SELECT tables_of_sources() LOOP
        EXECUTE format('SELECT count(*) FROM %I WHERE source = $1', name) INTO held USING of_source;
        IF held > 0 THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Give every row of a source to another name; what runs say of it, too. The pause that keeps workers away stays.
CREATE FUNCTION rename_source(old_name text, new_name text) RETURNS bigint
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
DECLARE
    name  text;
    moved bigint;
    total bigint := 0;
BEGIN
    PERFORM set_config('reconciler.guard', 'on', true);
    FOR name IN SELECT tables_of_sources() LOOP
        CONTINUE WHEN name = 'pauses';
        EXECUTE format('UPDATE %I SET source = $2 WHERE source = $1', name) USING old_name, new_name;
        GET DIAGNOSTICS moved = ROW_COUNT;
        total := total + moved;
    END LOOP;
    UPDATE subscription_secrets AS mine SET name = new_name WHERE mine.name = old_name;
    UPDATE runs SET
        tallies = jsonb_set(tallies, '{kinds}', (
            SELECT jsonb_agg(CASE WHEN kind ->> 'source' = old_name
                                  THEN jsonb_set(kind, '{source}', to_jsonb(new_name)) ELSE kind END)
            FROM jsonb_array_elements(tallies -> 'kinds') AS kind
        ))
    WHERE tallies @> jsonb_build_object('kinds', jsonb_build_array(jsonb_build_object('source', old_name)));
    RETURN total;
END
$$;

-- Forget every row of a source; of what runs say, too. The pause that keeps workers away stays.
CREATE FUNCTION erase_source(of_source text) RETURNS bigint
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
DECLARE
    name  text;
    gone  bigint;
    total bigint := 0;
BEGIN
    PERFORM set_config('reconciler.guard', 'on', true);
    FOR name IN SELECT tables_of_sources() LOOP
        CONTINUE WHEN name = 'pauses';
        EXECUTE format('DELETE FROM %I WHERE source = $1', name) USING of_source;
        GET DIAGNOSTICS gone = ROW_COUNT;
        total := total + gone;
    END LOOP;
    DELETE FROM subscription_secrets AS mine WHERE mine.name = of_source;
    UPDATE runs SET
        tallies = jsonb_set(tallies, '{kinds}', COALESCE((
            SELECT jsonb_agg(kind)
            FROM jsonb_array_elements(tallies -> 'kinds') AS kind
            WHERE kind ->> 'source' <> of_source
        ), '[]')),
        because = NULL
    WHERE tallies @> jsonb_build_object('kinds', jsonb_build_array(jsonb_build_object('source', of_source)));
    RETURN total;
END
$$;

-- Give to its new name what was received under the old one while a source was being renamed: an event that is known
-- there is known, and every object that was wanted is wanted. How many rows there were.
CREATE FUNCTION follow_rename(old_name text, new_name text) RETURNS bigint
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
DECLARE
    moved bigint;
    total bigint := 0;
BEGIN
    WITH known AS (
        DELETE FROM webhook_events AS mine
        WHERE mine.source = old_name
          AND EXISTS (
              SELECT FROM webhook_events AS theirs
              WHERE (theirs.source, theirs.event_id) = (new_name, mine.event_id)
          )
        RETURNING mine.event_id
    )
    DELETE FROM event_objects AS named USING known WHERE (named.source, named.event_id) = (old_name, known.event_id);
    UPDATE webhook_events SET source = new_name WHERE source = old_name;
    GET DIAGNOSTICS moved = ROW_COUNT;
    total := total + moved;
    UPDATE event_objects SET source = new_name WHERE source = old_name;
    INSERT INTO refetches AS mine (source, scope, kind, id, wanted, reason, locator, due_at)
    SELECT new_name, left_over.scope, left_over.kind, left_over.id, left_over.wanted, left_over.reason,
           left_over.locator, left_over.due_at
    FROM refetches AS left_over
    WHERE left_over.source = old_name
    ORDER BY left_over.scope, left_over.kind, left_over.id
    ON CONFLICT (source, scope, kind, id) DO UPDATE SET
        wanted   = GREATEST(nextval('positions'), mine.wanted + 1, mine.done + 1),
        reason   = excluded.reason,
        locator  = COALESCE(excluded.locator, mine.locator),
        due_at   = LEAST(mine.due_at, excluded.due_at),
        dead_at  = NULL,
        attempts = 0;
    DELETE FROM refetches WHERE source = old_name;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN total + moved;
END
$$;
