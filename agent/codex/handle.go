package codex

import (
	"encoding/json"
	"strconv"
	"time"

	"nod"
	"nod/agent"
)

// ignored are notifications of which nothing is used; the program is told not to
// send them.
func ignored() []string {
	return []string{"item/agentMessage/delta", "item/plan/delta", "item/commandExecution/outputDelta", "item/fileChange/outputDelta",
		"item/reasoning/summaryTextDelta", "item/reasoning/summaryPartAdded", "item/reasoning/textDelta", "turn/diff/updated",
		"thread/status/changed", "remoteControl/status/changed"}
}

// Line handles one line of the program.
func (s *session) Line(raw []byte) bool {
	var l line
	if !decode(raw, &l) {
		return false
	}
	switch {
	case l.Method == "" && l.hasID():
		s.answered(l)
	case l.Method != "" && l.hasID():
		s.asked(l)
	case l.Method != "":
		s.noted(l)
	}
	return true
}

// answered handles the answer to a request of ours.
func (s *session) answered(l line) {
	n, err := strconv.ParseInt(string(l.ID), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	then := s.pending[n]
	delete(s.pending, n)
	s.mu.Unlock()
	if then != nil {
		then(l.Result, l.Error)
	}
}

// noted handles a notification.
func (s *session) noted(l line) {
	var p params
	switch l.Method {
	case "thread/started":
		var t thread
		if decode(l.Params, &t) {
			s.foreign(t.Thread.ID)
		}
		return
	case "account/rateLimits/updated":
		if decode(l.Params, &p) {
			s.counts(p)
		}
		return
	case "mcpServer/startupStatus/updated":
		s.Fail(refuse("starts an MCP server that was not configured"))
		return
	case "turn/started", "turn/completed", "item/started", "item/completed", "item/fileChange/patchUpdated", "thread/tokenUsage/updated",
		"error", "serverRequest/resolved", "hook/started":
	default:
		return
	}
	if !decode(l.Params, &p) || s.ID() == "" || p.Thread != s.ID() {
		return // of a thread that is told to be none of ours when it starts
	}
	switch l.Method {
	case "turn/started":
		var t turn
		if decode(p.Turn, &t) {
			s.began(t.ID, true)
		}
	case "turn/completed":
		var t turn
		if decode(p.Turn, &t) {
			s.finished(t)
		}
	case "item/started":
		s.begins(p.Item)
	case "item/completed":
		s.ends(p.Item)
	case "item/fileChange/patchUpdated":
		s.changes(p.ItemID, files(p.Changes))
	case "thread/tokenUsage/updated":
		s.spends(p)
	case "serverRequest/resolved":
		s.Withdraw(string(p.RequestID))
	case "hook/started":
		s.Fail(refuse("runs a hook that was not configured"))
	case "error":
		if p.Error != nil {
			s.Emit(nod.EventAgentError, nod.AgentError{Text: p.Error.text()})
		}
	}
}

// foreign ends the session when the program opens a thread that nobody asked for:
// what happens there would not be told.
func (s *session) foreign(id string) {
	if ours := s.ID(); ours != "" && id != ours {
		s.Fail(refuse("opened a thread of its own"))
	}
}

func (e *turnError) text() string {
	if e.Details != "" {
		return e.Message + ": " + e.Details
	}
	return e.Message
}

// begins handles an item that starts.
func (s *session) begins(raw json.RawMessage) {
	var i item
	if !decode(raw, &i) {
		return
	}
	tool, input, ok := i.call(raw)
	if !ok || i.ID == "" {
		return
	}
	s.mu.Lock()
	_, twice := s.calls[i.ID]
	if !twice {
		s.calls[i.ID] = &call{tool: tool, input: input}
	}
	s.mu.Unlock()
	if twice {
		s.changes(i.ID, input)
		return
	}
	s.Emit(nod.EventToolCall, nod.ToolCall{ID: i.ID, Tool: tool, Input: input})
}

// changes notes that an open call is another one than before. Whoever was asked
// about it saw something else: settle refuses it.
func (s *session) changes(id string, input json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[id]; c != nil {
		c.input = input
	}
}

// ends handles an item that is complete.
func (s *session) ends(raw json.RawMessage) {
	var i item
	if !decode(raw, &i) {
		return
	}
	if i.Type == "agentMessage" && i.Text != "" {
		s.said = i.Text
		s.Emit(nod.EventMessage, nod.Message{Text: i.Text})
		return
	}
	tool, input, ok := i.call(raw)
	if !ok || i.ID == "" {
		return
	}
	s.mu.Lock()
	c := s.calls[i.ID]
	delete(s.calls, i.ID)
	left := len(s.calls)
	s.mu.Unlock()
	if c == nil {
		if !i.ran(tool) {
			return // it was closed when its turn ended
		}
		c = &call{}
	}
	r := i.result(c)
	s.Emit(nod.EventToolResult, r)
	s.tells(i, c, r)
	if i.ran(tool) && !(c.allowed && same(c.shown, input)) {
		s.Fail(refuse("did something that nobody allowed"))
	}
	s.Change(func(st *agent.State) {
		if st.Idle && st.Background != left {
			st.Background, st.Since = left, now()
		}
	})
}

// tells what a call that has ended did.
func (s *session) tells(i item, c *call, r nod.ToolResult) {
	if !i.ran(c.tool) {
		return
	}
	if i.Type == "fileChange" {
		for _, d := range diffs(i.Changes) {
			s.Emit(nod.EventDiff, agent.NewDiff(i.ID, d.Path, d.Text))
		}
		return
	}
	var in struct {
		Command string `json:"command"`
	}
	if !decode(c.input, &in) {
		return
	}
	if command := unwrapped(in.Command); agent.RunsTests(command) {
		s.Emit(nod.EventTestResult, nod.TestResult{CallID: i.ID, Command: command, OK: !r.IsError})
	}
}

// counts notes when a quota that is used up is there again.
func (s *session) counts(p params) {
	for _, w := range []*window{p.Limits.Primary, p.Limits.Secondary} {
		if w != nil && w.Used >= 100 && w.ResetsAt > 0 {
			if at := time.Unix(w.ResetsAt, 0).UTC(); at.After(s.resets) {
				s.resets = at
			}
		}
	}
}

// ran reports whether a command or a change, complete as i says, had an effect.
func (i item) ran(tool string) bool {
	if tool != toolShell && tool != toolPatch {
		return false
	}
	return i.Status == "completed" || i.ExitCode != nil && *i.ExitCode >= 0
}

func (i item) result(c *call) nod.ToolResult {
	r := nod.ToolResult{ID: i.ID, IsError: i.Status != "completed" && i.Status != "" || i.ExitCode != nil && *i.ExitCode != 0}
	if i.Output != nil {
		r.Text = *i.Output
	}
	if r.Text != "" || !r.IsError {
		return r
	}
	switch {
	case i.Status == "declined" && c.reason != "":
		r.Text = "Denied: " + c.reason
	case i.ExitCode != nil:
		r.Text = "exit code " + strconv.Itoa(*i.ExitCode)
	default:
		r.Text = i.Status
	}
	return r
}

// spends adds one call of the model. The same total again is the same call.
func (s *session) spends(p params) {
	if p.Usage.Total == s.used {
		return
	}
	s.used = p.Usage.Total
	s.mu.Lock()
	current := s.turn
	s.mu.Unlock()
	if p.TurnID != current {
		return
	}
	s.models++
	s.spent.Input = agent.AddTokens(s.spent.Input, p.Usage.Last.Input)
	s.spent.Output = agent.AddTokens(s.spent.Output, p.Usage.Last.Output)
}
