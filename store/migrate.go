package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"time"

	"nod"
)

const schemaTable = `CREATE TABLE IF NOT EXISTS schema_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    sha256     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT`

type migration struct {
	version int
	name    string
	sum     string
	sql     string
}

var migrationName = regexp.MustCompile(`^([0-9]{4})_[a-z]+(_[a-z0-9]+)+\.sql$`)

// load reads the migrations, which must be numbered 1, 2, … without a gap.
func load(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, nod.E(nod.Internal, "the migrations cannot be listed", err)
	}
	slices.Sort(names)
	var all []migration
	for i, name := range names {
		match := migrationName.FindStringSubmatch(name)
		if match == nil || match[1] != fmt.Sprintf("%04d", i+1) {
			return nil, nod.E(nod.Internal, "migration "+strconv.Quote(name)+" is not number "+strconv.Itoa(i+1), nil)
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, nod.E(nod.Internal, "migration "+name+" cannot be read", err)
		}
		sum := sha256.Sum256(raw)
		all = append(all, migration{i + 1, name, hex.EncodeToString(sum[:]), string(raw)})
	}
	return all, nil
}

// migrate compares what was applied with files and applies the rest, each in a
// transaction of its own together with its record.
func migrate(ctx context.Context, db *sql.DB, files fs.FS, now func() time.Time, log *slog.Logger) error {
	known, err := load(files)
	if err != nil {
		return err
	}
	// Most openings find nothing to do: they need not wait for the write lock, which a
	// busy process may hold again and again.
	have, err := applied(ctx, db)
	if err == nil {
		err = same(have, known)
	}
	if err != nil || len(have) == len(known) {
		return mapped(ctx, err)
	}
	for {
		done, name, err := step(ctx, db, known, now)
		if err != nil {
			return mapped(ctx, err)
		}
		if done {
			return nil
		}
		log.Info("migration applied", "migration", name)
	}
}

// step applies the first migration that is missing. It looks and acts under one
// write lock, so that two processes that start at once apply each file once.
func step(ctx context.Context, db *sql.DB, known []migration, now func() time.Time) (done bool, name string, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, "", err
	}
	defer func() {
		if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
			err = errors.Join(err, back)
		}
	}()
	have, err := applied(ctx, tx)
	if err == nil {
		err = same(have, known)
	}
	if err != nil || len(have) == len(known) {
		return true, "", err
	}
	if _, err := tx.ExecContext(ctx, schemaTable); err != nil {
		return false, "", err
	}
	next := known[len(have)]
	if _, err := tx.ExecContext(ctx, next.sql); err != nil {
		return false, "", nod.E(nod.Internal, "migration "+next.name+" does not apply", err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, sha256, applied_at) VALUES (?, ?, ?, ?)`,
		next.version, next.name, next.sum, now().UnixMilli()); err != nil {
		return false, "", err
	}
	return false, next.name, tx.Commit()
}

// applied reads which migrations the database has. One that somebody else's program
// made is refused.
func applied(ctx context.Context, q querier) ([]migration, error) {
	var tables, mine int
	err := q.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE name = 'schema_migrations') FROM sqlite_schema WHERE type = 'table'`).Scan(&tables, &mine)
	switch {
	case err != nil:
		return nil, err
	case tables > 0 && mine == 0:
		return nil, &nod.Error{Code: nod.Invalid, Msg: "the database file is not nod's", Hint: "choose another path for it"}
	case mine == 0:
		return nil, nil
	}
	return list(ctx, q, func(r scanner) (m migration, err error) {
		err = r.Scan(&m.version, &m.name, &m.sum)
		return m, err
	}, `SELECT version, name, sha256 FROM schema_migrations ORDER BY version`)
}

// same refuses what was not written by exactly these migrations.
func same(applied, known []migration) error {
	for i, a := range applied {
		switch {
		case i >= len(known):
			return &nod.Error{Code: nod.Unsupported, Msg: "the database was written by a newer nod: it has migration " + a.name,
				Hint: "start that version, or restore the copy made before the upgrade"}
		case a.version != known[i].version || a.name != known[i].name || a.sum != known[i].sum:
			return &nod.Error{Code: nod.Unsupported, Msg: "migration " + known[i].name + " is not the one that the database was made with",
				Hint: "start the version of nod that made it; a released migration is never edited"}
		}
	}
	return nil
}
