-- name: lock_spool
-- Lock what is noted of a spool, and return how far it has been moved. One row.
INSERT INTO spools AS mine (name, moved) VALUES (%(name)s, 0)
ON CONFLICT (name) DO UPDATE SET moved = mine.moved
RETURNING mine.moved;

-- name: note_moved
-- Note that a spool has been moved as far as this number.
UPDATE spools SET moved = GREATEST(moved, %(moved)s::bigint) WHERE name = %(name)s;
