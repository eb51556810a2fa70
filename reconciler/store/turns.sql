-- name: see_turn
-- When a kind of a scope last had its turn, and how far that came; from now on its turn is awaited. One row.
INSERT INTO turns AS mine (source, scope, kind, since) VALUES (%(source)s, %(scope)s, %(kind)s, %(now)s)
ON CONFLICT (source, scope, kind) DO UPDATE SET source = mine.source
RETURNING since, reached;

-- name: had_turn
-- Note that a kind of a scope was compared whole.
INSERT INTO turns AS mine (source, scope, kind, since, compared_at)
VALUES (%(source)s, %(scope)s, %(kind)s, %(now)s, %(now)s)
ON CONFLICT (source, scope, kind) DO UPDATE SET
    since       = GREATEST(mine.since, excluded.since),
    compared_at = GREATEST(mine.compared_at, excluded.compared_at),
    reached     = '';

-- name: reached_in_turn
-- Note how far the rows of a kind that no call lists have been read again; an empty id: to the end.
UPDATE turns SET
    since       = %(now)s,
    reached     = %(reached)s,
    compared_at = CASE WHEN %(reached)s = '' THEN %(now)s ELSE compared_at END
WHERE (source, scope, kind) = (%(source)s, %(scope)s, %(kind)s);

-- name: living_count
-- How many living rows one kind and scope has. One row.
SELECT count(*) AS objects
FROM objects
WHERE source = %(source)s AND kind = %(kind)s AND scope = %(scope)s AND deleted_at IS NULL;

-- name: standing_turns
-- When each kind of each scope of a source last had its turn; those left out that are not swept with the others any more.
SELECT found.scope, found.kind, found.since
FROM (
    SELECT mine.scope, mine.kind, mine.since, swept.swept_until,
           max(swept.swept_until) OVER (PARTITION BY mine.kind) AS latest
    FROM turns AS mine
    JOIN watermarks AS swept ON (swept.source, swept.scope, swept.kind) = (mine.source, mine.scope, mine.kind)
    WHERE mine.source = %(source)s
) AS found
WHERE found.swept_until > found.latest - interval '1 day';
