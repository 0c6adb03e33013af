-- Hints, many to many, as for emails: the profile says whether it still has the number. Triggers
-- write them, because programs of the release before do not know this table: without triggers, users
-- that they write would have no hints, and numbers of users that they erase would stay.
CREATE TABLE phones (
    workspace_id INTEGER NOT NULL,
    phone        TEXT NOT NULL,
    service_id   UUID NOT NULL,
    PRIMARY KEY (workspace_id, phone, service_id)
) WITHOUT ROWID;

-- The numbers in documents, which come before the custom attributes. Text functions are faster than
-- JSON functions, and do not fail for a document that is not JSON.
CREATE VIEW profile_phones (key, workspace_id, phone, service_id) AS
    SELECT key, workspace_id, substr(rest, 1, instr(rest, '"') - 1), service_id
    FROM (SELECT key, workspace_id, service_id,
                 substr(doc, instr(doc, '"phone":"') + 9, 17) AS rest
          FROM users
          WHERE instr(doc, '"phone":"') > 0
            AND instr(substr(doc, 1, instr(doc, '"phone":"')), '"custom_attributes":') = 0)
    WHERE instr(rest, '"') BETWEEN 9 AND 17
      AND substr(rest, 1, instr(rest, '"')) GLOB '+[0-9]*"'
      AND substr(rest, 2, instr(rest, '"') - 2) NOT GLOB '*[^0-9]*';

CREATE TRIGGER users_added AFTER INSERT ON users BEGIN
    INSERT INTO phones (workspace_id, phone, service_id)
    SELECT workspace_id, phone, service_id FROM profile_phones WHERE key = new.key
    ON CONFLICT DO NOTHING;
END;

-- From its name on, a number has at most 26 characters. What comes before decides whether it is the
-- profile's number or that of a custom attribute.
CREATE TRIGGER users_before_change BEFORE UPDATE OF doc ON users
WHEN substr(old.doc, 1, instr(old.doc, '"phone":"') + 25)
     <> substr(new.doc, 1, instr(new.doc, '"phone":"') + 25)
BEGIN
    DELETE FROM phones
    WHERE workspace_id = old.workspace_id AND service_id = old.service_id
      AND phone = (SELECT phone FROM profile_phones WHERE key = old.key);
END;

CREATE TRIGGER users_changed AFTER UPDATE OF doc ON users
WHEN substr(old.doc, 1, instr(old.doc, '"phone":"') + 25)
     <> substr(new.doc, 1, instr(new.doc, '"phone":"') + 25)
BEGIN
    INSERT INTO phones (workspace_id, phone, service_id)
    SELECT workspace_id, phone, service_id FROM profile_phones WHERE key = new.key
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER users_deleted BEFORE DELETE ON users BEGIN
    DELETE FROM phones
    WHERE workspace_id = old.workspace_id AND service_id = old.service_id
      AND phone = (SELECT phone FROM profile_phones WHERE key = old.key);
END;

INSERT INTO phones (workspace_id, phone, service_id)
SELECT workspace_id, phone, service_id FROM profile_phones WHERE true
ON CONFLICT DO NOTHING;
