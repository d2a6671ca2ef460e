//go:build linux

package linux_test

import (
	"bufio"
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

// TestSupervisorRole is not a test: it is the process that
// TestEverythingEndsWithASupervisorThatIsKilled kills.
func TestSupervisorRole(t *testing.T) {
	dir := os.Getenv(supervisorRole)
	if dir == "" {
		t.Skip("runs as a process of another test only")
	}
	d, err := linux.New(linux.Config{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	start(t, d, "e1", nil)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{nod.GuestPath, "nod-try-tree"}})
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	fmt.Printf("ready %s %v\n", strings.TrimSpace(line), err)
	if _, err := p.Wait(); err != nil {
		t.Log(err)
	}
}

func TestEverythingEndsWithASupervisorThatIsKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d := open(t, linux.Config{StateDir: dir})
	needEnvironments(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestSupervisorRole$")
	cmd.Env = append(os.Environ(), supervisorRole+"="+dir)
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
	groups, err := filepath.Glob("/sys/fs/cgroup/*/nod-*-e1")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		t.Logf("cgroup of some environment: %s", g)
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
