package store

import (
	"reflect"
	"slices"

	"nod"
)

const revisionColumns = `sha, version, task, run, state, base_ref, base_sha, branch, tree, commits, files, diff_digest, receipt, pull_request, created_at, updated_at`

func scanRevision(r scanner) (v nod.Revision, err error) {
	err = r.Scan(&v.SHA, &v.Version, &v.Task, &v.Run, &v.State, &v.BaseRef, &v.BaseSHA, &v.Branch, &v.Tree, toJSON{&v.Commits}, toJSON{&v.Files},
		&v.DiffDigest, toJSON{&v.Check}, toJSON{&v.PullRequest}, toTime{&v.CreatedAt}, toTime{&v.UpdatedAt})
	return v, err
}

// cleanRevision is v without secrets. A commit whose message held one will then
// not be found equal to what was approved, and is not pushed.
func (t *txn) cleanRevision(v nod.Revision) nod.Revision {
	r := t.s.redact
	v.Commits, v.Files = append([]nod.Commit(nil), v.Commits...), append([]nod.FileChange(nil), v.Files...)
	for i := range v.Commits {
		v.Commits[i].Subject, v.Commits[i].Message = r.text(v.Commits[i].Subject), r.text(v.Commits[i].Message)
	}
	for i := range v.Files {
		v.Files[i].Path = r.text(v.Files[i].Path)
	}
	v.Check.Command = append([]string(nil), v.Check.Command...)
	for i := range v.Check.Command {
		v.Check.Command[i] = r.text(v.Check.Command[i])
	}
	v.Check.Tail = r.text(v.Check.Tail)
	return v
}

// putRevision inserts or swaps one revision and appends the event of its change
// of state.
func (t *txn) putRevision(by nod.Actor, v *nod.Revision) error {
	n := t.cleanRevision(*v)
	n.UpdatedAt = t.now
	n.Version++
	columns := make([]string, 4)
	for i, field := range []any{n.Commits, n.Files, n.Check, n.PullRequest} {
		var err error
		if columns[i], err = asJSON(field); err != nil {
			return err
		}
	}
	change := nod.StateChange{ID: n.SHA, To: string(n.State)}
	if v.Version == 0 {
		if n.State != nod.RevisionMachine.Start {
			return conflict("a revision begins as " + string(nod.RevisionMachine.Start))
		}
		if err := t.pinnable(n); err != nil {
			return err
		}
		n.CreatedAt = t.now
		if _, err := t.exec(`INSERT INTO revisions (`+revisionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			n.SHA, n.Version, n.Task, n.Run, n.State, n.BaseRef, n.BaseSHA, n.Branch, n.Tree, columns[0], columns[1], n.DiffDigest,
			columns[2], columns[3], n.CreatedAt.UnixMilli(), n.UpdatedAt.UnixMilli()); err != nil {
			return err
		}
	} else {
		old, err := one("revision", t.row(`SELECT `+revisionColumns+` FROM revisions WHERE task = ? AND sha = ?`, n.Task, n.SHA), scanRevision)
		if err != nil {
			return err
		}
		if err := swappable("revision", n.SHA, old.Version, v.Version); err != nil {
			return err
		}
		n.CreatedAt, change.From = old.CreatedAt, string(old.State)
		if !samePrepared(old, n) {
			return conflict("what a revision holds never changes")
		}
		if err := reaches(nod.RevisionMachine, &old, n.State, (*nod.Revision).On, func(x *nod.Revision) nod.RevisionState { return x.State }); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE revisions SET version = ?, state = ?, commits = ?, receipt = ?, pull_request = ?, updated_at = ? WHERE task = ? AND sha = ?`,
			n.Version, n.State, columns[0], columns[2], columns[3], n.UpdatedAt.UnixMilli(), n.Task, n.SHA); err != nil {
			return err
		}
	}
	t.committed(func() { *v = n })
	if change.From == change.To {
		return nil
	}
	return t.audit(n.Task, nod.EventRevision, by, n.SHA, change)
}

// pinnable reports whether a new revision is of its task's latest run and that
// run has stopped.
func (t *txn) pinnable(v nod.Revision) error {
	run, err := one("run", t.row(`SELECT `+runColumns+` FROM runs WHERE task = ? ORDER BY number DESC LIMIT 1`, v.Task), scanRun)
	switch {
	case err != nil:
		return err
	case run.ID != v.Run:
		return conflict("a revision may be pinned by the latest run of its task only")
	case run.State != nod.RunStopped:
		return conflict("a revision may be pinned once its run has stopped; it is " + string(run.State))
	}
	return nil
}

// samePrepared reports whether n is what was prepared as old. GitHub's own word
// on it may still change: the pull request, the commits that it made of the
// prepared ones, and whether they are verified.
// In a terminal state nothing else may.
func samePrepared(old, n nod.Revision) bool {
	same := old.Run == n.Run && old.BaseRef == n.BaseRef && old.BaseSHA == n.BaseSHA && old.Branch == n.Branch && old.Tree == n.Tree &&
		old.DiffDigest == n.DiffDigest && len(old.Commits) == len(n.Commits) && len(old.Files) == len(n.Files)
	if !same {
		return false
	}
	for i := range old.Files {
		if old.Files[i] != n.Files[i] {
			return false
		}
	}
	for i := range old.Commits {
		a, b := old.Commits[i], n.Commits[i]
		if a.SHA != b.SHA || a.Tree != b.Tree || a.Message != b.Message || a.Subject != b.Subject || !slices.Equal(a.Parents, b.Parents) {
			return false
		}
	}
	if nod.RevisionMachine.Terminal(old.State) {
		return old.State == n.State && reflect.DeepEqual(old.Check, n.Check)
	}
	return true
}
