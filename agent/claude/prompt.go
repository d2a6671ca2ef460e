package claude

import (
	"encoding/json"

	"nod"
)

// ask puts a permission request to the approver, or denies it at once.
func (s *session) ask(id string, r *request) {
	if id == "" {
		return // it cannot be answered; the program waits and the deadline ends it
	}
	if r.Tool == "" || !object(r.Input) {
		s.Withdraw(id)
		s.reply(deny(id, "Denied: the request does not say what would run."))
		return
	}
	asked := nod.ApprovalRequest{ID: id, CallID: r.CallID, Tool: r.Tool, Input: r.Input, Reason: r.Reason}
	s.Ask(asked, r.AgentID, func(a nod.ApprovalAnswer) {
		switch {
		case needsWords(r):
			s.reply(deny(id, inWords(a)))
		case a.Allow:
			s.reply(allow(id, r.Input))
		default:
			s.reply(deny(id, a.Reason))
		}
	})
}

func (s *session) reply(raw []byte, err error) {
	if err != nil {
		s.Fail(err)
		return
	}
	s.Send(raw)
}

// needsWords reports whether an allow would answer nothing: the tool puts a
// question to a person, or a plan.
func needsWords(r *request) bool {
	return r.UserInteraction || r.Tool == "AskUserQuestion" || r.Tool == "ExitPlanMode"
}

// inWords turns the answer to such a tool into what the agent is told. The tool
// itself never runs: this channel has no form for its answers.
func inWords(a nod.ApprovalAnswer) string {
	if a.Reason != "" {
		return "A person answered: " + a.Reason
	}
	return "Questions and plans cannot be answered here. End your turn with the question in plain words; the answer comes as the next message."
}

func object(raw json.RawMessage) bool { return len(raw) > 1 && raw[0] == '{' }
