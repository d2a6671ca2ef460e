package store

import (
	"context"
	"slices"

	"nod"
)

const decisionColumns = `id, version, task, run, kind, cause, blocking, subject, input, input_truncated, input_digest, commit_sha, options,
	free_text, deadline, state, answer, reason, answered_by, answered_at, created_at, updated_at, approvals, approved_by`

// scanDecision refuses a row that breaks a rule of nod.Decision.Valid.
func scanDecision(r scanner) (d nod.Decision, err error) {
	if err := r.Scan(&d.ID, &d.Version, &d.Task, toText{&d.Run}, &d.Kind, &d.Cause, &d.Blocking, &d.Subject, &d.Input, &d.InputTruncated,
		toText{&d.InputDigest}, &d.CommitSHA, toJSON{&d.Options}, &d.FreeText, toTime{&d.Deadline}, &d.State, &d.Answer, &d.Reason,
		toJSON{&d.AnsweredBy}, toTime{&d.AnsweredAt}, toTime{&d.CreatedAt}, toTime{&d.UpdatedAt}, &d.Approvals, toJSON{&d.ApprovedBy}); err != nil {
		return nod.Decision{}, err
	}
	if err := d.Valid(); err != nil {
		return nod.Decision{}, nod.E(nod.Internal, "a stored decision breaks a rule", err)
	}
	return d, nil
}

// Closed is the Data of EventDecisionClosed: the decision as it was left, and the
// answer with its evidence when a person gave one. It is also the Data of
// EventDecisionAllowed, where the decision stays open until enough have allowed it.
type Closed struct {
	Decision nod.Decision `json:"decision"`
	Answer   *nod.Answer  `json:"answer,omitempty"`
}

// putDecision opens a decision, or closes one without an answer. An answer is
// recorded by RecordAnswer and nothing else.
func (t *txn) putDecision(by nod.Actor, v *nod.Decision) error {
	n, r := *v, t.s.redact
	n.Deadline, n.UpdatedAt = moment(n.Deadline), t.now
	n.Version++
	n.Subject, n.Input, n.Reason = r.text(n.Subject), r.text(n.Input), r.text(n.Reason)
	n.Options = slices.Clone(n.Options)
	for i := range n.Options {
		n.Options[i] = r.text(n.Options[i])
	}
	if err := n.Valid(); err != nil {
		return err
	}
	if n.Approvals == 0 {
		n.Approvals = 1
	}
	if v.Version == 0 {
		if n.State != nod.DecisionMachine.Start || len(n.ApprovedBy) > 0 {
			return conflict("a decision begins as " + string(nod.DecisionMachine.Start))
		}
		if err := t.wholeInput(&n, v.Input); err != nil {
			return err
		}
		if err := t.room(n.Run); err != nil {
			return err
		}
		n.CreatedAt = t.now
		if err := t.insertDecision(n); err != nil {
			return err
		}
		t.committed(func() { *v = n })
		return t.audit(n.Task, nod.EventDecisionOpened, by, n.CommitSHA, n)
	}
	old, err := t.decision(n.ID)
	if err != nil {
		return err
	}
	if err := swappable("decision", n.ID, old.Version, v.Version); err != nil {
		return err
	}
	switch {
	case old.State != nod.DecisionOpen:
		return conflict("a decision that is " + string(old.State) + " never changes")
	case n.State == nod.DecisionAnswered:
		return nod.E(nod.Forbidden, "only an answer by a person answers a decision", nil)
	case !sameQuestion(old, n) || !slices.Equal(old.ApprovedBy, n.ApprovedBy):
		return conflict("what a decision asks, and who has allowed it, never changes by hand")
	}
	if err := reaches(nod.DecisionMachine, &old, n.State, (*nod.Decision).On, func(x *nod.Decision) nod.DecisionState { return x.State }); err != nil {
		return err
	}
	n.Input, n.InputTruncated, n.Subject, n.CreatedAt = old.Input, old.InputTruncated, old.Subject, old.CreatedAt
	if _, err := t.exec(`UPDATE decisions SET version = ?, state = ?, reason = ?, updated_at = ? WHERE id = ?`,
		n.Version, n.State, n.Reason, n.UpdatedAt.UnixMilli(), n.ID); err != nil {
		return err
	}
	t.committed(func() { *v = n })
	if n.State == old.State {
		return nil
	}
	return t.closed(by, n, nil)
}

func (t *txn) insertDecision(n nod.Decision) error {
	options, err := asJSON(n.Options)
	if err != nil {
		return err
	}
	by, err := asJSON(n.AnsweredBy)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO decisions (`+decisionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'null')`,
		n.ID, n.Version, n.Task, text(n.Run), n.Kind, n.Cause, n.Blocking, n.Subject, n.Input, n.InputTruncated, text(n.InputDigest), n.CommitSHA,
		options, n.FreeText, millis(n.Deadline), n.State, n.Answer, n.Reason, by, millis(n.AnsweredAt), n.CreatedAt.UnixMilli(), n.UpdatedAt.UnixMilli(), n.Approvals)
	return err
}

// wholeInput makes sure that what n asks about is kept under its digest, and cuts
// n.Input from what is kept: the cap must not leave half of a secret behind.
// input is n.Input as the caller gave it.
func (t *txn) wholeInput(n *nod.Decision, input string) error {
	if n.InputDigest == "" {
		return nil
	}
	whole, found, err := t.blob(n.InputDigest)
	if err != nil {
		return err
	}
	if !found {
		if nod.Digest([]byte(input)) != n.InputDigest {
			return invalid("the whole input of a decision is not stored with it")
		}
		if err := t.putBlob(n.InputDigest, []byte(input)); err != nil {
			return err
		}
		if whole, _, err = t.blob(n.InputDigest); err != nil {
			return err
		}
	}
	digest := n.InputDigest
	n.SetInput(string(whole))
	n.InputDigest = digest
	return nil
}

const roomQuery = `SELECT count(*) FROM decisions WHERE run = ? AND state = 'open'`

// room refuses one more open decision of a run than may wait at once.
func (t *txn) room(run string) error {
	if run == "" {
		return nil
	}
	var open int
	if err := t.row(roomQuery, run).Scan(&open); err != nil {
		return err
	}
	if open >= nod.MaxWaiting {
		return nod.E(nod.RateLimited, "too many requests wait for an answer", nil)
	}
	return nil
}

func (t *txn) decision(id string) (nod.Decision, error) {
	return one("decision", t.row(`SELECT `+decisionColumns+` FROM decisions WHERE id = ?`, id), scanDecision)
}

func sameQuestion(a, b nod.Decision) bool {
	return a.Task == b.Task && a.Run == b.Run && a.Kind == b.Kind && a.Cause == b.Cause && a.Blocking == b.Blocking &&
		a.InputDigest == b.InputDigest && a.CommitSHA == b.CommitSHA && slices.Equal(a.Options, b.Options) &&
		a.FreeText == b.FreeText && a.Approvals == b.Approvals && a.Deadline.Equal(b.Deadline)
}

// expire closes an open decision whose deadline has passed.
func (t *txn) expire(d nod.Decision) (nod.Decision, error) {
	if err := d.On(nod.DecisionExpire); err != nil {
		return d, err
	}
	d.Version++
	d.UpdatedAt = t.now
	if _, err := t.exec(`UPDATE decisions SET version = ?, state = ?, updated_at = ? WHERE id = ? AND state = 'open'`,
		d.Version, d.State, d.UpdatedAt.UnixMilli(), d.ID); err != nil {
		return d, err
	}
	return d, t.closed(nod.Supervisor(), d, nil)
}

const lateQuery = `SELECT ` + decisionColumns + ` FROM decisions INDEXED BY decisions_deadline WHERE state = 'open' AND deadline <= ? ORDER BY n`

// ExpireDecisions expires every open decision past its deadline, with its audit
// event, and returns them, oldest first.
func (s *Store) ExpireDecisions(ctx context.Context) ([]nod.Decision, error) {
	due, err := list(ctx, s.readers, scanDecision, lateQuery, moment(s.now()).UnixMilli())
	if err != nil || len(due) == 0 {
		return nil, mapped(ctx, err)
	}
	var expired []nod.Decision
	err = s.write(ctx, func(t *txn) error {
		due, err := list(ctx, t.tx, scanDecision, lateQuery, t.now.UnixMilli())
		if err != nil {
			return err
		}
		for _, d := range due {
			if d, err = t.expire(d); err != nil {
				return err
			}
			expired = append(expired, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return expired, nil
}

// Decision returns one decision, or NotFound.
func (s *Store) Decision(ctx context.Context, id string) (nod.Decision, error) {
	d, err := one("decision", s.readers.QueryRowContext(ctx, `SELECT `+decisionColumns+` FROM decisions WHERE id = ?`, id), scanDecision)
	return d, mapped(ctx, err)
}

// OpenDecisions returns all that wait, blocking ones first, then oldest first.
func (s *Store) OpenDecisions(ctx context.Context) ([]nod.Decision, error) {
	open, err := list(ctx, s.readers, scanDecision, `SELECT `+decisionColumns+` FROM decisions INDEXED BY decisions_open WHERE state = 'open' ORDER BY blocking DESC, n`)
	return open, mapped(ctx, err)
}
