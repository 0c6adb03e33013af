-- Exports of a workspace in one state, newest first: failed ones are few among many that are done.
CREATE INDEX export_jobs_by_state ON export_jobs (workspace_id, state, requested_at, id);
