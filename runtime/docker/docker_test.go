//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/runtimetest"
)

func lockThread() { goruntime.LockOSThread() }

func suite(e *testEngine, archive string) runtimetest.Config {
	return runtimetest.Config{
		New: func(t *testing.T, dir string, ec egress.Config) runtimetest.Driver {
			t.Helper()
			c := e.config(t, archive)
			c.StateDir, c.Egress = dir, ec
			return open(t, c)
		},
		TempDir:   func(t *testing.T) string { return t.TempDir() },
		Container: true,
	}
}

func TestDockerKeepsTheContract(t *testing.T) { keepsTheContract(t, Docker) }

func TestPodmanKeepsTheContract(t *testing.T) { keepsTheContract(t, Podman) }

// keepsTheContract starts a real engine once for everything that needs one.
func keepsTheContract(t *testing.T, name string) {
	e, archive := startEngine(t, name), image(t)
	runtimetest.Run(t, suite(e, archive))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *testEngine, string)
	}{
		{"SecretsStayOutOfTheEngine", secretsStayOut},
		{"AnotherSupervisorsContainersAreLeftAlone", othersAreLeftAlone},
		{"ContainersEndWithASupervisorThatIsKilled", endWithSupervisor},
		{"SourcesThatAreSwappedOrLinkedAreRefused", swappedSources},
		{"TheGuestProgramItselfWillDo", realGuest},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, e, archive) })
	}
}

// env is one environment, "e1", that a driver has provisioned.
func env(t *testing.T, c Config, change func(*runtime.Spec)) (*Driver, string) {
	t.Helper()
	if c.StateDir == "" {
		c.StateDir = t.TempDir()
	}
	d := open(t, c)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	top := t.TempDir()
	s := runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: filepath.Join(top, "ws"), Home: filepath.Join(top, "home")}
	for _, dir := range []string{s.Workspace, s.Home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(&s)
	}
	p, err := runtime.Prepare(s, runtime.Roots{Allowed: []string{top}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return d, top
}

func mustStart(t *testing.T, d *Driver) {
	t.Helper()
	if _, err := d.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
}

// secretsStayOut is C28 and B14: what the engine tells of a container and its
// execs holds nothing of a command.
func secretsStayOut(t *testing.T, e *testEngine, archive string) {
	const secret = "hunter2-docker-5d1b"
	d, _ := env(t, e.config(t, archive), nil)
	mustStart(t, d)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "cat; # " + secret}, Env: map[string]string{"TOKEN": secret}})
	if err != nil {
		t.Fatal(err)
	}
	id := d.envs["e1"].container
	var c struct{ ExecIDs []string }
	if err := d.engine.call(t.Context(), "GET", "/containers/"+id+"/json", nil, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.ExecIDs) == 0 {
		t.Error("the engine tells of no exec, so it cannot be looked at")
	}
	paths := []string{"/containers/" + id + "/json", "/containers/" + id + "/top?ps_args=-eo+pid,args"}
	for _, x := range c.ExecIDs {
		paths = append(paths, "/exec/"+x+"/json")
	}
	for _, path := range paths {
		text, err := d.engine.send(t.Context(), "GET", path, "", nil)
		if err != nil && !refused(err, 500) { // top needs ps, which sees nothing of this namespace
			t.Errorf("%s: %v", path, err)
		}
		if strings.Contains(string(text), secret) && !strings.Contains(path, "/top") {
			t.Errorf("%s shows the secret", path)
		}
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

func othersAreLeftAlone(t *testing.T, e *testEngine, archive string) {
	a, _ := env(t, e.config(t, archive), nil)
	b, _ := env(t, e.config(t, archive), nil)
	mustStart(t, a)
	mustStart(t, b)
	if err := b.Delete(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(t.Context(), "e1"); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("stop of what is deleted: %v", err)
	}
	if list, err := b.List(t.Context(), "o"); err != nil || len(list) != 0 {
		t.Errorf("the second driver lists %v, %v", list, err)
	}
	if list, err := a.List(t.Context(), "o"); err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("the first driver lists %v, %v", list, err)
	}
}

const supervisorRole = "NOD_TEST_DOCKER_SUPERVISOR"

// endWithSupervisor is B12: nobody is left to ask for the end of the containers.
func endWithSupervisor(t *testing.T, e *testEngine, archive string) {
	c := e.config(t, archive)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), supervisorRole+"="+strings.Join([]string{e.name, e.socket, dir, c.Guest, archive}, "|"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 200)
	n, err := out.Read(text)
	if string(text[:n]) != "running\n" {
		t.Errorf("the supervisor said %q, %v", text[:n], err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	// Without a new supervisor: the guest has seen that its host is gone.
	probe, err := connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer probe.close()
	for deadline := time.Now().Add(20 * time.Second); ; {
		left, err := probe.list(t.Context(), map[string]string{labelOwner: "killed"})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != 1 {
			t.Fatalf("the supervisor left %d containers", len(left))
		}
		if !left[0].running() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the container outlives its supervisor")
		}
		<-time.After(20 * time.Millisecond)
	}
	c.StateDir = filepath.Join(dir, "state")
	d := open(t, c)
	if err := d.Delete(t.Context(), "e1"); err != nil {
		t.Error(err)
	}
	if list, err := d.List(t.Context(), "killed"); err != nil || len(list) != 0 {
		t.Errorf("after Delete: %v, %v", list, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// supervise is the process that is killed.
func supervise(args string) error {
	f := strings.Split(args, "|")
	ws := filepath.Join(f[2], "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		return err
	}
	d, err := New(context.Background(), Config{Engine: f[0], Socket: f[1], StateDir: filepath.Join(f[2], "state"), Guest: f[3], Image: testImage, Archive: f[4]})
	if err != nil {
		return err
	}
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "killed", Image: runtime.HostImage, Workspace: ws}, runtime.Roots{Allowed: []string{ws}})
	if err != nil {
		return err
	}
	if err := d.Provision(context.Background(), p); err != nil {
		return err
	}
	if _, err := d.Start(context.Background(), "e1"); err != nil {
		return err
	}
	if _, err := d.Exec(context.Background(), "e1", nod.Command{Argv: []string{"sh", "-c", "setsid sleep 600 & sleep 600"}}); err != nil {
		return err
	}
	fmt.Println("running")
	select {}
}

func swappedSources(t *testing.T, e *testEngine, archive string) {
	d, top := env(t, e.config(t, archive), nil)
	ws := filepath.Join(top, "ws")
	if err := errors.Join(os.Rename(ws, ws+"-old"), os.Symlink("/etc", ws)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("over another directory: %v", err)
	}
	d, _ = env(t, e.config(t, archive), func(s *runtime.Spec) {
		tools := filepath.Join(filepath.Dir(s.Workspace), "tools")
		if err := errors.Join(os.Mkdir(tools, 0o755), os.Symlink("/tmp", filepath.Join(s.Home, "bin"))); err != nil {
			t.Fatal(err)
		}
		s.Mounts = []runtime.Mount{{Source: tools, Target: runtime.HomePath + "/bin/t"}}
	})
	if _, err := d.Start(t.Context(), "e1"); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("a mount through a planted link: %v", err)
	}
}

// realGuest starts an environment with cmd/nod-guest, as it is shipped.
func realGuest(t *testing.T, e *testEngine, archive string) {
	c := e.config(t, archive)
	c.Guest = filepath.Join(t.TempDir(), "nod-guest")
	build := exec.Command("go", "build", "-o", c.Guest, "nod/cmd/nod-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	d, _ := env(t, c, func(s *runtime.Spec) { s.Home = "" })
	mustStart(t, d)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "echo x > ~/f && cat ~/f"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != "x\n" {
		t.Errorf("got %q, %v", out, err)
	}
}
