-- The transaction that created a user, so that an export can tell who was there when it was
-- planned. NULL: before this migration. Each server counts its own transactions, so above these
-- bits is the number of the server's start. What a database brings along from another server is
-- older than all that this one writes, however far the other one had counted.
CREATE TABLE server_starts (
    number  BIGINT PRIMARY KEY,
    started TEXT NOT NULL UNIQUE
);

-- The number of the start of the server that this runs on: no transaction outlives it.
CREATE FUNCTION server_number() RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    this   TEXT := extract(epoch FROM pg_postmaster_start_time());
    known  BIGINT;
    newest BIGINT;
    fresh  BIGINT;
BEGIN
    LOOP
        SELECT max(number) INTO newest FROM server_starts;
        SELECT number INTO known FROM server_starts WHERE started = this;
        -- One that is not the newest came back after the database was on another server.
        IF known = newest THEN
            RETURN known;
        END IF;
        fresh := coalesce(newest + 1, 0);
        IF current_setting('transaction_read_only')::boolean THEN
            -- What the first writer will get.
            RETURN fresh;
        END IF;
        UPDATE server_starts SET number = fresh WHERE started = this AND number < fresh;
        IF NOT FOUND THEN
            INSERT INTO server_starts (number, started) VALUES (fresh, this)
                ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- Whoever waits for this lock holds up all who come after: for seconds at a time, with longer
-- pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an autovacuum that
-- is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE users IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

-- Without a default first, so that no row is written again. The default is for programs of the
-- release before, which do not name the column.
ALTER TABLE users ADD COLUMN created_in BIGINT;
ALTER TABLE users ALTER COLUMN created_in
    SET DEFAULT server_number() << 48 | pg_current_xact_id()::text::bigint;
