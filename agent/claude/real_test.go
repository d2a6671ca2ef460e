//go:build linux

package claude_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/agent"
	"nod/agent/agenttest"
	"nod/agent/agenttest/anthropicmock"
	"nod/agent/agenttest/conformance"
	"nod/agent/agenttest/scenarios"
	"nod/agent/claude"
	"nod/runtime/runtimetest"
)

// These tests run the real program against a mock model on loopback, with an
// environment made from nothing and a home of its own.

const dummyKey = "sk-ant-dummy-0000"

func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NOD_CLAUDE")
	if path == "" {
		runtimetest.Missing(t, "the Claude Code program (NOD_CLAUDE is its path)")
	}
	return path
}

type real struct {
	*anthropicmock.Server
	dir, home string
	env       map[string]string
}

func newReal(t *testing.T, steps []anthropicmock.Step, hosts ...string) real {
	t.Helper()
	program(t)
	mock, err := anthropicmock.New(steps, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	r := real{Server: mock, dir: t.TempDir(), home: t.TempDir()}
	r.env = map[string]string{"HOME": r.home, "TMPDIR": t.TempDir(), "ANTHROPIC_API_KEY": dummyKey, "ANTHROPIC_BASE_URL": mock.URL,
		"CLAUDE_CODE_MAX_RETRIES": "1"}
	return r
}

func (r real) adapter(t *testing.T, change func(*claude.Config)) *claude.Adapter {
	t.Helper()
	cfg := claude.Config{Argv: []string{program(t)}, Env: r.env, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	a, err := claude.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// play runs one session to its end.
func (r real) play(t *testing.T, a *claude.Adapter, spec nod.AgentSpec) ([]nod.Event, nod.Result, error) {
	t.Helper()
	if spec.Prompt == "" {
		spec.Prompt = "Please do it."
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := a.Start(ctx, agenttest.Host{Dir: r.dir}, spec)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	stop := context.AfterFunc(ctx, func() { t.Errorf("stop after five minutes: %v", s.Stop(ctx)) })
	defer stop()
	var events []nod.Event
	for e := range s.Events() {
		events = append(events, e)
	}
	result, err := s.Wait()
	return events, result, err
}

func call(tool string, input map[string]any) anthropicmock.Step {
	return anthropicmock.Step{Tools: []anthropicmock.Tool{{Name: tool, Input: input}}}
}

func shell(command string) map[string]any {
	return map[string]any{"command": command, "description": "mock"}
}

// modelSteps is what the model says so that the agent does what plan says.
func modelSteps(plan agenttest.Script) []anthropicmock.Step {
	var out []anthropicmock.Step
	for _, part := range [][]agenttest.Step{plan.Steps, plan.Resume} {
		for _, s := range part {
			step := anthropicmock.Step{Text: s.Say}
			for _, b := range append(s.Together, s) {
				if b.Bash != "" {
					step.Tools = append(step.Tools, anthropicmock.Tool{Name: "Bash", Input: shell(b.Bash)})
				}
			}
			out = append(out, step)
		}
	}
	return out
}

func TestClaudeConforms(t *testing.T) {
	conformance.Run(t, func(t *testing.T, plan agenttest.Script) conformance.Subject {
		r := newReal(t, modelSteps(plan))
		return conformance.Subject{Adapter: r.adapter(t, nil), Executor: agenttest.Host{Dir: r.dir}, Dir: r.dir,
			Heard: func(_ []nod.Event, text string) bool {
				return slices.ContainsFunc(r.Requests(), func(q anthropicmock.Request) bool { return bytes.Contains(q.Body, []byte(text)) })
			},
			Asks: func(t *testing.T) conformance.Subject {
				r := newReal(t, boxSteps([]scenarios.Step{{Question: true}, {Say: "Thank you."}}))
				return conformance.Subject{Adapter: r.adapter(t, nil), Executor: agenttest.Host{Dir: r.dir}, Dir: r.dir,
					Heard: func(_ []nod.Event, text string) bool {
						return slices.ContainsFunc(r.Requests(), func(q anthropicmock.Request) bool { return bytes.Contains(q.Body, []byte(text)) })
					}}
			}}
	})
}

func allowAll(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
	return nod.ApprovalAnswer{Allow: true}
}

func TestClaudeOffersTheModelOnlyTheConfiguredTools(t *testing.T) {
	r := newReal(t, []anthropicmock.Step{{Text: "done"}})
	if _, result, err := r.play(t, r.adapter(t, nil), nod.AgentSpec{Approve: allowAll}); err != nil || !result.OK {
		t.Errorf("%+v, %v", result, err)
	}
	for _, q := range r.Requests() {
		if !q.Main {
			continue
		}
		var body struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(q.Body, &body); err != nil {
			t.Fatal(err)
		}
		for _, tool := range body.Tools {
			if !slices.Contains(append(claude.DefaultTools(), "Agent", "TaskStop", "TaskOutput", "DeferredToolPlaceholder"), tool.Name) {
				t.Errorf("the model is offered %s", tool.Name)
			}
		}
	}
}

func TestARefusedKeyOrAnEmptyPurseIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		step anthropicmock.Step
		want string
	}{
		"403":     {anthropicmock.Step{Status: 403, Type: "permission_error", Message: "no", Sticky: true}, agent.ReasonAuthExpired},
		"balance": {anthropicmock.Step{Status: 400, Type: "invalid_request_error", Message: "Your credit balance is too low to access the Anthropic API.", Sticky: true}, agent.ReasonQuotaExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t, []anthropicmock.Step{c.step})
			events, result, err := r.play(t, r.adapter(t, nil), nod.AgentSpec{Approve: allowAll})
			if err != nil || result.OK || result.Reason != c.want {
				t.Errorf("%+v, %v, wants %s", result, err, c.want)
			}
			if !slices.ContainsFunc(events, func(e nod.Event) bool { return e.Kind == nod.EventAgentError }) {
				t.Error("no event tells of it")
			}
		})
	}
}

func TestAnOlderClaudeIsRefused(t *testing.T) {
	r := newReal(t, nil)
	a := r.adapter(t, func(c *claude.Config) { c.MinVersion = "99.0.0" })
	_, err := a.Start(t.Context(), agenttest.Host{Dir: r.dir}, nod.AgentSpec{Prompt: "Go.", Approve: allowAll})
	if nod.CodeOf(err) != nod.Unsupported || !strings.Contains(err.Error(), "older than 99.0.0") {
		t.Errorf("%v", err)
	}
	if n := r.MainRequests(); n > 1 {
		t.Errorf("%d requests reached the model", n)
	}
}
