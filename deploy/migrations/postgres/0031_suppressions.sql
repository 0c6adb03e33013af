-- The last decision about an address, and why it gets no messages: opt-outs and complaints. An address is a hash with the key of its workspace, so that it is not readable and
-- stays known when its users are erased.
CREATE TABLE suppressions (
    workspace_id INTEGER NOT NULL,
    who          BYTEA NOT NULL,
    -- 'email', or the id of a subscription group.
    scope        TEXT COLLATE "C" NOT NULL,
    -- 'decision' or 'complaint'.
    reason       TEXT COLLATE "C" NOT NULL,
    -- Of a decision: 'unsubscribed', 'subscribed' or 'opted_in'; else 'suppressed'.
    state        TEXT NOT NULL,
    decided_at   BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, who, scope, reason)
);

CREATE TABLE suppression_keys (
    workspace_id INTEGER PRIMARY KEY,
    key          BYTEA NOT NULL
);

-- Daily passes record the opt-outs of numbers from before, and those that workers of the release
-- before store during the upgrade.
INSERT INTO settings (name, value)
VALUES ('push_tokens.recorded_until', ((extract(epoch FROM now()) * 1000)::bigint + 7 * 86400000)::text)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
UPDATE claims SET due_at = 0 WHERE kind = 'activity_sweep' AND owner IS NULL;
