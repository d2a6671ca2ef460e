package runtimetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
)

// supervisorVariable makes a process of a test binary one that tests kill.
const supervisorVariable = "NOD_TEST_SUPERVISOR"

// order is what a supervisor is to do.
type order struct {
	State string // the driver's directory
	Root  string // workspaces lie below it
	Mark  string // of the processes inside
	Hold  bool   // start one environment with a tree in it and wait; else go on with lives
}

// Supervised runs the supervisor that a test of this package starts and kills,
// and returns whether this process was one. Open is the driver under test.
func Supervised(open func(stateDir string) (Driver, error)) bool {
	text := os.Getenv(supervisorVariable)
	if text == "" {
		return false
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = supervise(o, open)
	}
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	return true
}

// supervise goes through lives of environments, saying on stdout what it does
// next. As nod does, it writes down what it is about to make before it does, and
// takes up what it finds written.
func supervise(o order, open func(string) (Driver, error)) error {
	ctx := context.Background()
	fmt.Println("open")
	d, err := open(o.State)
	if err != nil {
		return err
	}
	store := filepath.Join(o.Root, "store")
	if err := os.MkdirAll(store, 0o755); err != nil {
		return err
	}
	list, err := d.List(ctx, owner)
	if err != nil {
		return err
	}
	for _, s := range list {
		if _, err := os.Stat(filepath.Join(store, s.ID)); err != nil || s.Running {
			return fmt.Errorf("%+v is there, which the store does not know or no process has started", s)
		}
	}
	fmt.Println("opened") // by now nothing of an earlier one may be left
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	left, err := os.ReadDir(store)
	if err != nil {
		return err
	}
	for _, e := range left {
		if err := errors.Join(d.Delete(ctx, e.Name()), os.Remove(filepath.Join(store, e.Name()))); err != nil {
			return fmt.Errorf("delete what is left: %w", err)
		}
	}
	for n := 0; ; n++ {
		if err := live(ctx, d, o, store, fmt.Sprintf("e%d-%d", os.Getpid(), n)); err != nil {
			return err
		}
	}
}

// live is one life of an environment.
func live(ctx context.Context, d Driver, o order, store, id string) error {
	known := filepath.Join(store, id)
	workspace := filepath.Join(o.Root, id)
	if err := errors.Join(os.MkdirAll(workspace, 0o755), os.WriteFile(known, nil, 0o600)); err != nil {
		return err
	}
	p, err := runtime.Prepare(runtime.Spec{ID: id, Owner: owner, Image: runtime.HostImage, Workspace: workspace, Limits: runtime.Limits{PIDs: 100}},
		runtime.Roots{Allowed: []string{o.Root}})
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"provision", func() error { return d.Provision(ctx, p) }},
		{"start", func() error { _, err := d.Start(ctx, id); return err }},
		{"exec", func() error { return o.grow(ctx, d, id) }},
		{"stop", func() error { return d.Stop(ctx, id) }},
		{"delete", func() error { return d.Delete(ctx, id) }},
	} {
		fmt.Println(step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return os.Remove(known)
}

// grow starts something that does not want to end.
func (o order) grow(ctx context.Context, d Driver, id string) error {
	script := "setsid sleep " + o.Mark + " & (setsid sh -c 'trap \"\" TERM; sleep " + o.Mark + "' &); echo grown; sleep " + o.Mark
	p, err := d.Exec(ctx, id, nod.Command{Argv: []string{"sh", "-c", script}})
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil || line != "grown\n" {
		return fmt.Errorf("the tree said %q: %w", line, err)
	}
	if !o.Hold {
		return nil
	}
	fmt.Println("grown")
	select {}
}

// supervisor is one that runs.
type supervisor struct {
	cmd  *exec.Cmd
	said *bufio.Scanner
	in   io.Writer
}

// newSupervisor starts one and waits until it has taken over what the last one left.
func newSupervisor(t *testing.T, c Config, o order) *supervisor {
	t.Helper()
	s := startSupervisor(t, c, o)
	s.waitFor(t, "opened")
	if o.Hold {
		s.goOn(t)
	}
	return s
}

// goOn lets it live the lives of environments.
func (s *supervisor) goOn(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

func startSupervisor(t *testing.T, c Config, o order) *supervisor {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{cmd: exec.Command(self)}
	s.cmd.Env = append(append(os.Environ(), supervisorVariable+"="+string(text)), c.Supervised...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.said = bufio.NewScanner(out)
	t.Cleanup(s.kill)
	return s
}

// waitFor reads what it says until that line.
func (s *supervisor) waitFor(t *testing.T, line string) {
	t.Helper()
	for s.said.Scan() {
		if s.said.Text() == line {
			return
		}
		if strings.HasPrefix(s.said.Text(), "failed") {
			break
		}
	}
	t.Fatalf("the supervisor said %q, not %q: %v", s.said.Text(), line, s.said.Err())
}

// kill kills it without a word, as a power cut of the process would.
func (s *supervisor) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill() // one that has ended is as good
		_ = s.cmd.Wait()
	}
}

// adopting makes orphans of this process's children its own, so that it sees them.
func adopting(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// orphans are live children of this process other than those it knows. Those that
// have ended are reaped.
func orphans(known ...int) (pids []int) {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return []int{-1}
	}
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || slices.Contains(known, pid) {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(f) < 2 || f[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if f[0] == "Z" {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// supervisorIsKilled is the last part of C30: nobody is left to ask for the end of
// what runs, and it ends.
func supervisorIsKilled(b *bench) {
	if b.c.Supervised == nil {
		b.t.Fatal("the driver's test has no supervisor to kill")
	}
	adopting(b.t)
	known := orphans()
	o := order{State: b.c.TempDir(b.t), Root: b.c.TempDir(b.t), Mark: mark(), Hold: true}
	s := newSupervisor(b.t, b.c, o)
	s.waitFor(b.t, "grown")
	settled(b.t, "the tree's making", func() bool { return showing(o.Mark) >= 3 })
	s.kill()
	o.Hold = false
	settled(b.t, "the supervisor's environment", func() bool { return len(orphans(known...)) == 0 && showing(o.Mark) == 0 })
	next := newSupervisor(b.t, b.c, o)
	b.nothingOfOrder(o, append(known, next.cmd.Process.Pid))
	next.kill()
}

// settled polls, without a time that a slow machine would miss.
func settled(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s does not come to its end", what)
		}
	}
}

// nothingOfOrder wants that a killed supervisor's environments have left no
// process, mount or thing of the driver's, once the next one has opened.
func (b *bench) nothingOfOrder(o order, known []int) {
	b.t.Helper()
	if pids := orphans(known...); len(pids) > 0 {
		b.t.Errorf("processes %v are left", pids)
	}
	if n := showing(o.Mark); n > 0 {
		b.t.Errorf("%d processes of the tree are left", n)
	}
	// A namespace of mounts lives no longer than its processes: what is left is here.
	if m := mounted(b.t, "/proc/self/mountinfo", o.Root); len(m) > 0 {
		b.t.Errorf("mounts are left: %v", m)
	}
	if b.c.Left != nil {
		for _, what := range b.c.Left(b.t, o.State) {
			b.t.Errorf("%s is left", what)
		}
	}
}
