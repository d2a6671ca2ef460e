-- How far each poller has come; what a mark says is the poller's own business.
CREATE TABLE marks (
    name       TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
    mark       TEXT    NOT NULL CHECK (mark <> ''),
    updated_at INTEGER NOT NULL
) STRICT;

-- The newest of GitHub's events that set the trigger label when a task was made, 0 when
-- none was known, and when the task was asked for, by GitHub's clock.
ALTER TABLE tasks ADD COLUMN label_event INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN asked_at INTEGER;
