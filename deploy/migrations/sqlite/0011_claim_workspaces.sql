-- The workspace of a claim's job; 0: none, or not known. The receiver of its deliveries, which jobs
-- of several workspaces may share.
ALTER TABLE claims ADD COLUMN workspace_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN receiver UUID;
