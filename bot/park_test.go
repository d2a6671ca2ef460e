package bot_test

import (
	"strings"
	"testing"
	"time"

	"nod"
)

// exhausted is an agent whose model refuses once, until the moment given, and whose
// session then goes on.
func (w *world) exhausted(until func() time.Time) {
	w.agent = func(a *fakeSession) nod.Result {
		if w.sessions.Load() > 1 {
			return nod.Result{OK: true, Text: "Done."}
		}
		a.spec.Meter.Limited(until())
		return nod.Result{Reason: string(nod.CauseQuotaExhausted), Text: "resets at 3pm"}
	}
}

// TestR27QuotaParksUntilItsReset: the run waits with the time of the reset, what is
// said meanwhile is kept, nothing is started before, also by a new process, and the
// same session goes on then.
func TestR27QuotaParksUntilItsReset(t *testing.T) {
	days(t, func(*world) {}, func(t *testing.T, w *world) {
		reset := time.Now().Add(3 * time.Hour).Truncate(time.Second)
		w.exhausted(func() time.Time { return reset })
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("it is parked", waitingFor(nod.CauseQuotaExhausted))
		q := c.Open()[0]
		if c.Run.State != nod.RunPaused || !q.Deadline.Equal(reset) || !strings.Contains(q.Input, reset.UTC().Format("15:04:05")) {
			t.Errorf("run %s, question %+v", c.Run.State, q)
		}
		w.deliver(nod.Occurrence{Kind: nod.CommentCreated, Issue: 1, Sender: ada, CommentID: 5, CommentBody: "/nod say mind the tests"})
		w.until("the words are kept", func(c nod.Case) bool { return strings.Contains(c.Task.Briefing, "mind the tests") })
		w.halt()
		w.start()
		time.Sleep(time.Until(reset) - time.Minute)
		if w.sessions.Load() != 1 {
			t.Fatalf("%d sessions before the reset", w.sessions.Load())
		}
		time.Sleep(time.Until(reset))
		c = w.until("it goes on", func(c nod.Case) bool { return c.Run.State == nod.RunStopped || w.sessions.Load() > 1 })
		c = w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		if w.sessions.Load() != 2 || c.Run.Number != 1 || c.Run.Session != "s-1" {
			t.Errorf("%d sessions, run %+v", w.sessions.Load(), c.Run)
		}
		if last := w.prompts[1]; !strings.Contains(last, "mind the tests") || !strings.Contains(last, "Your process ended") || w.resumed[1] != "s-1" {
			t.Errorf("resumed %q with %s", w.resumed[1], last)
		}
		w.verifyChain()
	})
}

// TestR27SomebodyMaySayNo: held, the run goes on only when somebody says so.
func TestR27SomebodyMaySayNo(t *testing.T) {
	days(t, func(*world) {}, func(t *testing.T, w *world) {
		w.exhausted(func() time.Time { return time.Now().Add(time.Hour) })
		w.issue(1, ada)
		w.label(1, ada)
		w.until("it is parked", waitingFor(nod.CauseQuotaExhausted))
		w.answer(nod.Hold, "")
		w.until("it is asked without a time", func(c nod.Case) bool {
			return waitingFor(nod.CauseQuotaExhausted)(c) && c.Open()[0].Deadline.IsZero()
		})
		time.Sleep(6 * time.Hour)
		if w.sessions.Load() != 1 {
			t.Fatalf("%d sessions", w.sessions.Load())
		}
		w.answer(nod.Resume, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.deliver(nod.Occurrence{Kind: nod.IssueClosed, Issue: 1, Sender: ada})
		w.until("cancelled", in(nod.TaskCancelled))
	})
}

// TestR27NoResetIsGuessed: a model that does not say until when is asked again only by
// a person, who may also end it.
func TestR27NoResetIsGuessed(t *testing.T) {
	days(t, func(*world) {}, func(t *testing.T, w *world) {
		w.exhausted(func() time.Time { return time.Time{} })
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("it is parked", waitingFor(nod.CauseQuotaExhausted))
		if q := c.Open()[0]; !q.Deadline.IsZero() || strings.Contains(strings.Join(q.Options, " "), nod.Hold) {
			t.Errorf("%+v", q)
		}
		time.Sleep(6 * time.Hour)
		if w.sessions.Load() != 1 {
			t.Fatalf("%d sessions", w.sessions.Load())
		}
		w.answer(nod.Cancel, "")
		c = w.until("cancelled", func(c nod.Case) bool { return c.Task.State == nod.TaskCancelled && c.Run.Done() })
		if c.Run.State != nod.RunStopped {
			t.Errorf("run %s", c.Run.State)
		}
	})
}

// TestR27ExpiredLoginIsTerminal: nothing is tried again by itself, and the owner hears
// of it at once.
func TestR27ExpiredLoginIsTerminal(t *testing.T) {
	days(t, func(*world) {}, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			if w.sessions.Load() > 1 {
				return nod.Result{OK: true}
			}
			return nod.Result{Reason: string(nod.CauseAuthExpired)}
		}
		w.issue(1, ada)
		w.label(1, ada)
		began := time.Now()
		c := w.until("the owner is asked", func(c nod.Case) bool { return waitingFor(nod.CauseAuthExpired)(c) && len(w.pushes) == 1 })
		if time.Since(began) > 5*time.Second || c.Run.State != nod.RunFailed || w.pushes[0].Click != "https://nod.test/d/"+c.Open()[0].ID {
			t.Errorf("after %v: run %s, push %+v", time.Since(began), c.Run.State, w.pushes[0])
		}
		time.Sleep(6 * time.Hour)
		if w.sessions.Load() != 1 {
			t.Fatalf("%d sessions", w.sessions.Load())
		}
		w.answer(nod.Retry, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
	})
}
