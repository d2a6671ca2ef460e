//go:build linux

package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"nod"
	"nod/agent/agenttest/anthropicmock"
)

// newClaudeDemo is the demo with the real Claude Code, whose model says steps.
func newClaudeDemo(t *testing.T, steps []anthropicmock.Step, hosts ...string) *realDemo {
	t.Helper()
	needProgram(t, "NOD_CLAUDE", "Claude Code")
	model, err := anthropicmock.New(steps, modelHost)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, model.Server)
	return newRealDemo(t, realAgent{kind: "claude", variable: "NOD_CLAUDE", root: filepath.Dir, model: model.Server,
		env: map[string]string{"ANTHROPIC_BASE_URL": "https://" + modelHost, "NODE_EXTRA_CA_CERTS": "/opt/trust/ca.pem", "CLAUDE_CODE_MAX_RETRIES": "1"}}, hosts...)
}

func claudeStep(tool string, input map[string]any) anthropicmock.Step {
	return anthropicmock.Step{Tools: []anthropicmock.Tool{{Name: tool, Input: input}}}
}

// correction is a model that corrects the greeting, commits it, and prints the key,
// as an agent may that was told to.
func correction() []anthropicmock.Step {
	return []anthropicmock.Step{
		claudeStep("Read", map[string]any{"file_path": "/workspace/greet.sh"}),
		claudeStep("Write", map[string]any{"file_path": "/workspace/greet.sh", "content": hello}),
		claudeStep("Bash", map[string]any{"command": `git add -A && git commit -q -m "fix: spell hello with two l" && echo "key=$ANTHROPIC_API_KEY"`, "description": "Commit"}),
		{Text: "The greeting is spelt right."},
	}
}

func TestRealClaudeGoesFromLabelToPullRequestThroughTheEgressProxy(t *testing.T) {
	w := newClaudeDemo(t, correction(), modelHost+":443=%s")
	c, err := w.play(func(q nod.Decision) (string, string) {
		w.unpublished()
		switch q.Subject {
		case "Write":
			if got := w.greeting(); got != helo {
				t.Errorf("the file is written before the answer: %q", got)
			}
			if len(w.running()) == 0 {
				t.Error("no process is seen to run the program while it waits")
			}
		case "Bash":
			if got := w.greeting(); got != hello {
				t.Errorf("the allowed file is %q", got)
			}
		}
		return nod.Allow, ""
	})
	if err != nil {
		t.Fatal(err)
	}
	w.published(c, len(correction()), func(h http.Header) string { return h.Get("X-Api-Key") }, "tool Write", "tool Bash")
}

func TestRealClaudeWithoutTheEgressRuleReachesNothing(t *testing.T) {
	w := newClaudeDemo(t, correction())
	_, err := w.play(func(q nod.Decision) (string, string) {
		t.Errorf("asked about %s", q.Subject)
		return nod.Deny, ""
	})
	w.stuck(err, nod.CauseRunFailed, "api_error")
	if n := len(w.model.Requests()); n != 0 {
		t.Errorf("%d requests reached the model", n)
	}
	if got := w.verdicts(); !slices.Equal(got, []string{"deny model.test:443", "deny unlisted.invalid:443"}) {
		t.Errorf("the proxy was asked for %q", got)
	}
	if got := w.refused(); !slices.Equal(got, []string{modelHost, "unlisted.invalid"}) {
		t.Errorf("the audit log tells of refusals of %q", got)
	}
	w.keyless("api_error")
}

func TestRealClaudeDenialIsTold(t *testing.T) {
	const reason = "Leave the file alone; open a discussion first."
	steps := append(correction()[:2], anthropicmock.Step{Text: "I leave it."})
	w := newClaudeDemo(t, steps, modelHost+":443=%s")
	_, err := w.play(func(q nod.Decision) (string, string) {
		if q.Subject != "Write" {
			t.Errorf("asked about %s", q.Subject)
		}
		return nod.Deny, reason
	})
	w.stuck(err, nod.CausePrepareFailed, "without changing anything")
	if got := w.greeting(); got != helo {
		t.Errorf("the denied file is written: %q", got)
	}
	requests := slices.DeleteFunc(w.model.Requests(), func(q anthropicmock.Request) bool { return !q.Main })
	if len(requests) != len(steps) || !bytes.Contains(requests[len(requests)-1].Body, []byte(reason)) {
		t.Errorf("the model was not told why, in %d requests", len(requests))
	}
	w.opened(w.transcript())
}
