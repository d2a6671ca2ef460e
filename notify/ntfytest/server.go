package ntfytest

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config says what the server is. The zero value is a server without a token.
type Config struct {
	Topic string // what /phone shows; empty means that there is no /phone
	Token string // when set, needed to publish and to subscribe
	User  string // when set, this account may do both as well, with its
	Pass  string // password

	Keep        int              // messages per topic; 0 means 200
	Keepalive   time.Duration    // between keepalive events; 0 means 45 s, as ntfy
	Subscribers int              // at once; 0 means 64
	Now         func() time.Time // nil means time.Now
	Log         *slog.Logger     // nil discards
}

// maxTopics is how many topics are kept; one more is refused.
const maxTopics = 64

// Server is an http.Handler that keeps what is published to it. Make it with New
// and Close it before the http.Server that serves it.
type Server struct {
	cfg  Config
	mux  *http.ServeMux
	done chan struct{} // closed by Close
	busy sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	topics      map[string]*topic
	faults      []Fault
	subscribers int
}

// New makes a server.
func New(c Config) *Server {
	if c.Keep <= 0 {
		c.Keep = 200
	}
	if c.Keepalive <= 0 {
		c.Keepalive = 45 * time.Second
	}
	if c.Subscribers <= 0 {
		c.Subscribers = 64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: c, mux: http.NewServeMux(), done: make(chan struct{}), topics: make(map[string]*topic)}
	s.mux.HandleFunc("GET /v1/health", s.health)
	s.mux.HandleFunc("POST /{$}", s.publishJSON)
	s.mux.HandleFunc("PUT /{$}", s.publishJSON)
	s.mux.HandleFunc("POST /{topic}", s.publishHeaders)
	s.mux.HandleFunc("PUT /{topic}", s.publishHeaders)
	s.mux.HandleFunc("GET /{topic}/json", s.subscribe(asLines))
	s.mux.HandleFunc("GET /{topic}/sse", s.subscribe(asEvents))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.fail(w, bad(40401, "page not found")) })
	if c.Topic != "" {
		s.phone()
	}
	return s
}

// ServeHTTP serves ntfy's protocol and the phone page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.fail(w, bad(50301, "server is closed"))
		return
	}
	s.busy.Add(1)
	s.mu.Unlock()
	defer s.busy.Done()
	s.mux.ServeHTTP(w, r)
}

// Close ends every stream and waits for every request. It may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.busy.Wait()
	return nil
}

// Messages returns what is kept of a topic, oldest first.
func (s *Server) Messages(name string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil {
		return slices.Clone(t.messages)
	}
	return nil
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, http.StatusOK, map[string]bool{"healthy": true})
}

func (s *Server) publishJSON(w http.ResponseWriter, r *http.Request) {
	m, p := readJSON(r.Body)
	s.publish(w, r, m, p)
}

func (s *Server) publishHeaders(w http.ResponseWriter, r *http.Request) {
	m, p := readHeaders(r.PathValue("topic"), r)
	s.publish(w, r, m, p)
}

// publish keeps m and answers with it, unless a fault is due.
func (s *Server) publish(w http.ResponseWriter, r *http.Request, m Message, p *problem) {
	fault := s.nextFault()
	if fault.before(w, r, s.done) {
		return
	}
	if p == nil {
		p = s.authorize(r)
	}
	if p == nil {
		now := s.cfg.Now()
		p = m.settle(newID(), now.Unix(), now.Add(12*time.Hour).Unix())
	}
	if p == nil {
		p = s.keep(m)
	}
	if p != nil {
		s.fail(w, p)
		return
	}
	s.cfg.Log.Debug("push received", "id", m.ID, "priority", m.Priority)
	if fault.Slow {
		fault.hang(w, r, s.done)
		return
	}
	if fault.Truncate {
		truncate(w, m)
		return
	}
	s.answer(w, http.StatusOK, m)
}

func (s *Server) keep(m Message) *problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, p := s.topic(m.Topic)
	if p == nil {
		t.add(m, s.cfg.Keep)
	}
	return p
}

// topic finds or makes a topic. The caller holds the mutex.
func (s *Server) topic(name string) (*topic, *problem) {
	t := s.topics[name]
	if t == nil {
		if len(s.topics) >= maxTopics {
			return nil, bad(42904, "limit reached: too many topics")
		}
		t = newTopic()
		s.topics[name] = t
	}
	return t, nil
}

// authorize takes "Bearer TOKEN", Basic with the token as password, and Basic with
// the account and its password, as ntfy does.
func (s *Server) authorize(r *http.Request) *problem {
	if s.cfg.Token == "" && s.cfg.User == "" {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		var user string
		if user, token, ok = r.BasicAuth(); !ok {
			return bad(40301, "forbidden")
		}
		if s.cfg.User != "" && user == s.cfg.User && subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.Pass)) == 1 {
			return nil
		}
	}
	if s.cfg.Token == "" {
		return bad(40101, "unauthorized")
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.Token)) != 1 {
		return bad(40101, "unauthorized")
	}
	return nil
}

func (s *Server) fail(w http.ResponseWriter, p *problem) { s.answer(w, p.HTTP, p) }

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.cfg.Log.Error("write an answer as json", "err", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		s.cfg.Log.Debug("answer not read", "err", err)
	}
}

// newID is twelve characters, as ntfy's.
func newID() string { return rand.Text()[:12] }
