-- Who changed what, when, and from where (docs/how-to/audit-log.md). It has no secrets, and no data of
-- users: an erased user has nothing to erase here. workspace_id: NULL for the whole installation; it
-- refers to nothing, because rows outlive their workspace. details: a JSON object.
CREATE TABLE audit_log (
    id           UUID PRIMARY KEY,
    at           BIGINT NOT NULL,
    workspace_id INTEGER,
    actor        TEXT NOT NULL,
    action       TEXT NOT NULL,
    object       TEXT NOT NULL,
    address      TEXT,
    details      TEXT NOT NULL
);
CREATE INDEX audit_log_latest ON audit_log (at, id);
CREATE INDEX audit_log_of_workspace ON audit_log (workspace_id, at, id);
