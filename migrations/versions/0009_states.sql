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

-- How many calls were made each day (UTC) of what a provider allots by the month, and how many are allowed as far as that
-- was last found out. `source` is what the budget is shared under, as in `budgets`.
CREATE TABLE counted_calls (
    source text   NOT NULL,
    name   text   NOT NULL,
    day    date   NOT NULL,
    calls  bigint NOT NULL,
    PRIMARY KEY (source, name, day)
);
CREATE TABLE allotments (
    source text        NOT NULL,
    name   text        NOT NULL,
    calls  bigint      NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (source, name)
);
