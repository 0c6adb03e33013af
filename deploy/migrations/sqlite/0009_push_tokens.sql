-- The owner of each push token: the user who registered it last. The token is a hash of its app and
-- itself. A negative time is an estimate, from when profiles were first read.
CREATE TABLE push_tokens (
    workspace_id  INTEGER NOT NULL,
    token         BYTEA NOT NULL,
    service_id    UUID NOT NULL,
    registered_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, token)
) WITHOUT ROWID;
CREATE INDEX push_tokens_of_user ON push_tokens (workspace_id, service_id);

-- Until then, daily passes record the tokens of profiles that have no row, and unsubscribed email
-- addresses: they are from before, or from a worker of an older version.
INSERT INTO settings (name, value)
VALUES ('push_tokens.recorded_until', (unixepoch() + 7 * 86400) * 1000)
ON CONFLICT (name) DO NOTHING;

-- The first pass begins at once: until then, a token of two users has no owner.
UPDATE claims SET due_at = 0 WHERE kind = 'activity_sweep' AND owner IS NULL;
