package bot_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/bot"
)

// TestPreflightAsksBeforeAnyWork: what would refuse the result at the end is said
// before an agent runs.
func TestPreflightAsksBeforeAnyWork(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.refuses = []string{"The App lacks the permission contents: write. Accept it at https://github.test/settings/installations/1."}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("somebody is asked", waitingFor(nod.CausePublishFailed))
		if c.Run != nil || w.sessions.Load() != 0 || !strings.Contains(c.Open()[0].Input, "installations/1") {
			t.Errorf("run %v, %d sessions, asked %q", c.Run, w.sessions.Load(), c.Open()[0].Input)
		}
		w.answer(nod.Retry, "")
		w.until("the same is asked again", func(c nod.Case) bool { return len(c.Decisions) == 2 && waitingFor(nod.CausePublishFailed)(c) })
		w.mu.Lock()
		w.refuses = nil
		w.mu.Unlock()
		w.answer(nod.Retry, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
	})
}

func TestPreflightIsOverruledOrObeyed(t *testing.T) {
	for answer, state := range map[string]nod.TaskState{"start anyway": nod.TaskAwaitingGuidance, nod.Cancel: nod.TaskCancelled} {
		life(t, func(t *testing.T, w *world) {
			w.refuses = []string{"A rule of the repository covers nod/1-x."}
			w.issue(1, ada)
			w.label(1, ada)
			w.until("somebody is asked", waitingFor(nod.CausePublishFailed))
			w.answer(answer, "")
			w.until("it goes on", func(c nod.Case) bool {
				return c.Task.State == state && (state != nod.TaskAwaitingGuidance || waitingFor(nod.CauseReadyToPush)(c))
			})
		})
	}
}

func TestProtectedFilesAreNamedOrRefused(t *testing.T) {
	for forbid, cause := range map[bool]nod.Cause{false: nod.CauseReadyToPush, true: nod.CausePrepareFailed} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.files = []nod.FileChange{{Path: "main.go"}, {Path: ".github/workflows/ci.yml"}}
			w.settings = func(s *bot.RepoSettings) { s.Protect.Forbid = forbid }
			w.start()
			defer w.halt()
			w.issue(1, ada)
			w.label(1, ada)
			d := w.until("somebody is asked", waitingFor(cause)).Open()[0]
			if said := d.Subject + d.Input; !strings.Contains(said, ".github/workflows/ci.yml") || strings.Contains(said, "main.go,") {
				t.Errorf("asked %q, %q", d.Subject, d.Input)
			}
		})
	}
}

// TestPublishIsTriedForADay: what a person allowed waits for GitHub, ever more
// patiently, and then happens.
func TestPublishIsTriedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tick = 10 * time.Minute // days pass here
		w.fault[nod.EffectPush] = func(int) error { return nod.E(nod.Unavailable, "GitHub is away", nil) }
		w.issue(1, ada)
		w.start()
		defer w.halt()
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		time.Sleep(3 * 24 * time.Hour)
		synctest.Wait()
		w.mu.Lock()
		tries := w.tries[nod.EffectPush]
		delete(w.fault, nod.EffectPush)
		w.mu.Unlock()
		if tries < 10 || tries > 25 {
			t.Errorf("tried %d times in three days", tries)
		}
		time.Sleep(25 * time.Hour)
		w.until("delivered", in(nod.TaskReadyForReview))
		if w.done[nod.EffectPush] != 1 {
			t.Errorf("%d pushes", w.done[nod.EffectPush])
		}
	})
}

// TestPullRequestShowsItsReceipts: who allowed what, when, and what was checked.
func TestPullRequestShowsItsReceipts(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		c := w.until("delivered", in(nod.TaskReadyForReview))
		body := ""
		for _, e := range c.Effects {
			if e.Kind == nod.EffectOpenPR {
				body = string(e.Intent)
			}
		}
		for _, want := range []string{"For #1.", "`make test` (from the configuration of nod) passed", "by host (host) at ", c.Revision.SHA, c.Revision.DiffDigest, "nod:task:" + c.Task.ID} {
			if !strings.Contains(body, want) {
				t.Errorf("the pull request does not say %q: %s", want, body)
			}
		}
	})
}
