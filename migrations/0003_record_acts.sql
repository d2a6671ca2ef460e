-- What people tell nod to do with a task, each proved like an answer. The
-- conductor does what is wanted and says how that went.
CREATE TABLE acts (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    task       TEXT    NOT NULL REFERENCES tasks (id),
    kind       TEXT    NOT NULL CHECK (kind IN ('cancel', 'say')),
    words      TEXT    NOT NULL,
    actor      TEXT    NOT NULL CHECK (json_valid(actor)),
    state      TEXT    NOT NULL CHECK (state IN ('wanted', 'done', 'refused')),
    note       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX acts_wanted ON acts (n) WHERE state = 'wanted';

-- Challenges live for minutes: none is worth keeping.
DROP TABLE challenges;
CREATE TABLE challenges (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    kind       TEXT    NOT NULL CHECK (kind IN ('sign_in', 'enrol', 'answer', 'act')),
    bytes      BLOB    NOT NULL,
    nonce      TEXT    NOT NULL,
    decision   TEXT    NOT NULL,
    task       TEXT    NOT NULL,
    answer     TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    enrolment  TEXT    NOT NULL,
    data       BLOB,
    expires_at INTEGER NOT NULL
) STRICT;
