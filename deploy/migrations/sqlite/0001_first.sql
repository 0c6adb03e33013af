-- Times are milliseconds since the Unix epoch. JSON is text. Ids are UUIDs (16 bytes).

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Workspaces and what their file declares -------------------------------------------

CREATE TABLE workspaces (
    id                 INTEGER PRIMARY KEY,
    name               TEXT NOT NULL UNIQUE,
    currency           TEXT NOT NULL,
    exchange_rates     TEXT NOT NULL DEFAULT '{}',
    time_zone          TEXT NOT NULL DEFAULT 'UTC',
    ip_allowlist       TEXT NOT NULL DEFAULT '[]',
    rate_limits        TEXT NOT NULL DEFAULT '{}',
    frequency_capping  TEXT NOT NULL DEFAULT '[]',
    export_users_limit BIGINT NOT NULL,
    export_bytes_limit BIGINT NOT NULL,
    s3_storage         UUID,
    azure_storage      UUID,
    azure_is_default   BOOLEAN NOT NULL DEFAULT FALSE,
    callback_secret    BYTEA NOT NULL,
    created_at         BIGINT NOT NULL
);

-- Never changed: an export keeps the storage it was asked for.
CREATE TABLE storages (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    kind         TEXT NOT NULL,
    config       BYTEA NOT NULL,
    created_at   BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    hash         BYTEA NOT NULL,
    permissions  TEXT NOT NULL,
    allow        TEXT NOT NULL DEFAULT '[]',
    declared     BOOLEAN NOT NULL,
    created_at   BIGINT NOT NULL,
    revoked_at   BIGINT,
    last_used_at BIGINT
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX api_keys_name ON api_keys (workspace_id, name) WHERE revoked_at IS NULL;

CREATE TABLE apps (
    id             UUID PRIMARY KEY,
    workspace_id   INTEGER NOT NULL REFERENCES workspaces (id),
    name           TEXT NOT NULL,
    platform       TEXT NOT NULL,
    bundle_id      TEXT,
    activity_types TEXT NOT NULL DEFAULT '[]'
);

-- slices: the hundreds of buckets that belong to the group, a JSON array of 0 to 99.
CREATE TABLE control_groups (
    segment_id   UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    percent      INTEGER NOT NULL,
    slices       TEXT NOT NULL,
    active       BOOLEAN NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX control_groups_active ON control_groups (workspace_id) WHERE active;

-- The dashboard -----------------------------------------------------------------------------

-- Users of the whole installation. name_key: what userName is found by, regardless of case;
-- declared_key: the one that the company document declares the user by, whatever the name is
-- now; NULL for others. doc: what was written of the user.
CREATE TABLE dashboard_users (
    id           UUID PRIMARY KEY,
    name_key     TEXT NOT NULL UNIQUE,
    declared_key TEXT UNIQUE,
    doc          TEXT NOT NULL,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    modified_at  BIGINT NOT NULL
);

CREATE TABLE scim_tokens (
    id           UUID PRIMARY KEY,
    name         TEXT NOT NULL,
    hash         BYTEA NOT NULL,
    allow        TEXT NOT NULL DEFAULT '[]',
    declared     BOOLEAN NOT NULL,
    created_at   BIGINT NOT NULL,
    revoked_at   BIGINT,
    last_used_at BIGINT
);
CREATE UNIQUE INDEX scim_tokens_hash ON scim_tokens (hash) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX scim_tokens_name ON scim_tokens (name) WHERE revoked_at IS NULL;

-- Users ------------------------------------------------------------------------------

-- The key keeps a slice's users together, in order of creation: 7 bits of slice, 42 of
-- milliseconds, 14 of sequence. An export then reads whole stretches of the file.
CREATE TABLE users (
    key           INTEGER PRIMARY KEY,
    slice         SMALLINT NOT NULL,
    workspace_id  INTEGER NOT NULL,
    service_id    UUID NOT NULL,
    external_id   TEXT,
    email         TEXT,
    attributes_at BIGINT NOT NULL,
    doc           TEXT NOT NULL
);
CREATE UNIQUE INDEX users_by_id ON users (slice, workspace_id, service_id);

-- One packed, versioned row a user; the key is that of the user.
CREATE TABLE activity (
    key          INTEGER PRIMARY KEY,
    slice        SMALLINT NOT NULL,
    workspace_id INTEGER NOT NULL,
    service_id   UUID NOT NULL,
    body         BYTEA NOT NULL
);

-- kind: 1 external_id, 2 alias (label, then name).
CREATE TABLE identifiers (
    workspace_id INTEGER NOT NULL,
    kind         SMALLINT NOT NULL,
    value        TEXT NOT NULL,
    service_id   UUID NOT NULL,
    PRIMARY KEY (workspace_id, kind, value)
) WITHOUT ROWID;

-- Hints, many to many: the profile says whether it still has the address.
CREATE TABLE emails (
    workspace_id INTEGER NOT NULL,
    email        TEXT NOT NULL,
    service_id   UUID NOT NULL,
    PRIMARY KEY (workspace_id, email, service_id)
) WITHOUT ROWID;

-- Who was erased lately, by a hash of an identifier: what was taken in before does not make
-- them anew.
CREATE TABLE erased (
    workspace_id INTEGER NOT NULL,
    who          BYTEA NOT NULL,
    erased_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, who)
) WITHOUT ROWID;

-- The products that a workspace lists, no more than it may.
CREATE TABLE products (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    product_id   TEXT NOT NULL,
    PRIMARY KEY (workspace_id, product_id)
) WITHOUT ROWID;

-- Catalogs -----------------------------------------------------------------------------

-- fields: a JSON array of name and type. items_hash: of the file that was loaded last, and load
-- its number. No id is given twice: messages of the log name a catalog by it.
CREATE TABLE catalogs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    fields       TEXT NOT NULL,
    items_hash   BYTEA,
    load         INTEGER NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    UNIQUE (workspace_id, name)
);

-- load: that which it came with last. version: counts its changes.
CREATE TABLE catalog_items (
    catalog_id INTEGER NOT NULL,
    item_id    TEXT NOT NULL,
    load       INTEGER NOT NULL,
    version    BIGINT NOT NULL,
    doc        TEXT NOT NULL,
    PRIMARY KEY (catalog_id, item_id)
);

-- What became of edits, a row for each message of a request, for three days. unknown: how many
-- ids the catalog does not have; unknown_ids: the first of them, a JSON array.
CREATE TABLE catalog_edits (
    catalog_id  INTEGER NOT NULL,
    request_id  TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    applied     INTEGER NOT NULL,
    unknown     INTEGER NOT NULL,
    unknown_ids TEXT NOT NULL,
    applied_at  BIGINT NOT NULL
);
CREATE INDEX catalog_edits_latest ON catalog_edits (catalog_id, received_at);

-- Campaigns and Canvases, scheduled sends ----------------------------------------------

-- kind: api, transactional, triggered, or canvas. number: the order in which they came to be,
-- the file's within an `apply`. content: what else is declared, a JSON object.
CREATE TABLE campaigns (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    id           UUID NOT NULL,
    number       BIGINT NOT NULL,
    kind         TEXT NOT NULL,
    name         TEXT NOT NULL,
    tags         TEXT NOT NULL,
    archived     BOOLEAN NOT NULL,
    paused       BOOLEAN NOT NULL,
    content      TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    edited_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
-- All that finds a page of the list.
CREATE INDEX campaigns_listed
    ON campaigns (workspace_id, created_at, number, id, kind, archived, edited_at);

-- What a workspace sends by. path: of the workspace file, such as providers.push. config: what
-- is declared there, JSON, sealed.
CREATE TABLE channels (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    path         TEXT NOT NULL,
    config       BYTEA NOT NULL,
    PRIMARY KEY (workspace_id, path)
);

-- Of SMS and WhatsApp. sender: the number that messages come from.
CREATE TABLE subscription_groups (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    id           UUID NOT NULL,
    channel      TEXT NOT NULL,
    sender       TEXT NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

CREATE TABLE segments (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    id           UUID NOT NULL,
    name         TEXT NOT NULL,
    audience     TEXT NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

-- timing: instant, or local or optimal: then time is that on the wall, as if in UTC. state:
-- pending, sent, missed, cancelled. request: to whom and with what, a JSON object. item: of the
-- claim, under the workspace's job. sent_at: when sending began; ended_at: when nothing was left
-- to begin. reached_at: moments up to this one are dealt with; missed_at: those up to this one
-- came too late. error: why it was missed.
CREATE TABLE schedules (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    dispatch_id  UUID NOT NULL UNIQUE,
    canvas_id    UUID,
    item         BIGINT NOT NULL,
    timing       TEXT NOT NULL,
    time         BIGINT NOT NULL,
    request      TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    state        TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    sent_at      BIGINT,
    ended_at     BIGINT,
    reached_at   BIGINT,
    missed_at    BIGINT,
    error        TEXT,
    UNIQUE (workspace_id, item)
);
CREATE INDEX schedules_latest ON schedules (created_at, id);
CREATE INDEX schedules_open ON schedules (workspace_id, canvas_id) WHERE ended_at IS NULL;
CREATE INDEX schedules_missed ON schedules (ended_at) WHERE state = 'missed';
CREATE INDEX schedules_pending ON schedules (time) WHERE state = 'pending';

-- Phone numbers that messages are not sent to, digits alone.
CREATE TABLE invalid_numbers (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    number       TEXT NOT NULL,
    reason       TEXT NOT NULL,
    added_at     BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, number)
) WITHOUT ROWID;

-- What users are shown in apps until it expires. id: made from that of the message, so that a
-- repeat is the same card. card: the message object, JSON.
CREATE TABLE content_cards (
    workspace_id INTEGER NOT NULL,
    service_id   UUID NOT NULL,
    id           UUID NOT NULL,
    dispatch_id  UUID NOT NULL,
    campaign_id  UUID,
    variation_id TEXT,
    card         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, service_id, id)
);
CREATE INDEX content_cards_expiry ON content_cards (expires_at);

-- Rows shared out among workers -------------------------------------------------------

-- due_at: not to be taken before; while a worker has it, the end of its lease.
CREATE TABLE claims (
    kind    TEXT NOT NULL,
    job     UUID NOT NULL,
    item    BIGINT NOT NULL,
    due_at  BIGINT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    owner   UUID,
    PRIMARY KEY (kind, job, item)
) WITHOUT ROWID;
CREATE INDEX claims_due ON claims (kind, due_at);
CREATE INDEX claims_due_of_job ON claims (kind, job, due_at, item);
CREATE INDEX claims_held ON claims (kind, job) WHERE owner IS NOT NULL;

-- Exports --------------------------------------------------------------------------------

CREATE TABLE export_jobs (
    id                UUID PRIMARY KEY,
    workspace_id      INTEGER NOT NULL REFERENCES workspaces (id),
    object_prefix     TEXT NOT NULL UNIQUE,
    segment_id        UUID NOT NULL,
    state             TEXT NOT NULL,
    fields            TEXT NOT NULL,
    format            TEXT NOT NULL,
    storage_id        UUID,
    callback_endpoint TEXT,
    request_id        TEXT NOT NULL,
    requested_at      BIGINT NOT NULL,
    queued_at         BIGINT NOT NULL,
    -- Times that planning began.
    plan_attempts     INTEGER NOT NULL DEFAULT 0,
    -- Fixed by the step from queued to running, never computed again.
    plan              TEXT,
    users             BIGINT,
    parts             BIGINT,
    -- How many rows count its parts, and how many of them have parts left.
    shards            BIGINT,
    shards_left       BIGINT,
    started_at        BIGINT,
    -- Set on entering `finishing`: the completion, whose UTC day dates the files.
    completed_at      BIGINT,
    finished_at       BIGINT,
    expires_at        BIGINT,
    -- The attempt at finishing that wrote the one ZIP behind `url`.
    archive           INTEGER,
    error             TEXT,
    error_detail      TEXT
);
CREATE INDEX export_jobs_latest ON export_jobs (workspace_id, requested_at, id);
CREATE INDEX export_jobs_queued ON export_jobs (queued_at)
    WHERE state IN ('queued', 'planning');
CREATE INDEX export_jobs_open ON export_jobs (requested_at) WHERE finished_at IS NULL;

-- How far a job has come, counted by its parts: part n in the shard n % shards, so that those who
-- count do not all wait for one row.
CREATE TABLE export_counts (
    job_id       UUID NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    shard        BIGINT NOT NULL,
    parts_left   BIGINT NOT NULL,
    users_done   BIGINT NOT NULL DEFAULT 0,
    files_done   BIGINT NOT NULL DEFAULT 0,
    bytes_done   BIGINT NOT NULL DEFAULT 0,
    broken_users BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, shard)
);

-- A part is the users after (from_slice, from_id) up to and with (to_slice, to_id).
CREATE TABLE export_parts (
    job_id     UUID NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    part       BIGINT NOT NULL,
    from_slice SMALLINT NOT NULL,
    from_id    UUID NOT NULL,
    to_slice   SMALLINT NOT NULL,
    to_id      UUID NOT NULL,
    attempt    INTEGER NOT NULL DEFAULT 0,
    done       BOOLEAN NOT NULL DEFAULT FALSE,
    users      BIGINT,
    raw_bytes  BIGINT,
    bytes      BIGINT,
    crc32      BIGINT,
    PRIMARY KEY (job_id, part)
);

-- Users whose stored document cannot be read, found while their part was read.
CREATE TABLE export_broken_users (
    job_id     UUID NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    service_id UUID NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (job_id, service_id)
);

-- Dispatches -------------------------------------------------------------------------------

-- What orders came to. order_json: the order, without the users that it names, which are in
-- their parts. segment: the audience of its segment, JSON, and youngest: the last user that
-- there was, both as its users were cut into parts first. is_whole: no other wave is to come.
-- plans_left: waves that are not cut into parts yet. note: what somebody should know of it.
CREATE TABLE dispatches (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    state        TEXT NOT NULL,
    campaign_id  UUID,
    order_json   TEXT NOT NULL,
    segment      TEXT,
    youngest     UUID,
    note         TEXT,
    is_whole     BOOLEAN NOT NULL,
    plans_left   BIGINT NOT NULL DEFAULT 0,
    users        BIGINT NOT NULL DEFAULT 0,
    parts        BIGINT NOT NULL DEFAULT 0,
    parts_left   BIGINT NOT NULL DEFAULT 0,
    request_id   TEXT NOT NULL,
    accepted_at  BIGINT NOT NULL,
    started_at   BIGINT,
    finished_at  BIGINT
);
CREATE INDEX dispatches_latest ON dispatches (accepted_at, id);
CREATE INDEX dispatches_oldest ON dispatches (workspace_id, finished_at);
CREATE INDEX dispatches_open ON dispatches (state, accepted_at) WHERE finished_at IS NULL;

-- number: the wave's time; 0 of one for everybody at once. wave: JSON.
CREATE TABLE dispatch_waves (
    dispatch_id UUID NOT NULL REFERENCES dispatches (id) ON DELETE CASCADE,
    number      BIGINT NOT NULL,
    wave        TEXT,
    PRIMARY KEY (dispatch_id, number)
) WITHOUT ROWID;

-- Either the users of named, a JSON array, whose claim is claim_job and claim_item; or those
-- after (at_slice, at_id), which moves, up to and with (to_slice, to_id). sent and so on: its
-- messages that came to that. unknown and so on: its users, and of unsubscribed and capped
-- messages, that were left out.
CREATE TABLE dispatch_parts (
    dispatch_id     UUID NOT NULL REFERENCES dispatches (id) ON DELETE CASCADE,
    part            BIGINT NOT NULL,
    wave            TEXT,
    named           TEXT,
    claim_job       UUID,
    claim_item      BIGINT,
    at_slice        SMALLINT NOT NULL,
    at_id           UUID NOT NULL,
    to_slice        SMALLINT NOT NULL,
    to_id           UUID NOT NULL,
    is_walked       BOOLEAN NOT NULL DEFAULT FALSE,
    is_done         BOOLEAN NOT NULL DEFAULT FALSE,
    walked          BIGINT NOT NULL DEFAULT 0,
    sent            BIGINT NOT NULL DEFAULT 0,
    unreachable     BIGINT NOT NULL DEFAULT 0,
    aborted         BIGINT NOT NULL DEFAULT 0,
    failed          BIGINT NOT NULL DEFAULT 0,
    bounced         BIGINT NOT NULL DEFAULT 0,
    unknown         BIGINT NOT NULL DEFAULT 0,
    not_in_audience BIGINT NOT NULL DEFAULT 0,
    control_group   BIGINT NOT NULL DEFAULT 0,
    unsubscribed    BIGINT NOT NULL DEFAULT 0,
    capped          BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (dispatch_id, part)
);
CREATE UNIQUE INDEX dispatch_parts_named ON dispatch_parts (claim_job, claim_item)
    WHERE claim_item IS NOT NULL;

-- A user's message by a channel: a row before it is a request. state: pending, waiting (for
-- another attempt at next_at), or what it came to.
CREATE TABLE messages (
    workspace_id INTEGER NOT NULL,
    service_id   UUID NOT NULL,
    dispatch_id  UUID NOT NULL,
    channel      TEXT NOT NULL,
    part         BIGINT NOT NULL,
    campaign_id  UUID,
    state        TEXT NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    next_at      BIGINT,
    sent_at      BIGINT,
    reason       TEXT,
    PRIMARY KEY (workspace_id, service_id, dispatch_id, channel)
) WITHOUT ROWID;
CREATE INDEX messages_of_part ON messages (dispatch_id, part);

-- variation_id: empty where the message named none.
CREATE TABLE campaign_statistics (
    workspace_id INTEGER NOT NULL,
    campaign_id  UUID NOT NULL,
    variation_id TEXT NOT NULL,
    channel      TEXT NOT NULL,
    sent         BIGINT NOT NULL DEFAULT 0,
    delivered    BIGINT NOT NULL DEFAULT 0,
    bounced      BIGINT NOT NULL DEFAULT 0,
    unreachable  BIGINT NOT NULL DEFAULT 0,
    aborted      BIGINT NOT NULL DEFAULT 0,
    failed       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, campaign_id, variation_id, channel)
) WITHOUT ROWID;

-- Sends to segments that came to an end, for the developer console. record: JSON.
CREATE TABLE console_log (
    dispatch_id  UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    at           BIGINT NOT NULL,
    record       TEXT NOT NULL
);
CREATE INDEX console_log_latest ON console_log (workspace_id, at);

-- Deliveries -------------------------------------------------------------------------------

-- follows: the delivery that must have ended before this one is offered.
CREATE TABLE deliveries (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    kind         TEXT NOT NULL,
    subject      TEXT NOT NULL,
    url          TEXT NOT NULL,
    body         TEXT NOT NULL,
    -- The job and the item of its claim.
    receiver     UUID NOT NULL,
    item         BIGINT NOT NULL,
    state        TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    retry_until  BIGINT NOT NULL,
    next_at      BIGINT,
    last_status  INTEGER,
    last_error   TEXT,
    finished_at  BIGINT,
    follows      UUID
);
CREATE INDEX deliveries_following ON deliveries (follows) WHERE follows IS NOT NULL;
CREATE INDEX deliveries_latest ON deliveries (created_at, id);
CREATE UNIQUE INDEX deliveries_claim ON deliveries (receiver, item);
CREATE INDEX deliveries_pending ON deliveries (retry_until) WHERE state = 'pending';
CREATE INDEX deliveries_given_up ON deliveries (finished_at) WHERE state = 'given_up';

-- Transactional emails -----------------------------------------------------------------------

-- state: processing, sent, processed, delivered, bounced, aborted, and state_at when it came to be.
-- recipient (JSON) and trigger_properties (a JSON object) are there until it is settled, attributes
-- until they are applied. due_at: not to be claimed before; while a worker has it, the end of the
-- lease. again_at: when its message is appended again, and appended how often it was. begun: how
-- often it was begun without a clean end. postback_id: the delivery of the last state that was told.
CREATE TABLE transactional_emails (
    dispatch_id        UUID PRIMARY KEY,
    workspace_id       INTEGER NOT NULL REFERENCES workspaces (id),
    campaign_id        UUID NOT NULL,
    external_send_id   TEXT,
    recipient          TEXT,
    attributes         TEXT,
    trigger_properties TEXT,
    request_id         TEXT NOT NULL,
    state              TEXT NOT NULL,
    state_at           BIGINT NOT NULL,
    reason             TEXT,
    service_id         UUID,
    received_at        BIGINT NOT NULL,
    enqueued_at        BIGINT NOT NULL,
    executed_at        BIGINT,
    sent_at            BIGINT,
    due_at             BIGINT NOT NULL,
    owner              UUID,
    again_at           BIGINT NOT NULL,
    appended           INTEGER NOT NULL DEFAULT 0,
    begun              INTEGER NOT NULL DEFAULT 0,
    put_off            INTEGER NOT NULL DEFAULT 0,
    postback_id        UUID
);
CREATE INDEX transactional_emails_waiting ON transactional_emails (again_at)
    WHERE state = 'processing';
CREATE INDEX transactional_emails_oldest ON transactional_emails (received_at)
    WHERE state = 'processing';
CREATE INDEX transactional_emails_received ON transactional_emails (received_at);
CREATE INDEX transactional_emails_of_user ON transactional_emails (workspace_id, service_id)
    WHERE service_id IS NOT NULL;

-- The external_send_ids of the last 24 hours, and whose they are.
CREATE TABLE transactional_keys (
    workspace_id     INTEGER NOT NULL REFERENCES workspaces (id),
    external_send_id TEXT NOT NULL,
    dispatch_id      UUID NOT NULL,
    taken_at         BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, external_send_id)
) WITHOUT ROWID;
CREATE INDEX transactional_keys_oldest ON transactional_keys (taken_at);

-- Messages -----------------------------------------------------------------------------------

-- appended_at tells a message from one at the same place in a log that was made anew.
CREATE TABLE dead_letters (
    id             UUID PRIMARY KEY,
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    position       BIGINT NOT NULL,
    appended_at    BIGINT NOT NULL,
    key            BYTEA NOT NULL,
    payload        BYTEA NOT NULL,
    request_id     TEXT NOT NULL,
    reason         TEXT NOT NULL,
    attempts       INTEGER NOT NULL,
    created_at     BIGINT NOT NULL,
    UNIQUE (consumer_group, topic, partition, position, appended_at)
);
CREATE INDEX dead_letters_of_topic ON dead_letters (topic);

-- Messages under way: what is found here at a start ended its worker uncleanly. Of the attempts
-- those are counted apart that were made while nothing else was under way.
CREATE TABLE message_attempts (
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    position       BIGINT NOT NULL,
    appended_at    BIGINT NOT NULL,
    attempts       INTEGER NOT NULL,
    alone          INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition, position, appended_at)
) WITHOUT ROWID;

-- Where a group goes on in a partition, moved in the transaction that applies its messages.
-- log_id tells a log or a topic from one that was made anew in its place, resets a place from
-- the same one that somebody said again.
CREATE TABLE log_offsets (
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    log_id         TEXT NOT NULL,
    next           BIGINT NOT NULL,
    resets         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (consumer_group, topic, partition)
) WITHOUT ROWID;

-- Messages that may be appended more than once, remembered for 48 hours. appended_at: when they
-- were, or when that was remembered, where it is later.
CREATE TABLE message_ids (
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    id             UUID NOT NULL,
    appended_at    BIGINT NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition, id)
) WITHOUT ROWID;
CREATE INDEX message_ids_oldest ON message_ids (consumer_group, topic, partition, appended_at);

-- Calls -------------------------------------------------------------------------------------

-- Calls with an Idempotency-Key, for 24 hours. id: what the ids of the messages are made from;
-- body, messages: their SHA-256. status, answer: once all is durable, and until then
-- leased_until says how long somebody may be at work on it.
CREATE TABLE idempotency_claims (
    workspace_id INTEGER NOT NULL,
    endpoint     TEXT NOT NULL,
    key          TEXT NOT NULL,
    id           UUID NOT NULL,
    body         BYTEA NOT NULL,
    messages     BYTEA NOT NULL,
    received_at  BIGINT NOT NULL,
    claimed_at   BIGINT NOT NULL,
    leased_until BIGINT NOT NULL,
    status       INTEGER,
    answer       TEXT,
    PRIMARY KEY (workspace_id, endpoint, key)
);
CREATE INDEX idempotency_claims_oldest ON idempotency_claims (claimed_at);

-- How many requests a budget's window has had; workspace 0 is the installation.
CREATE TABLE rate_limits (
    workspace_id INTEGER NOT NULL,
    budget       TEXT NOT NULL,
    seconds      BIGINT NOT NULL,
    ends_at      BIGINT NOT NULL,
    used         BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, budget)
);
