package nod

import (
	"context"
	"time"
)

// AgentSpec is what an agent is started with.
type AgentSpec struct {
	Prompt  string            `json:"prompt"`            // the first message
	Session string            `json:"session,omitempty"` // when set, the session to resume
	Env     map[string]string `json:"env,omitempty"`     // added to the adapter's own
	Approve Approver          `json:"-"`                 // must not be nil

	Environment string `json:"environment,omitempty"` // where it runs
	Meter       Meter  `json:"-"`                     // told of what it uses while it uses it, where that can be seen; may be nil
}

// Meter follows what a session uses of its model, as the way to the model sees it.
// It is safe for concurrent use and must return soon.
type Meter interface {
	// Used tells what the session has used so far in all; estimates may be
	// corrected downwards. An error ends what is under way and refuses what follows.
	Used(total Usage) error
	// Limited tells that the model's API refuses for rate or quota, and until when;
	// zero when it does not say.
	Limited(until time.Time)
}

// AgentSession is one live agent process. Events must be drained until closed.
type AgentSession interface {
	// ID is the agent's own session id; empty until its first event.
	ID() string
	// Events is closed after the last event of the process.
	Events() <-chan Event
	// Instruct sends another message to the session.
	Instruct(ctx context.Context, text string) error
	// Stop ends the session in order: interrupt, result, end of input, then the
	// kill that Process.Kill proves.
	Stop(ctx context.Context) error
	// Wait returns when the process has ended, with the last turn's result.
	Wait() (Result, error)
}
