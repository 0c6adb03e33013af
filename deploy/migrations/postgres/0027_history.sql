-- How much was done, and how much waited: values by time, for charts. step: 60000 for a minute, 3600000
-- for an hour, in milliseconds. at: the start of the step. workspace_id: 0 for the whole installation,
-- which has a row in each minute that was recorded. A sum of 0 has no row.
CREATE TABLE history (
    step         BIGINT NOT NULL,
    workspace_id INTEGER NOT NULL,
    at           BIGINT NOT NULL,
    metric       TEXT COLLATE "C" NOT NULL,
    value        BIGINT NOT NULL,
    PRIMARY KEY (step, workspace_id, at, metric)
);
CREATE INDEX history_oldest ON history (step, at);

-- Work that was done, until the next minute adds it to the history. Rows are only added, each in the
-- transaction of its work, so that no work waits for other work.
CREATE TABLE history_counts (
    id           BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    workspace_id INTEGER NOT NULL,
    at           BIGINT NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    metric       TEXT COLLATE "C" NOT NULL,
    value        BIGINT NOT NULL
);
