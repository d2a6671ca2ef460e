package bot_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

// wants records what the host wants done with issue 1's task.
func (w *world) wants(kind nod.ActKind, words string) {
	w.t.Helper()
	w.seq++
	if _, err := w.store.RecordAct(w.t.Context(), nod.Act{ID: "a" + string(rune('0'+w.seq)), Task: w.task(1).Task.ID, Kind: kind, Words: words,
		By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
		w.t.Fatal(err)
	}
}

// acted returns how the acts on issue 1's task went.
func (w *world) acted() (notes []string) {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), w.task(1).Task.ID, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == nod.EventActFinished {
			notes = append(notes, string(e.Data[strings.Index(string(e.Data), `"state"`):]))
		}
	}
	return notes
}

func runIs(s nod.RunState) func(nod.Case) bool {
	return func(c nod.Case) bool { return c.Run != nil && c.Run.State == s }
}

// TestPausedAgentGoesOnWhereItWas: the process ends, what it asked is superseded, the
// environment stays, and a new process resumes the session with a briefing.
func TestPausedAgentGoesOnWhereItWas(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		stopped := 0
		w.agent = func(a *fakeSession) nod.Result {
			if w.sessions.Load() == 1 {
				a.asks("Bash", `{"command":"make"}`)
				<-a.ctx.Done()
				stopped++
				return nod.Result{Reason: "interrupted"}
			}
			return nod.Result{OK: true, Text: "Done."}
		}
		w.issue(1, ada)
		w.label(1, ada)
		asked := w.until("the agent asks", waitingFor(nod.CauseTool)).Open()[0]
		w.wants(nod.ActResume, "")
		w.until("refused", func(nod.Case) bool { return len(w.acted()) == 1 })
		w.wants(nod.ActPause, "")
		c := w.until("paused", runIs(nod.RunPaused))
		time.Sleep(time.Hour)
		synctest.Wait()
		c = w.task(1)
		d, err := w.store.Decision(t.Context(), asked.ID)
		if err != nil || d.State != nod.DecisionSuperseded {
			t.Errorf("what it asked is %s, %v", d.State, err)
		}
		if stopped != 1 || w.sessions.Load() != 1 || c.Task.State != nod.TaskRunning || c.Run.State != nod.RunPaused || c.Environment.State != nod.EnvironmentRunning {
			t.Errorf("stopped %d of %d sessions; task %s, run %s, environment %s", stopped, w.sessions.Load(), c.Task.State, c.Run.State, c.Environment.State)
		}
		w.wants(nod.ActPause, "")
		w.until("refused", func(nod.Case) bool { return len(w.acted()) == 3 })
		w.wants(nod.ActResume, "and be quick")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if n := len(w.prompts); n != 2 || !strings.Contains(w.prompts[1], "be quick") || !strings.Contains(w.prompts[1], "never answered") {
			t.Errorf("the new process was told: %s", w.prompts[n-1])
		}
		notes := strings.Join(w.acted(), "\n")
		for _, want := range []string{"the agent is not paused", `"note":"paused"`, "no agent is running", `"note":"goes on"`} {
			if !strings.Contains(notes, want) {
				t.Errorf("nobody was told %q: %s", want, notes)
			}
		}
		w.verifyChain()
	})
}

// TestPauseHoldsAcrossARestart: only a person ends it. The environment was stopped by
// the restart, and is started anew.
func TestPauseHoldsAcrossARestart(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			if w.sessions.Load() == 1 {
				<-a.ctx.Done()
				return nod.Result{}
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("it runs", runIs(nod.RunRunning))
		w.wants(nod.ActPause, "")
		w.until("paused", runIs(nod.RunPaused))
		w.halt()
		w.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if c := w.task(1); c.Run.State != nod.RunPaused || w.sessions.Load() != 1 || len(w.running) != 0 {
			t.Errorf("run %s, %d sessions, environments %v", c.Run.State, w.sessions.Load(), w.running)
		}
		w.wants(nod.ActResume, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
	})
}

// TestPausedTaskCanBeCancelled, and then nothing of it is left running.
func TestPausedTaskCanBeCancelled(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result { <-a.ctx.Done(); return nod.Result{} }
		w.issue(1, ada)
		w.label(1, ada)
		w.until("it runs", runIs(nod.RunRunning))
		w.wants(nod.ActPause, "")
		w.until("paused", runIs(nod.RunPaused))
		w.wants(nod.ActCancel, "")
		w.until("nothing is left", func(c nod.Case) bool {
			return c.Task.State == nod.TaskCancelled && c.Run.State == nod.RunStopped && c.Environment.State == nod.EnvironmentDeleted
		})
	})
}
