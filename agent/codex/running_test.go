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
	"nod/agent"
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAFinishedTurnWaitsForItsBackgroundCommand(t *testing.T) {
	background := openaimock.Call{Name: "exec_command", Args: map[string]any{"cmd": "mkfifo go.fifo; head -c 1 go.fifo > /dev/null; printf ok > background.txt", "yield_time_ms": 250}}
	r := newReal(t, []openaimock.Step{step(background), {Text: "started"}})
	s := r.start(t, nod.AgentSpec{})
	over := false
	for e := range s.Events() {
		if e.Kind == nod.EventResult {
			over = true
			write(t, filepath.Join(r.dir, "go.fifo"), "x") // only now may the command end
		} else if e.Kind == nod.EventToolResult && !over {
			t.Errorf("it ended before its turn: %s", e.Data)
		}
	}
	if result, err := s.Wait(); err != nil || !result.OK || result.Text != "started" {
		t.Errorf("%+v, %v", result, err)
	}
	if read(t, filepath.Join(r.dir, "background.txt")) != "ok" {
		t.Error("it was not waited for")
	}
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

func TestStopWhileTheModelHangsIsPrompt(t *testing.T) {
	r := newReal(t, []openaimock.Step{{Text: "thinking", Hang: true}})
	s := r.start(t, nod.AgentSpec{})
	go func() {
		for range s.Events() {
		}
	}()
	began := time.Now()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result, err := s.Wait(); err != nil || result.OK || result.Reason != agent.ReasonInterrupted {
		t.Errorf("%+v, %v", result, err)
	}
	t.Logf("stopped in %v", time.Since(began))
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

// A kill leaves the prompt without an answer; the next process must not take one.
func TestASessionResumesAfterItsProcessWasKilledWithAPromptPending(t *testing.T) {
	r := newReal(t, []openaimock.Step{step(shell("printf 1 > first.txt")), step(shell("printf 2 > second.txt")), {Text: "done"}})
	killed := make(chan struct{})
	host := &held{Host: agenttest.Host{Dir: r.dir}}
	s, err := r.adapter(t, nil).Start(t.Context(), host, nod.AgentSpec{Prompt: "Go.", Approve: func(ctx context.Context, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		if err := host.last.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		close(killed)
		return nod.ApprovalAnswer{Allow: true}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range s.Events() {
	}
	<-killed
	if result, err := s.Wait(); err == nil || result.Reason != agent.ReasonNoResult {
		t.Errorf("%+v, %v", result, err)
	}
	var a asked
	_, result, err := r.play(t, r.adapter(t, nil), nod.AgentSpec{Session: s.ID(), Approve: a.approve})
	if err != nil || !result.OK || len(a.all) != 1 {
		t.Errorf("%+v, %v, asked %d times", result, err, len(a.all))
	}
	if read(t, filepath.Join(r.dir, "first.txt")) != "" || read(t, filepath.Join(r.dir, "second.txt")) != "2" {
		t.Error("the command of the dead prompt ran, or the next one did not")
	}
}

// held keeps the process that started last.
type held struct {
	agenttest.Host
	last nod.Process
}

func (h *held) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	p, err := h.Host.Exec(ctx, c)
	h.last = p
	return p, err
}
