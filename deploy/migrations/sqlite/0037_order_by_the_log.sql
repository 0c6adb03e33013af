-- When the log got each copy of a change that names two users, in milliseconds; NULL if it was not
-- reached, or if an earlier release reached it.
ALTER TABLE identity_changes ADD COLUMN first_at BIGINT;
ALTER TABLE identity_changes ADD COLUMN second_at BIGINT;
-- The time by which the message is ordered; NULL if the log gave it none.
ALTER TABLE dead_letters ADD COLUMN log_time BIGINT;
-- When the email was stored, by the database's clock; NULL if an earlier release stored it.
ALTER TABLE transactional_emails ADD COLUMN accepted_at BIGINT;
