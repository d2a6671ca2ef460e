package runtimetest

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

const (
	owner   = "suite"
	another = "another"
	listed  = "allowed.example" // pinned to the bench's own server
	named   = "ok.example"      // listed, and resolved by the bench's resolver
)

// bench is one driver with three running environments: "e1" and "e3" belong to
// owner, "e2" to another. e1 and e2 let the same hosts through, e3 none.
type bench struct {
	t *testing.T
	Driver
	c               Config
	root            string // workspaces lie below it
	state           string // the driver's
	workspace, home string // of e1
	caps            runtime.Capabilities
	attested        nod.Attestation // of e1's start
	resolver        *resolver
	tried           []outcome   // by a program in e1
	slow            nod.Process // in e2, sends its head ever since
}

func newBench(t *testing.T, c Config, caps runtime.Capabilities) *bench {
	t.Helper()
	b := &bench{t: t, c: c, root: c.TempDir(t), state: c.TempDir(t), caps: caps, resolver: &resolver{}}
	e := quiet(nil)
	e.Resolver = b.resolver
	b.Driver = c.New(t, b.state, e)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close driver: %v", err)
		}
	})
	reach := []egress.Rule{{Host: listed, Upstream: echoServer(t)}, {Host: named}}
	open := func(s *runtime.Spec) { s.Egress = reach }
	b.workspace, b.home = b.provision("e1", owner, open)
	b.provision("e2", another, open)
	b.attested = b.start("e1")
	b.start("e2")
	if !c.Guestless {
		other := b.exec("e1", nod.Command{Argv: []string{"cat"}}) // whom C10 looks for
		argv := []string{roleAttempts}
		if c.Container {
			argv = append(argv, inContainer)
		}
		b.role(&b.tried, "e1", argv...)
		if err := other.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.slow = b.exec("e2", b.guest("e2", roleSlow))
	return b
}

// at is the bench for one test of several.
func (b *bench) at(t *testing.T) *bench {
	c := *b
	c.t = t
	return &c
}

func (b *bench) start(id string) nod.Attestation {
	b.t.Helper()
	a, err := b.Start(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *bench) prepare(id, owner string, change func(*runtime.Spec)) (runtime.PreparedSpec, runtime.Spec) {
	b.t.Helper()
	s := runtime.Spec{ID: id, Owner: owner, Image: runtime.HostImage, Workspace: mkdir(b.t, b.root, id+"-workspace"), Home: mkdir(b.t, b.root, id+"-home"),
		Limits: runtime.Limits{TmpBytes: 16 << 20}}
	if change != nil {
		change(&s)
	}
	p, err := runtime.Prepare(s, runtime.Roots{Allowed: []string{b.root}})
	if err != nil {
		b.t.Fatal(err)
	}
	return p, s
}

func (b *bench) provision(id, owner string, change func(*runtime.Spec)) (workspace, home string) {
	b.t.Helper()
	p, s := b.prepare(id, owner, change)
	if err := b.Provision(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
	return s.Workspace, s.Home
}

func (b *bench) exec(id string, c nod.Command) nod.Process {
	b.t.Helper()
	p, err := b.Exec(b.t.Context(), id, c)
	if err != nil {
		b.t.Fatalf("exec %v: %v", c.Argv, err)
	}
	return p
}

// run runs a command to its end with stdin and returns what it wrote.
func (b *bench) run(id string, stdin string, c nod.Command) (stdout, stderr string, status nod.ExitStatus) {
	b.t.Helper()
	p := b.exec(id, c)
	go func() {
		// A command need not read its input; what it says is judged elsewhere.
		_, _ = io.WriteString(p.Stdin(), stdin)
		_ = p.Stdin().Close()
	}()
	errs := make(chan string, 1)
	go func() {
		text, err := io.ReadAll(p.Stderr())
		errs <- string(text) + errorText(err)
	}()
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		b.t.Fatal(err)
	}
	stderr = <-errs
	status, err = p.Wait()
	if err != nil {
		b.t.Fatalf("wait for %v: %v (stderr %q)", c.Argv, err, stderr)
	}
	return string(out), stderr, status
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (b *bench) sh(script string) (string, nod.ExitStatus) {
	b.t.Helper()
	out, _, status := b.run("e1", "", nod.Command{Argv: []string{"sh", "-c", script}})
	return out, status
}

// guest is a role of this test binary inside id.
func (b *bench) guest(id string, argv ...string) nod.Command {
	c := nod.Command{Argv: append([]string{nod.GuestPath}, argv...)}
	if b.c.Proxy != nil {
		c.Env = map[string]string{proxyVariable: b.c.Proxy(b.state, id)}
	}
	return c
}

// role runs a role and decodes what it reports.
func (b *bench) role(into any, id string, argv ...string) {
	b.t.Helper()
	out, stderr, status := b.run(id, "", b.guest(id, argv...))
	if status.Code != 0 {
		b.t.Fatalf("%v ended with %+v: %s", argv, status, stderr)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		b.t.Fatalf("%v reported %q: %v", argv, out, err)
	}
}

// verdicts fails the test for each outcome of check that is not as it must be,
// and when nothing was tried, or nothing that had to work.
func (b *bench) verdicts(list []outcome, check string) {
	b.t.Helper()
	controls, refusals := 0, 0
	for _, o := range list {
		if o.Check != check {
			continue
		}
		if o.Control {
			controls++
		} else {
			refusals++
		}
		if !o.OK {
			b.t.Errorf("%s: %s", o.Name, o.Got)
		}
	}
	if controls == 0 || refusals == 0 {
		b.t.Errorf("%d attempts and %d controls were made", refusals, controls)
	}
}

func attempted(check string) func(*bench) {
	return func(b *bench) { b.verdicts(b.tried, check) }
}

var marks atomic.Int64

// mark is a number of seconds that no other process of this machine sleeps for.
func mark() string { return strconv.Itoa(os.Getpid()) + strconv.FormatInt(100+marks.Add(1), 10) }

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readUntil reads output until it contains mark.
func readUntil(t *testing.T, r io.Reader, mark string) string {
	t.Helper()
	var text strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(text.String(), mark) {
		n, err := r.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			t.Fatalf("output ended before %q: %q, %v", mark, text.String(), err)
		}
	}
	return text.String()
}

// within bounds what must not hang.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantCode(t *testing.T, what string, err error, code nod.Code) {
	t.Helper()
	if err == nil || nod.CodeOf(err) != code {
		t.Errorf("%s: got %v, want code %s", what, err, code)
	}
}
