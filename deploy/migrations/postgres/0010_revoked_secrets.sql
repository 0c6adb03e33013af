-- Secrets that were revoked in another state of this installation, and that a restore knows only
-- from outside: the other revoked ones are in api_keys and scim_tokens. kind: key or scim_token.
CREATE TABLE revoked_secrets (
    hash       BYTEA PRIMARY KEY,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    revoked_at BIGINT NOT NULL
);
