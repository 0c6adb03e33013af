-- The list of a workspace's dispatches, and those of one of its campaigns, by time.
CREATE INDEX dispatches_of_workspace ON dispatches (workspace_id, accepted_at, id);
CREATE INDEX dispatches_of_campaign ON dispatches (workspace_id, campaign_id, accepted_at, id)
    WHERE campaign_id IS NOT NULL;
