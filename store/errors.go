package store

import (
	"context"
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"nod"
)

// mapped gives an error of the database a code. Errors of nod stay as they are.
func mapped(ctx context.Context, err error) error {
	var known *nod.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if ctx.Err() != nil {
		return nod.E(nod.Unavailable, "the store was interrupted", errors.Join(ctx.Err(), err))
	}
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return nod.E(nod.Internal, "the store failed", err)
	}
	switch code := se.Code(); {
	case code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return nod.E(nod.Conflict, "the change doubles something that may exist only once", err)
	case code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return nod.E(nod.Invalid, "the change refers to something that is not stored", err)
	case code&0xff == sqlite3.SQLITE_CONSTRAINT:
		return nod.E(nod.Invalid, "the change breaks a rule of the schema", err)
	case code&0xff == sqlite3.SQLITE_BUSY || code&0xff == sqlite3.SQLITE_LOCKED:
		return nod.E(nod.Unavailable, "the database is busy", err)
	case code&0xff == sqlite3.SQLITE_FULL:
		return &nod.Error{Code: nod.Unavailable, Msg: "the disk of the database is full", Hint: "free some space; nothing was lost", Err: err}
	}
	return nod.E(nod.Internal, "the store failed", err)
}

func isNone(err error) bool { return errors.Is(err, sql.ErrNoRows) }

func conflict(msg string) error { return nod.E(nod.Conflict, msg, nil) }
func invalid(msg string) error  { return nod.E(nod.Invalid, msg, nil) }
