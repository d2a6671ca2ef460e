package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func changes(t *testing.T, open Open) {
	t.Run("ChangeIsReadBackAsItWasWritten", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, env, run := f.running()
		f.pass(time.Second)
		run.State, run.Session = nod.RunStopped, "s-1"
		env.State, env.BaseSHA, env.Attestation = nod.EnvironmentStopped, "base", nod.Attestation{Isolation: "namespaces", UID: 1000, Interfaces: []string{"lo"}}
		f.apply(nod.Change{Runs: []*nod.Run{run}, Environments: []*nod.Environment{env}})
		diff := []byte("+hello\n")
		rev := &nod.Revision{SHA: "abc", Task: task.ID, Run: run.ID, State: nod.RevisionPrepared, BaseRef: "main", BaseSHA: "base", Branch: "nod/x",
			Tree: "tree", Commits: []nod.Commit{{SHA: "abc", Tree: "tree", Parents: []string{"base"}, Subject: "feat: x", Message: "feat: x\n"}},
			Files: []nod.FileChange{{Path: "a", Status: "M", Added: 1}}, DiffDigest: nod.Digest(diff),
			Check: nod.CheckReceipt{SHA: "abc", Command: []string{"make"}, Duration: time.Second}}
		d := &nod.Decision{ID: f.id("d"), Task: task.ID, Kind: nod.Review, Cause: nod.CauseReadyToPush, Subject: "Ready to push?", CommitSHA: "abc",
			State: nod.DecisionOpen}
		e := &nod.Effect{Key: "k", Task: task.ID, Repo: repo.Key(), Kind: nod.EffectPush, Intent: []byte(`{"sha":"abc"}`), State: nod.EffectIntended}
		f.apply(nod.Change{Revisions: []*nod.Revision{rev}, Decisions: []*nod.Decision{d}, Effects: []*nod.Effect{e}, Blobs: [][]byte{diff}})

		got := f.caseOf(task.ID)
		want := nod.Case{Task: *task, Run: run, Environment: env, Revision: rev, Decisions: []nod.Decision{*d}, Effects: []nod.Effect{*e}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("case (-written +read):\n%s", d)
		}
		if run.Version != 2 || !run.UpdatedAt.Equal(f.now()) || !run.CreatedAt.Equal(f.now().Add(-time.Second)) {
			t.Errorf("versions and times were not set in place: %+v", run)
		}
		if b, err := f.Blob(f.ctx, rev.DiffDigest); err != nil || string(b) != string(diff) {
			t.Errorf("blob: %q, %v", b, err)
		}
		of, err := f.EventsOfCommit(f.ctx, "abc")
		if err != nil || len(of) != 2 {
			t.Errorf("events of the commit: %d, %v; want the revision's and the review's", len(of), err)
		}
	})
	t.Run("StaleVersionChangesNothing", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task := f.task()
		stale, other := *task, f.task()
		task.Title = "Greet again"
		f.apply(nod.Change{Tasks: []*nod.Task{task}})
		stale.Title, other.Title = "late", "late"
		was := stale
		f.refuses("a stale version", nod.Conflict, nod.Change{Tasks: []*nod.Task{other, &stale}})
		if stale != was || other.Version != 1 {
			t.Errorf("a refused change altered its values: %+v", stale)
		}
		if got := f.caseOf(other.ID).Task; got.Title != "Greet" {
			t.Errorf("half of a refused change was written: %q", got.Title)
		}
	})
	t.Run("ChangeNeedsAnActor", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		wants(t, "no actor", f.Apply(f.ctx, &nod.Change{}), nod.Invalid)
	})
	t.Run("StateThatNoSingleEventReachesIsRefused", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		for _, to := range nod.TaskMachine.States() {
			task := f.task()
			task.State = to
			reachable := to == nod.TaskQueued || to == nod.TaskRunning || to == nod.TaskCancelled
			if !reachable {
				f.refuses("queued to "+string(to), nod.Conflict, nod.Change{Tasks: []*nod.Task{task}})
			} else {
				f.apply(nod.Change{Tasks: []*nod.Task{task}})
			}
		}
		_, _, run := f.running()
		run.State = nod.RunPaused
		f.refuses("starting to paused", nod.Conflict, nod.Change{Runs: []*nod.Run{run}})
		run.State = nod.RunRunning
		f.apply(nod.Change{Runs: []*nod.Run{run}})
		run.State = nod.RunPaused
		f.apply(nod.Change{Runs: []*nod.Run{run}})
		run.State = nod.RunRunning
		f.refuses("a pause that ended the process cannot continue", nod.Conflict, nod.Change{Runs: []*nod.Run{run}})
		f.refuses("a task that begins at work", nod.Conflict, nod.Change{Tasks: []*nod.Task{{ID: "x", Repo: repo, State: nod.TaskRunning}}})
	})
	t.Run("WhatEndedNeverChanges", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, env, run := f.running()
		run.State, task.State = nod.RunFailed, nod.TaskCancelled
		f.apply(nod.Change{Tasks: []*nod.Task{task}, Runs: []*nod.Run{run}})
		env.State = nod.EnvironmentDeleted
		f.apply(nod.Change{Environments: []*nod.Environment{env}})
		for name, c := range map[string]nod.Change{
			"task":        {Tasks: []*nod.Task{with(*task, func(v *nod.Task) { v.Reason = "rewritten" })}},
			"run":         {Runs: []*nod.Run{with(*run, func(v *nod.Run) { v.Reason = "rewritten" })}},
			"environment": {Environments: []*nod.Environment{with(*env, func(v *nod.Environment) { v.BaseSHA = "rewritten" })}},
		} {
			f.refuses(name, nod.Conflict, c)
		}
		task.CommentID = 99 // GitHub tells later which comment it became
		f.apply(nod.Change{Tasks: []*nod.Task{task}})
	})
	t.Run("EveryChangeOfStateHasItsEvent", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, _, run := f.running()
		run.State = nod.RunRunning
		f.apply(nod.Change{Runs: []*nod.Run{run}})
		run.Session = "no change of state"
		f.apply(nod.Change{Runs: []*nod.Run{run}})
		want := []nod.EventKind{nod.EventTaskCreated, nod.EventTaskState, nod.EventEnvironment, nod.EventRunState, nod.EventRunState}
		if got := f.kinds(task.ID); !slices.Equal(got, want) {
			t.Errorf("kinds are %v, want %v", got, want)
		}
	})
	t.Run("TasksAreFoundByStateAndByIssue", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		first := f.task()
		first.State = nod.TaskCancelled
		f.apply(nod.Change{Tasks: []*nod.Task{first}})
		second := with(*first, func(v *nod.Task) { v.ID, v.Version, v.State = f.id("t"), 0, nod.TaskQueued })
		f.apply(nod.Change{Tasks: []*nod.Task{second}})
		f.refuses("two tasks under way for one issue", nod.Conflict, nod.Change{Tasks: []*nod.Task{
			with(*second, func(v *nod.Task) { v.ID, v.Version = f.id("t"), 0 })}})
		shout := nod.Repo{Host: "GITHUB.test", Owner: "ACME", Name: "WEB"}
		if got, err := f.TaskOf(f.ctx, shout, first.Issue); err != nil || got.ID != second.ID {
			t.Errorf("task of the issue is %s, %v; want the newest", got.ID, err)
		}
		_, err := f.TaskOf(f.ctx, repo, 4711)
		wants(t, "an issue without a task", err, nod.NotFound)
		for want, states := range map[int][]nod.TaskState{2: nil, 1: {nod.TaskQueued, nod.TaskFailed}, 0: {nod.TaskFailed}} {
			if got, err := f.Tasks(f.ctx, states...); err != nil || len(got) != want {
				t.Errorf("%d tasks in %v, %v; want %d", len(got), states, err, want)
			}
		}
		_, err = f.Case(f.ctx, "nothing")
		wants(t, "a task that is not there", err, nod.NotFound)
	})
	t.Run("WhatIdentifiesATaskNeverChanges", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task := f.task()
		task.Untrusted = true
		f.apply(nod.Change{Tasks: []*nod.Task{task}})
		for name, set := range map[string]func(*nod.Task){
			"untrusted": func(v *nod.Task) { v.Untrusted = false },
			"issue":     func(v *nod.Task) { v.Issue++ },
			"repo":      func(v *nod.Task) { v.Repo.Name = "other" },
			"requested": func(v *nod.Task) { v.RequestedBy = host },
		} {
			f.refuses(name, nod.Conflict, nod.Change{Tasks: []*nod.Task{with(*task, set)}})
		}
	})
}

// with returns a copy of v after set.
func with[T any](v T, set func(*T)) *T {
	set(&v)
	return &v
}
