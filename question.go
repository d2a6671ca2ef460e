package nod

// RequestKind is what an ApprovalRequest puts to a person.
type RequestKind string

const (
	RequestTool     RequestKind = ""         // the use of a tool
	RequestQuestion RequestKind = "question" // Questions; an allow without Answers answers none
	RequestPlan     RequestKind = "plan"     // Plan; an allow lets the agent begin with it
)

// AgentQuestion is one question of an agent. All of it is untrusted.
type AgentQuestion struct {
	ID       string        `json:"id"` // key of its answer, unique in its request
	Header   string        `json:"header,omitempty"`
	Text     string        `json:"text"`
	Options  []AgentOption `json:"options,omitempty"`
	Several  bool          `json:"several,omitempty"`   // more than one option may be chosen
	FreeText bool          `json:"free_text,omitempty"` // words that are no option are an answer too
	Secret   bool          `json:"secret,omitempty"`    // the answer would be a secret, which nod does not ask for
}

// AgentOption is one answer that an agent offers.
type AgentOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Labels are the answers that q offers, each once.
func (q AgentQuestion) Labels() []string {
	var out []string
	seen := map[string]bool{}
	for _, o := range q.Options {
		if o.Label != "" && !seen[o.Label] {
			out = append(out, o.Label)
		}
		seen[o.Label] = true
	}
	return out
}
