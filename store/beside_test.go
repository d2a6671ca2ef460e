package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"nod"
	"nod/store"
)

// TestCommitOfAnotherProcessWakesWait opens the file twice, as two processes do.
func TestCommitOfAnotherProcessWakesWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nod.db")
	serving, err := store.Open(t.Context(), store.Config{Path: path, Beside: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	host, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(host.Close(), serving.Close()); err != nil {
			t.Error(err)
		}
	})
	task := &nod.Task{ID: "t1", Repo: nod.Repo{Host: "h", Owner: "o", Name: "n"}, Issue: 1, State: nod.TaskQueued}
	d := &nod.Decision{ID: "d1", Task: "t1", Kind: nod.Approval, Cause: nod.CauseTool, State: nod.DecisionOpen, Deadline: time.Now().Add(time.Hour)}
	d.SetInput("make")
	if err := serving.Apply(t.Context(), &nod.Change{By: nod.Supervisor(), Tasks: []*nod.Task{task}, Decisions: []*nod.Decision{d}}); err != nil {
		t.Fatal(err)
	}
	before, err := serving.Events(t.Context(), "t1", 0, 10)
	if err != nil || len(before) != 2 {
		t.Fatalf("%v, %v", before, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got, closed := make(chan []nod.Event), make(chan nod.Decision)
	go func() {
		events, err := serving.Wait(ctx, "t1", before[1].ID)
		if err != nil {
			t.Error(err)
		}
		got <- events
	}()
	go func() {
		d, _, err := serving.Closed(ctx, "d1")
		if err != nil {
			t.Error(err)
		}
		closed <- d
	}()
	if _, err := host.RecordAnswer(t.Context(), nod.Answer{Decision: "d1", Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
		t.Fatal(err)
	}
	if events := <-got; len(events) != 1 || events[0].Kind != nod.EventDecisionClosed || events[0].By.Kind != nod.ActorHost {
		t.Errorf("woken with %+v", events)
	}
	if d := <-closed; !d.Permits() || d.AnsweredBy.Kind != nod.ActorHost {
		t.Errorf("whoever waits for the decision got %+v", d)
	}
}
