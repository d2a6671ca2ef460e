package answer_test

import (
	"encoding/json"
	"sync"
	"testing"

	"nod"
	"nod/notify/answer/answertest"
	"nod/store"
)

// TestOfTwoHundredAnswersAtOnceOneWins: four browsers with two passkeys give 200
// answers to one decision at the same time, through the page, into the real store.
func TestOfTwoHundredAnswersAtOnceOneWins(t *testing.T) {
	w := newReal(t)
	d := w.askBash(w.task().ID, "make deploy")
	clients := []*answertest.Client{w.approver("ada"), w.approver("bo")}
	const each = 100
	errs := make([]error, len(clients)*each)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range errs {
		answer := nod.Allow
		if i%3 == 0 {
			answer = nod.Deny
		}
		wg.Go(func() {
			<-start
			errs[i] = clients[i%len(clients)].Answer(t.Context(), d.ID, answer, "")
		})
	}
	close(start)
	wg.Wait()
	won := w.state(d.ID)
	if won.State != nod.DecisionAnswered {
		t.Fatalf("nobody won: %+v", won)
	}
	refused := map[nod.Code]int{}
	for i, err := range errs {
		answer := nod.Allow
		if i%3 == 0 {
			answer = nod.Deny
		}
		if err == nil && answer != won.Answer {
			t.Errorf("%s was accepted, but %s stands", answer, won.Answer)
		}
		if err != nil {
			refused[nod.CodeOf(err)]++
		}
	}
	for code := range refused {
		// Conflict: somebody was first. Forbidden: two assertions of one passkey
		// overtook each other, so that its counter went backwards.
		if code != nod.Conflict && code != nod.Forbidden {
			t.Errorf("%d were refused as %s", refused[code], code)
		}
	}
	events, err := w.Events(t.Context(), d.Task, 0, 1000)
	w.must(err)
	closed := 0
	for _, e := range events {
		switch e.Kind {
		case nod.EventDecisionClosed:
			var c store.Closed
			w.must(json.Unmarshal(e.Data, &c))
			if closed++; c.Answer.Answer != won.Answer || c.Answer.Assertion == nil {
				t.Errorf("the audit log says %+v", c.Answer)
			}
		case nod.EventAnswerRefused:
			var r store.Refused
			w.must(json.Unmarshal(e.Data, &r))
			if r.Decision != d.ID || r.Why == "" {
				t.Errorf("a refusal says %+v", r)
			}
		}
	}
	if closed != 1 {
		t.Errorf("the decision was closed %d times", closed)
	}
	w.verified(1)
}

// TestTwoHundredAnswersIntoTheStoreLeaveTwoHundredTraces is the same without the
// page in front, whose own look at the decision turns most away: every answer
// that comes as far as the store is won, repeated or in the audit log as refused.
func TestTwoHundredAnswersIntoTheStoreLeaveTwoHundredTraces(t *testing.T) {
	w := newReal(t)
	d := w.askBash(w.task().ID, "make deploy")
	const n = 200
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		answer := nod.Allow
		if i%2 == 0 {
			answer = nod.Deny
		}
		wg.Go(func() {
			_, errs[i] = w.RecordAnswer(t.Context(), nod.Answer{Decision: d.ID, Answer: answer, By: nod.Actor{Kind: nod.ActorHost}})
		})
	}
	wg.Wait()
	taken, refused := 0, 0
	for i, err := range errs {
		switch {
		case err == nil:
			taken++
		case nod.CodeOf(err) == nod.Conflict:
			refused++
		default:
			t.Errorf("answer %d: %v", i, err)
		}
	}
	events, err := w.Events(t.Context(), d.Task, 0, 1000)
	w.must(err)
	traces := 0
	for _, e := range events {
		if e.Kind == nod.EventAnswerRefused {
			traces++
		}
	}
	if taken != n/2 || refused != n/2 || traces != refused {
		t.Errorf("%d taken, %d refused, %d in the audit log", taken, refused, traces)
	}
	w.verified(0)
}
