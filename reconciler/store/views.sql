-- name: describe_sources
-- Say what these sources are.
INSERT INTO mirrored_sources AS mine (source, provider, production, kinds, since)
SELECT told.source, told.provider, told.production, told.kinds, clock_timestamp()
FROM jsonb_to_recordset(%(sources)s::jsonb) AS told(source text, provider text, production boolean, kinds text[])
ORDER BY told.source
ON CONFLICT (source) DO UPDATE SET
    provider   = excluded.provider,
    production = excluded.production,
    kinds      = excluded.kinds,
    since      = excluded.since
WHERE (mine.provider, mine.production, mine.kinds) IS DISTINCT FROM (excluded.provider, excluded.production, excluded.kinds);

-- name: typed_views
-- The views that were made here, and whether they are there still.
SELECT name, provider, kind, columns::text AS columns, definition,
       to_regclass(quote_ident(current_schema()) || '.' || quote_ident(name)) IS NOT NULL AS stands
FROM typed_views;

-- name: stranger
-- Whether there is a relation of this name in our schema. One row.
SELECT to_regclass(quote_ident(current_schema()) || '.' || quote_ident(%(name)s)) IS NOT NULL AS stands;

-- name: keep_view
-- Put on record how a view was made.
INSERT INTO typed_views AS mine (name, provider, kind, columns, definition, made_at)
VALUES (%(name)s, %(provider)s, %(kind)s, %(columns)s::jsonb, %(definition)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET
    columns    = excluded.columns,
    definition = excluded.definition,
    made_at    = excluded.made_at;

-- name: share_view
-- Let whoever may read the other views read this one.
SELECT share_view(%(name)s);

-- name: make_view
-- Show the living rows of a kind with its typed columns, of the sources whose rows are shown; of what its body calls a
-- test nothing, unless the session wants it. Filled in by psycopg's `sql.SQL`. It reads the tables by its owner's right,
-- so that a reader of views needs no other.
CREATE OR REPLACE VIEW {view} AS
SELECT mine.source, mine.scope, mine.id, mine.source_updated_at, mine.observed_at{columns}
FROM objects AS mine
WHERE mine.kind = {kind}
  AND mine.deleted_at IS NULL
  AND mine.source IN (SELECT known.source FROM shown_sources AS known WHERE known.provider = {provider} AND known.shown)
  AND ({test} IS DISTINCT FROM 'true' OR (SELECT current_setting('reconciler.test_rows', true) = 'on'));
