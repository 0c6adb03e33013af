-- Whether an attempt at a message that was not accepted may have arrived: its receiver did not
-- respond, or its worker was lost.
ALTER TABLE messages ADD COLUMN may_have_been_sent BOOLEAN NOT NULL DEFAULT FALSE;
