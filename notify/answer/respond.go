package answer

import (
	"bytes"
	"net/http"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
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
		Ahead    bool   `json:"ahead"` // nobody has pressed anything yet
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	c, k, err := s.beginAnswer(r, by, in.Decision, in.Answer, in.Reason)
	if err != nil {
		if !in.Ahead {
			s.refused(r.Context(), in.Decision, in.Answer, by, err)
		}
		return err
	}
	if err := s.keep(r.Context(), c, ceremony{Session: by.TokenDigest, WebAuthn: *k.session}); err != nil {
		return err
	}
	return reply(w, beginning{c.ID, k.options})
}

// prompt is what a browser is asked to have signed.
type prompt struct {
	options protocol.PublicKeyCredentialRequestOptions
	session *webauthn.SessionData
}

// beginAnswer makes the challenge of one answer to one decision, or says why it
// cannot be given.
func (s *Server) beginAnswer(r *http.Request, by nod.Session, decision, answer, reason string) (c nod.Challenge, k prompt, err error) {
	for _, text := range []string{answer, reason} {
		if utf8.RuneCountInString(text) > ReasonCap {
			return c, k, nod.E(nod.TooLarge, "an answer or a reason has at most 2,000 characters", nil)
		}
	}
	d, err := s.decisionOf(r.Context(), decision, by)
	if err != nil {
		return c, k, err
	}
	if err := s.answerable(d); err != nil {
		return c, k, err
	}
	if !d.Takes(answer) {
		return c, k, nod.E(nod.Invalid, "this is not one of the answers", nil)
	}
	if !harmless(d, answer) {
		// What cannot be shown as it is cannot be allowed.
		if _, err := s.shown(r.Context(), d); err != nil {
			return c, k, err
		}
	}
	if c, err = s.newChallenge(nod.ChallengeAnswer); err != nil {
		return c, k, err
	}
	c.Decision, c.Answer, c.Reason = d.ID, answer, reason
	c.Bytes = nod.AnswerChallenge(d, c.Answer, c.Reason, c.Nonce)
	options, session, err := s.webauthn.BeginDiscoverableLogin(webauthn.WithChallenge(c.Bytes))
	if err != nil {
		return c, k, nod.E(nod.Internal, "the answer could not be begun", err)
	}
	k = prompt{options.Response, session}
	k.options.AllowedCredentials, err = s.descriptors(r)
	return c, k, err
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
	d, a, err := s.signedAnswer(r, by, c, k, in.Credential)
	if err != nil {
		s.refused(r.Context(), c.Decision, c.Answer, by, err)
		return err
	}
	if d, err = s.decisions.RecordAnswer(r.Context(), a); err != nil {
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

// signedAnswer makes the answer that c was for of what the browser posts, once all of
// it holds.
func (s *Server) signedAnswer(r *http.Request, by nod.Session, c nod.Challenge, k ceremony, body assertionBody) (d nod.Decision, a nod.Answer, err error) {
	if k.Session != by.TokenDigest {
		return d, a, nod.E(nod.Forbidden, "this answer was begun in another browser", nil)
	}
	if d, err = s.decisions.Decision(r.Context(), c.Decision); err != nil {
		return d, a, err
	}
	if !bytes.Equal(c.Bytes, nod.AnswerChallenge(d, c.Answer, c.Reason, c.Nonce)) {
		return d, a, nod.E(nod.Conflict, "the decision changed since it was shown", nil)
	}
	p, err := s.asserted(r.Context(), k, body)
	if err != nil {
		return d, a, err
	}
	a = nod.Answer{Decision: d.ID, Answer: c.Answer, Reason: c.Reason, Challenge: c.ID,
		By: nod.Actor{Kind: nod.ActorPasskey, Passkey: p.ID, Login: p.Name}, Assertion: s.assertion(p, body, c.Nonce)}
	// What is stored as evidence must stand on its own later.
	return d, a, VerifyAssertion(d, a)
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
