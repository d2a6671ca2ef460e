package bot_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/store"
)

// replayed is nod in this process, over the real store, real git and the simulated
// GitHub, with something happening at one of its steps.
type replayed struct {
	*crashes
	store *store.Store
	issue int
}

// replay lets nod work on a new issue until the test ends. at is called at each step.
func (c *crashes) replay(title string, at func(step string)) *replayed {
	c.Helper()
	n, p := c.file(title)
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(c.Context(), store.Config{Path: filepath.Join(p.Dir, "nod.db"), Now: time.Now, Log: log})
	c.ok(err)
	k := &crasher{crashPlan: p, at: at}
	b, err := k.bot(s, log)
	c.ok(err)
	life, stop := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(life) }()
	c.Cleanup(func() {
		stop()
		c.ok(<-ended)
		c.ok(s.Close())
	})
	return &replayed{c, s, n}
}

// until waits for the issue's case to be as ok says.
func (r *replayed) until(what string, ok func(nod.Case) bool) nod.Case {
	r.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last := nod.Case{}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); <-tick.C {
		t, err := r.store.TaskOf(r.Context(), nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}, r.issue)
		if err != nil {
			continue
		}
		last, err = r.store.Case(r.Context(), t.ID)
		r.ok(err)
		if ok(last) {
			return last
		}
	}
	r.Fatalf("never: %s (task %s, open %+v)", what, last.Task.State, last.Open())
	return last
}

func (r *replayed) answer(c nod.Case, answer string) {
	r.Helper()
	_, err := r.store.RecordAnswer(r.Context(), nod.Answer{Decision: c.Open()[0].ID, Answer: answer, By: nod.Actor{Kind: nod.ActorHost}})
	r.ok(err)
}

// once returns what does f at the first time that step comes.
func once(step string, f func()) func(string) {
	var done atomic.Bool
	return func(s string) {
		if s == step && done.CompareAndSwap(false, true) {
			f()
		}
	}
}

func TestR13HostileTitleIsOnlyText(t *testing.T) {
	t.Parallel()
	c := newCrashes(t, nod.SignSSH)
	r := c.replay("$(touch pwned); `touch pwned` --upload-pack=touch \\n\"'../../x", nil)
	r.answer(r.until("the result waits for review", waitingFor(nod.CauseReadyToPush)), nod.Allow)
	end := r.until("delivered", in(nod.TaskReadyForReview))
	if !regexp.MustCompile(fmt.Sprintf(`^nod/%d-[0-9a-f]{6}$`, r.issue)).MatchString(end.Task.Branch) {
		t.Errorf("the branch is called %q", end.Task.Branch)
	}
	if pwned, err := filepath.Glob(filepath.Join(c.plan.Dir, "*", "pwned")); err != nil || len(pwned) > 0 {
		t.Errorf("found %v, %v", pwned, err)
	}
}

func TestR16BranchTakenBetweenApprovalAndPushIsNotOverwritten(t *testing.T) {
	for _, sign := range []nod.SignMode{nod.SignGitHub, nod.SignSSH} {
		t.Run(string(sign), func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, sign)
			text, theirs := "theirs\n", ""
			var r *replayed
			ready := make(chan struct{})
			r = c.replay("Total is wrong", once("before push", func() {
				<-ready
				task, err := r.store.TaskOf(t.Context(), nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}, r.issue)
				if err == nil {
					theirs, err = c.sim.Commit("ada", crashRepo, task.Branch, "feat: theirs", map[string]*string{"theirs": &text})
				}
				if err != nil {
					t.Error(err)
				}
			}))
			close(ready)
			r.answer(r.until("the result waits for review", waitingFor(nod.CauseReadyToPush)), nod.Allow)
			asked := r.until("somebody is asked", waitingFor(nod.CausePublishFailed))
			if d := asked.Open()[0]; !strings.Contains(d.Input, "moved by someone else") || !d.Takes(nod.Retry) || !d.Takes(nod.Rework) || !d.Takes(nod.Cancel) {
				t.Errorf("asked %+v", d)
			}
			if at, err := c.sim.Head(crashRepo, asked.Task.Branch); err != nil || at != theirs || theirs == "" {
				t.Errorf("the branch is at %q, %v, theirs was %q", at, err, theirs)
			}
		})
	}
}

func TestR33DoneOnlyWhenGitHubShowsIt(t *testing.T) {
	for _, sign := range []nod.SignMode{nod.SignGitHub, nod.SignSSH} {
		t.Run(string(sign), func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, sign)
			var r *replayed
			ready := make(chan struct{})
			r = c.replay("Total is wrong", once("after pull request", func() {
				<-ready
				task, err := r.store.TaskOf(t.Context(), nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}, r.issue)
				if err == nil {
					err = c.sim.DeleteBranch("ada", crashRepo, task.Branch)
				}
				if err != nil {
					t.Error(err)
				}
			}))
			close(ready)
			r.answer(r.until("the result waits for review", waitingFor(nod.CauseReadyToPush)), nod.Allow)
			asked := r.until("somebody is asked", waitingFor(nod.CausePublishFailed))
			if d := asked.Open()[0]; d.Subject != "Not delivered" || !strings.Contains(d.Input, "not at the approved commit") || !d.Takes(nod.Retry) {
				t.Errorf("asked %+v", d)
			}
			r.answer(asked, nod.Retry)
			end := r.until("delivered after the retry", in(nod.TaskReadyForReview))
			at, err := c.sim.Head(crashRepo, end.Task.Branch)
			if err != nil || at != end.Revision.Published() {
				t.Errorf("the branch is at %q, %v; the result is %q", at, err, end.Revision.Published())
			}
			if end.Revision.PullRequest.State != "open" || end.Revision.PullRequest.HeadSHA != at {
				t.Errorf("the pull request is %+v", end.Revision.PullRequest)
			}
		})
	}
}
