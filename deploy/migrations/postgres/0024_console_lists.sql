-- All later writers wait behind the one that waits for these locks. So it waits for seconds at a time,
-- with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE export_jobs, audit_log IN SHARE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- The latest failed exports of all workspaces: few among many that are done.
CREATE INDEX export_jobs_failed ON export_jobs (finished_at) WHERE state = 'failed';

-- The entries of one actor, newest first: an actor may have few, or none.
CREATE INDEX audit_log_of_actor ON audit_log (actor, at, id);
