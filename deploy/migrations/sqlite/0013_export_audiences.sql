-- Exports of any users, and the proof that they are complete. audience: the users, as JSON; NULL: the
-- global control group. users_per_file: as requested; NULL: the worker's setting.
-- manifest_sha256: of the manifest of a finished export.
ALTER TABLE export_jobs ADD COLUMN audience TEXT;
ALTER TABLE export_jobs ADD COLUMN users_per_file BIGINT;
ALTER TABLE export_jobs ADD COLUMN manifest_sha256 BYTEA;

-- Of the part's object. NULL if the program of the release before wrote it.
ALTER TABLE export_parts ADD COLUMN sha256 BYTEA;

-- The users of the parts of an audience's export, as the attempt at planning found them. Only the
-- attempt in the job's plan counts.
CREATE TABLE export_members (
    job_id  UUID NOT NULL REFERENCES export_jobs (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    part    BIGINT NOT NULL,
    users   BYTEA NOT NULL,
    PRIMARY KEY (job_id, attempt, part)
);
