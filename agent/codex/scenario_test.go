//go:build linux

package codex_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod"
	"nod/agent"
	"nod/agent/agenttest/openaimock"
)

func patch(lines ...string) openaimock.Call {
	return openaimock.Call{Name: "apply_patch", Input: "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"}
}

func results(t *testing.T, events []nod.Event) []nod.ToolResult {
	t.Helper()
	var out []nod.ToolResult
	for _, e := range events {
		var r nod.ToolResult
		if e.Kind != nod.EventToolResult {
			continue
		}
		if err := json.Unmarshal(e.Data, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(raw)
}

func TestAPatchIsShownBeforeItIsApplied(t *testing.T) {
	r := newReal(t, []openaimock.Step{
		step(patch("*** Add File: new.txt", "+hello", "+wörld")),
		step(patch("*** Update File: old.txt", "@@", " one", "-two", "+2", "*** Delete File: gone.txt")),
		step(patch("*** Add File: no.txt", "+no")), {Text: "done"}})
	write(t, filepath.Join(r.dir, "old.txt"), "one\ntwo\nthree\n")
	write(t, filepath.Join(r.dir, "gone.txt"), "bye\n")
	var shown []string
	events, result, err := r.play(t, r.adapter(t, nil), nod.AgentSpec{Approve: func(_ context.Context, q nod.ApprovalRequest) nod.ApprovalAnswer {
		shown = append(shown, string(q.Input))
		if n := len(shown); n == 1 && read(t, filepath.Join(r.dir, "new.txt")) != "" || n == 2 && read(t, filepath.Join(r.dir, "old.txt")) != "one\ntwo\nthree\n" {
			t.Error("it was applied before the answer")
		}
		return nod.ApprovalAnswer{Allow: q.Tool == "ApplyPatch" && !strings.Contains(string(q.Input), "no.txt"), Reason: "not that one"}
	}})
	if err != nil || !result.OK {
		t.Errorf("%+v, %v", result, err)
	}
	if len(shown) != 3 || !strings.Contains(shown[0], `hello\nwörld\n`) || !strings.Contains(shown[1], `-two\n+2\n`) || !strings.Contains(shown[1], "bye") {
		t.Errorf("shown %q", shown)
	}
	for name, want := range map[string]string{"new.txt": "hello\nwörld\n", "old.txt": "one\n2\nthree\n", "gone.txt": "", "no.txt": ""} {
		if got := read(t, filepath.Join(r.dir, name)); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got := results(t, events); len(got) != 3 || got[0].IsError || got[1].IsError || !strings.Contains(got[2].Text, "not that one") {
		t.Errorf("%+v", got)
	}
}

func TestCodexOffersTheModelOnlyToolsThatAreAskedAbout(t *testing.T) {
	r := newReal(t, []openaimock.Step{{Text: "done"}})
	if _, result, err := r.play(t, r.adapter(t, nil), nod.AgentSpec{Approve: allowAll}); err != nil || !result.OK {
		t.Errorf("%+v, %v", result, err)
	}
	for _, q := range r.Requests() {
		var body struct{ Tools []struct{ Type, Name string } }
		if err := json.Unmarshal(q.Body, &body); err != nil {
			t.Fatal(err)
		}
		for _, tool := range body.Tools {
			if !slices.Contains([]string{"exec_command", "write_stdin", "request_user_input", "apply_patch", "update_plan"}, tool.Name) {
				t.Errorf("the model is offered %s %s", tool.Type, tool.Name)
			}
		}
	}
}

func TestARefusedKeyOrAnEmptyPurseIsNamed(t *testing.T) {
	failed := func(status int, kind, code string) openaimock.Step {
		return openaimock.Step{Status: status, Error: openaimock.Error{Type: kind, Code: code, Message: "no: " + kind}, Sticky: true}
	}
	for name, c := range map[string]struct {
		step openaimock.Step
		want string
	}{
		"403":                {failed(403, "permission_error", ""), agent.ReasonAuthExpired},
		"429":                {failed(429, "rate_limit_error", "rate_limit_exceeded"), agent.ReasonQuotaExhausted},
		"insufficient quota": {openaimock.Step{Error: openaimock.Error{Code: "insufficient_quota", Message: "none left"}, Sticky: true}, agent.ReasonQuotaExhausted},
		"500":                {failed(500, "server_error", ""), agent.ReasonAPIError},
		"stream cut":         {openaimock.Step{Text: "half", Cut: true, Sticky: true}, agent.ReasonAPIError},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t, []openaimock.Step{c.step})
			events, result, err := r.play(t, r.adapter(t, nil), nod.AgentSpec{Approve: allowAll})
			if err != nil || result.OK || result.Reason != c.want || result.Text == "" {
				t.Errorf("%+v, %v, wants %s", result, err, c.want)
			}
			if !slices.ContainsFunc(events, func(e nod.Event) bool { return e.Kind == nod.EventAgentError }) {
				t.Error("no event tells of it")
			}
			if strings.Contains(result.Text, dummyKey) {
				t.Error("the key is told")
			}
		})
	}
}
