package store

import (
	"context"
	"time"

	"nod"
)

// CreateTap lets one test push be tapped until expires.
func (s *Store) CreateTap(ctx context.Context, tokenDigest string, expires time.Time) error {
	if tokenDigest == "" || expires.IsZero() {
		return invalid("a test push has no token or no end")
	}
	return s.write(ctx, func(t *txn) error {
		if err := t.sweep(); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO taps (token_digest, expires_at) VALUES (?, ?)`, tokenDigest, millis(expires))
		return err
	})
}

// Tappable reports whether a test push waits to be tapped, or was already: NotFound
// when there is none.
func (s *Store) Tappable(ctx context.Context, tokenDigest string) (tapped bool, err error) {
	tapped, err = one("test push", s.readers.QueryRowContext(ctx, `SELECT tapped_at IS NOT NULL FROM taps WHERE token_digest = ? AND expires_at > ?`,
		tokenDigest, moment(s.now()).UnixMilli()), func(r scanner) (yes bool, err error) {
		err = r.Scan(&yes)
		return yes, err
	})
	return tapped, mapped(ctx, err)
}

// Tap records that a test push was tapped. Once more is no error; one that is not
// there is NotFound.
func (s *Store) Tap(ctx context.Context, tokenDigest string) error {
	return s.write(ctx, func(t *txn) error {
		n, err := t.exec(`UPDATE taps SET tapped_at = coalesce(tapped_at, ?1) WHERE token_digest = ?2 AND expires_at > ?1`, t.now.UnixMilli(), tokenDigest)
		if err == nil && n == 0 {
			err = nod.E(nod.NotFound, "there is no such test push", nil)
		}
		return err
	})
}
