package store

import (
	"bytes"
	"context"

	"nod"
)

const actColumns = `id, task, kind, words, actor, state, note, created_at, updated_at`

func scanAct(r scanner) (a nod.Act, err error) {
	err = r.Scan(&a.ID, &a.Task, &a.Kind, &a.Words, toJSON{&a.By}, &a.State, &a.Note, toTime{&a.CreatedAt}, toTime{&a.UpdatedAt})
	return a, err
}

// RecordAct records a verified act in one transaction: the challenge is consumed,
// the passkey's counter is stored, the audit event with the assertion is appended.
// Its errors are those of RecordAnswer; one for a task that has ended is a Conflict.
func (s *Store) RecordAct(ctx context.Context, a nod.Act) (nod.Act, error) {
	a.State, a.Note = nod.ActWanted, ""
	if err := a.Valid(); err != nil {
		return a, err
	}
	var no *nod.Error
	err := s.write(ctx, func(t *txn) error {
		task, err := one("task", t.row(`SELECT `+taskColumns+` FROM tasks WHERE id = ?`, a.Task), scanTask)
		if err != nil {
			return err
		}
		if no, err = t.act(task, &a); err != nil || no == nil {
			return err
		}
		return t.audit(a.Task, nod.EventActRefused, a.By, "", Refused{Answer: string(a.Kind), Code: no.Code, Why: no.Msg})
	})
	if err != nil {
		return a, err
	}
	if no != nil {
		s.log.Warn("act refused", "task", a.Task, "actor", a.By.Key(), "err", no)
		return a, no
	}
	return a, nil
}

// act records a, or says why not; the challenge is gone either way.
func (t *txn) act(task nod.Task, a *nod.Act) (*nod.Error, error) {
	c, err := t.consume(a.Challenge)
	if err != nil {
		return nil, err
	}
	key, why, err := t.mayAct(a.Task, a.By, a.Challenge, a.Assertion)
	if err != nil || why != nil {
		return why, err
	}
	switch {
	case task.Done():
		return nod.E(nod.Conflict, "the task is "+string(task.State), nil), nil
	case t.s.redact.text(a.Words) != a.Words:
		return nod.E(nod.Invalid, "the words hold a secret", nil), nil
	case a.By.Kind == nod.ActorHost:
	case c == nil || c.Kind != nod.ChallengeAct || !t.now.Before(c.ExpiresAt):
		return nod.E(nod.Unauthenticated, "the challenge was used already or has expired", nil), nil
	case c.Task != a.Task || c.Nonce != a.Assertion.Nonce || !bytes.Equal(c.Bytes, nod.ActChallenge(*a, c.Nonce)):
		return nod.E(nod.Unauthenticated, "the challenge was made for something else", nil), nil
	case !bytes.Equal(a.Assertion.PublicKey, key.PublicKey):
		return nod.E(nod.Unauthenticated, "this is not signed by the enrolled key", nil), nil
	case !advances(key.SignCount, a.Assertion.SignCount):
		return nod.E(nod.Forbidden, "the passkey's counter went backwards: it may have been copied", nil), nil
	}
	if a.By.Kind == nod.ActorPasskey {
		if t.s.verifyAct != nil {
			if err := t.s.verifyAct(*a); err != nil {
				return nod.E(nod.Unauthenticated, "the signature does not hold", err), nil
			}
		}
		if _, err := t.exec(`UPDATE passkeys SET sign_count = ? WHERE id = ?`, a.Assertion.SignCount, key.ID); err != nil {
			return nil, err
		}
	}
	a.CreatedAt, a.UpdatedAt = t.now, t.now
	by, err := asJSON(a.By)
	if err != nil {
		return nil, err
	}
	if _, err := t.exec(`INSERT INTO acts (`+actColumns+`) VALUES (?, ?, ?, ?, ?, ?, '', ?, ?)`,
		a.ID, a.Task, a.Kind, a.Words, by, a.State, t.now.UnixMilli(), t.now.UnixMilli()); err != nil {
		return nil, err
	}
	return nil, t.audit(a.Task, nod.EventActWanted, a.By, "", *a)
}

// WantedActs returns what people want and is not done yet, oldest first.
func (s *Store) WantedActs(ctx context.Context) ([]nod.Act, error) {
	acts, err := list(ctx, s.readers, scanAct, `SELECT `+actColumns+` FROM acts WHERE state = 'wanted' ORDER BY n`)
	return acts, mapped(ctx, err)
}

// FinishAct says how a wanted act went. One that is finished already is a Conflict.
func (s *Store) FinishAct(ctx context.Context, id string, state nod.ActState, note string) error {
	if state != nod.ActDone && state != nod.ActRefused {
		return invalid("an act ends done or refused")
	}
	return s.write(ctx, func(t *txn) error {
		a, err := one("act", t.row(`UPDATE acts SET state = ?, note = ?, updated_at = ? WHERE id = ? AND state = 'wanted' RETURNING `+actColumns,
			state, t.s.redact.text(note), t.now.UnixMilli(), id), scanAct)
		if nod.CodeOf(err) == nod.NotFound {
			return conflict("the act is not waiting")
		}
		if err != nil {
			return err
		}
		return t.audit(a.Task, nod.EventActFinished, nod.Supervisor(), "", a)
	})
}
