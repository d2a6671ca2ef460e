package anthropicmock

import (
	"encoding/json"
	"fmt"
	"net/http"

	"nod/agent/agenttest/modelserver"
)

// usage is what every message says it cost.
const inputTokens, outputTokens = 100, 20

type block struct {
	Type  string          `json:"type"`
	Text  *string         `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

func (s Step) blocks(n int) ([]block, string, error) {
	var out []block
	if s.Text != "" {
		out = append(out, block{Type: "text", Text: &s.Text})
	}
	stop := "end_turn"
	for i, t := range s.Tools {
		in, err := json.Marshal(t.Input)
		if err != nil {
			return nil, "", fmt.Errorf("marshal input of %s: %w", t.Name, err)
		}
		if t.ID == "" {
			t.ID = fmt.Sprintf("toolu_mock_%d_%d", n, i)
		}
		out, stop = append(out, block{Type: "tool_use", ID: t.ID, Name: t.Name, Input: in}), "tool_use"
	}
	return out, stop, nil
}

// answer plays one step.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, step Step, n int, model string, stream bool) {
	if step.Delay > 0 && !s.Sleep(r, step.Delay) {
		return
	}
	for k, v := range step.Header {
		w.Header().Set(k, v)
	}
	if step.Status != 0 {
		kind := step.Type
		if kind == "" {
			kind = "api_error"
		}
		fail(w, step.Status, kind, step.Message)
		return
	}
	blocks, stop, err := step.blocks(n)
	if err != nil {
		fail(w, http.StatusInternalServerError, "api_error", "mock: the step has no JSON form")
		return
	}
	message := map[string]any{"id": fmt.Sprintf("msg_mock_%d", n), "type": "message", "role": "assistant", "model": model,
		"content": blocks, "stop_reason": stop, "stop_sequence": nil, "usage": usage(outputTokens)}
	if !stream {
		modelserver.Reply(w, http.StatusOK, message)
		return
	}
	message["content"], message["stop_reason"], message["usage"] = []block{}, nil, usage(1)
	w.Header().Set("Request-Id", fmt.Sprintf("req_mock_%d", n))
	e := modelserver.NewEvents(w)
	e.Send("message_start", map[string]any{"message": message})
	for i, b := range blocks {
		start, delta := b, map[string]any{"type": "text_delta", "text": b.Text}
		if b.Type == "text" {
			empty := ""
			start.Text = &empty
		} else {
			start.Input = json.RawMessage("{}")
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(b.Input)}
		}
		e.Send("content_block_start", map[string]any{"index": i, "content_block": start})
		e.Send("content_block_delta", map[string]any{"index": i, "delta": delta})
		if i == 0 && step.Cut {
			modelserver.Drop()
		}
		if i == 0 && step.Hang {
			s.Sleep(r, -1)
			return
		}
		e.Send("content_block_stop", map[string]any{"index": i})
	}
	e.Send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
		"usage": map[string]int{"output_tokens": outputTokens}})
	e.Send("message_stop", map[string]any{})
}

func usage(out int) map[string]int {
	return map[string]int{"input_tokens": inputTokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": out}
}
