package bot_test

import (
	"strings"
	"testing"

	"nod"
	"nod/bot"
	"nod/policy"
)

// TestATaskNeverRunsLooserThanItsStart: a configuration that comes while a task is under
// way holds for it where it is stricter, and nowhere else.
func TestATaskNeverRunsLooserThanItsStart(t *testing.T) {
	compile := func(s policy.Settings) policy.Rules {
		rules, err := policy.Compile(s)
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	strict := func(s *bot.RepoSettings) { s.Protect = bot.Protection{Forbid: true} }
	loose := func(s *bot.RepoSettings) {
		s.Integration, s.Unchecked, s.Check, s.Egress = "next", true, nil, []string{"example.org"}
		s.Rules = compile(policy.Settings{Preset: "integration", Tools: "balanced", Allow: []string{"make *"}})
	}
	run := func(t *testing.T, w *world) nod.Case {
		w.agent = func(a *fakeSession) nod.Result {
			if !a.asks("Bash", `{"command":"make all"}`).Allow {
				return nod.Result{Reason: "denied"}
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		return w.until("the task is made", func(c nod.Case) bool { return c.Run != nil })
	}
	t.Run("loosened", func(t *testing.T) {
		life(t, func(t *testing.T, w *world) {
			w.halt()
			w.settings = strict
			w.start()
			w.files = []nod.FileChange{{Path: "go.sum", Status: "M"}}
			run(t, w)
			w.until("the tool is asked about", waitingFor(nod.CauseTool))
			w.halt()
			w.settings = loose
			w.start()
			w.until("and is again", func(c nod.Case) bool { return waitingFor(nod.CauseTool)(c) && c.Run.Attempt == 2 })
			w.answer(nod.Allow, "")
			// Nothing checks it any more, and nobody had said that nothing need.
			w.until("the lack of a check is asked about", func(c nod.Case) bool {
				return waitingFor(nod.CausePrepareFailed)(c) && strings.Contains(c.Open()[0].Subject, "check")
			})
			for _, hosts := range w.egress {
				if len(hosts) > 0 {
					t.Errorf("hosts were let through that the task did not begin with: %v", hosts)
				}
			}
			w.halt()
			w.settings = func(s *bot.RepoSettings) {
				s.Rules, s.Integration = compile(policy.Settings{Preset: "integration"}), "next"
			}
			w.start()
			w.answer(nod.Retry, "")
			c := w.until("protected files are refused", func(c nod.Case) bool {
				return waitingFor(nod.CausePrepareFailed)(c) && strings.Contains(c.Open()[0].Input, "go.sum")
			})
			if c.Task.BaseRef != "main" {
				t.Errorf("it goes into %s", c.Task.BaseRef)
			}
		})
	})
	t.Run("tightened", func(t *testing.T) {
		life(t, func(t *testing.T, w *world) {
			w.halt()
			w.settings = func(s *bot.RepoSettings) { loose(s); s.Unchecked, s.Check = false, []string{"make", "test"} }
			w.start()
			c := run(t, w)
			if c = w.until("the result waits", waitingFor(nod.CauseReadyToPush)); c.Task.BaseRef != "next" {
				t.Errorf("it goes into %s", c.Task.BaseRef)
			}
			w.halt()
			w.settings = nil
			w.start()
			w.answer(nod.Deny, "Once more.")
			w.until("now the tool is asked about", waitingFor(nod.CauseTool))
		})
	})
}
