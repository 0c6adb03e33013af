CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
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
CREATE TABLE apps (
    id             UUID PRIMARY KEY,
    workspace_id   INTEGER NOT NULL REFERENCES workspaces (id),
    name           TEXT NOT NULL,
    platform       TEXT NOT NULL,
    bundle_id      TEXT,
    activity_types TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE control_groups (
    segment_id   UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    percent      INTEGER NOT NULL,
    slices       TEXT NOT NULL,
    active       BOOLEAN NOT NULL,
    created_at   BIGINT NOT NULL
);
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
CREATE TABLE activity (
    key          INTEGER PRIMARY KEY,
    slice        SMALLINT NOT NULL,
    workspace_id INTEGER NOT NULL,
    service_id   UUID NOT NULL,
    body         BYTEA NOT NULL
);
CREATE TABLE identifiers (
    workspace_id INTEGER NOT NULL,
    kind         SMALLINT NOT NULL,
    value        TEXT NOT NULL,
    service_id   UUID NOT NULL,
    PRIMARY KEY (workspace_id, kind, value)
) WITHOUT ROWID;
CREATE TABLE emails (
    workspace_id INTEGER NOT NULL,
    email        TEXT NOT NULL,
    service_id   UUID NOT NULL,
    PRIMARY KEY (workspace_id, email, service_id)
) WITHOUT ROWID;
CREATE TABLE erased (
    workspace_id INTEGER NOT NULL,
    who          BYTEA NOT NULL,
    erased_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, who)
) WITHOUT ROWID;
CREATE TABLE products (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    product_id   TEXT NOT NULL,
    PRIMARY KEY (workspace_id, product_id)
) WITHOUT ROWID;
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
CREATE TABLE catalog_items (
    catalog_id INTEGER NOT NULL,
    item_id    TEXT NOT NULL,
    load       INTEGER NOT NULL,
    version    BIGINT NOT NULL,
    doc        TEXT NOT NULL,
    PRIMARY KEY (catalog_id, item_id)
);
CREATE TABLE catalog_edits (
    catalog_id  INTEGER NOT NULL,
    request_id  TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    applied     INTEGER NOT NULL,
    unknown     INTEGER NOT NULL,
    unknown_ids TEXT NOT NULL,
    applied_at  BIGINT NOT NULL
);
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
CREATE TABLE channels (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    path         TEXT NOT NULL,
    config       BYTEA NOT NULL,
    PRIMARY KEY (workspace_id, path)
);
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
CREATE TABLE invalid_numbers (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    number       TEXT NOT NULL,
    reason       TEXT NOT NULL,
    added_at     BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, number)
) WITHOUT ROWID;
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
CREATE TABLE claims (
    kind    TEXT NOT NULL,
    job     UUID NOT NULL,
    item    BIGINT NOT NULL,
    due_at  BIGINT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    owner   UUID,
    PRIMARY KEY (kind, job, item)
) WITHOUT ROWID;
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
CREATE TABLE export_broken_users (
    job_id     UUID NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    service_id UUID NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (job_id, service_id)
);
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
CREATE TABLE dispatch_waves (
    dispatch_id UUID NOT NULL REFERENCES dispatches (id) ON DELETE CASCADE,
    number      BIGINT NOT NULL,
    wave        TEXT,
    PRIMARY KEY (dispatch_id, number)
) WITHOUT ROWID;
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
CREATE TABLE console_log (
    dispatch_id  UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    at           BIGINT NOT NULL,
    record       TEXT NOT NULL
);
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
CREATE TABLE transactional_keys (
    workspace_id     INTEGER NOT NULL REFERENCES workspaces (id),
    external_send_id TEXT NOT NULL,
    dispatch_id      UUID NOT NULL,
    taken_at         BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, external_send_id)
) WITHOUT ROWID;
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
CREATE TABLE log_offsets (
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    log_id         TEXT NOT NULL,
    next           BIGINT NOT NULL,
    resets         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (consumer_group, topic, partition)
) WITHOUT ROWID;
CREATE TABLE message_ids (
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    partition      INTEGER NOT NULL,
    id             UUID NOT NULL,
    appended_at    BIGINT NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition, id)
) WITHOUT ROWID;
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
CREATE TABLE rate_limits (
    workspace_id INTEGER NOT NULL,
    budget       TEXT NOT NULL,
    seconds      BIGINT NOT NULL,
    ends_at      BIGINT NOT NULL,
    used         BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, budget)
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX api_keys_name ON api_keys (workspace_id, name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX control_groups_active ON control_groups (workspace_id) WHERE active;
CREATE UNIQUE INDEX scim_tokens_hash ON scim_tokens (hash) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX scim_tokens_name ON scim_tokens (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX users_by_id ON users (slice, workspace_id, service_id);
CREATE INDEX catalog_edits_latest ON catalog_edits (catalog_id, received_at);
CREATE INDEX campaigns_listed
    ON campaigns (workspace_id, created_at, number, id, kind, archived, edited_at);
CREATE INDEX schedules_latest ON schedules (created_at, id);
CREATE INDEX schedules_open ON schedules (workspace_id, canvas_id) WHERE ended_at IS NULL;
CREATE INDEX schedules_missed ON schedules (ended_at) WHERE state = 'missed';
CREATE INDEX schedules_pending ON schedules (time) WHERE state = 'pending';
CREATE INDEX content_cards_expiry ON content_cards (expires_at);
CREATE INDEX claims_due ON claims (kind, due_at);
CREATE INDEX claims_due_of_job ON claims (kind, job, due_at, item);
CREATE INDEX claims_held ON claims (kind, job) WHERE owner IS NOT NULL;
CREATE INDEX export_jobs_latest ON export_jobs (workspace_id, requested_at, id);
CREATE INDEX export_jobs_queued ON export_jobs (queued_at)
    WHERE state IN ('queued', 'planning');
CREATE INDEX export_jobs_open ON export_jobs (requested_at) WHERE finished_at IS NULL;
CREATE INDEX dispatches_latest ON dispatches (accepted_at, id);
CREATE INDEX dispatches_oldest ON dispatches (workspace_id, finished_at);
CREATE INDEX dispatches_open ON dispatches (state, accepted_at) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX dispatch_parts_named ON dispatch_parts (claim_job, claim_item)
    WHERE claim_item IS NOT NULL;
CREATE INDEX messages_of_part ON messages (dispatch_id, part);
CREATE INDEX console_log_latest ON console_log (workspace_id, at);
CREATE INDEX deliveries_following ON deliveries (follows) WHERE follows IS NOT NULL;
CREATE INDEX deliveries_latest ON deliveries (created_at, id);
CREATE UNIQUE INDEX deliveries_claim ON deliveries (receiver, item);
CREATE INDEX deliveries_pending ON deliveries (retry_until) WHERE state = 'pending';
CREATE INDEX deliveries_given_up ON deliveries (finished_at) WHERE state = 'given_up';
CREATE INDEX transactional_emails_waiting ON transactional_emails (again_at)
    WHERE state = 'processing';
CREATE INDEX transactional_emails_oldest ON transactional_emails (received_at)
    WHERE state = 'processing';
CREATE INDEX transactional_emails_received ON transactional_emails (received_at);
CREATE INDEX transactional_emails_of_user ON transactional_emails (workspace_id, service_id)
    WHERE service_id IS NOT NULL;
CREATE INDEX transactional_keys_oldest ON transactional_keys (taken_at);
CREATE INDEX dead_letters_of_topic ON dead_letters (topic);
CREATE INDEX message_ids_oldest ON message_ids (consumer_group, topic, partition, appended_at);
CREATE INDEX idempotency_claims_oldest ON idempotency_claims (claimed_at);
INSERT INTO _sqlx_migrations ("version", "description", "installed_on", "success", "checksum", "execution_time") VALUES (1, 'first', '2026-11-22 14:03:20', 1, X'C1925539B7407F23CB2BE2AED2937182230C6F350037DAB82A589E3A3B5F4E6988ECC56EBA56A64F7316948B91810F3C', 13547404);
INSERT INTO settings ("name", "value") VALUES ('company', 'Acme Inc.');
INSERT INTO settings ("name", "value") VALUES ('log.partitions', '4');
INSERT INTO settings ("name", "value") VALUES ('secret_key.check', 'rEFSl9UhsSyavUDJHTSb10rYzYqHwb5w/XyWiYuxEfQ=');
INSERT INTO workspaces ("id", "name", "currency", "exchange_rates", "time_zone", "ip_allowlist", "rate_limits", "frequency_capping", "export_users_limit", "export_bytes_limit", "s3_storage", "azure_storage", "azure_is_default", "callback_secret", "created_at") VALUES (1, 'acme', 'USD', '{"EUR":1250000}', 'America/New_York', '[]', '{"users.track":{"requests":50000,"seconds":60}}', '[{"messages":500,"days":7,"channel":"email"}]', 1000, 1073741824, NULL, NULL, 0, X'854C1C7F3C122A6B52DB7C13CFA2A41BD3F42F26127494821B19F467858406A8436E10A07F6F63AE3E5705CF630CA784B843F5DC5AC41B17B2EE5482776774C2', 1795356200212);
INSERT INTO api_keys ("id", "workspace_id", "name", "hash", "permissions", "allow", "declared", "created_at", "revoked_at", "last_used_at") VALUES (X'01A203918E1170479A475BC1825102B0', 1, 'k', X'F901D99FBFF3197CA03BB34B194E143ADB99370AC15C2425AB06F5D6663036F3', '["campaigns.list","canvas.trigger.schedule.create","canvas.trigger.schedule.delete","catalogs.update_items","messages.live_activity.start","messages.schedule.create","messages.send","transactional.send","users.export.global_control_group","users.track"]', '[]', 1, 1795356200465, NULL, 1795356200654);
INSERT INTO apps ("id", "workspace_id", "name", "platform", "bundle_id", "activity_types") VALUES (X'7D1F3C1A54B14C0E9B1E2F6F8A1D0C33', 1, 'iOS', 'ios', 'com.acme', '["Delivery"]');
INSERT INTO control_groups ("segment_id", "workspace_id", "percent", "slices", "active", "created_at") VALUES (X'C69D3458883E432D82B5994F9D0E9F51', 1, 100, '[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99]', 1, 1795356200465);
INSERT INTO dashboard_users ("id", "name_key", "declared_key", "doc", "version", "created_at", "modified_at") VALUES (X'01A203918E1771DC93C947B170AA7A32', 'ann@acme.example', 'ann@acme.example', '{"userName":"ann@acme.example","name":{"givenName":"Ann"},"active":true,"permissions":{"companyPermissions":["manage_company_settings"],"appGroup":[{"appGroupId":"91c4e77a-a513-8402-b791-119923f9be8a","appGroupName":"acme","appGroupPermissions":["send_campaigns"]}]}}', 1, 1795356200471, 1795356200471);
INSERT INTO dashboard_users ("id", "name_key", "declared_key", "doc", "version", "created_at", "modified_at") VALUES (X'01A203918F7C75C7AB9ED9937D25643B', 'bob@acme.example', NULL, '{"userName":"bob@acme.example","name":{"givenName":"Bob","familyName":"Lee"},"active":true,"department":"CRM"}', 1, 1795356200825, 1795356200825);
INSERT INTO scim_tokens ("id", "name", "hash", "allow", "declared", "created_at", "revoked_at", "last_used_at") VALUES (X'01A203918E1771DC93C947B0DBCB9AEC', 'idp', X'4E5B054D4C2A50E3E14CF3A0647656EC7EFD8D3E0101E4EF22A0843578D56DC1', '[]', 1, 1795356200471, NULL, 1795356200820);
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2263200531165151240, 31, 1, X'01A203918E4C70028C3744953940D1B7', 'u2', 'u2@acme.example', 1795356200662, '{"service_id":"01a20391-8e4c-7002-8c37-44953940d1b7","external_id":"u2","user_aliases":[{"alias_name":"card 2","alias_label":"crm"}],"random_bucket":3127,"created_at":"2026-11-22T14:03:20.524Z","email":"u2@acme.example","phone":"+15550000002","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-2","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-2","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2263200531165151248, 31, 1, X'01A203918E4C70048C397A428194E387', 'u4', 'u4@acme.example', 1795356201147, '{"service_id":"01a20391-8e4c-7004-8c39-7a428194e387","external_id":"u4","user_aliases":[{"alias_name":"card 4","alias_label":"crm"}],"random_bucket":3129,"created_at":"2026-11-22T14:03:20.524Z","email":"u4@acme.example","phone":"+15550000004","first_name":"begun","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-4","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-4","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2335258125203079252, 32, 1, X'01A203918E4C70158CB3BEDA00999F79', 'u21', 'u21@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7015-8cb3-beda00999f79","external_id":"u21","user_aliases":[{"alias_name":"card 21","alias_label":"crm"}],"random_bucket":3251,"created_at":"2026-11-22T14:03:20.524Z","email":"u21@acme.example","phone":"+15550000021","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-21","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-21","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2407315719241007108, 33, 1, X'01A203918E4C70018D21D335157FFFE1', 'u1', 'u1@acme.example', 1795356200662, '{"service_id":"01a20391-8e4c-7001-8d21-d335157fffe1","external_id":"u1","user_aliases":[{"alias_name":"card 1","alias_label":"crm"}],"random_bucket":3361,"created_at":"2026-11-22T14:03:20.524Z","email":"u1@acme.example","phone":"+15550000001","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-1","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-1","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2479373313278935112, 34, 1, X'01A203918E4C70128D53CD7EC136C518', 'u18', 'u18@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7012-8d53-cd7ec136c518","external_id":"u18","user_aliases":[{"alias_name":"card 18","alias_label":"crm"}],"random_bucket":3411,"created_at":"2026-11-22T14:03:20.524Z","email":"u18@acme.example","phone":"+15550000018","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-18","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-18","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2551430907316863004, 35, 1, X'01A203918E4C70078DD5521A5393F5F6', 'u7', 'u7@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7007-8dd5-521a5393f5f6","external_id":"u7","user_aliases":[{"alias_name":"card 7","alias_label":"crm"}],"random_bucket":3541,"created_at":"2026-11-22T14:03:20.524Z","email":"u7@acme.example","phone":"+15550000007","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-7","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-7","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2839661283468574744, 39, 1, X'01A203918E4C70068F428A301E846BA4', 'u6', 'u6@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7006-8f42-8a301e846ba4","external_id":"u6","user_aliases":[{"alias_name":"card 6","alias_label":"crm"}],"random_bucket":3906,"created_at":"2026-11-22T14:03:20.524Z","email":"u6@acme.example","phone":"+15550000006","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-6","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-6","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (29415115989385304, 0, 1, X'01A203918E4C70168004017D487A7B64', 'u22', 'u22@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7016-8004-017d487a7b64","external_id":"u22","user_aliases":[{"alias_name":"card 22","alias_label":"crm"}],"random_bucket":4,"created_at":"2026-11-22T14:03:20.524Z","email":"u22@acme.example","phone":"+15550000022","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-22","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-22","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3272006847696142396, 45, 1, X'01A203918E4C700F91B7BA37286FE7A3', 'u15', 'u15@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-700f-91b7-ba37286fe7a3","external_id":"u15","user_aliases":[{"alias_name":"card 15","alias_label":"crm"}],"random_bucket":4535,"created_at":"2026-11-22T14:03:20.524Z","email":"u15@acme.example","phone":"+15550000015","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-15","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-15","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3848467599999565836, 53, 1, X'01A203918E4C700394C0C4577E658D00', 'u3', 'u3@acme.example', 1795356200801, '{"service_id":"01a20391-8e4c-7003-94c0-c4577e658d00","external_id":"u3","user_aliases":[{"alias_name":"card 3","alias_label":"crm"}],"random_bucket":5312,"created_at":"2026-11-22T14:03:20.524Z","email":"u3@acme.example","phone":"+15550000003","first_name":"past","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-3","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-3","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3920525194037493840, 54, 1, X'01A203918E4C70149558714666E01F11', 'u20', 'u20@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7014-9558-714666e01f11","external_id":"u20","user_aliases":[{"alias_name":"card 20","alias_label":"crm"}],"random_bucket":5464,"created_at":"2026-11-22T14:03:20.524Z","email":"u20@acme.example","phone":"+15550000020","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-20","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-20","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4064640382113349684, 56, 1, X'01A203918E4C700D9624AF8A921761EB', 'u13', 'u13@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-700d-9624-af8a921761eb","external_id":"u13","user_aliases":[{"alias_name":"card 13","alias_label":"crm"}],"random_bucket":5668,"created_at":"2026-11-22T14:03:20.524Z","email":"u13@acme.example","phone":"+15550000013","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-13","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-13","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4208755570189205504, 58, 1, X'01A203918E4C700096F1035D965167CB', 'u0', 'u0@acme.example', 1795356200662, '{"service_id":"01a20391-8e4c-7000-96f1-035d965167cb","external_id":"u0","user_aliases":[{"alias_name":"card 0","alias_label":"crm"}],"random_bucket":5873,"created_at":"2026-11-22T14:03:20.524Z","email":"u0@acme.example","phone":"+15550000000","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-0","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-0","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4352870758265061424, 60, 1, X'01A203918E4C700C97858A25F455D442', 'u12', 'u12@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-700c-9785-8a25f455d442","external_id":"u12","user_aliases":[{"alias_name":"card 12","alias_label":"crm"}],"random_bucket":6021,"created_at":"2026-11-22T14:03:20.524Z","email":"u12@acme.example","phone":"+15550000012","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-12","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-12","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4929331510568484932, 68, 1, X'01A203918E4C70119AE4C65EE4049999', 'u17', 'u17@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7011-9ae4-c65ee4049999","external_id":"u17","user_aliases":[{"alias_name":"card 17","alias_label":"crm"}],"random_bucket":6884,"created_at":"2026-11-22T14:03:20.524Z","email":"u17@acme.example","phone":"+15550000017","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-17","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-17","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (5433734668833980452, 75, 1, X'01A203918E4C70099D708629270C67FD', 'u9', 'u9@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7009-9d70-8629270c67fd","external_id":"u9","user_aliases":[{"alias_name":"card 9","alias_label":"crm"}],"random_bucket":7536,"created_at":"2026-11-22T14:03:20.524Z","email":"u9@acme.example","phone":"+15550000009","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-9","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-9","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (605875868292808768, 8, 1, X'01A203918E4C701083497FE583A96C54', 'u16', 'u16@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7010-8349-7fe583a96c54","external_id":"u16","user_aliases":[{"alias_name":"card 16","alias_label":"crm"}],"random_bucket":841,"created_at":"2026-11-22T14:03:20.524Z","email":"u16@acme.example","phone":"+15550000016","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-16","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-16","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6082253015175331884, 84, 1, X'01A203918E4C700BA111144BC4501625', 'u11', 'u11@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-700b-a111-144bc4501625","external_id":"u11","user_aliases":[{"alias_name":"card 11","alias_label":"crm"}],"random_bucket":8465,"created_at":"2026-11-22T14:03:20.524Z","email":"u11@acme.example","phone":"+15550000011","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-11","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-11","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6370483391327043660, 88, 1, X'01A203918E4C7013A28E905AA59DD8A9', 'u19', 'u19@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7013-a28e-905aa59dd8a9","external_id":"u19","user_aliases":[{"alias_name":"card 19","alias_label":"crm"}],"random_bucket":8846,"created_at":"2026-11-22T14:03:20.524Z","email":"u19@acme.example","phone":"+15550000019","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-19","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-19","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6658713767478755384, 92, 1, X'01A203918E4C700EA435562DFE58B375', 'u14', 'u14@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-700e-a435-562dfe58b375","external_id":"u14","user_aliases":[{"alias_name":"card 14","alias_label":"crm"}],"random_bucket":9269,"created_at":"2026-11-22T14:03:20.524Z","email":"u14@acme.example","phone":"+15550000014","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-14","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-14","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6874886549592539168, 95, 1, X'01A203918E4C7008A52B703E9CA2AED4', 'u8', 'u8@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-7008-a52b-703e9ca2aed4","external_id":"u8","user_aliases":[{"alias_name":"card 8","alias_label":"crm"}],"random_bucket":9515,"created_at":"2026-11-22T14:03:20.524Z","email":"u8@acme.example","phone":"+15550000008","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-8","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-8","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (749991056368664596, 10, 1, X'01A203918E4C700583F2B1B1CF51AF7B', 'u5', 'u5@acme.example', 1795356200662, '{"service_id":"01a20391-8e4c-7005-83f2-b1b1cf51af7b","external_id":"u5","user_aliases":[{"alias_name":"card 5","alias_label":"crm"}],"random_bucket":1010,"created_at":"2026-11-22T14:03:20.524Z","email":"u5@acme.example","phone":"+15550000005","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-5","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-5","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (822048650406592552, 11, 1, X'01A203918E4C700A849A329598CD8EF3', 'u10', 'u10@acme.example', 1795356200524, '{"service_id":"01a20391-8e4c-700a-849a-329598cd8ef3","external_id":"u10","user_aliases":[{"alias_name":"card 10","alias_label":"crm"}],"random_bucket":1178,"created_at":"2026-11-22T14:03:20.524Z","email":"u10@acme.example","phone":"+15550000010","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-10","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-10","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO activity ("key", "slice", "workspace_id", "service_id", "body") VALUES (2263200531165151240, 31, 1, X'01A203918E4C70028C3744953940D1B7', X'01010573686F657301D6C402BBB590180001010D7B2273697A65223A22584C227D00010355534480C2D72F');
INSERT INTO activity ("key", "slice", "workspace_id", "service_id", "body") VALUES (2407315719241007108, 33, 1, X'01A203918E4C70018D21D335157FFFE1', X'01010374656101D6C402BBB59018000201107B226C656166223A22677265656E227D01047365656E01D6C402BBB590180001010A7B2270616765223A377D010345555280A4E803');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u0', X'01A203918E4C700096F1035D965167CB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u1', X'01A203918E4C70018D21D335157FFFE1');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u10', X'01A203918E4C700A849A329598CD8EF3');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u11', X'01A203918E4C700BA111144BC4501625');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u12', X'01A203918E4C700C97858A25F455D442');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u13', X'01A203918E4C700D9624AF8A921761EB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u14', X'01A203918E4C700EA435562DFE58B375');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u15', X'01A203918E4C700F91B7BA37286FE7A3');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u16', X'01A203918E4C701083497FE583A96C54');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u17', X'01A203918E4C70119AE4C65EE4049999');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u18', X'01A203918E4C70128D53CD7EC136C518');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u19', X'01A203918E4C7013A28E905AA59DD8A9');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u2', X'01A203918E4C70028C3744953940D1B7');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u20', X'01A203918E4C70149558714666E01F11');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u21', X'01A203918E4C70158CB3BEDA00999F79');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u22', X'01A203918E4C70168004017D487A7B64');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u3', X'01A203918E4C700394C0C4577E658D00');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u4', X'01A203918E4C70048C397A428194E387');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u5', X'01A203918E4C700583F2B1B1CF51AF7B');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u6', X'01A203918E4C70068F428A301E846BA4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u7', X'01A203918E4C70078DD5521A5393F5F6');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u8', X'01A203918E4C7008A52B703E9CA2AED4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u9', X'01A203918E4C70099D708629270C67FD');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 0', X'01A203918E4C700096F1035D965167CB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 1', X'01A203918E4C70018D21D335157FFFE1');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 10', X'01A203918E4C700A849A329598CD8EF3');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 11', X'01A203918E4C700BA111144BC4501625');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 12', X'01A203918E4C700C97858A25F455D442');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 13', X'01A203918E4C700D9624AF8A921761EB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 14', X'01A203918E4C700EA435562DFE58B375');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 15', X'01A203918E4C700F91B7BA37286FE7A3');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 16', X'01A203918E4C701083497FE583A96C54');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 17', X'01A203918E4C70119AE4C65EE4049999');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 18', X'01A203918E4C70128D53CD7EC136C518');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 19', X'01A203918E4C7013A28E905AA59DD8A9');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 2', X'01A203918E4C70028C3744953940D1B7');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 20', X'01A203918E4C70149558714666E01F11');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 21', X'01A203918E4C70158CB3BEDA00999F79');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 22', X'01A203918E4C70168004017D487A7B64');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 3', X'01A203918E4C700394C0C4577E658D00');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 4', X'01A203918E4C70048C397A428194E387');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 5', X'01A203918E4C700583F2B1B1CF51AF7B');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 6', X'01A203918E4C70068F428A301E846BA4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 7', X'01A203918E4C70078DD5521A5393F5F6');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 8', X'01A203918E4C7008A52B703E9CA2AED4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 9', X'01A203918E4C70099D708629270C67FD');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u0@acme.example', X'01A203918E4C700096F1035D965167CB');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u10@acme.example', X'01A203918E4C700A849A329598CD8EF3');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u11@acme.example', X'01A203918E4C700BA111144BC4501625');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u12@acme.example', X'01A203918E4C700C97858A25F455D442');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u13@acme.example', X'01A203918E4C700D9624AF8A921761EB');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u14@acme.example', X'01A203918E4C700EA435562DFE58B375');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u15@acme.example', X'01A203918E4C700F91B7BA37286FE7A3');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u16@acme.example', X'01A203918E4C701083497FE583A96C54');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u17@acme.example', X'01A203918E4C70119AE4C65EE4049999');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u18@acme.example', X'01A203918E4C70128D53CD7EC136C518');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u19@acme.example', X'01A203918E4C7013A28E905AA59DD8A9');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u1@acme.example', X'01A203918E4C70018D21D335157FFFE1');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u20@acme.example', X'01A203918E4C70149558714666E01F11');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u21@acme.example', X'01A203918E4C70158CB3BEDA00999F79');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u22@acme.example', X'01A203918E4C70168004017D487A7B64');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u2@acme.example', X'01A203918E4C70028C3744953940D1B7');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u3@acme.example', X'01A203918E4C700394C0C4577E658D00');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u4@acme.example', X'01A203918E4C70048C397A428194E387');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u5@acme.example', X'01A203918E4C700583F2B1B1CF51AF7B');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u6@acme.example', X'01A203918E4C70068F428A301E846BA4');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u7@acme.example', X'01A203918E4C70078DD5521A5393F5F6');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u8@acme.example', X'01A203918E4C7008A52B703E9CA2AED4');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u9@acme.example', X'01A203918E4C70099D708629270C67FD');
INSERT INTO erased ("workspace_id", "who", "erased_at") VALUES (1, X'4E404EDE9D026E90B728B0A2CF7A94DE1B9958FE90BE3046F54A1F47659A4D8C', 1795356201123);
INSERT INTO erased ("workspace_id", "who", "erased_at") VALUES (1, X'57DA657BE73EBAD8BBECB56B81D3B0CFEC99895332B55EE469BCABFB23269086', 1795356201123);
INSERT INTO products ("workspace_id", "product_id") VALUES (1, 'shoes');
INSERT INTO products ("workspace_id", "product_id") VALUES (1, 'tea');
INSERT INTO catalogs ("id", "workspace_id", "name", "fields", "items_hash", "load", "created_at") VALUES (1, 1, 'restaurants', '[{"name":"City","type":"string"},{"name":"Rating","type":"number"},{"name":"Opened_at","type":"time"}]', X'5C59F98254AF29B24440EDF0D72CFC7417FF3051EB27934A9660082C111C53D0', 1, 1795356200465);
INSERT INTO catalog_items ("catalog_id", "item_id", "load", "version", "doc") VALUES (1, 'r1', 1, 1, '{"City":"Oslo","Rating":4.7}');
INSERT INTO catalog_items ("catalog_id", "item_id", "load", "version", "doc") VALUES (1, 'r2', 1, 0, '{"City":"Rome"}');
INSERT INTO catalog_edits ("catalog_id", "request_id", "received_at", "applied", "unknown", "unknown_ids", "applied_at") VALUES (1, '01a20391-8f26-7675-9f48-b1d8b4c19e51', 1795356200744, 0, 1, '["nobody"]', 1795356200753);
INSERT INTO catalog_edits ("catalog_id", "request_id", "received_at", "applied", "unknown", "unknown_ids", "applied_at") VALUES (1, '01a20391-8f26-7675-9f48-b1d8b4c19e51', 1795356200744, 1, 0, '[]', 1795356200751);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 4, 'canvas', 'Onboarding', '[]', 0, 0, '{"messages":{"webhook":{"body":"canvas {{${external_id}}} {{canvas_entry_properties.${n}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}}}', 1795356200465, 1795356200465);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'2B7C9D1E5E0A4B7F9C1D7A8E6F5D4C03', 3, 'triggered', 'Thanks', '[]', 0, 0, '{"audience":{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}},"messages":{"webhook":{"body":"thanks {{${external_id}}} {{event_properties.${size}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"trigger":{"purchase":{"product_id":"shoes","properties":{"size":"XL"}}}}', 1795356200465, 1795356200465);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 1, 'api', 'Welcome', '["t"]', 0, 0, '{"messages":{"webhook":{"body":"welcome {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}}}', 1795356200465, 1795356200465);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 2, 'transactional', 'Receipt', '[]', 0, 0, '{"email":{"body":"Thank you","subject":"receipt {{api_trigger_properties.${order}}} {{${external_id}}}"},"sla_per_hour":5}', 1795356200465, 1795356200465);
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'email', X'DF6E2A22670A1CA85A13A3257BD5280B3579517EA840DF288A114336D00609359D3241CB286319C844E382F4D5AD42CE81B31035BDAD51271A86F164A0B09DC2EAAC12E1D8090E555262A86E9C6AF5031214913B7828B43D5C928CE9532F89FA48A799EA6D49C32B7041878AB859510D63C37DDC0DF971EBC9CF814D4382828D8F616DFCCB3B7D0E9ED53F590F67D13BFCEF1B66773E24A12CE35DD8CEC5A068F7E34709F56188BFF0A20C3AC0C11171757155FA6A044323D59762A426196C45649455BDD53B9C0432AB11FEE42E10C124E2CF8EBB38FF95AAF08EB3C6EE562FAF494416FD112BE5A492404D4E9E4E1AD242D2407010F92A6695F2F18B998AD0ED1F63CA52DF24CD0EFC5F6B6F4AB53511251E3516E47A0433480592E21B1E21A154BC7B26D5E97CC4C20EB4E09EB571504CC704CF922440B941A5E965C7415F5FFD07683DAEC07746D85B3BC62E14E52F1C4149121A38FDBF7210DF27CB91CAE55A1847E95E82A257893306F4A7653812');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.feedback_secret', X'B685C85DABF37AFEE6D9E3407E645C3914F7320FB118328439D89A126713A47745A490F1E6143E8CCDC6C7787A72908954DF52CB6A628266FECC813739B04EEDC8709886ABE5C8DA574FAEF5C925643DB34F21FB253125F4B3050D86BD8732E351248E4FB17976A25AD30DB940AA48E4A5ADCABE6E00795A46299D00FE48F53520EBD75019');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.push', X'67A621F5E9B4E456F79D52154A82AAC528D4959779092875186EFB9F8A1C39C2F39EE6F63F896242A5C4292503689B3C71C11C941FBC72A99AC3A6C69DED29CB6E04CC0BA77BFDC4657248B99BAD99C573B022D3DE3A2CCB6DB95B7537EC565C24DA5A19F4F2B1E94742DD09BAD64A82E0E2CC8AF5173D351541DCCE22591795552A3913058FA1CC1C49A7A91C0B40535720F2ABAE45EA554BEDDE585B40C50EC060E090D02851F2E22073CDC5FD6E974793E497C1DB35');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.sms', X'94DF6E3E60654EB050CBA2D1478F7A45365EFB9B31462B5E36E9D5B8AB9CA846B8CE245CAA5098D16A3A9778A75BAD151AC2B820CA271BE6D435F58980822E779896ABC05D31701CCCF82B438B51EF0ED166F381BA0CA78426A7F63D4B18B1EC50CBBAF6617089420C25A4C639F612FD1E8AB5677F360A92B3C5B7E90E6F08456B8B8F42F9808243057FB10316529287D36DB52C549DE1F3433CD0A72816F79758C91C9775CE8E98B49916CD55210352859A5357A9A7');
INSERT INTO subscription_groups ("workspace_id", "id", "channel", "sender") VALUES (1, X'5A7D3C0E2D7B4F438F0C3F9D2C6B7A11', 'sms', '+15550100');
INSERT INTO segments ("workspace_id", "id", "name", "audience") VALUES (1, X'9D0B7C5261C54D0EB0F32F1C7A3F8E20', 'VIP', '{"AND":[{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}]}');
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A2039191EF73699CDA60B190E43F68', 1, X'01A2039191EF73699CDA60B05F63C397', NULL, 2079080493741260648, 'instant', 1795356261451, '{"dispatch_id":"01a20391-91ef-7369-9cda-60b05f63c397","workspace_id":1,"kind":"schedule","campaign_id":null,"send_id":null,"messages":{"webhook":{"body":"scheduled {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[{"who":{"external_id":"u11"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null}],"segment_id":null,"audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356201455,"request_id":"01a20391-91ec-735a-b033-922edc7f8204"}', '01a20391-91ec-735a-b033-922edc7f8204', 'pending', 1795356201455, NULL, NULL, NULL, NULL, NULL);
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A2039191F477E38BF74085BCE9F533', 1, X'3D171650AED64B75906AF9C2EDC62E56', X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 862228796809016627, 'instant', 1795356261451, '{"broadcast":false,"recipients":[{"external_user_id":"u12","canvas_entry_properties":{"n":12}}],"canvas_entry_properties":{"n":1}}', '01a20391-91f3-754d-b01b-642ca0672d27', 'pending', 1795356201460, NULL, NULL, NULL, NULL, NULL);
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A2039191F873EF9B25E90D9355318B', 1, X'2A5C19255E274885BBD116E9DC80827D', X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 1956225857678029195, 'local', 1821276201464, '{"broadcast":true}', '01a20391-91f8-73ef-9b25-e90c49afff8a', 'pending', 1795356201464, NULL, NULL, NULL, NULL, NULL);
INSERT INTO invalid_numbers ("workspace_id", "number", "reason", "added_at") VALUES (1, '15550199', 'added by hand', 1795356200624);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C700096F1035D965167CB', X'8A0B225660EB8430B92A011CA2AD611C', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200884, 2110716200884);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'E91AB3F72056882DB4270455875E5946', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200876, 2110716200876);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C70048C397A428194E387', X'21E5549F18FD899EAC14B0EC12E4B76D', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200878, 2110716200878);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C70068F428A301E846BA4', X'912AFFDE30D48395BC16D588EA83DC8E', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200880, 2110716200880);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C7008A52B703E9CA2AED4', X'549CD6A459DC85EB9070FA5791F8086C', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200882, 2110716200882);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C700A849A329598CD8EF3', X'60C6C9C5BFBD81B5A248AC5A27BBF7C1', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200875, 2110716200875);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C700C97858A25F455D442', X'15EB20B9B1CB84C5B61B2856BBF5E438', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200884, 2110716200884);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C700EA435562DFE58B375', X'ED8D0E0ACB2286DCBA1424521CE44875', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200883, 2110716200883);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C701083497FE583A96C54', X'717D14BB61468E80817A73FA3CE80DC3', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200874, 2110716200874);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C70128D53CD7EC136C518', X'6CAA18658742863A8D9ED0A7FFF708DD', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200879, 2110716200879);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C70149558714666E01F11', X'428D0126EC5780449748051A002B08D6', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200881, 2110716200881);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A203918E4C70168004017D487A7B64', X'C165F6449F0680DC8924569EB912FBD1', X'01A203918F557675988CECC486BEDEF9', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356200872, 2110716200872);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 0, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 1, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 10, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 11, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 12, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 13, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 14, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 15, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 16, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 17, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 18, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 19, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 2, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 20, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 21, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 22, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 23, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 24, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 25, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 26, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 27, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 28, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 29, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 3, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 30, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 31, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 32, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 33, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 34, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 35, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 36, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 37, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 38, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 39, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 4, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 40, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 41, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 42, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 43, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 44, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 45, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 46, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 47, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 48, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 49, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 5, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 50, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 51, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 52, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 53, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 54, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 55, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 56, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 57, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 58, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 59, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 6, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 60, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 61, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 62, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 63, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 64, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 65, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 66, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 67, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 68, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 69, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 7, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 70, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 71, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 72, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 73, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 74, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 75, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 76, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 77, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 78, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 79, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 8, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 80, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 81, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 82, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 83, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 84, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 85, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 86, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 87, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 88, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 89, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 9, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 90, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 91, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 92, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 93, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 94, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 95, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 96, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 97, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 98, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 99, 1795442600639, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('delivery', X'F3FA6940A1E08323824DA6CFC9540C05', 393138001993610646, 1795356201707, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('dispatch_named', X'6D657373616765730000000000000001', 144374267462596287, 1795356204608, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_cleanup', X'01A203918F86730280009851C3E4CE5C', 0, 1795356209472, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_cleanup', X'01A2039190C376529BBFECF9A6A22524', 0, 1795356207468, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 10, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 11, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 12, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 5, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 6, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 7, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 8, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20391919875FB9BD7A67FB4A5A2D2', 9, 1795356201386, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 1956225857678029195, 1821222201464, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 2079080493741260648, 1795356261451, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 862228796809016627, 1795356261451, 0, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A203918F86730280009851C3E4CE5C', 1, 'c2e61eb6-4732-4bb0-b337-c1130a705df6-1795356200', X'C69D3458883E432D82B5994F9D0E9F51', 'done', '["external_id","purchases"]', 'zip', NULL, 'http://127.83.0.1:42583/callback', '01a20391-8f85-7010-a2ff-4b83b1203224', 1795356200838, 1795356200838, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20391-8e4c-7017-927e-d699da01d13c","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"f1b47fbd-d0ca-4e8e-bdae-b8be30828e00","currency":"USD","exchange_rates":{"EUR":1250000}}', 24, 12, 1, 0, 1795356200850, 1795356200988, 1795356200999, 1795370600999, 1, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A2039190C376529BBFECF9A6A22524', 1, '3e783b67-7152-490f-8406-2e59b7be1da0-1795356201', X'C69D3458883E432D82B5994F9D0E9F51', 'done', '["external_id"]', 'zip', NULL, 'http://127.83.0.1:42583/callback-begun', '01a20391-90bf-70d4-a0ae-aed546b40664', 1795356201154, 1795356201154, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20391-8e4c-7016-8004-017d487a7b64","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"fe86c7ca-132a-4096-a24a-8b681be313c6","currency":"USD","exchange_rates":{"EUR":1250000}}', 23, 12, 1, 0, 1795356201162, 1795356201298, 1795356201305, 1795370601305, 1, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 1, '1e3d7e69-1512-44f6-9d45-b545cee260d0-1795356201', X'C69D3458883E432D82B5994F9D0E9F51', 'running', '["external_id","total_revenue"]', 'zip', NULL, NULL, '01a20391-9197-779f-8e58-806065fe2144', 1795356201368, 1795356201368, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20391-8e4c-7016-8004-017d487a7b64","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"8eac238b-ce63-4631-a1b7-7e86055500f1","currency":"USD","exchange_rates":{"EUR":1250000}}', 23, 12, 1, 1, 1795356201374, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A2039191FA71D7813CB589C90E4E07', 1, '957a7556-55ef-436c-bba4-7719c89bcbc5-1795356201', X'C69D3458883E432D82B5994F9D0E9F51', 'queued', '["external_id"]', 'zip', NULL, NULL, '01a20391-91f9-77b5-a5c6-a6c23a8e71c9', 1795356201466, 1795356201466, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A203918F86730280009851C3E4CE5C', 0, 0, 24, 12, 1761, 0);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A2039190C376529BBFECF9A6A22524', 0, 0, 23, 12, 1624, 0);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 0, 8, 8, 4, 551, 0);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 1, 0, X'00000000000000000000000000000000', 8, X'01A203918E4C701083497FE583A96C54', 1, 1, 2, 44, 138, 2917084059);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 10, 60, X'01A203918E4C700C97858A25F455D442', 75, X'01A203918E4C70099D708629270C67FD', 1, 1, 2, 43, 137, 913382412);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 11, 75, X'01A203918E4C70099D708629270C67FD', 88, X'01A203918E4C7013A28E905AA59DD8A9', 1, 1, 2, 44, 138, 3028286454);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 12, 88, X'01A203918E4C7013A28E905AA59DD8A9', 95, X'01A203918E4C7008A52B703E9CA2AED4', 1, 1, 2, 43, 137, 3139489082);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 2, 8, X'01A203918E4C701083497FE583A96C54', 11, X'01A203918E4C700A849A329598CD8EF3', 1, 1, 2, 43, 137, 2668298131);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 3, 11, X'01A203918E4C700A849A329598CD8EF3', 31, X'01A203918E4C70048C397A428194E387', 1, 1, 2, 152, 195, 104523547);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 4, 31, X'01A203918E4C70048C397A428194E387', 33, X'01A203918E4C70018D21D335157FFFE1', 1, 1, 2, 151, 193, 412916532);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 5, 33, X'01A203918E4C70018D21D335157FFFE1', 35, X'01A203918E4C70078DD5521A5393F5F6', 1, 1, 2, 43, 137, 888472608);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 6, 35, X'01A203918E4C70078DD5521A5393F5F6', 45, X'01A203918E4C700F91B7BA37286FE7A3', 1, 1, 2, 43, 137, 1518592601);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 7, 45, X'01A203918E4C700F91B7BA37286FE7A3', 53, X'01A203918E4C700394C0C4577E658D00', 1, 1, 2, 43, 137, 1344691051);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 8, 53, X'01A203918E4C700394C0C4577E658D00', 56, X'01A203918E4C700D9624AF8A921761EB', 1, 1, 2, 44, 138, 2404094150);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A203918F86730280009851C3E4CE5C', 9, 56, X'01A203918E4C700D9624AF8A921761EB', 60, X'01A203918E4C700C97858A25F455D442', 1, 1, 2, 43, 137, 4169795409);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 1, 0, X'00000000000000000000000000000000', 8, X'01A203918E4C701083497FE583A96C54', 1, 1, 2, 44, 138, 2917084059);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 10, 68, X'01A203918E4C70119AE4C65EE4049999', 84, X'01A203918E4C700BA111144BC4501625', 1, 1, 2, 43, 137, 1477125012);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 11, 84, X'01A203918E4C700BA111144BC4501625', 92, X'01A203918E4C700EA435562DFE58B375', 1, 1, 2, 44, 138, 322702999);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 12, 92, X'01A203918E4C700EA435562DFE58B375', 95, X'01A203918E4C7008A52B703E9CA2AED4', 1, 1, 1, 21, 115, 1343372117);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 2, 8, X'01A203918E4C701083497FE583A96C54', 11, X'01A203918E4C700A849A329598CD8EF3', 1, 1, 2, 43, 137, 2668298131);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 3, 11, X'01A203918E4C700A849A329598CD8EF3', 31, X'01A203918E4C70048C397A428194E387', 1, 1, 2, 42, 136, 2938083562);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 4, 31, X'01A203918E4C70048C397A428194E387', 33, X'01A203918E4C70018D21D335157FFFE1', 1, 1, 2, 43, 137, 1783215549);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 5, 33, X'01A203918E4C70018D21D335157FFFE1', 35, X'01A203918E4C70078DD5521A5393F5F6', 1, 1, 2, 43, 137, 888472608);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 6, 35, X'01A203918E4C70078DD5521A5393F5F6', 45, X'01A203918E4C700F91B7BA37286FE7A3', 1, 1, 2, 43, 137, 1518592601);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 7, 45, X'01A203918E4C700F91B7BA37286FE7A3', 54, X'01A203918E4C70149558714666E01F11', 1, 1, 2, 43, 137, 3883161842);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 8, 54, X'01A203918E4C70149558714666E01F11', 58, X'01A203918E4C700096F1035D965167CB', 1, 1, 2, 43, 137, 2965641597);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039190C376529BBFECF9A6A22524', 9, 58, X'01A203918E4C700096F1035D965167CB', 68, X'01A203918E4C70119AE4C65EE4049999', 1, 1, 2, 44, 138, 2801230141);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 1, 0, X'00000000000000000000000000000000', 8, X'01A203918E4C701083497FE583A96C54', 1, 1, 2, 44, 138, 2917084059);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 10, 68, X'01A203918E4C70119AE4C65EE4049999', 84, X'01A203918E4C700BA111144BC4501625', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 11, 84, X'01A203918E4C700BA111144BC4501625', 92, X'01A203918E4C700EA435562DFE58B375', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 12, 92, X'01A203918E4C700EA435562DFE58B375', 95, X'01A203918E4C7008A52B703E9CA2AED4', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 2, 8, X'01A203918E4C701083497FE583A96C54', 11, X'01A203918E4C700A849A329598CD8EF3', 1, 1, 2, 43, 137, 2668298131);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 3, 11, X'01A203918E4C700A849A329598CD8EF3', 31, X'01A203918E4C70048C397A428194E387', 1, 1, 2, 61, 138, 3243960234);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 4, 31, X'01A203918E4C70048C397A428194E387', 33, X'01A203918E4C70018D21D335157FFFE1', 1, 1, 2, 61, 138, 594265391);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 5, 33, X'01A203918E4C70018D21D335157FFFE1', 35, X'01A203918E4C70078DD5521A5393F5F6', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 6, 35, X'01A203918E4C70078DD5521A5393F5F6', 45, X'01A203918E4C700F91B7BA37286FE7A3', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 7, 45, X'01A203918E4C700F91B7BA37286FE7A3', 54, X'01A203918E4C70149558714666E01F11', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 8, 54, X'01A203918E4C70149558714666E01F11', 58, X'01A203918E4C700096F1035D965167CB', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20391919875FB9BD7A67FB4A5A2D2', 9, 58, X'01A203918E4C700096F1035D965167CB', 68, X'01A203918E4C70119AE4C65EE4049999', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'01A203918F557675988CECC486BEDEF9', 1, 'send', 'done', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '{"dispatch_id":"01a20391-8f55-7675-988c-ecc486bedef9","workspace_id":1,"kind":"send","campaign_id":"3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60","send_id":null,"messages":{"content_card":{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"},"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"past {{${external_id}}}"},"sms":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"past","subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11"},"webhook":{"body":"past {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":"9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20","audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356200789,"request_id":"01a20391-8f4b-74ae-bcdb-55688f892754"}', '{"AND":[{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}]}', X'01A203918E4C7017927ED699DA01D13C', NULL, 1, 0, 24, 1, 0, '01a20391-8f4b-74ae-bcdb-55688f892754', 1795356200789, 1795356200843, 1795356200898);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'01A2039190B870D1A3FFAC211AD299B8', 1, 'send', 'running', NULL, '{"dispatch_id":"01a20391-90b8-70d1-a3ff-ac211ad299b8","workspace_id":1,"kind":"send","campaign_id":null,"send_id":null,"messages":{"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"begun {{${external_id}}}"},"webhook":{"body":"begun {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":null,"audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356201144,"request_id":"01a20391-90b2-73a0-aaa8-320aebc349f6"}', NULL, NULL, NULL, 1, 0, 2, 1, 1, '01a20391-90b2-73a0-aaa8-320aebc349f6', 1795356201144, 1795356201144, NULL);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'0383F717B6A442388F5FACD83CCF84F5', 1, 'triggered', 'done', X'2B7C9D1E5E0A4B7F9C1D7A8E6F5D4C03', '{"dispatch_id":"0383f717-b6a4-4238-8f5f-acd83ccf84f5","workspace_id":1,"kind":"triggered","campaign_id":"2b7c9d1e-5e0a-4b7f-9c1d-7a8e6f5d4c03","send_id":null,"messages":{"webhook":{"body":"thanks {{${external_id}}} {{event_properties.${size}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":null,"audience":{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356200715,"request_id":"01a20391-8ec3-7058-a51f-2be37d1f9114"}', NULL, NULL, NULL, 1, 0, 1, 1, 0, '01a20391-8ec3-7058-a51f-2be37d1f9114', 1795356200715, 1795356200715, 1795356200734);
INSERT INTO dispatch_waves ("dispatch_id", "number", "wave") VALUES (X'01A203918F557675988CECC486BEDEF9', 0, NULL);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'01A203918F557675988CECC486BEDEF9', 1, NULL, NULL, NULL, NULL, 95, X'01A203918E4C7008A52B703E9CA2AED4', 95, X'01A203918E4C7008A52B703E9CA2AED4', 1, 1, 24, 48, 0, 0, 0, 0, 0, 12, 0, 0, 0);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'01A2039190B870D1A3FFAC211AD299B8', 1, NULL, '[{"who":{"external_id":"u1"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null},{"who":{"external_id":"u2"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null}]', X'6D657373616765730000000000000001', 144374267462596287, 0, X'00000000000000000000000000000000', 0, X'00000000000000000000000000000000', 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'0383F717B6A442388F5FACD83CCF84F5', 1, NULL, '[]', NULL, NULL, 0, X'00000000000000000000000000000000', 0, X'00000000000000000000000000000000', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700096F1035D965167CB', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700096F1035D965167CB', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700096F1035D965167CB', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700096F1035D965167CB', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70018D21D335157FFFE1', X'01A2039190B870D1A3FFAC211AD299B8', 'email', 1, NULL, 'waiting', 1, 1795356201160, 1795356205381, NULL, 'connecting: Connection refused (os error 111)');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70018D21D335157FFFE1', X'01A2039190B870D1A3FFAC211AD299B8', 'webhook', 1, NULL, 'waiting', 1, 1795356201160, 1795356204607, NULL, 'the receiver answered 503 Service Unavailable');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200878, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200879, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200879, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'01A2039190B870D1A3FFAC211AD299B8', 'email', 1, NULL, 'waiting', 1, 1795356201160, 1795356206095, NULL, 'connecting: Connection refused (os error 111)');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70028C3744953940D1B7', X'01A2039190B870D1A3FFAC211AD299B8', 'webhook', 1, NULL, 'waiting', 1, 1795356201160, 1795356205336, NULL, 'the receiver answered 503 Service Unavailable');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70048C397A428194E387', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70048C397A428194E387', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200880, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70048C397A428194E387', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200880, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70048C397A428194E387', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200880, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70068F428A301E846BA4', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70068F428A301E846BA4', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200880, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70068F428A301E846BA4', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200881, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70068F428A301E846BA4', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200881, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C7008A52B703E9CA2AED4', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C7008A52B703E9CA2AED4', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200882, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C7008A52B703E9CA2AED4', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C7008A52B703E9CA2AED4', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200885, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700A849A329598CD8EF3', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700A849A329598CD8EF3', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200878, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700A849A329598CD8EF3', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200878, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700A849A329598CD8EF3', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200878, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700C97858A25F455D442', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700C97858A25F455D442', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700C97858A25F455D442', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200885, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700C97858A25F455D442', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200885, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700EA435562DFE58B375', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700EA435562DFE58B375', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700EA435562DFE58B375', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200885, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C700EA435562DFE58B375', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200885, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C701083497FE583A96C54', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C701083497FE583A96C54', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200874, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C701083497FE583A96C54', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200876, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C701083497FE583A96C54', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200878, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70128D53CD7EC136C518', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70128D53CD7EC136C518', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200880, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70128D53CD7EC136C518', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200881, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70128D53CD7EC136C518', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200881, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70149558714666E01F11', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200896, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70149558714666E01F11', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70149558714666E01F11', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70149558714666E01F11', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200886, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70168004017D487A7B64', X'01A203918F557675988CECC486BEDEF9', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200892, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70168004017D487A7B64', X'01A203918F557675988CECC486BEDEF9', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200874, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70168004017D487A7B64', X'01A203918F557675988CECC486BEDEF9', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200875, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A203918E4C70168004017D487A7B64', X'01A203918F557675988CECC486BEDEF9', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356200861, NULL, 1795356200876, NULL);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'content_card', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'email', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'sms', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'webhook', 12, 0, 0, 0, 0, 0);
INSERT INTO console_log ("dispatch_id", "workspace_id", "at", "record") VALUES (X'01A203918F557675988CECC486BEDEF9', 1, 1795356200898, '{"audience":null,"call":"send","campaign_id":"3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60","dispatch_id":"01a203918f557675988cecc486bedef9","finished_at":"2026-11-22T14:03:20.898Z","messages":{"content_card":{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"},"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"past {{${external_id}}}"},"sms":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"past","subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11"},"webhook":{"body":"past {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"received_at":"2026-11-22T14:03:20.789Z","recipient_subscription_state":"subscribed","request_id":"01a20391-8f4b-74ae-bcdb-55688f892754","results":{"aborted":0,"bounced":0,"failed":0,"left_out":{"capped":0,"control_group":0,"not_in_audience":12,"unknown":0,"unsubscribed":0},"sent":48,"unreachable":0,"users":24},"segment_id":"9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20","send_id":null}');
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A203918F76705EA54E1A767677323F', 1, 'transactional_postback', '9f554e8192844f03bf0d07c7a2d6d13c', 'http://127.83.0.1:42583/states', '{"dispatch_id":"9f554e8192844f03bf0d07c7a2d6d13c","status":"sent","metadata":{"external_send_id":"send-past","campaign_api_id":"7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2","received_at":"2026-11-22T14:03:20.801+00:00","enqueued_at":"2026-11-22T14:03:20.804+00:00","executed_at":"2026-11-22T14:03:20.807+00:00","sent_at":"2026-11-22T14:03:20.820+00:00"}}', X'F3FA6940A1E08323824DA6CFC9540C05', 2688115123682751039, 'delivered', '01a20391-8f61-756a-9d09-a4eb4aaf1515', 1, 1795356200822, 1795442600822, NULL, 200, NULL, 1795356200858, NULL);
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A20391902771AB8EDF0E338B95EA70', 1, 'export_callback', 'c2e61eb6-4732-4bb0-b337-c1130a705df6-1795356200', 'http://127.83.0.1:42583/callback', '{"success":true,"url":"http://127.0.0.1:0/users/export/c2e61eb6-4732-4bb0-b337-c1130a705df6-1795356200/download?signature=Sl-aMIAPrsUVQPr-ngfvwAiok3YAgwIRuFqjDjdIk1k"}', X'F3FA6940A1E08323824DA6CFC9540C05', 1071590850885446256, 'delivered', '01a20391-8f85-7010-a2ff-4b83b1203224', 1, 1795356200999, 1795442600999, NULL, 200, NULL, 1795356201020, NULL);
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A20391915B77AD8574B4EE0C893596', 1, 'export_callback', '3e783b67-7152-490f-8406-2e59b7be1da0-1795356201', 'http://127.83.0.1:42583/callback-begun', '{"success":true,"url":"http://127.0.0.1:0/users/export/3e783b67-7152-490f-8406-2e59b7be1da0-1795356201/download?signature=ETWvoNGNH1pYix2mfviHQMz_YvSQlas0N2tLO10KGP8"}', X'F3FA6940A1E08323824DA6CFC9540C05', 393138001993610646, 'pending', '01a20391-90bf-70d4-a0ae-aed546b40664', 1, 1795356201307, 1795442601307, 1795356201668, 503, 'the receiver answered 503 Service Unavailable', NULL, NULL);
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'6D96B08063044822A63664BF2303B8E6', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-begun', '{"external_user_id":"u4"}', NULL, '{"order":"begun"}', '01a20391-90ba-7506-b3a1-b3820e8550b9', 'processing', 1795356201148, NULL, X'01A203918E4C70048C397A428194E387', 1795356201147, 1795356201148, 1795356201151, NULL, 1795356202274, NULL, 1795356202274, 0, 0, 1, NULL);
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'9F554E8192844F03BF0D07C7A2D6D13C', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-past', NULL, NULL, NULL, '01a20391-8f61-756a-9d09-a4eb4aaf1515', 'sent', 1795356200820, NULL, X'01A203918E4C700394C0C4577E658D00', 1795356200801, 1795356200804, 1795356200807, 1795356200820, 1795356230813, NULL, 1795356230813, 0, 1, 0, X'01A203918F76705EA54E1A767677323F');
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'AFCE2CA2E184493BB98F970167E70BCB', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-called', '{"external_user_id":"u10"}', '{"v":1,"workspace":1,"received_at":1795356201446,"objects":[{"attributes":{"user":{"external_id":"u10"},"fields":{"first_name":"called"}}}]}', '{"order":"called"}', '01a20391-91e6-733e-97bb-615bcfbdb5f2', 'processing', 1795356201447, NULL, NULL, 1795356201446, 1795356201447, NULL, NULL, 1795356201447, NULL, 1795356206447, 0, 0, 0, NULL);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-begun', X'6D96B08063044822A63664BF2303B8E6', 1795356201148);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-called', X'AFCE2CA2E184493BB98F970167E70BCB', 1795356201447);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-past', X'9F554E8192844F03BF0D07C7A2D6D13C', 1795356200803);
INSERT INTO dead_letters ("id", "consumer_group", "topic", "partition", "position", "appended_at", "key", "payload", "request_id", "reason", "attempts", "created_at") VALUES (X'01A203919042763792EE50F9B7AB27C9', 'ingest', 'tracking', 0, 1, 1795356201023, X'', X'7B64616D61676564', 'damaged', 'not a message of tracking: key must be a string at line 1 column 2', 1, 1795356201025);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 0, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 1, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 2, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 3, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 0, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 2, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 1, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 2, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 3, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 0, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 1, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 2, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 3, '920f5661-67d9-4dbb-b9b2-49fa35426e77', 0, 0);
INSERT INTO idempotency_claims ("workspace_id", "endpoint", "key", "id", "body", "messages", "received_at", "claimed_at", "leased_until", "status", "answer") VALUES (1, 'POST /users/track', 'answered', X'01A2039191D8729FA8F9D59E48DEF241', X'C1542FA7C1E35689D88F97C76547960D4E5C5EE354D680E42B7BBA5E2F474741', X'10FCABC16F4A80A3BA713CCEF697789A85605652AB6E4B42E530EC488AC5167A', 1795356201432, 1795356201432, 1795356221432, 201, '{"message":"success","attributes_processed":1}');
INSERT INTO idempotency_claims ("workspace_id", "endpoint", "key", "id", "body", "messages", "received_at", "claimed_at", "leased_until", "status", "answer") VALUES (1, 'POST /users/track', 'left', X'01A2039191DB7047B28FB2D215CD4717', X'5AB8DE5A9167006A6AA1424936A1D87AECE4CFE3D01B0183693A30B0D27FB63F', X'89A995E15C3793CD6C950AA13C76156F44DCD50DF63093B6D6F5ABCCA82B6B81', 1795356201435, 1795356201435, 0, NULL, NULL);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (0, 'scim', 86400, 1795392000000, 13);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'canvas.trigger.schedule.create', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'catalogs', 60, 1795356240000, 41);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.live_activity.start', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.schedule.create', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.send', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.send.audience', 60, 1795356240000, 2);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'users.export.global_control_group', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'users.track', 60, 1795356240000, 125);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence ("name", "seq") VALUES ('catalogs', 1);
