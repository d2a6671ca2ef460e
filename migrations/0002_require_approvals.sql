-- How many different passkeys must allow a decision, and who has so far.
ALTER TABLE decisions ADD COLUMN approvals INTEGER NOT NULL DEFAULT 1 CHECK (approvals BETWEEN 1 AND 9);
ALTER TABLE decisions ADD COLUMN approved_by TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(approved_by));

-- The repositories (by key) a passkey may answer for and read; none named: all.
ALTER TABLE passkeys ADD COLUMN repos TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(repos));
ALTER TABLE enrolments ADD COLUMN repos TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(repos));

-- A session also ends when its browser has not been seen for this long.
ALTER TABLE sessions ADD COLUMN idle_ms INTEGER NOT NULL DEFAULT 900000 CHECK (idle_ms > 0);
