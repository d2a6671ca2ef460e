package store

import (
	"context"
	"time"

	"nod"
)

// sessionQuery reads the sessions that hold at ?1, with what their passkeys cover.
const sessionQuery = `SELECT s.token_digest, s.passkey, s.device, s.created_at, s.seen_at, s.expires_at, s.idle_ms, p.repos
	FROM sessions AS s JOIN passkeys AS p ON p.id = s.passkey
	WHERE s.expires_at > ?1 AND s.seen_at + s.idle_ms > ?1 AND p.revoked_at IS NULL`

func scanSession(r scanner) (v nod.Session, err error) {
	var idle int64
	err = r.Scan(&v.TokenDigest, &v.Passkey, &v.Device, toTime{&v.CreatedAt}, toTime{&v.SeenAt}, toTime{&v.ExpiresAt}, &idle, toJSON{&v.Repos})
	v.Idle = time.Duration(idle) * time.Millisecond
	return v, err
}

// SignIn consumes the challenge, stores the passkey's new counter and opens the
// session, in one transaction. A challenge that was used or has expired is
// Unauthenticated. A revoked passkey, and a counter that went backwards (WebAuthn
// level 3, section 7.2, step 22), are Forbidden; the challenge is gone then too.
func (s *Store) SignIn(ctx context.Context, challenge string, signCount uint32, backedUp bool, v nod.Session) error {
	if v.TokenDigest == "" || v.Passkey == "" || v.ExpiresAt.IsZero() || v.Idle < time.Millisecond {
		return invalid("a session has no token, no passkey or no end")
	}
	v.Device = s.redact.text(v.Device)
	var no *nod.Error
	err := s.write(ctx, func(t *txn) error {
		if err := t.sweep(); err != nil {
			return err
		}
		c, err := t.consume(challenge)
		if err != nil {
			return err
		}
		if c == nil || c.Kind != nod.ChallengeSignIn || !t.now.Before(c.ExpiresAt) {
			no = nod.E(nod.Unauthenticated, "the challenge was used already or has expired", nil)
			return nil
		}
		p, err := scanPasskey(t.row(`SELECT `+passkeyColumns+` FROM passkeys WHERE id = ? AND revoked_at IS NULL`, v.Passkey))
		switch {
		case isNone(err):
			no = nod.E(nod.Forbidden, "this passkey is not enrolled or was revoked", nil)
			return nil
		case err != nil:
			return err
		case !advances(p.SignCount, signCount):
			no = nod.E(nod.Forbidden, "the passkey's counter went backwards: it may have been copied", nil)
			return nil
		}
		if _, err := t.exec(`UPDATE passkeys SET sign_count = ?, backed_up = ? WHERE id = ?`, signCount, backedUp, p.ID); err != nil {
			return err
		}
		_, err = t.exec(`INSERT INTO sessions (token_digest, passkey, device, created_at, seen_at, expires_at, idle_ms) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			v.TokenDigest, v.Passkey, v.Device, t.now.UnixMilli(), t.now.UnixMilli(), millis(v.ExpiresAt), v.Idle.Milliseconds())
		return err
	})
	if err != nil {
		return err
	}
	if no != nil {
		s.log.Warn("sign-in refused", "passkey", v.Passkey, "err", no)
		return no
	}
	return nil
}

// Session returns a session that is neither over nor idle for too long and whose
// passkey is not revoked, and stores that it was seen now; NotFound otherwise.
func (s *Store) Session(ctx context.Context, tokenDigest string) (nod.Session, error) {
	var v nod.Session
	err := s.write(ctx, func(t *txn) error {
		var err error
		if v, err = one("session", t.row(sessionQuery+` AND s.token_digest = ?2`, t.now.UnixMilli(), tokenDigest), scanSession); err != nil {
			return err
		}
		v.SeenAt = t.now
		_, err = t.exec(`UPDATE sessions SET seen_at = ? WHERE token_digest = ?`, t.now.UnixMilli(), tokenDigest)
		return err
	})
	if err != nil {
		return nod.Session{}, err
	}
	return v, nil
}

// Peek is Session, but leaves when it was seen as it is: an open page that nobody
// touches keeps no session alive.
func (s *Store) Peek(ctx context.Context, tokenDigest string) (nod.Session, error) {
	v, err := one("session", s.readers.QueryRowContext(ctx, sessionQuery+` AND s.token_digest = ?2`, moment(s.now()).UnixMilli(), tokenDigest), scanSession)
	return v, mapped(ctx, err)
}

// Sessions returns every session that Session would, most recently seen first,
// and leaves when they were seen as it is.
func (s *Store) Sessions(ctx context.Context) ([]nod.Session, error) {
	open, err := list(ctx, s.readers, scanSession, sessionQuery+` ORDER BY s.seen_at DESC, s.token_digest`, moment(s.now()).UnixMilli())
	return open, mapped(ctx, err)
}

// SignOut ends a session. Ending one that is not there is no error.
func (s *Store) SignOut(ctx context.Context, tokenDigest string) error {
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`DELETE FROM sessions WHERE token_digest = ?`, tokenDigest)
		return err
	})
}
