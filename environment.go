package nod

import "time"

// EnvironmentState is where one environment stands.
type EnvironmentState string

const (
	EnvironmentProvisioning EnvironmentState = "provisioning"
	EnvironmentStopped      EnvironmentState = "stopped"
	EnvironmentRunning      EnvironmentState = "running"
	EnvironmentDeleted      EnvironmentState = "deleted"
)

// EnvironmentEvent moves an environment.
type EnvironmentEvent string

const (
	EnvironmentProvision EnvironmentEvent = "provision"
	EnvironmentStart     EnvironmentEvent = "start"
	EnvironmentStop      EnvironmentEvent = "stop"
	EnvironmentDelete    EnvironmentEvent = "delete"
)

// EnvironmentMachine is every transition of an environment.
var EnvironmentMachine = Machine[EnvironmentState, EnvironmentEvent]{
	Noun: "environment", Start: EnvironmentProvisioning,
	Table: map[EnvironmentState]map[EnvironmentEvent]EnvironmentState{
		EnvironmentProvisioning: {EnvironmentProvision: EnvironmentStopped, EnvironmentDelete: EnvironmentDeleted},
		EnvironmentStopped:      {EnvironmentStart: EnvironmentRunning, EnvironmentDelete: EnvironmentDeleted},
		EnvironmentRunning:      {EnvironmentStop: EnvironmentStopped},
	},
}

// Environment is one hardened place for one task. Its addresses are read on
// every use and never stored.
type Environment struct {
	ID          string           `json:"id"`
	Version     int64            `json:"version"`
	Task        string           `json:"task"`
	Driver      string           `json:"driver"`
	BaseSHA     string           `json:"base_sha"` // commit the workspace was seeded at
	State       EnvironmentState `json:"state"`
	Attestation Attestation      `json:"attestation"` // of the last start
	CreatedAt   time.Time        `json:"created_at"`
	UpdatedAt   time.Time        `json:"updated_at"`
}

// On applies event on, or returns a Conflict error and leaves e unchanged.
func (e *Environment) On(on EnvironmentEvent) error {
	to, err := EnvironmentMachine.Next(e.State, on)
	if err != nil {
		return err
	}
	e.State = to
	return nil
}

// EnvironmentSpec says what one environment is made of.
type EnvironmentSpec struct {
	ID        string
	Task      string   // whose environment it is
	Workspace string   // absolute host directory, seen as /workspace
	Home      string   // absolute host directory, seen as the agent's home
	Egress    []string // exact "host" (port 443) or "host:port" the proxy lets through
}

// ReasonNotAllowed is the Reason of an EgressDenied for a host that no list holds.
const ReasonNotAllowed = "not_allowed"

// ProbeHost is what an environment asks its proxy for when it is attested. No list
// holds it, and it can exist nowhere (RFC 6761 keeps .invalid for that).
const ProbeHost = "unlisted.invalid"

// EgressDenied is what is read of the Data of EventEgressDenied. Host is empty
// unless it is a host name; it is chosen by the agent.
type EgressDenied struct {
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Reason string `json:"reason"`
}

// RefusedHost is a "host:port" that an environment was kept from, last at At.
type RefusedHost struct {
	Host string
	At   time.Time
}

// Attestation is what a process inside a started environment saw of its own
// isolation. Every fact is probed from inside, never copied from the request.
type Attestation struct {
	Isolation     string   `json:"isolation"` // "namespaces", "container", "vm" or "none"
	UID           int      `json:"uid"`
	GID           int      `json:"gid"`
	Capabilities  string   `json:"capabilities"` // union of the five sets of /proc/self/status, hex
	NoNewPrivs    bool     `json:"no_new_privs"`
	Seccomp       bool     `json:"seccomp"` // a filter is installed
	Landlock      int      `json:"landlock_abi"`
	Interfaces    []string `json:"interfaces"` // names of the network interfaces
	RootReadOnly  bool     `json:"root_read_only"`
	EgressRefused bool     `json:"egress_refused"` // the proxy refused a host that no list holds
	DirectRefused bool     `json:"direct_refused"` // a connection past the proxy had no route
}

// Holds returns nil when every fact is as a hardened environment requires, or an
// Error with code Unsupported that names the first that is not.
func (a Attestation) Holds() error {
	missing := ""
	switch {
	case a.Isolation == "" || a.Isolation == "none":
		missing = "isolation"
	case a.UID == 0 || a.GID == 0:
		missing = "a user other than root"
	case a.Capabilities != "0000000000000000":
		missing = "an empty capability set"
	case !a.NoNewPrivs:
		missing = "no_new_privs"
	case !a.Seccomp:
		missing = "a seccomp filter"
	case len(a.Interfaces) != 1 || a.Interfaces[0] != "lo":
		missing = "loopback as the only interface"
	case !a.RootReadOnly:
		missing = "a read-only root"
	case !a.EgressRefused:
		missing = "an egress proxy that refuses unlisted hosts"
	case !a.DirectRefused:
		missing = "no route past the egress proxy"
	default:
		return nil
	}
	return &Error{Code: Unsupported, Msg: "the environment started without " + missing}
}
