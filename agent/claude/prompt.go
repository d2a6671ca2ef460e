package claude

import (
	"context"
	"encoding/json"

	"nod"
)

// prompt is one permission request that waits for an answer.
type prompt struct {
	cancel context.CancelFunc
	agent  string // of a subagent; empty on the main thread
}

// ask hands a permission request to the approver in a goroutine of its own, or
// denies it at once.
func (s *session) ask(id string, r *request) {
	if id == "" {
		return // it cannot be answered; the program waits and the deadline ends it
	}
	ctx, cancel := context.WithCancel(s.ctx)
	p := &prompt{cancel: cancel, agent: r.AgentID}
	if why := s.admit(id, r, p); why != "" {
		cancel()
		s.reply(deny(id, why))
		return
	}
	asked := nod.ApprovalRequest{ID: id, CallID: r.CallID, Tool: r.Tool, Input: r.Input, Reason: r.Reason}
	s.work.Go(func() {
		defer cancel()
		answer := s.spec.Approve(ctx, asked)
		if !s.take(id, p) {
			return // withdrawn meanwhile: a late answer is no answer
		}
		switch {
		case ctx.Err() != nil:
			s.reply(deny(id, "Nobody answered in time."))
		case needsWords(r):
			s.reply(deny(id, inWords(answer)))
		case answer.Allow:
			s.reply(allow(id, r.Input))
		default:
			s.reply(deny(id, answer.Reason))
		}
	})
}

// admit takes p into the waiting prompts, or says why it is denied unasked.
func (s *session) admit(id string, r *request, p *prompt) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch double := s.prompts[id]; {
	case double != nil:
		delete(s.prompts, id)
		double.cancel()
		return "Denied: the same request came twice."
	case s.ending || s.broken != nil:
		return "Denied: the session is ending."
	case !s.isOpen:
		return "Denied: the session is not open."
	case r.Tool == "" || !object(r.Input):
		return "Denied: the request does not say what would run."
	case len(s.prompts) >= nod.MaxWaiting:
		return "Denied: too many requests wait for an answer. Ask for one thing at a time."
	}
	s.prompts[id] = p
	return ""
}

// take removes p if it still waits under id.
func (s *session) take(id string, p *prompt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompts[id] != p {
		return false
	}
	delete(s.prompts, id)
	return true
}

// withdraw forgets a request that the program no longer waits for.
func (s *session) withdraw(id string) {
	s.mu.Lock()
	p := s.prompts[id]
	delete(s.prompts, id)
	s.mu.Unlock()
	if p != nil {
		p.cancel()
	}
}

// void withdraws every request, or those of the main thread only, and returns
// their ids.
func (s *session) void(mainOnly bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, p := range s.prompts {
		if mainOnly && p.agent != "" {
			continue
		}
		delete(s.prompts, id)
		p.cancel()
		ids = append(ids, id)
	}
	return ids
}

func (s *session) reply(raw []byte, err error) {
	if err != nil {
		s.fail(err)
		return
	}
	s.send(raw)
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
