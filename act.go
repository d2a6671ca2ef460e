package nod

import "time"

// ActKind is what a person tells nod to do with a task, unasked.
type ActKind string

const (
	ActCancel ActKind = "cancel" // end the task; Words say why, or nothing
	ActSay    ActKind = "say"    // tell the agent Words
	ActPause  ActKind = "pause"  // end the agent's process, keep its session and environment
	ActResume ActKind = "resume" // let a paused agent go on; Words are told to it
)

// ActState is where an act stands.
type ActState string

const (
	ActWanted  ActState = "wanted" // recorded, not yet done
	ActDone    ActState = "done"
	ActRefused ActState = "refused" // it could not be done; Note says why
)

// WordsCap is how many characters an act's words may have.
const WordsCap = 2000

// Act is something a person tells nod to do with a task. Like an answer it is
// proved by an assertion of its own, or comes from the host.
type Act struct {
	ID        string     `json:"id"`
	Task      string     `json:"task"`
	Kind      ActKind    `json:"kind"`
	Words     string     `json:"words,omitempty"`
	By        Actor      `json:"by"`
	Challenge string     `json:"challenge,omitempty"` // id of the challenge to consume; empty from the host
	Assertion *Assertion `json:"assertion,omitempty"` // nil from the host
	State     ActState   `json:"state"`
	Note      string     `json:"note,omitempty"` // how it went
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
}

// Valid returns an Invalid error that names the first rule a breaks.
func (a Act) Valid() error {
	bad := ""
	switch {
	case a.ID == "" || a.Task == "":
		bad = "has no id or no task"
	case a.Kind != ActCancel && a.Kind != ActSay && a.Kind != ActPause && a.Kind != ActResume:
		bad = "is of an unknown kind"
	case a.Kind == ActSay && a.Words == "":
		bad = "says nothing"
	case len([]rune(a.Words)) > WordsCap:
		bad = "has too many words"
	default:
		return nil
	}
	return E(Invalid, "what is to be done "+bad, nil)
}

// ActChallenge is the challenge that binds an act to its task: SHA-256 over
// "nod.act.v1", task, kind, words and nonce, each preceded by its length as in
// AnswerChallenge.
func ActChallenge(a Act, nonce string) []byte {
	return bind("nod.act.v1", a.Task, string(a.Kind), a.Words, nonce)
}
