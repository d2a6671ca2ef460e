package store

import (
	"context"
	"encoding/json"

	"nod"
)

const effectColumns = `id, version, key, task, repo, kind, intent, state, attempt, not_before, outcome, error, created_at, updated_at`

func scanEffect(r scanner) (e nod.Effect, err error) {
	err = r.Scan(&e.ID, &e.Version, &e.Key, toText{&e.Task}, &e.Repo, &e.Kind, toRaw{&e.Intent}, &e.State, &e.Attempt, toTime{&e.NotBefore},
		toRaw{&e.Outcome}, &e.Error, toTime{&e.CreatedAt}, toTime{&e.UpdatedAt})
	return e, err
}

// putEffect writes an intent, unless its key was intended before, or what became
// of one.
func (t *txn) putEffect(by nod.Actor, v *nod.Effect) error {
	n, r := *v, t.s.redact
	n.NotBefore, n.UpdatedAt, n.Error = moment(n.NotBefore), t.now, r.text(n.Error)
	n.Version++
	if !json.Valid(n.Intent) || len(n.Outcome) > 0 && !json.Valid(n.Outcome) {
		return invalid("the intent or the outcome of an effect is not JSON")
	}
	n.Intent = r.json(n.Intent)
	if len(n.Outcome) > 0 {
		n.Outcome = r.json(n.Outcome)
	}
	if v.Version == 0 {
		return t.intend(by, v, n)
	}
	old, err := one("effect", t.row(`SELECT `+effectColumns+` FROM effects WHERE id = ?`, n.ID), scanEffect)
	if err != nil {
		return err
	}
	if err := swappable("effect", n.Key, old.Version, v.Version); err != nil {
		return err
	}
	n.CreatedAt = old.CreatedAt
	switch {
	case nod.EffectMachine.Terminal(old.State):
		return conflict("an effect that is " + string(old.State) + " never changes")
	case old.Key != n.Key || old.Task != n.Task || old.Repo != n.Repo || old.Kind != n.Kind || string(old.Intent) != string(n.Intent):
		return conflict("what an effect intends never changes")
	case n.Attempt < old.Attempt && !(old.State == nod.EffectUnknown && n.State == nod.EffectIntended):
		return conflict("an attempt that was begun cannot be taken back")
	case n.Attempt > old.Attempt:
		return conflict("an attempt is begun by BeginEffect")
	}
	if err := reaches(nod.EffectMachine, &old, n.State, (*nod.Effect).On, func(x *nod.Effect) nod.EffectState { return x.State }); err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE effects SET version = ?, state = ?, attempt = ?, not_before = ?, outcome = ?, error = ?, updated_at = ? WHERE id = ?`,
		n.Version, n.State, n.Attempt, millis(n.NotBefore), text(string(n.Outcome)), n.Error, n.UpdatedAt.UnixMilli(), n.ID); err != nil {
		return err
	}
	t.committed(func() { *v = n })
	switch n.State {
	case old.State:
		return nil
	case nod.EffectIntended:
		return t.audit(n.Task, nod.EventEffectIntended, by, "", n)
	}
	return t.audit(n.Task, nod.EventEffectOutcome, by, "", n)
}

func (t *txn) intend(by nod.Actor, v *nod.Effect, n nod.Effect) error {
	if n.State != nod.EffectMachine.Start || n.Attempt != 0 || len(n.Outcome) > 0 {
		return conflict("an effect begins as an intent that nobody has tried")
	}
	n.CreatedAt = t.now
	err := t.row(`INSERT INTO effects (version, key, task, repo, kind, intent, state, attempt, not_before, error, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING RETURNING id`,
		n.Version, n.Key, text(n.Task), n.Repo, n.Kind, string(n.Intent), n.State, millis(n.NotBefore), n.Error,
		n.CreatedAt.UnixMilli(), n.UpdatedAt.UnixMilli()).Scan(&n.ID)
	if isNone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	t.committed(func() { *v = n })
	return t.audit(n.Task, nod.EventEffectIntended, by, "", n)
}

const dueQuery = `SELECT ` + effectColumns + ` FROM effects WHERE id IN (
	SELECT min(id) FROM effects AS e WHERE state = 'intended' AND (not_before IS NULL OR not_before <= ?)
	AND (repo = '' OR NOT EXISTS (SELECT 1 FROM effects AS o WHERE o.state = 'intended' AND o.repo = e.repo AND o.task IS e.task AND o.id < e.id))
	GROUP BY CASE repo WHEN '' THEN id ELSE repo END)
ORDER BY id`

// DueEffects returns intended effects whose NotBefore has passed, oldest first,
// the first of each Repo only. Effects without a Repo are independent of each
// other. An effect that waits for its next attempt holds back later ones of its
// own task in its repository, not those of other tasks.
func (s *Store) DueEffects(ctx context.Context) ([]nod.Effect, error) {
	now := moment(s.now()).UnixMilli()
	due, err := list(ctx, s.readers, scanEffect, dueQuery, now)
	return due, mapped(ctx, err)
}

// BeginEffect counts an attempt of an intended effect before it is performed. A
// version that moved on, or another state, is a Conflict.
func (s *Store) BeginEffect(ctx context.Context, e *nod.Effect) error {
	return s.write(ctx, func(t *txn) error {
		n, err := one("effect", t.row(`SELECT `+effectColumns+` FROM effects WHERE id = ?`, e.ID), scanEffect)
		if err != nil {
			return err
		}
		if err := swappable("effect", n.Key, n.Version, e.Version); err != nil {
			return err
		}
		if n.State != nod.EffectIntended {
			return conflict("an effect that is " + string(n.State) + " cannot be begun")
		}
		n.Version, n.Attempt, n.UpdatedAt = n.Version+1, n.Attempt+1, t.now
		if _, err := t.exec(`UPDATE effects SET version = ?, attempt = ?, updated_at = ? WHERE id = ?`,
			n.Version, n.Attempt, n.UpdatedAt.UnixMilli(), n.ID); err != nil {
			return err
		}
		t.committed(func() { *e = n })
		return nil
	})
}
