package store

import (
	"context"

	"nod"
)

// Seen is the Data of EventDecisionSeen.
type Seen struct {
	Decision string `json:"decision"`
}

// See records, once, that the holder of a passkey opened the page of a decision. It
// permits nothing; it only ends the reminders. A decision or a passkey that is not
// there is NotFound.
func (s *Store) See(ctx context.Context, decision, passkey string) error {
	return s.write(ctx, func(t *txn) error {
		d, err := t.decision(decision)
		if err != nil {
			return err
		}
		p, err := one("passkey", t.row(`SELECT `+passkeyColumns+` FROM passkeys WHERE id = ? AND revoked_at IS NULL`, passkey), scanPasskey)
		if err != nil {
			return err
		}
		n, err := t.exec(`INSERT INTO sights (decision, passkey, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, d.ID, p.ID, t.now.UnixMilli())
		if err != nil || n == 0 {
			return err
		}
		return t.audit(d.Task, nod.EventDecisionSeen, nod.Actor{Kind: nod.ActorPasskey, Passkey: p.ID, Login: p.Name}, d.CommitSHA, Seen{Decision: d.ID})
	})
}

const unseenQuery = `SELECT ` + decisionColumns + ` FROM decisions INDEXED BY decisions_open WHERE state = 'open'
	AND (SELECT count(*) FROM sights WHERE decision = decisions.id) < approvals ORDER BY n`

// Unseen returns the open decisions that fewer people have opened than must allow
// them, oldest first.
func (s *Store) Unseen(ctx context.Context) ([]nod.Decision, error) {
	open, err := list(ctx, s.readers, scanDecision, unseenQuery)
	return open, mapped(ctx, err)
}

// RefuseAnswer records an answer that was turned away before it came as far as
// RecordAnswer. It came from a session of passkey, which proves nothing: nod itself
// is the actor of the event.
func (s *Store) RefuseAnswer(ctx context.Context, decision, answer, passkey string, why *nod.Error) error {
	return s.write(ctx, func(t *txn) error {
		d, err := t.decision(decision)
		if err != nil {
			return err
		}
		return t.audit(d.Task, nod.EventAnswerRefused, nod.Supervisor(), d.CommitSHA,
			Refused{Decision: d.ID, Answer: s.redact.text(answer), Code: why.Code, Why: s.redact.text(why.Msg), Passkey: passkey})
	})
}
