-- Texts that templates include by their names.
CREATE TABLE content_blocks (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    name         TEXT NOT NULL,
    body         TEXT NOT NULL,
    PRIMARY KEY (workspace_id, name)
);

-- Items of catalogs that templates read by a name. definition: JSON.
CREATE TABLE catalog_selections (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    catalog      TEXT NOT NULL,
    name         TEXT NOT NULL,
    definition   TEXT NOT NULL,
    PRIMARY KEY (workspace_id, catalog, name)
);
