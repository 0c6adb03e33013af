-- The storages that requests choose by name (`storages` of the workspace file). If one changes, its
-- name refers to another row of `storages`, because an export keeps the storage it was asked for.
CREATE TABLE named_storages (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    storage_id   UUID NOT NULL REFERENCES storages (id),
    PRIMARY KEY (workspace_id, name)
);

-- The destination that the request chose; NULL is the workspace's default.
ALTER TABLE export_jobs ADD COLUMN destination TEXT;
