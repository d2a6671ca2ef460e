package anthropicmock

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// bodyCap bounds one request; an agent's own cap on a prompt is far below.
const bodyCap = 64 << 20

// Step is what one request of the agent's main loop is answered with. With no
// field set it is an empty message.
type Step struct {
	Text    string        `json:"text,omitempty"`
	Tools   []Tool        `json:"tools,omitempty"`   // calls, after Text
	Status  int           `json:"status,omitempty"`  // when set, an error answer with this HTTP status
	Type    string        `json:"type,omitempty"`    // its error type; "api_error" when empty
	Message string        `json:"message,omitempty"` // its message
	Delay   time.Duration `json:"delay,omitempty"`   // before the first byte
	Hang    bool          `json:"hang,omitempty"`    // after the first block, until the client leaves or Close
	Cut     bool          `json:"cut,omitempty"`     // the connection is dropped after the first block
	Sticky  bool          `json:"sticky,omitempty"`  // answer every later request with it too
}

// Tool is one tool call. ID is made up when empty.
type Tool struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name"`
	Input any    `json:"input"`
}

// Request is one request as it came.
type Request struct {
	Method, Path string
	Host         string
	TLS          bool
	Header       http.Header
	Body         []byte
	Main         bool // took a step: it offered tools
}

// Server is a running mock. Close it.
type Server struct {
	URL   string // http://127.0.0.1:port
	TLS   string // host:port of the TLS listener, for names in Hosts
	CAPEM []byte // the authority to trust, PEM

	mu       sync.Mutex
	steps    []Step
	next     int
	requests []Request
	closed   context.Context
	close    context.CancelFunc
	servers  []*http.Server
	done     sync.WaitGroup
}

// New starts a mock that answers the main loop's requests with steps in order,
// then with the text "done". hosts are the names its TLS certificate holds beside
// localhost and 127.0.0.1.
func New(steps []Step, hosts ...string) (*Server, error) {
	s := &Server{steps: steps}
	s.closed, s.close = context.WithCancel(context.Background())
	ca, leaf, err := certificates(hosts)
	if err != nil {
		return nil, err
	}
	s.CAPEM = ca
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	s.URL, s.TLS = "http://"+plain.Addr().String(), secure.Addr().String()
	s.serve(plain)
	s.serve(tls.NewListener(secure, &tls.Config{
		Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}))
	return s, nil
}

func (s *Server) serve(l net.Listener) {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	s.servers = append(s.servers, srv)
	s.done.Go(func() { _ = srv.Serve(l) }) // always http.ErrServerClosed, from Close
}

// Close ends every request and both listeners.
func (s *Server) Close() error {
	s.close()
	var errs []error
	for _, srv := range s.servers {
		errs = append(errs, srv.Close())
	}
	s.done.Wait()
	return errors.Join(errs...)
}

// Requests returns what came so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// MainRequests counts the requests that took a step.
func (s *Server) MainRequests() int {
	n := 0
	for _, r := range s.Requests() {
		if r.Main {
			n++
		}
	}
	return n
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyCap))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large", "mock: the body is too large")
		return
	}
	var m struct {
		Model     string            `json:"model"`
		Stream    bool              `json:"stream"`
		MaxTokens int               `json:"max_tokens"`
		Tools     []json.RawMessage `json:"tools"`
	}
	bad := len(body) > 0 && json.Unmarshal(body, &m) != nil
	main := r.Method == http.MethodPost && r.URL.Path == "/v1/messages" && len(m.Tools) > 0 && m.MaxTokens > 1
	step := Step{Text: `{"title":"mock"}`}
	s.mu.Lock()
	if main {
		step = s.take()
	}
	n := s.next
	s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Host: r.Host, TLS: r.TLS != nil,
		Header: r.Header.Clone(), Body: body, Main: main})
	s.mu.Unlock()
	switch {
	case bad:
		fail(w, http.StatusBadRequest, "invalid_request_error", "mock: the body is not JSON")
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages/count_tokens":
		reply(w, http.StatusOK, map[string]int{"input_tokens": 42})
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages":
		fail(w, http.StatusNotFound, "not_found_error", "mock: no such path")
	default:
		s.answer(w, r, step, n, m.Model, m.Stream)
	}
}

// take returns the next step; s.mu is held.
func (s *Server) take() Step {
	i := s.next
	s.next++
	if i < len(s.steps) {
		return s.steps[i]
	}
	if n := len(s.steps); n > 0 && s.steps[n-1].Sticky {
		return s.steps[n-1]
	}
	return Step{Text: "done"}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has left; there is nobody to tell
}

func fail(w http.ResponseWriter, status int, kind, message string) {
	reply(w, status, map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
}

// Dump renders a request for a failing test, without its header values: they
// hold the key.
func (r Request) Dump() string {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.Path + " host=" + r.Host + "\n")
	for k := range r.Header {
		b.WriteString(k + ": …\n")
	}
	b.Write(r.Body[:min(len(r.Body), 400)])
	return b.String()
}
