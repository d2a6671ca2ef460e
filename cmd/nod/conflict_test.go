package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/agent/agenttest"
)

// TestConflictIsResolvedInTheEnvironment: somebody changes the same line of the target
// while the agent works. The work does not merge any more; the agent, in the same
// environment, is given the newest target, resolves it there, and what it made is checked,
// pushed and read back.
func TestConflictIsResolvedInTheEnvironment(t *testing.T) {
	needEnvironments(t)
	script, err := json.Marshal(agenttest.Script{
		Steps:  []agenttest.Step{{Bash: `sed -i 's/Helo/Hello/' greet.sh && git commit -qam "fix: spell hello with two l"`}},
		Resume: []agenttest.Step{{Bash: `git rebase -q origin/main || { git checkout -q --ours greet.sh && sed -i 's/Helo/Hello/' greet.sh && git add greet.sh && GIT_EDITOR=true git rebase --continue; }`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := startDemo(t.Context(), demoOptions{talk: testWriter{t}, errs: testWriter{t}, agent: &AgentConfig{Script: path}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.sim.Label(demoOwner, demoRepo, d.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	theirs := ""
	var asked []nod.Cause
	end := d.answers(t, func(q nod.Decision) string {
		asked = append(asked, q.Cause)
		switch q.Cause {
		case nod.CauseTool:
			if theirs == "" {
				text := "#!/bin/sh\n# Greets loudly.\necho \"Helo, ${1:-world}!\" >&1\n"
				if theirs, err = d.sim.Commit(demoOwner, demoRepo, "main", "feat: greet loudly", map[string]*string{"greet.sh": &text}); err != nil {
					t.Fatal(err)
				}
			}
		case nod.CauseRebaseConflict:
			if !strings.Contains(q.Input, "greet.sh") || !q.Takes(nod.Rework) || !q.Takes(nod.Retry) || !q.Takes(nod.Cancel) {
				t.Errorf("asked %+v", q)
			}
			return nod.Rework
		}
		if !q.Takes(nod.Allow) { // nothing else should be asked
			return nod.Cancel
		}
		return nod.Allow
	})
	r := end.Revision
	if end.Task.State != nod.TaskReadyForReview || end.Run.Number != 2 || r.BaseSHA != theirs || r.PullRequest.State != "open" || !r.Commits[len(r.Commits)-1].Verified {
		t.Errorf("asked %v; task %s, run %+v, revision %+v", asked, end.Task.State, end.Run, r)
	}
	at, err := d.sim.Head(demoRepo, end.Task.Branch)
	if err != nil || at != r.Published() || !r.Check.Passed(r.SHA) {
		t.Errorf("the branch is at %s, %v; revision %+v", at, err, r)
	}
}

// answers answers on the host what is asked until the task is in review or has ended.
func (d *demo) answers(t *testing.T, judge func(nod.Decision) string) nod.Case {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), onceTime)
	defer cancel()
	for seen := int64(0); ; {
		tasks, err := d.system.store.Tasks(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) > 0 {
			c, err := d.system.store.Case(ctx, tasks[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if (c.Task.State == nod.TaskReadyForReview || c.Task.Done()) && settled(c) {
				return c
			}
			for _, q := range c.Open() {
				if _, err := d.system.store.RecordAnswer(ctx, nod.Answer{Decision: q.ID, Answer: judge(q), By: nod.Actor{Kind: nod.ActorHost}}); err != nil && nod.CodeOf(err) != nod.Conflict { // or it was closed since
					t.Fatal(err)
				}
			}
		}
		events, err := d.system.store.Wait(ctx, "", seen)
		if err != nil {
			t.Fatal(err)
		}
		seen = events[len(events)-1].ID
	}
}
