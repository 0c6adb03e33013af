-- Changes that name two users wait here until they are reached in the partitions of both. The bits
-- of copies say which were reached; a user is the one that the name meant there.
CREATE TABLE identity_changes (
    workspace_id INTEGER NOT NULL,
    change       BYTEA NOT NULL,
    received_at  BIGINT NOT NULL,
    copies       SMALLINT NOT NULL,
    first_user   UUID,
    second_user  UUID,
    PRIMARY KEY (workspace_id, change)
);

-- Who was merged lately, and the user they are a part of.
CREATE TABLE merged_users (
    workspace_id INTEGER NOT NULL,
    service_id   UUID NOT NULL,
    kept_as      UUID NOT NULL,
    merged_at    BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, service_id)
);
