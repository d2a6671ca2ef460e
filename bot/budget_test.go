package bot_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/bot"
	"nod/policy"
)

// budgeted runs f in a world whose repository has these budgets.
func budgeted(t *testing.T, budgets map[string]policy.Limit, f func(t *testing.T, w *world)) {
	rules, err := policy.Compile(policy.Settings{Budgets: budgets})
	if err != nil {
		t.Fatal(err)
	}
	days(t, func(w *world) { w.tick, w.settings = 10*time.Minute, func(s *bot.RepoSettings) { s.Rules = rules } }, f)
}

// days is life whose world passes hours in few steps.
func days(t *testing.T, set func(w *world), f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tick = 90 * time.Second
		set(w)
		w.start()
		defer w.halt()
		f(t, w)
	})
}

func (w *world) events(kind nod.EventKind) []nod.Event {
	w.t.Helper()
	all, err := w.store.Events(w.t.Context(), w.task(1).Task.ID, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e nod.Event) bool { return e.Kind != kind })
}

// turns are the usage events of issue 1's task.
func (w *world) turns() []nod.TurnUsage {
	w.t.Helper()
	var all []nod.TurnUsage
	for _, e := range w.events(nod.EventUsage) {
		var u nod.TurnUsage
		if err := json.Unmarshal(e.Data, &u); err != nil || e.Tier != nod.Audit {
			w.t.Errorf("%s, %s, %v", e.Tier, e.Data, err)
		}
		all = append(all, u)
	}
	return all
}

// pushed counts the pushes with a title.
func (w *world) pushed(title string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.pushes {
		if p.Title == title {
			n++
		}
	}
	return n
}

func usd(v float64) *float64 { return &v }

// TestHardBudgetEndsTheSessionInsideATurn: the way to the model sees what a turn
// uses, the error is immediate, and the task fails with the reason.
func TestHardBudgetEndsTheSessionInsideATurn(t *testing.T) {
	budgeted(t, map[string]policy.Limit{"run": {SoftTokens: 50, HardTokens: 100}}, func(t *testing.T, w *world) {
		refused := make(chan error, 1)
		w.agent = func(a *fakeSession) nod.Result {
			for n := int64(10); ; n += 10 {
				if err := a.spec.Meter.Used(nod.Usage{InputTokens: n}); err != nil {
					refused <- err
					break
				}
			}
			<-a.ctx.Done()
			return nod.Result{}
		}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("the task fails", in(nod.TaskFailed))
		if err := <-refused; !strings.Contains(nod.PublicMessage(err), "100 tokens of 100") {
			t.Errorf("the way to the model heard %v", err)
		}
		if !strings.Contains(c.Task.Reason, "this run has used 100 tokens of 100") {
			t.Errorf("reason %q", c.Task.Reason)
		}
		c = w.until("its run has ended", func(c nod.Case) bool { return c.Run.Done() && c.Environment.State == nod.EnvironmentDeleted })
		if got := w.turns(); len(got) != 1 || !got[0].Measured || *got[0].InputTokens != 100 || got[0].CostUSD != nil || got[0].Run != c.Run.ID {
			t.Errorf("usage %+v", got)
		}
		w.until("both are told", func(nod.Case) bool { return w.pushed(string(nod.NoteBudgetHard)) == 1 })
		if n := w.pushed(string(nod.NoteBudgetSoft)); n != 1 {
			t.Errorf("%d soft warnings", n)
		}
		if got := w.events(nod.EventBudget); len(got) != 2 {
			t.Errorf("%d budget events", len(got))
		}
		if last := w.comments[len(w.comments)-1]; !strings.Contains(last, "failed") || !strings.Contains(last, "100 tokens") {
			t.Errorf("the status comment says %q", last)
		}
		w.verifyChain()
	})
}

// TestSoftBudgetWarnsOnce, however often it is passed, and stops nothing. Without a
// way to the model that counts, the agent's word at the end of a turn counts; its
// cost is cumulative for the session.
func TestSoftBudgetWarnsOnce(t *testing.T) {
	budgeted(t, map[string]policy.Limit{"day": {SoftUSD: 0.5}}, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			a.emit(nod.EventAgentUsage, nod.Usage{InputTokens: 7, OutputTokens: 3, CostUSD: usd(0.25)})
			a.emit(nod.EventAgentUsage, nod.Usage{CostUSD: usd(0.75)})
			a.emit(nod.EventAgentUsage, nod.Usage{InputTokens: math.MaxInt64, OutputTokens: -4, CostUSD: usd(-1)})
			a.emit(nod.EventAgentUsage, nod.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64})
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.until("told", func(nod.Case) bool { return w.pushed(string(nod.NoteBudgetSoft)) == 1 })
		got := w.turns()
		if len(got) != 4 || *got[0].InputTokens != 7 || *got[0].CostUSD != 0.25 || got[1].InputTokens != nil || *got[1].CostUSD != 0.5 ||
			got[2].CostUSD != nil || *got[2].OutputTokens != 0 || got[3].CostUSD != nil || got[0].Measured {
			t.Errorf("usage %+v", got)
		}
		sum, err := w.store.Spending(t.Context(), c.Task, c.Run.ID, nod.DayOf(time.Now()))
		if want := (nod.Spent{Tokens: math.MaxInt64, USD: 0.75}); err != nil || sum.Run != want || sum.Task != want || sum.Repo != want || sum.Day != want {
			t.Errorf("%+v, %v", sum, err)
		}
		w.issue(2, ada)
		w.label(2, ada)
		w.until("the second result waits", func(nod.Case) bool { return w.sessions.Load() == 2 && waitingFor(nod.CauseReadyToPush)(w.task(2)) })
		if n := w.pushed(string(nod.NoteBudgetSoft)); n != 1 {
			t.Errorf("warned %d times", n)
		}
	})
}

// TestUsedUpBudgetStartsNothing: a hard limit of the day counts for the next task too.
func TestUsedUpBudgetStartsNothing(t *testing.T) {
	budgeted(t, map[string]policy.Limit{"repo": {HardTokens: 10}}, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			a.emit(nod.EventAgentUsage, nod.Usage{InputTokens: 11})
			<-a.ctx.Done()
			return nod.Result{}
		}
		w.issue(1, ada)
		w.label(1, ada)
		first := w.until("the first task fails", in(nod.TaskFailed))
		w.label(1, ada)
		w.issue(1, ada)
		second := w.until("the second task fails", func(c nod.Case) bool { return c.Task.ID != first.Task.ID && c.Task.State == nod.TaskFailed })
		if w.sessions.Load() != 1 || !strings.Contains(second.Task.Reason, "this repository today has used 11 tokens of 10") {
			t.Errorf("%d sessions, %q", w.sessions.Load(), second.Task.Reason)
		}
		time.Sleep(24 * time.Hour) // another day
		w.issue(1, ada)
		w.label(1, ada)
		w.until("a third agent works", func(c nod.Case) bool { return c.Task.ID != second.Task.ID && c.Run != nil && w.sessions.Load() == 2 })
	})
}

// TestOtherSessionsCount: what another live session of the day has used counts before
// it is in any event.
func TestOtherSessionsCount(t *testing.T) {
	budgeted(t, map[string]policy.Limit{"day": {HardTokens: 100}}, func(t *testing.T, w *world) {
		w.agent = func(a *fakeSession) nod.Result {
			if err := a.spec.Meter.Used(nod.Usage{OutputTokens: 60}); err == nil {
				<-a.ctx.Done()
			}
			return nod.Result{}
		}
		w.issue(1, ada)
		w.label(1, ada)
		w.until("the first agent works", func(c nod.Case) bool { return c.Run != nil && c.Run.State == nod.RunRunning })
		w.issue(2, ada)
		w.label(2, ada)
		w.until("the second task fails", func(nod.Case) bool { return w.sessions.Load() == 2 && w.task(2).Task.State == nod.TaskFailed })
		if got := w.task(1).Task.State; got != nod.TaskRunning {
			t.Errorf("the first task is %s", got)
		}
	})
}
