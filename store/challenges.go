package store

import (
	"context"

	"nod"
)

// minChallenge is how many bytes WebAuthn asks a challenge to have at least
// (level 3, section 13.4.3).
const minChallenge = 16

const challengeColumns = `id, kind, bytes, nonce, decision, task, answer, reason, enrolment, data, expires_at`

func scanChallenge(r scanner) (c nod.Challenge, err error) {
	err = r.Scan(&c.ID, &c.Kind, &c.Bytes, &c.Nonce, &c.Decision, &c.Task, &c.Answer, &c.Reason, &c.Enrolment, &c.Data, toTime{&c.ExpiresAt})
	return c, err
}

// SaveChallenge keeps a challenge until it is consumed or expires. One for an
// answer lives nod.ChallengeLife at most. An answer whose words hold a secret is
// Invalid: it would have to be signed and kept as it is.
func (s *Store) SaveChallenge(ctx context.Context, c nod.Challenge) error {
	switch {
	case c.ID == "" || len(c.Bytes) < minChallenge || c.ExpiresAt.IsZero():
		return invalid("a challenge has no id, no end or too few bytes")
	case c.Kind == nod.ChallengeAnswer && (c.Decision == "" || c.Answer == "" || c.Nonce == ""):
		return invalid("a challenge for an answer does not say which")
	case c.Kind == nod.ChallengeAct && (c.Task == "" || c.Answer == "" || c.Nonce == ""):
		return invalid("a challenge for an act does not say which")
	case c.Kind == nod.ChallengeEnrol && c.Enrolment == "":
		return invalid("a challenge to enrol names no enrolment")
	case s.redact.text(c.Answer) != c.Answer || s.redact.text(c.Reason) != c.Reason:
		return invalid("the words of the answer hold a secret")
	}
	return s.write(ctx, func(t *txn) error {
		if err := t.sweep(); err != nil {
			return err
		}
		if last := t.now.Add(nod.ChallengeLife); (c.Kind == nod.ChallengeAnswer || c.Kind == nod.ChallengeAct) && c.ExpiresAt.After(last) {
			c.ExpiresAt = last
		}
		_, err := t.exec(`INSERT INTO challenges (`+challengeColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			c.ID, c.Kind, c.Bytes, c.Nonce, c.Decision, c.Task, c.Answer, c.Reason, c.Enrolment, c.Data, millis(c.ExpiresAt))
		return err
	})
}

// Challenge returns an unexpired challenge without consuming it, or NotFound.
func (s *Store) Challenge(ctx context.Context, id string) (nod.Challenge, error) {
	c, err := one("challenge", s.readers.QueryRowContext(ctx, `SELECT `+challengeColumns+` FROM challenges WHERE id = ? AND expires_at > ?`,
		id, moment(s.now()).UnixMilli()), scanChallenge)
	return c, mapped(ctx, err)
}

// consume takes a challenge away for good and returns it, or nil when there is
// none. The caller looks at its kind and its end.
func (t *txn) consume(id string) (*nod.Challenge, error) {
	if id == "" {
		return nil, nil
	}
	c, err := scanChallenge(t.row(`DELETE FROM challenges WHERE id = ? RETURNING `+challengeColumns, id))
	if isNone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// sweep forgets what has expired.
func (t *txn) sweep() error {
	for _, query := range []string{`DELETE FROM challenges WHERE expires_at <= ?`, `DELETE FROM enrolments WHERE expires_at <= ?`,
		`DELETE FROM sessions WHERE expires_at <= ?`, `DELETE FROM taps WHERE expires_at <= ?`} {
		if _, err := t.exec(query, t.now.UnixMilli()); err != nil {
			return err
		}
	}
	return nil
}
