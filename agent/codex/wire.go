package codex

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"nod"
)

// line is one line of the program: a request has a method and an id, a response an
// id, a notification a method. The ids of its requests are its own, and 0 is one.
type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// decode reads raw into v, leaving out a field that came with another type than
// expected: a release that changed it must not cost the rest of the line.
func decode(raw []byte, v any) bool {
	err := json.Unmarshal(raw, v)
	var mismatch *json.UnmarshalTypeError
	return err == nil || errors.As(err, &mismatch)
}

// hasID reports whether the line has an id.
func (l line) hasID() bool { return len(l.ID) > 0 && string(l.ID) != "null" }

// params are those of the notifications and requests this package looks into.
type params struct {
	Thread    string          `json:"threadId"`
	Turn      json.RawMessage `json:"turn"`
	TurnID    string          `json:"turnId"`
	ItemID    string          `json:"itemId"`
	Item      json.RawMessage `json:"item"`
	RequestID json.RawMessage `json:"requestId"`
	Changes   json.RawMessage `json:"changes"`
	Name      string          `json:"name"`
	Stdin     string          `json:"stdin"`

	// requestApproval
	Kind        string          `json:"kind"`
	Command     json.RawMessage `json:"command"`
	Cwd         json.RawMessage `json:"cwd"`
	Reason      *string         `json:"reason"`
	GrantRoot   json.RawMessage `json:"grantRoot"`
	Network     json.RawMessage `json:"networkApprovalContext"`
	Permissions json.RawMessage `json:"additionalPermissions"`
	Questions   []question      `json:"questions"`

	Error     *turnError `json:"error"`
	WillRetry bool       `json:"willRetry"`
	Usage     struct {
		Total tokens `json:"total"`
		Last  tokens `json:"last"`
	} `json:"tokenUsage"`
	Limits struct {
		Primary   *window `json:"primary"`
		Secondary *window `json:"secondary"`
	} `json:"rateLimits"`
}

type question struct {
	ID      string `json:"id"`
	Header  string `json:"header"`
	Text    string `json:"question"`
	Other   bool   `json:"isOther"`
	Secret  bool   `json:"isSecret"`
	Options []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

type tokens struct {
	Total  int64 `json:"totalTokens"`
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
}

// window is one of the times that a quota is counted over.
type window struct {
	Used     float64 `json:"usedPercent"`
	ResetsAt int64   `json:"resetsAt"` // seconds since 1970
}

type turn struct {
	ID     string            `json:"id"`
	Status string            `json:"status"`
	Error  *turnError        `json:"error"`
	Items  []json.RawMessage `json:"items"`
}

type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// item is one thing of a turn.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Text      string          `json:"text"`
	Command   json.RawMessage `json:"command"`
	Cwd       json.RawMessage `json:"cwd"`
	Output    *string         `json:"aggregatedOutput"`
	ExitCode  *int            `json:"exitCode"`
	Changes   json.RawMessage `json:"changes"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// thread is what thread/start and thread/resume answer.
type thread struct {
	Thread struct {
		ID      string `json:"id"`
		Version string `json:"cliVersion"`
	} `json:"thread"`
	Model     string    `json:"model"`
	Provider  string    `json:"modelProvider"`
	Cwd       string    `json:"cwd"`
	Sources   *[]string `json:"instructionSources"`
	Approvals string    `json:"approvalPolicy"`
	Reviewer  string    `json:"approvalsReviewer"`
	Sandbox   struct {
		Type string `json:"type"`
	} `json:"sandbox"`
}

// encode is the JSON of v and a newline.
func encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nod.E(nod.Internal, "a line for the agent has no JSON form", err)
	}
	return append(raw, '\n'), nil
}

// answer is the line that answers the request with that id.
func answer(id json.RawMessage, result any) ([]byte, error) {
	return encode(map[string]any{"id": id, "result": result})
}

// object is a JSON object of raw members, in the order given: what the program
// said is copied, never encoded again. An absent member is left out.
func object(members ...any) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for i := 0; i+1 < len(members); i += 2 {
		raw, _ := members[i+1].(json.RawMessage)
		if len(raw) == 0 {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		name, _ := members[i].(string)
		out.WriteString(quote(name) + ":")
		out.Write(raw)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// The tools as they are called in this project. A shell command has one name for
// every agent.
const (
	toolShell = "Bash"
	toolPatch = "ApplyPatch"
	toolWords = "AskUserQuestion"
)

// call is the tool that an item uses and its input, or false for an item that is
// no tool call.
func (i item) call(raw json.RawMessage) (tool string, input json.RawMessage, ok bool) {
	switch i.Type {
	case "commandExecution":
		return toolShell, object("command", i.Command, "cwd", i.Cwd), true
	case "fileChange":
		return toolPatch, files(i.Changes), true
	case "mcpToolCall":
		return "mcp__" + i.Server + "__" + i.Tool, object("arguments", i.Arguments), true
	case "userMessage", "agentMessage", "reasoning", "plan", "hookPrompt", "functionCallOutput", "enteredReviewMode", "exitedReviewMode",
		"contextCompaction", "subAgentActivity", "":
		return "", nil, false
	}
	return i.Type, raw, true
}

// files is the input of a patch: what happens to each file, by that and its path,
// so that a person can read it. Changes that hold more than this knows are left as
// they are; what is no list of changes is an empty object.
func files(changes json.RawMessage) json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(changes, &all) != nil || len(all) == 0 {
		return json.RawMessage("{}")
	}
	var members []any
	seen := map[string]bool{}
	for _, raw := range all {
		var c struct {
			Path *string `json:"path"`
			Kind *struct {
				Type string  `json:"type"`
				Move *string `json:"move_path"`
			} `json:"kind"`
			Diff *string `json:"diff"`
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if d.Decode(&c) != nil || c.Path == nil || c.Kind == nil || c.Diff == nil {
			return object("changes", changes)
		}
		name := c.Kind.Type + " " + *c.Path
		if c.Kind.Move != nil {
			name += " and move it to " + *c.Kind.Move
		}
		if seen[name] {
			return object("changes", changes)
		}
		seen[name] = true
		members = append(members, name, json.RawMessage(quote(*c.Diff)))
	}
	return object(members...)
}

// diffs are the changes of files in an item that is complete.
func diffs(changes json.RawMessage) []nod.Diff {
	var all []struct {
		Path string `json:"path"`
		Kind struct {
			Type string `json:"type"`
		} `json:"kind"`
		Diff string `json:"diff"`
	}
	if json.Unmarshal(changes, &all) != nil {
		return nil
	}
	var out []nod.Diff
	for _, c := range all {
		mark := map[string]string{"add": "+", "delete": "-"}[c.Kind.Type]
		if mark == "" { // hunks already
			out = append(out, nod.Diff{Path: c.Path, Text: c.Diff})
			continue
		}
		var text strings.Builder
		for line := range strings.Lines(c.Diff) {
			text.WriteString(mark + line)
		}
		out = append(out, nod.Diff{Path: c.Path, Text: text.String()})
	}
	return out
}

// unwrapped is the script in the shell command that the program makes of it:
// /bin/bash -c 'script'.
func unwrapped(command string) string {
	_, script, ok := strings.Cut(command, " -c ")
	if !ok {
		return command
	}
	return strings.ReplaceAll(strings.Trim(script, `'"`), `'\''`, "'")
}
