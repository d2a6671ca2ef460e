package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"nod"
	"nod/agent"
)

// handle maps one line to events and state. It runs on the reader's goroutine.
func (s *session) handle(l line) {
	switch l.Type {
	case "system":
		s.system(l)
	case "assistant":
		s.assistant(l)
	case "user":
		s.user(l)
	case "result":
		s.finished(l)
	case "control_request":
		switch {
		case l.Request != nil && l.Request.Subtype == "can_use_tool":
			s.ask(l.RequestID, l.Request)
		case l.RequestID != "":
			s.reply(unsupported(l.RequestID))
		}
	case "control_cancel_request":
		s.Withdraw(l.RequestID)
	case "control_response":
		s.answered(l.Response)
	case "command_lifecycle":
		s.lifecycle(l)
	case "rate_limit_event":
		s.resets = time.Time{}
		if l.RateLimit != nil && l.RateLimit.Status == "rejected" && l.RateLimit.ResetsAt > 0 {
			s.resets = time.Unix(l.RateLimit.ResetsAt, 0).UTC()
		}
	}
}

func (s *session) system(l line) {
	switch l.Subtype {
	case "init":
		s.opens(l)
	case "api_retry":
		s.Emit(nod.EventAgentError, nod.AgentError{Text: fmt.Sprintf("the model API answered %d (%s); attempt %d of %d",
			l.ErrorStatus, agent.Clean(text(l.Error), 80), l.Attempt, l.MaxRetries)})
	case "permission_denied":
		s.Emit(nod.EventAgentError, nod.AgentError{Text: "the agent refused itself a use of " + agent.Clean(l.ToolName, 80)})
	case "background_tasks_changed":
		var tasks []json.RawMessage
		if len(l.Tasks) > 0 && json.Unmarshal(l.Tasks, &tasks) != nil {
			return
		}
		s.Change(func(st *agent.State) { st.Background, st.Since, st.Lingers = len(tasks), now(), true })
	}
}

// opens handles system/init, which begins every turn.
func (s *session) opens(l line) {
	if err := s.check(l); err != nil {
		s.Fail(err)
		return
	}
	was := s.State()
	if was.Open && was.ID != l.Session {
		s.Fail(nod.E(nod.Unsupported, "the agent changed its session", nil))
		return
	}
	s.apiError = ""
	s.Change(func(st *agent.State) { st.ID, st.Open, st.Idle, st.Lingers = l.Session, true, false, st.Background > 0 })
	if !was.Open {
		s.Emit(nod.EventSession, nod.SessionOpened{Session: l.Session, Program: s.cfg.Name, Version: l.Version, Model: l.Model})
		close(s.opened)
	}
}

func (s *session) answered(r *response) {
	if r == nil || r.RequestID != initializeID {
		return
	}
	if r.Subtype != "success" {
		s.Fail(nod.E(nod.Unsupported, "the agent refused to initialize", fmt.Errorf("%s", agent.Clean(r.Error, 200))))
		return
	}
	if !s.isInit {
		s.isInit = true
		close(s.initialized)
	}
}

func (s *session) assistant(l line) {
	if len(l.Error) > 0 && string(l.Error) != "null" {
		s.apiError = text(l.Error)
		for _, b := range l.Message.blocks() {
			s.Emit(nod.EventAgentError, nod.AgentError{Text: b.Text})
		}
		return
	}
	for _, b := range l.Message.blocks() {
		switch {
		case b.Type == "text" && b.Text != "":
			s.said = b.Text
			s.Emit(nod.EventMessage, nod.Message{Text: b.Text})
		case b.Type == "tool_use":
			if len(b.Input) == 0 {
				b.Input = json.RawMessage("{}")
			}
			s.called(b)
			s.Emit(nod.EventToolCall, nod.ToolCall{ID: b.ID, Tool: b.Name, Input: b.Input})
		}
	}
}

func (s *session) user(l line) {
	if l.Replay {
		return
	}
	for _, b := range l.Message.blocks() {
		if b.Type == "tool_result" {
			s.Emit(nod.EventToolResult, nod.ToolResult{ID: b.ToolUseID, Text: b.text(), IsError: b.IsError})
			s.ran(l, b)
		}
	}
}

// called remembers of a call what its result does not say again.
func (s *session) called(b block) {
	switch b.Name {
	case toolPlan:
		s.plans[b.ID] = b.Input
	case "Bash":
		var in struct {
			Command string `json:"command"`
		}
		if json.Unmarshal(b.Input, &in) == nil && agent.RunsTests(in.Command) {
			s.shells[b.ID] = in.Command
		}
	}
}

// ran tells what a call that has ended did.
func (s *session) ran(l line, b block) {
	if command, ok := s.shells[b.ToolUseID]; ok && !bytes.Contains(l.ToolResult, []byte(`"backgroundTaskId"`)) {
		s.Emit(nod.EventTestResult, nod.TestResult{CallID: b.ToolUseID, Command: command, OK: !b.IsError})
	}
	delete(s.shells, b.ToolUseID)
	delete(s.plans, b.ToolUseID)
	if path, text, ok := l.diff(); ok && !b.IsError {
		s.Emit(nod.EventDiff, agent.NewDiff(b.ToolUseID, path, text))
	}
}

// finished handles a result: it ends the turn, and with it every request of the
// main thread that is still open.
func (s *session) finished(l line) {
	for _, id := range s.Void(func(group string) bool { return group == "" }) {
		s.reply(deny(id, "Denied: the turn is over."))
	}
	if !s.State().Open {
		s.Fail(unopened(l))
		return
	}
	r := l.outcome(s.apiError)
	if r.Reason == agent.ReasonQuotaExhausted {
		r.ResetsAt = s.resets
	}
	clear(s.shells)
	clear(s.plans)
	// The turn is idle only once its events are out: what comes after the end of a
	// session must not be lost.
	s.Emit(nod.EventAgentUsage, l.cost())
	if kind, trouble, ok := agent.Trouble(r); ok {
		s.Emit(kind, trouble)
	}
	s.Emit(nod.EventResult, r)
	s.Change(func(st *agent.State) {
		named := l.Messages
		if l.Message1 != "" {
			named = append(named, l.Message1)
		}
		if len(named) == 0 && l.Origin == nil {
			clear(st.Unanswered) // it does not name them; a turn takes all there are
		}
		for _, uuid := range named {
			delete(st.Unanswered, uuid)
		}
		st.Result, st.Idle, st.Since = r, true, now()
	})
}

// unopened is why a session ended before it was open.
func unopened(l line) error {
	said := strings.Join(l.Errors, "; ")
	if strings.Contains(said, "No conversation found") {
		return nod.E(nod.NotFound, "the agent no longer knows the session", nil)
	}
	return nod.E(nod.Unavailable, "the agent ended before its session was open", fmt.Errorf("%s", agent.Clean(said, 200)))
}

func (s *session) lifecycle(l line) {
	if l.State != "completed" && l.State != "cancelled" {
		return
	}
	s.Change(func(st *agent.State) { delete(st.Unanswered, l.CommandUUID) })
}

// outcome is the result in l. A turn that failed may call itself a success, and
// one that was aborted may say that it is no error: both must agree.
func (l line) outcome(apiError string) nod.Result {
	r := nod.Result{OK: l.Subtype == "success" && !l.IsError, Text: l.Result, Turns: l.Turns}
	if r.OK {
		return r
	}
	if r.Text == "" {
		r.Text = strings.Join(l.Errors, "\n")
	}
	r.Reason = l.reason(apiError)
	return r
}

func (l line) reason(apiError string) string {
	switch l.Subtype {
	case "error_max_turns":
		return agent.ReasonMaxTurns
	case "error_max_budget_usd":
		return agent.ReasonMaxBudget
	}
	switch apiError {
	case "authentication_failed", "oauth_org_not_allowed":
		return agent.ReasonAuthExpired
	case "billing_error", "rate_limit":
		return agent.ReasonQuotaExhausted
	}
	if l.APIStatus != nil {
		switch *l.APIStatus {
		case 401, 403:
			return agent.ReasonAuthExpired
		case 402, 429:
			return agent.ReasonQuotaExhausted
		}
		return agent.ReasonAPIError
	}
	switch l.TerminalReason {
	case "api_error":
		return agent.ReasonAPIError
	case "aborted_tools", "aborted_streaming":
		return agent.ReasonInterrupted
	}
	return agent.ReasonError
}

// text is a JSON string, or the JSON itself.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func now() time.Time { return time.Now().UTC() }
