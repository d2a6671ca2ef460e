package store

import (
	"context"
	"database/sql"
	"strings"

	"nod"
)

const taskColumns = `id, version, host, owner, name, installation, issue, title, state, agent, requested_by, untrusted,
	input_digest, base_ref, branch, approved, briefing, rework, reason, comment_id, terms, label_event, asked_at, created_at, updated_at`

func scanTask(r scanner) (t nod.Task, err error) {
	err = r.Scan(&t.ID, &t.Version, &t.Repo.Host, &t.Repo.Owner, &t.Repo.Name, &t.Installation, &t.Issue, &t.Title, &t.State, &t.Agent,
		toJSON{&t.RequestedBy}, &t.Untrusted, &t.InputDigest, &t.BaseRef, &t.Branch, &t.Approved, &t.Briefing, &t.Rework, &t.Reason, &t.CommentID,
		&t.Terms, &t.LabelEvent, toTime{&t.AskedAt}, toTime{&t.CreatedAt}, toTime{&t.UpdatedAt})
	return t, err
}

// putTask inserts or swaps one task and appends the event of its change of state.
func (t *txn) putTask(by nod.Actor, v *nod.Task) error {
	n, r := *v, t.s.redact
	n.Title, n.Briefing, n.Rework, n.Reason, n.Terms, n.UpdatedAt = r.text(n.Title), r.text(n.Briefing), r.text(n.Rework), r.text(n.Reason), r.text(n.Terms), t.now
	n.Version++
	requested, err := asJSON(n.RequestedBy)
	if err != nil {
		return err
	}
	change := nod.StateChange{ID: n.ID, To: string(n.State), Why: n.Reason}
	if v.Version == 0 {
		if n.State != nod.TaskMachine.Start {
			return conflict("a task begins as " + string(nod.TaskMachine.Start))
		}
		n.CreatedAt, n.AskedAt = t.now, moment(n.AskedAt)
		if _, err := t.exec(`INSERT INTO tasks (`+taskColumns+`, repo_key) VALUES (?`+strings.Repeat(`, ?`, 25)+`)`,
			n.ID, n.Version, n.Repo.Host, n.Repo.Owner, n.Repo.Name, n.Installation, n.Issue, n.Title, n.State, n.Agent, requested, n.Untrusted,
			n.InputDigest, n.BaseRef, n.Branch, n.Approved, n.Briefing, n.Rework, n.Reason, n.CommentID, n.Terms, n.LabelEvent, millis(n.AskedAt),
			n.CreatedAt.UnixMilli(), n.UpdatedAt.UnixMilli(), n.Repo.Key()); err != nil {
			return err
		}
		t.committed(func() { *v = n })
		return t.audit(n.ID, nod.EventTaskCreated, by, "", n)
	}
	old, err := one("task", t.row(`SELECT `+taskColumns+` FROM tasks WHERE id = ?`, n.ID), scanTask)
	if err != nil {
		return err
	}
	if err := swappable("task", n.ID, old.Version, v.Version); err != nil {
		return err
	}
	n.CreatedAt, n.AskedAt, n.LabelEvent, n.Terms = old.CreatedAt, old.AskedAt, old.LabelEvent, old.Terms
	switch {
	case old.Repo != n.Repo || old.Issue != n.Issue || old.RequestedBy != n.RequestedBy:
		return conflict("a task never changes its issue or who requested it")
	case old.Untrusted && !n.Untrusted:
		return conflict("untrusted input marks a task for good")
	case old.Done() && !lateComment(old, n):
		return conflict("a task that is " + string(old.State) + " never changes")
	}
	if err := reaches(nod.TaskMachine, &old, n.State, (*nod.Task).On, func(x *nod.Task) nod.TaskState { return x.State }); err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE tasks SET version = ?, installation = ?, title = ?, state = ?, agent = ?, untrusted = ?, input_digest = ?, base_ref = ?,
		branch = ?, approved = ?, briefing = ?, rework = ?, reason = ?, comment_id = ?, updated_at = ? WHERE id = ?`,
		n.Version, n.Installation, n.Title, n.State, n.Agent, n.Untrusted, n.InputDigest, n.BaseRef,
		n.Branch, n.Approved, n.Briefing, n.Rework, n.Reason, n.CommentID, n.UpdatedAt.UnixMilli(), n.ID); err != nil {
		return err
	}
	t.committed(func() { *v = n })
	if change.From = string(old.State); change.From == change.To {
		return nil
	}
	return t.audit(n.ID, nod.EventTaskState, by, "", change)
}

// lateComment allows the one thing that may still be learned about an ended
// task: which comment tells of it.
func lateComment(old, n nod.Task) bool {
	old.CommentID, old.Version, old.UpdatedAt = n.CommentID, n.Version, n.UpdatedAt
	return old == n
}

// Tasks returns the tasks in any of states, oldest first; all when none is given.
func (s *Store) Tasks(ctx context.Context, states ...nod.TaskState) ([]nod.Task, error) {
	query, args := `SELECT `+taskColumns+` FROM tasks`, make([]any, len(states))
	for i, st := range states {
		args[i] = st
	}
	if len(states) > 0 {
		query += ` WHERE state IN (?` + strings.Repeat(`, ?`, len(states)-1) + `)`
	}
	tasks, err := list(ctx, s.readers, scanTask, query+` ORDER BY n`, args...)
	return tasks, mapped(ctx, err)
}

const taskOfQuery = `SELECT ` + taskColumns + ` FROM tasks WHERE repo_key = ? AND issue = ? ORDER BY n DESC LIMIT 1`

// TaskOf returns the newest task of an issue, or NotFound.
func (s *Store) TaskOf(ctx context.Context, repo nod.Repo, issue int) (nod.Task, error) {
	t, err := one("task", s.readers.QueryRowContext(ctx, taskOfQuery, repo.Key(), issue), scanTask)
	return t, mapped(ctx, err)
}

// Case returns a task and what is under way for it, all of one moment, or NotFound.
func (s *Store) Case(ctx context.Context, task string) (c nod.Case, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		if c.Task, err = one("task", tx.QueryRowContext(ctx, `SELECT `+taskColumns+` FROM tasks WHERE id = ?`, task), scanTask); err != nil {
			return err
		}
		if c.Run, err = latest(ctx, tx, scanRun, `SELECT `+runColumns+` FROM runs WHERE task = ? ORDER BY number DESC LIMIT 1`, task); err != nil {
			return err
		}
		if c.Environment, err = latest(ctx, tx, scanEnvironment, `SELECT `+environmentColumns+` FROM environments WHERE task = ? ORDER BY n DESC LIMIT 1`, task); err != nil {
			return err
		}
		if c.Revision, err = latest(ctx, tx, scanRevision, `SELECT `+revisionColumns+` FROM revisions WHERE task = ? ORDER BY n DESC LIMIT 1`, task); err != nil {
			return err
		}
		if c.Decisions, err = list(ctx, tx, scanDecision, `SELECT `+decisionColumns+` FROM decisions WHERE task = ? ORDER BY n`, task); err != nil {
			return err
		}
		c.Effects, err = list(ctx, tx, scanEffect, `SELECT `+effectColumns+` FROM effects WHERE task = ? ORDER BY id`, task)
		if err == nil {
			c.Usage, err = usage(ctx, tx, task)
		}
		return err
	})
	if err != nil {
		return nod.Case{}, err
	}
	return c, nil
}

// latest returns the only row of a query, or nil.
func latest[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) (*T, error) {
	v, err := scan(q.QueryRowContext(ctx, query, args...))
	if isNone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}
