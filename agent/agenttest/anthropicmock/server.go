package anthropicmock

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"nod/agent/agenttest/modelserver"
)

// Step is what one request of the agent's main loop is answered with. With no
// field set it is an empty message.
type Step struct {
	Text    string            `json:"text,omitempty"`
	Tools   []Tool            `json:"tools,omitempty"`   // calls, after Text
	Status  int               `json:"status,omitempty"`  // when set, an error answer with this HTTP status
	Type    string            `json:"type,omitempty"`    // its error type; "api_error" when empty
	Message string            `json:"message,omitempty"` // its message
	Header  map[string]string `json:"header,omitempty"`  // of the answer
	Delay   time.Duration     `json:"delay,omitempty"`   // before the first byte
	Hang    bool              `json:"hang,omitempty"`    // after the first block, until the client leaves or Close
	Cut     bool              `json:"cut,omitempty"`     // the connection is dropped after the first block
	Sticky  bool              `json:"sticky,omitempty"`  // answer every later request with it too
}

// Tool is one tool call. ID is made up when empty.
type Tool struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name"`
	Input any    `json:"input"`
}

// Request is one request as it came; Main ones offered tools.
type Request = modelserver.Request

// Server is a running mock. Close it.
type Server struct {
	*modelserver.Server
	mu    sync.Mutex
	steps []Step
	next  int
}

// New starts a mock that answers the main loop's requests with steps in order,
// then with the text "done". hosts are the names its TLS certificate holds beside
// localhost and 127.0.0.1.
func New(steps []Step, hosts ...string) (*Server, error) {
	base, err := modelserver.New(hosts...)
	if err != nil {
		return nil, err
	}
	s := &Server{Server: base, steps: steps}
	base.Serve(s.serve)
	return s, nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, body []byte) {
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
	s.Keep(r, body, main)
	s.mu.Unlock()
	switch {
	case bad:
		fail(w, http.StatusBadRequest, "invalid_request_error", "mock: the body is not JSON")
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages/count_tokens":
		modelserver.Reply(w, http.StatusOK, map[string]int{"input_tokens": 42})
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

func fail(w http.ResponseWriter, status int, kind, message string) {
	modelserver.Reply(w, status, map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
}
