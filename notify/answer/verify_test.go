package answer_test

import (
	"bytes"
	"strings"
	"testing"

	"nod"
	"nod/notify/answer"
	"nod/notify/answer/answertest"
)

// recorded answers a decision for real and returns it with the stored answer.
func recorded(t *testing.T, alg answertest.Algorithm) (nod.Decision, nod.Answer) {
	t.Helper()
	w := newWorld(t)
	c := w.client()
	c.Key = answertest.NewAuthenticatorFor(alg)
	w.must(c.Enrol(t.Context(), w.invite("key")))
	w.must(c.SignIn(t.Context()))
	d := w.askBash("npm test")
	w.must(c.Answer(t.Context(), d.ID, nod.Deny, "not yet"))
	return w.decision(d.ID), w.store.answers[0]
}

func TestARecordedAnswerVerifiesOffline(t *testing.T) {
	for name, alg := range map[string]answertest.Algorithm{"ES256": answertest.ES256, "EdDSA": answertest.EdDSA, "RS256": answertest.RS256} {
		t.Run(name, func(t *testing.T) {
			d, a := recorded(t, alg)
			if err := answer.VerifyAssertion(d, a); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestEveryChangedByteOfTheEvidenceIsFound(t *testing.T) {
	d, a := recorded(t, answertest.ES256)
	for name, of := range map[string]func(*nod.Assertion) *[]byte{
		"authenticator data": func(s *nod.Assertion) *[]byte { return &s.AuthenticatorData },
		"client data":        func(s *nod.Assertion) *[]byte { return &s.ClientDataJSON },
		"signature":          func(s *nod.Assertion) *[]byte { return &s.Signature },
		"public key":         func(s *nod.Assertion) *[]byte { return &s.PublicKey },
	} {
		whole := *of(a.Assertion)
		for i := range whole {
			for _, bit := range []byte{0x01, 0x80} {
				changed := bytes.Clone(whole)
				changed[i] ^= bit
				s := *a.Assertion
				*of(&s) = changed
				b := a
				b.Assertion = &s
				if answer.VerifyAssertion(d, b) == nil {
					t.Errorf("%s: byte %d with %#x flipped still verifies", name, i, bit)
				}
			}
		}
		s := *a.Assertion
		*of(&s) = whole[:len(whole)-1]
		b := a
		b.Assertion = &s
		if answer.VerifyAssertion(d, b) == nil {
			t.Errorf("%s: cut short, still verifies", name)
		}
	}
}

func TestEveryChangedFieldOfTheAnswerIsFound(t *testing.T) {
	d, a := recorded(t, answertest.ES256)
	changes := map[string]func(d *nod.Decision, a *nod.Answer, s *nod.Assertion){
		"another decision":  func(d *nod.Decision, a *nod.Answer, _ *nod.Assertion) { d.ID, a.Decision = "dx", "dx" },
		"not this decision": func(d *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.Decision = "dx" },
		"another kind": func(d *nod.Decision, _ *nod.Answer, _ *nod.Assertion) {
			d.Kind, d.Options = nod.Question, []string{nod.Deny}
		},
		"another input":  func(d *nod.Decision, _ *nod.Answer, _ *nod.Assertion) { d.InputDigest = nod.Digest(nil) },
		"another answer": func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.Answer = nod.Allow },
		"no answer":      func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.Answer = "" },
		"another reason": func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.Reason = "not yet!" },
		"moved boundary": func(_ *nod.Decision, a *nod.Answer, s *nod.Assertion) {
			a.Reason, s.Nonce = a.Reason+s.Nonce[:1], s.Nonce[1:]
		},
		"another nonce":        func(_ *nod.Decision, _ *nod.Answer, s *nod.Assertion) { s.Nonce = strings.Repeat("0", 64) },
		"another site":         func(_ *nod.Decision, _ *nod.Answer, s *nod.Assertion) { s.RPID = "example.org" },
		"no site":              func(_ *nod.Decision, _ *nod.Answer, s *nod.Assertion) { s.RPID = "" },
		"another origin":       func(_ *nod.Decision, _ *nod.Answer, s *nod.Assertion) { s.Origin = "https://example.org" },
		"another counter":      func(_ *nod.Decision, _ *nod.Answer, s *nod.Assertion) { s.SignCount++ },
		"another credential":   func(_ *nod.Decision, _ *nod.Answer, s *nod.Assertion) { s.Credential += "x" },
		"another passkey":      func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.By.Passkey = "x" },
		"an actor from GitHub": func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.By = nod.Actor{Kind: nod.ActorGitHub, ID: 1} },
		"an actor on the host": func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.By = nod.Actor{Kind: nod.ActorHost} },
		"assertion left out":   func(_ *nod.Decision, a *nod.Answer, _ *nod.Assertion) { a.Assertion = nil },
		"review with this hash": func(d *nod.Decision, _ *nod.Answer, _ *nod.Assertion) {
			d.Kind, d.CommitSHA = nod.Review, d.InputDigest
		},
	}
	for name, change := range changes {
		d, a, s := d, a, *a.Assertion
		a.Assertion = &s
		change(&d, &a, &s)
		if err := answer.VerifyAssertion(d, a); nod.CodeOf(err) != nod.Forbidden {
			t.Errorf("%s: got %v, want Forbidden", name, err)
		}
	}
}
