-- Since when an export has been waiting for its storage, in milliseconds; NULL if it does not wait.
ALTER TABLE export_jobs ADD COLUMN waiting_since BIGINT;
-- Since when the storage has refused the requests of an export that waits for it; or NULL.
ALTER TABLE export_jobs ADD COLUMN refused_since BIGINT;
