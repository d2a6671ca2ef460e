package claude

import (
	"context"
	"encoding/json"
	"time"

	"nod"
	"nod/agent"
)

// session is what this package adds to a live process: the lines.
type session struct {
	*agent.Live
	cfg  Config
	spec nod.AgentSpec

	initialized chan struct{}
	opened      chan struct{}

	// Of the reader's goroutine alone.
	isInit   bool
	apiError string                     // the program's name for the turn's last API error
	said     string                     // the agent's last words
	plans    map[string]json.RawMessage // input of the calls that ask about a plan
	shells   map[string]string          // command of the open shell calls
	resets   time.Time                  // when the quota is there again, if that was told
}

func newSession(cfg Config, spec nod.AgentSpec, proc nod.Process) *session {
	s := &session{cfg: cfg, spec: spec, initialized: make(chan struct{}), opened: make(chan struct{}),
		plans: map[string]json.RawMessage{}, shells: map[string]string{}}
	s.Live = agent.NewLive(cfg.Name, cfg.Limits, cfg.Log, spec.Approve, proc, s)
	return s
}

// Instruct sends another message. While a turn runs it is folded into it. It is a
// Conflict once the session has begun to end.
func (s *session) Instruct(ctx context.Context, text string) error {
	if text == "" {
		return nod.E(nod.Invalid, "the message is empty", nil)
	}
	uuid := newUUID()
	raw, err := userMessage(uuid, text)
	if err != nil {
		return err
	}
	return s.Say(ctx, uuid, raw)
}

// Interrupt is the line that ends a turn.
func (s *session) Interrupt() []byte {
	raw, err := controlRequest(interruptID, map[string]any{"subtype": "interrupt"})
	if err != nil {
		return nil // it is made of constants
	}
	return raw
}

// Over has nothing to say: the program ends every call with its turn.
func (s *session) Over() {}

// Line handles one line of the program.
func (s *session) Line(raw []byte) bool {
	l, ok := parse(raw)
	if ok {
		s.handle(l)
	}
	return ok
}
