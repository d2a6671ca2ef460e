package nod

// Tier is how far a GitHub actor is trusted in one repository. The zero value is
// not a tier and is treated as Outsider.
type Tier string

const (
	Owner    Tier = "owner"    // listed by numeric id in the configuration
	Writer   Tier = "writer"   // write, maintain or admin, by the collaborator-permission API
	Triager  Tier = "triager"  // triage, by the same API
	Outsider Tier = "outsider" // everyone else, and whoever could not be resolved
	Bot      Tier = "bot"      // GitHub says that the account is not a user
)

// Rank orders tiers by trust: 3 owner, 2 writer, 1 triager, 0 anything else.
func (t Tier) Rank() int {
	switch t {
	case Owner:
		return 3
	case Writer:
		return 2
	case Triager:
		return 1
	default:
		return 0
	}
}

// Trusted reports whether words by an actor of tier t may reach an agent without
// a person having seen them.
func (t Tier) Trusted() bool { return t.Rank() >= Writer.Rank() }

// Standing is a tier with the reason it was given, kept for explanations.
type Standing struct {
	Actor  Actor  `json:"actor"`
	Tier   Tier   `json:"tier"`
	Reason string `json:"reason"`
}
