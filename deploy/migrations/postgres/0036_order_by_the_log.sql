-- In the order in which workers lock the tables.
-- The time that the log gave the last message before the position, and the time by which it is
-- ordered; NULL if no message had a time.
ALTER TABLE log_offsets ADD COLUMN last_appended_at BIGINT;
ALTER TABLE log_offsets ADD COLUMN last_log_time BIGINT;
-- When the log got each copy of a change that names two users, in milliseconds; NULL if it was not
-- reached, or if an earlier release reached it.
ALTER TABLE identity_changes ADD COLUMN first_at BIGINT;
ALTER TABLE identity_changes ADD COLUMN second_at BIGINT;
-- The time by which the message is ordered; NULL if the log gave it none.
ALTER TABLE dead_letters ADD COLUMN log_time BIGINT;
-- When the email was stored, by the database's clock; NULL if an earlier release stored it.
ALTER TABLE transactional_emails ADD COLUMN accepted_at BIGINT;
