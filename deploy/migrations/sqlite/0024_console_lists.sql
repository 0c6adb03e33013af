-- The latest failed exports of all workspaces: few among many that are done.
CREATE INDEX export_jobs_failed ON export_jobs (finished_at) WHERE state = 'failed';

-- The entries of one actor, newest first: an actor may have few, or none.
CREATE INDEX audit_log_of_actor ON audit_log (actor, at, id);
