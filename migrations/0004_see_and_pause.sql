-- Which passkeys have opened the page of a decision: whoever has is not reminded.
CREATE TABLE sights (
    decision TEXT    NOT NULL REFERENCES decisions (id),
    passkey  TEXT    NOT NULL REFERENCES passkeys (id),
    at       INTEGER NOT NULL,
    PRIMARY KEY (decision, passkey)
) STRICT, WITHOUT ROWID;

-- Test pushes that wait to be tapped. They live for minutes.
CREATE TABLE taps (
    token_digest TEXT    NOT NULL PRIMARY KEY CHECK (token_digest <> ''),
    expires_at   INTEGER NOT NULL,
    tapped_at    INTEGER
) STRICT;

-- People also pause and resume an agent.
ALTER TABLE acts RENAME TO acts_before;
DROP INDEX acts_wanted;
CREATE TABLE acts (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    task       TEXT    NOT NULL REFERENCES tasks (id),
    kind       TEXT    NOT NULL CHECK (kind IN ('cancel', 'say', 'pause', 'resume')),
    words      TEXT    NOT NULL,
    actor      TEXT    NOT NULL CHECK (json_valid(actor)),
    state      TEXT    NOT NULL CHECK (state IN ('wanted', 'done', 'refused')),
    note       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
INSERT INTO acts SELECT * FROM acts_before;
DROP TABLE acts_before;
CREATE INDEX acts_wanted ON acts (n) WHERE state = 'wanted';
