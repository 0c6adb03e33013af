-- Who dashboard users are at the identity provider of the console. The first sign-in stores issuer and
-- subject of the token; later ones must have the same.
CREATE TABLE dashboard_identities (
    user_id         UUID NOT NULL,
    issuer          TEXT NOT NULL,
    subject         TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    last_sign_in_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, issuer),
    UNIQUE (issuer, subject)
);

-- Sign-ins at the identity provider that have ended, so that none ends twice. hash: SHA-256 of their
-- state.
CREATE TABLE console_sign_ins (
    hash       BLOB PRIMARY KEY,
    expires_at INTEGER NOT NULL
);

-- The dashboard user of a session, whose permissions it has; none for a session of a link. Such a
-- session has no rights of its own, so a program that does not know the column grants it nothing.
ALTER TABLE console_sessions ADD COLUMN user_id UUID;
CREATE INDEX console_sessions_of_user ON console_sessions (user_id);
