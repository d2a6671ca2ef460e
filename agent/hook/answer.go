package hook

import (
	"bytes"
	"encoding/json"
	"strings"

	"nod"
)

// decision is the answer of a PermissionRequest hook. On an allow the input is the
// one that was shown; permissions are never widened.
func decision(a nod.ApprovalAnswer, input json.RawMessage) json.RawMessage {
	verdict := map[string]any{"behavior": "deny", "message": "Denied: " + a.Reason}
	if a.Allow {
		verdict = map[string]any{"behavior": "allow", "updatedInput": input}
	}
	raw, err := encode(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "PermissionRequest", "decision": verdict}})
	if err != nil {
		return nil // no answer: it is asked at the terminal
	}
	return raw
}

// canonical is input with its members in order and without spacing, so that the
// same use is the same bytes; input itself when it is no JSON.
func canonical(input json.RawMessage) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return input
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return input
	}
	return raw
}

// quote makes one word of a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// encode is the JSON of v, whose raw parts stay as they are.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
