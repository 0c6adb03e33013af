-- Whoever waits for this lock holds up all who come after: for seconds at a time, with longer
-- pauses between.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE schedules IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- When the time of a schedule was last set; NULL: when it was created.
ALTER TABLE schedules ADD COLUMN timed_at BIGINT;
