package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
)

func decisions(t *testing.T, open Open) {
	t.Run("ApprovalWithoutADeadlineIsNotWritten", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.approval(f.task(), "")
		d.Deadline = time.Time{}
		f.refuses("no deadline", nod.Invalid, nod.Change{Decisions: []*nod.Decision{d}})
	})
	t.Run("OnlyRecordAnswerAnswers", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		forged := with(*d, func(v *nod.Decision) {
			v.State, v.Answer, v.AnsweredBy, v.AnsweredAt = nod.DecisionAnswered, nod.Allow, host, f.now()
		})
		f.refuses("an answer by a change", nod.Forbidden, nod.Change{Decisions: []*nod.Decision{forged}})
		born := with(*forged, func(v *nod.Decision) { v.ID, v.Version = f.id("d"), 0 })
		f.refuses("a decision that begins answered", nod.Conflict, nod.Change{Decisions: []*nod.Decision{born}})
		e := nod.NewEvent(d.Task, nod.Audit, nod.EventDecisionClosed, host, map[string]string{})
		f.refuses("a forged event", nod.Invalid, nod.Change{Events: []*nod.Event{&e}})
	})
	t.Run("WhatADecisionAsksNeverChanges", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		for name, set := range map[string]func(*nod.Decision){
			"input":    func(v *nod.Decision) { v.SetInput("rm -rf /") },
			"deadline": func(v *nod.Decision) { v.Deadline = v.Deadline.Add(time.Hour) },
			"kind":     func(v *nod.Decision) { v.Kind = nod.Question },
			"blocking": func(v *nod.Decision) { v.Blocking = true },
		} {
			f.refuses(name, nod.Conflict, nod.Change{Decisions: []*nod.Decision{with(*d, set)}})
		}
	})
	t.Run("WholeInputIsKeptUnderItsDigest", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		if b, err := f.Blob(f.ctx, d.InputDigest); err != nil || string(b) != d.Input {
			t.Errorf("blob of the input: %q, %v", b, err)
		}
		long := strings.Repeat("ä", nod.InputCap+1)
		cut := f.approval(f.task(), "")
		cut.SetInput(long)
		f.refuses("a cut input without the whole", nod.Invalid, nod.Change{Decisions: []*nod.Decision{cut}})
		f.apply(nod.Change{Decisions: []*nod.Decision{cut}, Blobs: [][]byte{[]byte(long)}})
		if got, err := f.Decision(f.ctx, cut.ID); err != nil || got.Input != long[:2*nod.InputCap] || !got.InputTruncated {
			t.Errorf("the cut input is %d bytes, truncated %v, %v", len(got.Input), got.InputTruncated, err)
		}
	})
	t.Run("OpenOnesComeBlockingFirstThenOldestFirst", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		a, b := f.opened(), f.opened()
		task := f.task()
		c := f.approval(task, "")
		c.Blocking = true
		f.apply(nod.Change{Decisions: []*nod.Decision{c}})
		got, err := f.OpenDecisions(f.ctx)
		if err != nil || len(got) != 3 || got[0].ID != c.ID || got[1].ID != a.ID || got[2].ID != b.ID {
			t.Errorf("open decisions: %v, %v", got, err)
		}
	})
	t.Run("DeadlineExpiresADecision", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d, later := f.opened(), f.approval(f.task(), "")
		later.Deadline = later.Deadline.Add(time.Hour)
		f.apply(nod.Change{Decisions: []*nod.Decision{later}})
		f.pass(nod.ApprovalDeadline - time.Millisecond)
		if got, err := f.ExpireDecisions(f.ctx); err != nil || len(got) != 0 {
			t.Errorf("before the deadline: %v, %v", got, err)
		}
		f.pass(time.Millisecond)
		got, err := f.ExpireDecisions(f.ctx)
		if err != nil || len(got) != 1 || got[0].ID != d.ID || got[0].State != nod.DecisionExpired || got[0].Permits() {
			t.Errorf("at the deadline: %v, %v", got, err)
		}
		if got, err := f.ExpireDecisions(f.ctx); err != nil || len(got) != 0 {
			t.Errorf("a second time: %v, %v", got, err)
		}
		if kinds := f.kinds(d.Task); !slices.Contains(kinds, nod.EventDecisionClosed) {
			t.Errorf("no event of the expiry: %v", kinds)
		}
		f.head()
	})
}
