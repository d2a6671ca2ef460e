package githubsim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config says how a Server is made.
type Config struct {
	Dir     string           // required: an existing directory for repositories and spooled pushes
	Now     func() time.Time // nil: the system clock
	Log     *slog.Logger     // nil: nothing is logged
	WebUser string           // login that the pages act as; empty: the pages only show
}

// maxRequests is how many entries the request log keeps; older ones are dropped.
const maxRequests = 10_000

// Server is the simulated GitHub. Make it with New and end it with Close. Its
// methods may be called from several goroutines.
type Server struct {
	dir     string
	now     func() time.Time
	log     *slog.Logger
	webUser string
	app     appIdentity
	webFlow signer

	api, web http.Handler
	hooks    *hooks

	mu            sync.Mutex // guards everything below
	base          string     // scheme://host, without a slash at the end
	lastID        int64
	users         map[string]*user // by lower-case login
	repos         map[string]*repo // by lower-case owner/name
	installations []*installation
	tokens        map[string]*token
	faults        []*Fault
	limits        limits
	requests      []Request
	unsigned      bool                // commits by the App are left unsigned
	manifests     map[string]manifest // by code
	asked         grant               // what the App asks for
	told          []string            // events that it is told of
	appOwner      *user

	closing context.CancelFunc
	ended   context.Context
	serving sync.WaitGroup
}

// New makes a Server and starts its webhook worker. Nothing listens yet.
func New(c Config) (*Server, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil || c.Dir == "" {
		return nil, errors.Join(errors.New("githubsim: Config.Dir is required"), err)
	}
	for _, sub := range []string{"repos", "spool", "home"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	s := &Server{dir: dir, now: c.Now, log: c.Log, webUser: c.WebUser, base: "http://localhost", lastID: 100_000,
		users: map[string]*user{}, repos: map[string]*repo{}, tokens: map[string]*token{},
		limits:    limits{hourly: hourlyRequests, meters: map[string]*meter{}},
		manifests: map[string]manifest{}, asked: appGrant(), told: appEvents}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.app, err = newAppIdentity(); err != nil {
		return nil, err
	}
	if s.webFlow, err = newSigner(); err != nil {
		return nil, err
	}
	s.app.user = s.addUser(s.app.slug+"[bot]", "Bot")
	ghost := s.addUser("web-flow", "User")
	ghost.emails = append(ghost.emails, webFlowEmail)
	ghost.keys = append(ghost.keys, s.webFlow.key.PublicKey())
	s.appOwner = ghost
	s.api = s.apiMux()
	if s.web, err = s.webMux(); err != nil {
		return nil, err
	}
	s.ended, s.closing = context.WithCancel(context.Background())
	s.hooks = startHooks(s.ended, s.now, s.log, s.app)
	return s, nil
}

// Close stops the listener and the webhook worker and waits for both.
func (s *Server) Close() error {
	s.closing()
	s.serving.Wait()
	s.hooks.wait()
	return nil
}

// Start listens on a free loopback port until ctx ends or Close is called, and
// returns the base URL without a slash at the end.
func (s *Server) Start(ctx context.Context) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	base := "http://" + l.Addr().String()
	s.SetBaseURL(base)
	hs := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.serving.Add(2)
	go func() {
		defer s.serving.Done()
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("simulated github stopped serving", "err", err)
		}
	}()
	go func() {
		defer s.serving.Done()
		select {
		case <-ctx.Done():
		case <-s.ended.Done():
		}
		if err := hs.Close(); err != nil {
			s.log.Debug("closed listener", "err", err)
		}
	}()
	return base, nil
}

// SetBaseURL says under which scheme and host people and webhooks reach s.
func (s *Server) SetBaseURL(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = strings.TrimRight(base, "/")
}

// BaseURL is what SetBaseURL or Start said last.
func (s *Server) BaseURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

// id returns a fresh id. The caller holds s.mu, except in New.
func (s *Server) id() int64 { s.lastID++; return s.lastID }

// stamp is the time as GitHub's API gives it: whole seconds, UTC.
func (s *Server) stamp() time.Time { return s.now().UTC().Truncate(time.Second) }

// Request is one entry of the request log.
type Request struct {
	Method, Path string // Path has no query and no /api/v3
	Query        string
	Status       int    // 0 when a fault cut the connection
	As           string // app, installation, user, anonymous or invalid
}

// Requests returns what was asked so far, oldest first: at most the last 10,000.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Cut says where a fault cuts the connection.
type Cut string

const (
	CutNothing Cut = ""
	CutBefore  Cut = "before" // nothing was done, nothing is answered
	CutAfter   Cut = "after"  // it was done, but nobody hears of it
	CutMiddle  Cut = "middle" // it was done; half of the answer arrives
)

// Fault makes the next Times requests that match go wrong.
type Fault struct {
	Method string // empty matches every method
	Path   string // substring of the path without /api/v3; empty matches every path
	Skip   int    // matching requests that are let through first
	Times  int    // 0 counts as 1
	Cut    Cut    // when set, Status, Header and Body are not used
	Status int
	Header map[string]string
	Body   string // empty: an error in GitHub's JSON with the status text
}

// FaultHeader marks an answer that is a fault's and not what GitHub would say.
const FaultHeader = "X-Githubsim-Fault"

// Inject adds a fault. Faults are tried in the order in which they were added.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(1, f.Times)
	s.faults = append(s.faults, &f)
}

func (s *Server) takeFault(method, path string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times > 0 && (f.Method == "" || f.Method == method) && strings.Contains(path, f.Path) {
			if f.Skip > 0 {
				f.Skip--
				continue
			}
			f.Times--
			return f
		}
	}
	return nil
}

// ServeHTTP serves the API at / and /api/v3/, repositories over smart HTTP, and
// the pages.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v3/"); ok {
		r = r.Clone(r.Context())
		r.URL.Path = "/" + rest
		if raw, ok := strings.CutPrefix(r.URL.RawPath, "/api/v3/"); ok {
			r.URL.RawPath = "/" + raw
		}
	}
	seen := &statusWriter{ResponseWriter: w}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.requests) >= maxRequests {
			s.requests = slices.Delete(s.requests, 0, maxRequests/10)
		}
		s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, seen.status, s.asWhom(r)})
	}()
	if f := s.takeFault(r.Method, r.URL.Path); f != nil {
		s.fail(seen, r, f)
		return
	}
	s.dispatch(seen, r)
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case slices.Contains(apiRoots, first):
		if m := issueComment.FindStringSubmatch(r.URL.Path); m != nil {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = m[1]+"/issue-comments/"+m[2], ""
		}
		s.api.ServeHTTP(w, r)
	case r.Method == http.MethodPost && isNewApp(r.URL.Path):
		s.newApp(w, r)
	case isGit(rest):
		s.serveGit(w, r)
	default:
		s.web.ServeHTTP(w, r)
	}
}

// issueComment is the one kind of path that the mux would take for another one: an
// issue with the number "comments".
var issueComment = regexp.MustCompile(`^(/repos/[^/]+/[^/]+)/issues/comments/([^/]+(?:/reactions)?)$`)

// apiRoots are the first path segments that belong to the API; no login may be one.
var apiRoots = []string{"app", "app-manifests", "installation", "repos", "user", "users"}

func (s *Server) fail(w *statusWriter, r *http.Request, f *Fault) {
	if f.Cut == CutNothing {
		w.Header().Set(FaultHeader, "injected")
		for k, v := range f.Header {
			w.Header().Set(k, v)
		}
		if f.Body != "" {
			w.WriteHeader(f.Status)
			_, _ = io.WriteString(w, f.Body) // the client may be gone already
			return
		}
		writeError(w, &apiError{status: f.Status, msg: http.StatusText(f.Status)})
		return
	}
	if f.Cut != CutBefore {
		rec := &recorder{head: http.Header{}, code: http.StatusOK}
		s.dispatch(rec, r)
		if f.Cut == CutMiddle {
			for k, v := range rec.head {
				w.ResponseWriter.Header()[k] = v
			}
			w.ResponseWriter.Header().Set("Content-Length", "1000000")
			w.ResponseWriter.WriteHeader(rec.code)
			_, _ = w.ResponseWriter.Write(rec.body.Bytes()[:rec.body.Len()/2])
			_ = http.NewResponseController(w.ResponseWriter).Flush() // or nothing of it would leave
		}
	}
	panic(http.ErrAbortHandler)
}

// statusWriter remembers the status that was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recorder keeps an answer that the client will not get, or not whole.
type recorder struct {
	head http.Header
	code int
	body bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.head }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
