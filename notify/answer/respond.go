package answer

import (
	"bytes"
	"net/http"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/webauthn"

	"nod"
)

// ReasonCap is how many characters a reason, or a question's free answer, may have.
const ReasonCap = 2000

func (s *Server) answerBegin(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	var in struct {
		Decision string `json:"decision"`
		Answer   string `json:"answer"`
		Reason   string `json:"reason"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	for _, text := range []string{in.Answer, in.Reason} {
		if utf8.RuneCountInString(text) > ReasonCap {
			return nod.E(nod.TooLarge, "an answer or a reason has at most 2,000 characters", nil)
		}
	}
	d, err := s.decisionOf(r.Context(), in.Decision, by)
	if err != nil {
		return err
	}
	if err := s.answerable(d); err != nil {
		return err
	}
	if !d.Takes(in.Answer) {
		return nod.E(nod.Invalid, "this is not one of the answers", nil)
	}
	if !harmless(d, in.Answer) {
		// What cannot be shown as it is cannot be allowed.
		if _, err := s.shown(r.Context(), d); err != nil {
			return err
		}
	}
	c, err := s.newChallenge(nod.ChallengeAnswer)
	if err != nil {
		return err
	}
	c.Decision, c.Answer, c.Reason = d.ID, in.Answer, in.Reason
	c.Bytes = nod.AnswerChallenge(d, c.Answer, c.Reason, c.Nonce)
	options, session, err := s.webauthn.BeginDiscoverableLogin(webauthn.WithChallenge(c.Bytes))
	if err != nil {
		return nod.E(nod.Internal, "the answer could not be begun", err)
	}
	if options.Response.AllowedCredentials, err = s.descriptors(r); err != nil {
		return err
	}
	if err := s.keep(r.Context(), c, ceremony{Session: by.TokenDigest, WebAuthn: *session}); err != nil {
		return err
	}
	return reply(w, beginning{c.ID, options.Response})
}

func (s *Server) answerFinish(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	var in struct {
		Challenge  string        `json:"challenge"`
		Credential assertionBody `json:"credential"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	c, k, err := s.begun(r.Context(), in.Challenge, nod.ChallengeAnswer)
	if err != nil {
		return err
	}
	if k.Session != by.TokenDigest {
		return nod.E(nod.Forbidden, "this answer was begun in another browser", nil)
	}
	d, err := s.decisions.Decision(r.Context(), c.Decision)
	if err != nil {
		return err
	}
	if !bytes.Equal(c.Bytes, nod.AnswerChallenge(d, c.Answer, c.Reason, c.Nonce)) {
		return nod.E(nod.Conflict, "the decision changed since it was shown", nil)
	}
	p, err := s.asserted(r.Context(), k, in.Credential)
	if err != nil {
		return err
	}
	a := nod.Answer{Decision: d.ID, Answer: c.Answer, Reason: c.Reason, Challenge: c.ID,
		By: nod.Actor{Kind: nod.ActorPasskey, Passkey: p.ID, Login: p.Name}, Assertion: s.assertion(p, in.Credential, c.Nonce)}
	// What is stored as evidence must stand on its own later.
	if err := VerifyAssertion(d, a); err != nil {
		return err
	}
	d, err = s.decisions.RecordAnswer(r.Context(), a)
	if err != nil {
		return err
	}
	s.log.Info("decision answered", "decision", d.ID, "task", d.Task, "state", d.State)
	return reply(w, struct {
		State   nod.DecisionState `json:"state"`
		Answer  string            `json:"answer"`
		Missing int               `json:"missing"` // more passkeys that must allow it
		Next    string            `json:"next"`
	}{d.State, d.Answer, d.Missing(), "/d/" + d.ID})
}

// answerable returns why d takes no answer any more, or nil.
func (s *Server) answerable(d nod.Decision) error {
	switch {
	case d.State == nod.DecisionAnswered:
		return nod.E(nod.Conflict, "already answered by "+d.AnsweredBy.Show()+" at "+d.AnsweredAt.UTC().Format("2006-01-02 15:04:05 UTC"), nil)
	case d.State != nod.DecisionOpen:
		return nod.E(nod.Expired, "this decision is "+string(d.State), nil)
	case d.Late(s.now()):
		return nod.E(nod.Expired, "the deadline has passed: this was denied", nil)
	}
	return nil
}
