-- The settings of its repository that a task began with, as JSON: nothing loosens them
-- for it. Empty: the defaults, which permit the least.
ALTER TABLE tasks ADD COLUMN terms TEXT NOT NULL DEFAULT '';
