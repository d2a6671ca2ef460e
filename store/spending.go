package store

import (
	"context"
	"encoding/json"
	"time"

	"nod"
)

const spendingQuery = `SELECT e.stream, t.repo_key, e.at, e.data FROM events e JOIN tasks t ON t.id = e.stream WHERE e.kind = 'usage' AND e.stream = ?1
	UNION ALL
	SELECT e.stream, t.repo_key, e.at, e.data FROM events e JOIN tasks t ON t.id = e.stream WHERE e.kind = 'usage' AND e.at >= ?2 AND e.stream <> ?1`

// used is one usage event and what it counts towards.
type used struct {
	task, repo string
	at         time.Time
	turn       nod.TurnUsage
}

func scanUsed(r scanner) (u used, err error) {
	var raw json.RawMessage
	if err := r.Scan(&u.task, &u.repo, toTime{&u.at}, toRaw{&raw}); err != nil {
		return u, err
	}
	return u, json.Unmarshal(raw, &u.turn)
}

// Spending sums what the usage events say: of the run and the task whenever it was,
// of the task's repository and of all of them since a time.
func (s *Store) Spending(ctx context.Context, task nod.Task, run string, since time.Time) (nod.Spending, error) {
	var sum nod.Spending
	all, err := list(ctx, s.readers, scanUsed, spendingQuery, task.ID, since.UnixMilli())
	for _, u := range all {
		if u.task == task.ID {
			sum.Task = sum.Task.Add(u.turn)
			if u.turn.Run == run {
				sum.Run = sum.Run.Add(u.turn)
			}
		}
		if u.at.UnixMilli() >= since.UnixMilli() {
			sum.Day = sum.Day.Add(u.turn)
			if u.repo == task.Repo.Key() {
				sum.Repo = sum.Repo.Add(u.turn)
			}
		}
	}
	return sum, mapped(ctx, err)
}
