-- The workspace of a claim's job; 0: none, or not known. Whoever gets the result, if jobs of several
-- workspaces share it.
ALTER TABLE claims ADD COLUMN workspace_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN receiver UUID;
