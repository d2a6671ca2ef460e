//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest/anthropicmock"
	"nod/agent/agenttest/openaimock"
	"nod/policy"
)

// hunt commits the work and then looks for the model's key in everything that a
// process in the environment can read, and shows what is there in its place. The key
// itself is not in it.
const hunt = `git add -A && git commit -q -m "fix: spell hello with two l"
for p in /proc/[0-9]*/environ; do tr '\0' '\n' < $p; done 2> /dev/null | sed -n 's/^ANTHROPIC_API_KEY=/token=/p; s/^OPENAI_API_KEY=/token=/p; s/^ANTHROPIC_BASE_URL=/base=/p' | sort -u
k=sk-dummy; grep -rsl -e "$k-0000" /workspace /home/agent /tmp /etc /proc/[0-9]*/environ || echo "the key is nowhere"`

// newGatedClaude is the demo with the real Claude Code, whose key the gateway holds.
func newGatedClaude(t *testing.T, steps []anthropicmock.Step, settings policy.Settings) *realDemo {
	t.Helper()
	needProgram(t, "NOD_CLAUDE", "Claude Code")
	model, err := anthropicmock.New(steps)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, model.Server)
	return newRealDemo(t, realAgent{kind: kindClaude, variable: "NOD_CLAUDE", root: filepath.Dir, model: model.Server, gated: true, policy: settings,
		env: map[string]string{"CLAUDE_CODE_MAX_RETRIES": "1"}})
}

// newGatedCodex is the same with the real Codex.
func newGatedCodex(t *testing.T, steps []openaimock.Step, settings policy.Settings) *realDemo {
	t.Helper()
	needProgram(t, "NOD_CODEX", "Codex")
	model, err := openaimock.New(steps)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, model.Server)
	return newRealDemo(t, realAgent{kind: kindCodex, variable: "NOD_CODEX", model: model.Server, gated: true, policy: settings,
		root: func(path string) string { return filepath.Dir(filepath.Dir(path)) }})
}

func allow(nod.Decision) (string, string) { return nod.Allow, "" }

// unheld fails the test when the key is in a file that the agent could write.
func (w *realDemo) unheld() {
	w.t.Helper()
	root, files := filepath.Join(w.system.config.StateDir, "environments"), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(modelKey)) {
			w.t.Errorf("the key is in %s", path)
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		w.t.Errorf("%d files, %v", files, err)
	}
}

// TestRealClaudeNeverHoldsItsKey: a whole life through the gateway, with no host on the
// allowlist. The model sees the key; the agent, which searches for it, sees a token.
func TestRealClaudeNeverHoldsItsKey(t *testing.T) {
	steps := []anthropicmock.Step{
		claudeStep("Read", map[string]any{"file_path": "/workspace/greet.sh"}),
		claudeStep("Write", map[string]any{"file_path": "/workspace/greet.sh", "content": hello}),
		claudeStep("Bash", map[string]any{"command": hunt, "description": "Commit and look"}),
		{Text: "The greeting is spelt right."},
	}
	w := newGatedClaude(t, steps, policy.Settings{})
	w.shown = `base=http://127.0.0.1:3128\ntoken=[redacted]\nthe key is nowhere`
	c, err := w.play(allow)
	if err != nil {
		t.Fatal(err)
	}
	w.unheld()
	w.metered(c, int64(len(steps)))
	w.published(c, len(steps), func(h http.Header) string { return h.Get("X-Api-Key") }, "tool Write", "tool Bash")
}

// TestRealClaudeOfASubscriptionIsParkedAndGoesOn: the token of a login stays with the
// gateway. Once the quota of the subscription is used up, the run is parked until the
// reset that the model's API told; then the same session goes on.
func TestRealClaudeOfASubscriptionIsParkedAndGoesOn(t *testing.T) {
	reset := time.Now().Add(3 * time.Hour).Truncate(time.Second)
	at := strconv.FormatInt(reset.Unix(), 10)
	full := anthropicmock.Step{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: "This request would exceed your account's rate limit.",
		Header: map[string]string{"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": at,
			"anthropic-ratelimit-unified-representative-claim": "five_hour", "anthropic-ratelimit-unified-5h-status": "rejected",
			"anthropic-ratelimit-unified-5h-reset": at, "anthropic-ratelimit-unified-5h-utilization": "1", "x-should-retry": "false"}}
	steps := []anthropicmock.Step{claudeStep("Read", map[string]any{"file_path": "/workspace/greet.sh"}),
		claudeStep("Write", map[string]any{"file_path": "/workspace/greet.sh", "content": hello}), full,
		claudeStep("Bash", map[string]any{"command": strings.ReplaceAll(hunt, "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"), "description": "Commit and look"}),
		{Text: "The greeting is spelt right."}}
	w := newSubscribed(t, steps)
	_, err := w.play(allow)
	w.stuck(err, nod.CauseQuotaExhausted, "takes no more until")
	open, err := w.system.store.OpenDecisions(t.Context())
	if err != nil || len(open) != 1 || !open[0].Deadline.Equal(reset) {
		t.Fatalf("%+v, %v: the quota is there again at %v", open, err, reset)
	}
	if err := w.browser.Answer(t.Context(), open[0].ID, nod.Resume, ""); err != nil {
		t.Fatal(err)
	}
	c, err := w.play(allow)
	if err != nil || c.Task.State != nod.TaskReadyForReview {
		t.Fatalf("%+v, %v", c.Task, err)
	}
	sessions := map[string]int{}
	for _, e := range w.transcript() {
		var s nod.SessionOpened
		if e.Kind == nod.EventSession && json.Unmarshal(e.Data, &s) == nil {
			sessions[s.Session]++
		}
	}
	if len(sessions) != 1 || sessions[c.Run.Session] != 2 || c.Run.Number != 1 {
		t.Errorf("sessions %v of run %+v", sessions, c.Run)
	}
	for _, q := range w.model.Requests() {
		if q.Main && (q.Header.Get("Authorization") != "Bearer "+modelKey || q.Header.Get("X-Api-Key") != "") {
			t.Errorf("a request without the token, or with another key: %s", q.Dump())
		}
	}
	w.unheld()
	w.keyless("the key is nowhere")
	w.end()
}

// newSubscribed is the demo with the real Claude Code and the token of a login.
func newSubscribed(t *testing.T, steps []anthropicmock.Step) *realDemo {
	t.Helper()
	needProgram(t, "NOD_CLAUDE", "Claude Code")
	model, err := anthropicmock.New(steps)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, model.Server)
	return newRealDemo(t, realAgent{kind: kindClaude, variable: "NOD_CLAUDE", root: filepath.Dir, model: model.Server, gated: true, login: true,
		env: map[string]string{"CLAUDE_CODE_MAX_RETRIES": "0"}})
}

// TestRealCodexNeverHoldsItsKey is the same with Codex.
func TestRealCodexNeverHoldsItsKey(t *testing.T) {
	steps := codexCorrection()
	steps[1].Calls[0].Args = map[string]any{"cmd": hunt}
	w := newGatedCodex(t, steps, policy.Settings{})
	w.shown = `token=[redacted]\nthe key is nowhere`
	c, err := w.play(allow)
	if err != nil {
		t.Fatal(err)
	}
	w.unheld()
	w.metered(c, int64(len(steps)))
	w.published(c, len(steps), func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }, "tool ApplyPatch", "tool Bash")
}

// metered fails the test unless what the gateway counted is in the audit log: the mocks
// say that each message takes 100 tokens in and 20 out.
func (w *realDemo) metered(c nod.Case, messages int64) {
	w.t.Helper()
	sum, err := w.system.store.Spending(w.t.Context(), c.Task, c.Run.ID, nod.DayOf(c.Task.CreatedAt))
	if err != nil || sum.Run.Tokens < 120*messages || sum.Run.Tokens > 120*(messages+2) || sum.Run != sum.Day {
		w.t.Errorf("%+v, %v", sum, err)
	}
}

// TestRealClaudeIsStoppedAtItsBudget inside a turn: the gateway refuses the next call,
// the session ends and the task fails with the reason.
func TestRealClaudeIsStoppedAtItsBudget(t *testing.T) {
	w := newGatedClaude(t, []anthropicmock.Step{claudeStep("Bash", map[string]any{"command": "sleep 1; echo on", "description": "Go on"}), {Text: "Done."}},
		policy.Settings{Budgets: map[string]policy.Limit{"run": {HardTokens: 100}}})
	w.overBudget(w.play(allow))
}

// TestRealCodexIsStoppedAtItsBudget is the same with Codex.
func TestRealCodexIsStoppedAtItsBudget(t *testing.T) {
	w := newGatedCodex(t, []openaimock.Step{{Calls: []openaimock.Call{{Name: "exec_command", Args: map[string]any{"cmd": "sleep 1; echo on"}}}}, {Text: "Done."}},
		policy.Settings{Budgets: map[string]policy.Limit{"run": {HardTokens: 100}}})
	w.overBudget(w.play(allow))
}

func (w *realDemo) overBudget(c nod.Case, err error) {
	w.t.Helper()
	tasks, terr := w.system.store.Tasks(w.t.Context())
	if terr != nil || len(tasks) != 1 || tasks[0].State != nod.TaskFailed || !strings.Contains(tasks[0].Reason, "a budget is used up: this run has used") {
		w.t.Errorf("%+v, %v, %v", tasks, err, terr)
	}
	for _, q := range w.model.Requests() {
		if bytes.Contains(q.Body, []byte(`"on\n"`)) {
			w.t.Errorf("the model was asked again: %s", q.Dump())
		}
	}
	w.unpublished()
	w.end()
}
