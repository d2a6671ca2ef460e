package claude

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"nod"
)

// The ids of this package's own control requests.
const (
	initializeID = "nod-initialize"
	interruptID  = "nod-interrupt"
)

// encode is the JSON of v and a newline. v is always made of strings.
func encode(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nod.E(nod.Internal, "a line for the agent has no JSON form", err)
	}
	return append(raw, '\n'), nil
}

func controlRequest(id string, body map[string]any) ([]byte, error) {
	return encode(map[string]any{"type": "control_request", "request_id": id, "request": body})
}

func userMessage(uuid, text string) ([]byte, error) {
	return encode(map[string]any{"type": "user", "uuid": uuid, "parent_tool_use_id": nil,
		"message": map[string]any{"role": "user", "content": text}})
}

// allow answers a permission request. The input is copied byte by byte, never
// re-encoded: what runs is what this line says, and a person saw those bytes.
func allow(requestID string, input json.RawMessage) ([]byte, error) {
	id, err := json.Marshal(requestID)
	if err != nil {
		return nil, nod.E(nod.Internal, "a line for the agent has no JSON form", err)
	}
	out := make([]byte, 0, len(input)+len(id)+160)
	out = append(out, `{"type":"control_response","response":{"subtype":"success","request_id":`...)
	out = append(out, id...)
	out = append(out, `,"response":{"behavior":"allow","updatedInput":`...)
	out = append(out, input...)
	return append(out, "}}}\n"...), nil
}

func deny(requestID, why string) ([]byte, error) {
	if why == "" {
		why = "Denied. Do not try it again in another way; go on without it or end your turn and say what you need."
	}
	return encode(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": requestID,
		"response": map[string]any{"behavior": "deny", "message": why}}})
}

func unsupported(requestID string) ([]byte, error) {
	return encode(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": requestID,
		"error": "this host does not support the request"}})
}

// newUUID is a random (version 4) UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// allowAnswered answers questions: their input with the answers added.
func allowAnswered(requestID string, input json.RawMessage, answers map[string]string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(input, &members); err != nil {
		return nil, nod.E(nod.Invalid, "the agent's questions are no JSON object", err)
	}
	if answers == nil {
		answers = map[string]string{}
	}
	said, err := json.Marshal(answers)
	if err != nil {
		return nil, nod.E(nod.Internal, "a line for the agent has no JSON form", err)
	}
	members["answers"] = said
	whole, err := json.Marshal(members)
	if err != nil {
		return nil, nod.E(nod.Internal, "a line for the agent has no JSON form", err)
	}
	return allow(requestID, whole)
}
