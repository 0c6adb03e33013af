-- All later transactions wait behind the one that waits for these locks. So it waits for seconds at a
-- time, with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE dead_letters IN ACCESS EXCLUSIVE MODE;
            LOCK TABLE deliveries IN SHARE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- The workspace of a dead letter; 0: none, or unreadable. NULL: not determined yet, because a program
-- of the release before wrote it; a worker determines it.
ALTER TABLE dead_letters ADD COLUMN workspace_id INTEGER;
CREATE INDEX dead_letters_of_workspace ON dead_letters (workspace_id, created_at, id);

-- The list of a workspace's deliveries.
CREATE INDEX deliveries_of_workspace ON deliveries (workspace_id, created_at, id);
