-- The workspace of a dead letter; 0: none, or unreadable. NULL: not determined yet, because a program
-- of the release before wrote it; a worker determines it.
ALTER TABLE dead_letters ADD COLUMN workspace_id INTEGER;
CREATE INDEX dead_letters_of_workspace ON dead_letters (workspace_id, created_at, id);

-- The list of a workspace's deliveries.
CREATE INDEX deliveries_of_workspace ON deliveries (workspace_id, created_at, id);
