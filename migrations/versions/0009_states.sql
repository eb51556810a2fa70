-- The refetches of a kind that may not be read wait until then, each time in a row for longer, and are tried again.
ALTER TABLE refused_kinds ADD COLUMN times int NOT NULL DEFAULT 1;
ALTER TABLE refused_kinds ADD COLUMN until timestamptz NOT NULL DEFAULT '-infinity';

-- A provider said that our access to a source, or to a scope of it, has changed: somebody is to look, once for all that
-- was said. `what` is its word for it.
CREATE TABLE access_looks (
    source text        NOT NULL,
    scope  text        NOT NULL DEFAULT '',
    what   text        NOT NULL DEFAULT '',
    wanted bigint      NOT NULL,
    due_at timestamptz NOT NULL,
    PRIMARY KEY (source, scope)
);

-- `feed_outrun`: a kind was not swept for longer than its feed remembers.
ALTER TABLE findings DROP CONSTRAINT findings_what;
ALTER TABLE findings ADD CONSTRAINT findings_what
    CHECK (what IN ('subscription_lost', 'silence', 'deprecated', 'version_drift', 'feed_outrun'));
