-- The keys that sign exports. Retired ones stay, so that older signatures can be verified.
-- private_key: encrypted.
CREATE TABLE signing_keys (
    id           UUID PRIMARY KEY,
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    public_key   BLOB NOT NULL,
    private_key  BLOB NOT NULL,
    created_at   INTEGER NOT NULL,
    retired_at   INTEGER
);
CREATE UNIQUE INDEX signing_keys_active ON signing_keys (workspace_id) WHERE retired_at IS NULL;
CREATE INDEX signing_keys_workspace ON signing_keys (workspace_id);
