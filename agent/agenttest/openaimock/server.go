package openaimock

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"nod/agent/agenttest/modelserver"
)

// What every response says it took.
const inputTokens, cachedTokens, outputTokens = 100, 40, 20

// Step is what one request is answered with. With no field set it is a response
// without output.
type Step struct {
	Text   string            // a message
	Calls  []Call            // calls, after Text
	Status int               // when set, an error answer with this HTTP status
	Error  Error             // of that answer, or of a response that fails in the stream when Status is 0
	Header map[string]string // of the answer
	Delay  time.Duration     // before the first byte
	Hang   bool              // after the first item, until the client leaves or Close
	Cut    bool              // the connection is dropped after the first item
	Sticky bool              // answer every later request with it too
	// Then, when set, makes the step from the request's body.
	Then func(body []byte) Step
}

// Call is one tool call. With Input set it is a custom tool's, whose input is
// text; else a function's with Args.
type Call struct {
	Name  string
	Args  any
	Input string
}

// Error is an error as the API words it.
type Error struct {
	Type, Code, Message string
	Extra               map[string]any // more members
}

// Request is one request as it came; Main ones took a step.
type Request = modelserver.Request

// Server is a running mock. Close it.
type Server struct {
	*modelserver.Server
	mu    sync.Mutex
	steps []Step
	next  int
}

// New starts a mock that answers with steps in order, then with the text "done".
// hosts are the names its TLS certificate holds beside localhost and 127.0.0.1.
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
	main := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses") && json.Valid(body)
	var step Step
	s.mu.Lock()
	if main {
		step = s.take()
	}
	n := s.next
	s.Keep(r, body, main)
	s.mu.Unlock()
	switch {
	case main:
		if step.Then != nil {
			step = step.Then(body)
		}
		s.answer(w, r, step, n)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		modelserver.Reply(w, http.StatusOK, map[string]any{"object": "list", "data": []any{}, "models": []any{}})
	default:
		fail(w, http.StatusNotFound, Error{Type: "invalid_request_error", Message: "mock: no such path, or a body that is not JSON"})
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

func (e Error) json() map[string]any {
	out := map[string]any{"type": e.Type, "code": e.Code, "message": e.Message}
	if e.Code == "" {
		out["code"] = nil
	}
	maps.Copy(out, e.Extra)
	return out
}

func fail(w http.ResponseWriter, status int, e Error) {
	modelserver.Reply(w, status, map[string]any{"error": e.json()})
}

// answer plays one step.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, step Step, n int) {
	if step.Delay > 0 && !s.Sleep(r, step.Delay) {
		return
	}
	for k, v := range step.Header {
		w.Header().Set(k, v)
	}
	if step.Status != 0 {
		fail(w, step.Status, step.Error)
		return
	}
	items, err := step.items(n)
	if err != nil {
		fail(w, http.StatusInternalServerError, Error{Type: "server_error", Message: "mock: the step has no JSON form"})
		return
	}
	e := &stream{Events: modelserver.NewEvents(w)}
	response := map[string]any{"id": fmt.Sprintf("resp_mock_%d", n), "object": "response", "status": "in_progress", "output": []any{}}
	e.send("response.created", map[string]any{"response": response})
	for i, item := range items {
		if item["type"] == "message" {
			e.send("response.output_item.added", map[string]any{"output_index": i, "item": map[string]any{
				"type": "message", "role": "assistant", "id": item["id"], "status": "in_progress", "content": []any{}}})
			e.send("response.output_text.delta", map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": step.Text})
		}
		if i == 0 && step.Cut {
			modelserver.Drop()
		}
		if i == 0 && step.Hang {
			s.Sleep(r, -1)
			return
		}
		e.send("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	response = maps.Clone(response)
	response["output"] = items
	if step.Error.Message != "" {
		response["status"], response["error"] = "failed", step.Error.json()
		e.send("response.failed", map[string]any{"response": response})
		return
	}
	response["status"] = "completed"
	response["usage"] = map[string]any{"input_tokens": inputTokens, "input_tokens_details": map[string]int{"cached_tokens": cachedTokens},
		"output_tokens": outputTokens, "output_tokens_details": map[string]int{"reasoning_tokens": 0}, "total_tokens": inputTokens + outputTokens}
	e.send("response.completed", map[string]any{"response": response})
}

// items are the output items of the n-th response.
func (s Step) items(n int) ([]map[string]any, error) {
	var out []map[string]any
	if s.Text != "" {
		out = append(out, map[string]any{"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d", n), "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": s.Text, "annotations": []any{}}}})
	}
	for i, c := range s.Calls {
		item := map[string]any{"id": fmt.Sprintf("item_%d_%d", n, i), "call_id": fmt.Sprintf("call_%d_%d", n, i), "name": c.Name, "status": "completed"}
		if c.Input != "" {
			item["type"], item["input"] = "custom_tool_call", c.Input
		} else {
			args, err := json.Marshal(c.Args)
			if err != nil {
				return nil, fmt.Errorf("marshal arguments of %s: %w", c.Name, err)
			}
			item["type"], item["arguments"] = "function_call", string(args)
		}
		out = append(out, item)
	}
	return out, nil
}

// stream numbers its events.
type stream struct {
	*modelserver.Events
	n int
}

func (s *stream) send(name string, data map[string]any) {
	data["sequence_number"] = s.n
	s.n++
	s.Send(name, data)
}
