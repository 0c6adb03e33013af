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
INSERT INTO _sqlx_migrations ("version", "description", "installed_on", "success", "checksum", "execution_time") VALUES (1, 'first', '2026-11-22 13:52:41', 1, X'C1925539B7407F23CB2BE2AED2937182230C6F350037DAB82A589E3A3B5F4E6988ECC56EBA56A64F7316948B91810F3C', 7766739);
INSERT INTO settings ("name", "value") VALUES ('company', 'Acme Inc.');
INSERT INTO settings ("name", "value") VALUES ('log.partitions', '4');
INSERT INTO settings ("name", "value") VALUES ('secret_key.check', 'rEFSl9UhsSyavUDJHTSb10rYzYqHwb5w/XyWiYuxEfQ=');
INSERT INTO workspaces ("id", "name", "currency", "exchange_rates", "time_zone", "ip_allowlist", "rate_limits", "frequency_capping", "export_users_limit", "export_bytes_limit", "s3_storage", "azure_storage", "azure_is_default", "callback_secret", "created_at") VALUES (1, 'acme', 'USD', '{"EUR":1250000}', 'America/New_York', '[]', '{"users.track":{"requests":50000,"seconds":60}}', '[{"messages":500,"days":7,"channel":"email"}]', 1000, 1073741824, NULL, NULL, 0, X'388CCD8F5817EE06CE0D629D8C10151D5DB68364968AC73729F0ED08FA1A35B5894870C78820F96E3B1DA86FD364BF5C3834D14F9F85349B6ECF4DED0665A40D', 1795355562018);
INSERT INTO api_keys ("id", "workspace_id", "name", "hash", "permissions", "allow", "declared", "created_at", "revoked_at", "last_used_at") VALUES (X'01A20387D0E472BE9F795C84A2AB3E23', 1, 'k', X'F901D99FBFF3197CA03BB34B194E143ADB99370AC15C2425AB06F5D6663036F3', '["campaigns.list","canvas.trigger.schedule.create","canvas.trigger.schedule.delete","catalogs.update_items","messages.live_activity.start","messages.schedule.create","messages.send","transactional.send","users.export.global_control_group","users.track"]', '[]', 1, 1795355562212, NULL, 1795355562335);
INSERT INTO apps ("id", "workspace_id", "name", "platform", "bundle_id", "activity_types") VALUES (X'7D1F3C1A54B14C0E9B1E2F6F8A1D0C33', 1, 'iOS', 'ios', 'com.acme', '["Delivery"]');
INSERT INTO control_groups ("segment_id", "workspace_id", "percent", "slices", "active", "created_at") VALUES (X'41F61DCE47D64D94BF6A69F040B9CAE9', 1, 100, '[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99]', 1, 1795355562211);
INSERT INTO dashboard_users ("id", "name_key", "declared_key", "doc", "version", "created_at", "modified_at") VALUES (X'01A20387D0EC772F8E687E8F051307FC', 'ann@acme.example', 'ann@acme.example', '{"userName":"ann@acme.example","name":{"givenName":"Ann"},"active":true,"permissions":{"companyPermissions":["manage_company_settings"],"appGroup":[{"appGroupId":"91c4e77a-a513-8402-b791-119923f9be8a","appGroupName":"acme","appGroupPermissions":["send_campaigns"]}]}}', 1, 1795355562220, 1795355562220);
INSERT INTO dashboard_users ("id", "name_key", "declared_key", "doc", "version", "created_at", "modified_at") VALUES (X'01A20387D21B747E846431AE8CE99DFC', 'bob@acme.example', NULL, '{"userName":"bob@acme.example","name":{"givenName":"Bob","familyName":"Lee"},"active":true,"department":"CRM"}', 1, 1795355562509, 1795355562509);
INSERT INTO scim_tokens ("id", "name", "hash", "allow", "declared", "created_at", "revoked_at", "last_used_at") VALUES (X'01A20387D0EC772F8E687E8E08B5EAB5', 'idp', X'4E5B054D4C2A50E3E14CF3A0647656EC7EFD8D3E0101E4EF22A0843578D56DC1', '[]', 1, 1795355562220, NULL, 1795355562502);
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1110279016101199960, 15, 1, X'01A20387D121701685EDFAA75322A7F9', 'u22', 'u22@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7016-85ed-faa75322a7f9","external_id":"u22","user_aliases":[{"alias_name":"card 22","alias_label":"crm"}],"random_bucket":1517,"created_at":"2026-11-22T13:52:42.273Z","email":"u22@acme.example","phone":"+15550000022","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-22","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1254394204177055800, 17, 1, X'01A20387D121700E86F78D7BB8EB3626', 'u14', 'u14@acme.example', 1795355562273, '{"service_id":"01a20387-d121-700e-86f7-8d7bb8eb3626","external_id":"u14","user_aliases":[{"alias_name":"card 14","alias_label":"crm"}],"random_bucket":1783,"created_at":"2026-11-22T13:52:42.273Z","email":"u14@acme.example","phone":"+15550000014","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-14","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1326451798214983752, 18, 1, X'01A20387D1217012870B01EA3D71EADB', 'u18', 'u18@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7012-870b-01ea3d71eadb","external_id":"u18","user_aliases":[{"alias_name":"card 18","alias_label":"crm"}],"random_bucket":1803,"created_at":"2026-11-22T13:52:42.273Z","email":"u18@acme.example","phone":"+15550000018","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-18","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (173530293608136744, 2, 1, X'01A20387D121700A8119B35E43CC3934', 'u10', 'u10@acme.example', 1795355562273, '{"service_id":"01a20387-d121-700a-8119-b35e43cc3934","external_id":"u10","user_aliases":[{"alias_name":"card 10","alias_label":"crm"}],"random_bucket":281,"created_at":"2026-11-22T13:52:42.273Z","email":"u10@acme.example","phone":"+15550000010","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-10","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (1902912550518407232, 26, 1, X'01A20387D12170108A42E3D937011BD9', 'u16', 'u16@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7010-8a42-e3d937011bd9","external_id":"u16","user_aliases":[{"alias_name":"card 16","alias_label":"crm"}],"random_bucket":2626,"created_at":"2026-11-22T13:52:42.273Z","email":"u16@acme.example","phone":"+15550000016","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-16","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2191142926670118960, 30, 1, X'01A20387D121700C8C082422D75F0F04', 'u12', 'u12@acme.example', 1795355562273, '{"service_id":"01a20387-d121-700c-8c08-2422d75f0f04","external_id":"u12","user_aliases":[{"alias_name":"card 12","alias_label":"crm"}],"random_bucket":3080,"created_at":"2026-11-22T13:52:42.273Z","email":"u12@acme.example","phone":"+15550000012","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-12","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2263200520708046848, 31, 1, X'01A20387D12170008C5F9E657864601D', 'u0', 'u0@acme.example', 1795355562346, '{"service_id":"01a20387-d121-7000-8c5f-9e657864601d","external_id":"u0","user_aliases":[{"alias_name":"card 0","alias_label":"crm"}],"random_bucket":3167,"created_at":"2026-11-22T13:52:42.273Z","email":"u0@acme.example","phone":"+15550000000","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-0","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2479373302821830688, 34, 1, X'01A20387D12170088DA5394864BF8084', 'u8', 'u8@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7008-8da5-394864bf8084","external_id":"u8","user_aliases":[{"alias_name":"card 8","alias_label":"crm"}],"random_bucket":3493,"created_at":"2026-11-22T13:52:42.273Z","email":"u8@acme.example","phone":"+15550000008","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-8","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (2839661273011470416, 39, 1, X'01A20387D12170148F40BB62A2297A42', 'u20', 'u20@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7014-8f40-bb62a2297a42","external_id":"u20","user_aliases":[{"alias_name":"card 20","alias_label":"crm"}],"random_bucket":3904,"created_at":"2026-11-22T13:52:42.273Z","email":"u20@acme.example","phone":"+15550000020","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-20","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (317645481683992600, 4, 1, X'01A20387D121700681975906C86CEFF6', 'u6', 'u6@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7006-8197-5906c86ceff6","external_id":"u6","user_aliases":[{"alias_name":"card 6","alias_label":"crm"}],"random_bucket":407,"created_at":"2026-11-22T13:52:42.273Z","email":"u6@acme.example","phone":"+15550000006","custom_attributes":{"tier":"gold"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-6","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (3848467589542461524, 53, 1, X'01A20387D121701594EB1EE343842D0E', 'u21', 'u21@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7015-94eb-1ee343842d0e","external_id":"u21","user_aliases":[{"alias_name":"card 21","alias_label":"crm"}],"random_bucket":5355,"created_at":"2026-11-22T13:52:42.273Z","email":"u21@acme.example","phone":"+15550000021","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-21","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4496985935883812940, 62, 1, X'01A20387D1217013989A7349ED819A13', 'u19', 'u19@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7013-989a-7349ed819a13","external_id":"u19","user_aliases":[{"alias_name":"card 19","alias_label":"crm"}],"random_bucket":6298,"created_at":"2026-11-22T13:52:42.273Z","email":"u19@acme.example","phone":"+15550000019","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-19","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (4713158717997596684, 65, 1, X'01A20387D12170039988C831738B31F7', 'u3', 'u3@acme.example', 1795355562487, '{"service_id":"01a20387-d121-7003-9988-c831738b31f7","external_id":"u3","user_aliases":[{"alias_name":"card 3","alias_label":"crm"}],"random_bucket":6536,"created_at":"2026-11-22T13:52:42.273Z","email":"u3@acme.example","phone":"+15550000003","first_name":"past","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-3","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (533818263797776388, 7, 1, X'01A20387D121700182C7B6D79F455549', 'u1', 'u1@acme.example', 1795355562346, '{"service_id":"01a20387-d121-7001-82c7-b6d79f455549","external_id":"u1","user_aliases":[{"alias_name":"card 1","alias_label":"crm"}],"random_bucket":711,"created_at":"2026-11-22T13:52:42.273Z","email":"u1@acme.example","phone":"+15550000001","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-1","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6010195410680299528, 83, 1, X'01A20387D1217002A09773462A5AF285', 'u2', 'u2@acme.example', 1795355562346, '{"service_id":"01a20387-d121-7002-a097-73462a5af285","external_id":"u2","user_aliases":[{"alias_name":"card 2","alias_label":"crm"}],"random_bucket":8343,"created_at":"2026-11-22T13:52:42.273Z","email":"u2@acme.example","phone":"+15550000002","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-2","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6298425786832011280, 87, 1, X'01A20387D1217004A253824202620DD1', 'u4', 'u4@acme.example', 1795355562895, '{"service_id":"01a20387-d121-7004-a253-824202620dd1","external_id":"u4","user_aliases":[{"alias_name":"card 4","alias_label":"crm"}],"random_bucket":8787,"created_at":"2026-11-22T13:52:42.273Z","email":"u4@acme.example","phone":"+15550000004","first_name":"begun","custom_attributes":{"tier":"gold","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-4","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6514598568945795124, 90, 1, X'01A20387D121700DA353D4353458D3CB', 'u13', 'u13@acme.example', 1795355562273, '{"service_id":"01a20387-d121-700d-a353-d4353458d3cb","external_id":"u13","user_aliases":[{"alias_name":"card 13","alias_label":"crm"}],"random_bucket":9043,"created_at":"2026-11-22T13:52:42.273Z","email":"u13@acme.example","phone":"+15550000013","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-13","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6586656162983723036, 91, 1, X'01A20387D1217007A398FAA76CA10CB0', 'u7', 'u7@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7007-a398-faa76ca10cb0","external_id":"u7","user_aliases":[{"alias_name":"card 7","alias_label":"crm"}],"random_bucket":9112,"created_at":"2026-11-22T13:52:42.273Z","email":"u7@acme.example","phone":"+15550000007","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-7","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6658713757021650980, 92, 1, X'01A20387D1217009A43073349973FF8D', 'u9', 'u9@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7009-a430-73349973ff8d","external_id":"u9","user_aliases":[{"alias_name":"card 9","alias_label":"crm"}],"random_bucket":9264,"created_at":"2026-11-22T13:52:42.273Z","email":"u9@acme.example","phone":"+15550000009","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-9","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (6874886539135434812, 95, 1, X'01A20387D121700FA53B3D1B0247D594', 'u15', 'u15@acme.example', 1795355562273, '{"service_id":"01a20387-d121-700f-a53b-3d1b0247d594","external_id":"u15","user_aliases":[{"alias_name":"card 15","alias_label":"crm"}],"random_bucket":9531,"created_at":"2026-11-22T13:52:42.273Z","email":"u15@acme.example","phone":"+15550000015","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-15","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (7091059321249218580, 98, 1, X'01A20387D1217005A6A1A0B431A71014', 'u5', 'u5@acme.example', 1795355562346, '{"service_id":"01a20387-d121-7005-a6a1-a0b431a71014","external_id":"u5","user_aliases":[{"alias_name":"card 5","alias_label":"crm"}],"random_bucket":9889,"created_at":"2026-11-22T13:52:42.273Z","email":"u5@acme.example","phone":"+15550000005","custom_attributes":{"tier":"tin","visits":1},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-5","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (822048639949488196, 11, 1, X'01A20387D1217011844C7A59D861C3D0', 'u17', 'u17@acme.example', 1795355562273, '{"service_id":"01a20387-d121-7011-844c-7a59d861c3d0","external_id":"u17","user_aliases":[{"alias_name":"card 17","alias_label":"crm"}],"random_bucket":1100,"created_at":"2026-11-22T13:52:42.273Z","email":"u17@acme.example","phone":"+15550000017","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-17","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO users ("key", "slice", "workspace_id", "service_id", "external_id", "email", "attributes_at", "doc") VALUES (894106233987416108, 12, 1, X'01A20387D121700B8509DD947C44F4F4', 'u11', 'u11@acme.example', 1795355562273, '{"service_id":"01a20387-d121-700b-8509-dd947c44f4f4","external_id":"u11","user_aliases":[{"alias_name":"card 11","alias_label":"crm"}],"random_bucket":1289,"created_at":"2026-11-22T13:52:42.273Z","email":"u11@acme.example","phone":"+15550000011","custom_attributes":{"tier":"tin"},"push_tokens":[{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","token":"token-11","device_id":"d"}],"subscription_groups":[{"subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11","subscription_state":"subscribed"}]}');
INSERT INTO activity ("key", "slice", "workspace_id", "service_id", "body") VALUES (533818263797776388, 7, 1, X'01A20387D121700182C7B6D79F455549', X'01010374656101D6C402C8BAE917000201107B226C656166223A22677265656E227D01047365656E01D6C402C8BAE9170001010A7B2270616765223A377D010345555280A4E803');
INSERT INTO activity ("key", "slice", "workspace_id", "service_id", "body") VALUES (6010195410680299528, 83, 1, X'01A20387D1217002A09773462A5AF285', X'01010573686F657301D6C402C8BAE9170001010D7B2273697A65223A22584C227D00010355534480C2D72F');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u0', X'01A20387D12170008C5F9E657864601D');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u1', X'01A20387D121700182C7B6D79F455549');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u10', X'01A20387D121700A8119B35E43CC3934');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u11', X'01A20387D121700B8509DD947C44F4F4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u12', X'01A20387D121700C8C082422D75F0F04');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u13', X'01A20387D121700DA353D4353458D3CB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u14', X'01A20387D121700E86F78D7BB8EB3626');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u15', X'01A20387D121700FA53B3D1B0247D594');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u16', X'01A20387D12170108A42E3D937011BD9');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u17', X'01A20387D1217011844C7A59D861C3D0');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u18', X'01A20387D1217012870B01EA3D71EADB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u19', X'01A20387D1217013989A7349ED819A13');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u2', X'01A20387D1217002A09773462A5AF285');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u20', X'01A20387D12170148F40BB62A2297A42');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u21', X'01A20387D121701594EB1EE343842D0E');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u22', X'01A20387D121701685EDFAA75322A7F9');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u3', X'01A20387D12170039988C831738B31F7');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u4', X'01A20387D1217004A253824202620DD1');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u5', X'01A20387D1217005A6A1A0B431A71014');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u6', X'01A20387D121700681975906C86CEFF6');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u7', X'01A20387D1217007A398FAA76CA10CB0');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u8', X'01A20387D12170088DA5394864BF8084');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 1, 'u9', X'01A20387D1217009A43073349973FF8D');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 0', X'01A20387D12170008C5F9E657864601D');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 1', X'01A20387D121700182C7B6D79F455549');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 10', X'01A20387D121700A8119B35E43CC3934');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 11', X'01A20387D121700B8509DD947C44F4F4');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 12', X'01A20387D121700C8C082422D75F0F04');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 13', X'01A20387D121700DA353D4353458D3CB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 14', X'01A20387D121700E86F78D7BB8EB3626');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 15', X'01A20387D121700FA53B3D1B0247D594');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 16', X'01A20387D12170108A42E3D937011BD9');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 17', X'01A20387D1217011844C7A59D861C3D0');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 18', X'01A20387D1217012870B01EA3D71EADB');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 19', X'01A20387D1217013989A7349ED819A13');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 2', X'01A20387D1217002A09773462A5AF285');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 20', X'01A20387D12170148F40BB62A2297A42');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 21', X'01A20387D121701594EB1EE343842D0E');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 22', X'01A20387D121701685EDFAA75322A7F9');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 3', X'01A20387D12170039988C831738B31F7');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 4', X'01A20387D1217004A253824202620DD1');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 5', X'01A20387D1217005A6A1A0B431A71014');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 6', X'01A20387D121700681975906C86CEFF6');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 7', X'01A20387D1217007A398FAA76CA10CB0');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 8', X'01A20387D12170088DA5394864BF8084');
INSERT INTO identifiers ("workspace_id", "kind", "value", "service_id") VALUES (1, 2, 'crmcard 9', X'01A20387D1217009A43073349973FF8D');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u0@acme.example', X'01A20387D12170008C5F9E657864601D');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u10@acme.example', X'01A20387D121700A8119B35E43CC3934');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u11@acme.example', X'01A20387D121700B8509DD947C44F4F4');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u12@acme.example', X'01A20387D121700C8C082422D75F0F04');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u13@acme.example', X'01A20387D121700DA353D4353458D3CB');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u14@acme.example', X'01A20387D121700E86F78D7BB8EB3626');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u15@acme.example', X'01A20387D121700FA53B3D1B0247D594');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u16@acme.example', X'01A20387D12170108A42E3D937011BD9');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u17@acme.example', X'01A20387D1217011844C7A59D861C3D0');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u18@acme.example', X'01A20387D1217012870B01EA3D71EADB');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u19@acme.example', X'01A20387D1217013989A7349ED819A13');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u1@acme.example', X'01A20387D121700182C7B6D79F455549');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u20@acme.example', X'01A20387D12170148F40BB62A2297A42');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u21@acme.example', X'01A20387D121701594EB1EE343842D0E');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u22@acme.example', X'01A20387D121701685EDFAA75322A7F9');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u2@acme.example', X'01A20387D1217002A09773462A5AF285');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u3@acme.example', X'01A20387D12170039988C831738B31F7');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u4@acme.example', X'01A20387D1217004A253824202620DD1');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u5@acme.example', X'01A20387D1217005A6A1A0B431A71014');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u6@acme.example', X'01A20387D121700681975906C86CEFF6');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u7@acme.example', X'01A20387D1217007A398FAA76CA10CB0');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u8@acme.example', X'01A20387D12170088DA5394864BF8084');
INSERT INTO emails ("workspace_id", "email", "service_id") VALUES (1, 'u9@acme.example', X'01A20387D1217009A43073349973FF8D');
INSERT INTO erased ("workspace_id", "who", "erased_at") VALUES (1, X'4E404EDE9D026E90B728B0A2CF7A94DE1B9958FE90BE3046F54A1F47659A4D8C', 1795355562867);
INSERT INTO erased ("workspace_id", "who", "erased_at") VALUES (1, X'57DA657BE73EBAD8BBECB56B81D3B0CFEC99895332B55EE469BCABFB23269086', 1795355562867);
INSERT INTO products ("workspace_id", "product_id") VALUES (1, 'shoes');
INSERT INTO products ("workspace_id", "product_id") VALUES (1, 'tea');
INSERT INTO catalogs ("id", "workspace_id", "name", "fields", "items_hash", "load", "created_at") VALUES (1, 1, 'restaurants', '[{"name":"City","type":"string"},{"name":"Rating","type":"number"},{"name":"Opened_at","type":"time"}]', X'5C59F98254AF29B24440EDF0D72CFC7417FF3051EB27934A9660082C111C53D0', 1, 1795355562211);
INSERT INTO catalog_items ("catalog_id", "item_id", "load", "version", "doc") VALUES (1, 'r1', 1, 1, '{"City":"Oslo","Rating":4.7}');
INSERT INTO catalog_items ("catalog_id", "item_id", "load", "version", "doc") VALUES (1, 'r2', 1, 0, '{"City":"Rome"}');
INSERT INTO catalog_edits ("catalog_id", "request_id", "received_at", "applied", "unknown", "unknown_ids", "applied_at") VALUES (1, '01a20387-d1cc-723e-bf80-8f8bdaa9d995', 1795355562445, 0, 1, '["nobody"]', 1795355562452);
INSERT INTO catalog_edits ("catalog_id", "request_id", "received_at", "applied", "unknown", "unknown_ids", "applied_at") VALUES (1, '01a20387-d1cc-723e-bf80-8f8bdaa9d995', 1795355562445, 1, 0, '[]', 1795355562453);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 4, 'canvas', 'Onboarding', '[]', 0, 0, '{"messages":{"webhook":{"body":"canvas {{${external_id}}} {{canvas_entry_properties.${n}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}}}', 1795355562211, 1795355562211);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'2B7C9D1E5E0A4B7F9C1D7A8E6F5D4C03', 3, 'triggered', 'Thanks', '[]', 0, 0, '{"audience":{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}},"messages":{"webhook":{"body":"thanks {{${external_id}}} {{event_properties.${size}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"trigger":{"purchase":{"product_id":"shoes","properties":{"size":"XL"}}}}', 1795355562211, 1795355562211);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 1, 'api', 'Welcome', '["t"]', 0, 0, '{"messages":{"webhook":{"body":"welcome {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}}}', 1795355562211, 1795355562211);
INSERT INTO campaigns ("workspace_id", "id", "number", "kind", "name", "tags", "archived", "paused", "content", "created_at", "edited_at") VALUES (1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 2, 'transactional', 'Receipt', '[]', 0, 0, '{"email":{"body":"Thank you","subject":"receipt {{api_trigger_properties.${order}}} {{${external_id}}}"},"sla_per_hour":5}', 1795355562211, 1795355562211);
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'email', X'AD6D9DEB73D215182CA4DD1D90935ED9849EB1CCFEAD9F4A5CF920ABCA995C3B02923B4537029B7FFED9D95EBC42BF09AAD5851B477C1288887F7C5847D96B45206D47297F3D40511AB734D380FD34A9415264945EB281069C6D63C5CE9C6D1D0FDA1A1B69ED09A320E940CE9531058D986F0A8D017F1379A0AC8AF5E251545AC5F4738B07DCB288690E607619F5A86D5D2A107E659EE25D0096E1781BA7134E52656A5DE11198E76527BC6C3DE236EC21B8527BB4BAA7762D1757F3C6BDA3D6095B1DB12DCAAF8DF101C3B94AA03AC754BC15998D53BFE470905D53F1520C3FD97B8CFBAA78EE680869E05BFEC694A6020E1FBE65270CFF1FD5DD03A9847D2A234B5FCE4FF63805E19DC3DC68C36BF289BF020635BEF95B4816C694F31589E9BD8031C513DD6C250815FC47D8363413F2F4752E90A0CFDBF4C3CB8905E9051B9B7A33C71A8428062F84B5465D8B76D07CE3714F5B12F29D2C98B70D1C0DE0B098E6B110CADF076C089B2808CB7921B92A');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.feedback_secret', X'AE9B59761E17279CEBE22075CD22DA68A0C018E853EA27810DF45554495EE04CB39FF497FC3E817FFE0D3A17A2C4F7007AA89F00039D3ABCCE6B83F72BE4D246808E7603842B35B84C5FAE8AE55295F92C02881F66F347D02887DF809D80050C46791DA6DBB850710826066686851C33E0D479090AC58D3CB98C32C023BA01E22C49956E92');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.push', X'F6A39A94B8DFAD98988A0F5BA95BDDF37C2C0B3E46191AB05E47439007AC362B70482DE7D46AE259DE84B8ADADA5227A5595DAC8048D383EB9300E6EA2EA0431CC62BE7FF625F436FE4D0D447D264CDEC9BCD1A899E9287120F9EFDCD0E0E1E1BCBDD388C86CFB1275DACA40EC46B43B3BEFB1CE6C9CFC7ADBCB2011EC538F135BABC39D348CD2B9AFCEB7D9588300F5420AE822531C4F068CE64AE1D17E0ED79F9135C0828E7D023112632D2CD201E6E65C96601E8F64');
INSERT INTO channels ("workspace_id", "path", "config") VALUES (1, 'providers.sms', X'F525D781FE26ED9AB226D3DC2198B22A675571EFEA5DD18F11C10F06013C2883F34C25FD3891DAC88722A46AF9194A12687D4CF2C5DC7D6B8973AD99DF766C37423FD18051830D6DF42327098EB10DFA15C0E4B3D35D403B173C321C04FE39329882ED498C90A8612B7F5B76244B0AD2FB2E845197062EF2D4D9046AB01C339496818D17A839AA4CD2F6B8D1009DF897F8F54912002D7555ED6495EE92D0C4F454D124E32EDA6E973625B2864BA3DF8BD52402AA4ED9');
INSERT INTO subscription_groups ("workspace_id", "id", "channel", "sender") VALUES (1, X'5A7D3C0E2D7B4F438F0C3F9D2C6B7A11', 'sms', '+15550100');
INSERT INTO segments ("workspace_id", "id", "name", "audience") VALUES (1, X'9D0B7C5261C54D0EB0F32F1C7A3F8E20', 'VIP', '{"AND":[{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}]}');
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A20387D543778DBE9E18D739BE0CD9', 1, X'01A20387D543778DBE9E18D6D7F906C0', NULL, 4512071189337607385, 'instant', 1795355623320, '{"dispatch_id":"01a20387-d543-778d-be9e-18d6d7f906c0","workspace_id":1,"kind":"schedule","campaign_id":null,"send_id":null,"messages":{"webhook":{"body":"scheduled {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[{"who":{"external_id":"u11"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null}],"segment_id":null,"audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795355563331,"request_id":"01a20387-d538-77cb-abeb-ea2cad97ec2c"}', '01a20387-d538-77cb-abeb-ea2cad97ec2c', 'pending', 1795355563331, NULL, NULL, NULL, NULL, NULL);
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A20387D54F72C0AE87685A0F893286', 1, X'60FEFA0A76224EE5B86E04D63E2FA8D2', X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 3352763183617618566, 'instant', 1795355623320, '{"broadcast":false,"recipients":[{"external_user_id":"u12","canvas_entry_properties":{"n":12}}],"canvas_entry_properties":{"n":1}}', '01a20387-d547-710a-ad79-a2df63dd720e', 'pending', 1795355563343, NULL, NULL, NULL, NULL, NULL);
INSERT INTO schedules ("id", "workspace_id", "dispatch_id", "canvas_id", "item", "timing", "time", "request", "request_id", "state", "created_at", "sent_at", "ended_at", "reached_at", "missed_at", "error") VALUES (X'01A20387D55672F886F4B98C32A5ED13', 1, X'4531D9EE201B48CCA6714F3394E393AB', X'0B0A6C8E6D0C4F399D0B6F0F6F9A2C11', 501229470341262611, 'local', 1821275563349, '{"broadcast":true}', '01a20387-d555-7633-88bf-26c1963da460', 'pending', 1795355563350, NULL, NULL, NULL, NULL, NULL);
INSERT INTO invalid_numbers ("workspace_id", "number", "reason", "added_at") VALUES (1, '15550199', 'added by hand', 1795355562305);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D12170008C5F9E657864601D', X'D7F46822C7388B66B8457AFA9C788900', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562534, 2110715562534);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'51068A1F51C5840CB2719FB1813EABEA', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562539, 2110715562539);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D1217004A253824202620DD1', X'E3620E5162518E9DA699D3AC2F782E7D', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562542, 2110715562542);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D121700681975906C86CEFF6', X'2AC2F1EB24388735A3FBEF4053D54411', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562527, 2110715562527);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D12170088DA5394864BF8084', X'7F90765509ED8AFD815B9EA609A17B15', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562538, 2110715562538);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D121700A8119B35E43CC3934', X'EF243D4D4AD78F34810768E35FF250DC', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562520, 2110715562520);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D121700C8C082422D75F0F04', X'480A1849AB888AB2A5587B49A4AFF46E', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562533, 2110715562533);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D121700E86F78D7BB8EB3626', X'4C47432D71C582639E284DBD6D146CEC', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562530, 2110715562530);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D12170108A42E3D937011BD9', X'16F5CC53ECB081EFA992B98A18F71292', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562533, 2110715562533);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D1217012870B01EA3D71EADB', X'D90274C950868C7DA59ADA17FFDFE84A', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562532, 2110715562532);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D12170148F40BB62A2297A42', X'77044F740EED8BCF96A99DC3519482E0', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562539, 2110715562539);
INSERT INTO content_cards ("workspace_id", "service_id", "id", "dispatch_id", "campaign_id", "variation_id", "card", "created_at", "expires_at") VALUES (1, X'01A20387D121701685EDFAA75322A7F9', X'9B1E950F5199804E9BA0A50FFD451189', X'01A20387D1EF700CAB456DB1B55EAB44', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', NULL, '{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"}', 1795355562529, 2110715562529);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 0, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 1, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 10, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 11, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 12, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 13, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 14, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 15, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 16, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 17, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 18, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 19, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 2, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 20, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 21, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 22, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 23, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 24, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 25, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 26, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 27, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 28, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 29, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 3, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 30, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 31, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 32, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 33, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 34, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 35, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 36, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 37, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 38, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 39, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 4, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 40, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 41, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 42, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 43, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 44, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 45, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 46, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 47, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 48, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 49, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 5, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 50, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 51, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 52, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 53, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 54, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 55, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 56, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 57, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 58, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 59, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 6, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 60, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 61, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 62, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 63, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 64, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 65, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 66, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 67, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 68, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 69, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 7, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 70, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 71, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 72, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 73, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 74, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 75, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 76, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 77, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 78, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 79, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 8, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 80, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 81, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 82, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 83, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 84, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 85, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 86, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 87, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 88, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 89, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 9, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 90, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 91, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 92, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 93, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 94, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 95, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 96, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 97, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 98, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('activity_sweep', X'00000000000000000000000000000000', 99, 1795441962328, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('delivery', X'F3FA6940A1E08323824DA6CFC9540C05', 1483037629314678403, 1795355563424, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('dispatch_named', X'6D657373616765730000000000000001', 4231866660169470826, 1795355565433, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_cleanup', X'01A20387D239731F86262155888AEDB7', 0, 1795355571273, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_cleanup', X'01A20387D39F767498C11BBADDFBC631', 0, 1795355568296, 1, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 10, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 11, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 12, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 5, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 6, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 7, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 8, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('export_part', X'01A20387D4C7778D93B58149DE883B48', 9, 1795355563222, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 3352763183617618566, 1795355623320, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 4512071189337607385, 1795355623320, 0, NULL);
INSERT INTO claims ("kind", "job", "item", "due_at", "attempt", "owner") VALUES ('schedule', X'00000000000000000000000000000001', 501229470341262611, 1821221563349, 0, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A20387D239731F86262155888AEDB7', 1, '860758d3-98b6-4d72-8628-b1d6cbf624ca-1795355562', X'41F61DCE47D64D94BF6A69F040B9CAE9', 'done', '["external_id","purchases"]', 'zip', NULL, 'http://127.83.0.1:42583/callback', '01a20387-d229-73f6-a58e-a9e6033e43ed', 1795355562553, 1795355562553, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20387-d121-7017-a6ca-60f1d9209d28","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"3395ba86-6b57-4697-a69e-408f01cddb78","currency":"USD","exchange_rates":{"EUR":1250000}}', 24, 12, 1, 0, 1795355562567, 1795355562717, 1795355562726, 1795369962726, 1, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A20387D39F767498C11BBADDFBC631', 1, '5d527d6a-c6b4-416c-b0bb-23b417d652f1-1795355562', X'41F61DCE47D64D94BF6A69F040B9CAE9', 'done', '["external_id"]', 'zip', NULL, 'http://127.83.0.1:42583/callback-begun', '01a20387-d399-7227-be57-557a36b3e620', 1795355562911, 1795355562911, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20387-d121-7016-85ed-faa75322a7f9","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"5118d0a8-724c-43f0-9bcf-242a32bfaf16","currency":"USD","exchange_rates":{"EUR":1250000}}', 23, 12, 1, 0, 1795355562926, 1795355563095, 1795355563106, 1795369963106, 1, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A20387D4C7778D93B58149DE883B48', 1, 'f2964743-62f4-43c7-a87d-fdb824878462-1795355563', X'41F61DCE47D64D94BF6A69F040B9CAE9', 'running', '["external_id","total_revenue"]', 'zip', NULL, NULL, '01a20387-d4c4-74ec-93db-165d0404201d', 1795355563206, 1795355563206, 1, '{"slices":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99],"youngest":"01a20387-d121-7016-85ed-faa75322a7f9","first_day":"2026-08-25","last_day":"2026-11-22","upload_date":"2026-11-22","seed":"1eb74404-4a10-48c7-af0f-02d899343075","currency":"USD","exchange_rates":{"EUR":1250000}}', 23, 12, 1, 1, 1795355563220, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO export_jobs ("id", "workspace_id", "object_prefix", "segment_id", "state", "fields", "format", "storage_id", "callback_endpoint", "request_id", "requested_at", "queued_at", "plan_attempts", "plan", "users", "parts", "shards", "shards_left", "started_at", "completed_at", "finished_at", "expires_at", "archive", "error", "error_detail") VALUES (X'01A20387D55876A4AFD8E0F956710937', 1, 'a0d74dc4-75cf-4850-82d2-c43bd3c8a88c-1795355563', X'41F61DCE47D64D94BF6A69F040B9CAE9', 'queued', '["external_id"]', 'zip', NULL, NULL, '01a20387-d557-7221-8195-435df9daf31b', 1795355563352, 1795355563352, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A20387D239731F86262155888AEDB7', 0, 0, 24, 12, 1762, 0);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A20387D39F767498C11BBADDFBC631', 0, 0, 23, 12, 1624, 0);
INSERT INTO export_counts ("job_id", "shard", "parts_left", "users_done", "files_done", "bytes_done", "broken_users") VALUES (X'01A20387D4C7778D93B58149DE883B48', 0, 8, 8, 4, 550, 0);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 1, 0, X'00000000000000000000000000000000', 4, X'01A20387D121700681975906C86CEFF6', 1, 1, 2, 43, 137, 2688741618);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 10, 87, X'01A20387D1217004A253824202620DD1', 91, X'01A20387D1217007A398FAA76CA10CB0', 1, 1, 2, 43, 137, 756228548);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 11, 91, X'01A20387D1217007A398FAA76CA10CB0', 95, X'01A20387D121700FA53B3D1B0247D594', 1, 1, 2, 43, 137, 3614028995);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 12, 95, X'01A20387D121700FA53B3D1B0247D594', 99, X'01A20387D1217017A6CA60F1D9209D28', 1, 1, 2, 43, 137, 3391040173);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 2, 4, X'01A20387D121700681975906C86CEFF6', 11, X'01A20387D1217011844C7A59D861C3D0', 1, 1, 2, 151, 194, 3871908038);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 3, 11, X'01A20387D1217011844C7A59D861C3D0', 15, X'01A20387D121701685EDFAA75322A7F9', 1, 1, 2, 44, 138, 618530343);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 4, 15, X'01A20387D121701685EDFAA75322A7F9', 18, X'01A20387D1217012870B01EA3D71EADB', 1, 1, 2, 44, 138, 3242896602);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 5, 18, X'01A20387D1217012870B01EA3D71EADB', 30, X'01A20387D121700C8C082422D75F0F04', 1, 1, 2, 44, 138, 3149727697);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 6, 30, X'01A20387D121700C8C082422D75F0F04', 34, X'01A20387D12170088DA5394864BF8084', 1, 1, 2, 42, 136, 1974403343);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 7, 34, X'01A20387D12170088DA5394864BF8084', 53, X'01A20387D121701594EB1EE343842D0E', 1, 1, 2, 44, 138, 1658987165);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 8, 53, X'01A20387D121701594EB1EE343842D0E', 65, X'01A20387D12170039988C831738B31F7', 1, 1, 2, 43, 137, 505152377);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D239731F86262155888AEDB7', 9, 65, X'01A20387D12170039988C831738B31F7', 87, X'01A20387D1217004A253824202620DD1', 1, 1, 2, 152, 195, 1961382353);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 1, 0, X'00000000000000000000000000000000', 4, X'01A20387D121700681975906C86CEFF6', 1, 1, 2, 43, 137, 2688741618);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 10, 87, X'01A20387D1217004A253824202620DD1', 91, X'01A20387D1217007A398FAA76CA10CB0', 1, 1, 2, 43, 137, 756228548);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 11, 91, X'01A20387D1217007A398FAA76CA10CB0', 95, X'01A20387D121700FA53B3D1B0247D594', 1, 1, 2, 43, 137, 3614028995);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 12, 95, X'01A20387D121700FA53B3D1B0247D594', 98, X'01A20387D1217005A6A1A0B431A71014', 1, 1, 1, 21, 115, 2725831560);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 2, 4, X'01A20387D121700681975906C86CEFF6', 11, X'01A20387D1217011844C7A59D861C3D0', 1, 1, 2, 43, 137, 675893748);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 3, 11, X'01A20387D1217011844C7A59D861C3D0', 15, X'01A20387D121701685EDFAA75322A7F9', 1, 1, 2, 44, 138, 618530343);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 4, 15, X'01A20387D121701685EDFAA75322A7F9', 18, X'01A20387D1217012870B01EA3D71EADB', 1, 1, 2, 44, 138, 3242896602);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 5, 18, X'01A20387D1217012870B01EA3D71EADB', 30, X'01A20387D121700C8C082422D75F0F04', 1, 1, 2, 44, 138, 3149727697);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 6, 30, X'01A20387D121700C8C082422D75F0F04', 34, X'01A20387D12170088DA5394864BF8084', 1, 1, 2, 42, 136, 1974403343);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 7, 34, X'01A20387D12170088DA5394864BF8084', 53, X'01A20387D121701594EB1EE343842D0E', 1, 1, 2, 44, 138, 1658987165);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 8, 53, X'01A20387D121701594EB1EE343842D0E', 65, X'01A20387D12170039988C831738B31F7', 1, 1, 2, 43, 137, 505152377);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D39F767498C11BBADDFBC631', 9, 65, X'01A20387D12170039988C831738B31F7', 87, X'01A20387D1217004A253824202620DD1', 1, 1, 2, 42, 136, 2938083562);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 1, 0, X'00000000000000000000000000000000', 4, X'01A20387D121700681975906C86CEFF6', 1, 1, 2, 43, 137, 2688741618);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 10, 87, X'01A20387D1217004A253824202620DD1', 91, X'01A20387D1217007A398FAA76CA10CB0', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 11, 91, X'01A20387D1217007A398FAA76CA10CB0', 95, X'01A20387D121700FA53B3D1B0247D594', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 12, 95, X'01A20387D121700FA53B3D1B0247D594', 98, X'01A20387D1217005A6A1A0B431A71014', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 2, 4, X'01A20387D121700681975906C86CEFF6', 11, X'01A20387D1217011844C7A59D861C3D0', 1, 1, 2, 61, 137, 4076958848);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 3, 11, X'01A20387D1217011844C7A59D861C3D0', 15, X'01A20387D121701685EDFAA75322A7F9', 1, 1, 2, 44, 138, 618530343);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 4, 15, X'01A20387D121701685EDFAA75322A7F9', 18, X'01A20387D1217012870B01EA3D71EADB', 1, 1, 2, 44, 138, 3242896602);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 5, 18, X'01A20387D1217012870B01EA3D71EADB', 30, X'01A20387D121700C8C082422D75F0F04', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 6, 30, X'01A20387D121700C8C082422D75F0F04', 34, X'01A20387D12170088DA5394864BF8084', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 7, 34, X'01A20387D12170088DA5394864BF8084', 53, X'01A20387D121701594EB1EE343842D0E', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 8, 53, X'01A20387D121701594EB1EE343842D0E', 65, X'01A20387D12170039988C831738B31F7', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO export_parts ("job_id", "part", "from_slice", "from_id", "to_slice", "to_id", "attempt", "done", "users", "raw_bytes", "bytes", "crc32") VALUES (X'01A20387D4C7778D93B58149DE883B48', 9, 65, X'01A20387D12170039988C831738B31F7', 87, X'01A20387D1217004A253824202620DD1', 0, 0, NULL, NULL, NULL, NULL);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'01A20387D1EF700CAB456DB1B55EAB44', 1, 'send', 'done', X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '{"dispatch_id":"01a20387-d1ef-700c-ab45-6db1b55eab44","workspace_id":1,"kind":"send","campaign_id":"3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60","send_id":null,"messages":{"content_card":{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"},"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"past {{${external_id}}}"},"sms":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"past","subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11"},"webhook":{"body":"past {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":"9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20","audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795355562479,"request_id":"01a20387-d1ed-777a-8f86-41a951394982"}', '{"AND":[{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}]}', X'01A20387D1217017A6CA60F1D9209D28', NULL, 1, 0, 24, 1, 0, '01a20387-d1ed-777a-8f86-41a951394982', 1795355562479, 1795355562490, 1795355562556);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'01A20387D38C76E1BF701F46D618DD51', 1, 'send', 'running', NULL, '{"dispatch_id":"01a20387-d38c-76e1-bf70-1f46d618dd51","workspace_id":1,"kind":"send","campaign_id":null,"send_id":null,"messages":{"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"begun {{${external_id}}}"},"webhook":{"body":"begun {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":null,"audience":null},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795355562892,"request_id":"01a20387-d384-761a-b26e-173eb56f1597"}', NULL, NULL, NULL, 1, 0, 2, 1, 1, '01a20387-d384-761a-b26e-173eb56f1597', 1795355562892, 1795355562892, NULL);
INSERT INTO dispatches ("id", "workspace_id", "kind", "state", "campaign_id", "order_json", "segment", "youngest", "note", "is_whole", "plans_left", "users", "parts", "parts_left", "request_id", "accepted_at", "started_at", "finished_at") VALUES (X'6FB0CD09B3CA45D99A0A0D2AAD7ACAF2', 1, 'triggered', 'done', X'2B7C9D1E5E0A4B7F9C1D7A8E6F5D4C03', '{"dispatch_id":"6fb0cd09-b3ca-45d9-9a0a-0d2aad7acaf2","workspace_id":1,"kind":"triggered","campaign_id":"2b7c9d1e-5e0a-4b7f-9c1d-7a8e6f5d4c03","send_id":null,"messages":{"webhook":{"body":"thanks {{${external_id}}} {{event_properties.${size}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"target":{"users":[],"segment_id":null,"audience":{"custom_attribute":{"comparison":"equals","custom_attribute_name":"tier","value":"gold"}}},"subscription_state":"subscribed","ignores_capping":false,"canvas_entry_properties":null,"accepted_at":1795355562423,"request_id":"01a20387-d154-776e-8350-a16e97d8c7fb"}', NULL, NULL, NULL, 1, 0, 1, 1, 0, '01a20387-d154-776e-8350-a16e97d8c7fb', 1795355562423, 1795355562423, 1795355562440);
INSERT INTO dispatch_waves ("dispatch_id", "number", "wave") VALUES (X'01A20387D1EF700CAB456DB1B55EAB44', 0, NULL);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'01A20387D1EF700CAB456DB1B55EAB44', 1, NULL, NULL, NULL, NULL, 99, X'01A20387D1217017A6CA60F1D9209D28', 99, X'01A20387D1217017A6CA60F1D9209D28', 1, 1, 24, 48, 0, 0, 0, 0, 0, 12, 0, 0, 0);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'01A20387D38C76E1BF701F46D618DD51', 1, NULL, '[{"who":{"external_id":"u1"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null},{"who":{"external_id":"u2"},"trigger_properties":null,"canvas_entry_properties":null,"event_properties":null}]', X'6D657373616765730000000000000001', 4231866660169470826, 0, X'00000000000000000000000000000000', 0, X'00000000000000000000000000000000', 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO dispatch_parts ("dispatch_id", "part", "wave", "named", "claim_job", "claim_item", "at_slice", "at_id", "to_slice", "to_id", "is_walked", "is_done", "walked", "sent", "unreachable", "aborted", "failed", "bounced", "unknown", "not_in_audience", "control_group", "unsubscribed", "capped") VALUES (X'6FB0CD09B3CA45D99A0A0D2AAD7ACAF2', 1, NULL, '[]', NULL, NULL, 0, X'00000000000000000000000000000000', 0, X'00000000000000000000000000000000', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170008C5F9E657864601D', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170008C5F9E657864601D', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170008C5F9E657864601D', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562546, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170008C5F9E657864601D', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700182C7B6D79F455549', X'01A20387D38C76E1BF701F46D618DD51', 'email', 1, NULL, 'waiting', 1, 1795355562916, 1795355567633, NULL, 'connecting: Connection refused (os error 111)');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700182C7B6D79F455549', X'01A20387D38C76E1BF701F46D618DD51', 'webhook', 1, NULL, 'waiting', 1, 1795355562916, 1795355565433, NULL, 'the receiver answered 503 Service Unavailable');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562546, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562546, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'01A20387D38C76E1BF701F46D618DD51', 'email', 1, NULL, 'waiting', 1, 1795355562916, 1795355566536, NULL, 'connecting: Connection refused (os error 111)');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217002A09773462A5AF285', X'01A20387D38C76E1BF701F46D618DD51', 'webhook', 1, NULL, 'waiting', 1, 1795355562916, 1795355565543, NULL, 'the receiver answered 503 Service Unavailable');
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217004A253824202620DD1', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217004A253824202620DD1', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217004A253824202620DD1', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217004A253824202620DD1', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562546, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700681975906C86CEFF6', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700681975906C86CEFF6', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562545, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700681975906C86CEFF6', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562532, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700681975906C86CEFF6', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562532, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170088DA5394864BF8084', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170088DA5394864BF8084', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170088DA5394864BF8084', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170088DA5394864BF8084', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562545, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700A8119B35E43CC3934', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562548, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700A8119B35E43CC3934', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562527, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700A8119B35E43CC3934', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562529, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700A8119B35E43CC3934', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562528, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700C8C082422D75F0F04', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700C8C082422D75F0F04', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700C8C082422D75F0F04', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700C8C082422D75F0F04', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562546, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700E86F78D7BB8EB3626', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700E86F78D7BB8EB3626', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700E86F78D7BB8EB3626', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121700E86F78D7BB8EB3626', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170108A42E3D937011BD9', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170108A42E3D937011BD9', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170108A42E3D937011BD9', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170108A42E3D937011BD9', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562543, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217012870B01EA3D71EADB', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217012870B01EA3D71EADB', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217012870B01EA3D71EADB', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D1217012870B01EA3D71EADB', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170148F40BB62A2297A42', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170148F40BB62A2297A42', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170148F40BB62A2297A42', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562544, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D12170148F40BB62A2297A42', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562546, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121701685EDFAA75322A7F9', X'01A20387D1EF700CAB456DB1B55EAB44', 'content_card', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562552, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121701685EDFAA75322A7F9', X'01A20387D1EF700CAB456DB1B55EAB44', 'email', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562547, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121701685EDFAA75322A7F9', X'01A20387D1EF700CAB456DB1B55EAB44', 'sms', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562538, NULL);
INSERT INTO messages ("workspace_id", "service_id", "dispatch_id", "channel", "part", "campaign_id", "state", "attempts", "created_at", "next_at", "sent_at", "reason") VALUES (1, X'01A20387D121701685EDFAA75322A7F9', X'01A20387D1EF700CAB456DB1B55EAB44', 'webhook', 1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', 'sent', 1, 1795355562505, NULL, 1795355562538, NULL);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'content_card', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'email', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'sms', 12, 0, 0, 0, 0, 0);
INSERT INTO campaign_statistics ("workspace_id", "campaign_id", "variation_id", "channel", "sent", "delivered", "bounced", "unreachable", "aborted", "failed") VALUES (1, X'3C9F0A528F1E4C579A3E0D5B1C2E7F60', '', 'webhook', 12, 0, 0, 0, 0, 0);
INSERT INTO console_log ("dispatch_id", "workspace_id", "at", "record") VALUES (X'01A20387D1EF700CAB456DB1B55EAB44', 1, 1795355562556, '{"audience":null,"call":"send","campaign_id":"3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60","dispatch_id":"01a20387d1ef700cab456db1b55eab44","finished_at":"2026-11-22T13:52:42.556Z","messages":{"content_card":{"description":"Hello","expire_at":"2127-01-01T00:00:00Z","title":"past","type":"CLASSIC"},"email":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"Hello","from":"Acme <hello@acme.example>","subject":"past {{${external_id}}}"},"sms":{"app_id":"7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33","body":"past","subscription_group_id":"5a7d3c0e-2d7b-4f43-8f0c-3f9d2c6b7a11"},"webhook":{"body":"past {{${external_id}}}","request_method":"POST","url":"http://127.83.0.1:42583/hook"}},"received_at":"2026-11-22T13:52:42.479Z","recipient_subscription_state":"subscribed","request_id":"01a20387-d1ed-777a-8f86-41a951394982","results":{"aborted":0,"bounced":0,"failed":0,"left_out":{"capped":0,"control_group":0,"not_in_audience":12,"unknown":0,"unsubscribed":0},"sent":48,"unreachable":0,"users":24},"segment_id":"9d0b7c52-61c5-4d0e-b0f3-2f1c7a3f8e20","send_id":null}');
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A20387D20D7699BF4A359ED76BFC14', 1, 'transactional_postback', '9783bd531bb24599a7a9ec7bef1496a9', 'http://127.83.0.1:42583/states', '{"dispatch_id":"9783bd531bb24599a7a9ec7bef1496a9","status":"sent","metadata":{"external_send_id":"send-past","campaign_api_id":"7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2","received_at":"2026-11-22T13:52:42.487+00:00","enqueued_at":"2026-11-22T13:52:42.488+00:00","executed_at":"2026-11-22T13:52:42.493+00:00","sent_at":"2026-11-22T13:52:42.503+00:00"}}', X'F3FA6940A1E08323824DA6CFC9540C05', 4560516529001331732, 'delivered', '01a20387-d1f7-7762-9b35-36a2b0e3a4c6', 1, 1795355562509, 1795441962509, NULL, 200, NULL, 1795355562546, NULL);
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A20387D2E770A4B9B3F62C52080A13', 1, 'export_callback', '860758d3-98b6-4d72-8628-b1d6cbf624ca-1795355562', 'http://127.83.0.1:42583/callback', '{"success":true,"url":"http://127.0.0.1:0/users/export/860758d3-98b6-4d72-8628-b1d6cbf624ca-1795355562/download?signature=dS05cAuc-gz1GqCga9tmooOqp5QQPQEXK34DzdWziHM"}', X'F3FA6940A1E08323824DA6CFC9540C05', 4157937551208352275, 'delivered', '01a20387-d229-73f6-a58e-a9e6033e43ed', 1, 1795355562727, 1795441962727, NULL, 200, NULL, 1795355562735, NULL);
INSERT INTO deliveries ("id", "workspace_id", "kind", "subject", "url", "body", "receiver", "item", "state", "request_id", "attempts", "created_at", "retry_until", "next_at", "last_status", "last_error", "finished_at", "follows") VALUES (X'01A20387D46371C49494CEDDCBD6BE83', 1, 'export_callback', '5d527d6a-c6b4-416c-b0bb-23b417d652f1-1795355562', 'http://127.83.0.1:42583/callback-begun', '{"success":true,"url":"http://127.0.0.1:0/users/export/5d527d6a-c6b4-416c-b0bb-23b417d652f1-1795355562/download?signature=BUEWKRo-9n-yuRWZRvDH_FUnieCalQcQg3tGoMaHrOc"}', X'F3FA6940A1E08323824DA6CFC9540C05', 1483037629314678403, 'pending', '01a20387-d399-7227-be57-557a36b3e620', 1, 1795355563107, 1795441963107, 1795355563423, 503, 'the receiver answered 503 Service Unavailable', NULL, NULL);
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'6C0B7263D7DF4B8597678DEE4DE69720', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-called', '{"external_user_id":"u10"}', '{"v":1,"workspace":1,"received_at":1795355563316,"objects":[{"attributes":{"user":{"external_id":"u10"},"fields":{"first_name":"called"}}}]}', '{"order":"called"}', '01a20387-d534-70e9-a88c-3c2a0fdf9b77', 'processing', 1795355563316, NULL, NULL, 1795355563316, 1795355563316, NULL, NULL, 1795355563316, NULL, 1795355568316, 0, 0, 0, NULL);
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'9783BD531BB24599A7A9EC7BEF1496A9', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-past', NULL, NULL, NULL, '01a20387-d1f7-7762-9b35-36a2b0e3a4c6', 'sent', 1795355562503, NULL, X'01A20387D12170039988C831738B31F7', 1795355562487, 1795355562488, 1795355562493, 1795355562503, 1795355592494, NULL, 1795355592494, 0, 1, 0, X'01A20387D20D7699BF4A359ED76BFC14');
INSERT INTO transactional_emails ("dispatch_id", "workspace_id", "campaign_id", "external_send_id", "recipient", "attributes", "trigger_properties", "request_id", "state", "state_at", "reason", "service_id", "received_at", "enqueued_at", "executed_at", "sent_at", "due_at", "owner", "again_at", "appended", "begun", "put_off", "postback_id") VALUES (X'FE6C52731C8A4EE49D3E6E9DD3526CBB', 1, X'7D0C41A83F5E4B7A9C1D2E6F8A90B1C2', 'send-begun', '{"external_user_id":"u4"}', NULL, '{"order":"begun"}', '01a20387-d38f-73c5-9c13-4827a5430a97', 'processing', 1795355562898, NULL, X'01A20387D1217004A253824202620DD1', 1795355562895, 1795355562898, 1795355562905, NULL, 1795355564061, NULL, 1795355564061, 0, 0, 1, NULL);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-begun', X'FE6C52731C8A4EE49D3E6E9DD3526CBB', 1795355562897);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-called', X'6C0B7263D7DF4B8597678DEE4DE69720', 1795355563316);
INSERT INTO transactional_keys ("workspace_id", "external_send_id", "dispatch_id", "taken_at") VALUES (1, 'send-past', X'9783BD531BB24599A7A9EC7BEF1496A9', 1795355562488);
INSERT INTO dead_letters ("id", "consumer_group", "topic", "partition", "position", "appended_at", "key", "payload", "request_id", "reason", "attempts", "created_at") VALUES (X'01A20387D31E722AB06007F06E93A48E', 'ingest', 'tracking', 0, 1, 1795355562778, X'', X'7B64616D61676564', 'damaged', 'not a message of tracking: key must be a string at line 1 column 2', 1, 1795355562782);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 0, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 1, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 2, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('catalogs', 'catalogs', 3, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 0, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 2, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 1, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 2, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('ingest', 'tracking', 3, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 0, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 1, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 2, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 0, 0);
INSERT INTO log_offsets ("consumer_group", "topic", "partition", "log_id", "next", "resets") VALUES ('messages', 'messages', 3, 'd5dd4308-1847-49d1-84f1-ac53fea5287a', 1, 0);
INSERT INTO idempotency_claims ("workspace_id", "endpoint", "key", "id", "body", "messages", "received_at", "claimed_at", "leased_until", "status", "answer") VALUES (1, 'POST /users/track', 'answered', X'01A20387D510768B8DF85D013EBB4F42', X'C1542FA7C1E35689D88F97C76547960D4E5C5EE354D680E42B7BBA5E2F474741', X'ACF661055DBDFF1434D75CFF3BA32C90AD8BCFC3F7A7F8E7309235919F1DAFDB', 1795355563280, 1795355563280, 1795355583280, 201, '{"message":"success","attributes_processed":1}');
INSERT INTO idempotency_claims ("workspace_id", "endpoint", "key", "id", "body", "messages", "received_at", "claimed_at", "leased_until", "status", "answer") VALUES (1, 'POST /users/track', 'left', X'01A20387D513777DB53E1FDD91575A23', X'5AB8DE5A9167006A6AA1424936A1D87AECE4CFE3D01B0183693A30B0D27FB63F', X'23C13290F646D06F4BAA7B5501E3E232F0449C6ED38EAEE40F4BECBE324CEEE5', 1795355563283, 1795355563283, 0, NULL, NULL);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (0, 'scim', 86400, 1795392000000, 13);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'canvas.trigger.schedule.create', 3600, 1795356000000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'catalogs', 60, 1795355580000, 41);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.live_activity.start', 3600, 1795356000000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.schedule.create', 3600, 1795356000000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.send', 3600, 1795356000000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'messages.send.audience', 60, 1795355580000, 2);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'users.export.global_control_group', 3600, 1795356000000, 625);
INSERT INTO rate_limits ("workspace_id", "budget", "seconds", "ends_at", "used") VALUES (1, 'users.track', 60, 1795355580000, 125);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence ("name", "seq") VALUES ('catalogs', 1);
