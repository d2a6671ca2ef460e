package answer

import (
	"net/http"

	"github.com/go-webauthn/webauthn/webauthn"

	"nod"
)

type signInView struct {
	frame
	Next  string // where to go once signed in; always a path of this page
	Retry bool   // the browser kept a strict cookie back because another site linked here
}

func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, http.StatusOK, "signin", signInView{frame: s.frame("Sign in", false), Next: "/"})
}

// askSignIn answers a page request that has no session. It says nothing about
// what is behind the link, not even whether there is anything.
func (s *Server) askSignIn(w http.ResponseWriter, r *http.Request) error {
	_, hasCookie := s.token(r)
	return s.render(w, http.StatusUnauthorized, "signin", signInView{frame: s.frame("Sign in", false), Next: r.URL.EscapedPath(),
		Retry: !hasCookie && r.Header.Get("Sec-Fetch-Site") == "cross-site"})
}

func (s *Server) signInBegin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Ahead bool `json:"ahead"` // nobody has pressed anything yet
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if err := s.stranger(); err != nil {
		return err
	}
	c, err := s.newChallenge(nod.ChallengeSignIn)
	if err != nil {
		return err
	}
	options, session, err := s.webauthn.BeginDiscoverableLogin(webauthn.WithChallenge(c.Bytes))
	if err != nil {
		return nod.E(nod.Internal, "signing in could not be begun", err)
	}
	if err := s.keep(r.Context(), c, ceremony{WebAuthn: *session}); err != nil {
		return err
	}
	return reply(w, beginning{c.ID, options.Response})
}

func (s *Server) signInFinish(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Challenge  string        `json:"challenge"`
		Credential assertionBody `json:"credential"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	c, k, err := s.begun(r.Context(), in.Challenge, nod.ChallengeSignIn)
	if err != nil {
		return err
	}
	p, err := s.asserted(r.Context(), k, in.Credential)
	if err != nil {
		return err
	}
	token, session, err := s.newSession(r, p.ID)
	if err != nil {
		return err
	}
	if err := s.sessions.SignIn(r.Context(), c.ID, p.SignCount, p.BackedUp, session); err != nil {
		return err
	}
	s.setCookie(w, token, SessionLife)
	return reply(w, struct {
		Next string `json:"next"`
	}{"/"})
}
