-- name: marks
-- What marked the pages of this kind's last complete listing, in this shape.
SELECT address, mark::text AS mark
FROM validators
WHERE (source, scope, kind) = (%(source)s, %(scope)s, %(kind)s) AND shape = %(shape)s;

-- name: forget_marks
-- Let no page of this kind count as seen.
DELETE FROM validators WHERE (source, scope, kind) = (%(source)s, %(scope)s, %(kind)s);

-- name: keep_marks
-- Keep what marked the pages of a complete listing.
INSERT INTO validators (source, scope, kind, address, mark, shape)
SELECT %(source)s, %(scope)s, %(kind)s, address, mark::jsonb, %(shape)s
FROM unnest(%(address)b::text[], %(mark)b::text[]) AS incoming(address, mark);
