package bot_test

import (
	"strings"
	"testing"

	"nod"
)

// TestPrototypeGoesStraightIntoItsBranch: under the preset prototype the approved
// commits become the head of the integration branch, without a pull request; where that
// moved in the meantime, they are prepared and asked about once more.
func TestPrototypeGoesStraightIntoItsBranch(t *testing.T) {
	for _, sign := range []nod.SignMode{nod.SignGitHub, nod.SignSSH} {
		t.Run(string(sign), func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, sign)
			text := "x\n"
			_, err := c.sim.Commit("ada", crashRepo, "next", "feat: begin", map[string]*string{"next": &text})
			c.ok(err)
			main, err := c.sim.Head(crashRepo, "main")
			c.ok(err)
			c.plan.Prototype = "next"
			theirs := ""
			r := c.replay("Total is wrong", once("before push", func() {
				var err error
				if theirs, err = c.sim.Commit("ada", crashRepo, "next", "feat: theirs", map[string]*string{"theirs": &text}); err != nil {
					t.Error(err)
				}
			}))
			review := r.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
			if d := review.Open()[0]; !strings.Contains(d.Subject, "into next itself, without a pull request") {
				t.Errorf("asked %q", d.Subject)
			}
			r.answer(review, nod.Allow)
			asked := r.until("somebody is asked", waitingFor(nod.CausePublishFailed))
			if d := asked.Open()[0]; !strings.Contains(d.Input, "moved by someone else") {
				t.Errorf("asked %+v", d)
			}
			r.answer(asked, nod.Retry)
			again := r.until("the newly prepared one waits for review", waitingFor(nod.CauseReadyToPush))
			if again.Revision.BaseSHA != theirs || again.Revision.SHA == review.Revision.SHA {
				t.Errorf("prepared on %s, theirs is %s", again.Revision.BaseSHA, theirs)
			}
			r.answer(again, nod.Allow)
			end := r.until("completed", in(nod.TaskCompleted))
			at, err := c.sim.Head(crashRepo, "next")
			if err != nil || at != end.Revision.Published() || end.Revision.State != nod.RevisionPublished || !end.Revision.Commits[0].Verified {
				t.Errorf("the branch is at %s, %v; the result is %+v", at, err, end.Revision)
			}
			if now, err := c.sim.Head(crashRepo, "main"); err != nil || now != main {
				t.Errorf("the default branch is at %s, %v", now, err)
			}
			if mine, err := c.sim.Head(crashRepo, end.Task.Branch); err == nil && mine != "" {
				t.Errorf("there is a branch %s too", end.Task.Branch)
			}
			if pulls, err := c.sim.Pulls(crashRepo); err != nil || len(pulls) > 0 {
				t.Errorf("%d pull requests, %v", len(pulls), err)
			}
			r.until("the one comment says so", func(nod.Case) bool {
				v, err := c.sim.View(crashRepo, r.issue)
				c.ok(err)
				return len(v.Comments) == 1 && strings.Contains(v.Comments[0].Body, "done: its commits are in `next`")
			})
		})
	}
}
