package store

import (
	"nod"
)

const runColumns = `id, version, task, number, environment, agent, state, cooperative, session, attempt, prompt, reason, created_at, updated_at`

func scanRun(r scanner) (v nod.Run, err error) {
	err = r.Scan(&v.ID, &v.Version, &v.Task, &v.Number, toText{&v.Environment}, &v.Agent, &v.State, &v.Cooperative, &v.Session,
		&v.Attempt, &v.Prompt, &v.Reason, toTime{&v.CreatedAt}, toTime{&v.UpdatedAt})
	return v, err
}

// putRun inserts or swaps one run and appends the event of its change of state.
func (t *txn) putRun(by nod.Actor, v *nod.Run) error {
	n := *v
	n.Session, n.Reason, n.UpdatedAt = t.s.redact.text(n.Session), t.s.redact.text(n.Reason), t.now
	n.Version++
	change := nod.StateChange{ID: n.ID, To: string(n.State), Why: n.Reason}
	if v.Version == 0 {
		if n.State != nod.RunMachine.Start {
			return conflict("a run begins as " + string(nod.RunMachine.Start))
		}
		var last int
		if err := t.row(`SELECT coalesce(max(number), 0) FROM runs WHERE task = ?`, n.Task).Scan(&last); err != nil {
			return err
		}
		if n.Number <= last {
			return conflict("the number of a run must be above that of its task's last one")
		}
		n.CreatedAt = t.now
		if _, err := t.exec(`INSERT INTO runs (`+runColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			n.ID, n.Version, n.Task, n.Number, text(n.Environment), n.Agent, n.State, n.Cooperative, n.Session, n.Attempt, n.Prompt, n.Reason,
			n.CreatedAt.UnixMilli(), n.UpdatedAt.UnixMilli()); err != nil {
			return err
		}
	} else {
		old, err := one("run", t.row(`SELECT `+runColumns+` FROM runs WHERE id = ?`, n.ID), scanRun)
		if err != nil {
			return err
		}
		if err := swappable("run", n.ID, old.Version, v.Version); err != nil {
			return err
		}
		n.CreatedAt, change.From = old.CreatedAt, string(old.State)
		switch {
		case old.Done():
			return conflict("a run that is " + string(old.State) + " never changes")
		case old.Task != n.Task || old.Number != n.Number:
			return conflict("a run never changes its task or its number")
		}
		if err := reaches(nod.RunMachine, &old, n.State, (*nod.Run).On, func(x *nod.Run) nod.RunState { return x.State }); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE runs SET version = ?, environment = ?, agent = ?, state = ?, cooperative = ?, session = ?, attempt = ?, prompt = ?,
			reason = ?, updated_at = ? WHERE id = ?`, n.Version, text(n.Environment), n.Agent, n.State, n.Cooperative, n.Session, n.Attempt,
			n.Prompt, n.Reason, n.UpdatedAt.UnixMilli(), n.ID); err != nil {
			return err
		}
	}
	t.committed(func() { *v = n })
	if change.From == change.To {
		return nil
	}
	return t.audit(n.Task, nod.EventRunState, by, "", change)
}
