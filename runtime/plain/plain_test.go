//go:build unix

package plain_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/plain"
)

func TestMain(m *testing.M) {
	if os.Args[0] == nod.GuestPath {
		fmt.Println("guest", strings.Join(os.Args[1:], " "))
		os.Exit(7)
	}
	os.Exit(m.Run())
}

func open(t *testing.T) (d *plain.Driver, workspace, home string) {
	t.Helper()
	d, err := plain.New(plain.Config{OnlyFor: plain.OnlyForScripted, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	workspace, home = t.TempDir(), t.TempDir()
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: workspace, Home: home},
		runtime.Roots{Allowed: []string{workspace, home}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	a, err := d.Start(t.Context(), "e1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Isolation != "none" || a.Holds() == nil {
		t.Fatalf("the attestation %+v holds", a)
	}
	return d, workspace, home
}

func run(t *testing.T, d *plain.Driver, c nod.Command) (string, nod.ExitStatus) {
	t.Helper()
	p, err := d.Exec(t.Context(), "e1", c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out), status
}

func TestItIsMadeForTheScriptedAgentOnly(t *testing.T) {
	for _, only := range []string{"", "claude", "Scripted"} {
		if _, err := plain.New(plain.Config{OnlyFor: only, StateDir: t.TempDir()}); nod.CodeOf(err) != nod.Forbidden {
			t.Errorf("New for %q: %v", only, err)
		}
	}
}

func TestOtherProgramsAreRefused(t *testing.T) {
	d, _, _ := open(t)
	for _, argv := range [][]string{{"claude"}, {"/bin/sh", "-c", "true"}, {"bash"}, {"./sh"}} {
		if _, err := d.Exec(t.Context(), "e1", nod.Command{Argv: argv}); nod.CodeOf(err) != nod.Forbidden {
			t.Errorf("%v: %v", argv, err)
		}
	}
}

func TestPathsOfAnEnvironmentAreMapped(t *testing.T) {
	d, ws, home := open(t)
	out, status := run(t, d, nod.Command{Argv: []string{nod.GuestPath, "scripted", "/workspace/x", "--home=/home/agent", "/workspaces", "a/workspace"}})
	if want := fmt.Sprintf("guest scripted %s/x --home=%s /workspaces a/workspace\n", ws, home); out != want || status.Code != 7 {
		t.Errorf("got %q, %v; want %q", out, status, want)
	}
	t.Setenv("LEAK", "1")
	out, _ = run(t, d, nod.Command{Argv: []string{"sh", "-c", `pwd; echo "$V $HOME [$LEAK]"; echo hi > /tmp/f; cat "$TMPDIR/f"`}, Env: map[string]string{"V": "/workspace"}})
	real, err := filepath.EvalSymlinks(ws)
	if err != nil {
		t.Fatal(err)
	}
	if want := real + "\n" + ws + " " + home + " []\nhi\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestKillEndsTheWholeTree(t *testing.T) {
	d, _, _ := open(t)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", `sleep 600 & echo $!; (trap '' TERM HUP; sleep 600 & echo $!); echo done; sleep 600`}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for buf := make([]byte, 256); !strings.Contains(text.String(), "done"); {
		n, err := p.Stdout().Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(buf[:n])
	}
	if err := p.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(text.String()) {
		if pid, err := strconv.Atoi(f); err == nil && running(pid) {
			t.Errorf("process %d survives", pid)
		}
	}
	if status, err := p.Wait(); err != nil || status.Signal != int(syscall.SIGKILL) {
		t.Errorf("Wait: %+v, %v", status, err)
	}
}

// running tells a live process from a zombie whose parent is slow.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

func TestStoppedMeansNothingRuns(t *testing.T) {
	d, _, _ := open(t)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Signal == 0 {
		t.Errorf("Wait: %+v, %v", status, err)
	}
	if _, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh"}}); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("Exec when stopped: %v", err)
	}
	list, err := d.List(t.Context(), "o")
	if err != nil || len(list) != 1 || list[0].Running {
		t.Errorf("List: %+v, %v", list, err)
	}
	if err := d.Delete(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(t.Context(), "o"); err != nil || len(list) != 0 {
		t.Errorf("List after Delete: %+v, %v", list, err)
	}
}
