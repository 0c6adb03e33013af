-- The schedules of a workspace that still send something, in the order of their times.
CREATE INDEX schedules_in_order ON schedules (workspace_id, time, id) WHERE ended_at IS NULL;

-- The missed schedules of a workspace, the latest first.
CREATE INDEX schedules_missed_in_order ON schedules (workspace_id, ended_at, id) WHERE state = 'missed';
