-- Every request with a key that is not cached waits behind the one that waits for this lock. So it
-- waits for seconds at a time, with longer pauses between. Longer than deadlock_timeout, after which
-- PostgreSQL cancels an autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- The permission of the request at last_permission_at. NULL: the key lacks it. An older version writes
-- only last_used_at: the permission of that use is not known.
ALTER TABLE api_keys ADD COLUMN last_permission TEXT;
ALTER TABLE api_keys ADD COLUMN last_permission_at BIGINT;

-- Who revoked the key, as the audit log names people. NULL: an older version revoked it.
ALTER TABLE api_keys ADD COLUMN revoked_by TEXT;

-- The revoked keys of a workspace, the latest first.
CREATE INDEX api_keys_revoked ON api_keys (workspace_id, revoked_at, id) WHERE revoked_at IS NOT NULL;
