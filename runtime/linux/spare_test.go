//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
	"nod/runtime/runtimetest"
)

// waiting waits for the process that was started ahead.
func waiting(t *testing.T, d *Driver) *initProcess {
	t.Helper()
	d.spare.mu.Lock()
	next := d.spare.next
	d.spare.mu.Unlock()
	if next == nil {
		t.Fatal("no process was started ahead")
	}
	if <-next.done; next.err != nil {
		t.Fatal(next.err)
	}
	return next.process
}

func TestAStartTakesTheProcessThatWaitsUnlessItIsDead(t *testing.T) {
	d, err := New(Config{StateDir: t.TempDir(), Guest: runtimetest.Static(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c := d.Capabilities(t.Context()); !c.Supported {
		runtimetest.Missing(t, "an environment")
	}
	if d.spare.next != nil {
		t.Error("a process was started though no environment was asked for")
	}
	top := t.TempDir()
	for _, id := range []string{"e1", "e2", "e3"} {
		ws := filepath.Join(top, id)
		if err := os.Mkdir(ws, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := runtime.Prepare(runtime.Spec{ID: id, Owner: "o", Image: runtime.HostImage, Workspace: ws}, runtime.Roots{Allowed: []string{top}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Provision(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	started := func(id string) int {
		t.Helper()
		if _, err := d.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		e, err := d.envs.Known(id)
		if err != nil {
			t.Fatal(err)
		}
		return e.inst.pid
	}
	first := waiting(t, d)
	if pid := started("e1"); pid != first.pid {
		t.Errorf("process %d waited, %d was taken", first.pid, pid)
	}
	second := waiting(t, d)
	if err := unix.Kill(second.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-second.gone
	if pid := started("e2"); pid == second.pid {
		t.Error("a dead process was taken")
	}
	last := waiting(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	<-last.gone
	if _, err := d.Start(t.Context(), "e3"); nod.CodeOf(err) != nod.Unavailable {
		t.Errorf("a start after Close: %v", err)
	}
}
