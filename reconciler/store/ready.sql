-- name: probe_inbox
-- Draw a position, which only a primary that takes writes allows, and say whether we may write all
-- that a delivery writes. One row.
SELECT nextval('positions') AS position,
       has_table_privilege('webhook_events', 'INSERT')
           AND has_table_privilege('webhook_events', 'UPDATE')
           AND has_table_privilege('event_objects', 'INSERT')
           AND has_table_privilege('event_objects', 'UPDATE')
           AND has_table_privilege('refetches', 'INSERT')
           AND has_table_privilege('refetches', 'UPDATE')
           AND has_table_privilege('declined_writes', 'INSERT') AS allowed;
