package bot_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/bot"
)

// refuse records that the environment was kept from a host, as the proxy's audit does.
func (w *world) refuse(task, host string, port int, reason string) {
	w.t.Helper()
	e := nod.NewEvent(task, nod.Audit, nod.EventEgressDenied, nod.Supervisor(), map[string]any{
		"environment": "e", "host": host, "port": port, "verdict": "deny", "reason": reason})
	if err := w.store.Apply(w.t.Context(), &nod.Change{By: nod.Supervisor(), Events: []*nod.Event{&e}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) answerHost(host, answer string) {
	w.t.Helper()
	for _, d := range w.task(1).Open() {
		if d.Cause == nod.CauseEgressHost && d.Input == host {
			if _, err := w.store.RecordAnswer(w.t.Context(), nod.Answer{Decision: d.ID, Answer: answer, By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
	w.t.Fatalf("nobody is asked about %s", host)
}

func hostsAsked(c nod.Case) (open, all []string) {
	for _, d := range c.Decisions {
		if d.Cause == nod.CauseEgressHost {
			all = append(all, d.Input)
			if d.State == nod.DecisionOpen {
				open = append(open, d.Input)
			}
		}
	}
	return open, all
}

// TestARefusedHostIsAskedAboutAtTheNextStart: the allowed one is reached from then
// on, the denied one never asked about again.
func TestARefusedHostIsAskedAboutAtTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.halt()
		w.settings = func(s *bot.RepoSettings) { s.Egress = []string{"listed.example"} }
		w.start()
		w.agent = func(a *fakeSession) nod.Result {
			switch w.sessions.Load() {
			case 1:
				w.refuse(w.task(1).Task.ID, "good.example", 443, "not_allowed")
				w.refuse(w.task(1).Task.ID, "bad.example", 8443, "not_allowed")
				w.refuse(w.task(1).Task.ID, "good.example", 443, "not_allowed")
				w.refuse(w.task(1).Task.ID, "listed.example", 443, "not_allowed") // on the list since
				w.refuse(w.task(1).Task.ID, nod.ProbeHost, 443, "not_allowed")    // by nod itself, at each start
				w.refuse(w.task(1).Task.ID, "", 0, "ip_literal")
				w.refuse(w.task(1).Task.ID, "elsewhere.example", 443, "not_public")
				return nod.Result{Reason: "cannot install"}
			case 2:
				w.refuse(w.task(1).Task.ID, "bad.example", 8443, "not_allowed")
				return nod.Result{Reason: "again"}
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the run failed", waitingFor(nod.CauseRunFailed))
		w.answer(nod.Retry, "")
		c := w.until("asked about the hosts", func(c nod.Case) bool { open, _ := hostsAsked(c); return len(open) > 0 })
		open, _ := hostsAsked(c)
		if diff := cmp.Diff([]string{"good.example:443", "bad.example:8443"}, open); diff != "" {
			t.Fatal(diff)
		}
		if w.sessions.Load() != 1 || c.Task.State != nod.TaskAwaitingGuidance {
			t.Errorf("%d sessions while %s", w.sessions.Load(), c.Task.State)
		}
		w.answerHost("good.example:443", nod.Allow)
		w.answerHost("bad.example:8443", nod.Deny)
		w.until("the second run failed", func(c nod.Case) bool { return waitingFor(nod.CauseRunFailed)(c) && c.Run.Number == 2 })
		w.answer(nod.Retry, "")
		c = w.until("the third run is done", waitingFor(nod.CauseReadyToPush))
		if _, all := hostsAsked(c); len(all) != 2 {
			t.Errorf("asked about %v", all)
		}
		if diff := cmp.Diff([]string{"listed.example"}, w.egress[0]); diff != "" {
			t.Error(diff)
		}
		for _, hosts := range w.egress[1:] {
			if diff := cmp.Diff([]string{"listed.example", "good.example:443"}, hosts); diff != "" {
				t.Error(diff)
			}
		}
		w.verifyChain()
	})
}

// TestSilenceAboutAHostLetsNobodyThrough: the start goes on without, and the
// question comes again only when the host was refused again.
func TestSilenceAboutAHostLetsNobodyThrough(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			if w.sessions.Load() != 2 {
				w.refuse(w.task(1).Task.ID, "x.example", 443, "not_allowed")
			}
			return nod.Result{Reason: "no"}
		}
		w.issue(1, ada)
		w.label(1, ada)
		for run, asked := range []int{1, 1, 2} {
			w.until("the run failed", func(c nod.Case) bool { return waitingFor(nod.CauseRunFailed)(c) && c.Run.Number == run+1 })
			w.answer(nod.Retry, "")
			if run != 1 {
				w.until("asked about the host", waitingFor(nod.CauseEgressHost))
				time.Sleep(nod.ApprovalDeadline + time.Minute)
			}
			c := w.until("the next run", func(c nod.Case) bool { return c.Run.Number == run+2 })
			if _, all := hostsAsked(c); len(all) != asked {
				t.Errorf("after run %d asked about %v", run+1, all)
			}
		}
		for _, hosts := range w.egress {
			if slices.Contains(hosts, "x.example:443") {
				t.Error("silence let a host through")
			}
		}
	})
}
