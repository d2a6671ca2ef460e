package store

import (
	"bytes"
	"context"

	"nod"
)

// HoldsSecret reports whether text holds a registered secret or what looks like one,
// which would be kept as "[redacted]".
func (s *Store) HoldsSecret(text string) bool { return s.redact.text(text) != text }

// putBlobs keeps blobs under the digests of what the caller has, and their text
// without secrets. The same digest twice is one blob.
func (t *txn) putBlobs(blobs [][]byte) error {
	for _, b := range blobs {
		if err := t.putBlob(nod.Digest(b), b); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) putBlob(digest string, b []byte) error {
	clean := t.s.redact.json(b)
	_, err := t.exec(`INSERT INTO blobs (digest, bytes, redacted, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING`,
		digest, append([]byte{}, clean...), !bytes.Equal(clean, b), t.now.UnixMilli())
	return err
}

// blob returns what is kept under digest; found is false when nothing is.
func (t *txn) blob(digest string) (b []byte, found bool, err error) {
	err = t.row(`SELECT bytes FROM blobs WHERE digest = ?`, digest).Scan(&b)
	if isNone(err) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// Blob returns the bytes kept under digest, or NotFound. Where a secret was taken
// out they hold "[redacted]" in its place, and the digest is that of the original.
func (s *Store) Blob(ctx context.Context, digest string) ([]byte, error) {
	b, err := one("blob", s.readers.QueryRowContext(ctx, `SELECT bytes FROM blobs WHERE digest = ?`, digest),
		func(r scanner) (b []byte, err error) {
			err = r.Scan(&b)
			return b, err
		})
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, mapped(ctx, err)
}
