-- What the watchdog found that needs a person: one row for each thing, as long as it stands. `said_at` is when the log
-- told it last.
CREATE TABLE findings (
    source  text        NOT NULL,
    what    text        NOT NULL,
    about   text        NOT NULL,
    because text        NOT NULL,
    since   timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    said_at timestamptz NOT NULL,
    PRIMARY KEY (source, what, about),
    CONSTRAINT findings_what CHECK (what IN ('subscription_lost', 'silence', 'deprecated', 'version_drift'))
);

-- Events that a provider could not deliver and that were asked for again, or whose objects were wanted.
CREATE TABLE redeliveries (
    source   text        NOT NULL,
    event_id text        NOT NULL,
    times    int         NOT NULL DEFAULT 1,
    last_at  timestamptz NOT NULL,
    PRIMARY KEY (source, event_id)
);

-- Secrets of subscriptions that this program made, which their provider shows once. `name` is the source or endpoint
-- that they vouch for.
CREATE TABLE subscription_secrets (
    name         text        NOT NULL,
    subscription text        NOT NULL,
    secret       text        NOT NULL,
    made_at      timestamptz NOT NULL,
    PRIMARY KEY (name, subscription)
);
