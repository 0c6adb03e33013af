-- All later writers wait behind the one that waits for this lock. So it waits for seconds at a time,
-- with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE schedules IN SHARE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- The schedules of a workspace that still send something, in the order of their times.
CREATE INDEX schedules_in_order ON schedules (workspace_id, time, id) WHERE ended_at IS NULL;

-- The missed schedules of a workspace, the latest first.
CREATE INDEX schedules_missed_in_order ON schedules (workspace_id, ended_at, id) WHERE state = 'missed';
