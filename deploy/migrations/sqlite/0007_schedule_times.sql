-- When the time of a schedule was last set; NULL: when it was created.
ALTER TABLE schedules ADD COLUMN timed_at INTEGER;
