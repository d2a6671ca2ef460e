package bot_test

import (
	"strings"
	"testing"

	"nod"
)

func TestStatusCommentSaysWhereThingsStandAndWhatToDo(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		cost := 0.125
		w.agent = func(a *fakeSession) nod.Result {
			a.emit(nod.EventAgentUsage, nod.Usage{InputTokens: 1234567, OutputTokens: 890, CostUSD: &cost})
			if !a.asks("Write", `{"file_path":"a"}`).Allow {
				return nod.Result{Reason: "denied"}
			}
			return nod.Result{OK: true, Text: "Done."}
		}
		w.issue(1, ada)
		w.label(1, ada)
		says := func(when string, want ...string) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			last := w.comments[len(w.comments)-1]
			for _, s := range want {
				if !strings.Contains(last, s) {
					t.Errorf("%s: no %q in\n%s", when, s, last)
				}
			}
		}
		settled := func(c nod.Case) bool {
			for _, e := range c.Effects {
				if e.State == nod.EffectIntended {
					return false
				}
			}
			return true
		}
		c := w.until("asked", func(c nod.Case) bool { return waitingFor(nod.CauseTool)(c) && settled(c) })
		says("asked", "<!-- nod:task:"+c.Task.ID+" -->", "waits for the owner", "| Agent | fake |", "| Waits for | leave to use a tool |",
			"Next: an owner answers on [the task's page](https://nod.test/t/"+c.Task.ID+").")
		w.answer(nod.Allow, "")
		w.until("review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		w.until("delivered", func(c nod.Case) bool { return c.Task.State == nod.TaskReadyForReview && settled(c) })
		says("delivered", "ready for review", "| Pull request | #1 |", "1,234,567 tokens in, 890 out, about $0.12 by the agent's own estimate", "Next: look at #1.")
		w.mu.Lock()
		if n := len(w.checks); n != 1 || w.checks[0].Conclusion != "success" || w.checks[0].SHA != w.branch || !strings.Contains(w.checks[0].Summary, "make test") {
			t.Errorf("checks %+v", w.checks)
		}
		w.mu.Unlock()
		w.deliver(nod.Occurrence{Kind: nod.CommentCreated, Issue: 1, Sender: ada, CommentID: 5, CommentBody: "/nod cancel"})
		w.until("cancelled", func(c nod.Case) bool { return c.Task.State == nod.TaskCancelled && settled(c) })
		says("cancelled", "cancelled", "Next: set the label `nod` again, or write `/nod retry`.")
	})
}
