-- Ids of merged users are kept for as long as the kept user exists, and are deleted with that user.
CREATE INDEX merged_users_kept_as ON merged_users (workspace_id, kept_as);

-- Email addresses whose users unsubscribed, as hashes: they stay unsubscribed when another user gets
-- the address.
CREATE TABLE unsubscribed_emails (
    workspace_id INTEGER NOT NULL,
    who          BYTEA NOT NULL,
    decided_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, who)
);
