-- What the migrations make. Written by: go test ./store -update

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

CREATE INDEX acts_wanted ON acts (n) WHERE state = 'wanted';

CREATE TRIGGER audit_chain_is_kept BEFORE DELETE ON audit_chain
    BEGIN SELECT RAISE(ABORT, 'the audit chain is append-only'); END;

CREATE TRIGGER audit_chain_never_changes BEFORE UPDATE ON audit_chain
    BEGIN SELECT RAISE(ABORT, 'the audit chain is append-only'); END;

CREATE TABLE audit_chain (
    event    INTEGER PRIMARY KEY REFERENCES events (id),
    previous TEXT    NOT NULL,
    hash     TEXT    NOT NULL UNIQUE CHECK (length(hash) = 64)
) STRICT;

CREATE TABLE blobs (
    n          INTEGER PRIMARY KEY,
    digest     TEXT    NOT NULL UNIQUE CHECK (length(digest) = 64),
    bytes      BLOB    NOT NULL,
    -- 1: a secret was taken out, so that digest is of the original and not of bytes
    redacted   INTEGER NOT NULL CHECK (redacted IN (0, 1)),
    created_at INTEGER NOT NULL
) STRICT;

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

CREATE TABLE decisions (
    n               INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    version         INTEGER NOT NULL CHECK (version > 0),
    task            TEXT    NOT NULL REFERENCES tasks (id),
    run             TEXT,
    kind            TEXT    NOT NULL CHECK (kind IN ('question', 'approval', 'review')),
    cause           TEXT    NOT NULL,
    blocking        INTEGER NOT NULL CHECK (blocking IN (0, 1)),
    subject         TEXT    NOT NULL,
    input           TEXT    NOT NULL,
    input_truncated INTEGER NOT NULL CHECK (input_truncated IN (0, 1)),
    input_digest    TEXT    REFERENCES blobs (digest),
    commit_sha      TEXT    NOT NULL,
    options         TEXT    NOT NULL CHECK (json_valid(options)),
    free_text       INTEGER NOT NULL CHECK (free_text IN (0, 1)),
    deadline        INTEGER,
    state           TEXT    NOT NULL CHECK (state IN ('open', 'answered', 'expired', 'superseded')),
    answer          TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    answered_by     TEXT    NOT NULL CHECK (json_valid(answered_by)),
    answered_at     INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL, approvals INTEGER NOT NULL DEFAULT 1 CHECK (approvals BETWEEN 1 AND 9), approved_by TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(approved_by)),
    FOREIGN KEY (run, task) REFERENCES runs (id, task),
    CHECK (kind <> 'approval' OR deadline IS NOT NULL),
    CHECK (kind <> 'review' OR commit_sha <> ''),
    CHECK (kind = 'review' OR input_digest IS NOT NULL),
    CHECK ((state = 'answered') = (answer <> '')),
    CHECK ((state = 'answered') = (answered_at IS NOT NULL))
) STRICT;

CREATE INDEX decisions_deadline ON decisions (deadline) WHERE state = 'open';

CREATE INDEX decisions_open ON decisions (run) WHERE state = 'open';

CREATE INDEX decisions_task ON decisions (task, n);

CREATE TABLE deliveries (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    guid         TEXT    NOT NULL UNIQUE CHECK (guid <> ''),
    semantic_key TEXT    NOT NULL,
    duplicate    INTEGER NOT NULL CHECK (duplicate IN (0, 1)),
    event        TEXT    NOT NULL CHECK (event <> ''),
    action       TEXT    NOT NULL,
    ord          TEXT    NOT NULL,
    payload      BLOB    NOT NULL,
    received_at  INTEGER NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'leased', 'done', 'ignored', 'dead')),
    attempt      INTEGER NOT NULL CHECK (attempt >= 0),
    lease_until  INTEGER,
    not_before   INTEGER,
    note         TEXT    NOT NULL,
    CHECK ((state = 'leased') = (lease_until IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX deliveries_semantic_key ON deliveries (semantic_key) WHERE semantic_key <> '' AND duplicate = 0;

CREATE INDEX deliveries_state ON deliveries (state);

CREATE INDEX deliveries_unfinished ON deliveries (ord, id) WHERE state IN ('pending', 'leased');

CREATE TABLE effects (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    version    INTEGER NOT NULL CHECK (version > 0),
    key        TEXT    NOT NULL UNIQUE CHECK (key <> ''),
    task       TEXT    REFERENCES tasks (id),
    repo       TEXT    NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind <> ''),
    intent     TEXT    NOT NULL CHECK (json_valid(intent)),
    state      TEXT    NOT NULL CHECK (state IN ('intended', 'done', 'refused', 'unknown', 'abandoned')),
    attempt    INTEGER NOT NULL CHECK (attempt >= 0),
    not_before INTEGER,
    outcome    TEXT    CHECK (outcome IS NULL OR json_valid(outcome)),
    error      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX effects_intended ON effects (repo, task, id) WHERE state = 'intended';

CREATE INDEX effects_task ON effects (task, id);

CREATE TABLE enrolments (
    token_digest TEXT    NOT NULL PRIMARY KEY CHECK (token_digest <> ''),
    name         TEXT    NOT NULL,
    expires_at   INTEGER NOT NULL
, repos TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(repos))) STRICT;

CREATE TABLE environments (
    n           INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    version     INTEGER NOT NULL CHECK (version > 0),
    task        TEXT    NOT NULL REFERENCES tasks (id),
    driver      TEXT    NOT NULL,
    base_sha    TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('provisioning', 'stopped', 'running', 'deleted')),
    attestation TEXT    NOT NULL CHECK (json_valid(attestation)),
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (id, task)
) STRICT;

CREATE INDEX environments_task ON environments (task, n);

CREATE TRIGGER events_are_kept BEFORE DELETE ON events
    WHEN OLD.tier <> 'transcript' OR NOT EXISTS (SELECT 1 FROM purging WHERE stream = OLD.stream)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TABLE events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    stream     TEXT    NOT NULL REFERENCES streams (stream),
    seq        INTEGER NOT NULL CHECK (seq > 0),
    tier       TEXT    NOT NULL CHECK (tier IN ('audit', 'transcript')),
    kind       TEXT    NOT NULL CHECK (kind <> ''),
    actor      TEXT    NOT NULL CHECK (json_valid(actor)),
    at         INTEGER NOT NULL,
    data       TEXT    NOT NULL CHECK (json_valid(data)),
    commit_sha TEXT    NOT NULL,
    UNIQUE (stream, seq)
) STRICT;

CREATE INDEX events_audit ON events (id) WHERE tier = 'audit';

CREATE INDEX events_commit ON events (commit_sha) WHERE commit_sha <> '';

CREATE INDEX events_stream ON events (stream, id);

CREATE INDEX events_usage ON events (stream, id) WHERE kind = 'usage';

CREATE INDEX events_used ON events (at) WHERE kind = 'usage';

CREATE TABLE marks (
    name       TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
    mark       TEXT    NOT NULL CHECK (mark <> ''),
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE passkeys (
    id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    name            TEXT    NOT NULL,
    user_handle     BLOB    NOT NULL,
    public_key      BLOB    NOT NULL,
    sign_count      INTEGER NOT NULL,
    backup_eligible INTEGER NOT NULL CHECK (backup_eligible IN (0, 1)),
    backed_up       INTEGER NOT NULL CHECK (backed_up IN (0, 1)),
    aaguid          BLOB,
    created_at      INTEGER NOT NULL,
    revoked_at      INTEGER
, repos TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(repos))) STRICT;

CREATE TABLE purging (
    stream TEXT NOT NULL PRIMARY KEY
) STRICT;

CREATE TABLE revisions (
    n            INTEGER PRIMARY KEY,
    sha          TEXT    NOT NULL CHECK (sha <> ''),
    version      INTEGER NOT NULL CHECK (version > 0),
    task         TEXT    NOT NULL REFERENCES tasks (id),
    run          TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('prepared', 'approved', 'pushed', 'published', 'refused', 'superseded')),
    base_ref     TEXT    NOT NULL,
    base_sha     TEXT    NOT NULL,
    branch       TEXT    NOT NULL,
    tree         TEXT    NOT NULL,
    commits      TEXT    NOT NULL CHECK (json_valid(commits)),
    files        TEXT    NOT NULL CHECK (json_valid(files)),
    diff_digest  TEXT    NOT NULL,
    receipt      TEXT    NOT NULL CHECK (json_valid(receipt)),
    pull_request TEXT    NOT NULL CHECK (json_valid(pull_request)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (task, sha),
    FOREIGN KEY (run, task) REFERENCES runs (id, task)
) STRICT;

CREATE TABLE runs (
    n           INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    version     INTEGER NOT NULL CHECK (version > 0),
    task        TEXT    NOT NULL REFERENCES tasks (id),
    number      INTEGER NOT NULL CHECK (number > 0),
    environment TEXT,
    agent       TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('starting', 'running', 'paused', 'interrupted', 'stopped', 'failed')),
    cooperative INTEGER NOT NULL CHECK (cooperative IN (0, 1)),
    session     TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    prompt      TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (task, number),
    UNIQUE (id, task),
    FOREIGN KEY (environment, task) REFERENCES environments (id, task)
) STRICT;

CREATE UNIQUE INDEX runs_one_per_environment ON runs (environment)
    WHERE environment IS NOT NULL AND state IN ('starting', 'running', 'paused', 'interrupted');

CREATE UNIQUE INDEX runs_one_per_task ON runs (task)
    WHERE state IN ('starting', 'running', 'paused', 'interrupted');

CREATE TABLE schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    sha256     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    token_digest TEXT    NOT NULL PRIMARY KEY CHECK (token_digest <> ''),
    passkey      TEXT    NOT NULL REFERENCES passkeys (id),
    device       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    seen_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
, idle_ms INTEGER NOT NULL DEFAULT 900000 CHECK (idle_ms > 0)) STRICT;

CREATE TABLE sights (
    decision TEXT    NOT NULL REFERENCES decisions (id),
    passkey  TEXT    NOT NULL REFERENCES passkeys (id),
    at       INTEGER NOT NULL,
    PRIMARY KEY (decision, passkey)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER streams_are_kept BEFORE DELETE ON streams
    BEGIN SELECT RAISE(ABORT, 'a sequence number is never reused'); END;

CREATE TRIGGER streams_never_go_back BEFORE UPDATE ON streams
    WHEN NEW.last_seq <= OLD.last_seq OR NEW.stream <> OLD.stream
    BEGIN SELECT RAISE(ABORT, 'a sequence number is never reused'); END;

CREATE TABLE streams (
    stream   TEXT    NOT NULL PRIMARY KEY CHECK (stream <> ''),
    last_seq INTEGER NOT NULL CHECK (last_seq > 0)
) STRICT;

CREATE TABLE taps (
    token_digest TEXT    NOT NULL PRIMARY KEY CHECK (token_digest <> ''),
    expires_at   INTEGER NOT NULL,
    tapped_at    INTEGER
) STRICT;

CREATE TABLE tasks (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
    version      INTEGER NOT NULL CHECK (version > 0),
    repo_key     TEXT    NOT NULL CHECK (repo_key <> ''),
    host         TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    installation INTEGER NOT NULL,
    issue        INTEGER NOT NULL,
    title        TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'awaiting_guidance', 'ready_for_review',
                                                   'completed', 'failed', 'cancelled')),
    agent        TEXT    NOT NULL,
    requested_by TEXT    NOT NULL CHECK (json_valid(requested_by)),
    untrusted    INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
    input_digest TEXT    NOT NULL,
    base_ref     TEXT    NOT NULL,
    branch       TEXT    NOT NULL,
    approved     INTEGER NOT NULL CHECK (approved IN (0, 1)),
    briefing     TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    comment_id   INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
, rework TEXT NOT NULL DEFAULT '', label_event INTEGER NOT NULL DEFAULT 0, asked_at INTEGER, terms TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX tasks_issue ON tasks (repo_key, issue, n);

CREATE UNIQUE INDEX tasks_one_under_way ON tasks (repo_key, issue)
    WHERE state IN ('queued', 'running', 'awaiting_guidance');

CREATE INDEX tasks_state ON tasks (state);
