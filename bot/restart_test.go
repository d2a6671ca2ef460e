package bot_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

// TestRestartWhileTheAgentWaits: what the live run had asked is superseded, the
// run is resumed with a briefing, and the question comes again.
func TestRestartWhileTheAgentWaits(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			if !a.asks("Write", `{"file_path":"a"}`).Allow {
				return nod.Result{Reason: "denied"}
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		first := w.until("the agent asks", waitingFor(nod.CauseTool)).Open()[0]
		w.halt()
		w.start()
		c := w.until("the resumed agent asks", func(c nod.Case) bool {
			return waitingFor(nod.CauseTool)(c) && c.Open()[0].ID != first.ID
		})
		if old := c.Decisions[0]; old.State != nod.DecisionSuperseded {
			t.Errorf("the first question is %s", old.State)
		}
		if c.Run.Attempt != 2 || c.Run.Number != 1 {
			t.Errorf("attempt %d of run %d", c.Run.Attempt, c.Run.Number)
		}
		if !strings.Contains(w.prompts[1], "Your process ended") || !strings.Contains(w.prompts[1], "Write") {
			t.Errorf("the resumed agent was told %q", w.prompts[1])
		}
		w.answer(nod.Allow, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.halt()
		w.start()
		w.answer(nod.Allow, "") // a review survives the restart
		w.until("delivered", in(nod.TaskReadyForReview))
		w.verifyChain()
	})
}

// TestLostSessionIsBegunAnew: the killed process had not kept its session yet.
func TestLostSessionIsBegunAnew(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			a.asks("Write", `{}`)
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the agent asks", waitingFor(nod.CauseTool))
		w.halt()
		w.lost = true
		w.start()
		c := w.until("the agent asks again", func(c nod.Case) bool { return waitingFor(nod.CauseTool)(c) && c.Run.Attempt == 2 })
		if c.Run.State != nod.RunRunning || w.sessions.Load() != 2 {
			t.Errorf("run %s after %d sessions", c.Run.State, w.sessions.Load())
		}
	})
}

// TestRestartBetweenPushAndPullRequest holds invariant 13 there: one branch
// update, one pull request.
func TestRestartBetweenPushAndPullRequest(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.fault[nod.EffectOpenPR] = func(int) error { return nod.E(nod.Unavailable, "GitHub is away", nil) }
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		w.until("the branch is pushed", func(c nod.Case) bool { return c.Revision.State == nod.RevisionPushed })
		w.halt()
		delete(w.fault, nod.EffectOpenPR)
		w.start()
		w.until("delivered", in(nod.TaskReadyForReview))
		if w.done[nod.EffectPush] != 1 || w.done[nod.EffectOpenPR] != 1 || len(w.pulls) != 1 {
			t.Errorf("acts done: %v, pulls %d", w.done, len(w.pulls))
		}
	})
}

// TestLostAnswerIsLookedUp holds invariant 8: an act whose answer was lost is
// found again, not repeated.
func TestLostAnswerIsLookedUp(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		lose := func(n int) error {
			if n == 1 {
				return nod.E(nod.Unavailable, "the answer was lost", nil)
			}
			return nil
		}
		w.after[nod.EffectPush], w.after[nod.EffectOpenPR] = lose, lose
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		w.until("delivered", in(nod.TaskReadyForReview))
		if w.done[nod.EffectPush] != 1 || w.done[nod.EffectOpenPR] != 1 {
			t.Errorf("acts done: %v", w.done)
		}
	})
}

func TestUnknownEffectAsksAPerson(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.after[nod.EffectPush] = func(n int) error {
			if n == 1 {
				return nod.E(nod.Unavailable, "the answer was lost", nil)
			}
			return nil
		}
		w.lookup[nod.EffectPush] = nod.E(nod.NeedsHuman, "nobody can tell", nil)
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		w.until("a person is asked", waitingFor(nod.CauseEffectUnknown))
		w.mu.Lock()
		delete(w.lookup, nod.EffectPush)
		w.branch = "" // the person looked: it had not happened
		w.mu.Unlock()
		w.answer(nod.Retry, "")
		w.until("delivered", in(nod.TaskReadyForReview))
	})
}

func TestRefusedPushAsksAndKeepsTheWork(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.fault[nod.EffectPush] = func(n int) error {
			if n == 1 {
				return nod.E(nod.Forbidden, "a ruleset refuses the branch", nil)
			}
			return nil
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		c := w.until("somebody is asked", waitingFor(nod.CausePublishFailed))
		if in := c.Open()[0].Input; !strings.Contains(in, "ruleset") {
			t.Errorf("the question says %q", in)
		}
		w.answer(nod.Retry, "")
		w.until("delivered", in(nod.TaskReadyForReview))
		if w.sessions.Load() != 1 {
			t.Error("the agent ran again for a refused push")
		}
	})
}

// TestEffectsAreRetriedUntilTheyAreDone holds the retry queue: nothing is dropped.
func TestEffectsAreRetriedUntilTheyAreDone(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.fault[nod.EffectNotify] = func(n int) error {
			if n < 5 {
				return nod.E(nod.RateLimited, "too many pushes", nil)
			}
			return nil
		}
		w.agent = func(a *fakeSession) nod.Result { a.asks("Bash", `{"command":"ls"}`); return nod.Result{OK: true} }
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the agent asks", waitingFor(nod.CauseTool))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.pushes) != 1 {
			t.Errorf("%d pushes arrived", len(w.pushes))
		}
	})
}

// TestPushOfAClosedDecisionIsNotSent keeps stale requests off the phone.
func TestPushOfAClosedDecisionIsNotSent(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.fault[nod.EffectNotify] = func(int) error { return nod.E(nod.Forbidden, "the token is wrong", nil) }
		w.agent = func(a *fakeSession) nod.Result { a.asks("Bash", `{"command":"ls"}`); return nod.Result{OK: true} }
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the push is tried", func(nod.Case) bool { return w.tries[nod.EffectNotify] > 0 })
		w.answer(nod.Allow, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.mu.Lock()
		delete(w.fault, nod.EffectNotify)
		w.mu.Unlock()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		asks := 0
		for _, p := range w.pushes {
			if !p.Closed {
				asks++
			}
		}
		if asks != 1 {
			t.Errorf("%d pushes arrived, want only that of the open review", asks)
		}
	})
}

func TestEndedTaskPushesNothing(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.fault[nod.EffectPush] = func(int) error { return nod.E(nod.Unavailable, "GitHub is away", nil) }
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		w.until("the push is tried", func(nod.Case) bool { return w.tries[nod.EffectPush] > 0 })
		w.deliver(nod.Occurrence{Kind: nod.IssueClosed, Issue: 1, Sender: ada})
		w.until("cancelled", in(nod.TaskCancelled))
		w.mu.Lock()
		delete(w.fault, nod.EffectPush)
		w.mu.Unlock()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if w.branch != "" || w.done[nod.EffectPush] != 0 {
			t.Error("a cancelled task was pushed")
		}
	})
}

// TestEveryVerdictIsRecorded holds invariant 3.
func TestEveryVerdictIsRecorded(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		events, err := w.store.Wait(t.Context(), c.Task.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		order := []nod.EventKind{}
		for _, e := range events {
			if e.Kind == nod.EventVerdict {
				var data struct{ Verdict json.RawMessage }
				if err := json.Unmarshal(e.Data, &data); err != nil || !strings.Contains(string(data.Verdict), "because") {
					t.Errorf("verdict without an explanation: %s", e.Data)
				}
			}
			if e.Kind == nod.EventVerdict || e.Kind == nod.EventRunState {
				order = append(order, e.Kind)
			}
		}
		if len(order) < 2 || order[0] != nod.EventVerdict {
			t.Errorf("the run started before the verdict: %v", order)
		}
	})
}
