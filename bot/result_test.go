package bot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"nod"
	"nod/bot"
	"nod/policy"
)

// TestNoCheckIsAskedAboutUnlessItIsMeant: silence is not a check.
func TestNoCheckIsAskedAboutUnlessItIsMeant(t *testing.T) {
	for _, meant := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.settings = func(s *bot.RepoSettings) { s.Check, s.Unchecked = nil, meant }
			w.start()
			defer w.halt()
			w.issue(1, ada)
			w.label(1, ada)
			if !meant {
				d := w.until("somebody is asked", waitingFor(nod.CausePrepareFailed)).Open()[0]
				if d.Subject != "No check is configured" || !slices.Equal(d.Options, []string{"go on unchecked", nod.Retry, nod.Cancel}) {
					t.Errorf("asked %+v", d)
				}
				w.answer("go on unchecked", "")
			}
			w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
			w.answer(nod.Allow, "")
			c := w.until("delivered", in(nod.TaskReadyForReview))
			for _, e := range c.Effects {
				if want := map[bool]string{false: "somebody let it go on unchecked", true: "none, by configuration"}[meant]; e.Kind == nod.EffectOpenPR && !strings.Contains(string(e.Intent), want) {
					t.Errorf("the pull request does not say %q: %s", want, e.Intent)
				}
			}
		})
	}
}

// TestSecretInAMessageIsSaidAndReworked: what the ledger would not keep as it is cannot
// be compared with GitHub later, so it stops at once and says why.
func TestSecretInAMessageIsSaidAndReworked(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		const token = "ghp_0123456789abcdefghijABCDEFGHIJ0123456789"
		w.result.message = "fix: use " + token
		w.issue(1, ada)
		w.label(1, ada)
		d := w.until("somebody is asked", waitingFor(nod.CausePrepareFailed)).Open()[0]
		if !strings.Contains(d.Input, "looks like a secret") || strings.Contains(d.Input, token) || !d.Takes(nod.Rework) {
			t.Errorf("asked %+v", d)
		}
		w.mu.Lock()
		w.result.message = ""
		w.mu.Unlock()
		w.answer(nod.Rework, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if len(w.prompts) != 2 || !strings.Contains(w.prompts[1], "looks like a secret") {
			t.Errorf("the agent was told %q", w.prompts)
		}
	})
}

// TestSecretThatAChangeAddsIsNamed: it is for a person to say whether it is one.
func TestSecretThatAChangeAddsIsNamed(t *testing.T) {
	const key = "AKIA0123456789ABCDEF"
	for diff, named := range map[string]bool{
		"\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n+key = " + key + "\n": true,
		"\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-key = " + key + "\n": false,
	} {
		life(t, func(t *testing.T, w *world) {
			w.result.diff = diff
			w.issue(1, ada)
			w.label(1, ada)
			d := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush)).Open()[0]
			if strings.Contains(d.Subject, "adds what looks like a secret in x") != named {
				t.Errorf("asked %q about %q", d.Subject, diff)
			}
		})
	}
}

// TestConflictIsReworkedOnTheNewestTarget: the agent gets what it is to rebase onto.
func TestConflictIsReworkedOnTheNewestTarget(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.result.err = nod.E(nod.Conflict, `commit 0123 does not merge with its new base: "lib/a.txt"`, nil)
		w.issue(1, ada)
		w.label(1, ada)
		d := w.until("somebody is asked", waitingFor(nod.CauseRebaseConflict)).Open()[0]
		if !strings.Contains(d.Input, "lib/a.txt") || !d.Takes(nod.Rework) || !d.Takes(nod.Retry) || !d.Takes(nod.Cancel) {
			t.Errorf("asked %+v", d)
		}
		w.answer(nod.Rework, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if !strings.Contains(w.prompts[1], "origin/main") || !strings.Contains(w.prompts[1], "lib/a.txt") {
			t.Errorf("the agent was told %q", w.prompts[1])
		}
		if !slices.ContainsFunc(w.scripts, func(s string) bool { return strings.Contains(s, "refs/remotes/origin/$NOD_TARGET") }) {
			t.Error("the target branch was not brought in")
		}
	})
}

// TestCommitsNameTheTaskAndWhoAskedForIt by the address that GitHub knows accounts by.
func TestCommitsNameTheTaskAndWhoAskedForIt(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		want := []string{"Co-authored-by: ada <1+ada@users.noreply.github.test>", "Nod-Task: " + c.Task.ID}
		if !slices.Equal(w.trailers, want) {
			t.Errorf("trailers %q, want %q", w.trailers, want)
		}
	})
}

// TestPresetSaysWhereResultsGo: integration never into the default branch, whatever
// GitHub calls that in the meantime, and published nowhere else.
func TestPresetSaysWhereResultsGo(t *testing.T) {
	for _, c := range []struct {
		preset        policy.PresetName
		became, wants string // the default branch since the start; the branch of the pull request, "" for a question
	}{
		{policy.Published, "main", "main"},
		{policy.Published, "trunk", ""},
		{policy.Integration, "main", "develop"},
		{policy.Integration, "develop", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.settings = func(s *bot.RepoSettings) {
				rules, err := policy.Compile(policy.Settings{Preset: string(c.preset)})
				if err != nil {
					t.Fatal(err)
				}
				if s.Rules = rules; c.preset == policy.Integration {
					s.Integration = "develop"
				}
			}
			w.start()
			defer w.halt()
			w.issue(1, ada)
			w.label(1, ada)
			w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
			w.mu.Lock()
			w.main = c.became
			w.mu.Unlock()
			w.answer(nod.Allow, "")
			if c.wants == "" {
				d := w.until("somebody is asked", waitingFor(nod.CausePublishFailed)).Open()[0]
				if !strings.Contains(d.Input, "default branch") || len(w.pulls) > 0 {
					t.Errorf("asked %+v with %d pull requests", d, len(w.pulls))
				}
				return
			}
			end := w.until("delivered", in(nod.TaskReadyForReview))
			for _, e := range end.Effects {
				if e.Kind == nod.EffectOpenPR && !strings.Contains(string(e.Intent), fmt.Sprintf(`"base":%q`, c.wants)) {
					t.Errorf("preset %s: %s", c.preset, e.Intent)
				}
			}
		})
	}
}
