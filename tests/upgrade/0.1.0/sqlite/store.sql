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
INSERT INTO _sqlx_migrations ("version", "description", "installed_on", "success", "checksum", "execution_time") VALUES (1, 'first', '2026-11-22 14:09:38', 1, X'C1925539B7407F23CB2BE2AED2937182230C6F350037DAB82A589E3A3B5F4E6988ECC56EBA56A64F7316948B91810F3C', 12409759);
INSERT INTO settings ("name", "value") VALUES ('company', 'Acme Inc.');
INSERT INTO settings ("name", "value") VALUES ('log.partitions', '4');
INSERT INTO settings ("name", "value") VALUES ('secret_key.check', 'rEFSl9UhsSyavUDJHTSb10rYzYqHwb5w/XyWiYuxEfQ=');
INSERT INTO workspaces ("id", "name", "currency", "exchange_rates", "time_zone", "ip_allowlist", "rate_limits", "frequency_capping", "export_users_limit", "export_bytes_limit", "s3_storage", "azure_storage", "azure_is_default", "callback_secret", "created_at") VALUES (1, 'acme', 'USD', '{"EUR":1250000}', 'America/New_York', '[]', '{"users.track":{"requests":50000,"seconds":60}}', '[{"messages":500,"days":7,"channel":"email"}]', 1000, 1073741824, NULL, NULL, 0, X'1220577665C276714C8A1E18D8B6F6B4924FD48DFFB3463B8954CB9F97C530B8D1C524786C0EDB2FD829695ACF2EFAAAEAFE6F35A036AFF945FF281BC39E7837', 1795356579016);
INSERT INTO api_keys ("id", "workspace_id", "name", "hash", "permissions", "allow", "declared", "created_at", "revoked_at", "last_used_at") VALUES (X'01A2039755D076A18AAD212408E3086C', 1, 'k', X'F901D99FBFF3197CA03BB34B194E143ADB99370AC15C2425AB06F5D6663036F3', '["campaigns.list","canvas.trigger.schedule.create","canvas.trigger.schedule.delete","catalogs.update_items","messages.live_activity.start","messages.schedule.create","messages.send","transactional.send","users.export.global_control_group","users.track"]', '[]', 1, 1795356579280, NULL, 1795356579378);
INSERT INTO apps ("id", "workspace_id", "name", "platform", "bundle_id", "activity_types") VALUES (X'7D1F3C1A54B14C0E9B1E2F6F8A1D0C33', 1, 'iOS', 'ios', 'com.acme', '["Delivery"]');
INSERT INTO control_groups ("segment_id", "workspace_id", "percent", "slices", "active", "created_at") VALUES (X'5328481BC1A341A3AB34E27E35E63CB1', 1, 100, '[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99]', 1, 1795356579279);
INSERT INTO dashboard_users ("id", "name_key", "declared_key", "doc", "version", "created_at", "modified_at") VALUES (X'01A2039755D775AF8D80B1E1AC659644', 'ann@acme.example', 'ann@acme.example', '{"userName":"ann@acme.example","name":{"givenName":"Ann"},"active":true,"permissions":{"companyPermissions":["manage_company_settings"],"appGroup":[{"appGroupId":"91c4e77a-a513-8402-b791-119923f9be8a","appGroupName":"acme","appGroupPermissions":["send_campaigns"]}]}}', 1, 1795356579287, 1795356579287);
INSERT INTO dashboard_users ("id", "name_key", "declared_key", "doc", "version", "created_at", "modified_at") VALUES (X'01A2039756C9704DA364603FCE91CF06', 'bob@acme.example', NULL, '{"userName":"bob@acme.example","name":{"givenName":"Bob","familyName":"Lee"},"active":true,"department":"CRM"}', 1, 1795356579528, 1795356579528);
INSERT INTO scim_tokens ("id", "name", "hash", "allow", "declared", "created_at", "revoked_at", "last_used_at") VALUES (X'01A2039755D775AF8D80B1E0B9603447', 'idp', X'4E5B054D4C2A50E3E14CF3A0647656EC7EFD8D3E0101E4EF22A0843578D56DC1', '[]', 1, 1795356579287, NULL, 1795356579522);
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1182336626802507816, 16, 1, X'01A2039755FD700A8697632A2297CBB4', 'u10', 'u10@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-700a-8697-632a2297cbb4","external_id":"u10","user_aliases":[{"alias_name":"card 10","alias_label":"crm"}],"random_bucket":1687,"created_at":"2026-11-22T14:09:39.325Z","email":"u10@acme.example","phone":"+15550000010","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-10","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-10","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1254394220840435736, 17, 1, X'01A2039755FD70068707EB103A426A51', 'u6', 'u6@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7006-8707-eb103a426a51","external_id":"u6","user_aliases":[{"alias_name":"card 6","alias_label":"crm"}],"random_bucket":1799,"created_at":"2026-11-22T14:09:39.325Z","email":"u6@acme.example","phone":"+15550000006","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-6","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-6","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1398509408916291588, 19, 1, X'01A2039755FD7001876E7BEB8D376B05', 'u1', 'u1@acme.example', 1795356579389, '{"service_id":"01a20397-55fd-7001-876e-7beb8d376b05","external_id":"u1","user_aliases":[{"alias_name":"card 1","alias_label":"crm"}],"random_bucket":1902,"created_at":"2026-11-22T14:09:39.325Z","email":"u1@acme.example","phone":"+15550000001","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-1","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-1","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1470567002954219584, 20, 1, X'01A2039755FD70108823F32D37155B62', 'u16', 'u16@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7010-8823-f32d37155b62","external_id":"u16","user_aliases":[{"alias_name":"card 16","alias_label":"crm"}],"random_bucket":2083,"created_at":"2026-11-22T14:09:39.325Z","email":"u16@acme.example","phone":"+15550000016","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-16","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-16","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (173530310271516732, 2, 1, X'01A2039755FD700F80D09C8199BB3CF6', 'u15', 'u15@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-700f-80d0-9c8199bb3cf6","external_id":"u15","user_aliases":[{"alias_name":"card 15","alias_label":"crm"}],"random_bucket":208,"created_at":"2026-11-22T14:09:39.325Z","email":"u15@acme.example","phone":"+15550000015","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-15","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-15","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1830854973143859200, 25, 1, X'01A2039755FD700089FCC59B282A54D2', 'u0', 'u0@acme.example', 1795356579389, '{"service_id":"01a20397-55fd-7000-89fc-c59b282a54d2","external_id":"u0","user_aliases":[{"alias_name":"card 0","alias_label":"crm"}],"random_bucket":2556,"created_at":"2026-11-22T14:09:39.325Z","email":"u0@acme.example","phone":"+15550000000","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-0","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-0","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1974970161219715084, 27, 1, X'01A2039755FD70038A9F53582CEA9D0C', 'u3', 'u3@acme.example', 1795356579508, '{"service_id":"01a20397-55fd-7003-8a9f-53582cea9d0c","external_id":"u3","user_aliases":[{"alias_name":"card 3","alias_label":"crm"}],"random_bucket":2719,"created_at":"2026-11-22T14:09:39.325Z","email":"u3@acme.example","phone":"+15550000003","first_name":"past","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-3","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-3","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (245587904309444660, 3, 1, X'01A2039755FD700D818C5122C2A1F903', 'u13', 'u13@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-700d-818c-5122c2a1f903","external_id":"u13","user_aliases":[{"alias_name":"card 13","alias_label":"crm"}],"random_bucket":396,"created_at":"2026-11-22T14:09:39.325Z","email":"u13@acme.example","phone":"+15550000013","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-13","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-13","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (245587904309444676, 3, 1, X'01A2039755FD701181307486CA3BF4C2', 'u17', 'u17@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7011-8130-7486ca3bf4c2","external_id":"u17","user_aliases":[{"alias_name":"card 17","alias_label":"crm"}],"random_bucket":304,"created_at":"2026-11-22T14:09:39.325Z","email":"u17@acme.example","phone":"+15550000017","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-17","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-17","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2623488507561066568, 36, 1, X'01A2039755FD70128E6465CADD32AE40', 'u18', 'u18@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7012-8e64-65cadd32ae40","external_id":"u18","user_aliases":[{"alias_name":"card 18","alias_label":"crm"}],"random_bucket":3684,"created_at":"2026-11-22T14:09:39.325Z","email":"u18@acme.example","phone":"+15550000018","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-18","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-18","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2911718883712778272, 40, 1, X'01A2039755FD70088FCA31C764E48B51', 'u8', 'u8@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7008-8fca-31c764e48b51","external_id":"u8","user_aliases":[{"alias_name":"card 8","alias_label":"crm"}],"random_bucket":4042,"created_at":"2026-11-22T14:09:39.325Z","email":"u8@acme.example","phone":"+15550000008","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-8","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-8","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3127891665826562096, 43, 1, X'01A2039755FD700C90FAD8EEDC0BD985', 'u12', 'u12@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-700c-90fa-d8eedc0bd985","external_id":"u12","user_aliases":[{"alias_name":"card 12","alias_label":"crm"}],"random_bucket":4346,"created_at":"2026-11-22T14:09:39.325Z","email":"u12@acme.example","phone":"+15550000012","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-12","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-12","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (317645498347372624, 4, 1, X'01A2039755FD701481A4306C79EC3D7F', 'u20', 'u20@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7014-81a4-306c79ec3d7f","external_id":"u20","user_aliases":[{"alias_name":"card 20","alias_label":"crm"}],"random_bucket":420,"created_at":"2026-11-22T14:09:39.325Z","email":"u20@acme.example","phone":"+15550000020","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-20","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-20","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3344064447940345944, 46, 1, X'01A2039755FD7016920471D1102F21E2', 'u22', 'u22@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7016-9204-71d1102f21e2","external_id":"u22","user_aliases":[{"alias_name":"card 22","alias_label":"crm"}],"random_bucket":4612,"created_at":"2026-11-22T14:09:39.325Z","email":"u22@acme.example","phone":"+15550000022","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-22","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-22","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3416122041978273812, 47, 1, X'01A2039755FD7005926BBDA6EB31C83B', 'u5', 'u5@acme.example', 1795356579389, '{"service_id":"01a20397-55fd-7005-926b-bda6eb31c83b","external_id":"u5","user_aliases":[{"alias_name":"card 5","alias_label":"crm"}],"random_bucket":4715,"created_at":"2026-11-22T14:09:39.325Z","email":"u5@acme.example","phone":"+15550000005","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-5","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-5","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3560237230054129700, 49, 1, X'01A2039755FD700993627D3ECFA930FA', 'u9', 'u9@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7009-9362-7d3ecfa930fa","external_id":"u9","user_aliases":[{"alias_name":"card 9","alias_label":"crm"}],"random_bucket":4962,"created_at":"2026-11-22T14:09:39.325Z","email":"u9@acme.example","phone":"+15550000009","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-9","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-9","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3920525200243769400, 54, 1, X'01A2039755FD700E954FF851364B4C4C', 'u14', 'u14@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-700e-954f-f851364b4c4c","external_id":"u14","user_aliases":[{"alias_name":"card 14","alias_label":"crm"}],"random_bucket":5455,"created_at":"2026-11-22T14:09:39.325Z","email":"u14@acme.example","phone":"+15550000014","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-14","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-14","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4641101140623048788, 64, 1, X'01A2039755FD70159919671E99AE2C1B', 'u21', 'u21@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7015-9919-671e99ae2c1b","external_id":"u21","user_aliases":[{"alias_name":"card 21","alias_label":"crm"}],"random_bucket":6425,"created_at":"2026-11-22T14:09:39.325Z","email":"u21@acme.example","phone":"+15550000021","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-21","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-21","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (5145504298888544272, 71, 1, X'01A2039755FD70049BDA114C13C187DF', 'u4', 'u4@acme.example', 1795356579867, '{"service_id":"01a20397-55fd-7004-9bda-114c13c187df","external_id":"u4","user_aliases":[{"alias_name":"card 4","alias_label":"crm"}],"random_bucket":7130,"created_at":"2026-11-22T14:09:39.325Z","email":"u4@acme.example","phone":"+15550000004","first_name":"begun","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-4","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-4","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (5433734675040256076, 75, 1, X'01A2039755FD70139D7AF2897CF9A31A', 'u19', 'u19@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7013-9d7a-f2897cf9a31a","external_id":"u19","user_aliases":[{"alias_name":"card 19","alias_label":"crm"}],"random_bucket":7546,"created_at":"2026-11-22T14:09:39.325Z","email":"u19@acme.example","phone":"+15550000019","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-19","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-19","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6442540991571247148, 89, 1, X'01A2039755FD700BA2FF08FDA84416F5', 'u11', 'u11@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-700b-a2ff-08fda84416f5","external_id":"u11","user_aliases":[{"alias_name":"card 11","alias_label":"crm"}],"random_bucket":8959,"created_at":"2026-11-22T14:09:39.325Z","email":"u11@acme.example","phone":"+15550000011","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-11","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-11","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6730771367722958856, 93, 1, X'01A2039755FD7002A480ABC281472E05', 'u2', 'u2@acme.example', 1795356579389, '{"service_id":"01a20397-55fd-7002-a480-abc281472e05","external_id":"u2","user_aliases":[{"alias_name":"card 2","alias_label":"crm"}],"random_bucket":9344,"created_at":"2026-11-22T14:09:39.325Z","email":"u2@acme.example","phone":"+15550000002","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-2","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-2","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (822048656612868124, 11, 1, X'01A2039755FD700784A38BAC3002B604', 'u7', 'u7@acme.example', 1795356579325, '{"service_id":"01a20397-55fd-7007-84a3-8bac3002b604","external_id":"u7","user_aliases":[{"alias_name":"card 7","alias_label":"crm"}],"random_bucket":1187,"created_at":"2026-11-22T14:09:39.325Z","email":"u7@acme.example","phone":"+15550000007","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-7","device_id":"d"},{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"start-7","device_id":"d","kind":"live_activity"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO activity ("key", "slice", "workspace_id", "service_id", "body") VALUES (1398509408916291588, 19, 1, X'01A2039755FD7001876E7BEB8D376B05', X'01010374656101D6C402A7C4A718000201107B226C656166223A22677265656E227D01047365656E01D6C402A7C4A7180001010A7B2270616765223A377D010345555280A4E803');
INSERT INTO activity ("key", "slice", "workspace_id", "service_id", "body") VALUES (6730771367722958856, 93, 1, X'01A2039755FD7002A480ABC281472E05', X'01010573686F657301D6C402A8C4A7180001010D7B2273697A65223A22584C227D00010355534480C2D72F');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u0', X'01A2039755FD700089FCC59B282A54D2');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u1', X'01A2039755FD7001876E7BEB8D376B05');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u10', X'01A2039755FD700A8697632A2297CBB4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u11', X'01A2039755FD700BA2FF08FDA84416F5');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u12', X'01A2039755FD700C90FAD8EEDC0BD985');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u13', X'01A2039755FD700D818C5122C2A1F903');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u14', X'01A2039755FD700E954FF851364B4C4C');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u15', X'01A2039755FD700F80D09C8199BB3CF6');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u16', X'01A2039755FD70108823F32D37155B62');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u17', X'01A2039755FD701181307486CA3BF4C2');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u18', X'01A2039755FD70128E6465CADD32AE40');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u19', X'01A2039755FD70139D7AF2897CF9A31A');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u2', X'01A2039755FD7002A480ABC281472E05');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u20', X'01A2039755FD701481A4306C79EC3D7F');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u21', X'01A2039755FD70159919671E99AE2C1B');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u22', X'01A2039755FD7016920471D1102F21E2');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u3', X'01A2039755FD70038A9F53582CEA9D0C');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u4', X'01A2039755FD70049BDA114C13C187DF');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u5', X'01A2039755FD7005926BBDA6EB31C83B');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u6', X'01A2039755FD70068707EB103A426A51');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u7', X'01A2039755FD700784A38BAC3002B604');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u8', X'01A2039755FD70088FCA31C764E48B51');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u9', X'01A2039755FD700993627D3ECFA930FA');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 0', X'01A2039755FD700089FCC59B282A54D2');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 1', X'01A2039755FD7001876E7BEB8D376B05');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 10', X'01A2039755FD700A8697632A2297CBB4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 11', X'01A2039755FD700BA2FF08FDA84416F5');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 12', X'01A2039755FD700C90FAD8EEDC0BD985');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 13', X'01A2039755FD700D818C5122C2A1F903');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 14', X'01A2039755FD700E954FF851364B4C4C');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 15', X'01A2039755FD700F80D09C8199BB3CF6');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 16', X'01A2039755FD70108823F32D37155B62');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 17', X'01A2039755FD701181307486CA3BF4C2');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 18', X'01A2039755FD70128E6465CADD32AE40');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 19', X'01A2039755FD70139D7AF2897CF9A31A');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 2', X'01A2039755FD7002A480ABC281472E05');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 20', X'01A2039755FD701481A4306C79EC3D7F');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 21', X'01A2039755FD70159919671E99AE2C1B');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 22', X'01A2039755FD7016920471D1102F21E2');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 3', X'01A2039755FD70038A9F53582CEA9D0C');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 4', X'01A2039755FD70049BDA114C13C187DF');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 5', X'01A2039755FD7005926BBDA6EB31C83B');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 6', X'01A2039755FD70068707EB103A426A51');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 7', X'01A2039755FD700784A38BAC3002B604');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 8', X'01A2039755FD70088FCA31C764E48B51');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 9', X'01A2039755FD700993627D3ECFA930FA');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u0@acme.example', X'01A2039755FD700089FCC59B282A54D2');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u10@acme.example', X'01A2039755FD700A8697632A2297CBB4');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u11@acme.example', X'01A2039755FD700BA2FF08FDA84416F5');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u12@acme.example', X'01A2039755FD700C90FAD8EEDC0BD985');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u13@acme.example', X'01A2039755FD700D818C5122C2A1F903');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u14@acme.example', X'01A2039755FD700E954FF851364B4C4C');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u15@acme.example', X'01A2039755FD700F80D09C8199BB3CF6');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u16@acme.example', X'01A2039755FD70108823F32D37155B62');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u17@acme.example', X'01A2039755FD701181307486CA3BF4C2');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u18@acme.example', X'01A2039755FD70128E6465CADD32AE40');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u19@acme.example', X'01A2039755FD70139D7AF2897CF9A31A');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u1@acme.example', X'01A2039755FD7001876E7BEB8D376B05');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u20@acme.example', X'01A2039755FD701481A4306C79EC3D7F');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u21@acme.example', X'01A2039755FD70159919671E99AE2C1B');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u22@acme.example', X'01A2039755FD7016920471D1102F21E2');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u2@acme.example', X'01A2039755FD7002A480ABC281472E05');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u3@acme.example', X'01A2039755FD70038A9F53582CEA9D0C');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u4@acme.example', X'01A2039755FD70049BDA114C13C187DF');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u5@acme.example', X'01A2039755FD7005926BBDA6EB31C83B');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u6@acme.example', X'01A2039755FD70068707EB103A426A51');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u7@acme.example', X'01A2039755FD700784A38BAC3002B604');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u8@acme.example', X'01A2039755FD70088FCA31C764E48B51');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u9@acme.example', X'01A2039755FD700993627D3ECFA930FA');
INSERT INTO erased ("workspace_id", "who", "erased_at") VALUES (1, X'4E404EDE9D026E90B728B0A2CF7A94DE1B9958FE90BE3046F54A1F47659A4D8C', 1795356579848);
INSERT INTO erased ("workspace_id", "who", "erased_at") VALUES (1, X'57DA657BE73EBAD8BBECB56B81D3B0CFEC99895332B55EE469BCABFB23269086', 1795356579848);
INSERT INTO products ("workspace_id", "product_id") VALUES (1, 'shoes');
INSERT INTO products ("workspace_id", "product_id") VALUES (1, 'tea');
INSERT INTO catalogs ("id", "workspace_id", "name", "fields", "items_hash", "load", "created_at") VALUES (1, 1, 'restaurants', '[{"name":"City","type":"string"},{"name":"Rating","type":"number"},{"name":"Opened_at","type":"time"}]', X'5C59F98254AF29B24440EDF0D72CFC7417FF3051EB27934A9660082C111C53D0', 1, 1795356579279);
INSERT INTO catalog_items ("catalog_id", "item_id", "load", "version", "doc") VALUES (1, 'r1', 1, 1, '{"City":"Oslo","Rating":4.7}');
INSERT INTO catalog_items ("catalog_id", "item_id", "load", "version", "doc") VALUES (1, 'r2', 1, 0, '{"City":"Rome"}');
INSERT INTO catalog_edits ("catalog_id", "request_id", "received_at", "applied", "unknown", "unknown_ids", "applied_at") VALUES (1, '01a20397-568a-75f8-8c15-cf97d87a0676', 1795356579469, 0, 1, '["nobody"]', 1795356579480);
INSERT INTO catalog_edits ("catalog_id", "request_id", "received_at", "applied", "unknown", "unknown_ids", "applied_at") VALUES (1, '01a20397-568a-75f8-8c15-cf97d87a0676', 1795356579469, 1, 0, '[]', 1795356579476);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 4, 'canvas', 'Onboarding', '[]', 0, 0, '{"messages":{"webhook":{"body":"canvas {{${external_id}}} {{canvas_entry_properties.${n}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}}}', 1795356579279, 1795356579279);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'2B7C9D1E5E0A4B7F9C1D7A8E6F5D4C03', 3, 'triggered', 'Thanks', '[]', 0, 0, '{"audience":{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}},"messages":{"webhook":{"body":"thanks {{${external_id}}} {{event_properties.${size}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"trigger":{"purchase":{"product_id":"shoes","properties":{"size":"XL"}}}}', 1795356579279, 1795356579279);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 1, 'api', 'Welcome', '["t"]', 0, 0, '{"messages":{"webhook":{"body":"welcome {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}}}', 1795356579279, 1795356579279);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 2, 'transactional', 'Receipt', '[]', 0, 0, '{"email":{"body":"Thank you","subject":"receipt {{api_trigger_properties.${order}}} {{${external_id}}}"},"sla_per_hour":5}', 1795356579279, 1795356579279);
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'email', X'EC369B28F9F589D88591F903773F69FDD837737E6E13ACBE00A2BB541F873979597C392624E6B02C5A63725D79A93FD303E24FD9FD751B13D01A2E0CFFBEB147D297FE9DE5C098394DDE9C7DF7A4865F858CAD0EC5F9BE90564587F2FEF33916B351F4460137879C840BD1F27A9656E4F5CB18B2CC9041FA1E38CA891BB7E45B2DD8A89D966FACB31C52554F13121684A386915D2F8E46B84007F84E1286E439CEF4F7F729316173194294729EBFDE6D4E9ED4E39D16946893EB49B97481F93F63614830EC459EB2145A5997785B0FC982F60EA28260F13AAAC300AC80FFC33AC1A7FDE55B459BB1C3AF1CB7D0F5CAB5C75A5CC5CF62B0372CF044B8F339589C47F67E1741230BDF8E1913767A449E2DA569AB7FBF3B7AF0E202C9C1185A9A591A96E41A5708A5020E03F774975D10B05BF28783DBA68A33F408555CFB65E64CA408902915DB279D30FC0B840243D60669BF480B44F4A786E2F8180E86DECECA4B6CA25FFB3418F32028549F012B34E345');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.feedback_secret', X'43518ADA3810F5B798934AEF06D86E220E5D599CFC082ABD3375257FC50B0A3121B60C0A649AE57BE8075AD91178051F2F65B69096DF289F7C893C393D873E5C9DA04089CC8AFE2DA13E631D20C0603CAAC006B854F40EF79BF3EB6CC228221DD54352E6126275FD9774926D8B05AD66451232ABBABBBABD634B4C3BDCA4BCA86E9C1AEBA7');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.push', X'D61881036CEA20A7EE6DAA9355926C802FDAADF36BF8F83C00B812DBFF650FAA75688F3C513C4BF304E60F840FF99DCA2D2ED37CFA3453EEE9D1A471A9764E0CCEC3830FA635EC657D2FDD2F692B3331DA7529E3D3230721F250477DF0042E229149057E98B08A28AD7959FE59F8DAF60C808171096F1E900D1DF345E18FD57A76CB9561D8F3EF608A42851261916BA755CC8A35A44155884ACA2C35EA6874BEAA0186721F3E95FC322AC8108BE8961C3CEF1B12253FB8');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.sms', X'9B6F4C40728BE57808A9321AC548AA69D3EB52B8DFB4866ED7250953E2C3C1682FF013904F699BF0E304568A25ACF035B9022AA443DA882738BA911D9E3426FDD9EFDBD540C7900346F8671263F50F5003B040D7AA4FADFA0062B18FD7F9DB5A9EA75896F05DBDC3C62E9DA1A9A65F83D4FC7B15F7886D4D7AC57B9DD906DDAA70458AE6F695C762F13EB4644EA8CEA243EDF9B3FF0A6421CAC717DDDF3B6FFAFAD48BB8202D6B1D85A5EBDBA7936D88D15A8CB71CAD');
INSERT INTO subscription_groups ("workspace_id", "id", "channel", "sender") VALUES (1, X'5A7D3C0E2D7B4F438F0C3F9D2C6B7A11', 'sms', '+15550100');
INSERT INTO segments ("workspace_id", "id", "name", "audience") VALUES (1, X'9D0B7C5261C54D0EB0F32F1C7A3F8E20', 'VIP', '{"AND":[{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}]}');
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A20397591E70A6A3088AE86EE3E274', 1, X'01A20397591E70A6A3088AE72A2AB41F', NULL, 2524420322038637172, 'instant', 1795356640120, '{"dispatch_id":"01a20397-591e-70a6-a308-8ae72a2ab41f","workspace_id":1,"kind":"schedule","campaign_id":null,"send_id":null,"messages":{"webhook":{"body":"scheduled {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[{"who":{"external_id":"u11"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null}],"segment_id":null,"audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356580126,"request_id":"01a20397-5918-7530-97fb-0e879a876210"}', '01a20397-5918-7530-97fb-0e879a876210', 'pending', 1795356580126, NULL, NULL, NULL, NULL, NULL);
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A20397592B72E68D2A1F18BE83BD96', 1, X'42B611163691418B9DAB5E68C8293B34', X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 948604862650891670, 'instant', 1795356640120, '{"broadcast":false,"recipients":[{"external_user_id":"u12","canvas_entry_properties":{"n":12}}],"canvas_entry_properties":{"n":1}}', '01a20397-5925-7121-b017-a2f5ddf9d172', 'pending', 1795356580139, NULL, NULL, NULL, NULL, NULL);
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A20397593377B8AEEC5C69D2186319', 1, X'246E7552F0D64EC2A3D1651638F91A1B', X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 3381179029814534937, 'local', 1821276580142, '{"broadcast":true}', '01a20397-5932-771a-aff8-971db825c218', 'pending', 1795356580147, NULL, NULL, NULL, NULL, NULL);
INSERT INTO invalid_numbers ("workspace_id", "number", "reason", "added_at") VALUES (1, '15550199', 'added by hand', 1795356579361);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD700089FCC59B282A54D2', X'F9A3127AEBDD8C06937ED095B5BBB975', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579573, 2110716579573);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'0D9195F402D6850C8BD335C7286EE3A2', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579581, 2110716579581);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD70049BDA114C13C187DF', X'BC59835E99AF808AAB1D8CB92285C6CE', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579582, 2110716579582);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD70068707EB103A426A51', X'8A07E520839988B3A27F9A3B84A4B4E0', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579569, 2110716579569);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD70088FCA31C764E48B51', X'2AADA00FEC398290AC571A7D4626A972', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579574, 2110716579574);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD700A8697632A2297CBB4', X'F9A31D0B3C3780BAB6E4B662DC948F32', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579569, 2110716579569);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD700C90FAD8EEDC0BD985', X'7867B84F19AD8314B4A3E50D3C631C05', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579577, 2110716579577);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD700E954FF851364B4C4C', X'7ACC47BB7366892099696D3904729CB8', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579582, 2110716579582);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD70108823F32D37155B62', X'A34AB106318689E3B59E2FE2D936641E', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579570, 2110716579570);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD70128E6465CADD32AE40', X'EEB3D5306C418C60B26CCB99664E37C3', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579573, 2110716579573);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD701481A4306C79EC3D7F', X'C090D18F73258F689E21A8A47E1A841C', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579566, 2110716579566);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A2039755FD7016920471D1102F21E2', X'D33B13D0A1E08CDBB6F7688995378611', X'01A2039756AE7682B08AEB74BBA31B2C', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795356579579, 2110716579579);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 0, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 1, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 10, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 11, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 12, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 13, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 14, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 15, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 16, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 17, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 18, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 19, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 2, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 20, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 21, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 22, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 23, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 24, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 25, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 26, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 27, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 28, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 29, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 3, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 30, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 31, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 32, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 33, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 34, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 35, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 36, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 37, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 38, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 39, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 4, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 40, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 41, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 42, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 43, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 44, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 45, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 46, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 47, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 48, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 49, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 5, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 50, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 51, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 52, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 53, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 54, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 55, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 56, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 57, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 58, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 59, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 6, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 60, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 61, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 62, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 63, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 64, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 65, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 66, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 67, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 68, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 69, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 7, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 70, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 71, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 72, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 73, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 74, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 75, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 76, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 77, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 78, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 79, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 8, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 80, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 81, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 82, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 83, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 84, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 85, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 86, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 87, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 88, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 89, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 9, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 90, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 91, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 92, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 93, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 94, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 95, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 96, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 97, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 98, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 99, 1795442979371, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('delivery', X'F3FA6940A1E08323824DA6CFC9540C05', 434494149012833560, 1795356580365, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('dispatch_named', X'6D657373616765730000000000000001', 4151710053700075472, 1795356582524, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_cleanup', X'01A2039756DB73EC998A114E904BE21E', 0, 1795356585150, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_cleanup', X'01A2039758267226AFF0BCA4EB7C3181', 0, 1795356588170, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 10, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 11, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 12, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 3, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 4, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 5, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 6, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 7, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 8, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A2039758BB758988011437045E2D62', 9, 1795356580039, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 2524420322038637172, 1795356640120, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 3381179029814534937, 1821222580142, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 948604862650891670, 1795356640120, 0, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A2039756DB73EC998A114E904BE21E', 1, 'd087be5c-a418-4e73-9f50-ae12e802c9fa-1795356579', X'5328481BC1A341A3AB34E27E35E63CB1', 'done', '["external_id","purchases"]', 'zip', NULL, 'http://127.83.0.1:42583/callback', '01a20397-56d2-7237-ab95-53cc26313dd8', 1795356579547, 1795356579547, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20397-55fd-7017-a624-fd26d5667a24","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"ed1b9705-4d21-4860-9a62-12c1cc377400","currency":"USD","exchange_rates":{"EUR":1250000}}', 24, 12, 1, 0, 1795356579559, 1795356579747, 1795356579754, 1795370979754, 1, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 1, '04eea124-d017-4ae8-9ca0-c249f10f9168-1795356579', X'5328481BC1A341A3AB34E27E35E63CB1', 'done', '["external_id"]', 'zip', NULL, 'http://127.83.0.1:42583/callback-begun', '01a20397-581f-7147-ad97-3c4301345dce', 1795356579878, 1795356579878, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20397-55fd-7016-9204-71d1102f21e2","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"59559d66-1884-481f-85b4-1a281a0f5581","currency":"USD","exchange_rates":{"EUR":1250000}}', 23, 12, 1, 0, 1795356579886, 1795356579980, 1795356579985, 1795370979985, 1, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A2039758BB758988011437045E2D62', 1, 'b1a309e3-6f97-4852-b082-d1e08b6c60cf-1795356580', X'5328481BC1A341A3AB34E27E35E63CB1', 'running', '["external_id","total_revenue"]', 'zip', NULL, NULL, '01a20397-58ba-7602-af25-024bbb988184', 1795356580026, 1795356580026, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20397-55fd-7016-9204-71d1102f21e2","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"eabd3765-8d66-4995-865f-a949b4b274a7","currency":"USD","exchange_rates":{"EUR":1250000}}', 23, 12, 1, 1, 1795356580031, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A2039759347507A59621EB9D166826', 1, 'b12f5fd9-7226-4483-af0a-fa6e8056518c-1795356580', X'5328481BC1A341A3AB34E27E35E63CB1', 'queued', '["external_id"]', 'zip', NULL, NULL, '01a20397-5934-7507-a596-21ea66d1d9b2', 1795356580148, 1795356580148, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A2039756DB73EC998A114E904BE21E', 0, 0, 24, 12, 1762, 0);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 0, 0, 23, 12, 1624, 0);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A2039758BB758988011437045E2D62', 0, 10, 4, 2, 276, 0);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 1, 0, X'00000000000000000000000000000000', 3, X'01A2039755FD700D818C5122C2A1F903', 1, 1, 2, 44, 138, 4048981324);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 10, 54, X'01A2039755FD700E954FF851364B4C4C', 71, X'01A2039755FD70049BDA114C13C187DF', 1, 1, 2, 43, 137, 1570194831);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 11, 71, X'01A2039755FD70049BDA114C13C187DF', 89, X'01A2039755FD700BA2FF08FDA84416F5', 1, 1, 2, 44, 138, 618856101);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 12, 89, X'01A2039755FD700BA2FF08FDA84416F5', 97, X'01A2039755FD7017A624FD26D5667A24', 1, 1, 2, 153, 196, 112222990);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 2, 3, X'01A2039755FD700D818C5122C2A1F903', 4, X'01A2039755FD701481A4306C79EC3D7F', 1, 1, 2, 44, 138, 2970161949);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 3, 4, X'01A2039755FD701481A4306C79EC3D7F', 16, X'01A2039755FD700A8697632A2297CBB4', 1, 1, 2, 43, 137, 2319496444);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 4, 16, X'01A2039755FD700A8697632A2297CBB4', 19, X'01A2039755FD7001876E7BEB8D376B05', 1, 1, 2, 150, 193, 1514152903);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 5, 19, X'01A2039755FD7001876E7BEB8D376B05', 25, X'01A2039755FD700089FCC59B282A54D2', 1, 1, 2, 43, 137, 4008887176);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 6, 25, X'01A2039755FD700089FCC59B282A54D2', 36, X'01A2039755FD70128E6465CADD32AE40', 1, 1, 2, 43, 137, 1700793037);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 7, 36, X'01A2039755FD70128E6465CADD32AE40', 43, X'01A2039755FD700C90FAD8EEDC0BD985', 1, 1, 2, 43, 137, 2913151725);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 8, 43, X'01A2039755FD700C90FAD8EEDC0BD985', 47, X'01A2039755FD7005926BBDA6EB31C83B', 1, 1, 2, 43, 137, 3502675129);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039756DB73EC998A114E904BE21E', 9, 47, X'01A2039755FD7005926BBDA6EB31C83B', 54, X'01A2039755FD700E954FF851364B4C4C', 1, 1, 2, 43, 137, 1876284326);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 1, 0, X'00000000000000000000000000000000', 3, X'01A2039755FD700D818C5122C2A1F903', 1, 1, 2, 44, 138, 4048981324);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 10, 54, X'01A2039755FD700E954FF851364B4C4C', 71, X'01A2039755FD70049BDA114C13C187DF', 1, 1, 2, 43, 137, 1570194831);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 11, 71, X'01A2039755FD70049BDA114C13C187DF', 89, X'01A2039755FD700BA2FF08FDA84416F5', 1, 1, 2, 44, 138, 618856101);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 12, 89, X'01A2039755FD700BA2FF08FDA84416F5', 93, X'01A2039755FD7002A480ABC281472E05', 1, 1, 1, 21, 115, 1068489521);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 2, 3, X'01A2039755FD700D818C5122C2A1F903', 4, X'01A2039755FD701481A4306C79EC3D7F', 1, 1, 2, 44, 138, 2970161949);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 3, 4, X'01A2039755FD701481A4306C79EC3D7F', 16, X'01A2039755FD700A8697632A2297CBB4', 1, 1, 2, 43, 137, 2319496444);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 4, 16, X'01A2039755FD700A8697632A2297CBB4', 19, X'01A2039755FD7001876E7BEB8D376B05', 1, 1, 2, 42, 136, 1669079587);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 5, 19, X'01A2039755FD7001876E7BEB8D376B05', 25, X'01A2039755FD700089FCC59B282A54D2', 1, 1, 2, 43, 137, 4008887176);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 6, 25, X'01A2039755FD700089FCC59B282A54D2', 36, X'01A2039755FD70128E6465CADD32AE40', 1, 1, 2, 43, 137, 1700793037);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 7, 36, X'01A2039755FD70128E6465CADD32AE40', 43, X'01A2039755FD700C90FAD8EEDC0BD985', 1, 1, 2, 43, 137, 2913151725);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 8, 43, X'01A2039755FD700C90FAD8EEDC0BD985', 47, X'01A2039755FD7005926BBDA6EB31C83B', 1, 1, 2, 43, 137, 3502675129);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758267226AFF0BCA4EB7C3181', 9, 47, X'01A2039755FD7005926BBDA6EB31C83B', 54, X'01A2039755FD700E954FF851364B4C4C', 1, 1, 2, 43, 137, 1876284326);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 1, 0, X'00000000000000000000000000000000', 3, X'01A2039755FD700D818C5122C2A1F903', 1, 1, 2, 44, 138, 4048981324);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 10, 54, X'01A2039755FD700E954FF851364B4C4C', 71, X'01A2039755FD70049BDA114C13C187DF', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 11, 71, X'01A2039755FD70049BDA114C13C187DF', 89, X'01A2039755FD700BA2FF08FDA84416F5', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 12, 89, X'01A2039755FD700BA2FF08FDA84416F5', 93, X'01A2039755FD7002A480ABC281472E05', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 2, 3, X'01A2039755FD700D818C5122C2A1F903', 4, X'01A2039755FD701481A4306C79EC3D7F', 1, 1, 2, 44, 138, 2970161949);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 3, 4, X'01A2039755FD701481A4306C79EC3D7F', 16, X'01A2039755FD700A8697632A2297CBB4', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 4, 16, X'01A2039755FD700A8697632A2297CBB4', 19, X'01A2039755FD7001876E7BEB8D376B05', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 5, 19, X'01A2039755FD7001876E7BEB8D376B05', 25, X'01A2039755FD700089FCC59B282A54D2', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 6, 25, X'01A2039755FD700089FCC59B282A54D2', 36, X'01A2039755FD70128E6465CADD32AE40', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 7, 36, X'01A2039755FD70128E6465CADD32AE40', 43, X'01A2039755FD700C90FAD8EEDC0BD985', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 8, 43, X'01A2039755FD700C90FAD8EEDC0BD985', 47, X'01A2039755FD7005926BBDA6EB31C83B', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A2039758BB758988011437045E2D62', 9, 47, X'01A2039755FD7005926BBDA6EB31C83B', 54, X'01A2039755FD700E954FF851364B4C4C', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'01A2039756AE7682B08AEB74BBA31B2C', 1, 'send', 'done', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '{"dispatch_id":"01a20397-56ae-7682-b08a-eb74bba31b2c","workspace_id":1,"kind":"send","campaign_id":"3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60","send_id":null,"messages":{"content_card":{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"},"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"past {{${external_id}}}"},"sms":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"past","subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11"},"webhook":{"body":"past {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":"9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20","audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356579502,"request_id":"01a20397-56ad-7259-a419-f3595a19f85f"}', '{"AND":[{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}]}', X'01A2039755FD7017A624FD26D5667A24', NULL, 1, 0, 24, 1, 0, '01a20397-56ad-7259-a419-f3595a19f85f', 1795356579502, 1795356579528, 1795356579592);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'01A2039758197121B354598ADD5779AA', 1, 'send', 'running', NULL, '{"dispatch_id":"01a20397-5819-7121-b354-598add5779aa","workspace_id":1,"kind":"send","campaign_id":null,"send_id":null,"messages":{"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"begun {{${external_id}}}"},"webhook":{"body":"begun {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":null,"audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356579865,"request_id":"01a20397-5815-735e-903d-6935b2b149c0"}', NULL, NULL, NULL, 1, 0, 2, 1, 1, '01a20397-5815-735e-903d-6935b2b149c0', 1795356579865, 1795356579865, NULL);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'5FFDCEB7440B42F7B13FB7E4BD16332C', 1, 'triggered', 'done', X'2B7C9D1E5E0A4B7F9C1D7A8E6F5D4C03', '{"dispatch_id":"5ffdceb7-440b-42f7-b13f-b7e4bd16332c","workspace_id":1,"kind":"triggered","campaign_id":"2b7c9d1e-5e0a-4b7f-9c1d-7a8e6f5d4c03","send_id":null,"messages":{"webhook":{"body":"thanks {{${external_id}}} {{event_properties.${size}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":null,"audience":{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795356579463,"request_id":"01a20397-562c-751d-9bcc-cd83c51ed9f9"}', NULL, NULL, NULL, 1, 0, 1, 1, 0, '01a20397-562c-751d-9bcc-cd83c51ed9f9', 1795356579463, 1795356579463, 1795356579483);
INSERT INTO dispatch_waves ("dispatch_id", "number", "wave") VALUES (X'01A2039756AE7682B08AEB74BBA31B2C', 0, NULL);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'01A2039756AE7682B08AEB74BBA31B2C', 1, NULL, NULL, NULL, NULL, 97, X'01A2039755FD7017A624FD26D5667A24', 97, X'01A2039755FD7017A624FD26D5667A24', 1, 1, 24, 48, 0, 0, 0, 0, 0, 12, 0, 0, 0);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'01A2039758197121B354598ADD5779AA', 1, NULL, '[{"who":{"external_id":"u1"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null},{"who":{"external_id":"u2"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null}]', X'6D657373616765730000000000000001', 4151710053700075472, 0, X'00000000000000000000000000000000', 0, X'00000000000000000000000000000000', 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'5FFDCEB7440B42F7B13FB7E4BD16332C', 1, NULL, '[]', NULL, NULL, 0, X'00000000000000000000000000000000', 0, X'00000000000000000000000000000000', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700089FCC59B282A54D2', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579586, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700089FCC59B282A54D2', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700089FCC59B282A54D2', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579582, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700089FCC59B282A54D2', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579582, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7001876E7BEB8D376B05', X'01A2039758197121B354598ADD5779AA', 'email', 1, NULL, 'waiting', 1, 1795356579883, 1795356582524, NULL, 'connecting: Connection refused (os error 111)');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7001876E7BEB8D376B05', X'01A2039758197121B354598ADD5779AA', 'webhook', 1, NULL, 'waiting', 1, 1795356579883, 1795356582776, NULL, 'the receiver answered 503 Service Unavailable');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579588, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'01A2039758197121B354598ADD5779AA', 'email', 1, NULL, 'waiting', 1, 1795356579883, 1795356583455, NULL, 'connecting: Connection refused (os error 111)');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7002A480ABC281472E05', X'01A2039758197121B354598ADD5779AA', 'webhook', 1, NULL, 'waiting', 1, 1795356579883, 1795356584616, NULL, 'the receiver answered 503 Service Unavailable');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70049BDA114C13C187DF', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579588, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70049BDA114C13C187DF', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70049BDA114C13C187DF', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70049BDA114C13C187DF', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70068707EB103A426A51', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70068707EB103A426A51', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70068707EB103A426A51', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579579, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70068707EB103A426A51', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579579, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70088FCA31C764E48B51', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579586, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70088FCA31C764E48B51', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70088FCA31C764E48B51', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70088FCA31C764E48B51', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700A8697632A2297CBB4', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700A8697632A2297CBB4', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700A8697632A2297CBB4', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579579, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700A8697632A2297CBB4', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579579, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700C90FAD8EEDC0BD985', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579588, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700C90FAD8EEDC0BD985', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700C90FAD8EEDC0BD985', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579582, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700C90FAD8EEDC0BD985', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579581, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700E954FF851364B4C4C', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579588, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700E954FF851364B4C4C', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700E954FF851364B4C4C', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD700E954FF851364B4C4C', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70108823F32D37155B62', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579586, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70108823F32D37155B62', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70108823F32D37155B62', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70108823F32D37155B62', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70128E6465CADD32AE40', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579586, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70128E6465CADD32AE40', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70128E6465CADD32AE40', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD70128E6465CADD32AE40', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD701481A4306C79EC3D7F', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579577, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD701481A4306C79EC3D7F', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579583, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD701481A4306C79EC3D7F', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579573, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD701481A4306C79EC3D7F', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579577, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7016920471D1102F21E2', X'01A2039756AE7682B08AEB74BBA31B2C', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579588, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7016920471D1102F21E2', X'01A2039756AE7682B08AEB74BBA31B2C', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7016920471D1102F21E2', X'01A2039756AE7682B08AEB74BBA31B2C', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579585, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A2039755FD7016920471D1102F21E2', X'01A2039756AE7682B08AEB74BBA31B2C', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795356579549, NULL, 1795356579584, NULL);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'content_card', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'email', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'sms', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'webhook', 12, 0, 0, 0, 0, 0);
INSERT INTO console_log ("dispatch_id", "workspace_id", "at", "record") VALUES (X'01A2039756AE7682B08AEB74BBA31B2C', 1, 1795356579592, '{"audience":null,"call":"send","campaign_id":"3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60","dispatch_id":"01a2039756ae7682b08aeb74bba31b2c","finished_at":"2026-11-22T14:09:39.592Z","messages":{"content_card":{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"},"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"past {{${external_id}}}"},"sms":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"past","subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11"},"webhook":{"body":"past {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"received_at":"2026-11-22T14:09:39.502Z","recipient_subscription_state":"subscribed","request_id":"01a20397-56ad-7259-a419-f3595a19f85f","results":{"aborted":0,"bounced":0,"failed":0,"left_out":{"capped":0,"control_group":0,"not_in_audience":12,"unknown":0,"unsubscribed":0},"sent":48,"unreachable":0,"users":24},"segment_id":"9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20","send_id":null}');
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A2039756C87467A7A4156C88354B37', 1, 'transactional_postback', '79753a86a8a847bca0bdd0ad3bfea632', 'http://127.83.0.1:42583/states', '{"dispatch_id":"79753a86a8a847bca0bdd0ad3bfea632","status":"sent","metadata":{"external_send_id":"send-past","campaign_api_id":"7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2","received_at":"2026-11-22T14:09:39.508+00:00","enqueued_at":"2026-11-22T14:09:39.510+00:00","executed_at":"2026-11-22T14:09:39.515+00:00","sent_at":"2026-11-22T14:09:39.526+00:00"}}', X'F3FA6940A1E08323824DA6CFC9540C05', 2856431619545582391, 'delivered', '01a20397-56b4-7441-9c70-e811fa45e242', 1, 1795356579528, 1795442979528, NULL, 200, NULL, 1795356579546, NULL);
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A2039757AA70E3B3BA02EA3F724A3D', 1, 'export_callback', 'd087be5c-a418-4e73-9f50-ae12e802c9fa-1795356579', 'http://127.83.0.1:42583/callback', '{"success":true,"url":"http://127.0.0.1:0/users/export/d087be5c-a418-4e73-9f50-ae12e802c9fa-1795356579/download?signature=YJLPyytF4FEICh0xqcMqKrzWm101ZPNEXYgFMHN9eXY"}', X'F3FA6940A1E08323824DA6CFC9540C05', 3727294846712564285, 'delivered', '01a20397-56d2-7237-ab95-53cc26313dd8', 1, 1795356579754, 1795442979754, NULL, 200, NULL, 1795356579772, NULL);
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A203975891749D8607A22060E54518', 1, 'export_callback', '04eea124-d017-4ae8-9ca0-c249f10f9168-1795356579', 'http://127.83.0.1:42583/callback-begun', '{"success":true,"url":"http://127.0.0.1:0/users/export/04eea124-d017-4ae8-9ca0-c249f10f9168-1795356579/download?signature=1pjVoZMMmQ8c05YD4FzM6Oooqk87Lxh55Q12R6ZuWHQ"}', X'F3FA6940A1E08323824DA6CFC9540C05', 434494149012833560, 'pending', '01a20397-581f-7147-ad97-3c4301345dce', 1, 1795356579985, 1795442979985, 1795356580365, 503, 'the receiver answered 503 Service Unavailable', NULL, NULL);
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'0648312EBC2842FE851B7084A0C435FB', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-called', '{"external_user_id":"u10"}', '{"v":1,"workspace":1,"received_at":1795356580118,"objects":[{"attributes":{"user":{"external_id":"u10"},"fields":{"first_name":"called"}}}]}', '{"order":"called"}', '01a20397-5916-7625-af84-ac6062aad869', 'processing', 1795356580119, NULL, NULL, 1795356580118, 1795356580119, NULL, NULL, 1795356580119, NULL, 1795356585119, 0, 0, 0, NULL);
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'79753A86A8A847BCA0BDD0AD3BFEA632', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-past', NULL, NULL, NULL, '01a20397-56b4-7441-9c70-e811fa45e242', 'sent', 1795356579526, NULL, X'01A2039755FD70038A9F53582CEA9D0C', 1795356579508, 1795356579510, 1795356579515, 1795356579526, 1795356609522, NULL, 1795356609522, 0, 1, 0, X'01A2039756C87467A7A4156C88354B37');
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'C01D7D458C354F32ABCDB15B9BA4481F', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-begun', '{"external_user_id":"u4"}', NULL, '{"order":"begun"}', '01a20397-581b-71ae-9d1b-e04706731b17', 'processing', 1795356579867, NULL, X'01A2039755FD70049BDA114C13C187DF', 1795356579867, 1795356579867, 1795356579870, NULL, 1795356581556, NULL, 1795356581556, 0, 0, 1, NULL);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-begun', X'C01D7D458C354F32ABCDB15B9BA4481F', 1795356579867);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-called', X'0648312EBC2842FE851B7084A0C435FB', 1795356580118);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-past', X'79753A86A8A847BCA0BDD0AD3BFEA632', 1795356579509);
INSERT INTO dead_letters ("id", "consumer_group", "topic", "partition", "position", "appended_at", "key", "payload", "request_id", "reason", "attempts", "created_at") VALUES (X'01A2039757D27355B9F5DE9CCB24D0C1', 'ingest', 'tracking', 0, 1, 1795356579792, X'', X'7B64616D61676564', 'damaged', 'not a message of tracking: key must be a string at line 1 column 2', 1, 1795356579794);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 0, 'd70760b3-879f-4958-871e-edceaf062a09', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 1, 'd70760b3-879f-4958-871e-edceaf062a09', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 2, 'd70760b3-879f-4958-871e-edceaf062a09', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 3, 'd70760b3-879f-4958-871e-edceaf062a09', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 0, 'd70760b3-879f-4958-871e-edceaf062a09', 2, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 1, 'd70760b3-879f-4958-871e-edceaf062a09', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 2, 'd70760b3-879f-4958-871e-edceaf062a09', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 3, 'd70760b3-879f-4958-871e-edceaf062a09', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 0, 'd70760b3-879f-4958-871e-edceaf062a09', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 1, 'd70760b3-879f-4958-871e-edceaf062a09', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 2, 'd70760b3-879f-4958-871e-edceaf062a09', 2, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 3, 'd70760b3-879f-4958-871e-edceaf062a09', 0, 0);
INSERT INTO idempotency_claims ("workspace_id", "endpoint", "key", "id", "body", "messages", "received_at", "claimed_at", "leased_until", "status", "answer") VALUES (1, 'POST /users/track', 'answered', X'01A2039758FB7050BE6C00E922D651D2', X'C1542FA7C1E35689D88F97C76547960D4E5C5EE354D680E42B7BBA5E2F474741', X'35CDCD35CEE97A8151A90CD330C26C007C152D112DD7E6F39026FFFBF0282EE7', 1795356580091, 1795356580091, 1795356600091, 201, '{"message":"success","attributes_processed":1}');
INSERT INTO idempotency_claims ("workspace_id", "endpoint", "key", "id", "body", "messages", "received_at", "claimed_at", "leased_until", "status", "answer") VALUES (1, 'POST /users/track', 'left', X'01A2039758FE73D196EC27556475503A', X'5AB8DE5A9167006A6AA1424936A1D87AECE4CFE3D01B0183693A30B0D27FB63F', X'9BABD51EA718A1A9ACEE1BC32D0C5689BB5FB5298DFD1510642978D349FA4B64', 1795356580094, 1795356580095, 0, NULL, NULL);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (0, 'scim', 86400, 1795392000000, 13);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'canvas.trigger.schedule.create', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'catalogs', 60, 1795356600000, 41);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.live_activity.start', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.schedule.create', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.send', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.send.audience', 60, 1795356600000, 2);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'users.export.global_control_group', 3600, 1795359600000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'users.track', 60, 1795356600000, 125);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence ("name", "seq") VALUES ('catalogs', 1);
