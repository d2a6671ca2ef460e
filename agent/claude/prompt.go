package claude

import (
	"encoding/json"

	"nod"
)

// The tools that put something to a person.
const (
	toolQuestion = "AskUserQuestion"
	toolPlan     = "ExitPlanMode"
)

// ask puts a request to the approver, or denies it at once.
func (s *session) ask(id string, r *request) {
	if id == "" {
		return // it cannot be answered; the program waits and the deadline ends it
	}
	refuse := func(why string) {
		s.Withdraw(id)
		s.reply(deny(id, why))
	}
	if r.Tool == "" || !object(r.Input) {
		refuse("Denied: the request does not say what would run.")
		return
	}
	asked := nod.ApprovalRequest{ID: id, CallID: r.CallID, Tool: r.Tool, Input: r.Input, Reason: r.Reason}
	allowed := func(nod.ApprovalAnswer) ([]byte, error) { return allow(id, r.Input) }
	switch {
	case r.Tool == toolQuestion:
		if asked.Questions = questions(r.Input); asked.Questions == nil {
			refuse("Denied: the questions are not understood. End your turn with the question in plain words.")
			return
		}
		asked.Kind = nod.RequestQuestion
		allowed = func(a nod.ApprovalAnswer) ([]byte, error) { return allowAnswered(id, r.Input, a.Answers) }
	case r.Tool == toolPlan:
		asked.Kind, asked.Plan = nod.RequestPlan, s.planOf(r)
	case r.UserInteraction:
		refuse("Denied: this cannot be answered here. End your turn with the question in plain words; the answer comes as the next message.")
		return
	}
	s.Ask(asked, r.AgentID, func(a nod.ApprovalAnswer) {
		if !a.Allow {
			s.reply(deny(id, a.Reason))
			return
		}
		s.reply(allowed(a))
	})
}

func (s *session) reply(raw []byte, err error) {
	if err != nil {
		s.Fail(err)
		return
	}
	s.Send(raw)
}

// questions reads the input of the tool that asks a person; nil when it holds none
// that can be shown. The key of an answer is the question's text.
func questions(input json.RawMessage) []nod.AgentQuestion {
	var in struct {
		Questions []struct {
			Text    string `json:"question"`
			Header  string `json:"header"`
			Several bool   `json:"multiSelect"`
			Options []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
			} `json:"options"`
		} `json:"questions"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	var out []nod.AgentQuestion
	seen := map[string]bool{}
	for _, q := range in.Questions {
		if q.Text == "" || seen[q.Text] {
			return nil
		}
		seen[q.Text] = true
		asked := nod.AgentQuestion{ID: q.Text, Header: q.Header, Text: q.Text, Several: q.Several, FreeText: true}
		for _, o := range q.Options {
			asked.Options = append(asked.Options, nod.AgentOption{Label: o.Label, Description: o.Description})
		}
		out = append(out, asked)
	}
	return out
}

// planOf is the plan that r asks about: from the request, or from the call that it
// belongs to, for the program drops it on the way; else the agent's last words.
func (s *session) planOf(r *request) string {
	for _, raw := range []json.RawMessage{r.Input, s.plans[r.CallID]} {
		var in struct {
			Plan string `json:"plan"`
		}
		if len(raw) > 0 && json.Unmarshal(raw, &in) == nil && in.Plan != "" {
			return in.Plan
		}
	}
	return s.said
}

func object(raw json.RawMessage) bool { return len(raw) > 1 && raw[0] == '{' }
