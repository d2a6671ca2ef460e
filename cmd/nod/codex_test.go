//go:build linux

package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod"
	"nod/agent/agenttest/openaimock"
)

// newCodexDemo is the demo with the real Codex, whose model says steps.
func newCodexDemo(t *testing.T, steps []openaimock.Step, hosts ...string) *realDemo {
	t.Helper()
	needProgram(t, "NOD_CODEX", "Codex")
	model, err := openaimock.New(steps, modelHost)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, model.Server)
	return newRealDemo(t, realAgent{kind: kindCodex, variable: "NOD_CODEX", model: model.Server,
		root:    func(path string) string { return filepath.Dir(filepath.Dir(path)) }, // with what the program brings along
		baseURL: "https://" + modelHost + "/v1",
		env:     map[string]string{"CODEX_CA_CERTIFICATE": "/opt/trust/ca.pem"}}, hosts...)
}

// codexCorrection is a model that corrects the greeting by a patch, commits it, and
// prints the key, as an agent may that was told to.
func codexCorrection() []openaimock.Step {
	const key = `for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ 2> /dev/null; done | sed -n 's/^OPENAI_API_KEY=/key=/p' | sort -u`
	return []openaimock.Step{
		{Calls: []openaimock.Call{{Name: "apply_patch", Input: "*** Begin Patch\n*** Update File: greet.sh\n@@\n-echo \"Helo, ${1:-world}!\"\n+echo \"Hello, ${1:-world}!\"\n*** End Patch\n"}}},
		{Calls: []openaimock.Call{{Name: "exec_command", Args: map[string]any{"cmd": `git add -A && git commit -q -m "fix: spell hello with two l" && ` + key}}}},
		{Text: "The greeting is spelt right."},
	}
}

func TestRealCodexGoesFromLabelToPullRequestThroughTheEgressProxy(t *testing.T) {
	w := newCodexDemo(t, codexCorrection(), modelHost+":443=%s")
	c, err := w.play(func(q nod.Decision) (string, string) {
		w.unpublished()
		switch q.Subject {
		case "ApplyPatch":
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
	w.published(c, len(codexCorrection()), func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") },
		"tool ApplyPatch", "tool Bash")
}

func TestRealCodexWithoutTheEgressRuleReachesNothing(t *testing.T) {
	w := newCodexDemo(t, codexCorrection())
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
	w.keyless("api_error")
}

func TestRealCodexDenialIsTold(t *testing.T) {
	const reason = "Leave the file alone; open a discussion first."
	steps := append(codexCorrection()[:1], openaimock.Step{Text: "I leave it."})
	w := newCodexDemo(t, steps, modelHost+":443=%s")
	_, err := w.play(func(q nod.Decision) (string, string) { return nod.Deny, reason })
	w.stuck(err, nod.CausePrepareFailed, "without changing anything")
	if got := w.greeting(); got != helo {
		t.Errorf("the denied file is written: %q", got)
	}
	requests := slices.DeleteFunc(w.model.Requests(), func(q openaimock.Request) bool { return !q.Main })
	if len(requests) != len(steps) || !bytes.Contains(requests[len(requests)-1].Body, []byte(reason)) {
		t.Errorf("the model was not told why, in %d requests", len(requests))
	}
	w.opened(w.transcript())
}
