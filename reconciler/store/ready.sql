-- name: probe_inbox
-- Draw a position, which only a primary that takes writes allows, and say whether we may write to the inbox. One row.
SELECT nextval('positions') AS position, has_table_privilege('webhook_events', 'INSERT') AS allowed;
