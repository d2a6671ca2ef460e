//go:build linux

package codex_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest"
	"nod/agent/agenttest/conformance"
	"nod/agent/agenttest/openaimock"
	"nod/agent/agenttest/scenarios"
	"nod/agent/codex"
	"nod/runtime/runtimetest"
)

// These tests run the real program against a mock model on loopback, with an
// environment made from nothing and a home of its own.

const dummyKey = "sk-dummy-0000"

func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NOD_CODEX")
	if path == "" {
		runtimetest.Missing(t, "the Codex program (NOD_CODEX is its path)")
	}
	return path
}

type real struct {
	*openaimock.Server
	dir, home string
	env       map[string]string
}

func newReal(t *testing.T, steps []openaimock.Step, hosts ...string) real {
	t.Helper()
	program(t)
	mock, err := openaimock.New(steps, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	r := real{Server: mock, dir: t.TempDir(), home: t.TempDir()}
	r.env = map[string]string{"HOME": r.home, "TMPDIR": t.TempDir(), "OPENAI_API_KEY": dummyKey}
	return r
}

func (r real) adapter(t *testing.T, change func(*codex.Config)) *codex.Adapter {
	t.Helper()
	cfg := codex.Config{Argv: []string{program(t)}, Env: r.env, Workspace: r.dir, BaseURL: r.URL + "/v1", Retries: 1, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	a, err := codex.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// play runs one session to its end.
func (r real) play(t *testing.T, a *codex.Adapter, spec nod.AgentSpec) ([]nod.Event, nod.Result, error) {
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
		if testing.Verbose() {
			t.Logf("%s %.300s", e.Kind, e.Data)
		}
	}
	result, err := s.Wait()
	return events, result, err
}

func shell(command string) openaimock.Call {
	return openaimock.Call{Name: "exec_command", Args: map[string]any{"cmd": command}}
}

func step(calls ...openaimock.Call) openaimock.Step { return openaimock.Step{Calls: calls} }

// modelSteps is what the model says so that the agent does what plan says.
func modelSteps(plan agenttest.Script) []openaimock.Step {
	var out []openaimock.Step
	for _, part := range [][]agenttest.Step{plan.Steps, plan.Resume} {
		for _, s := range part {
			step := openaimock.Step{Text: s.Say}
			for _, b := range append(s.Together, s) {
				if b.Bash != "" {
					step.Calls = append(step.Calls, shell(b.Bash))
				}
			}
			out = append(out, step)
		}
	}
	return out
}

func (r real) heard(text string) bool {
	return slices.ContainsFunc(r.Requests(), func(q openaimock.Request) bool { return bytes.Contains(q.Body, []byte(text)) })
}

func TestCodexConforms(t *testing.T) {
	conformance.Run(t, func(t *testing.T, plan agenttest.Script) conformance.Subject {
		r := newReal(t, modelSteps(plan))
		return conformance.Subject{Adapter: r.adapter(t, nil), Executor: agenttest.Host{Dir: r.dir}, Dir: r.dir,
			Heard: func(_ []nod.Event, text string) bool { return r.heard(text) },
			Asks: func(t *testing.T) conformance.Subject {
				r := newReal(t, boxSteps([]scenarios.Step{{Question: true}, {Say: "Thank you."}}))
				return conformance.Subject{Adapter: r.adapter(t, nil), Executor: agenttest.Host{Dir: r.dir}, Dir: r.dir, Heard: func(_ []nod.Event, text string) bool { return r.heard(text) }}
			}}
	})
}

// TestCodexExecConforms: the mode that asks nobody proves what it says of itself.
func TestCodexExecConforms(t *testing.T) {
	conformance.Run(t, func(t *testing.T, plan agenttest.Script) conformance.Subject {
		r := newReal(t, modelSteps(plan))
		a, err := codex.NewExec(codex.Config{Argv: []string{program(t)}, Env: r.env, Workspace: r.dir, BaseURL: r.URL + "/v1", Retries: 1, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return conformance.Subject{Adapter: a, Executor: agenttest.Host{Dir: r.dir}, Dir: r.dir,
			Heard: func(_ []nod.Event, text string) bool { return r.heard(text) }}
	})
}

func allowAll(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
	return nod.ApprovalAnswer{Allow: true}
}
