-- Other names that clients use for fields, by the fields' own names; a JSON object.
ALTER TABLE workspaces ADD COLUMN aliases TEXT NOT NULL DEFAULT '{}';
