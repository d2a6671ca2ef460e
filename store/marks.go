package store

import (
	"context"
	"database/sql"
	"errors"
)

// Mark returns how far the poller called name has come, "" when it never looked.
func (s *Store) Mark(ctx context.Context, name string) (mark string, err error) {
	err = s.readers.QueryRowContext(ctx, `SELECT mark FROM marks WHERE name = ?`, name).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return mark, mapped(ctx, err)
}

// SetMark keeps how far the poller called name has come, durably.
func (s *Store) SetMark(ctx context.Context, name, mark string) error {
	if name == "" || mark == "" {
		return invalid("a mark has a name and says something")
	}
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`INSERT INTO marks (name, mark, updated_at) VALUES (?1, ?2, ?3)
			ON CONFLICT (name) DO UPDATE SET mark = ?2, updated_at = ?3 WHERE mark <> ?2`, name, mark, t.now.UnixMilli())
		return err
	})
}
