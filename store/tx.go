package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"nod"
)

// txn is one writing transaction, with the clock read once.
type txn struct {
	ctx   context.Context
	tx    *sql.Tx
	s     *Store
	now   time.Time
	after []func() // run once committed

	handed []nod.Decision // were closed, and are handed over before the commit is told of
}

// write runs fn in a transaction that holds the write lock from its first
// statement. What fn returns is returned; nothing is written unless that is nil.
func (s *Store) write(ctx context.Context, fn func(*txn) error) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return mapped(ctx, err)
	}
	t := &txn{ctx: ctx, tx: tx, s: s, now: moment(s.now())}
	if err := fn(t); err != nil {
		if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
			err = errors.Join(err, back)
		}
		return mapped(ctx, err)
	}
	if err := tx.Commit(); err != nil {
		return mapped(ctx, err)
	}
	for _, done := range t.after {
		done()
	}
	s.closings.hand(t.handed)
	s.commits.send()
	return nil
}

// committed calls fn once the transaction is durable. In-place results go
// through it, so that a failed change leaves its caller's values alone.
func (t *txn) committed(fn func()) { t.after = append(t.after, fn) }

func (t *txn) exec(query string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *txn) row(query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(t.ctx, query, args...)
}

// read runs fn in a read transaction: everything it sees is of one moment.
func (s *Store) read(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return mapped(ctx, err)
	}
	err = fn(tx)
	if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
		err = errors.Join(err, back)
	}
	return mapped(ctx, err)
}

// querier is what both a transaction and a pool can do.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// scanner is a row.
type scanner interface{ Scan(dest ...any) error }

// list reads every row of a query.
func list[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, one)
	}
	return all, errors.Join(rows.Err(), rows.Close())
}

// one reads the only row of a query; none is a NotFound error that says noun.
func one[T any](noun string, row scanner, scan func(scanner) (T, error)) (T, error) {
	v, err := scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		var none T
		return none, nod.E(nod.NotFound, "there is no such "+noun, nil)
	}
	return v, err
}

func closeAfter(err error, dbs ...*sql.DB) error {
	for _, db := range dbs {
		err = errors.Join(err, db.Close())
	}
	return err
}
