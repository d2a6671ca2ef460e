package store

import (
	"context"
	"time"

	"nod"
)

const passkeyColumns = `id, name, user_handle, public_key, sign_count, backup_eligible, backed_up, aaguid, created_at, revoked_at, repos`

func scanPasskey(r scanner) (p nod.Passkey, err error) {
	err = r.Scan(&p.ID, &p.Name, &p.UserHandle, &p.PublicKey, &p.SignCount, &p.BackupEligible, &p.BackedUp, &p.AAGUID,
		toTime{&p.CreatedAt}, toTime{&p.RevokedAt}, toJSON{&p.Repos})
	return p, err
}

// Passkeys returns every passkey that is not revoked, oldest first.
func (s *Store) Passkeys(ctx context.Context) ([]nod.Passkey, error) {
	keys, err := list(ctx, s.readers, scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys WHERE revoked_at IS NULL ORDER BY created_at, id`)
	return keys, mapped(ctx, err)
}

// CreateEnrolment allows one passkey to be enrolled until e expires. Only the
// host does that.
func (s *Store) CreateEnrolment(ctx context.Context, e nod.Enrolment) error {
	e.Name = s.redact.text(e.Name)
	if e.TokenDigest == "" || e.ExpiresAt.IsZero() {
		return invalid("an enrolment has no token or no end")
	}
	repos, err := asJSON(e.Repos)
	if err != nil {
		return err
	}
	return s.write(ctx, func(t *txn) error {
		if err := t.sweep(); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO enrolments (`+enrolmentColumns+`) VALUES (?, ?, ?, ?)`, e.TokenDigest, e.Name, millis(e.ExpiresAt), repos)
		return err
	})
}

const enrolmentColumns = `token_digest, name, expires_at, repos`

func scanEnrolment(r scanner) (e nod.Enrolment, err error) {
	err = r.Scan(&e.TokenDigest, &e.Name, toTime{&e.ExpiresAt}, toJSON{&e.Repos})
	return e, err
}

// Enrolment returns an unexpired, unused enrolment, or NotFound.
func (s *Store) Enrolment(ctx context.Context, tokenDigest string) (nod.Enrolment, error) {
	e, err := one("enrolment", s.readers.QueryRowContext(ctx, `SELECT `+enrolmentColumns+` FROM enrolments WHERE token_digest = ? AND expires_at > ?`,
		tokenDigest, moment(s.now()).UnixMilli()), scanEnrolment)
	return e, mapped(ctx, err)
}

// Enrol consumes the challenge and its enrolment and stores the passkey, with its
// audit event, in one transaction. The passkey gets the enrolment's repositories,
// and its name when it has none. A challenge or enrolment that is used or expired is Unauthenticated;
// a credential that is known, revoked ones included, is a Conflict.
func (s *Store) Enrol(ctx context.Context, challenge string, p nod.Passkey) error {
	if p.ID == "" || len(p.PublicKey) == 0 {
		return invalid("a passkey has no id or no public key")
	}
	return s.write(ctx, func(t *txn) error {
		c, err := t.consume(challenge)
		if err != nil {
			return err
		}
		if c == nil || c.Kind != nod.ChallengeEnrol || !t.now.Before(c.ExpiresAt) {
			return nod.E(nod.Unauthenticated, "the challenge was used already or has expired", nil)
		}
		e, err := scanEnrolment(t.row(`DELETE FROM enrolments WHERE token_digest = ? AND expires_at > ? RETURNING `+enrolmentColumns,
			c.Enrolment, t.now.UnixMilli()))
		if isNone(err) {
			return nod.E(nod.Unauthenticated, "the link was used already or has expired", nil)
		}
		if err != nil {
			return err
		}
		if p.Name = s.redact.text(p.Name); p.Name == "" {
			p.Name = e.Name
		}
		p.CreatedAt, p.RevokedAt, p.Repos = t.now, time.Time{}, e.Repos
		repos, err := asJSON(p.Repos)
		if err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO passkeys (`+passkeyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?)`,
			p.ID, p.Name, append([]byte{}, p.UserHandle...), p.PublicKey, p.SignCount, p.BackupEligible, p.BackedUp, p.AAGUID, p.CreatedAt.UnixMilli(), repos); err != nil {
			return err
		}
		return t.audit(nod.SupervisorStream, nod.EventPasskeyEnrolled, nod.Actor{Kind: nod.ActorHost}, "", p)
	})
}

// RevokePasskey ends a passkey and its sessions at once. Only the host may; one
// that was revoked before is left as it is.
func (s *Store) RevokePasskey(ctx context.Context, id string, by nod.Actor) error {
	if by.Kind != nod.ActorHost {
		return nod.E(nod.Forbidden, "passkeys are revoked from the host only", nil)
	}
	return s.write(ctx, func(t *txn) error {
		p, err := one("passkey", t.row(`SELECT `+passkeyColumns+` FROM passkeys WHERE id = ?`, id), scanPasskey)
		if err != nil || !p.RevokedAt.IsZero() {
			return err
		}
		p.RevokedAt = t.now
		if _, err := t.exec(`UPDATE passkeys SET revoked_at = ? WHERE id = ?`, p.RevokedAt.UnixMilli(), id); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM sessions WHERE passkey = ?`, id); err != nil {
			return err
		}
		return t.audit(nod.SupervisorStream, nod.EventPasskeyRevoked, by, "", p)
	})
}
