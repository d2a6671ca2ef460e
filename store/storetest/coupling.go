package storetest

import (
	"testing"

	"nod"
)

func coupling(t *testing.T, open Open) {
	t.Run("OneUnfinishedRunPerTaskAndPerEnvironment", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, env, run := f.running()
		second := &nod.Run{ID: f.id("r"), Task: task.ID, Number: 2, State: nod.RunStarting}
		f.refuses("a second run of the task", nod.Conflict, nod.Change{Runs: []*nod.Run{second}})
		other := f.task()
		f.refuses("an environment that has a run", nod.Conflict, nod.Change{Runs: []*nod.Run{
			{ID: f.id("r"), Task: other.ID, Number: 1, Environment: env.ID, State: nod.RunStarting}}})
		free := &nod.Environment{ID: f.id("e"), Task: task.ID, State: nod.EnvironmentProvisioning}
		f.apply(nod.Change{Environments: []*nod.Environment{free}})
		f.refuses("an environment of another task", nod.Invalid, nod.Change{Runs: []*nod.Run{
			{ID: f.id("r"), Task: other.ID, Number: 1, Environment: free.ID, State: nod.RunStarting}}})
		run.State = nod.RunFailed
		second.Environment = env.ID
		f.apply(nod.Change{Runs: []*nod.Run{second, run}}) // whatever their order
		run.State = nod.RunStarting
		f.refuses("a run that ended", nod.Conflict, nod.Change{Runs: []*nod.Run{run}})
		f.refuses("a number below the last", nod.Conflict, nod.Change{Runs: []*nod.Run{
			{ID: f.id("r"), Task: task.ID, Number: 1, State: nod.RunStarting}}})
	})
	t.Run("RunStartsOnlyForAnApprovedTask", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task := f.task()
		task.Approved, task.State = false, nod.TaskRunning
		run := &nod.Run{ID: f.id("r"), Task: task.ID, Number: 1, State: nod.RunStarting}
		f.refuses("no approval", nod.Conflict, nod.Change{Tasks: []*nod.Task{task}, Runs: []*nod.Run{run}})
		task.Approved = true
		f.apply(nod.Change{Tasks: []*nod.Task{task}, Runs: []*nod.Run{run}})
	})
	t.Run("TaskAwaitsGuidanceExactlyWhileSomethingBlocksIt", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, _, run := f.running()
		blocking := f.approval(task, run.ID)
		blocking.Blocking = true
		f.refuses("blocked but running", nod.Conflict, nod.Change{Decisions: []*nod.Decision{blocking}})
		awaiting := with(*task, func(v *nod.Task) { v.State = nod.TaskAwaitingGuidance })
		f.refuses("awaiting nothing", nod.Conflict, nod.Change{Tasks: []*nod.Task{awaiting}})
		f.apply(nod.Change{Tasks: []*nod.Task{awaiting}, Decisions: []*nod.Decision{blocking}})
		f.refuses("running on while blocked", nod.Conflict, nod.Change{Tasks: []*nod.Task{with(*awaiting, func(v *nod.Task) { v.State = nod.TaskRunning })}})
		f.refuses("cancelled while something still asks", nod.Conflict,
			nod.Change{Tasks: []*nod.Task{with(*awaiting, func(v *nod.Task) { v.State = nod.TaskCancelled })}})
		superseded := with(*blocking, func(v *nod.Decision) { v.State = nod.DecisionSuperseded })
		f.refuses("the last question closed but the task waits on", nod.Conflict, nod.Change{Decisions: []*nod.Decision{superseded}})
		// An answer comes by itself; the conductor moves the task when it sees it.
		if _, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: blocking.ID, Answer: nod.Allow, By: host}); err != nil {
			t.Fatal(err)
		}
		awaiting.Briefing = "a change while it waits"
		f.apply(nod.Change{Tasks: []*nod.Task{awaiting}})
		awaiting.State = nod.TaskRunning
		f.apply(nod.Change{Tasks: []*nod.Task{awaiting}})
	})
	t.Run("QueuedTaskMayBeBlocked", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task := f.task()
		d := &nod.Decision{ID: f.id("d"), Task: task.ID, Kind: nod.Question, Cause: nod.CauseUntrustedStart, Blocking: true,
			Options: []string{nod.Allow, nod.Deny}, State: nod.DecisionOpen}
		d.SetInput("the frozen issue")
		f.apply(nod.Change{Decisions: []*nod.Decision{d}, Blobs: [][]byte{[]byte("the frozen issue")}})
		task.State = nod.TaskRunning
		f.refuses("started before the answer", nod.Conflict, nod.Change{Tasks: []*nod.Task{task}})
	})
	t.Run("EightDecisionsOfARunWaitAtOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, _, run := f.running()
		var all []*nod.Decision
		for range nod.MaxWaiting {
			d := f.approval(task, run.ID)
			f.apply(nod.Change{Decisions: []*nod.Decision{d}})
			all = append(all, d)
		}
		ninth := f.approval(task, run.ID)
		f.refuses("the ninth", nod.RateLimited, nod.Change{Decisions: []*nod.Decision{ninth}})
		all[0].State = nod.DecisionSuperseded
		f.apply(nod.Change{Decisions: []*nod.Decision{ninth, all[0]}})
	})
	t.Run("OnlyTheLatestStoppedRunPinsARevision", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, _, run := f.running()
		rev := func(run string) *nod.Revision {
			return &nod.Revision{SHA: f.id("sha"), Task: task.ID, Run: run, State: nod.RevisionPrepared}
		}
		f.refuses("a live run", nod.Conflict, nod.Change{Revisions: []*nod.Revision{rev(run.ID)}})
		run.State = nod.RunStopped
		f.apply(nod.Change{Runs: []*nod.Run{run}})
		first := rev(run.ID)
		f.apply(nod.Change{Revisions: []*nod.Revision{first}})
		second := &nod.Run{ID: f.id("r"), Task: task.ID, Number: 2, State: nod.RunStarting}
		f.apply(nod.Change{Runs: []*nod.Run{second}})
		f.refuses("an older run", nod.Conflict, nod.Change{Revisions: []*nod.Revision{rev(run.ID)}})
		second.State = nod.RunFailed
		f.apply(nod.Change{Runs: []*nod.Run{second}})
		f.refuses("a failed run", nod.Conflict, nod.Change{Revisions: []*nod.Revision{rev(second.ID)}})
		first.State = nod.RevisionPushed
		f.refuses("pushed without approval", nod.Conflict, nod.Change{Revisions: []*nod.Revision{first}})
		first.State, first.Tree = nod.RevisionApproved, "another tree"
		f.refuses("another tree than prepared", nod.Conflict, nod.Change{Revisions: []*nod.Revision{first}})
	})
}
