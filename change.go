package nod

import "time"

// Change is everything that one step writes. A store applies it in one
// transaction or not at all.
//
// An aggregate with Version 0 is inserted; any other is written only when the
// stored version equals Version (compare-and-swap), else the whole change is a
// Conflict. On success the store sets the new versions, times and sequence
// numbers in place.
type Change struct {
	// By makes the change. It is the actor of the audit events that the store
	// itself writes for every state change, intent and outcome; one without a
	// kind is Invalid. Events holds what else is to be recorded.
	By Actor

	Tasks        []*Task
	Runs         []*Run
	Environments []*Environment
	Decisions    []*Decision
	Revisions    []*Revision
	// Effects with Version 0 are intents. An intent whose Key exists already is
	// left out silently: the act has been decided before.
	Effects    []*Effect
	Deliveries []*Delivery // finished, returned or buried leases; never inserted here
	Blobs      [][]byte    // kept under their Digest; the same bytes twice are one blob
	Events     []*Event
}

// Case is a task with what is under way for it.
type Case struct {
	Task        Task
	Run         *Run         // the latest
	Environment *Environment // the latest
	Revision    *Revision    // the latest
	Decisions   []Decision   // of the task, oldest first
	Effects     []Effect     // of the task, oldest first
	Usage       Usage        // of all its runs together
}

// Open returns the open decisions of c.
func (c Case) Open() []Decision {
	var open []Decision
	for _, d := range c.Decisions {
		if d.State == DecisionOpen {
			open = append(open, d)
		}
	}
	return open
}

// Blocked reports whether a blocking decision is open.
func (c Case) Blocked() bool {
	for _, d := range c.Open() {
		if d.Blocking {
			return true
		}
	}
	return false
}

// ChainEntry is one link of the audit chain: SHA-256 over the event and Previous.
type ChainEntry struct {
	Event    int64  `json:"event"`
	Previous string `json:"previous"`
	Hash     string `json:"hash"`
}

// ChainReport is what verifying the audit chain found.
type ChainReport struct {
	Entries    int64     `json:"entries"`
	Head       string    `json:"head"`
	Verified   bool      `json:"verified"`
	Signatures int       `json:"signatures"`        // passkey assertions checked
	Problem    string    `json:"problem,omitempty"` // the first one found
	At         time.Time `json:"at"`
}
