//go:build linux

package codex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest"
	"nod/agent/agenttest/openaimock"
	"nod/agent/codex"
)

// start starts a session that is allowed everything; it is stopped at the end.
func (r real) start(t *testing.T, spec nod.AgentSpec) nod.AgentSession {
	t.Helper()
	spec.Prompt = "Go."
	if spec.Approve == nil {
		spec.Approve = allowAll
	}
	s, err := r.adapter(t, nil).Start(t.Context(), agenttest.Host{Dir: r.dir}, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestInputToARunningCommandDoesNotEscapeTheApprover(t *testing.T) {
	id := regexp.MustCompile(`session ID (\d+)`)
	r := newReal(t, []openaimock.Step{
		step(openaimock.Call{Name: "exec_command", Args: map[string]any{"cmd": `read -r x; printf "%s" "$x" > got.txt; exec tail -f /dev/null`, "yield_time_ms": 250}}),
		{Then: func(body []byte) openaimock.Step {
			m := id.FindSubmatch(body)
			if m == nil {
				return openaimock.Step{Text: "no session"}
			}
			return step(openaimock.Call{Name: "write_stdin", Args: map[string]any{"session_id": json.Number(m[1]), "chars": "evil\n"}})
		}}, {Text: "done"}})
	s := r.start(t, nod.AgentSpec{})
	for e := range s.Events() {
		if e.Kind == nod.EventResult {
			go func() {
				if err := s.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	if got := read(t, filepath.Join(r.dir, "got.txt")); got != "" {
		t.Errorf("the command was told %q", got)
	}
	if all := r.Requests(); !bytes.Contains(all[len(all)-1].Body, []byte("stdin is closed")) {
		t.Errorf("the model was told %s", all[len(all)-1].Body)
	}
}

func TestAnOlderCodexIsRefused(t *testing.T) {
	r := newReal(t, nil)
	a := r.adapter(t, func(c *codex.Config) { c.MinVersion = "99.0.0" })
	_, err := a.Start(t.Context(), agenttest.Host{Dir: r.dir}, nod.AgentSpec{Prompt: "Go.", Approve: allowAll})
	if nod.CodeOf(err) != nod.Unsupported || !strings.Contains(err.Error(), "older than 99.0.0") {
		t.Errorf("%v", err)
	}
	if n := len(r.Requests()); n > 0 {
		t.Errorf("%d requests reached the model", n)
	}
}
