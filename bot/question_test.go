package bot_test

import (
	"strings"
	"testing"

	"nod"
)

func TestAQuestionOfTheAgentIsAnsweredByAPerson(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		told := make(chan nod.ApprovalAnswer, 1)
		w.agent = func(a *fakeSession) nod.Result {
			told <- a.approve(nod.ApprovalRequest{ID: "1", Kind: nod.RequestQuestion, Tool: "AskUserQuestion", Questions: []nod.AgentQuestion{
				{ID: "colour", Text: "Which\ncolour?", Options: []nod.AgentOption{{Label: "Red", Description: "warm"}, {Label: "Blue"}, {Label: "Red"}}},
				{ID: "features", Text: "Which features?", Several: true, Options: []nod.AgentOption{{Label: "Search"}, {Label: "Export"}}}}})
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("the agent asks", waitingFor(nod.CauseAgentQuestion))
		d := c.Open()[0]
		if d.Kind != nod.Question || d.Subject != "Which colour?" || strings.Join(d.Options, ",") != "Red,Blue" || d.FreeText || !strings.Contains(d.Input, "Red: warm") || !strings.Contains(d.Input, "1 of 2") {
			t.Errorf("%+v", d)
		}
		w.answer("Blue", "")
		c = w.until("the agent asks again", func(c nod.Case) bool { return len(c.Open()) == 1 && c.Open()[0].Subject == "Which features?" })
		if !c.Open()[0].FreeText {
			t.Error("several options cannot be answered at once")
		}
		w.answer("Search, Export", "")
		if got := <-told; !got.Allow || got.Answers["colour"] != "Blue" || got.Answers["features"] != "Search, Export" {
			t.Errorf("answer %+v", got)
		}
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
	})
}

func TestNobodyIsAskedForASecretOrForTooMuch(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		told := make(chan nod.ApprovalAnswer, 3)
		w.agent = func(a *fakeSession) nod.Result {
			for _, qs := range [][]nod.AgentQuestion{nil, {{ID: "k", Text: "Your password?", Secret: true}}, make([]nod.AgentQuestion, 9)} {
				told <- a.approve(nod.ApprovalRequest{ID: "1", Kind: nod.RequestQuestion, Tool: "AskUserQuestion", Questions: qs})
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		for range 3 {
			if got := <-told; got.Allow || got.Reason == "" {
				t.Errorf("answer %+v", got)
			}
		}
		if c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush)); len(c.Decisions) != 1 {
			t.Errorf("%d decisions", len(c.Decisions))
		}
	})
}

func TestAPlanIsApprovedWithItsText(t *testing.T) {
	life(t, func(t *testing.T, w *world) {
		told := make(chan nod.ApprovalAnswer, 1)
		w.agent = func(a *fakeSession) nod.Result {
			told <- a.approve(nod.ApprovalRequest{ID: "1", Kind: nod.RequestPlan, Tool: "ExitPlanMode", Input: []byte("{}"), Plan: "1. Read\n2. Fix"})
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("the plan waits", waitingFor(nod.CausePlan))
		if d := c.Open()[0]; d.Kind != nod.Approval || d.Deadline.IsZero() || d.Input != "1. Read\n2. Fix" {
			t.Errorf("%+v", d)
		}
		w.answer(nod.Deny, "not like this")
		if got := <-told; got.Allow || !strings.Contains(got.Reason, "not like this") {
			t.Errorf("answer %+v", got)
		}
	})
}
