-- name: may_identify_server
-- Whether the server tells who it is. One row.
SELECT has_function_privilege('pg_control_system()', 'execute') AS permitted;

-- name: server_identity
-- What tells this server's data from any other's, and stays over restarts and failovers. One row.
SELECT system_identifier::text AS server FROM pg_control_system();

-- name: database_identity
-- What tells this database from others of its server. One row.
SELECT oid::text AS database FROM pg_database WHERE datname = current_database();

-- name: environment
-- Which environment this mirror belongs to. At most one row.
SELECT public_url, server, database, since FROM environment;

-- name: remember_environment
-- Note which environment this mirror belongs to, where that is not known; names a public URL where there was none.
INSERT INTO environment AS mine (public_url, server, database, since)
VALUES (%(public_url)s, %(server)s, %(database)s, clock_timestamp())
ON CONFLICT (one) DO UPDATE SET
    public_url = COALESCE(mine.public_url, excluded.public_url),
    server     = COALESCE(mine.server, excluded.server)
WHERE mine.public_url IS NULL AND excluded.public_url IS NOT NULL OR mine.server IS NULL AND excluded.server IS NOT NULL;

-- name: adopt_environment
-- Let this mirror belong to this environment from now on.
INSERT INTO environment AS mine (public_url, server, database, since)
VALUES (%(public_url)s, %(server)s, %(database)s, clock_timestamp())
ON CONFLICT (one) DO UPDATE SET
    public_url = excluded.public_url,
    server     = excluded.server,
    database   = excluded.database,
    since      = excluded.since;

-- name: applied_configuration
-- What was configured when a daemon last applied its configuration. At most one row.
SELECT applied_at, written::text AS written FROM configurations;

-- name: apply_configuration
-- Note what is configured from now on.
INSERT INTO configurations AS mine (applied_at, written)
VALUES (clock_timestamp(), %(written)s::jsonb)
ON CONFLICT (one) DO UPDATE SET
    applied_at = excluded.applied_at,
    written    = excluded.written;
