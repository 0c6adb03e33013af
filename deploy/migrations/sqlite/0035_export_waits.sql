-- Since when an export has been waiting for its storage, in milliseconds; NULL if it does not wait.
ALTER TABLE export_jobs ADD COLUMN waiting_since BIGINT;
