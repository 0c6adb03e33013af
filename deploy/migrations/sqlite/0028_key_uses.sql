-- The permission of the request at last_permission_at. NULL: the key lacks it. An older version writes
-- only last_used_at: the permission of that use is not known.
ALTER TABLE api_keys ADD COLUMN last_permission TEXT;
ALTER TABLE api_keys ADD COLUMN last_permission_at BIGINT;

-- Who revoked the key, as the audit log names people. NULL: an older version revoked it.
ALTER TABLE api_keys ADD COLUMN revoked_by TEXT;

-- The revoked keys of a workspace, the latest first.
CREATE INDEX api_keys_revoked ON api_keys (workspace_id, revoked_at, id) WHERE revoked_at IS NOT NULL;
