-- People who are signed in to the console. secret_hash: SHA-256 of the cookie. rights: a JSON object.
-- method: how the person signed in. A session ends at expires_at, or when it was idle for too long.
CREATE TABLE console_sessions (
    id           UUID PRIMARY KEY,
    secret_hash  BLOB NOT NULL UNIQUE,
    person       TEXT NOT NULL,
    rights       TEXT NOT NULL,
    method       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    address      TEXT NOT NULL,
    user_agent   TEXT NOT NULL
);
CREATE INDEX console_sessions_of_person ON console_sessions (person, last_seen_at);

-- Addresses that sign a person in to the console, once. hash: SHA-256 of the token. role: the name of
-- a bundle of rights.
CREATE TABLE console_links (
    hash       BLOB PRIMARY KEY,
    person     TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
);
