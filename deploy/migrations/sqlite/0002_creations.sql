-- The transaction that created a user, so that an export can tell who was there when it was
-- planned. 0: before this migration.
ALTER TABLE users ADD COLUMN created_in INTEGER NOT NULL DEFAULT 0;

-- How many transactions have created users.
CREATE TABLE creations (
    number INTEGER NOT NULL
);
INSERT INTO creations (number) VALUES (0);
