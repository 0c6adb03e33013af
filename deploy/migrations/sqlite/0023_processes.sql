-- The processes that run: each writes its row again and again, and deletes it at its end. roles:
-- separated by commas. Times are milliseconds since the epoch by the database's clock.
CREATE TABLE processes (
    id         UUID PRIMARY KEY,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    roles      TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL
);
