package store

import (
	"bytes"
	"context"
	"slices"
	"time"

	"nod"
)

// Refused is the Data of EventAnswerRefused, an answer that was not taken, and of
// EventAnswerRepeated, one that changed nothing.
type Refused struct {
	Decision string   `json:"decision"`
	Answer   string   `json:"answer"`
	Code     nod.Code `json:"code,omitempty"`
	Why      string   `json:"why"`
	// Passkey is that of the session an unproven answer came from.
	Passkey string `json:"passkey,omitempty"`
}

// RecordAnswer records a verified answer in one transaction: the challenge is
// consumed, the passkey's counter is stored, the decision is compared and
// swapped, the audit event with the assertion is appended. The same answer again
// returns the decision as it is.
//
// Where several passkeys must allow a decision, it stays open, and Missing counts
// down, until enough different ones have; a denial by any one closes it.
//
// A different answer is a Conflict that says who answered and when; a late one
// expires the decision and is Expired; a passkey that was revoked or is for
// other repositories, and a counter that went backwards, are Forbidden; a challenge that was used, has expired or was made for
// anything else is Unauthenticated. Each of these appends an audit event and uses
// the challenge up. The decision is returned as it then stands.
//
// An answer from the host has By.Kind host and neither challenge nor assertion.
// Answers by anybody else are Forbidden.
func (s *Store) RecordAnswer(ctx context.Context, a nod.Answer) (nod.Decision, error) {
	var d nod.Decision
	var no *nod.Error
	err := s.write(ctx, func(t *txn) error {
		var err error
		if d, err = t.decision(a.Decision); err != nil {
			return err
		}
		if no, err = t.answer(&d, a); err != nil || no == nil {
			return err
		}
		return t.audit(d.Task, nod.EventAnswerRefused, a.By, d.CommitSHA,
			Refused{Decision: d.ID, Answer: s.redact.text(a.Answer), Code: no.Code, Why: no.Msg})
	})
	if err != nil {
		return nod.Decision{}, err
	}
	if no != nil {
		s.log.Warn("answer refused", "decision", d.ID, "task", d.Task, "actor", a.By.Key(), "err", no)
		return d, no
	}
	return d, nil
}

// answer records a on d, or says why not. What it wrote until then stays: the
// challenge is gone, and a late answer has expired the decision.
func (t *txn) answer(d *nod.Decision, a nod.Answer) (*nod.Error, error) {
	no := func(code nod.Code, msg string) (*nod.Error, error) { return nod.E(code, msg, nil), nil }
	challenge, err := t.consume(a.Challenge)
	if err != nil {
		return nil, err
	}
	key, why, err := t.mayAct(d.Task, a.By, a.Challenge, a.Assertion)
	if err != nil || why != nil {
		return why, err
	}
	switch d.State {
	case nod.DecisionAnswered:
		if a.Answer == d.Answer {
			return nil, t.repeated(*d, a)
		}
		return no(nod.Conflict, d.AnsweredBy.Show()+" answered "+d.Answer+" at "+d.AnsweredAt.Format(time.RFC3339))
	case nod.DecisionExpired:
		return no(nod.Expired, "the deadline of this decision has passed")
	case nod.DecisionSuperseded:
		return no(nod.Conflict, "this decision was superseded at "+d.UpdatedAt.Format(time.RFC3339))
	}
	if d.Late(t.now) {
		if *d, err = t.expire(*d); err != nil {
			return nil, err
		}
		return no(nod.Expired, "the deadline of this decision has passed")
	}
	if !d.Takes(a.Answer) {
		return no(nod.Invalid, "this decision does not take that answer")
	}
	if t.s.redact.text(a.Reason) != a.Reason || t.s.redact.text(a.Answer) != a.Answer {
		// Taking it out afterwards would break what was signed.
		return no(nod.Invalid, "the words of the answer hold a secret")
	}
	if several := d.Approvals > 1 && a.Answer == nod.Allow; several && a.By.Kind != nod.ActorPasskey {
		return no(nod.Forbidden, "this decision is allowed by several passkeys, and the host is none")
	} else if several && d.Approved(a.By.Passkey) {
		return nil, t.repeated(*d, a)
	}
	next, err := answered(*d, a, t.now)
	if err != nil {
		return nil, err
	}
	if a.By.Kind == nod.ActorPasskey {
		if why := t.s.bound(challenge, *d, a, key, next, t.now); why != nil {
			return why, nil
		}
		if !advances(key.SignCount, a.Assertion.SignCount) {
			return no(nod.Forbidden, "the passkey's counter went backwards: it may have been copied")
		}
		if _, err := t.exec(`UPDATE passkeys SET sign_count = ? WHERE id = ?`, a.Assertion.SignCount, key.ID); err != nil {
			return nil, err
		}
	}
	by, err := asJSON(next.AnsweredBy)
	if err != nil {
		return nil, err
	}
	approved, err := asJSON(next.ApprovedBy)
	if err != nil {
		return nil, err
	}
	n, err := t.exec(`UPDATE decisions SET version = ?, state = ?, answer = ?, reason = ?, answered_by = ?, answered_at = ?, updated_at = ?, approved_by = ?
		WHERE id = ? AND state = 'open'`, next.Version, next.State, next.Answer, next.Reason, by, millis(next.AnsweredAt), next.UpdatedAt.UnixMilli(), approved, d.ID)
	if err != nil {
		return nil, err
	}
	if n != 1 {
		return nil, conflict("the decision was closed by somebody else")
	}
	*d = next
	if next.State == nod.DecisionOpen {
		return nil, t.audit(d.Task, nod.EventDecisionAllowed, a.By, d.CommitSHA, Closed{Decision: next, Answer: &a})
	}
	return nil, t.closed(a.By, next, &a)
}

// repeated records an answer that was given before.
func (t *txn) repeated(d nod.Decision, a nod.Answer) error {
	return t.audit(d.Task, nod.EventAnswerRepeated, a.By, d.CommitSHA, Refused{Decision: d.ID, Answer: t.s.redact.text(a.Answer), Why: "it was given before"})
}

// answered is what a leaves of d: an answer, or one more that has allowed it
// while others must as well.
func answered(d nod.Decision, a nod.Answer, now time.Time) (nod.Decision, error) {
	d.Version++
	d.UpdatedAt = now
	if a.Answer == nod.Allow && d.Missing() > 1 {
		d.ApprovedBy = append(slices.Clone(d.ApprovedBy), a.By)
		return d, nil
	}
	if err := d.On(nod.DecisionAnswer); err != nil {
		return d, err
	}
	d.Answer, d.Reason, d.AnsweredBy, d.AnsweredAt = a.Answer, a.Reason, a.By, now
	return d, nil
}

// mayAct checks who answers or acts, and returns the passkey if it is one.
func (t *txn) mayAct(task string, by nod.Actor, challenge string, as *nod.Assertion) (key nod.Passkey, why *nod.Error, err error) {
	switch {
	case by.Kind == nod.ActorHost && challenge == "" && as == nil:
		return key, nil, nil
	case by.Kind == nod.ActorHost:
		return key, nod.E(nod.Invalid, "an answer from the host carries no assertion", nil), nil
	case by.Kind != nod.ActorPasskey:
		return key, nod.E(nod.Forbidden, "only a passkey or the host may answer", nil), nil
	case challenge == "" || as == nil || by.Passkey == "" || as.Credential != by.Passkey:
		return key, nod.E(nod.Unauthenticated, "the answer is not signed by the passkey it names", nil), nil
	}
	key, err = scanPasskey(t.row(`SELECT `+passkeyColumns+` FROM passkeys WHERE id = ?`, by.Passkey))
	switch {
	case isNone(err):
		return key, nod.E(nod.Forbidden, "this passkey is not enrolled", nil), nil
	case err != nil:
		return key, nil, err
	case !key.RevokedAt.IsZero():
		return key, nod.E(nod.Forbidden, "this passkey was revoked", nil), nil
	}
	var repo nod.Repo
	if err := t.row(`SELECT host, owner, name FROM tasks WHERE id = ?`, task).Scan(&repo.Host, &repo.Owner, &repo.Name); err != nil {
		return key, nil, err
	}
	if !key.Covers(repo) {
		return key, nod.E(nod.Forbidden, "this passkey may not answer for this repository", nil), nil
	}
	return key, nil, nil
}

// bound checks that what was signed is this answer to what d shows now.
func (s *Store) bound(c *nod.Challenge, d nod.Decision, a nod.Answer, key nod.Passkey, answered nod.Decision, now time.Time) *nod.Error {
	switch {
	case c == nil || c.Kind != nod.ChallengeAnswer || !now.Before(c.ExpiresAt):
		return nod.E(nod.Unauthenticated, "the challenge was used already or has expired", nil)
	case c.Decision != d.ID || c.Answer != a.Answer || c.Reason != a.Reason || c.Nonce != a.Assertion.Nonce ||
		!bytes.Equal(c.Bytes, nod.AnswerChallenge(d, a.Answer, a.Reason, c.Nonce)):
		return nod.E(nod.Unauthenticated, "the challenge was made for something else", nil)
	case !bytes.Equal(a.Assertion.PublicKey, key.PublicKey):
		return nod.E(nod.Unauthenticated, "the answer is not signed by the enrolled key", nil)
	}
	if s.verify != nil {
		if err := s.verify(answered, a, *a.Assertion); err != nil {
			return nod.E(nod.Unauthenticated, "the signature of the answer does not hold", err)
		}
	}
	return nil
}

// advances is WebAuthn level 3, section 7.2, step 22: a counter that is used at
// all must grow.
func advances(stored, given uint32) bool { return given > stored || stored == 0 && given == 0 }
