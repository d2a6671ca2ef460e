// Package store keeps every fact that must survive a crash, in one SQLite file.
//
// It owns the tables, the transactions and what must hold at the end of each:
// compare-and-swap of every aggregate, the transition tables, how tasks, runs,
// decisions and revisions are coupled, the audit events of every state change
// and their hash chain, and the redaction of secrets before anything is written.
//
// It must never talk to anything but its file, never change or delete an audit
// event, and never answer a decision on anybody's behalf.
package store

import (
	"context"
	"database/sql"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"nod"
	"nod/migrations"
)

// Config says where the store is and what it works with.
type Config struct {
	// Path of the database file; required. It is made with mode 0600 when it is
	// not there; the directory must exist. SQLite keeps Path-wal and Path-shm
	// beside it.
	Path string
	// Now is the clock of every stored time and deadline; time.Now when nil.
	Now func() time.Time
	// Log gets one line per refused answer and migration; discarded when nil.
	Log *slog.Logger
	// Secrets are taken out of everything that is written, in raw, JSON-, URL-
	// and base64-escaped form. Empty ones are ignored; one shorter than
	// MinSecret bytes is Invalid, because it could not be told from other text.
	// Known token formats are taken out whatever is listed here.
	Secrets []nod.Secret
	// VerifyAssertion checks the signature of a passkey answer: that a was made
	// by the key it names over exactly this answer to this decision. It is asked
	// before an answer is recorded and again by VerifyChain. When nil, signatures
	// are not checked here and VerifyChain counts none.
	VerifyAssertion Verify
	// VerifyAct is the same for acts.
	VerifyAct VerifyAct
	// Beside is how often to look whether another process committed something,
	// such as an answer given on the host's command line, so that it wakes Wait as
	// the store's own commits do. Zero means never.
	Beside time.Duration
}

// Store is the open database. It is safe for concurrent use. A second process
// may have the file open too; see Config.Beside.
type Store struct {
	path      string
	now       func() time.Time
	log       *slog.Logger
	redact    *redactor
	verify    Verify
	verifyAct VerifyAct
	writer    *sql.DB // one connection; transactions begin as writers
	readers   *sql.DB // query_only
	commits   broadcast
	others    broadcast // commits of other processes
	closings  closings
	accepts   accepts
	end       context.CancelFunc
	beside    sync.WaitGroup
}

const readConnections = 4

// Open opens or makes the database and brings its schema up to date. A file of a
// newer nod, or one whose applied migrations are not the ones in this program, is
// refused.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, nod.E(nod.Invalid, "the store has no path", nil)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	redact, err := newRedactor(cfg.Secrets)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, nod.E(nod.Invalid, "the store's path cannot be resolved", err)
	}
	if err := touch(path); err != nil {
		return nil, nod.E(nod.Unavailable, "the database file cannot be opened", err)
	}
	s := &Store{path: path, now: cfg.Now, log: cfg.Log, redact: redact, verify: cfg.VerifyAssertion, verifyAct: cfg.VerifyAct}
	if s.writer, err = sql.Open("sqlite", dsn(path, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "recursive_triggers(1)")+"&_txlock=immediate"); err != nil {
		return nil, nod.E(nod.Internal, "the database driver refused its settings", err)
	}
	s.writer.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", dsn(path, "query_only(1)")); err != nil {
		return nil, nod.E(nod.Internal, "the database driver refused its settings", closeAfter(err, s.writer))
	}
	s.readers.SetMaxOpenConns(readConnections)
	s.readers.SetMaxIdleConns(readConnections)
	if err := migrate(ctx, s.writer, migrations.Files, s.now, s.log); err != nil {
		return nil, closeAfter(err, s.writer, s.readers)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	if cfg.Beside > 0 {
		s.beside.Go(func() { s.lookBeside(life, cfg.Beside) })
	}
	return s, nil
}

// Close wakes every Wait and Closed, which then fail, and closes the database.
func (s *Store) Close() error {
	s.end()
	s.beside.Wait()
	err := closeAfter(nil, s.readers, s.writer)
	s.commits.send()
	s.others.send()
	if err != nil {
		return nod.E(nod.Internal, "the database was not closed in order", err)
	}
	return nil
}

// touch makes the file with a mode that SQLite then gives to its companions too.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn names the file. SQLite is not fair between processes: one that waits may lose
// to one that writes without a break again and again, hence the long wait.
func dsn(path string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{"busy_timeout(30000)"}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}
