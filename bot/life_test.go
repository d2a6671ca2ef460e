package bot_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

func TestLabelBecomesPullRequest(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			if !a.asks("Write", `{"file_path":"a"}`).Allow {
				return nod.Result{Reason: "denied"}
			}
			return nod.Result{OK: true, Text: "Fixed it for @stranger."}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the agent asks for a tool", waitingFor(nod.CauseTool))
		w.answer(nod.Allow, "")
		c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if w.branch != "" {
			t.Error("something was pushed before anyone allowed it")
		}
		if got := c.Revision.Check; !got.Passed(c.Revision.SHA) {
			t.Errorf("check receipt %+v", got)
		}
		w.answer(nod.Allow, "")
		c = w.until("the task is ready for review", in(nod.TaskReadyForReview))
		if len(w.pulls) != 1 || w.branch != c.Revision.SHA || !c.Revision.Commits[0].Verified {
			t.Errorf("pulls %+v, branch %s, revision %+v", w.pulls, w.branch, c.Revision)
		}
		w.deliver(nod.Occurrence{Kind: nod.PullRequestClosed, Issue: 1, Sender: ada, Merged: true, HeadRef: c.Task.Branch})
		c = w.until("the task is completed", func(c nod.Case) bool { return c.Task.Done() && c.Environment.State == nod.EnvironmentDeleted })
		if c.Task.State != nod.TaskCompleted {
			t.Errorf("state %s", c.Task.State)
		}
		if got := w.issues[1].Labels; len(got) != 0 {
			t.Errorf("labels left: %v", got)
		}
		if last := w.comments[len(w.comments)-1]; !strings.Contains(last, "merged") {
			t.Errorf("the status comment ends as %q", last)
		}
		w.verifyChain()
	})
}

// TestNothingIsPermittedBySilence holds invariant 5 for a live prompt: it expires
// into a denial that the agent is told of.
func TestNothingIsPermittedBySilence(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		told := make(chan nod.ApprovalAnswer, 1)
		w.agent = func(a *fakeSession) nod.Result {
			told <- a.asks("Bash", `{"command":"rm -rf /"}`)
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		asked := time.Now()
		got := <-told
		if got.Allow || !strings.Contains(got.Reason, "deadline") {
			t.Errorf("answer %+v", got)
		}
		if waited := time.Since(asked); waited < nod.ApprovalDeadline || waited > nod.ApprovalDeadline+time.Minute {
			t.Errorf("waited %v", waited)
		}
		c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if d := c.Decisions[0]; d.State != nod.DecisionExpired {
			t.Errorf("the decision is %s", d.State)
		}
	})
}

func TestDenialReachesTheAgentWithItsReason(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		told := make(chan nod.ApprovalAnswer, 1)
		w.agent = func(a *fakeSession) nod.Result {
			told <- a.asks("Bash", `{"command":"curl example"}`)
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the agent asks", waitingFor(nod.CauseTool))
		w.answer(nod.Deny, "use the standard library")
		if got := <-told; got.Allow || !strings.Contains(got.Reason, "use the standard library") {
			t.Errorf("answer %+v", got)
		}
	})
}

// TestNinthWaitingPromptIsDenied holds the cap on prompts of one session.
func TestNinthWaitingPromptIsDenied(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		answers := make(chan nod.ApprovalAnswer, nod.MaxWaiting+1)
		w.agent = func(a *fakeSession) nod.Result {
			for range nod.MaxWaiting + 1 {
				go func() { answers <- a.asks("Bash", `{"command":"ls"}`) }()
			}
			<-a.ctx.Done()
			return nod.Result{}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("eight prompts wait", func(c nod.Case) bool { return len(c.Open()) == nod.MaxWaiting })
		if got := <-answers; got.Allow || !strings.Contains(got.Reason, "wait") {
			t.Errorf("the ninth got %+v", got)
		}
		w.deliver(nod.Occurrence{Kind: nod.IssueClosed, Issue: 1, Sender: ada})
		w.until("cancelled", in(nod.TaskCancelled))
	})
}

// TestOneLabelEventStartsOneRun holds invariant 2.
func TestOneLabelEventStartsOneRun(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		for range 5 {
			w.label(1, ada)
		}
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		time.Sleep(11 * time.Minute) // several sweeps
		synctest.Wait()
		tasks, err := w.store.Tasks(t.Context())
		if err != nil || len(tasks) != 1 || w.sessions.Load() != 1 {
			t.Errorf("%d tasks, %d sessions, %v", len(tasks), w.sessions.Load(), err)
		}
	})
}

// TestMissedLabelIsReconciled replays R03: the label was set while nod was down.
func TestMissedLabelIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.issue(1, ada)
		w.start()
		defer w.halt()
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if w.sessions.Load() != 1 {
			t.Errorf("%d sessions", w.sessions.Load())
		}
	})
}

// TestMissedLabelOfNobodyAsks: GitHub cannot say any more who set the label.
func TestMissedLabelOfNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.labeller = nod.Actor{}
		w.issue(1, ada)
		w.start()
		defer w.halt()
		w.until("the owner is asked", waitingFor(nod.CauseUntrustedStart))
	})
}

func TestOutsidersIssueWaitsForTheOwner(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, eve)
		w.label(1, ada)
		c := w.until("the owner is asked", waitingFor(nod.CauseUntrustedStart))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if c = w.task(1); c.Task.State != nod.TaskQueued || w.sessions.Load() != 0 || !c.Task.Untrusted {
			t.Fatalf("state %s, %d sessions, untrusted %v", c.Task.State, w.sessions.Load(), c.Task.Untrusted)
		}
		if d := c.Open()[0]; d.InputDigest != c.Task.InputDigest {
			t.Error("the question is not bound to the frozen text")
		}
		w.answer(nod.Allow, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
	})
}

func TestRefusedStartCancels(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, eve)
		w.label(1, ada)
		w.until("the owner is asked", waitingFor(nod.CauseUntrustedStart))
		w.answer(nod.Deny, "")
		w.until("cancelled", in(nod.TaskCancelled))
		if w.sessions.Load() != 0 {
			t.Error("an agent ran")
		}
	})
}

// TestStopReachesTheAgent holds invariant 4: closing the issue ends the process.
func TestStopReachesTheAgent(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		ended := make(chan struct{})
		w.agent = func(a *fakeSession) nod.Result {
			<-a.ctx.Done()
			close(ended)
			return nod.Result{}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the agent runs", func(c nod.Case) bool { return c.Run != nil && c.Run.State == nod.RunRunning })
		w.deliver(nod.Occurrence{Kind: nod.IssueClosed, Issue: 1, Sender: ada})
		<-ended
		c := w.until("all is clean", func(c nod.Case) bool {
			return c.Task.State == nod.TaskCancelled && c.Run.State == nod.RunStopped && c.Environment.State == nod.EnvironmentDeleted
		})
		if len(w.running) != 0 || len(c.Open()) != 0 {
			t.Errorf("%d environments run, %d decisions open", len(w.running), len(c.Open()))
		}
	})
}

func TestReviewDeniedWithAReasonIsReworked(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		w.label(1, ada)
		first := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Deny, "add a test")
		c := w.until("the second result waits", func(c nod.Case) bool {
			return waitingFor(nod.CauseReadyToPush)(c) && c.Revision.SHA != first.Revision.SHA
		})
		if !strings.Contains(w.prompts[1], "add a test") || c.Run.Number != 2 {
			t.Errorf("run %d was told %q", c.Run.Number, w.prompts[1])
		}
		if w.branch != "" {
			t.Error("the first result was pushed")
		}
	})
}

func TestRedCheckAsksInsteadOfPublishing(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.check = 1
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("somebody is asked", waitingFor(nod.CausePrepareFailed))
		if in := c.Open()[0].Input; !strings.Contains(in, "make test") || !strings.Contains(in, "tested") {
			t.Errorf("the question says %q", in)
		}
		w.mu.Lock()
		w.check = 0
		w.mu.Unlock()
		w.answer(nod.Retry, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if w.sessions.Load() != 1 {
			t.Error("a retry of the check ran the agent again")
		}
	})
}

func TestFailedRunAsksAndRetries(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		fail := true
		w.agent = func(a *fakeSession) nod.Result {
			if fail {
				fail = false
				return nod.Result{Reason: "no idea"}
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("somebody is asked", waitingFor(nod.CauseRunFailed))
		if c.Task.State != nod.TaskAwaitingGuidance || c.Run.State != nod.RunFailed {
			t.Errorf("task %s, run %s", c.Task.State, c.Run.State)
		}
		w.answer(nod.Retry, "")
		c = w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if c.Run.Number != 2 {
			t.Errorf("run %d", c.Run.Number)
		}
	})
}

func TestPromptFencesTheIssue(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		prompt := w.prompts[0]
		parts := strings.Split(prompt, "\n----- ")
		if len(parts) != 3 || !strings.Contains(parts[1], "Say hello, not helo.") || strings.Contains(parts[0]+parts[2], "Say hello") {
			t.Errorf("the issue is not between its markers:\n%s", prompt)
		}
	})
}

func TestUntrustedWordsAreNeutralised(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		c := w.until("delivered", in(nod.TaskReadyForReview))
		i := slices.IndexFunc(c.Effects, func(e nod.Effect) bool { return e.Kind == nod.EffectOpenPR })
		if strings.Contains(string(c.Effects[i].Intent), "@stranger") {
			t.Errorf("the pull request pings a stranger: %s", c.Effects[i].Intent)
		}
	})
}
