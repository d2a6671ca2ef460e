package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod"
)

// run runs the program to its end and returns what it printed.
func (o *outside) run(args ...string) (stdout, stderr string, code int) {
	o.t.Helper()
	var out, errs bytes.Buffer
	cmd := o.nod(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			o.t.Fatal(err)
		}
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestHostAnswersBesideAServingNod: every answer comes from a command in another
// process, and the serving one goes on by it at once. The evidence of it then
// verifies without the database.
func TestHostAnswersBesideAServingNod(t *testing.T) {
	o := newOutside(t)
	o.serve()
	o.enrol() // only for the signing key: no passkey answers here
	if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	change := o.push()
	if out, _, code := o.run("inbox"); code != 0 || !strings.Contains(out, change) {
		t.Errorf("inbox: %d %s", code, out)
	}
	if out, _, code := o.run("inbox", change); code != 0 || !strings.Contains(out, "digest ") {
		t.Errorf("inbox DECISION: %d %s", code, out)
	}
	ok := func(args ...string) {
		t.Helper()
		if out, errs, code := o.run(args...); code != 0 {
			t.Fatalf("%v: %d %s%s", args, code, out, errs)
		}
	}
	ok("approve", change[:12])
	if _, errs, code := o.run("deny", change); code != 5 || !strings.Contains(errs, "host answered allow") {
		t.Errorf("a second, different answer: %d %s", code, errs)
	}
	ok("approve", change) // the same again
	ok("approve", o.push())
	review := o.push()
	if _, errs, code := o.run("approve", review); code != 5 || !strings.Contains(errs, "--sha") {
		t.Errorf("a review without a commit: %d %s", code, errs)
	}
	if _, _, code := o.run("approve", review, "--sha", strings.Repeat("0", 40)); code != 5 {
		t.Errorf("a review of another commit: %d", code)
	}
	shown, _, _ := o.run("inbox", review, "--json")
	var seen struct{ Data nod.Decision }
	if err := json.Unmarshal([]byte(shown), &seen); err != nil || seen.Data.CommitSHA == "" {
		t.Fatalf("%s: %v", shown, err)
	}
	ok("approve", review, "--sha", seen.Data.CommitSHA[:12], "--reason", "read on the machine")
	o.until("the issue says ready for review", func() bool {
		v, err := o.sim.View(demoRepo, o.issue)
		return err == nil && strings.Contains(strings.Join(v.Labels, " "), "nod:review")
	})
	evidence, errs, code := o.run("audit", "export", seen.Data.Task)
	if code != 0 {
		t.Fatalf("audit export: %s", errs)
	}
	verify := func(file string) (string, int) {
		cmd := o.nod("audit", "verify", "--file", "-")
		cmd.Args = cmd.Args[:len(cmd.Args)-2] // without a configuration
		cmd.Dir = filepath.Dir(t.TempDir())
		cmd.Stdin = strings.NewReader(file)
		out, err := cmd.CombinedOutput()
		if _, ok := err.(*exec.ExitError); err != nil && !ok {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := verify(evidence); code != 0 || !strings.Contains(out, " 0 signatures") {
		t.Errorf("audit verify --file: %d %s", code, out)
	}
	if out, code := verify(strings.Replace(evidence, "read on the machine", "read on the phone", 1)); code != 10 {
		t.Errorf("audit verify --file of a changed file: %d %s", code, out)
	}
}

// TestHostEndsATaskBesideAServingNod: words reach the live agent's session, and a
// cancelled task loses its agent, its question and its place in the inbox.
func TestHostEndsATaskBesideAServingNod(t *testing.T) {
	o := newOutside(t)
	o.serve()
	o.enrol()
	if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	change := o.push()
	shown, _, _ := o.run("inbox", change, "--json")
	var seen struct{ Data nod.Decision }
	if err := json.Unmarshal([]byte(shown), &seen); err != nil {
		t.Fatalf("%s: %v", shown, err)
	}
	task := seen.Data.Task
	if out, errs, code := o.run("say", task, "mind the rounding"); code != 0 {
		t.Fatalf("say: %s%s", out, errs)
	}
	said := func(what string) func() bool {
		return func() bool {
			html, err := o.browser.Page(t.Context(), "/t/"+task)
			return err == nil && strings.Contains(html, what)
		}
	}
	o.until("the page says what became of the words", said("handed to the agent"))
	alive := agentProcesses(t)
	if out, errs, code := o.run("cancel", task, "changed my mind"); code != 0 {
		t.Fatalf("cancel: %s%s", out, errs)
	}
	o.until("the task has ended", said("cancelled by host: changed my mind"))
	o.until("every agent process is gone", func() bool {
		return !slices.ContainsFunc(agentProcesses(t), func(id string) bool { return slices.Contains(alive, id) })
	})
	if out, _, _ := o.run("inbox"); strings.Contains(out, change) {
		t.Errorf("the inbox still asks: %s", out)
	}
	if _, _, code := o.run("cancel", task); code != 5 {
		t.Errorf("a second cancel: %d", code)
	}
}
