package modelserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
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

// Request is one request as it came.
type Request struct {
	Method, Path string
	Host         string
	TLS          bool
	Header       http.Header
	Body         []byte
	Main         bool // took a step of the script
}

// Server is a running server. Close it.
type Server struct {
	URL   string // http://127.0.0.1:port
	TLS   string // host:port of the TLS listener, for the names given to New
	CAPEM []byte // the authority to trust, PEM

	plain, secure net.Listener
	mu            sync.Mutex
	requests      []Request
	closed        context.Context
	close         context.CancelFunc
	servers       []*http.Server
	done          sync.WaitGroup
}

// New listens. hosts are the names the TLS certificate holds beside localhost and
// 127.0.0.1. Nothing is answered before Serve.
func New(hosts ...string) (*Server, error) {
	s := &Server{}
	s.closed, s.close = context.WithCancel(context.Background())
	ca, leaf, err := certificates(hosts)
	if err != nil {
		return nil, err
	}
	s.CAPEM = ca
	if s.plain, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.plain.Close())
	}
	s.secure = tls.NewListener(secure, &tls.Config{
		Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	s.URL, s.TLS = "http://"+s.plain.Addr().String(), secure.Addr().String()
	return s, nil
}

// Serve answers by answer, which gets the whole body. It is called once.
func (s *Server) Serve(answer func(w http.ResponseWriter, r *http.Request, body []byte)) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyCap))
		if err != nil {
			http.Error(w, "mock: the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		answer(w, r, body)
	})
	for _, l := range []net.Listener{s.plain, s.secure} {
		srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		s.servers = append(s.servers, srv)
		s.done.Go(func() { _ = srv.Serve(l) }) // always http.ErrServerClosed, from Close
	}
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

// Keep records a request; main says that it took a step.
func (s *Server) Keep(r *http.Request, body []byte, main bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Host: r.Host, TLS: r.TLS != nil,
		Header: r.Header.Clone(), Body: body, Main: main})
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

// Sleep waits for d, or reports false once the client has left or Close was
// called. A negative d waits for those alone.
func (s *Server) Sleep(r *http.Request, d time.Duration) bool {
	var due <-chan time.Time
	if d >= 0 {
		due = time.After(d)
	}
	select {
	case <-due:
		return true
	case <-r.Context().Done():
	case <-s.closed.Done():
	}
	return false
}

// Reply writes v as JSON.
func Reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has left; there is nobody to tell
}

// Events writes server-sent events; after the first failed write it is silent,
// for the client has left.
type Events struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	err   error
}

// NewEvents begins a stream of events.
func NewEvents(w http.ResponseWriter) *Events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	return &Events{w: w, flush: http.NewResponseController(w)}
}

// Send writes one event whose data names its type too.
func (e *Events) Send(name string, data map[string]any) {
	if e.err != nil {
		return
	}
	data["type"] = name
	raw, err := json.Marshal(data)
	if err != nil {
		e.err = err
		return
	}
	if _, e.err = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, raw); e.err == nil {
		e.err = e.flush.Flush()
	}
}

// Drop drops the connection in the middle of the answer.
func Drop() { panic(http.ErrAbortHandler) } // net/http's way to do it

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
