-- What is never to come back, each object by a keyed hash from which nobody reads or guesses its id. `mention` is the hash
-- of the id alone, where it is long enough to mean nothing else; `related`: what is linked to it is not to come back
-- either. The name is that of the source, and no column `source`: what erases a source leaves these.
CREATE TABLE forgotten (
    name    text        NOT NULL,
    marker  text        NOT NULL,
    mention text,
    kind    text        NOT NULL,
    related boolean     NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (name, marker)
);
CREATE INDEX forgotten_mentions ON forgotten (name, mention);

-- What the hashes are keyed with, drawn when something is first forgotten: one row. Lost, what was forgotten comes back.
CREATE TABLE forgetting_key (
    one       boolean PRIMARY KEY DEFAULT true,
    inner_key bytea   NOT NULL,
    outer_key bytea   NOT NULL,
    CONSTRAINT forgetting_key_one CHECK (one)
);

-- What a provider asks us to forget, until the drain has: objects (`[{"kind", "id", "related"}]`), or the whole source.
CREATE TABLE erasures (
    source     text        NOT NULL,
    event_id   text        NOT NULL,
    whole      boolean     NOT NULL,
    objects    jsonb       NOT NULL,
    asked_at   timestamptz NOT NULL,
    due_at     timestamptz NOT NULL,
    last_error text,
    PRIMARY KEY (source, event_id)
);

-- The keyed hash of some words (HMAC's construction, with two keys that are drawn apart); null before anything was
-- forgotten.
CREATE FUNCTION marker_of(VARIADIC words text[]) RETURNS text
    LANGUAGE sql STABLE SET search_path FROM CURRENT
AS $$
    SELECT encode(
        sha256(key.outer_key || sha256(key.inner_key || convert_to(to_jsonb(words)::text, 'UTF8'))), 'hex'
    )
    FROM forgetting_key AS key
$$;

-- Which of these objects are forgotten, by their places in the list, and a row 0 if anything ever was. Until this
-- transaction ends, nothing else is forgotten: whoever writes asks first, in this way. Statements of their own: what was
-- forgotten while one waited counts.
CREATE FUNCTION forgotten_among(sources text[], scopes text[], kinds text[], ids text[], by_link boolean)
    RETURNS TABLE (place bigint)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('reconciler.forget', 0));
    IF NOT EXISTS (SELECT FROM forgotten) THEN
        RETURN;
    END IF;
    RETURN QUERY
        SELECT 0::bigint
        UNION ALL
        SELECT asked.place
        FROM unnest(sources, scopes, kinds, ids) WITH ORDINALITY AS asked(source, scope, kind, id, place)
        JOIN forgotten AS mine
            ON (mine.name, mine.marker) = (asked.source, marker_of(asked.scope, asked.kind, asked.id))
        WHERE mine.related OR NOT by_link;
END
$$;

-- Every table that holds rows of single objects, in the order in which they are locked everywhere.
CREATE FUNCTION tables_of_objects() RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path FROM CURRENT
AS $$
    SELECT name
    FROM tables_of_sources() WITH ORDINALITY AS every(name, place)
    WHERE (
        SELECT count(*) FROM pg_attribute AS part
        WHERE part.attrelid = every.name::regclass AND part.attname IN ('scope', 'kind', 'id') AND NOT part.attisdropped
    ) = 3
    ORDER BY place
$$;

-- Erase every copy of these objects of a source, and what these events said; leave a marker for each object. Waits until
-- everybody who writes is done, and lets nobody begin; gives way where a row is in use. How many rows of each table.
CREATE FUNCTION forget_objects(
    of_source text, scopes text[], kinds text[], ids text[], event_ids text[], now timestamptz
) RETURNS TABLE (name text, gone bigint)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
AS $$
DECLARE
    saying text[];
BEGIN
    PERFORM set_config('reconciler.guard', 'on', true);
    SELECT array_agg(event_id ORDER BY event_id) INTO saying FROM (
        SELECT unnest(event_ids) AS event_id
        UNION
        SELECT named.event_id
        FROM unnest(scopes, kinds, ids) AS asked(scope, kind, id)
        JOIN event_objects AS named
            ON (named.source, named.scope, named.kind, named.id) = (of_source, asked.scope, asked.kind, asked.id)
    ) AS every;
    PERFORM FROM webhook_events AS mine
    WHERE mine.source = of_source AND mine.event_id = ANY(saying)
    ORDER BY mine.event_id
    FOR UPDATE;
    UPDATE webhook_events AS mine SET payload = '{}', headers = '{}', raw = NULL, last_error = NULL
    WHERE mine.source = of_source AND mine.event_id = ANY(saying)
      AND (mine.payload <> '{}' OR mine.headers <> '{}' OR mine.raw IS NOT NULL OR mine.last_error IS NOT NULL);
    GET DIAGNOSTICS gone = ROW_COUNT;
    name := 'webhook_events';
    IF gone > 0 THEN
        RETURN NEXT;
    END IF;
    FOR name IN SELECT tables_of_objects() LOOP
        EXECUTE format(
            'DELETE FROM %I AS mine USING unnest($2, $3, $4) AS asked(scope, kind, id) '
            'WHERE (mine.source, mine.scope, mine.kind, mine.id) = ($1, asked.scope, asked.kind, asked.id)', name
        ) USING of_source, scopes, kinds, ids;
        GET DIAGNOSTICS gone = ROW_COUNT;
        IF gone > 0 THEN
            RETURN NEXT;
        END IF;
    END LOOP;
    -- Events that waited for nothing else have nothing left to wait for.
    UPDATE webhook_events AS mine SET outcome = 'skipped', processed_at = now
    WHERE mine.source = of_source AND mine.event_id = ANY(saying) AND COALESCE(mine.outcome, 'dead') = 'dead'
      AND NOT EXISTS (SELECT FROM erasures WHERE (erasures.source, erasures.event_id) = (mine.source, mine.event_id))
      AND NOT EXISTS (
          SELECT
          FROM event_objects AS named
          LEFT JOIN refetches AS asked
              ON (asked.source, asked.scope, asked.kind, asked.id) = (named.source, named.scope, named.kind, named.id)
          WHERE (named.source, named.event_id) = (mine.source, mine.event_id)
            AND named.wanted > COALESCE(asked.done, 0)
      );
    UPDATE turns AS mine SET reached = ''
    FROM unnest(scopes, kinds, ids) AS asked(scope, kind, id)
    WHERE (mine.source, mine.scope, mine.kind, mine.reached) = (of_source, asked.scope, asked.kind, asked.id);
    -- Sentences about failures may quote an id.
    UPDATE runs AS mine SET
        because = replace(mine.because, asked.id, 'what is forgotten'),
        tallies = replace(mine.tallies::text, asked.id, 'what is forgotten')::jsonb
    FROM unnest(ids) AS asked(id)
    WHERE length(asked.id) >= 6 AND asked.id ~ '^[\w-]+$'
      AND (strpos(mine.because, asked.id) > 0 OR strpos(mine.tallies::text, asked.id) > 0);
    UPDATE findings AS mine SET because = replace(mine.because, asked.id, 'what is forgotten')
    FROM unnest(ids) AS asked(id)
    WHERE mine.source = of_source AND length(asked.id) >= 6 AND strpos(mine.because, asked.id) > 0;
    UPDATE pauses AS mine SET because = replace(mine.because, asked.id, 'what is forgotten')
    FROM unnest(ids) AS asked(id)
    WHERE mine.source = of_source AND length(asked.id) >= 6 AND strpos(mine.because, asked.id) > 0;
    INSERT INTO forgetting_key (inner_key, outer_key)
    SELECT string_agg(uuid_send(gen_random_uuid()), ''::bytea) FILTER (WHERE part <= 4),
           string_agg(uuid_send(gen_random_uuid()), ''::bytea) FILTER (WHERE part > 4)
    FROM generate_series(1, 8) AS part
    ON CONFLICT DO NOTHING;
END
$$;

-- Give every row of a source to another name; what runs say of it, and what is forgotten of it, too. The pause that keeps
-- workers away stays.
CREATE OR REPLACE FUNCTION rename_source(old_name text, new_name text) RETURNS bigint
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
    DELETE FROM forgotten AS mine USING forgotten AS theirs
    WHERE (mine.name, theirs.name, theirs.marker) = (old_name, new_name, mine.marker);
    UPDATE forgotten AS mine SET name = new_name WHERE mine.name = old_name;
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
