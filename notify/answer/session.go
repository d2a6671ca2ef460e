package answer

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"nod"
)

// How long a signed-in browser may read. Answering needs the passkey each time,
// whatever the session.
const (
	SessionLife = 12 * time.Hour   // at most
	PhoneIdle   = 15 * time.Minute // without a request, on what is carried around
	DeskIdle    = 2 * time.Hour    // elsewhere
)

// tokenLength is the length of a session token: 32 bytes in base64url.
const tokenLength = 43

type signedInHandler func(w http.ResponseWriter, r *http.Request, session nod.Session) error

// signedIn lets only a signed-in browser pass.
func (s *Server) signedIn(next signedInHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		session, err := s.session(r)
		if err != nil {
			return err
		}
		return next(w, r, session)
	}
}

// session returns the session of r, or Unauthenticated.
func (s *Server) session(r *http.Request) (nod.Session, error) {
	token, ok := s.token(r)
	if !ok {
		return nod.Session{}, nod.E(nod.Unauthenticated, "sign in with your passkey", nil)
	}
	return s.sessionOf(r.Context(), nod.Digest([]byte(token)))
}

func (s *Server) sessionOf(ctx context.Context, digest string) (nod.Session, error) {
	return s.admit(s.sessions.Session(ctx, digest))
}

// until is how long a session that still holds will unless something ends it. It is
// not kept alive.
func (s *Server) until(ctx context.Context, digest string) (time.Time, error) {
	session, err := s.admit(s.sessions.Peek(ctx, digest))
	if idle := session.SeenAt.Add(session.Idle); idle.Before(session.ExpiresAt) {
		return idle, err
	}
	return session.ExpiresAt, err
}

func (s *Server) admit(session nod.Session, err error) (nod.Session, error) {
	switch {
	case nod.CodeOf(err) == nod.NotFound:
		return nod.Session{}, nod.E(nod.Unauthenticated, "sign in with your passkey", nil)
	case err != nil:
		return nod.Session{}, err
	case !s.now().Before(session.ExpiresAt) || session.Idle <= 0:
		return nod.Session{}, nod.E(nod.Unauthenticated, "sign in again with your passkey", nil)
	}
	return session, nil
}

func (s *Server) token(r *http.Request) (string, bool) {
	cookies := r.CookiesNamed(s.site.cookie())
	if len(cookies) != 1 || len(cookies[0].Value) != tokenLength {
		return "", false
	}
	return cookies[0].Value, true
}

// newSession makes a token and the session it opens. Only the token's digest is stored.
func (s *Server) newSession(r *http.Request, passkey string) (token string, session nod.Session, err error) {
	b, err := s.random(32)
	if err != nil {
		return "", session, err
	}
	token = base64.RawURLEncoding.EncodeToString(b)
	now, on, idle := s.now(), device(r.UserAgent()), DeskIdle
	if portable(on) {
		idle = PhoneIdle
	}
	return token, nod.Session{TokenDigest: nod.Digest([]byte(token)), Passkey: passkey, Device: on,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(SessionLife), Idle: idle}, nil
}

func (s *Server) setCookie(w http.ResponseWriter, token string, life time.Duration) {
	c := &http.Cookie{Name: s.site.cookie(), Value: token, Path: "/", HttpOnly: true, Secure: s.site.secure,
		SameSite: http.SameSiteStrictMode, MaxAge: int(life / time.Second)}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	if token, ok := s.token(r); ok {
		if err := s.end(r.Context(), nod.Digest([]byte(token))); err != nil {
			return err
		}
	}
	s.setCookie(w, "", 0)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}

// end ends a session and its streams.
func (s *Server) end(ctx context.Context, digest string) error {
	err := s.sessions.SignOut(ctx, digest)
	s.stir(nod.SupervisorStream)
	return err
}

// portable reports whether a device is one that is left lying around. One that is
// not known counts as such.
func portable(device string) bool {
	switch device {
	case "Mac", "Windows", "Linux", "Chromebook":
		return false
	}
	return true
}

// device names a browser for the list of sessions: one of a few known words, never
// what the browser said.
func device(userAgent string) string {
	for _, d := range []struct{ in, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "Chromebook"},
		{"Macintosh", "Mac"}, {"Windows", "Windows"}, {"Linux", "Linux"},
	} {
		if strings.Contains(userAgent, d.in) {
			return d.name
		}
	}
	return "unknown device"
}
