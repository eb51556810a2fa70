-- name: newest_rows
-- The objects of a kind whose rows were written last, with what a fetch has to know besides the id.
SELECT mine.scope, mine.id, wanted.locator::text AS locator
FROM objects AS mine
LEFT JOIN refetches AS wanted USING (source, scope, kind, id)
WHERE mine.source = %(source)s
  AND mine.kind = %(kind)s
  AND mine.deleted_at IS NULL
ORDER BY mine.applied_at DESC, mine.scope, mine.id
LIMIT %(limit)s;
