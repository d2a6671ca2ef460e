//go:build linux

package linux_test

import (
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

// needEnvironments skips where none can be started.
func needEnvironments(t testing.TB, d *linux.Driver) {
	t.Helper()
	if c := d.Capabilities(t.Context()); !c.Supported {
		runtimetest.Missing(t, "an environment: "+strings.Join(c.Missing, "; "))
	}
}

func start(t testing.TB, d *linux.Driver, id string, change func(*runtime.Spec)) (workspace string) {
	t.Helper()
	workspace = t.TempDir()
	s := runtime.Spec{ID: id, Owner: "test", Image: runtime.HostImage, Workspace: workspace}
	roots := runtime.Roots{Allowed: []string{workspace}}
	if change != nil {
		change(&s)
		roots.Allowed = append(roots.Allowed, filepath.Dir(workspace))
	}
	p, err := runtime.Prepare(s, roots)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return workspace
}

func TestOneProcessHoldsTheState(t *testing.T) {
	dir := t.TempDir()
	d := open(t, linux.Config{StateDir: dir})
	if _, err := linux.New(linux.Config{StateDir: dir}); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a second driver: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, linux.Config{StateDir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
}
