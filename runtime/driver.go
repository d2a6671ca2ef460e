package runtime

import (
	"context"

	"nod"
	"nod/runtime/egress"
)

// Driver provides environments of one kind. All methods are safe for concurrent
// use; those that change state are idempotent.
type Driver interface {
	// Name is the driver's stable name: "linux", "docker".
	Name() string
	// Capabilities says what this host can enforce, by trying it.
	Capabilities(ctx context.Context) Capabilities
	// Build makes the image that reference names, in place of one that there may be,
	// out of dir: an absolute directory with a Containerfile, whose steps have no
	// network. It returns the image's digest. What is provisioned keeps the image that
	// it has. A driver that builds nothing is Unsupported and hints at what to do.
	Build(ctx context.Context, dir, reference string) (digest string, err error)
	// Provision makes an environment ready to start.
	Provision(ctx context.Context, p PreparedSpec) error
	// Start starts it and returns what a process inside saw of its isolation. An
	// environment whose attestation does not hold is stopped again and an error
	// is returned. Starting a running environment is a Conflict.
	Start(ctx context.Context, id string) (nod.Attestation, error)
	// Exec starts a process in a running environment.
	Exec(ctx context.Context, id string, c nod.Command) (nod.Process, error)
	// UpdateEgress swaps the rules, at once when it runs: tunnels that they do not
	// allow are cut before it returns. While a command runs in it, rules that let
	// anything new through are a Conflict.
	UpdateEgress(ctx context.Context, id string, rules []egress.Rule) error
	// Stop ends every process in it, proven.
	Stop(ctx context.Context, id string) error
	// Delete removes what the driver made; the workspace's directory stays.
	Delete(ctx context.Context, id string) error
	// Inspect returns one environment as it is now, or NotFound.
	Inspect(ctx context.Context, id string) (Status, error)
	// List returns the environments that carry owner, running or not.
	List(ctx context.Context, owner string) ([]Status, error)
}

// Status is one environment as its driver sees it.
type Status struct {
	ID      string `json:"id"`
	Owner   string `json:"owner"`
	Running bool   `json:"running"`
	Digest  string `json:"digest,omitempty"` // PreparedSpec.Digest of what it is made of, when known
	Image   string `json:"image,omitempty"`  // digest of its image; empty for the host's own files
}

// Capabilities is what a driver can enforce on this host.
type Capabilities struct {
	Supported   bool     `json:"supported"`
	Missing     []string `json:"missing,omitempty"` // what is needed and absent, one line each
	Hint        string   `json:"hint,omitempty"`    // how to enable it
	Seccomp     bool     `json:"seccomp"`
	LandlockABI int      `json:"landlock_abi"`
	Limits      []string `json:"limits"` // of "memory", "cpu", "pids", "disk": those that are enforced and read back
	Egress      string   `json:"egress"` // "fdlistener", "socket"
	KillProof   string   `json:"kill_proof"`
	// Seen is what a process inside saw in the trial, whether that held or not.
	Seen nod.Attestation `json:"seen"`
}
