package nod

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unicode/utf8"
)

// DecisionKind is the shape of what a person is asked.
type DecisionKind string

const (
	Question DecisionKind = "question" // fixed options, free text, or both
	Approval DecisionKind = "approval" // allow or deny; always has a deadline
	Review   DecisionKind = "review"   // ready to push? bound to one commit SHA
)

// Cause is why a person is asked.
type Cause string

const (
	CauseTool           Cause = "tool"
	CausePlan           Cause = "plan"
	CauseAgentQuestion  Cause = "agent_question"
	CauseUntrustedStart Cause = "untrusted_start"
	CauseEgressHost     Cause = "egress_host"
	CauseFeatureSource  Cause = "feature_source"
	CauseAuthExpired    Cause = "auth_expired"
	CauseQuotaExhausted Cause = "quota_exhausted"
	CauseRebaseConflict Cause = "rebase_conflict"
	CausePrepareFailed  Cause = "prepare_failed"
	CausePublishFailed  Cause = "publish_failed"
	CauseRunFailed      Cause = "run_failed"
	CauseReadyToPush    Cause = "ready_to_push"
	CauseAgentMayRun    Cause = "agent_may_run"
	CauseEffectUnknown  Cause = "effect_unknown"
	CauseRework         Cause = "rework" // words that nobody trusted wrote, or another try, would put an agent to work again
)

// The answers that nod itself understands. A question's options are answers too.
const (
	Allow  = "allow"
	Deny   = "deny"
	Retry  = "retry"
	Rework = "rework"
	Cancel = "cancel"
	Resume = "resume" // a parked run goes on now
	Hold   = "hold"   // a parked run waits until somebody says otherwise
)

// DecisionState is where one decision stands.
type DecisionState string

const (
	DecisionOpen       DecisionState = "open"
	DecisionAnswered   DecisionState = "answered"
	DecisionExpired    DecisionState = "expired"
	DecisionSuperseded DecisionState = "superseded"
)

// DecisionEvent moves a decision.
type DecisionEvent string

const (
	DecisionAnswer    DecisionEvent = "answer"
	DecisionExpire    DecisionEvent = "expire"
	DecisionSupersede DecisionEvent = "supersede"
)

// DecisionMachine is every transition of a decision: each way out of open is final.
var DecisionMachine = Machine[DecisionState, DecisionEvent]{
	Noun: "decision", Start: DecisionOpen,
	Table: map[DecisionState]map[DecisionEvent]DecisionState{
		DecisionOpen: {DecisionAnswer: DecisionAnswered, DecisionExpire: DecisionExpired, DecisionSupersede: DecisionSuperseded},
	},
}

const (
	// InputCap is how many characters of an input a decision carries itself.
	InputCap = 2000
	// ApprovalDeadline is how long an approval waits when nothing else is configured.
	ApprovalDeadline = 10 * time.Minute
	// MaxApprovals is how many different passkeys a decision can ask for at most.
	MaxApprovals = 9
	// MaxWaiting is how many prompts of one session may wait at once; one more is denied.
	MaxWaiting = 8
)

// Decision is what a person is asked, and what they answered.
type Decision struct {
	ID             string        `json:"id"` // "d" and 32 hex digits
	Version        int64         `json:"version"`
	Task           string        `json:"task"`
	Run            string        `json:"run,omitempty"` // empty for a review and an untrusted_start
	Kind           DecisionKind  `json:"kind"`
	Cause          Cause         `json:"cause"`
	Blocking       bool          `json:"blocking"`
	Subject        string        `json:"subject"`         // one line; for a tool its name
	Input          string        `json:"input"`           // untrusted, at most InputCap characters
	InputTruncated bool          `json:"input_truncated"` // Input is not the whole
	InputDigest    string        `json:"input_digest"`    // SHA-256, hex, of the whole input; its blob key
	CommitSHA      string        `json:"commit_sha,omitempty"`
	Options        []string      `json:"options,omitempty"`     // answers that may be given
	FreeText       bool          `json:"free_text,omitempty"`   // a question that also takes other words
	Approvals      int           `json:"approvals,omitempty"`   // different passkeys that must allow it; 0 and 1 are the same
	ApprovedBy     []Actor       `json:"approved_by,omitempty"` // passkeys that have, but for the last one, which is AnsweredBy
	Deadline       time.Time     `json:"deadline,omitzero"`
	State          DecisionState `json:"state"`
	Answer         string        `json:"answer,omitempty"`
	Reason         string        `json:"reason,omitempty"`
	AnsweredBy     Actor         `json:"answered_by,omitzero"`
	AnsweredAt     time.Time     `json:"answered_at,omitzero"`
	CreatedAt      time.Time     `json:"created_at"`
	UpdatedAt      time.Time     `json:"updated_at"`
}

// SetInput puts the whole input into d: its digest, and as much of its text as
// fits InputCap. The caller stores whole as a blob in the same change.
func (d *Decision) SetInput(whole string) {
	d.InputDigest = Digest([]byte(whole))
	d.Input, d.InputTruncated = whole, false
	if utf8.RuneCountInString(whole) > InputCap {
		d.Input, d.InputTruncated = string([]rune(whole)[:InputCap]), true
	}
}

// Valid returns an Invalid error that names the first rule d breaks. The store
// applies it on every write and on every load.
func (d Decision) Valid() error {
	bad := ""
	switch {
	case d.ID == "" || d.Task == "":
		bad = "has no id or no task"
	case d.Kind != Question && d.Kind != Approval && d.Kind != Review:
		bad = "has an unknown kind"
	case !DecisionMachine.Known(d.State):
		bad = "has an unknown state"
	case d.Kind == Approval && d.Deadline.IsZero():
		bad = "is an approval without a deadline"
	case d.Kind == Review && d.CommitSHA == "":
		bad = "is a review without a commit SHA"
	case d.Kind != Review && d.InputDigest == "":
		bad = "has no input digest"
	case d.Kind != Question && d.FreeText:
		bad = "takes free text but is not a question"
	case d.Approvals < 0 || d.Approvals > MaxApprovals:
		bad = "asks for an impossible number of approvals"
	case d.Permits() && len(d.ApprovedBy)+1 < d.Approvals:
		bad = "is allowed by too few passkeys"
	case d.State == DecisionAnswered && (d.Answer == "" || d.AnsweredBy.Kind == "" || d.AnsweredAt.IsZero()):
		bad = "is answered without an answer, an actor and a time"
	case d.State != DecisionAnswered && d.Answer != "":
		bad = "carries an answer but is not answered"
	default:
		return nil
	}
	return &Error{Code: Invalid, Msg: "decision " + d.ID + " " + bad}
}

// Takes reports whether answer is one that d can be given.
func (d Decision) Takes(answer string) bool {
	if answer == "" {
		return false
	}
	if d.Kind != Question {
		return answer == Allow || answer == Deny
	}
	for _, o := range d.Options {
		if o == answer {
			return true
		}
	}
	return d.FreeText
}

// Permits reports whether d permits what it asked about. Only an answered allow
// ever does.
func (d Decision) Permits() bool { return d.State == DecisionAnswered && d.Answer == Allow }

// Approved reports whether the passkey has allowed d already, as one of several
// that must.
func (d Decision) Approved(passkey string) bool {
	for _, a := range d.ApprovedBy {
		if a.Passkey == passkey {
			return true
		}
	}
	return false
}

// Missing is how many more different passkeys must allow d before that counts.
func (d Decision) Missing() int {
	if d.State != DecisionOpen {
		return 0
	}
	return max(1, d.Approvals) - len(d.ApprovedBy)
}

// Late reports whether now is past the deadline.
func (d Decision) Late(now time.Time) bool { return !d.Deadline.IsZero() && !now.Before(d.Deadline) }

// On applies event on, or returns a Conflict error and leaves d unchanged.
func (d *Decision) On(on DecisionEvent) error {
	to, err := DecisionMachine.Next(d.State, on)
	if err != nil {
		return err
	}
	d.State = to
	return nil
}

// SurvivesRestart reports whether d still makes sense when the agent process
// that asked it is gone: reviews and questions of the supervisor do, whatever a
// live run asked does not.
func (d Decision) SurvivesRestart() bool {
	switch d.Cause {
	case CauseTool, CausePlan, CauseAgentQuestion:
		return false
	}
	return true
}

// Bound is what an answer is bound to: the commit SHA of a review, the input
// digest of anything else.
func (d Decision) Bound() string {
	if d.Kind == Review {
		return d.CommitSHA
	}
	return d.InputDigest
}

// Digest is SHA-256 in lower-case hex, the key of a blob.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
