package codex

import (
	"encoding/json"

	"nod"
	"nod/agent"
)

// finished handles the end of a turn: with it every prompt and every call ends
// that does not go on in the background.
func (s *session) finished(t turn) {
	s.mu.Lock()
	known := t.ID != "" && t.ID == s.turn
	s.mu.Unlock()
	if !known {
		return // an end that was told before, or of a turn that never was
	}
	s.Void(nil)
	if t.Status != "completed" {
		// The program ends the turn and leaves its commands running.
		s.ask("thread/backgroundTerminals/clean", map[string]string{"threadId": s.ID()}, func(json.RawMessage, *rpcError) {
			s.close(func(*call) bool { return true }, "It was ended with its turn.")
			s.conclude(t)
		})
		return
	}
	s.close(func(c *call) bool { return c.tool != toolShell || !c.allowed }, "Its turn ended first.")
	s.conclude(t)
}

// conclude tells how a turn ended.
func (s *session) conclude(t turn) {
	r := t.outcome()
	r.Turns = s.models
	if r.OK {
		r.Text = s.said
	}
	s.Emit(nod.EventAgentUsage, nod.Usage{InputTokens: s.spent.Input, OutputTokens: s.spent.Output})
	if r.Reason == agent.ReasonQuotaExhausted {
		r.ResetsAt = s.resets
	}
	if kind, trouble, ok := agent.Trouble(r); ok {
		s.Emit(kind, trouble)
	}
	s.Emit(nod.EventResult, r)
	s.mu.Lock()
	s.turn, s.runs, s.last = "", false, t.ID
	left := len(s.calls)
	var took []string
	for key, id := range s.turns {
		if id == t.ID {
			took = append(took, key)
			delete(s.turns, key)
		}
	}
	s.mu.Unlock()
	s.Change(func(st *agent.State) {
		for _, key := range took {
			delete(st.Unanswered, key)
		}
		st.Result, st.Idle, st.Since, st.Background = r, true, now(), left
	})
}

// outcome is the result of a turn, but for what was said and counted.
func (t turn) outcome() nod.Result {
	switch {
	case t.Status == "completed" && t.Error == nil:
		return nod.Result{OK: true}
	case t.Status == "interrupted":
		return nod.Result{Reason: agent.ReasonInterrupted}
	case t.Error == nil:
		return nod.Result{Reason: agent.ReasonError, Text: "the turn is " + agent.Clean(t.Status, 40)}
	}
	return nod.Result{Reason: t.Error.reason(), Text: t.Error.text()}
}

// reason names the error: its information is a word, or an object with one member
// that may hold the status of an answer.
func (e *turnError) reason() string {
	var word string
	if json.Unmarshal(e.Info, &word) == nil {
		switch word {
		case "unauthorized":
			return agent.ReasonAuthExpired
		case "usageLimitExceeded", "rateLimitExceeded":
			return agent.ReasonQuotaExhausted
		case "sessionBudgetExceeded":
			return agent.ReasonMaxBudget
		case "internalServerError", "serverOverloaded", "badRequest", "modelNotFound", "flexUnavailable", "other":
			return agent.ReasonAPIError
		}
		return agent.ReasonError
	}
	var named map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if !decode(e.Info, &named) {
		return agent.ReasonError
	}
	for _, n := range named {
		switch n.Status {
		case 401, 403:
			return agent.ReasonAuthExpired
		case 402, 429:
			return agent.ReasonQuotaExhausted
		}
		return agent.ReasonAPIError
	}
	return agent.ReasonError
}
