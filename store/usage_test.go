package store

import (
	"path/filepath"
	"testing"
	"time"

	"nod"
)

func TestUsageIsSummedOverTurns(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "nod.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	task := &nod.Task{ID: "t0123456789abcdef", Repo: nod.Repo{Host: "h", Owner: "o", Name: "n"}, Issue: 1, State: nod.TaskQueued,
		RequestedBy: nod.Supervisor(), Rework: "Say which line."}
	ch := &nod.Change{By: nod.Supervisor(), Tasks: []*nod.Task{task}}
	for _, cost := range []float64{0.25, 0.5, 0.125} { // of a turn each
		in, out := int64(1000), int64(10)
		e := nod.NewEvent(task.ID, nod.Audit, nod.EventUsage, nod.Supervisor(), nod.TurnUsage{Run: "r", InputTokens: &in, OutputTokens: &out, CostUSD: &cost})
		ch.Events = append(ch.Events, &e)
	}
	one := int64(1)
	free := nod.NewEvent(task.ID, nod.Audit, nod.EventUsage, nod.Supervisor(), nod.TurnUsage{Run: "r", InputTokens: &one, OutputTokens: &one})
	ch.Events = append(ch.Events, &free)
	if err := s.Apply(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	c, err := s.Case(t.Context(), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	if u := c.Usage; u.InputTokens != 3001 || u.OutputTokens != 31 || u.CostUSD == nil || *u.CostUSD != 0.875 {
		t.Errorf("used %+v", u)
	}
	if c.Task.Rework != "Say which line." {
		t.Errorf("the task lost what was asked for: %+v", c.Task)
	}
}
