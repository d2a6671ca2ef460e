package agent

import (
	"context"

	"nod"
)

// Version is the version of the contract: of Adapter, of what crosses it in package
// nod, and of their JSON forms. It grows when an adapter in another process would
// not understand the new one.
const Version = 1

// Adapter drives one kind of agent program.
type Adapter interface {
	// Name is the adapter's stable name: "claude", "scripted".
	Name() string
	// Capabilities says what the adapter can do; package conformance proves it.
	Capabilities() Capabilities
	// Start starts or, with spec.Session set, resumes a session through ex. ctx
	// bounds the start only; the session lives until it ends or is stopped.
	Start(ctx context.Context, ex nod.Executor, spec nod.AgentSpec) (nod.AgentSession, error)
}

// Delivery is how a message reaches a session.
type Delivery string

const (
	DeliverNever Delivery = ""     // not at all
	DeliverTurn  Delivery = "turn" // into the turn under way
	DeliverNext  Delivery = "next" // as a turn of its own, after it
)

// Ways in which a program proves itself to its model.
const (
	AuthKey   = "api_key"
	AuthLogin = "login" // of a person's subscription
)

// Capabilities is what an adapter can do.
type Capabilities struct {
	Headless      bool     `json:"headless"`       // runs without a terminal
	Events        bool     `json:"events"`         // every tool call and its result is told
	HostApprovals bool     `json:"host_approvals"` // prompts reach the supervisor
	Questions     bool     `json:"questions"`      // so do questions, with their options
	Resume        bool     `json:"resume"`
	Injection     Delivery `json:"injection"` // of Instruct while a turn is under way
	Pause         bool     `json:"pause"`     // a turn can be held and let go on
	Auth          []string `json:"auth"`
	Quota         bool     `json:"quota"` // tells when a quota that is used up is there again
	Usage         bool     `json:"usage"`
	Cost          bool     `json:"cost"`
}

// Mode says how much of nod an adapter can carry.
type Mode string

const (
	Full        Mode = "full"        // approvals reach a person
	Degraded    Mode = "degraded"    // runs, but nothing can be asked or taken up again
	Unsupported Mode = "unsupported" // does not run, or nobody would learn what it does
)

// Mode derives the mode from the capabilities.
func (c Capabilities) Mode() Mode {
	switch {
	case !c.Headless || !c.Events:
		return Unsupported
	case c.HostApprovals && c.Resume:
		return Full
	}
	return Degraded
}
