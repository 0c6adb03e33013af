-- Users of a part whose local time had passed when it was sent.
ALTER TABLE dispatch_parts ADD COLUMN too_late BIGINT NOT NULL DEFAULT 0;
