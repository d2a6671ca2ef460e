package agent

import (
	"context"

	"nod"
)

// Adapter drives one kind of agent program.
type Adapter interface {
	// Name is the adapter's stable name: "claude", "scripted".
	Name() string
	// Capabilities says what the adapter can do; package agenttest proves it.
	Capabilities() Capabilities
	// Start starts or, with spec.Session set, resumes a session through ex. ctx
	// bounds the start only; the session lives until it ends or is stopped.
	Start(ctx context.Context, ex nod.Executor, spec nod.AgentSpec) (nod.AgentSession, error)
}

// Capabilities is what an adapter can do.
type Capabilities struct {
	HostApprovals bool `json:"host_approvals"` // prompts reach the supervisor
	Resume        bool `json:"resume"`
	Injection     bool `json:"injection"` // Instruct reaches a turn under way
	Usage         bool `json:"usage"`
	Cost          bool `json:"cost"`
}

// Mode says how much of nod an adapter can carry.
type Mode string

const (
	Full        Mode = "full"        // approvals reach a person
	Degraded    Mode = "degraded"    // runs, but nothing can be asked
	Unsupported Mode = "unsupported" // does not run
)

// Mode derives the mode from the capabilities.
func (c Capabilities) Mode() Mode {
	if c.HostApprovals && c.Resume {
		return Full
	}
	return Degraded
}
