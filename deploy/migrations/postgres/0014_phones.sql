-- Hints, many to many, as for emails: the profile says whether it still has the number. Triggers
-- write them, because programs of the release before do not know this table: without triggers, users
-- that they write would have no hints, and numbers of users that they erase would stay. `longshore
-- migrate` records the numbers of existing users afterwards (crates/people/src/users/phones.rs).
CREATE TABLE phones (
    workspace_id INTEGER NOT NULL,
    phone        TEXT COLLATE "C" NOT NULL,
    service_id   UUID NOT NULL,
    PRIMARY KEY (workspace_id, phone, service_id)
);

-- What follows the name of the field in a document, which comes before the custom attributes. Text
-- functions take 2 us, a regular expression or jsonb ten times as long; and they do not fail for a
-- document that is not JSON.
CREATE FUNCTION phone_part(doc TEXT) RETURNS TEXT
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(split_part(split_part(doc, '"custom_attributes":', 1), '"phone":"', 2), 17)
$$;

-- The number in it; NULL if there is none.
CREATE FUNCTION phone_number(part TEXT) RETURNS TEXT
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN part LIKE '+%"%' AND translate(split_part(part, '"', 1), '0123456789', '') = '+'
                THEN split_part(part, '"', 1) END
$$;

-- For all rows of a statement at once: an import inserts many.
CREATE FUNCTION add_phones() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO phones (workspace_id, phone, service_id)
    SELECT workspace_id, phone_number(part), service_id
    FROM (SELECT workspace_id, phone_part(doc) AS part, service_id FROM added OFFSET 0) AS new
    WHERE phone_number(part) IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE FUNCTION change_phone() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM phones
    WHERE workspace_id = OLD.workspace_id AND phone = phone_number(phone_part(OLD.doc))
      AND service_id = OLD.service_id;
    IF TG_OP = 'UPDATE' AND phone_number(phone_part(NEW.doc)) IS NOT NULL THEN
        INSERT INTO phones (workspace_id, phone, service_id)
        VALUES (NEW.workspace_id, phone_number(phone_part(NEW.doc)), NEW.service_id)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

-- All later writers wait behind the one that waits for this lock. So it waits for seconds at a time,
-- with longer pauses between. Longer than deadlock_timeout, after which PostgreSQL cancels an
-- autovacuum that is in the way.
DO $$
BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            SET LOCAL lock_timeout = '3s';
            LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 20 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(6);
        END;
    END LOOP;
END $$;

CREATE TRIGGER users_added AFTER INSERT ON users
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION add_phones();
CREATE TRIGGER users_changed AFTER UPDATE OF doc ON users
    FOR EACH ROW WHEN (phone_part(OLD.doc) <> phone_part(NEW.doc))
    EXECUTE FUNCTION change_phone();
CREATE TRIGGER users_deleted AFTER DELETE ON users
    FOR EACH ROW WHEN (phone_part(OLD.doc) <> '') EXECUTE FUNCTION change_phone();

-- An installation without users has no numbers to record: the next slice is after the last one.
INSERT INTO settings (name, value)
SELECT 'phones.recorded', '100' WHERE NOT EXISTS (SELECT FROM users)
ON CONFLICT (name) DO NOTHING;
