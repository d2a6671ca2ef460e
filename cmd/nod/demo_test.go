package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"nod"
	"nod/runtime/plain"
	"nod/runtime/runtimetest"
)

// needEnvironments skips a test where this machine cannot hold an environment.
func needEnvironments(t *testing.T) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if _, err := demoDriver(t.Context(), t.TempDir(), newEgressLog(log).proxy(nil), log); err != nil {
		runtimetest.Missing(t, "environments: "+err.Error())
	}
}

func TestDemoGoesFromLabelToPullRequest(t *testing.T) {
	needEnvironments(t)
	var out, errs bytes.Buffer
	if code := Main([]string{"demo", "--once", "--json"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d\n%s", code, errs.String())
	}
	var o outcome
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		t.Fatalf("not one JSON object: %v\n%s", err, out.String())
	}
	answered := func(kind nod.Cause) bool {
		return slices.ContainsFunc(o.Decisions, func(d outcomeDecision) bool { return d.Kind == kind && d.Answer == nod.Allow })
	}
	switch {
	case o.State != nod.TaskReadyForReview:
		t.Errorf("state %s", o.State)
	case !answered(nod.CauseTool) || !answered(nod.CauseReadyToPush):
		t.Errorf("decisions %+v", o.Decisions)
	case len(o.Commits) == 0 || slices.ContainsFunc(o.Commits, func(c outcomeCommit) bool { return !c.Verified }):
		t.Errorf("commits %+v", o.Commits)
	case !o.Audit.Verified || o.Audit.Signatures != len(o.Decisions):
		t.Errorf("audit %+v", o.Audit)
	case o.PullRequest.State != "open" || o.PullRequest.Base != "main" || o.PullRequest.HeadSHA != o.Commits[len(o.Commits)-1].SHA:
		t.Errorf("pull request %+v", o.PullRequest)
	}
	if o.Environment.Isolation != "none" {
		if err := o.Environment.Holds(); err != nil {
			t.Error(err)
		}
	}
	for _, verb := range []string{"receive", "decide", "start", "drive", "ask", "answer", "publish", "sweep"} {
		if _, ok := o.Durations[verb]; !ok {
			t.Errorf("no duration of %s", verb)
		}
	}
}

// plainDemo starts the demo on the driver that it has where there are no namespaces.
func plainDemo(t *testing.T, agent *AgentConfig) (*demo, demoOptions, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	o := demoOptions{once: true, json: true, talk: testWriter{t}, data: &out, errs: testWriter{t}, agent: agent}
	var err error
	if o.driver, err = plain.New(plain.Config{StateDir: t.TempDir(), OnlyFor: "scripted"}); err != nil {
		t.Fatal(err)
	}
	d, err := startDemo(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, o, &out
}

func TestDemoWithoutIsolationSaysSo(t *testing.T) {
	d, o, out := plainDemo(t, nil)
	if err := d.once(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var got outcome
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.State != nod.TaskReadyForReview || got.Environment.Isolation != "none" || got.Environment.Driver != "plain" {
		t.Errorf("state %s, environment %+v", got.State, got.Environment)
	}
}

// TestNoOtherAgentRunsWithoutIsolation: the plain driver is for the demo's script.
func TestNoOtherAgentRunsWithoutIsolation(t *testing.T) {
	d, o, _ := plainDemo(t, &AgentConfig{Argv: []string{nod.GuestPath, "scripted-agent"}})
	err := d.once(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "without isolation") {
		t.Errorf("got %v", err)
	}
}
