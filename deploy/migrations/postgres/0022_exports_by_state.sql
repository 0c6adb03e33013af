-- All later writers wait behind the one that waits for this lock. So it waits for seconds at a time,
-- with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE export_jobs IN SHARE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- Exports of a workspace in one state, newest first: failed ones are few among many that are done.
CREATE INDEX export_jobs_by_state ON export_jobs (workspace_id, state, requested_at, id);
