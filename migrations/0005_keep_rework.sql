-- What a review or a red check asked for that no run has been told of yet.
ALTER TABLE tasks ADD COLUMN rework TEXT NOT NULL DEFAULT '';

-- What a task's runs have used so far is summed up whenever the task is read.
CREATE INDEX events_usage ON events (stream, id) WHERE kind = 'usage';
