-- name: share_token
-- What there is of this source's token: itself, the seconds until it should be renewed and until it ends, and whether
-- this lease is now the one under which a new one is issued: it is taken where it is free and the token is missing or
-- should be renewed. A token of other credentials is dropped. Always one row.
INSERT INTO tokens AS mine (source, credential, leased_until, lease_token)
VALUES (%(source)s, %(credential)s, COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(hold)s::interval,
        %(lease)s::uuid)
ON CONFLICT (source) DO UPDATE SET
    credential                  = excluded.credential,
    (token, renew_at, ends_at)  = (SELECT mine.token, mine.renew_at, mine.ends_at
                                   WHERE mine.credential = excluded.credential),
    (leased_until, lease_token) = (
        SELECT CASE WHEN free THEN excluded.leased_until ELSE mine.leased_until END,
               CASE WHEN free THEN excluded.lease_token ELSE mine.lease_token END
        FROM (
            SELECT mine.credential <> excluded.credential
                OR (mine.token IS NULL OR mine.renew_at <= COALESCE(%(now)s::timestamptz, clock_timestamp()))
               AND (mine.leased_until IS NULL
                 OR mine.leased_until <= COALESCE(%(now)s::timestamptz, clock_timestamp())) AS free
        ) AS asked
    )
RETURNING token, lease_token = %(lease)s::uuid AS ours,
          EXTRACT(epoch FROM renew_at - COALESCE(%(now)s::timestamptz, clock_timestamp()))::float8 AS renew_in,
          EXTRACT(epoch FROM ends_at - COALESCE(%(now)s::timestamptz, clock_timestamp()))::float8 AS ends_in;

-- name: keep_token
-- Share a token that was issued under this lease, and end the lease. Touches no row if the lease was lost.
UPDATE tokens SET
    token        = %(token)s,
    renew_at     = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(fresh)s::interval,
    ends_at      = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(good)s::interval,
    leased_until = NULL,
    lease_token  = NULL
WHERE source = %(source)s
  AND lease_token = %(lease)s::uuid;

-- name: release_token
-- End a lease under which nothing was issued; it can be taken again after a rest. Touches no row if it was lost.
UPDATE tokens SET
    leased_until = COALESCE(%(now)s::timestamptz, clock_timestamp()) + %(rest)s::interval,
    lease_token  = NULL
WHERE source = %(source)s
  AND lease_token = %(lease)s::uuid;

-- name: forget_token
-- Drop this very token: the provider refused it. Touches no row if there is another by now.
UPDATE tokens SET token = NULL, renew_at = NULL, ends_at = NULL
WHERE source = %(source)s
  AND token = %(token)s;
