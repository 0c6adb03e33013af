-- All later transactions wait behind the one that waits for this lock. So it waits for seconds at a
-- time, with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE messages IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- Whether an attempt at a message that was not accepted may have arrived: its receiver did not
-- respond, or its worker was lost.
ALTER TABLE messages ADD COLUMN may_have_been_sent BOOLEAN NOT NULL DEFAULT FALSE;
