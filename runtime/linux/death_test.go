//go:build linux

package linux_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

const supervisorRole = "NOD_TEST_SUPERVISOR"

// supervise is the process that TestEverythingEndsWithASupervisorThatIsKilled kills.
func supervise(dir string) error {
	d, err := linux.New(linux.Config{StateDir: filepath.Join(dir, "state")})
	if err != nil {
		return err
	}
	ctx := context.Background()
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "test", Image: runtime.HostImage, Workspace: filepath.Join(dir, "workspace"),
		Limits: runtime.Limits{PIDs: 100}}, runtime.Roots{Allowed: []string{dir}})
	if err != nil {
		return err
	}
	if err := d.Provision(ctx, p); err != nil {
		return err
	}
	if _, err := d.Start(ctx, "e1"); err != nil {
		return err
	}
	proc, err := d.Exec(ctx, "e1", nod.Command{Argv: []string{nod.GuestPath, "nod-try-tree"}})
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(proc.Stdout()).ReadString('\n')
	fmt.Printf("ready %s %v\n", strings.TrimSpace(line), err)
	_, err = proc.Wait()
	return err
}

func TestEverythingEndsWithASupervisorThatIsKilled(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "state")
	if err := os.Mkdir(filepath.Join(top, "workspace"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := open(t, linux.Config{StateDir: dir})
	needEnvironments(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), supervisorRole+"="+top)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "ready") {
	}
	if lines.Text() != "ready grown <nil>" {
		t.Fatalf("the supervisor said %q", lines.Text())
	}
	inside := descendants(t, cmd.Process.Pid)
	if len(inside) < 8 {
		t.Fatalf("only %d processes run below the supervisor", len(inside))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the supervisor ended by itself")
	}
	// The next supervisor takes the state over; by then nothing may be left.
	d = open(t, linux.Config{StateDir: dir})
	defer d.Close()
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []int
		for _, pid := range inside {
			if alive(pid) {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("processes %v outlive the supervisor", left)
		}
	}
	list, err := d.List(t.Context(), "test")
	if err != nil || len(list) != 1 || list[0].Running {
		t.Errorf("List after the crash: %+v, %v", list, err)
	}
	sum := sha256.Sum256([]byte(dir))
	groups, err := filepath.Glob("/sys/fs/cgroup/*/nod-" + hex.EncodeToString(sum[:4]) + "-e1")
	if err != nil || len(groups) != 0 {
		t.Errorf("cgroups are left: %v, %v", groups, err)
	}
}

func descendants(t *testing.T, root int) []int {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, e := range dirs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent, ok := stat(pid); ok {
			parents[pid] = parent
		}
	}
	var out []int
	for pid := range parents {
		for up, n := parents[pid], 0; up != 0 && n < 64; up, n = parents[up], n+1 {
			if up == root {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

func stat(pid int) (state string, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	parent, err = strconv.Atoi(f[1])
	return f[0], parent, err == nil
}

func alive(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != "Z" && state != "X"
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
