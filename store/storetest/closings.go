package storetest

import (
	"context"
	"errors"
	"testing"

	"nod"
)

// closings hold what everyone who waits for a decision is given.
func closings(t *testing.T, open Open) {
	type closed struct {
		d   nod.Decision
		err error
	}
	// wait has two wait for d, before and after f closes it, and returns what they got.
	wait := func(f *fixture, id string, close func()) []closed {
		got := make(chan closed, 2)
		for range 2 {
			go func() {
				d, told, err := f.Closed(f.ctx, id)
				told()
				got <- closed{d, err}
			}()
		}
		close()
		late, _, err := f.Closed(f.ctx, id)
		return []closed{<-got, <-got, {late, err}}
	}
	t.Run("WhoWaitsIsGivenTheAnswer", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		for _, got := range wait(f, d.ID, func() {
			_, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Deny, Reason: "use the cache", By: host})
			must(t, err)
		}) {
			if got.err != nil || got.d.State != nod.DecisionAnswered || got.d.Answer != nod.Deny || got.d.Reason != "use the cache" || got.d.AnsweredBy != host {
				t.Errorf("%+v, %v", got.d, got.err)
			}
		}
	})
	t.Run("WhoWaitsIsToldOfTheExpiry", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		for _, got := range wait(f, d.ID, func() {
			f.pass(nod.ApprovalDeadline)
			_, err := f.ExpireDecisions(f.ctx)
			must(t, err)
		}) {
			if got.err != nil || got.d.State != nod.DecisionExpired || got.d.Permits() {
				t.Errorf("%+v, %v", got.d, got.err)
			}
		}
	})
	t.Run("WhoWaitsIsToldOfASupersession", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		for _, got := range wait(f, d.ID, func() {
			must(t, d.On(nod.DecisionSupersede))
			f.apply(nod.Change{Decisions: []*nod.Decision{d}})
		}) {
			if got.err != nil || got.d.State != nod.DecisionSuperseded || got.d.Permits() {
				t.Errorf("%+v, %v", got.d, got.err)
			}
		}
	})
	t.Run("ARefusedAnswerWakesNobody", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.opened()
		for _, got := range wait(f, d.ID, func() {
			_, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: "perhaps", By: host})
			wants(t, "another word", err, nod.Invalid)
			_, err = f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: host})
			must(t, err)
		}) {
			if got.err != nil || !got.d.Permits() {
				t.Errorf("%+v, %v", got.d, got.err)
			}
		}
	})
	t.Run("AWaitEndsWithItsContext", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		ctx, cancel := context.WithCancel(f.ctx)
		id, ended := f.opened().ID, make(chan error)
		go func() {
			_, _, err := f.Closed(ctx, id)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		_, _, err := f.Closed(f.ctx, "d-nobody-asked")
		wants(t, "no such decision", err, nod.NotFound)
	})
}
