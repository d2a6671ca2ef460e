package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"nod"
	"nod/agent"
)

// line is one line from the program, as far as this package cares. Its key order
// is free and its set of types grows: what is not here is ignored.
type line struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Request   *request        `json:"request"`
	Response  *response       `json:"response"`
	Message   *message        `json:"message"`
	Replay    bool            `json:"isReplay"`
	Tasks     json.RawMessage `json:"tasks"`

	// user
	ToolResult json.RawMessage `json:"tool_use_result"` // by the tool; text for an error

	// rate_limit_event
	RateLimit *rateLimit `json:"rate_limit_info"`

	// command_lifecycle
	CommandUUID string `json:"command_uuid"`
	State       string `json:"state"`

	// system/init
	Session       string             `json:"session_id"`
	Version       string             `json:"claude_code_version"`
	Model         string             `json:"model"`
	Mode          string             `json:"permissionMode"`
	Tools         *[]string          `json:"tools"`
	MCPServers    *[]json.RawMessage `json:"mcp_servers"`
	SlashCommands *[]json.RawMessage `json:"slash_commands"`
	Skills        *[]json.RawMessage `json:"skills"`
	Plugins       []plugin           `json:"plugins"`

	// system/api_retry, and assistant lines that stand for an API error
	Error       json.RawMessage `json:"error"`
	ErrorStatus int             `json:"error_status"`
	Attempt     int             `json:"attempt"`
	MaxRetries  int             `json:"max_retries"`

	// system/permission_denied
	ToolName string `json:"tool_name"`

	// result
	IsError        bool                  `json:"is_error"`
	Result         string                `json:"result"`
	Errors         []string              `json:"errors"`
	Turns          int                   `json:"num_turns"`
	Cost           json.RawMessage       `json:"total_cost_usd"`
	Origin         *struct{}             `json:"origin"` // set when no message of ours began the turn
	Usage          usage                 `json:"usage"`
	SinceLast      map[string]modelUsage `json:"model_usage_since_last_result"`
	TerminalReason string                `json:"terminal_reason"`
	APIStatus      *int                  `json:"api_error_status"`
	Message1       string                `json:"user_message_uuid"`
	Messages       []string              `json:"user_message_uuids"`
}

type rateLimit struct {
	Status   string `json:"status"`
	ResetsAt int64  `json:"resetsAt"` // seconds since 1970
}

// changed is what the tools say that change a file.
type changed struct {
	Type    string  `json:"type"` // "create" of a file that was not there
	Path    string  `json:"filePath"`
	Content *string `json:"content"`
	Patch   []struct {
		OldStart int      `json:"oldStart"`
		OldLines int      `json:"oldLines"`
		NewStart int      `json:"newStart"`
		NewLines int      `json:"newLines"`
		Lines    []string `json:"lines"`
	} `json:"structuredPatch"`
}

type plugin struct {
	Path string `json:"path"`
}

// request is a control request: can_use_tool is the only one that is granted
// anything.
type request struct {
	Subtype         string          `json:"subtype"`
	Tool            string          `json:"tool_name"`
	Input           json.RawMessage `json:"input"`
	CallID          string          `json:"tool_use_id"`
	AgentID         string          `json:"agent_id"`
	Reason          string          `json:"decision_reason"`
	UserInteraction bool            `json:"requires_user_interaction"`
}

type response struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Error     string `json:"error"`
	Response  struct {
		Version string `json:"claude_code_version"`
		Mode    string `json:"current_permission_mode"`
	} `json:"response"`
}

type message struct {
	Content json.RawMessage `json:"content"` // text, or blocks
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

type usage struct {
	Input         int64 `json:"input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
	Output        int64 `json:"output_tokens"`
}

type modelUsage struct {
	Input         int64 `json:"inputTokens"`
	CacheCreation int64 `json:"cacheCreationInputTokens"`
	CacheRead     int64 `json:"cacheReadInputTokens"`
	Output        int64 `json:"outputTokens"`
}

// parse returns the line in raw, or ok false when raw is not a JSON object. A
// field that came with another type than expected is left empty: a release that
// changed it must not cost the rest of the line.
func parse(raw []byte) (l line, ok bool) {
	err := json.Unmarshal(raw, &l)
	var mismatch *json.UnmarshalTypeError
	return l, err == nil || errors.As(err, &mismatch)
}

// blocks returns the content blocks of m; plain text is one text block.
func (m *message) blocks() []block {
	if m == nil || len(m.Content) == 0 {
		return nil
	}
	if m.Content[0] == '"' {
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			return nil
		}
		return []block{{Type: "text", Text: text}}
	}
	var out []block
	if json.Unmarshal(m.Content, &out) != nil {
		return nil
	}
	return out
}

// text is the text of a tool result: its text blocks joined, other blocks named.
func (b block) text() string {
	var parts []string
	for _, c := range (&message{Content: b.Content}).blocks() {
		if c.Type == "text" {
			parts = append(parts, c.Text)
		} else {
			parts = append(parts, "["+c.Type+"]")
		}
	}
	return strings.Join(parts, "\n")
}

// cost is what the turn took. Tokens are the turn's, with what went through the
// cache; the price is the session's so far.
func (l line) cost() nod.Usage {
	var u nod.Usage
	var usd *float64
	if len(l.Cost) > 0 && json.Unmarshal(l.Cost, &usd) == nil {
		u.CostUSD = agent.Price(usd)
	}
	if l.SinceLast == nil {
		u.InputTokens, u.OutputTokens = agent.AddTokens(0, l.Usage.Input, l.Usage.CacheCreation, l.Usage.CacheRead), agent.AddTokens(0, l.Usage.Output)
		return u
	}
	for _, m := range l.SinceLast {
		u.InputTokens = agent.AddTokens(u.InputTokens, m.Input, m.CacheCreation, m.CacheRead)
		u.OutputTokens = agent.AddTokens(u.OutputTokens, m.Output)
	}
	return u
}

// diff is the change of a file that a tool tells of, or false.
func (l line) diff() (path, text string, ok bool) {
	var c changed
	if len(l.ToolResult) == 0 || l.ToolResult[0] != '{' || json.Unmarshal(l.ToolResult, &c) != nil || c.Path == "" {
		return "", "", false
	}
	var out strings.Builder
	for _, h := range c.Patch {
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			out.WriteString(line + "\n")
		}
	}
	if c.Type == "create" && c.Content != nil && *c.Content != "" {
		lines := strings.SplitAfter(strings.TrimSuffix(*c.Content, "\n"), "\n")
		fmt.Fprintf(&out, "@@ -0,0 +1,%d @@\n", len(lines))
		for _, line := range lines {
			out.WriteString("+" + line)
		}
		out.WriteString("\n")
	}
	return c.Path, out.String(), out.Len() > 0
}
