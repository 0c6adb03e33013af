-- Email templates of the workspace file, which email objects use by their ids. content: the fields
-- of an email object, as JSON.
CREATE TABLE email_templates (
    workspace_id INTEGER NOT NULL REFERENCES workspaces (id),
    id           UUID NOT NULL,
    name         TEXT NOT NULL,
    content      TEXT NOT NULL,
    PRIMARY KEY (workspace_id, id)
);
