package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostGetsAtWhatWasMade: beside a serving nod, what a task made can be seen and
// taken out before anything of it is on GitHub.
func TestHostGetsAtWhatWasMade(t *testing.T) {
	o := newOutside(t)
	o.serve()
	o.enrol() // only for the signing key
	if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the change, the commit
		if _, errs, code := o.run("approve", o.push()); code != 0 {
			t.Fatalf("approve: %s", errs)
		}
	}
	o.push() // ready to push
	const task = demoRepo + "#1"
	if out, errs, code := o.run("show", task); code != 0 || !strings.Contains(out, "1 commits on") || !strings.Contains(out, "ready_to_push") {
		t.Errorf("show: %d, %s%s", code, out, errs)
	}
	if out, errs, code := o.run("diff", task); code != 0 || !strings.Contains(out, "+echo \"Hello, ") {
		t.Errorf("diff: %d, %s%s", code, out, errs)
	}
	dir := t.TempDir()
	clone, bundle := filepath.Join(dir, "clone"), filepath.Join(dir, "out.bundle")
	if out, errs, code := o.run("open", task, clone); code != 0 || strings.TrimSpace(out) != clone {
		t.Fatalf("open: %d, %s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(clone, "greet.sh")); err != nil {
		t.Error(err)
	}
	if _, errs, code := o.run("bundle", task, bundle); code != 0 {
		t.Fatalf("bundle: %d, %s", code, errs)
	}
	if out, err := exec.Command("git", "-C", clone, "bundle", "verify", bundle).CombinedOutput(); err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
	for _, again := range [][]string{{"open", task, clone}, {"bundle", task, bundle}} {
		if _, _, code := o.run(again...); code != 5 {
			t.Errorf("%s over what is there: exit %d", again[0], code)
		}
	}
	if _, _, code := o.run("show", "nothing"); code != 3 {
		t.Errorf("an unknown task: exit %d", code)
	}
}

func TestFilesThatEditorsRunAreNamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".git/.envrc", "main.go", "a/.VSCode/tasks.json", ".envrc", "x.code-workspace"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := eagerFiles(dir)
	if want := ".envrc a/.VSCode x.code-workspace"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("found %q, %v, want %s", got, err, want)
	}
}
