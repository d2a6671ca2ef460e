package nod

import (
	"context"
	"encoding/json"
	"time"
)

// EventTier says how long an event is kept.
type EventTier string

const (
	Audit      EventTier = "audit"      // never purged, chained
	Transcript EventTier = "transcript" // purgeable
)

// SupervisorStream is the stream of events that belong to no task.
const SupervisorStream = "supervisor"

// EventKind names what happened.
type EventKind string

// Audit kinds.
const (
	EventTaskCreated     EventKind = "task.created"
	EventTaskState       EventKind = "task.state"
	EventRunState        EventKind = "run.state"
	EventEnvironment     EventKind = "environment.state"
	EventAttested        EventKind = "environment.attested"
	EventVerdict         EventKind = "policy.verdict"
	EventDecisionOpened  EventKind = "decision.opened"
	EventDecisionClosed  EventKind = "decision.closed"  // answered, expired or superseded
	EventDecisionAllowed EventKind = "decision.allowed" // by one of several passkeys that must
	EventDecisionSeen    EventKind = "decision.seen"    // a signed-in person opened its page
	EventActWanted       EventKind = "act.wanted"       // a person told nod to do something
	EventActFinished     EventKind = "act.finished"
	EventActRefused      EventKind = "act.refused"
	EventAnswerRefused   EventKind = "decision.answer_refused"
	EventAnswerRepeated  EventKind = "decision.answer_repeated"
	EventRevision        EventKind = "revision.state"
	EventEffectIntended  EventKind = "effect.intended"
	EventEffectOutcome   EventKind = "effect.outcome"
	EventEgressDenied    EventKind = "egress.denied"
	EventUsage           EventKind = "usage"  // TurnUsage
	EventBudget          EventKind = "budget" // a limit was reached
	EventPasskeyEnrolled EventKind = "passkey.enrolled"
	EventPasskeyRevoked  EventKind = "passkey.revoked"
	EventPurged          EventKind = "purged"
	EventTerminalOpened  EventKind = "terminal.opened" // somebody at the host sat down in the environment
	EventTerminalClosed  EventKind = "terminal.closed"
	EventInstallation    EventKind = "installation.changed"
)

// Transcript kinds: what an agent said and did. Their Data is the type named.
const (
	EventSession    EventKind = "agent.session"         // SessionOpened
	EventMessage    EventKind = "agent.message"         // Message
	EventToolCall   EventKind = "agent.tool_call"       // ToolCall
	EventToolResult EventKind = "agent.tool_result"     // ToolResult
	EventAgentUsage EventKind = "agent.usage"           // Usage
	EventAgentError EventKind = "agent.error"           // AgentError
	EventResult     EventKind = "agent.result"          // Result
	EventDiff       EventKind = "agent.diff"            // Diff
	EventTestResult EventKind = "agent.test_result"     // TestResult
	EventApproval   EventKind = "agent.approval"        // ApprovalSettled
	EventSignedOut  EventKind = "agent.auth_expired"    // Trouble
	EventQuota      EventKind = "agent.quota_exhausted" // Trouble
)

// Event is one thing that happened. Events are append-only. Audit events are
// chained: see package store.
type Event struct {
	ID     int64           `json:"id"`     // global order, never reused
	Stream string          `json:"stream"` // task id, or SupervisorStream
	Seq    int64           `json:"seq"`    // 1, 2, … within Stream
	Tier   EventTier       `json:"tier"`
	Kind   EventKind       `json:"kind"`
	By     Actor           `json:"by"`
	At     time.Time       `json:"at"`
	Data   json.RawMessage `json:"data"`
	Commit string          `json:"commit,omitempty"` // SHA, on events that concern one
}

// NewEvent makes an event whose data is the JSON of data. A value that cannot be
// marshalled is a mistake in nod and becomes an event that says so.
func NewEvent(stream string, tier EventTier, kind EventKind, by Actor, data any) Event {
	raw, err := json.Marshal(data)
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"marshal_error": err.Error()})
	}
	return Event{Stream: stream, Tier: tier, Kind: kind, By: by, Data: raw}
}

// StateChange is the Data of the *.state audit events.
type StateChange struct {
	ID   string `json:"id"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	Why  string `json:"why,omitempty"`
}

// SessionOpened says that the agent is ready, and as what.
type SessionOpened struct {
	Session string `json:"session"`
	Program string `json:"program"` // "claude"
	Version string `json:"version"`
	Model   string `json:"model,omitempty"`
}

// Message is text by the agent.
type Message struct {
	Text string `json:"text"` // untrusted
}

// ToolCall is a tool the agent wants to use, or uses.
type ToolCall struct {
	ID    string          `json:"id"`
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"` // untrusted
}

// ToolResult is what a tool said.
type ToolResult struct {
	ID      string `json:"id"`
	Text    string `json:"text"` // untrusted
	IsError bool   `json:"is_error,omitempty"`
}

// Usage is what a turn cost. CostUSD is the agent's own estimate, cumulative for
// its session; nil when it gives none.
type Usage struct {
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	CostUSD      *float64 `json:"cost_usd,omitempty"`
}

// AgentError is trouble the agent reported and went on from.
type AgentError struct {
	Text string `json:"text"`
}

// Diff is a change of files that has happened.
type Diff struct {
	CallID string `json:"call_id,omitempty"` // of the tool call that made it; empty when several did
	Path   string `json:"path,omitempty"`    // untrusted; empty when Text names the files
	Text   string `json:"text"`              // unified hunks, untrusted
}

// TestResult is how a command ended that runs tests.
type TestResult struct {
	CallID  string `json:"call_id"`
	Command string `json:"command"` // untrusted
	OK      bool   `json:"ok"`
}

// Outcomes of an ApprovalRequest.
const (
	SettledAllowed   = "allowed"
	SettledDenied    = "denied"
	SettledWithdrawn = "withdrawn" // the agent waits for it no longer
)

// ApprovalSettled is what came of an ApprovalRequest.
type ApprovalSettled struct {
	ID          string      `json:"id"`
	CallID      string      `json:"call_id"`
	Kind        RequestKind `json:"kind,omitempty"`
	Tool        string      `json:"tool"`
	InputDigest string      `json:"input_digest"` // of the bytes that were shown, and on an allow sent back
	Outcome     string      `json:"outcome"`
	Reason      string      `json:"reason,omitempty"`
}

// Trouble is why the model does not answer.
type Trouble struct {
	Text     string    `json:"text"`               // untrusted
	ResetsAt time.Time `json:"resets_at,omitzero"` // when a quota is there again, if that was told
}

// Result is how a turn ended.
type Result struct {
	OK       bool      `json:"ok"`
	Text     string    `json:"text"`               // the agent's last words, untrusted
	Reason   string    `json:"reason,omitempty"`   // why not OK
	ResetsAt time.Time `json:"resets_at,omitzero"` // of a Reason that is a quota, if that was told
	Turns    int       `json:"turns"`
}

// ApprovalRequest is what an agent asks before it goes on.
type ApprovalRequest struct {
	ID        string          `json:"id"` // the agent's request id
	CallID    string          `json:"call_id"`
	Kind      RequestKind     `json:"kind,omitempty"`
	Tool      string          `json:"tool"`
	Input     json.RawMessage `json:"input"` // untrusted; exactly these bytes would run
	Reason    string          `json:"reason,omitempty"`
	Questions []AgentQuestion `json:"questions,omitempty"` // of a RequestQuestion
	Plan      string          `json:"plan,omitempty"`      // of a RequestPlan; untrusted
}

// ApprovalAnswer answers an ApprovalRequest. The zero value denies.
type ApprovalAnswer struct {
	Allow   bool              `json:"allow"`
	Reason  string            `json:"reason,omitempty"`  // told to the agent on a denial
	Answers map[string]string `json:"answers,omitempty"` // by AgentQuestion.ID; several options are joined by ", "
}

// Approver judges permission prompts. It is called from one goroutine per
// prompt and must return when ctx ends; whatever it returns then counts as a denial.
// ctx also ends, soon after it has returned, when the agent has heard the answer or
// never will: what need not come before that can wait for it.
type Approver func(ctx context.Context, r ApprovalRequest) ApprovalAnswer
