-- The keys that sign exports. Retired ones stay, so that older signatures can be verified.
-- private_key: encrypted.
CREATE TABLE signing_keys (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    public_key   BYTEA NOT NULL,
    private_key  BYTEA NOT NULL,
    created_at   BIGINT NOT NULL,
    retired_at   BIGINT
);
CREATE UNIQUE INDEX signing_keys_active ON signing_keys (workspace_id) WHERE retired_at IS NULL;
CREATE INDEX signing_keys_workspace ON signing_keys (workspace_id);
