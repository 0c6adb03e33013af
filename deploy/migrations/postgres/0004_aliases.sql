-- Every request reads workspaces, and whoever waits for this lock holds them up: for seconds at a
-- time, with longer pauses between.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE workspaces IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- Other names that clients use for fields, by the fields' own names; a JSON object.
ALTER TABLE workspaces ADD COLUMN aliases TEXT NOT NULL DEFAULT '{}';
