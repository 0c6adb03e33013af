-- All later transactions wait behind the one that waits for this lock. So it waits for seconds at a
-- time, with longer pauses between.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE claims IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- The workspace of a claim's job; 0: none, or not known. The receiver of its deliveries, which jobs
-- of several workspaces may share.
ALTER TABLE claims ADD COLUMN workspace_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN receiver UUID;
