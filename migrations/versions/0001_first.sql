-- Positions order reads: one number line for the whole mirror. CACHE 1, or a later read could hold an earlier number.
CREATE SEQUENCE positions AS bigint CACHE 1;

CREATE TABLE objects (
    source            text        NOT NULL,
    scope             text        NOT NULL DEFAULT '',
    kind              text        NOT NULL,
    id                text        NOT NULL,
    source_updated_at timestamptz,
    observed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    read_from         bigint      NOT NULL DEFAULT 0,
    read_until        bigint      NOT NULL DEFAULT 0,
    digest            text,
    shape             text        NOT NULL DEFAULT '0:',
    body              jsonb,
    deleted_at        timestamptz,
    PRIMARY KEY (source, scope, kind, id),
    CONSTRAINT objects_alive_has_body CHECK (body IS NOT NULL OR deleted_at IS NOT NULL)
);
CREATE INDEX objects_by_kind ON objects (source, kind, scope, id) WHERE deleted_at IS NULL;
CREATE INDEX objects_by_id ON objects (id);

CREATE TABLE webhook_events (
    source         text        NOT NULL,
    event_id       text        NOT NULL,
    event_type     text        NOT NULL,
    payload        jsonb       NOT NULL,
    headers        jsonb       NOT NULL,
    raw            bytea,
    occurred_at    timestamptz,
    received_at    timestamptz NOT NULL,
    processed_at   timestamptz,
    outcome        text,
    duplicates     int         NOT NULL DEFAULT 0,
    last_repeat_at timestamptz,
    last_error     text,
    secret         int         NOT NULL DEFAULT 1,
    PRIMARY KEY (source, event_id),
    CONSTRAINT webhook_events_outcome CHECK (outcome IN ('done', 'ahead', 'ignored', 'skipped', 'dead'))
);
CREATE INDEX webhook_events_received ON webhook_events (source, received_at);
CREATE INDEX webhook_events_open ON webhook_events (source, received_at) WHERE outcome IS NULL;

CREATE TABLE event_objects (
    source   text   NOT NULL,
    event_id text   NOT NULL,
    scope    text   NOT NULL DEFAULT '',
    kind     text   NOT NULL,
    id       text   NOT NULL,
    wanted   bigint NOT NULL,
    stamp    timestamptz,
    PRIMARY KEY (source, event_id, scope, kind, id)
);
CREATE INDEX event_objects_by_object ON event_objects (source, scope, kind, id, wanted);

CREATE TABLE refetches (
    source        text        NOT NULL,
    scope         text        NOT NULL DEFAULT '',
    kind          text        NOT NULL,
    id            text        NOT NULL,
    wanted        bigint      NOT NULL,
    done          bigint      NOT NULL DEFAULT 0,
    reason        text        NOT NULL,
    locator       jsonb,
    due_at        timestamptz NOT NULL,
    again_at      timestamptz,
    seen          jsonb,
    leased_until  timestamptz,
    lease_token   uuid,
    leased_wanted bigint,
    attempts      int         NOT NULL DEFAULT 0,
    last_error    text,
    dead_at       timestamptz,
    verdict       text,
    PRIMARY KEY (source, scope, kind, id),
    CONSTRAINT refetches_reason CHECK (reason IN ('webhook', 'sweep', 'trigger', 'replay', 'tie', 'reread', 'hand_edit'))
);
-- When a refetch is due: at due_at while something is wanted, at again_at for a reread, whichever comes first. A lane
-- each for sweeps and for all that is live: neither has to look through the other's.
CREATE INDEX refetches_due ON refetches (source, kind, (CASE WHEN reason = 'sweep' THEN 1 ELSE 0 END),
                                         (LEAST(CASE WHEN wanted > done THEN due_at END, again_at)))
    WHERE dead_at IS NULL AND (wanted > done OR again_at IS NOT NULL);
CREATE INDEX refetches_dead ON refetches (source, dead_at) WHERE dead_at IS NOT NULL;

CREATE TABLE declined_writes (
    seq                        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source                     text        NOT NULL,
    scope                      text        NOT NULL,
    kind                       text        NOT NULL,
    id                         text        NOT NULL,
    verdict                    text        NOT NULL,
    incoming_source_updated_at timestamptz,
    stored_source_updated_at   timestamptz,
    incoming_read_from         bigint,
    incoming_read_until        bigint,
    stored_read_from           bigint      NOT NULL,
    stored_read_until          bigint      NOT NULL,
    via                        text        NOT NULL,
    event_id                   text,
    run_id                     bigint,
    because                    text        NOT NULL DEFAULT '',
    at                         timestamptz NOT NULL,
    CONSTRAINT declined_writes_verdict CHECK (verdict IN ('declined', 'tied'))
);
CREATE INDEX declined_writes_by_object ON declined_writes (source, scope, kind, id, at);
CREATE INDEX declined_writes_at ON declined_writes (at);

CREATE TABLE object_history (
    seq               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source            text        NOT NULL,
    scope             text        NOT NULL,
    kind              text        NOT NULL,
    id                text        NOT NULL,
    what              text        NOT NULL,
    source_updated_at timestamptz,
    observed_at       timestamptz NOT NULL,
    changed           jsonb       NOT NULL,
    via               text        NOT NULL,
    event_id          text,
    run_id            bigint,
    at                timestamptz NOT NULL,
    CONSTRAINT object_history_what
        CHECK (what IN ('loaded', 'created', 'updated', 'deleted', 'restored', 'rewound', 'reshaped'))
);
CREATE INDEX object_history_by_object ON object_history (source, scope, kind, id, seq);

-- The form of a kind's bodies, numbered: the highest n is the current one.
CREATE TABLE shapes (
    source       text        NOT NULL,
    kind         text        NOT NULL,
    n            int         NOT NULL,
    digest       text        NOT NULL,
    activated_at timestamptz NOT NULL,
    PRIMARY KEY (source, kind, n)
);

CREATE TABLE runs (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger     text        NOT NULL,
    since       timestamptz,
    until       timestamptz,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    state       text        NOT NULL,
    dry_run     boolean     NOT NULL DEFAULT false,
    tallies     jsonb       NOT NULL DEFAULT '{}',
    because     text,
    asked       jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT runs_trigger CHECK (trigger IN ('nightly', 'light', 'catch_up', 'cli', 'http')),
    CONSTRAINT runs_state CHECK (state IN ('running', 'complete', 'incomplete', 'failed', 'abandoned'))
);
CREATE INDEX runs_started ON runs (started_at);

-- Who sweeps a kind now. A row that is not renewed in time is free to take: its holder is gone.
CREATE TABLE sweeps (
    source     text        NOT NULL,
    kind       text        NOT NULL,
    run_id     bigint      NOT NULL,
    since      timestamptz NOT NULL,
    held_until timestamptz NOT NULL,
    PRIMARY KEY (source, kind)
);

-- The objects a run wanted: what became of each is the run's to tell.
CREATE TABLE run_objects (
    run_id   bigint NOT NULL,
    source   text   NOT NULL,
    scope    text   NOT NULL,
    kind     text   NOT NULL,
    id       text   NOT NULL,
    wanted   bigint NOT NULL,
    event_id text,
    changed_at timestamptz,
    verdict  text,
    PRIMARY KEY (run_id, source, scope, kind, id)
);
CREATE INDEX run_objects_open ON run_objects (source, scope, kind, id) WHERE verdict IS NULL;
CREATE INDEX run_objects_left ON run_objects (run_id, source, kind) WHERE verdict IS NULL;

CREATE TABLE watermarks (
    source      text        NOT NULL,
    scope       text        NOT NULL DEFAULT '',
    kind        text        NOT NULL,
    swept_until timestamptz NOT NULL,
    PRIMARY KEY (source, scope, kind)
);

CREATE TABLE drift (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      bigint,
    found_at    timestamptz NOT NULL,
    source      text        NOT NULL,
    scope       text        NOT NULL,
    kind        text        NOT NULL,
    id          text        NOT NULL,
    what        text        NOT NULL,
    cause       text        NOT NULL,
    diff        jsonb       NOT NULL,
    repaired_at timestamptz,
    CONSTRAINT drift_what CHECK (what IN ('missing', 'differs', 'extra')),
    CONSTRAINT drift_cause CHECK (cause IN ('missed_notification', 'notification_pending', 'declined_write',
                                            'missed_deletion', 'hand_edit', 'other'))
);
CREATE INDEX drift_found ON drift (found_at);
CREATE INDEX drift_by_object ON drift (source, scope, kind, id, found_at);
CREATE INDEX drift_by_run ON drift (run_id);

-- What marked the pages of a kind's last complete listing (ETags): moved with the watermark, of one shape.
CREATE TABLE validators (
    source  text  NOT NULL,
    scope   text  NOT NULL DEFAULT '',
    kind    text  NOT NULL,
    address text  NOT NULL,
    mark    jsonb NOT NULL,
    shape   text  NOT NULL,
    PRIMARY KEY (source, scope, kind, address)
);

-- Sources and scopes that are left alone for a while, and why. Every pause ends by itself.
CREATE TABLE pauses (
    source  text        NOT NULL,
    scope   text        NOT NULL DEFAULT '',
    what    text        NOT NULL,
    because text        NOT NULL,
    since   timestamptz NOT NULL,
    until   timestamptz NOT NULL,
    times   int         NOT NULL DEFAULT 1,
    PRIMARY KEY (source, scope),
    CONSTRAINT pauses_what CHECK (what IN ('unavailable', 'access_lost'))
);

-- Token buckets, shared by all processes: `tokens` as of `at`, refilled by reading the clock.
CREATE TABLE budgets (
    source     text             NOT NULL,
    name       text             NOT NULL,
    tokens     double precision NOT NULL,
    reserve    double precision NOT NULL,
    at         timestamptz      NOT NULL,
    held_until timestamptz,
    PRIMARY KEY (source, name)
);

-- First contact pins the provider's account to the source.
CREATE TABLE accounts (
    source    text        PRIMARY KEY,
    provider  text        NOT NULL,
    account   text        NOT NULL,
    pinned_at timestamptz NOT NULL
);

-- The access token of a source whose provider issues them for a while, and who is having a new one issued. A secret: it
-- opens the account until it ends. Of other credentials than these (a digest) it counts for nothing.
CREATE TABLE tokens (
    source       text PRIMARY KEY,
    credential   text NOT NULL,
    token        text,
    renew_at     timestamptz,
    ends_at      timestamptz,
    leased_until timestamptz,
    lease_token  uuid
);

-- One row for each scheduled slot (`nightly` and a local date, `light` and an hour): whoever inserts it runs it.
CREATE TABLE slots (
    source     text        NOT NULL,
    job        text        NOT NULL,
    slot       text        NOT NULL,
    run_id     bigint,
    claimed_at timestamptz NOT NULL,
    held_until timestamptz NOT NULL,
    tries      int         NOT NULL DEFAULT 1,
    state      text        NOT NULL,
    PRIMARY KEY (source, job, slot),
    CONSTRAINT slots_state CHECK (state IN ('claimed', 'used', 'failed'))
);

-- Roles that one process at a time holds (the schedule's leader).
CREATE TABLE holders (
    role       text        PRIMARY KEY,
    holder     text        NOT NULL,
    held_until timestamptz NOT NULL
);

-- A write to `objects` that did not come from the guard: forget what the row claims to be, and look at the object again.
-- The guard marks its own transactions with the setting reconciler.guard; WHEN keeps this function out of its way.
CREATE FUNCTION want_edited(edited_source text, edited_scope text, edited_kind text, edited_id text) RETURNS void
    LANGUAGE sql SET search_path FROM CURRENT
AS $$
    INSERT INTO refetches AS mine (source, scope, kind, id, wanted, reason, due_at)
    VALUES (edited_source, edited_scope, edited_kind, edited_id, nextval('positions'), 'hand_edit', clock_timestamp())
    ON CONFLICT (source, scope, kind, id) DO UPDATE SET
        wanted   = GREATEST(nextval('positions'), mine.wanted + 1, mine.done + 1),
        reason   = 'hand_edit',
        due_at   = LEAST(mine.due_at, excluded.due_at),
        dead_at  = NULL,
        attempts = 0;
    SELECT pg_notify('reconciler_wanted', edited_source);
$$;

CREATE FUNCTION notice_hand_edit() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM want_edited(source, scope, kind, id) FROM objects ORDER BY source, scope, kind, id;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' AND (TG_OP = 'DELETE'
        OR (OLD.source, OLD.scope, OLD.kind, OLD.id) IS DISTINCT FROM (NEW.source, NEW.scope, NEW.kind, NEW.id))
    THEN
        PERFORM want_edited(OLD.source, OLD.scope, OLD.kind, OLD.id);
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    NEW.digest := NULL;
    NEW.shape := '0:';
    NEW.source_updated_at := NULL;
    NEW.read_from := nextval('positions');
    NEW.read_until := NEW.read_from;
    NEW.observed_at := clock_timestamp();
    NEW.applied_at := NEW.observed_at;
    -- `infinity` and the years before Christ are times that no program reads.
    IF NEW.deleted_at > NEW.observed_at OR NEW.deleted_at < timestamptz '0001-01-02 00:00:00+00' THEN
        NEW.deleted_at := NEW.observed_at;
    END IF;
    PERFORM want_edited(NEW.source, NEW.scope, NEW.kind, NEW.id);
    RETURN NEW;
END
$$;

CREATE TRIGGER hand_edit BEFORE INSERT OR UPDATE OR DELETE ON objects FOR EACH ROW
    WHEN (current_setting('reconciler.guard', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION notice_hand_edit();
CREATE TRIGGER hand_truncate BEFORE TRUNCATE ON objects FOR EACH STATEMENT
    EXECUTE FUNCTION notice_hand_edit();
