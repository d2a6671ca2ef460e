package storetest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
)

func answers(t *testing.T, open Open) {
	signed := Setup{VerifyAssertion: verifyAssertion}
	t.Run("SignedAnswerIsRecordedWithItsEvidence", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d, k := f.opened(), f.enrol()
		a := k.answer(*d, nod.Allow, "looks right")
		got, err := f.RecordAnswer(f.ctx, a)
		if err != nil || !got.Permits() || got.Reason != "looks right" || got.AnsweredBy != a.By || !got.AnsweredAt.Equal(f.now()) || got.Version != 2 {
			t.Fatalf("answered: %+v, %v", got, err)
		}
		events, err := f.Events(f.ctx, d.Task, 0, 100)
		must(t, err)
		last := events[len(events)-1]
		var data struct {
			Decision nod.Decision
			Answer   nod.Answer
		}
		must(t, json.Unmarshal(last.Data, &data))
		if last.Kind != nod.EventDecisionClosed || last.By != a.By || data.Answer.Assertion == nil || data.Decision.ID != d.ID ||
			verifyAssertion(data.Decision, data.Answer, *data.Answer.Assertion) != nil {
			t.Errorf("the event does not prove the answer: %s", last.Data)
		}
		r, err := f.VerifyChain(f.ctx, "")
		if err != nil || !r.Verified || r.Signatures != 1 {
			t.Errorf("chain: %+v, %v", r, err)
		}
	})
	t.Run("SameAnswerAgainIsIdempotentAnotherIsAConflict", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d, k := f.opened(), f.enrol()
		a := k.answer(*d, nod.Deny, "")
		first, err := f.RecordAnswer(f.ctx, a)
		must(t, err)
		for _, again := range []nod.Answer{a, k.answer(*d, nod.Deny, ""), {Decision: d.ID, Answer: nod.Deny, By: host}} {
			got, err := f.RecordAnswer(f.ctx, again)
			if err != nil || got.Version != first.Version {
				t.Errorf("again: %+v, %v", got, err)
			}
			if kinds := f.kinds(d.Task); kinds[len(kinds)-1] != nod.EventAnswerRepeated {
				t.Errorf("the repeated answer has no event: %v", kinds)
			}
		}
		f.head()
		_, err = f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: host})
		wants(t, "another answer", err, nod.Conflict)
		if msg := nod.PublicMessage(err); !strings.Contains(msg, k.id) || !strings.Contains(msg, "2030-01-02T03:04:05Z") {
			t.Errorf("the conflict does not say who and when: %q", msg)
		}
		if kinds := f.kinds(d.Task); kinds[len(kinds)-1] != nod.EventAnswerRefused {
			t.Errorf("the refused answer has no event: %v", kinds)
		}
	})
	t.Run("LateAnswerExpiresTheDecision", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d := f.opened()
		f.pass(nod.ApprovalDeadline)
		got, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: host})
		wants(t, "a late answer", err, nod.Expired)
		if stored, err := f.Decision(f.ctx, d.ID); err != nil || stored.State != nod.DecisionExpired || got.State != nod.DecisionExpired {
			t.Errorf("stored as %s, %v", stored.State, err)
		}
		_, err = f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: host})
		wants(t, "later still", err, nod.Expired)
		want := []nod.EventKind{nod.EventTaskCreated, nod.EventDecisionOpened, nod.EventDecisionClosed, nod.EventAnswerRefused, nod.EventAnswerRefused}
		if got := f.kinds(d.Task); !slices.Equal(got, want) {
			t.Errorf("kinds are %v, want %v", got, want)
		}
		f.head()
	})
	t.Run("AnswerThatIsNotBoundToWhatWasShownIsRefused", func(t *testing.T) {
		f := newFixture(t, open, signed)
		k := f.enrol()
		for name, c := range map[string]struct {
			code nod.Code
			set  func(*nod.Answer)
		}{
			"another answer":      {nod.Unauthenticated, func(a *nod.Answer) { a.Answer = nod.Deny }},
			"another reason":      {nod.Unauthenticated, func(a *nod.Answer) { a.Reason = "x" }},
			"another decision":    {nod.Unauthenticated, func(a *nod.Answer) { a.Decision = f.opened().ID }},
			"no challenge":        {nod.Unauthenticated, func(a *nod.Answer) { a.Challenge = "" }},
			"an unknown one":      {nod.Unauthenticated, func(a *nod.Answer) { a.Challenge = "c" }},
			"no assertion":        {nod.Unauthenticated, func(a *nod.Answer) { a.Assertion = nil }},
			"another nonce":       {nod.Unauthenticated, func(a *nod.Answer) { a.Assertion.Nonce = "n" }},
			"another key":         {nod.Unauthenticated, func(a *nod.Answer) { a.Assertion.PublicKey = make([]byte, 32) }},
			"a broken signature":  {nod.Unauthenticated, func(a *nod.Answer) { a.Assertion.Signature[3] ^= 1 }},
			"too old a challenge": {nod.Unauthenticated, func(*nod.Answer) { f.pass(nod.ChallengeLife) }},
			"an unknown passkey":  {nod.Forbidden, func(a *nod.Answer) { a.By.Passkey, a.Assertion.Credential = "nobody", "nobody" }},
			"somebody else":       {nod.Forbidden, func(a *nod.Answer) { a.By = nod.Actor{Kind: nod.ActorGitHub, Host: "github.test", ID: 7} }},
			"the supervisor":      {nod.Forbidden, func(a *nod.Answer) { a.By = by }},
			"the host, signed":    {nod.Invalid, func(a *nod.Answer) { a.By = host }},
		} {
			d := f.opened()
			a := k.answer(*d, nod.Allow, "")
			used := a.Challenge
			c.set(&a)
			_, err := f.RecordAnswer(f.ctx, a)
			wants(t, name, err, c.code)
			if got, err := f.Decision(f.ctx, d.ID); err != nil || got.State != nod.DecisionOpen {
				t.Errorf("%s: the decision is %s, %v", name, got.State, err)
			}
			if a.Challenge == used {
				_, err := f.Challenge(f.ctx, used)
				wants(t, name+": the challenge is used up", err, nod.NotFound)
			}
		}
		_, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: "d", Answer: nod.Allow, By: host})
		wants(t, "a decision that is not there", err, nod.NotFound)
		_, err = f.RecordAnswer(f.ctx, nod.Answer{Decision: f.opened().ID, Answer: "maybe", By: host})
		wants(t, "an answer that is none", err, nod.Invalid)
		f.head()
	})
	t.Run("RevokedPasskeyCannotAnswer", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d, k := f.opened(), f.enrol()
		a := k.answer(*d, nod.Allow, "")
		must(t, f.RevokePasskey(f.ctx, k.id, host))
		_, err := f.RecordAnswer(f.ctx, a)
		wants(t, "revoked", err, nod.Forbidden)
		if kinds := f.kinds(d.Task); kinds[len(kinds)-1] != nod.EventAnswerRefused {
			t.Errorf("the refused answer has no event: %v", kinds)
		}
	})
	t.Run("CounterThatGoesBackIsForbidden", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d, k := f.opened(), f.enrol()
		k.count = 9
		if _, err := f.RecordAnswer(f.ctx, k.answer(*d, nod.Allow, "")); err != nil {
			t.Fatal(err)
		}
		k.count = 9 // answer signs with 10 again
		_, err := f.RecordAnswer(f.ctx, k.answer(*f.opened(), nod.Allow, ""))
		wants(t, "the same counter", err, nod.Forbidden)
		k.count = 10
		if _, err := f.RecordAnswer(f.ctx, k.answer(*f.opened(), nod.Allow, "")); err != nil {
			t.Errorf("the next counter: %v", err)
		}
	})
	t.Run("SupersededDecisionTakesNoAnswer", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d := f.opened()
		d.State = nod.DecisionSuperseded
		f.apply(nod.Change{Decisions: []*nod.Decision{d}})
		_, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: host})
		wants(t, "superseded", err, nod.Conflict)
	})
	t.Run("SixteenAnswersRaceAndOneWins", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d := &nod.Decision{ID: f.id("d"), Task: f.task().ID, Kind: nod.Question, Cause: nod.CauseAgentQuestion, FreeText: true, State: nod.DecisionOpen}
		d.SetInput("which one?")
		f.apply(nod.Change{Decisions: []*nod.Decision{d}})
		k := f.enrol()
		var all []nod.Answer
		for i := range 16 {
			all = append(all, k.answer(*d, "option "+string(rune('a'+i)), ""))
		}
		var wg sync.WaitGroup
		won := make(chan string, len(all))
		for _, a := range all {
			wg.Go(func() {
				switch _, err := f.RecordAnswer(f.ctx, a); {
				case err == nil:
					won <- a.Answer
				case nod.CodeOf(err) != nod.Conflict:
					t.Errorf("a loser got %v", err)
				}
			})
		}
		wg.Wait()
		close(won)
		var winners []string
		for w := range won {
			winners = append(winners, w)
		}
		got, err := f.Decision(f.ctx, d.ID)
		if err != nil || len(winners) != 1 || got.Answer != winners[0] {
			t.Errorf("winners %v, stored %q, %v", winners, got.Answer, err)
		}
		f.head()
	})
	t.Run("AnswerAndExpiryRaceAndOneWins", func(t *testing.T) {
		f := newFixture(t, open, signed)
		d := f.opened()
		f.pass(nod.ApprovalDeadline - time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: host}) })
		wg.Go(func() {
			f.pass(time.Millisecond)
			if _, err := f.ExpireDecisions(f.ctx); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if got, err := f.Decision(f.ctx, d.ID); err != nil || got.State == nod.DecisionOpen {
			t.Errorf("the decision is %s, %v", got.State, err)
		}
		f.head()
	})
}
