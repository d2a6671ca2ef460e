package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"nod"
	"nod/agent"
)

// FuzzLine holds of any line of the guest helper that it never panics, and that an
// answer to what it tells is one line of JSON with the very input that was asked
// about, or a denial.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{`{"n":0}`, `{"n":1,"gone":true}`, `{"n":1,"hook":{"hook_event_name":"Stop","session_id":"s"}}`,
		`{"n":1,"hook":{"hook_event_name":"PermissionRequest","session_id":"s","tool_name":"Bash","tool_input":{"command":"<&> \u2028"}}}`,
		`{"n":2,"hook":{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"a":1e400}}}`, `{"n":"x"}`, `{"n":3,"hook":7}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := &Channel{cfg: Config{}, ready: make(chan struct{}), waiting: map[string]use{}}
		asked := make(chan json.RawMessage, 1)
		c.Live = agent.NewLive("hooks", agent.Limits{}, slog.New(slog.DiscardHandler), func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			asked <- r.Input
			return nod.ApprovalAnswer{Allow: true}
		}, nil, c)
		c.Line([]byte(`{"n":0}`))
		var l line
		var told told
		asks := c.Line(raw) && json.Unmarshal(raw, &l) == nil && l.N > 0 && !l.Gone && json.Unmarshal(l.Hook, &told) == nil &&
			told.Event == "PermissionRequest" && told.Tool != "" && len(told.Input) > 0 && told.Input[0] == '{' &&
			told.Tool != "AskUserQuestion" && told.Tool != "ExitPlanMode"
		if !asks {
			return
		}
		input := <-asked
		if !json.Valid(input) || !bytes.Contains(raw, input) {
			t.Fatalf("asked about %q of %q", input, raw)
		}
		if out := decision(nod.ApprovalAnswer{Allow: true}, input); !json.Valid(out) || bytes.IndexByte(out, '\n') >= 0 {
			t.Fatalf("the answer is not one line of JSON: %q", out)
		}
	})
}
