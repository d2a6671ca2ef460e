package bot_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

// comment delivers a comment on issue 1.
func (w *world) comment(id int64, by nod.Actor, body string) {
	w.deliver(nod.Occurrence{Kind: nod.CommentCreated, Issue: 1, Sender: by, CommentID: id, CommentBody: body})
}

// unlabelled is ada's issue without a label, which no sweep would start.
func (w *world) unlabelled(number int) {
	w.issue(number, ada)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issues[number].Labels = nil
}

// heard lets time pass until a reaction is there, and returns what else was said.
func (w *world) heard(reaction string) []string {
	w.t.Helper()
	for range 1000 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		w.mu.Lock()
		there := slices.Contains(w.reactions, reaction)
		replies := slices.Clone(w.replies)
		w.mu.Unlock()
		if there {
			return replies
		}
	}
	w.t.Fatalf("never: the reaction %q (there are %q)", reaction, w.reactions)
	return nil
}

func TestCommandsAreAnsweredByAReactionAndTheStatusComment(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		hold := make(chan struct{})
		w.agent = func(a *fakeSession) nod.Result {
			select {
			case <-hold:
			case <-a.ctx.Done():
			}
			return nod.Result{OK: true}
		}
		w.unlabelled(1)
		w.comment(10, ada, "/nod run")
		if said := w.heard("10 +1"); len(said) != 0 {
			t.Errorf("replies %q", said)
		}
		w.until("the agent runs", func(c nod.Case) bool { return c.Run != nil && c.Run.State == nod.RunRunning })
		w.comment(11, ada, "/nod agent other")
		w.heard("11 +1")
		if c := w.task(1); c.Task.Agent != "other" || c.Run.Agent != "fake" {
			t.Errorf("the task's agent is %s, the run's %s", c.Task.Agent, c.Run.Agent)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := w.comments[len(w.comments)-1]; !strings.Contains(last, "| Agent | other |") {
			t.Errorf("the status comment says %q", last)
		}
		w.comment(12, eve, "/nod status")
		w.heard("12 +1")
		w.comment(13, ada, "/nod help")
		w.heard("13 +1")
		close(hold)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(w.replies) != 1 || !strings.Contains(w.replies[0], "`agent <name>`") {
			t.Errorf("replies %q", w.replies)
		}
		w.verifyChain()
	})
}

// TestRefusedCommandNamesTheReasonAndWhoCould: one line each, and from a stranger
// one line whatever they write.
func TestRefusedCommandNamesTheReasonAndWhoCould(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.unlabelled(1)
		w.comment(20, eve, "/nod run @everyone")
		w.comment(21, eve, "/nod run")
		w.heard("20 confused")
		w.heard("21 confused")
		w.comment(22, ada, "/nod cancel")
		w.heard("22 confused")
		w.comment(23, ada, "/nod agent nobody")
		w.heard("23 confused")
		w.comment(24, ada, "/nod dance @ada")
		w.heard("24 confused")
		w.comment(25, nod.Actor{Kind: nod.ActorGitHub, Host: "github.test", ID: 66, Login: "Copilot", Bot: true}, "/nod run")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		want := []string{"owner, writer", "no task for this issue", "not one of fake, other", "not a command nod knows"}
		if len(w.replies) != len(want) {
			t.Fatalf("replies %q", w.replies)
		}
		for i, line := range w.replies {
			if !strings.Contains(line, want[i]) || strings.Contains(line, "\n") || strings.Contains(line, "@e") {
				t.Errorf("reply %d is %q, want one line with %q", i, line, want[i])
			}
		}
		if len(w.reactions) != 5 {
			t.Errorf("reactions %q: a bot was answered", w.reactions)
		}
		if w.sessions.Load() != 0 {
			t.Error("an agent ran")
		}
	})
}

// TestAnswerToACommandIsGivenOnceAcrossARestart: the outcome is lost with the process.
func TestAnswerToACommandIsGivenOnceAcrossARestart(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.fault[nod.EffectReply] = func(int) error { return nod.E(nod.Unavailable, "GitHub is away", nil) }
		w.issue(1, ada)
		w.comment(30, ada, "/nod help")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.halt()
		delete(w.fault, nod.EffectReply)
		w.start()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if len(w.replies) != 1 {
			t.Errorf("replies %q", w.replies)
		}
	})
}
