-- What a dispatch keeps of the workspace file. kept: JSON, with the name of its campaign and the
-- hashes of its content blocks. NULL if an earlier version began it: it reads what is declared now.
ALTER TABLE dispatches ADD COLUMN kept TEXT;

-- The content blocks that dispatches began with. hash: that of the body. used_at: about when a
-- dispatch last began with it.
CREATE TABLE dispatch_blocks (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    hash         BLOB NOT NULL,
    body         TEXT NOT NULL,
    used_at      BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, hash)
);
