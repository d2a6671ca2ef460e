package nod

import (
	"encoding/json"
	"time"
)

// EffectState is where one act on the outside world stands.
type EffectState string

const (
	EffectIntended  EffectState = "intended" // written, not known to be done
	EffectDone      EffectState = "done"     // the outcome is recorded
	EffectRefused   EffectState = "refused"  // the other side said no, for good
	EffectUnknown   EffectState = "unknown"  // nobody can tell whether it happened; a person is asked
	EffectAbandoned EffectState = "abandoned"
)

// EffectEvent moves an effect.
type EffectEvent string

const (
	EffectComplete EffectEvent = "complete"
	EffectRefuse   EffectEvent = "refuse"
	EffectLose     EffectEvent = "lose"
	EffectRedo     EffectEvent = "redo"
	EffectAbandon  EffectEvent = "abandon"
)

// EffectMachine is every transition of an effect.
var EffectMachine = Machine[EffectState, EffectEvent]{
	Noun: "effect", Start: EffectIntended,
	Table: map[EffectState]map[EffectEvent]EffectState{
		EffectIntended: {EffectComplete: EffectDone, EffectRefuse: EffectRefused, EffectLose: EffectUnknown, EffectAbandon: EffectAbandoned},
		EffectUnknown:  {EffectComplete: EffectDone, EffectRedo: EffectIntended, EffectAbandon: EffectAbandoned},
	},
}

// EffectKind names an act on the outside world.
type EffectKind string

const (
	EffectStatusComment EffectKind = "status_comment" // create or edit the task's one comment
	EffectSwapLabel     EffectKind = "swap_label"     // set one label, remove another
	EffectPush          EffectKind = "push"           // branch to an approved SHA
	EffectOpenPR        EffectKind = "open_pull_request"
	EffectCheckRun      EffectKind = "check_run" // nod's own check on a published commit
	EffectNotify        EffectKind = "notify"    // a Push to the phone
)

// Effect is one act on the outside world. It is written as an intent in the
// transaction that decides it; performing it and writing the outcome come after.
// The table of effects is the only door out, and the retry queue.
type Effect struct {
	ID        int64           `json:"id"`
	Version   int64           `json:"version"`
	Key       string          `json:"key"` // unique: the same act is never intended twice
	Task      string          `json:"task"`
	Repo      string          `json:"repo"` // Repo.Key; one writer per repository at a time; empty for pushes to a phone
	Kind      EffectKind      `json:"kind"`
	Intent    json.RawMessage `json:"intent"`
	State     EffectState     `json:"state"`
	Attempt   int             `json:"attempt"` // started performances; > 0 without an outcome means: look first
	NotBefore time.Time       `json:"not_before,omitzero"`
	Outcome   json.RawMessage `json:"outcome,omitempty"`
	Error     string          `json:"error,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// On applies event on, or returns a Conflict error and leaves e unchanged.
func (e *Effect) On(on EffectEvent) error {
	to, err := EffectMachine.Next(e.State, on)
	if err != nil {
		return err
	}
	e.State = to
	return nil
}

// StatusComment is the intent of EffectStatusComment: the task's one comment,
// found again by CommentID or, when that is not known yet, by Marker. The outcome
// is a CommentOutcome.
type StatusComment struct {
	Issue  int    `json:"issue"`
	Marker string `json:"marker"` // hidden HTML comment at the start of Body
	Body   string `json:"body"`
}

// CommentOutcome says which comment now holds the text.
type CommentOutcome struct {
	ID int64 `json:"id"`
}

// SwapLabel is the intent of EffectSwapLabel. Empty names are left alone.
type SwapLabel struct {
	Issue  int      `json:"issue"`
	Add    string   `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// SignMode is who signs the commits that go to GitHub.
type SignMode string

const (
	SignSSH    SignMode = "ssh"    // nod, with its own key: the prepared commits are pushed as they are
	SignGitHub SignMode = "github" // GitHub, for the App: the prepared commits are made anew there
)

// PushBranch is the intent of EffectPush: Branch to exactly SHA, or to what GitHub
// makes of it, from Old ("" when the branch must not exist yet), fast-forward only.
// The outcome is a PushOutcome.
type PushBranch struct {
	Branch string   `json:"branch"`
	SHA    string   `json:"sha"`
	Old    string   `json:"old,omitempty"`
	Base   string   `json:"base,omitempty"` // what the commits follow; GitHub has it
	Sign   SignMode `json:"sign,omitempty"` // empty is SignSSH
	// Forward says that Branch is not the task's own but its target, a named
	// integration branch, which the commits become the head of.
	Forward bool `json:"forward,omitempty"`
}

// PushOutcome is where the branch was read back.
type PushOutcome struct {
	SHA string `json:"sha"`
	// Published holds the commit on GitHub for each prepared one, where they differ.
	Published map[string]string `json:"published,omitempty"`
}

// OpenPullRequest is the intent of EffectOpenPR. The outcome is a PullRequest. An
// open one with the same head and base is taken as it is.
type OpenPullRequest struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Head  string `json:"head"` // branch
	Base  string `json:"base"` // branch
	SHA   string `json:"sha"`  // what head must point at
	// Number is the pull request that is there already; its texts stay as they are. 0
	// opens one.
	Number int  `json:"number,omitempty"`
	Draft  bool `json:"draft,omitempty"`

	Reviewers []string `json:"reviewers,omitempty"` // logins, or org/team
	Labels    []string `json:"labels,omitempty"`
}

// CheckRun is the intent of EffectCheckRun: the one check run called nod on a commit,
// made or brought up to date. The outcome is a CheckRunOutcome.
type CheckRun struct {
	SHA        string `json:"sha"`
	Conclusion string `json:"conclusion,omitempty"` // success or neutral; empty while work is under way
	Title      string `json:"title"`
	Summary    string `json:"summary"` // Markdown
	Link       string `json:"link"`
}

// CheckRunOutcome says which check run now says so.
type CheckRunOutcome struct {
	ID int64 `json:"id"`
}

// Push is what a phone is told: a short id, a kind and a link, never issue text,
// code, logs or tokens.
type Push struct {
	Title    string `json:"title"`
	Message  string `json:"message"`
	Click    string `json:"click"`
	Priority int    `json:"priority"` // 1 (min) to 5 (max), as ntfy defines them
	Tag      string `json:"tag,omitempty"`

	// Sequence names the push on the phone: a later one with the same name takes its
	// place, where the server knows of that (ntfy 2.16 and later).
	Sequence string `json:"sequence,omitempty"`
	Second   bool   `json:"second,omitempty"` // through the second channel
	Closed   bool   `json:"closed,omitempty"` // nothing waits any more
}

// Telling is the occasion on which a phone is told of a decision. The zero value is
// that it was opened.
type Telling struct {
	Reminder int  // of which reminder, 1, 2, …; 0 is none
	Second   bool // through the second channel, once nobody looked
	Closed   bool // it is answered, expired or superseded
	Together bool // of several at once: all that wait for the task
}

// Note is something that a push tells without asking.
type Note string

const (
	NoteBudgetSoft Note = "budget_soft" // a budget is nearly used up
	NoteBudgetHard Note = "budget_hard" // the task ended because one is
)
