-- Bounces suppress an address until a time; cause is the dispatch of the email, and status the
-- enhanced status, empty if the report had none.
ALTER TABLE suppressions ADD COLUMN until BIGINT;
ALTER TABLE suppressions ADD COLUMN cause UUID;
ALTER TABLE suppressions ADD COLUMN status TEXT COLLATE "C";
CREATE INDEX suppressions_of_cause ON suppressions (cause) WHERE cause IS NOT NULL;
CREATE INDEX suppressions_until ON suppressions (until) WHERE until IS NOT NULL;

-- Emails of a dispatch that bounced because of their address, by status. If too many bounced alike,
-- the relay is the cause.
CREATE TABLE dispatch_bounces (
    dispatch_id UUID NOT NULL REFERENCES dispatches (id) ON DELETE CASCADE,
    status      TEXT COLLATE "C" NOT NULL,
    bounces     BIGINT NOT NULL,
    is_relay    BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (dispatch_id, status)
);

-- Emails that the relay accepted or rejected; NULL if a release before this one counted the part.
ALTER TABLE dispatch_parts ADD COLUMN emails BIGINT;

-- The hash of the email address to which a message was sent.
ALTER TABLE messages ADD COLUMN address BYTEA;
ALTER TABLE transactional_emails ADD COLUMN address BYTEA;
