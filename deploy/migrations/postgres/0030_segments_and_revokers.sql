-- The segments of a workspace, by name.
CREATE INDEX segments_by_name ON segments (workspace_id, name, id);

-- Who revoked a key, if a version before 0028 revoked it and the audit log still has it. From now on,
-- last_permission is also NULL if several permissions of the key allow the request.
UPDATE api_keys SET revoked_by = audit_log.actor
FROM audit_log
WHERE audit_log.action = 'key.revoke'
  AND audit_log.details::json ->> 'id' = api_keys.id::text
  AND api_keys.revoked_at IS NOT NULL AND api_keys.revoked_by IS NULL;
