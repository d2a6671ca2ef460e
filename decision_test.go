package nod_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nod"
)

func approval() nod.Decision {
	d := nod.Decision{ID: "d1", Task: "t1", Kind: nod.Approval, Cause: nod.CauseTool, State: nod.DecisionOpen,
		Deadline: time.Unix(600, 0)}
	d.SetInput("ls")
	return d
}

func TestApprovalWithoutDeadlineIsInvalid(t *testing.T) {
	d := approval()
	if err := d.Valid(); err != nil {
		t.Fatalf("a whole approval is refused: %v", err)
	}
	d.Deadline = time.Time{}
	if nod.CodeOf(d.Valid()) != nod.Invalid {
		t.Error("an approval without a deadline is valid")
	}
}

// TestOnlyAnAnsweredAllowPermits holds invariant 5: nothing is permitted by silence.
func TestOnlyAnAnsweredAllowPermits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := approval()
		d.State = rapid.SampledFrom(nod.DecisionMachine.States()).Draw(t, "state")
		d.Answer = rapid.SampledFrom([]string{"", nod.Allow, nod.Deny, "yes", "ALLOW", " allow"}).Draw(t, "answer")
		want := d.State == nod.DecisionAnswered && d.Answer == "allow"
		if d.Permits() != want {
			t.Fatalf("state %q with answer %q permits: %v", d.State, d.Answer, d.Permits())
		}
	})
}

func TestDecisionTakesOnlyItsAnswers(t *testing.T) {
	q := nod.Decision{Kind: nod.Question, Options: []string{nod.Retry, nod.Cancel}}
	for answer, want := range map[string]bool{nod.Retry: true, nod.Allow: false, "": false, "my own words": false} {
		if q.Takes(answer) != want {
			t.Errorf("question takes %q: %v, want %v", answer, !want, want)
		}
	}
	q.FreeText = true
	if !q.Takes("my own words") || q.Takes("") {
		t.Error("a free-text question must take words and refuse silence")
	}
	if a := approval(); a.Takes("retry") || !a.Takes(nod.Deny) {
		t.Error("an approval takes allow and deny only")
	}
}

func TestInputIsCutByCharactersAndSaysSo(t *testing.T) {
	whole := strings.Repeat("ä", nod.InputCap+1)
	d := approval()
	d.SetInput(whole)
	if !d.InputTruncated || len([]rune(d.Input)) != nod.InputCap {
		t.Errorf("truncated %v at %d characters", d.InputTruncated, len([]rune(d.Input)))
	}
	if d.InputDigest != nod.Digest([]byte(whole)) {
		t.Error("the digest is not of the whole input")
	}
	d.SetInput(whole[:nod.InputCap])
	if d.InputTruncated {
		t.Error("an input that fits is marked as truncated")
	}
}

// TestAnswerChallengeBindsEveryPart holds invariant 6: changing any one part of
// what was shown or answered changes what the passkey has to sign.
func TestAnswerChallengeBindsEveryPart(t *testing.T) {
	d := approval()
	base := nod.AnswerChallenge(d, nod.Allow, "why", "n")
	change := map[string]func() []byte{
		"id":     func() []byte { e := d; e.ID = "d2"; return nod.AnswerChallenge(e, nod.Allow, "why", "n") },
		"kind":   func() []byte { e := d; e.Kind = nod.Question; return nod.AnswerChallenge(e, nod.Allow, "why", "n") },
		"input":  func() []byte { e := d; e.SetInput("ls -l"); return nod.AnswerChallenge(e, nod.Allow, "why", "n") },
		"answer": func() []byte { return nod.AnswerChallenge(d, nod.Deny, "why", "n") },
		"reason": func() []byte { return nod.AnswerChallenge(d, nod.Allow, "because", "n") },
		"nonce":  func() []byte { return nod.AnswerChallenge(d, nod.Allow, "why", "m") },
		"shift":  func() []byte { return nod.AnswerChallenge(d, nod.Allow+"w", "hy", "n") },
	}
	for name, f := range change {
		if bytes.Equal(base, f()) {
			t.Errorf("changing %s leaves the challenge as it was", name)
		}
	}
	r := nod.Decision{ID: "d1", Kind: nod.Review, CommitSHA: "a"}
	s := r
	s.CommitSHA = "b"
	if bytes.Equal(nod.AnswerChallenge(r, nod.Allow, "", "n"), nod.AnswerChallenge(s, nod.Allow, "", "n")) {
		t.Error("a review's challenge does not bind its commit")
	}
}
