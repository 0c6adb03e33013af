-- How long an export of the workspace may take before it is late: six hours, unless its file sets
-- something else.
ALTER TABLE workspaces ADD COLUMN export_late_ms BIGINT NOT NULL DEFAULT 21600000;

-- When the export became late; set once, together with the notifications about it.
ALTER TABLE export_jobs ADD COLUMN late_at BIGINT;
