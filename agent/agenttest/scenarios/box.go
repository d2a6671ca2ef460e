//go:build linux

package scenarios

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

// lab makes environments.
type lab struct {
	driver *linux.Driver
	next   atomic.Int64
	mu     sync.Mutex
	asked  map[string][]string // by environment: what its proxy was asked for
}

// place is what an environment is made of. Its JSON form crosses to a supervisor
// that is to be killed.
type place struct {
	State, ID        string // directory of the driver; id of the environment
	Workspace, Home  string
	Root, Inside     string // directory of the program, and where it is seen
	Trust            string // directory with ca.pem
	Hosts            []string
	Program          string // path inside
	Session          string // to resume
	URL              string // of the model
	Settings         map[string]string
	WorkspaceCreated bool
}

// box is one running environment.
type box struct {
	place
	t   *testing.T
	lab *lab
}

var _ nod.Executor = (*box)(nil)

// newLab opens a driver over state; nothing runs in it at the end of the test.
func newLab(t *testing.T, state string) *lab {
	t.Helper()
	l := &lab{asked: map[string][]string{}}
	d, err := linux.New(linux.Config{StateDir: state, Log: slog.New(slog.DiscardHandler), Egress: egress.Config{Audit: func(e egress.Event) {
		if e.Verdict == egress.Closed || e.Host == nod.ProbeHost { // what every start tries
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked[e.Environment] = append(l.asked[e.Environment], fmt.Sprintf("%s %s:%d", e.Verdict, e.Host, e.Port))
	}}})
	if err != nil {
		t.Fatal(err)
	}
	l.driver = d
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if c := d.Capabilities(t.Context()); !c.Supported {
		runtimetest.Missing(t, "an environment: "+strings.Join(c.Missing, "; "))
	}
	return l
}

// start provisions and starts the environment of p.
func (p place) start(ctx context.Context, d *linux.Driver) error {
	s := runtime.Spec{ID: p.ID, Owner: "scenarios", Image: runtime.HostImage, Workspace: p.Workspace, Home: p.Home,
		Mounts: []runtime.Mount{{Source: p.Root, Target: p.Inside}, {Source: p.Trust, Target: "/opt/trust"}}}
	for _, h := range p.Hosts {
		rule, err := egress.ParseRule(h)
		if err != nil {
			return err
		}
		s.Egress = append(s.Egress, rule)
	}
	prepared, err := runtime.Prepare(s, runtime.Roots{Allowed: []string{p.Workspace, p.Home, p.Root, p.Trust}})
	if err != nil {
		return err
	}
	if err := d.Provision(ctx, prepared); err != nil {
		return err
	}
	a, err := d.Start(ctx, p.ID)
	if err != nil {
		return err
	}
	return a.Holds()
}

// box starts the environment of p; it is stopped at the end of the test.
func (l *lab) box(t *testing.T, p place) *box {
	t.Helper()
	if err := p.start(t.Context(), l.driver); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.driver.Stop(context.Background(), p.ID); err != nil {
			t.Error(err)
		}
	})
	return &box{p, t, l}
}

func (b *box) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	return b.lab.driver.Exec(ctx, b.ID, c)
}

// look lists the processes in the environment that are neither its first one, nor
// this look, nor nod's own runner, which a race detector keeps for another second.
// One that ends while it is looked at is none.
const look = `for p in /proc/[0-9]*; do
	n=${p#/proc/}
	[ "$n" = 1 ] || [ "$n" = $$ ] || [ "$n" = "$PPID" ] || { read -r s < "$p/stat" && case $s in *') Z '* | *' (guest) '*) ;; *) echo "$s" ;; esac; } 2> /dev/null
done; :`

// empty fails the test unless no process is left in the environment.
func (b *box) empty() {
	b.t.Helper()
	p, err := b.Exec(context.Background(), nod.Command{Argv: []string{"/bin/sh", "-c", look}, Env: map[string]string{"PATH": "/usr/bin:/bin"}})
	if err != nil {
		b.t.Errorf("look for what is left: %v", err)
		return
	}
	_ = p.Stdin().Close() // it reads nothing
	out, err := io.ReadAll(p.Stdout())
	if status, waited := p.Wait(); err != nil || waited != nil || status.Code != 0 {
		b.t.Errorf("look for what is left: %+v, %v, %v", status, err, waited)
	}
	if len(out) > 0 {
		b.t.Errorf("processes are left in the environment:\n%s", out)
	}
}

// kill ends the program from outside, as if it had crashed, and whatever else of
// the environment has its path among its arguments.
func (b *box) kill() {
	b.t.Helper()
	n := 0
	for _, pid := range running(b.t, b.Program) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	if n == 0 {
		b.t.Error("the program to kill does not run")
	}
}

// killAll ends every process of the environment whose arguments begin with those.
// The environment is told apart by its program, which no other has.
func (b *box) killAll(args string) {
	b.t.Helper()
	namespace := ""
	for _, pid := range running(b.t, b.Program) {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil {
			namespace = link
		}
	}
	n := 0
	for _, pid := range running(b.t, args) {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err == nil && link == namespace && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	if n == 0 {
		b.t.Error("there is no process to kill")
	}
}

// running lists the processes of this machine that run a program.
func running(t *testing.T, program string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		raw, err := os.ReadFile(path)
		var pid int
		if err == nil && strings.HasPrefix(string(raw), program+"\x00") {
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// verdicts are what the environment's proxy was asked for, each once.
func (b *box) verdicts() []string {
	b.lab.mu.Lock()
	defer b.lab.mu.Unlock()
	out := slices.Clone(b.lab.asked[b.ID])
	slices.Sort(out)
	return slices.Compact(out)
}

// read is a file of the workspace; empty when there is none.
func (b *box) read(name string) string {
	b.t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.Workspace, name))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(raw)
}
