package codex

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"nod"
	"nod/agent"
)

// session is what this package adds to a live process: the lines, and what is
// open.
type session struct {
	*agent.Live
	cfg  Config
	spec nod.AgentSpec

	mu      sync.Mutex
	next    int64                                      // id of our next request
	pending map[int64]func(json.RawMessage, *rpcError) // what our requests wait for
	calls   map[string]*call                           // open tool calls by item id
	turn    string                                     // id of the turn under way
	runs    bool                                       // it has started, so that it can be interrupted
	last    string                                     // id of the turn that ended last
	turns   map[string]string                          // turn by message that a turn has taken
	halting bool                                       // no turn may go on

	// Of the reader's goroutine alone.
	used   tokens    // the thread's total
	spent  tokens    // of the turn under way
	models int       // calls of the model in it
	said   string    // the agent's last words in it
	resets time.Time // when the quota is there again, if that was told
}

// call is one tool call that has begun.
type call struct {
	tool    string
	input   json.RawMessage
	shown   json.RawMessage // input as it was when it was asked about
	allowed bool
	reason  string // why it was denied
}

func newSession(cfg Config, spec nod.AgentSpec, proc nod.Process) *session {
	s := &session{cfg: cfg, spec: spec, next: 1, pending: map[int64]func(json.RawMessage, *rpcError){}, calls: map[string]*call{}, turns: map[string]string{}}
	s.Live = agent.NewLive(cfg.Name, cfg.Limits, cfg.Log, spec.Approve, proc, s)
	return s
}

// request makes a request whose answer goes to then, on the reader's goroutine.
func (s *session) request(method string, params any, then func(json.RawMessage, *rpcError)) (id string, raw []byte, err error) {
	s.mu.Lock()
	n := s.next
	s.next++
	s.pending[n] = then
	s.mu.Unlock()
	raw, err = encode(map[string]any{"id": n, "method": method, "params": params})
	if err != nil {
		s.mu.Lock()
		delete(s.pending, n)
		s.mu.Unlock()
	}
	return strconv.FormatInt(n, 10), raw, err
}

// ask sends a request.
func (s *session) ask(method string, params any, then func(json.RawMessage, *rpcError)) {
	_, raw, err := s.request(method, params, then)
	s.reply(raw, err)
}

func (s *session) reply(raw []byte, err error) {
	if err != nil {
		s.Fail(err)
		return
	}
	s.Send(raw)
}

// Instruct sends another message. While a turn runs it is folded into it. It is a
// Conflict once the session has begun to end.
func (s *session) Instruct(ctx context.Context, text string) error {
	return s.say(ctx, text, nil)
}

// say sends a message; then, if any, gets what was answered to it.
func (s *session) say(ctx context.Context, text string, then func(*rpcError)) error {
	if text == "" {
		return nod.E(nod.Invalid, "the message is empty", nil)
	}
	var key string
	key, raw, err := s.request("turn/start", map[string]any{"threadId": s.ID(), "input": words(text)}, func(result json.RawMessage, e *rpcError) {
		s.taken(key, result, e)
		if then != nil {
			then(e)
		}
	})
	if err != nil {
		return err
	}
	return s.Say(ctx, key, raw)
}

func words(text string) any { return []any{map[string]string{"type": "text", "text": text}} }

// taken handles the answer to a message: the turn that took it, new or under way.
func (s *session) taken(key string, result json.RawMessage, e *rpcError) {
	var r struct {
		Turn turn `json:"turn"`
	}
	if e == nil && decode(result, &r) && r.Turn.ID != "" {
		s.mu.Lock()
		s.turns[key] = r.Turn.ID
		over := r.Turn.ID == s.last
		s.mu.Unlock()
		if !over {
			s.began(r.Turn.ID, false)
			return
		}
	}
	if e != nil {
		s.Emit(nod.EventAgentError, nod.AgentError{Text: "the agent did not take a message: " + agent.Clean(e.Message, 200)})
	}
	s.Change(func(st *agent.State) { delete(st.Unanswered, key) })
}

// began notes the turn that is under way; runs says that it has started.
func (s *session) began(id string, runs bool) {
	s.mu.Lock()
	if id == "" || id == s.last || id == s.turn && !runs {
		s.mu.Unlock()
		return
	}
	fresh := id != s.turn
	s.turn, s.runs = id, runs
	halt := runs && s.halting
	s.mu.Unlock()
	if fresh {
		s.spent, s.models, s.said = tokens{}, 0, ""
		s.Change(func(st *agent.State) { st.Idle = false })
	}
	if halt {
		s.reply(s.interrupt(id))
	}
}

// interrupt is the line that ends a turn.
func (s *session) interrupt(id string) ([]byte, error) {
	_, raw, err := s.request("turn/interrupt", map[string]string{"threadId": s.ID(), "turnId": id}, func(json.RawMessage, *rpcError) {})
	return raw, err
}

// Interrupt is the line that ends the turn under way, or else what it left
// running. A turn that was taken and has not started is interrupted when it does.
func (s *session) Interrupt() []byte {
	s.mu.Lock()
	s.halting = true
	id, runs := s.turn, s.runs
	s.mu.Unlock()
	var raw []byte
	var err error
	switch {
	case id == "":
		_, raw, err = s.request("thread/backgroundTerminals/clean", map[string]string{"threadId": s.ID()}, func(json.RawMessage, *rpcError) {})
	case runs:
		raw, err = s.interrupt(id)
	}
	if err != nil {
		return nil // it is made of strings
	}
	return raw
}

// Over closes the calls that the program's end left open.
func (s *session) Over() {
	s.close(func(*call) bool { return true }, "It did not end before the agent did.")
}

// close ends the open calls that match, and returns how many are left.
func (s *session) close(match func(*call) bool, why string) int {
	s.mu.Lock()
	var ids []string
	for id, c := range s.calls {
		if match(c) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		delete(s.calls, id)
	}
	left := len(s.calls)
	s.mu.Unlock()
	for _, id := range ids {
		s.Emit(nod.EventToolResult, nod.ToolResult{ID: id, Text: why, IsError: true})
	}
	return left
}
