-- How much was done, and how much waited: values by time, for charts. step: 60000 for a minute, 3600000
-- for an hour, in milliseconds. at: the start of the step. workspace_id: 0 for the whole installation,
-- which has a row in each minute that was recorded. A sum of 0 has no row.
CREATE TABLE history (
    step         INTEGER NOT NULL,
    workspace_id INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    metric       TEXT NOT NULL,
    value        INTEGER NOT NULL,
    PRIMARY KEY (step, workspace_id, at, metric)
) WITHOUT ROWID;
CREATE INDEX history_oldest ON history (step, at);

-- Work that was done, until the next minute adds it to the history. Rows are only added, each in the
-- transaction of its work, so that no work waits for other work.
CREATE TABLE history_counts (
    id           INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    at           INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    metric       TEXT NOT NULL,
    value        INTEGER NOT NULL
);
