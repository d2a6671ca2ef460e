package nod

import "strconv"

// ActorKind says in which way an actor proved who it is.
type ActorKind string

const (
	ActorGitHub     ActorKind = "github"     // a signed webhook or an API answer named it
	ActorPasskey    ActorKind = "passkey"    // a WebAuthn assertion proved it
	ActorHost       ActorKind = "host"       // the host's own command line
	ActorSupervisor ActorKind = "supervisor" // nod itself
	ActorAgent      ActorKind = "agent"      // the coding agent, inside its environment
)

// Actor is who acts. It is an explicit parameter everywhere, never taken from a
// context. Identity is Kind with (Host, ID) or Passkey; Login is only for show.
type Actor struct {
	Kind    ActorKind `json:"kind"`
	Host    string    `json:"host,omitempty"`    // GitHub host, e.g. github.com
	ID      int64     `json:"id,omitempty"`      // GitHub's numeric account id
	Login   string    `json:"login,omitempty"`   // for show: logins can be renamed and reused
	Passkey string    `json:"passkey,omitempty"` // credential id, base64url
	Bot     bool      `json:"bot,omitempty"`     // GitHub's account type is not User
}

// Supervisor is nod acting on its own account.
func Supervisor() Actor { return Actor{Kind: ActorSupervisor} }

// Key is the stable identity of a, for comparing and for the audit log. It never
// holds a login.
func (a Actor) Key() string {
	switch a.Kind {
	case ActorGitHub:
		return string(a.Kind) + ":" + a.Host + "/" + strconv.FormatInt(a.ID, 10)
	case ActorPasskey:
		return string(a.Kind) + ":" + a.Passkey
	default:
		return string(a.Kind)
	}
}

// Show is how a is named to people.
func (a Actor) Show() string {
	if a.Login != "" {
		return a.Login
	}
	return a.Key()
}
