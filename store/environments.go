package store

import "nod"

const environmentColumns = `id, version, task, driver, base_sha, state, attestation, created_at, updated_at`

func scanEnvironment(r scanner) (v nod.Environment, err error) {
	err = r.Scan(&v.ID, &v.Version, &v.Task, &v.Driver, &v.BaseSHA, &v.State, toJSON{&v.Attestation}, toTime{&v.CreatedAt}, toTime{&v.UpdatedAt})
	return v, err
}

// putEnvironment inserts or swaps one environment and appends the event of its
// change of state.
func (t *txn) putEnvironment(by nod.Actor, v *nod.Environment) error {
	n := *v
	n.UpdatedAt = t.now
	n.Version++
	attestation, err := asJSON(n.Attestation)
	if err != nil {
		return err
	}
	change := nod.StateChange{ID: n.ID, To: string(n.State)}
	if v.Version == 0 {
		if n.State != nod.EnvironmentMachine.Start {
			return conflict("an environment begins as " + string(nod.EnvironmentMachine.Start))
		}
		n.CreatedAt = t.now
		if _, err := t.exec(`INSERT INTO environments (`+environmentColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			n.ID, n.Version, n.Task, n.Driver, n.BaseSHA, n.State, attestation, n.CreatedAt.UnixMilli(), n.UpdatedAt.UnixMilli()); err != nil {
			return err
		}
	} else {
		old, err := one("environment", t.row(`SELECT `+environmentColumns+` FROM environments WHERE id = ?`, n.ID), scanEnvironment)
		if err != nil {
			return err
		}
		if err := swappable("environment", n.ID, old.Version, v.Version); err != nil {
			return err
		}
		n.CreatedAt, change.From = old.CreatedAt, string(old.State)
		switch {
		case nod.EnvironmentMachine.Terminal(old.State):
			return conflict("an environment that is " + string(old.State) + " never changes")
		case old.Task != n.Task || old.Driver != n.Driver:
			return conflict("an environment never changes its task or its driver")
		}
		if err := reaches(nod.EnvironmentMachine, &old, n.State, (*nod.Environment).On, func(x *nod.Environment) nod.EnvironmentState { return x.State }); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE environments SET version = ?, base_sha = ?, state = ?, attestation = ?, updated_at = ? WHERE id = ?`,
			n.Version, n.BaseSHA, n.State, attestation, n.UpdatedAt.UnixMilli(), n.ID); err != nil {
			return err
		}
	}
	t.committed(func() { *v = n })
	if change.From == change.To {
		return nil
	}
	return t.audit(n.Task, nod.EventEnvironment, by, "", change)
}
