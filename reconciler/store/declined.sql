-- name: declined_notifications
-- The latest decline on record of each of these objects for the notification of this event.
SELECT DISTINCT ON (mine.source, mine.event_id, mine.scope, mine.kind, mine.id)
       mine.source, mine.event_id, mine.scope, mine.kind, mine.id, mine.incoming_source_updated_at,
       mine.stored_source_updated_at, mine.stored_read_from, mine.stored_read_until, mine.because
FROM unnest(%(source)b::text[], %(event_id)b::text[], %(scope)b::text[], %(kind)b::text[], %(id)b::text[])
    AS incoming(source, event_id, scope, kind, id)
JOIN declined_writes AS mine
    ON (mine.source, mine.scope, mine.kind, mine.id) = (incoming.source, incoming.scope, incoming.kind, incoming.id)
    AND mine.event_id = incoming.event_id
WHERE mine.via = 'payload'
ORDER BY mine.source, mine.event_id, mine.scope, mine.kind, mine.id, mine.seq DESC;
