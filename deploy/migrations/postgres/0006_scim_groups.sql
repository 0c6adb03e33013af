-- SCIM: tokens of identity providers that do not send X-Request-Origin; groups of dashboard users
-- and their members, in rows as those of users. The index finds users by what providers call them.
ALTER TABLE scim_tokens ADD COLUMN requires_origin BOOLEAN NOT NULL DEFAULT TRUE;

CREATE TABLE scim_groups (
    id           UUID PRIMARY KEY,
    name_key     TEXT COLLATE "C" NOT NULL UNIQUE,
    declared_key TEXT COLLATE "C" UNIQUE,
    doc          TEXT NOT NULL,
    version      BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    modified_at  BIGINT NOT NULL
);

CREATE TABLE scim_members (
    group_id UUID NOT NULL,
    user_id  UUID NOT NULL,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX scim_members_user ON scim_members (user_id);

CREATE INDEX dashboard_users_external_id ON dashboard_users ((doc::jsonb ->> 'externalId'));
