package store

import (
	"context"

	"nod"
)

const sessionColumns = `token_digest, passkey, device, created_at, seen_at, expires_at`

func scanSession(r scanner) (v nod.Session, err error) {
	err = r.Scan(&v.TokenDigest, &v.Passkey, &v.Device, toTime{&v.CreatedAt}, toTime{&v.SeenAt}, toTime{&v.ExpiresAt})
	return v, err
}

// SignIn consumes the challenge, stores the passkey's new counter and opens the
// session, in one transaction. A challenge that was used or has expired is
// Unauthenticated. A revoked passkey, and a counter that went backwards (WebAuthn
// level 3, section 7.2, step 22), are Forbidden; the challenge is gone then too.
func (s *Store) SignIn(ctx context.Context, challenge string, signCount uint32, backedUp bool, v nod.Session) error {
	if v.TokenDigest == "" || v.Passkey == "" || v.ExpiresAt.IsZero() {
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
		_, err = t.exec(`INSERT INTO sessions (`+sessionColumns+`) VALUES (?, ?, ?, ?, ?, ?)`,
			v.TokenDigest, v.Passkey, v.Device, t.now.UnixMilli(), t.now.UnixMilli(), millis(v.ExpiresAt))
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

// Session returns an unexpired session of a passkey that is not revoked, and
// stores that it was seen now; NotFound otherwise.
func (s *Store) Session(ctx context.Context, tokenDigest string) (nod.Session, error) {
	var v nod.Session
	err := s.write(ctx, func(t *txn) error {
		var err error
		v, err = one("session", t.row(`UPDATE sessions SET seen_at = ?1 WHERE token_digest = ?2 AND expires_at > ?1
			AND passkey IN (SELECT id FROM passkeys WHERE revoked_at IS NULL) RETURNING `+sessionColumns, t.now.UnixMilli(), tokenDigest), scanSession)
		return err
	})
	if err != nil {
		return nod.Session{}, err
	}
	return v, nil
}

// SignOut ends a session. Ending one that is not there is no error.
func (s *Store) SignOut(ctx context.Context, tokenDigest string) error {
	return s.write(ctx, func(t *txn) error {
		_, err := t.exec(`DELETE FROM sessions WHERE token_digest = ?`, tokenDigest)
		return err
	})
}
