package codex

import (
	"encoding/json"
	"log/slog"
	"testing"

	"nod"
	"nod/agent"
)

// FuzzExecLine holds of any line of `codex exec` that it never panics, and that every
// event is one that can be read again.
func FuzzExecLine(f *testing.F) {
	for _, seed := range []string{`{"type":"thread.started","thread_id":"` + threadID + `"}`, `{"type":"turn.started"}`,
		`{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -c 'go test'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`,
		`{"type":"item.completed","item":{"id":"item_3","type":"file_change","changes":[{"path":"/a","kind":"add"}],"status":"completed"}}`,
		`{"type":"turn.completed","usage":{"input_tokens":3000,"cached_input_tokens":1200,"output_tokens":-1}}`,
		`{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no"}}`, `{"type":"error","message":"Reconnecting... 1/1"}`, `{"item":7}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &execSession{cfg: config(nil), opened: make(chan struct{}), calls: map[string]item{}}
		s.Live = agent.NewLive("codex-exec", agent.Limits{}, slog.New(slog.DiscardHandler), yes, nil, s)
		s.Line([]byte(`{"type":"thread.started","thread_id":"` + threadID + `"}`))
		s.Line(raw)
		for {
			select {
			case e := <-s.Events():
				if !json.Valid(e.Data) {
					t.Fatalf("%s %s", e.Kind, e.Data)
				}
				continue
			default:
			}
			break
		}
		if r := s.State().Result; r.OK && r.Reason != "" {
			t.Errorf("%+v", r)
		}
	})
}

func TestWhatExecSaysOfAnErrorHasAReason(t *testing.T) {
	for said, want := range map[string]string{"unexpected status 401 Unauthorized: Incorrect API key": agent.ReasonAuthExpired, "You’ve hit your usage limit. Try again": agent.ReasonQuotaExhausted,
		"exceeded retry limit, last status: 429 Too Many Requests": agent.ReasonQuotaExhausted, "stream disconnected": agent.ReasonAPIError} {
		if got := worded(said); got != want {
			t.Errorf("%q is %s, wants %s", said, got, want)
		}
	}
}

func TestExecIsDegraded(t *testing.T) {
	a, err := NewExec(config(nil))
	if err != nil || a.Name() != "codex-exec" || a.Capabilities().Mode() != agent.Degraded {
		t.Fatalf("%+v, %v", a, err)
	}
	for name, spec := range map[string]nod.AgentSpec{"no prompt": {Approve: yes}, "no approver": {Prompt: "x"}, "flag as session": {Prompt: "x", Approve: yes, Session: "--last"}} {
		if _, err := a.Start(t.Context(), newFake(t), spec); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
