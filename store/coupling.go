package store

import (
	"fmt"

	"nod"
)

// standing is what couples a task to its decisions and runs.
type standing struct {
	state    nod.TaskState
	approved bool
	blocked  bool // a blocking decision is open
	starting bool // a run is starting
}

const standingQuery = `SELECT state, approved,
	EXISTS (SELECT 1 FROM decisions WHERE task = tasks.id AND state = 'open' AND blocking = 1),
	EXISTS (SELECT 1 FROM runs WHERE task = tasks.id AND state IN ('starting', 'running'))
	FROM tasks WHERE id = ?`

func (t *txn) standing(task string) (s standing, found bool, err error) {
	err = t.row(standingQuery, task).Scan(&s.state, &s.approved, &s.blocked, &s.starting)
	if isNone(err) {
		return s, false, nil
	}
	return s, err == nil, err
}

// touched are the tasks whose coupling c may change.
func touched(c *nod.Change) []string {
	var ids []string
	for _, v := range unique(c.Tasks) {
		ids = append(ids, v.ID)
	}
	for _, v := range unique(c.Decisions) {
		ids = append(ids, v.Task)
	}
	for _, v := range unique(c.Runs) {
		ids = append(ids, v.Task)
	}
	return ids
}

// before reads how the tasks that c touches stand before it.
func (t *txn) before(c *nod.Change) (map[string]standing, error) {
	was := map[string]standing{}
	for _, id := range touched(c) {
		s, found, err := t.standing(id)
		if err != nil {
			return nil, err
		}
		if found {
			was[id] = s
		}
	}
	return was, nil
}

// coupled refuses what must not hold together when c is done:
//
//   - a task with an open blocking decision is queued or awaiting_guidance;
//   - a task that came to await guidance, or whose last blocking decision c
//     closed, awaits guidance only while a blocking decision is open. (An answer
//     or an expiry is recorded by itself; the task waits until the conductor has
//     seen it.)
//   - an agent starts or runs only for an approved task.
func (t *txn) coupled(c *nod.Change, before map[string]standing) error {
	for _, id := range touched(c) {
		is, found, err := t.standing(id)
		if err != nil {
			return err
		}
		was := before[id]
		switch {
		case !found:
			return nod.E(nod.NotFound, "there is no such task", nil)
		case is.blocked && is.state != nod.TaskQueued && is.state != nod.TaskAwaitingGuidance:
			return conflict(fmt.Sprintf("a task that is %q cannot have a blocking decision open", is.state))
		case !is.blocked && is.state == nod.TaskAwaitingGuidance && (was.state != is.state || was.blocked):
			return conflict("a task awaits guidance only while a blocking decision is open")
		case is.starting && !is.approved:
			return conflict("a run starts only for a task that was approved")
		}
	}
	return nil
}
