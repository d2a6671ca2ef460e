package runtimetest

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

// Config is what the suite needs to know of a driver.
type Config struct {
	// New opens the driver with its state in dir. The egress configuration, audit
	// and resolver included, must reach every environment's proxy.
	New func(t *testing.T, dir string, e egress.Config) Driver
	// TempDir makes a directory below which workspaces may lie.
	TempDir func(t *testing.T) string
	// Container is a root that an engine mounts: without nosuid on everything, which
	// no_new_privs makes up for, and with a /dev of its own making.
	Container bool
}

// Driver is a runtime.Driver that a test can close.
type Driver interface {
	runtime.Driver
	Close() error
}

const owner = "suite"

// Run holds the driver to the contract, with real environments. On a host where
// the driver cannot work every test is Missing.
func Run(t *testing.T, c Config) {
	if probe := c.New(t, c.TempDir(t), quiet(nil)); true {
		caps := probe.Capabilities(t.Context())
		if err := probe.Close(); err != nil {
			t.Fatal(err)
		}
		if !caps.Supported {
			Missing(t, "an environment: "+strings.Join(caps.Missing, "; ")+" ("+caps.Hint+")")
		}
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, Config)
	}{
		{"AttestationHoldsAfterStart", attestationHolds},
		{"EscapeAttemptsFail", escapesFail},
		{"NoDirectWayOut", noDirectWay},
		{"ProxyRefusesWhatIsNotListed", proxyRefuses},
		{"ProxyLetsListedHostsThrough", proxyLetsThrough},
		{"EnvironmentsDoNotMeet", environmentsDoNotMeet},
		{"SecretsStayInTheirProcess", secretsStay},
		{"LimitsHold", limitsHold},
		{"KillEndsTheWholeTree", killEndsTree},
		{"TheExecRunnerIsNoWayOut", runnerIsNoWayOut},
		{"StopEndsTheWholeTree", stopEndsTree},
		{"ExecStreamsAndStatus", execStreams},
		{"ExecBackpressure", execBackpressure},
		{"ExecEnvironmentIsItsOwn", execEnvironment},
		{"LifecycleIsIdempotent", lifecycle},
		{"UnpreparedSpecIsRefused", unprepared},
		{"WorkspaceAndHomeOutliveAStop", workspaceOutlives},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// quiet is an egress configuration whose events go to record, when there is one.
func quiet(record func(egress.Event)) egress.Config {
	if record == nil {
		record = func(egress.Event) {}
	}
	return egress.Config{Audit: record}
}

// bench is one driver with one provisioned environment, "e1".
type bench struct {
	t *testing.T
	Driver
	workspace, home, root string
}

func open(t *testing.T, c Config, change func(*runtime.Spec), e egress.Config) *bench {
	t.Helper()
	root := c.TempDir(t)
	b := &bench{t: t, Driver: c.New(t, c.TempDir(t), e), root: root}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close driver: %v", err)
		}
	})
	b.workspace, b.home = b.provision("e1", owner, change)
	return b
}

// started is open and Start.
func started(t *testing.T, c Config, change func(*runtime.Spec), e egress.Config) *bench {
	t.Helper()
	b := open(t, c, change, e)
	if _, err := b.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) provision(id, owner string, change func(*runtime.Spec)) (workspace, home string) {
	b.t.Helper()
	workspace, home = mkdir(b.t, b.root, id+"-workspace"), mkdir(b.t, b.root, id+"-home")
	s := runtime.Spec{ID: id, Owner: owner, Image: runtime.HostImage, Workspace: workspace, Home: home, Limits: runtime.Limits{TmpBytes: 16 << 20}}
	if change != nil {
		change(&s)
	}
	p, err := runtime.Prepare(s, runtime.Roots{Allowed: []string{b.root}})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.Provision(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
	return workspace, home
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

// role runs a role of this test binary inside and decodes what it reports.
func (b *bench) role(into any, argv ...string) {
	b.t.Helper()
	out, stderr, status := b.run("e1", "", nod.Command{Argv: append([]string{nod.GuestPath}, argv...)})
	if status.Code != 0 {
		b.t.Fatalf("%v ended with %+v: %s", argv, status, stderr)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		b.t.Fatalf("%v reported %q: %v", argv, out, err)
	}
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
