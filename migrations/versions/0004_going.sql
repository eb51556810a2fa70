-- Since when the absence of an object is held back: too much of its kind was going at once. Its refetch stays open, far
-- ahead, until a person lets it go or it turns out to be there.
ALTER TABLE refetches ADD COLUMN held_at timestamptz;
CREATE INDEX refetches_held ON refetches (source, kind, scope) WHERE held_at IS NOT NULL;

-- A living row went, and nobody had said that it may: counted against what may go within an hour.
ALTER TABLE object_history ADD COLUMN counted boolean NOT NULL DEFAULT false;
CREATE INDEX object_history_counted ON object_history (source, kind, scope, at) WHERE counted;

-- One row for each kind and scope of which something went: locked by whoever lets more go, one at a time. `size` is how
-- many there were before the hour that ends at `sized_at`.
CREATE TABLE shares (
    source   text NOT NULL,
    scope    text NOT NULL DEFAULT '',
    kind     text NOT NULL,
    size     bigint,
    sized_at timestamptz,
    PRIMARY KEY (source, scope, kind)
);

-- A run has seen how much of the kind would go, and that so much may.
ALTER TABLE run_objects ADD COLUMN may_go boolean NOT NULL DEFAULT false;

-- When each kind of a scope last had its turn to be compared whole, besides what changed; `since` is also when it was
-- first seen. Of a kind that no call lists the rows have it, a few each night: up to the id `reached`, after which the
-- next turn goes on.
CREATE TABLE turns (
    source      text        NOT NULL,
    scope       text        NOT NULL DEFAULT '',
    kind        text        NOT NULL,
    since       timestamptz NOT NULL,
    reached     text        NOT NULL DEFAULT '',
    compared_at timestamptz,
    PRIMARY KEY (source, scope, kind)
);

-- Which number line the positions of this mirror are on, as the server knows it: one row.
CREATE TABLE number_line (
    one    boolean PRIMARY KEY DEFAULT true,
    server text    NOT NULL,
    CONSTRAINT number_line_one CHECK (one)
);

-- What a server's number line is: its system identifier and its timeline, which every failover and every restore to an
-- earlier time begin anew; null where it does not say.
CREATE FUNCTION line_of_server() RETURNS text
    LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (SELECT system_identifier::text FROM pg_control_system())
        || ':' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

-- See to it that positions go on beyond all that were drawn on another number line, be they lost with its last moments:
-- the reads under way then lie below every read that begins from now on. Asked by each new connection before it draws.
CREATE FUNCTION follow_line() RETURNS boolean
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
DECLARE
    line    text;
    highest bigint;
    moves   boolean;
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN false;
    END IF;
    line := line_of_server();
    IF line IS NULL OR EXISTS (SELECT FROM number_line WHERE server = line) THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('reconciler.positions', 0));
    IF EXISTS (SELECT FROM number_line WHERE server = line) THEN
        RETURN false;
    END IF;
    moves := EXISTS (SELECT FROM number_line);
    IF moves THEN
        SELECT GREATEST(
            (SELECT max(GREATEST(read_from, read_until)) FROM objects),
            (SELECT max(GREATEST(wanted, done)) FROM refetches),
            (SELECT last_value FROM positions)
        ) INTO highest;
        PERFORM setval('positions', highest + 1000000000);
    END IF;
    INSERT INTO number_line AS mine (server) VALUES (line) ON CONFLICT (one) DO UPDATE SET server = excluded.server;
    RETURN moves;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN false;  -- who may not write draws nothing
END
$$;
