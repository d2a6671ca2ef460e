package answer

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	"golang.org/x/time/rate"

	"nod"
)

// Config says what the page works with. The five ports are required; one store
// implements them all.
type Config struct {
	Decisions Decisions
	Witness   Witness
	Streams   Streams
	Passkeys  Passkeys
	Sessions  Sessions
	// Acts takes messages to an agent, pauses and the ends of tasks; when it is nil the
	// page offers none of them.
	Acts Acts

	// PublicURL is what people type: https://host, or http://localhost:port for a
	// demo. It alone decides RP ID, origin and cookie flags. Required.
	PublicURL string
	// GitHubURL is the root of GitHub's pages, for links: http or https. When it is
	// empty, links lead to https:// and the task's host.
	GitHubURL string
	// Streams bounds the event streams that are open at once, of all sessions;
	// default 256. One session has eight at most, and fewer when Streams is less.
	MaxStreams int
	Log        *slog.Logger     // required
	Now        func() time.Time // time.Now when nil
	Rand       io.Reader        // crypto/rand.Reader when nil
}

// Server is the answer page, an http.Handler. Close ends the streams it serves.
type Server struct {
	decisions Decisions
	witness   Witness
	streams   Streams
	passkeys  Passkeys
	sessions  Sessions
	acts      Acts
	site      site
	github    *url.URL // nil: by the task's host
	log       *slog.Logger
	now       func() time.Time
	rand      io.Reader
	webauthn  *webauthn.WebAuthn
	pages     *template.Template
	assets    map[string]asset
	strangers *rate.Limiter // begin requests of people who are not signed in
	refusals  *rate.Limiter // what is recorded of answers that were turned away
	live      slots         // open streams
	feeds     feeds         // what they share
	closing   context.Context
	close     context.CancelFunc
	handler   http.Handler
}

const (
	bodyCap     = 64 << 10 // bytes of a request body
	streamsCap  = 256      // event streams at once, by default
	streamsEach = 8        // of one session
)

//go:embed pages/*.html
var pageFiles embed.FS

// New makes the page. It returns Invalid when the configuration cannot work.
func New(c Config) (*Server, error) {
	if c.Decisions == nil || c.Witness == nil || c.Streams == nil || c.Passkeys == nil || c.Sessions == nil || c.Log == nil {
		return nil, nod.E(nod.Invalid, "the answer page lacks a port or a logger", nil)
	}
	where, err := parseSite(c.PublicURL)
	if err != nil {
		return nil, err
	}
	if c.MaxStreams <= 0 {
		c.MaxStreams = streamsCap
	}
	s := &Server{decisions: c.Decisions, witness: c.Witness, streams: c.Streams, passkeys: c.Passkeys, sessions: c.Sessions, acts: c.Acts, site: where,
		log: c.Log, now: c.Now, rand: c.Rand, strangers: rate.NewLimiter(5, 30), refusals: rate.NewLimiter(rate.Every(5*time.Second), 500),
		live: slots{all: c.MaxStreams, each: streamsEach, open: map[string]int{}}, feeds: feeds{of: map[string]*feed{}}}
	if c.GitHubURL != "" {
		if s.github, err = url.Parse(c.GitHubURL); err != nil || s.github.Host == "" || s.github.Scheme != "https" && s.github.Scheme != "http" {
			return nil, nod.E(nod.Invalid, "the address of GitHub's pages cannot be used", err)
		}
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	if s.webauthn, err = newWebAuthn(where); err != nil {
		return nil, nod.E(nod.Invalid, "the public URL does not suit passkeys", err)
	}
	if s.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	if s.pages, err = template.New("").Funcs(s.funcs()).ParseFS(pageFiles, "pages/*.html"); err != nil {
		return nil, nod.E(nod.Internal, "the pages cannot be read", err)
	}
	s.closing, s.close = context.WithCancel(context.Background())
	if s.handler, err = s.routes(); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends every open event stream, so that the HTTP server around s can shut
// down. Other requests are still answered.
func (s *Server) Close() { s.close() }

func (s *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	on := func(pattern string, h handler) { mux.Handle(pattern, s.adapt(h)) }
	on("GET /{$}", s.signedIn(s.inboxPage))
	on("GET /d/{id}", s.signedIn(s.decisionPage))
	on("GET /devices", s.signedIn(s.devicesPage))
	on("GET /t/{id}", s.signedIn(s.taskPage))
	on("GET /t/{id}/events", s.signedIn(s.taskEvents))
	on("GET /enrol/{token}", s.enrolPage)
	on("GET /tap/{token}", s.tapPage)
	on("POST /tap/{token}", s.tap)
	on("GET /signin", s.signInPage)
	on("GET /assets/{name}", s.asset)
	on("GET /", func(http.ResponseWriter, *http.Request) error {
		return nod.E(nod.NotFound, "there is nothing here", nil)
	})
	on("POST /api/signin/begin", s.signInBegin)
	on("POST /api/signin/finish", s.signInFinish)
	on("POST /api/enrol/begin", s.enrolBegin)
	on("POST /api/enrol/finish", s.enrolFinish)
	on("POST /api/answer/begin", s.signedIn(s.answerBegin))
	on("POST /api/answer/finish", s.signedIn(s.answerFinish))
	on("POST /api/seen", s.signedIn(s.seen))
	if s.acts != nil {
		on("POST /api/act/begin", s.signedIn(s.actBegin))
		on("POST /api/act/finish", s.signedIn(s.actFinish))
	}
	on("POST /signout", s.signOut)
	on("POST /devices/signout", s.signedIn(s.signOutDevice))

	refuse := s.adapt(func(http.ResponseWriter, *http.Request) error {
		return nod.E(nod.Forbidden, "this request came from another site", nil)
	})
	guard := http.NewCrossOriginProtection()
	// A proxy may rewrite Host, so the guard needs to be told what our origin is.
	if err := guard.AddTrustedOrigin(s.site.origin); err != nil {
		return nil, nod.E(nod.Invalid, "the public URL has no usable origin", err)
	}
	guard.SetDenyHandler(refuse)
	return guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The guard trusts an Origin that equals Host; ours is fixed, whatever Host says.
		// A form of this page, whose policy is to send no referrer, says "null"; what tells
		// it from a stranger's is what only browsers can set.
		from := r.Header.Get("Origin")
		own := from == s.site.origin || from == "" || from == "null" && r.Header.Get("Sec-Fetch-Site") == "same-origin"
		if !own && r.Method != http.MethodGet && r.Method != http.MethodHead {
			refuse.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})), nil
}

const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP serves the page, with the security headers on every answer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "publickey-credentials-get=(self), publickey-credentials-create=(self), "+
		"camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=()")
	s.handler.ServeHTTP(w, r)
}

// handler is a handler that leaves the error to adapt.
type handler func(w http.ResponseWriter, r *http.Request) error

// adapt is the one place where an error becomes an answer.
func (s *Server) adapt(next handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, bodyCap)
		}
		err := next(w, r)
		if err == nil || r.Context().Err() != nil && errors.Is(err, r.Context().Err()) {
			return
		}
		code := nod.CodeOf(err)
		switch {
		case code.HTTPStatus() >= http.StatusInternalServerError:
			s.log.Error("request failed", "route", r.Pattern, "code", code, "err", err)
		case code == nod.Forbidden:
			s.log.Warn("request refused", "route", r.Pattern, "code", code, "err", err)
		}
		if err := s.explain(w, r, code, err); err != nil {
			s.log.Error("error page failed", "route", r.Pattern, "err", err)
			http.Error(w, "something went wrong inside nod", http.StatusInternalServerError)
		}
	})
}

type errorView struct {
	frame
	Message, Hint string
}

func (s *Server) explain(w http.ResponseWriter, r *http.Request, code nod.Code, err error) error {
	hint := ""
	var e *nod.Error
	if errors.As(err, &e) {
		hint = e.Hint
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		body, err := json.Marshal(map[string]any{"error": map[string]string{"code": string(code), "message": nod.PublicMessage(err), "hint": hint}})
		if err != nil {
			return err
		}
		return send(w, code.HTTPStatus(), "application/json", body)
	}
	if code == nod.Unauthenticated && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return s.askSignIn(w, r)
	}
	title := http.StatusText(code.HTTPStatus())
	return s.render(w, code.HTTPStatus(), "error", errorView{frame: s.frame(title, false), Message: nod.PublicMessage(err), Hint: hint})
}

// stranger admits one begin request of somebody who is not signed in, or says later.
func (s *Server) stranger() error {
	if !s.strangers.AllowN(s.now(), 1) {
		return nod.E(nod.RateLimited, "too many attempts, wait a moment", nil)
	}
	return nil
}

// decode reads the one JSON object that r must hold into v; unknown fields and
// anything after the object are refused.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nod.E(nod.Invalid, "the request must be application/json", err)
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return nod.E(nod.TooLarge, "the request is too large", err)
		}
		return nod.E(nod.Invalid, "the request cannot be read", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nod.E(nod.Invalid, "the request holds more than one value", err)
	}
	return nil
}

func reply(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return nod.E(nod.Internal, "the reply could not be written", err)
	}
	return send(w, http.StatusOK, "application/json", body)
}

// render runs the page into memory first, so that a failing page is an error and
// not half an answer.
func (s *Server) render(w http.ResponseWriter, status int, page string, v any) error {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, page, v); err != nil {
		return nod.E(nod.Internal, "the page could not be made", err)
	}
	return send(w, status, "text/html; charset=utf-8", b.Bytes())
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	// A reader that went away is no failure of ours.
	_, _ = w.Write(body)
	return nil
}
