package codex

import (
	"bytes"
	"encoding/json"

	"nod"
)

const (
	accept  = "accept"
	decline = "decline"
)

// asked handles a request of the program. Whatever is not known is refused by an
// error, which it takes as a refusal.
func (s *session) asked(l line) {
	var p params
	if !decode(l.Params, &p) {
		p = params{}
	}
	id := l.ID
	switch l.Method {
	case "item/commandExecution/requestApproval":
		s.judge(id, p, toolShell, object("command", p.Command, "cwd", p.Cwd))
	case "item/fileChange/requestApproval":
		s.judge(id, p, toolPatch, nil)
	case "item/tool/requestUserInput":
		s.question(id, p, l.Params)
	case "item/permissions/requestApproval":
		s.reply(answer(id, map[string]any{"permissions": map[string]any{}, "scope": "turn"}))
	case "mcpServer/elicitation/request":
		s.reply(answer(id, map[string]any{"action": decline, "content": nil, "_meta": nil}))
	case "execCommandApproval", "applyPatchApproval":
		s.reply(answer(id, map[string]any{"decision": "denied"}))
	default:
		s.reply(encode(map[string]any{"id": id, "error": map[string]any{"code": -32601, "message": "this host does not support the request"}}))
	}
}

// judge puts a command or a change to the approver. What is shown is what the
// program said when the call began; a request that says otherwise, or asks for
// more than the call, is declined.
func (s *session) judge(id json.RawMessage, p params, tool string, input json.RawMessage) {
	s.mu.Lock()
	c := s.calls[p.ItemID]
	var why string
	switch {
	case s.ID() == "" || p.Thread != s.ID():
		why = "it is not of this session."
	case c == nil || c.tool != tool || tool == toolShell && !same(c.input, input):
		why = "the request does not say what would run."
	case p.Kind != "" && p.Kind != "command":
		why = "input to a running program cannot be judged; run a new command."
	case present(p.GrantRoot) || present(p.Network) || present(p.Permissions):
		why = "more is asked for than this one call."
	case tool == toolShell && !isText(p.Command) || tool == toolPatch && string(c.input) == "{}":
		why = "the request does not say what would run."
	case c.shown != nil:
		why = "the same call is asked about twice."
	}
	if why == "" {
		c.shown = c.input
		input = c.input
	}
	s.mu.Unlock()
	if why != "" {
		s.Withdraw(string(id))
		s.settle(id, p, nod.ApprovalAnswer{Reason: why})
		return
	}
	r := nod.ApprovalRequest{ID: string(id), CallID: p.ItemID, Tool: tool, Input: input}
	if p.Reason != nil {
		r.Reason = *p.Reason
	}
	s.Ask(r, p.TurnID, func(a nod.ApprovalAnswer) { s.settle(id, p, a) })
}

// settle answers a request for approval. An allow counts for the call that was
// shown, if it still is that one.
func (s *session) settle(id json.RawMessage, p params, a nod.ApprovalAnswer) {
	s.mu.Lock()
	c := s.calls[p.ItemID]
	if a.Allow && (c == nil || c.shown == nil || !bytes.Equal(c.shown, c.input)) {
		a = nod.ApprovalAnswer{Reason: "the call was changed after it was asked about."}
	}
	tool := "a tool"
	if c != nil {
		c.allowed, c.reason, tool = a.Allow, a.Reason, c.tool
	}
	s.mu.Unlock()
	if a.Allow {
		s.reply(answer(id, map[string]string{"decision": accept}))
		return
	}
	refused := func(json.RawMessage, *rpcError) { s.reply(answer(id, map[string]string{"decision": decline})) }
	if a.Reason == "" || p.Thread != s.ID() {
		refused(nil, nil)
		return
	}
	// The answer has no room for a reason: it goes before it, as a message to the
	// turn. Whether it was taken or not, the call is declined.
	s.ask("turn/steer", map[string]any{"threadId": p.Thread, "expectedTurnId": p.TurnID,
		"input": words("Your use of " + tool + " was denied: " + a.Reason)}, refused)
}

// question puts questions of the agent to the approver. An answer that is not
// given is none: the agent is told no words of its own.
func (s *session) question(id json.RawMessage, p params, raw json.RawMessage) {
	var shown struct {
		Questions json.RawMessage `json:"questions"`
	}
	if p.Thread != s.ID() || !decode(raw, &shown) || len(p.Questions) == 0 {
		s.reply(answer(id, map[string]any{"answers": map[string]any{}}))
		return
	}
	r := nod.ApprovalRequest{ID: string(id), CallID: p.ItemID, Kind: nod.RequestQuestion, Tool: toolWords, Input: object("questions", shown.Questions)}
	for _, q := range p.Questions {
		asked := nod.AgentQuestion{ID: q.ID, Header: q.Header, Text: q.Text, FreeText: q.Other || len(q.Options) == 0, Secret: q.Secret}
		for _, o := range q.Options {
			asked.Options = append(asked.Options, nod.AgentOption{Label: o.Label, Description: o.Description})
		}
		r.Questions = append(r.Questions, asked)
	}
	s.Ask(r, p.TurnID, func(a nod.ApprovalAnswer) {
		answers := map[string]any{}
		for _, q := range p.Questions {
			if words, ok := a.Answers[q.ID]; ok && a.Allow {
				answers[q.ID] = map[string]any{"answers": []string{words}}
			}
		}
		answered := func(json.RawMessage, *rpcError) { s.reply(answer(id, map[string]any{"answers": answers})) }
		if a.Allow || a.Reason == "" {
			answered(nil, nil)
			return
		}
		// The answer has no room for why there is none: it goes before it.
		s.ask("turn/steer", map[string]any{"threadId": p.Thread, "expectedTurnId": p.TurnID,
			"input": words("Your question was not answered: " + a.Reason)}, answered)
	})
}

// same compares two JSON values whatever their spacing.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func isText(raw json.RawMessage) bool {
	var s string
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil && s != ""
}
