package nod_test

import (
	"testing"

	"pgregory.net/rapid"

	"nod"
)

// forbidden walks a machine with random events and fails when it leaves a
// terminal state, reaches one that the table does not name, or moves on a refusal.
func walk[S, E ~string](t *testing.T, m nod.Machine[S, E]) {
	t.Helper()
	events := append(m.Events(), "no such event", "")
	t.Run(m.Noun, rapid.MakeCheck(func(t *rapid.T) {
		at := m.Start
		for _, on := range rapid.SliceOfN(rapid.SampledFrom(events), 0, 40).Draw(t, "events") {
			was := at
			to, err := m.Next(at, on)
			if err != nil {
				if nod.CodeOf(err) != nod.Conflict {
					t.Fatalf("refusal of %q on %q has code %s, want conflict", on, was, nod.CodeOf(err))
				}
				if to != "" {
					t.Fatalf("refusal of %q on %q still names state %q", on, was, to)
				}
				continue
			}
			if m.Terminal(was) {
				t.Fatalf("%q left terminal state %q by %q", m.Noun, was, on)
			}
			if !m.Known(to) {
				t.Fatalf("%q by %q leads to unknown state %q", was, on, to)
			}
			at = to
		}
	}))
}

func TestNoSequenceOfEventsLeavesTheTables(t *testing.T) {
	walk(t, nod.TaskMachine)
	walk(t, nod.RunMachine)
	walk(t, nod.EnvironmentMachine)
	walk(t, nod.DecisionMachine)
	walk(t, nod.RevisionMachine)
	walk(t, nod.DeliveryMachine)
	walk(t, nod.EffectMachine)
}

func TestTerminalStates(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		want     bool
	}{
		{"completed task", nod.TaskMachine.Terminal(nod.TaskCompleted), true},
		{"failed task", nod.TaskMachine.Terminal(nod.TaskFailed), true},
		{"cancelled task", nod.TaskMachine.Terminal(nod.TaskCancelled), true},
		{"task in review", nod.TaskMachine.Terminal(nod.TaskReadyForReview), false},
		{"stopped run", nod.RunMachine.Terminal(nod.RunStopped), true},
		{"failed run", nod.RunMachine.Terminal(nod.RunFailed), true},
		{"interrupted run", nod.RunMachine.Terminal(nod.RunInterrupted), false},
		{"deleted environment", nod.EnvironmentMachine.Terminal(nod.EnvironmentDeleted), true},
		{"answered decision", nod.DecisionMachine.Terminal(nod.DecisionAnswered), true},
		{"unknown effect", nod.EffectMachine.Terminal(nod.EffectUnknown), false},
		{"state nobody knows", nod.TaskMachine.Terminal("sideways"), true},
	} {
		if c.terminal != c.want {
			t.Errorf("%s: terminal is %v, want %v", c.name, c.terminal, c.want)
		}
	}
}

// TestPullRequestIsTheOnlyWayToCompletion holds the rule that a task completes
// only after its pull request was read back and merged.
func TestPullRequestIsTheOnlyWayToCompletion(t *testing.T) {
	for from, row := range nod.TaskMachine.Table {
		for on, to := range row {
			if to == nod.TaskCompleted && (from != nod.TaskReadyForReview || on != nod.TaskMerge) {
				t.Errorf("%q by %q reaches completed", from, on)
			}
		}
	}
}

func TestRunPausedByEndingItsProcessCannotContinue(t *testing.T) {
	for _, on := range []nod.RunEvent{nod.RunContinue, nod.RunInterrupt} {
		r := nod.Run{State: nod.RunPaused}
		if err := r.On(on); nod.CodeOf(err) != nod.Conflict {
			t.Errorf("%q of a run without a process: %v, want a conflict", on, err)
		}
		r.Cooperative = true
		if err := r.On(on); err != nil {
			t.Errorf("%q of a cooperative pause: %v", on, err)
		}
	}
	if r := (nod.Run{State: nod.RunPaused}); r.Live() {
		t.Error("a run paused by ending its process counts as live")
	}
}
