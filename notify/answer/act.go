package answer

import (
	"bytes"
	"encoding/hex"
	"net/http"

	"github.com/go-webauthn/webauthn/webauthn"

	"nod"
)

// actBegin begins what a person wants done with a task, unasked. Like an answer it
// needs an assertion of its own, so that a stolen cookie can neither end a task
// nor speak to an agent.
func (s *Server) actBegin(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	var in struct {
		Task  string      `json:"task"`
		Act   nod.ActKind `json:"act"`
		Words string      `json:"words"`
		Ahead bool        `json:"ahead"` // nobody has pressed anything yet
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	c, err := s.caseOf(r.Context(), in.Task, by)
	if err != nil {
		return err
	}
	if c.Task.Done() {
		return nod.E(nod.Conflict, "the task is "+string(c.Task.State), nil)
	}
	ch, err := s.newChallenge(nod.ChallengeAct)
	if err != nil {
		return err
	}
	a := nod.Act{ID: ch.ID, Task: c.Task.ID, Kind: in.Act, Words: in.Words}
	if err := a.Valid(); err != nil {
		return err
	}
	ch.Task, ch.Answer, ch.Reason, ch.Bytes = a.Task, string(a.Kind), a.Words, nod.ActChallenge(a, ch.Nonce)
	options, session, err := s.webauthn.BeginDiscoverableLogin(webauthn.WithChallenge(ch.Bytes))
	if err != nil {
		return nod.E(nod.Internal, "this could not be begun", err)
	}
	if options.Response.AllowedCredentials, err = s.descriptors(r); err != nil {
		return err
	}
	if err := s.keep(r.Context(), ch, ceremony{Session: by.TokenDigest, WebAuthn: *session}); err != nil {
		return err
	}
	return reply(w, beginning{ch.ID, options.Response})
}

func (s *Server) actFinish(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	var in struct {
		Challenge  string        `json:"challenge"`
		Credential assertionBody `json:"credential"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	c, k, err := s.begun(r.Context(), in.Challenge, nod.ChallengeAct)
	if err != nil {
		return err
	}
	if k.Session != by.TokenDigest {
		return nod.E(nod.Forbidden, "this was begun in another browser", nil)
	}
	id, err := s.random(16)
	if err != nil {
		return err
	}
	a := nod.Act{ID: "a" + hex.EncodeToString(id), Task: c.Task, Kind: nod.ActKind(c.Answer), Words: c.Reason, Challenge: c.ID}
	if !bytes.Equal(c.Bytes, nod.ActChallenge(a, c.Nonce)) {
		return nod.E(nod.Internal, "the challenge is not of this act", nil)
	}
	p, err := s.asserted(r.Context(), k, in.Credential)
	if err != nil {
		return err
	}
	a.By = nod.Actor{Kind: nod.ActorPasskey, Passkey: p.ID, Login: p.Name}
	a.Assertion = s.assertion(p, in.Credential, c.Nonce)
	// What is stored as evidence must stand on its own later.
	if err := VerifyAct(a); err != nil {
		return err
	}
	if a, err = s.acts.RecordAct(r.Context(), a); err != nil {
		return err
	}
	s.log.Info("act wanted", "task", a.Task, "act", string(a.Kind))
	return reply(w, struct {
		Next string `json:"next"`
	}{"/t/" + a.Task})
}

// assertion is the evidence of what p signed.
func (s *Server) assertion(p nod.Passkey, body assertionBody, nonce string) *nod.Assertion {
	return &nod.Assertion{
		Credential: p.ID, AuthenticatorData: body.Response.AuthenticatorData, ClientDataJSON: body.Response.ClientDataJSON,
		Signature: body.Response.Signature, SignCount: p.SignCount, PublicKey: p.PublicKey, RPID: s.site.rpID, Origin: s.site.origin, Nonce: nonce,
	}
}
