-- All later writers wait behind the one that waits for this lock. So it waits for seconds at a time,
-- with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE dispatches IN SHARE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- The list of a workspace's dispatches, and those of one of its campaigns, by time.
CREATE INDEX dispatches_of_workspace ON dispatches (workspace_id, accepted_at, id);
CREATE INDEX dispatches_of_campaign ON dispatches (workspace_id, campaign_id, accepted_at, id)
    WHERE campaign_id IS NOT NULL;
